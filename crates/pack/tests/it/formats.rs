//! Packs of every format that was ever written are opened, and hold what they held.
//!
//! `tests/fixtures/make.rs` made them. A format that changes gets new ones; those that are there stay.

use std::path::PathBuf;

use duramen_pack::branch::{diff, BranchPack};
use duramen_pack::container::{hex, Kind, Pack};
use duramen_store::{Options, Part, Scope, Value};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1").join(name)
}

#[test]
fn the_first_container_is_read() {
    let pack = Pack::open(fixture("container.dpack")).unwrap();
    assert_eq!(pack.kind(), Kind::Graph);
    assert_eq!(hex(&pack.root_digest()), "ff85e63cfaf9614bd1bf5f7dd75fdf11553a340d0314673a0aee429a0cd78f08");
    assert_eq!(*pack.manifest().unwrap(), *b"{\"made\":1}");
    let names: Vec<_> =
        pack.sections().iter().map(|section| (section.name.as_str(), section.records)).collect();
    assert_eq!(names, [("compressed", 4), ("dictionary", 1), ("empty", 0)]);
    let mut bytes = Vec::new();
    let compressed = pack.section("compressed").unwrap().unwrap();
    compressed.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, "birch and ".repeat(50).as_bytes());
    compressed.read(1, &mut bytes).unwrap();
    assert_eq!(bytes, b"raw, for it is short");
    pack.section("dictionary").unwrap().unwrap().read(0, &mut bytes).unwrap();
    assert_eq!(bytes, b"the quick brown fox jumps over the lazy dog again");
    pack.verify(&mut |_, _| {}).unwrap();
}

#[test]
fn the_first_branch_packs_are_read() {
    let pack = BranchPack::open(fixture("branch.dpack")).unwrap();
    pack.verify(&mut |_, _| {}).unwrap();
    let store = pack.store(Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    assert_eq!(main.kv().count("key ").unwrap(), 1000);
    assert_eq!(main.kv().get("key 0500").unwrap(), Some(Value::Int(500)));
    assert_eq!(main.kv().get("bytes").unwrap(), Some(Value::Bytes(vec![0, 1, 254, 255])));
    assert_eq!(main.space("other").unwrap().kv().get("key").unwrap(), Some("in another space".into()));
    assert_eq!(main.state().read("cell").unwrap().unwrap().value, "second".into());
    assert_eq!(main.events().verify().unwrap().first_bad, None);
    assert_eq!(main.events().len().unwrap(), 1);
    assert_eq!(main.json().get("doc", "a[1]").unwrap().unwrap().to_string(), "2");
    assert_eq!(main.vectors().collection("points").get("p").unwrap().unwrap().vector, [1.0, 2.0]);

    let changes = BranchPack::open(fixture("changes.dpack")).unwrap();
    changes.verify(&mut |_, _| {}).unwrap();
    assert_eq!(changes.info().base.unwrap().file, "branch.dpack");
    let found = diff(&pack, &changes, &Part::default(), 10).unwrap();
    assert_eq!((found.added, found.removed, found.modified), (1, 0, 1));
    let store = changes.store(Options::default()).unwrap();
    let large = store.branch("main").unwrap().kv().get("large").unwrap();
    assert!(large == Some(Value::Bytes(vec![7; 3 << 20])));
}
