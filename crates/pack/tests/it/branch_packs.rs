//! A branch in a pack is the branch: read where it lies, or taken into another store.

use std::path::Path;

use duramen_pack::branch::{diff, export, BranchPack, BranchPackError, ExportOptions, Exported};
use duramen_pack::container::{Kind, Pack, PackWriter};
use duramen_pack::PackError;
use duramen_store::vector::{Metric, SearchOptions};
use duramen_store::{Branch, Options, Part, Scope, Snapshot, Store, StoreError, Value};
use serde_json::json;

/// Something of every kind, in two spaces.
fn fill(branch: &Branch) {
    for space in ["default", "other"] {
        let space = branch.space(space).unwrap();
        for number in 0..500 {
            space.kv().put(format!("key {number:04}"), format!("value {number} {}", space.name())).unwrap();
        }
        space.state().init("leader", "alice").unwrap();
        space.state().set("leader", "bob").unwrap();
        for number in 0..50 {
            space
                .events()
                .append(if number % 2 == 0 { "even" } else { "odd" }, json!({ "n": number }))
                .unwrap();
        }
        space.json().set("user", "$", json!({ "name": "Ada", "tags": [1, 2, 3] })).unwrap();
        let vectors = space.vectors();
        vectors.create("points", 3, Metric::Euclidean).unwrap();
        let points = vectors.collection("points");
        for number in 0..40 {
            points.upsert(&format!("p{number}"), &[number as f32, 1.0, 2.0], None).unwrap();
        }
    }
}

fn check(branch: &Branch) {
    for space in ["default", "other"] {
        let space = branch.space(space).unwrap();
        assert_eq!(space.kv().count("").unwrap(), 500);
        let expected = Value::from(format!("value 123 {}", space.name()));
        assert_eq!(space.kv().get("key 0123").unwrap(), Some(expected));
        let cell = space.state().read("leader").unwrap().unwrap();
        assert_eq!(cell.value, "bob".into());
        assert_eq!(space.events().len().unwrap(), 50);
        assert_eq!(space.events().by_type("odd", None, 100).unwrap().len(), 25);
        assert_eq!(space.events().verify().unwrap().first_bad, None);
        assert_eq!(space.json().get("user", "name").unwrap().unwrap().to_string(), "\"Ada\"");
        let points = space.vectors().collection("points");
        let found = points.search(&[7.2, 1.0, 2.0], 2, &SearchOptions::default()).unwrap();
        assert_eq!(found.iter().map(|found| found.key.as_str()).collect::<Vec<_>>(), ["p7", "p8"]);
    }
}

fn export_to(branch: &Branch, path: &Path, base: Option<&BranchPack>) -> Exported {
    let options = ExportOptions { base: base.cloned(), ..ExportOptions::default() };
    export(branch, path, options, &mut |done, all| assert!(done <= all)).unwrap()
}

fn assert_same(left: &Snapshot, right: &Snapshot) {
    let diff = left.diff(right, &Part::default(), 5).unwrap();
    assert!(diff.entries.is_empty() && !diff.truncated, "{:?}", diff.entries);
    assert_eq!(left.entries(), right.entries());
}

fn open_store(path: &Path) -> Store {
    Store::open(path, Options::default()).unwrap()
}

#[test]
fn every_kind_of_data_is_read_where_it_lies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("main.dpack");
    let store = open_store(&dir.path().join("store"));
    let main = store.branch("main").unwrap();
    fill(&main);
    let exported = export_to(&main, &path, None);
    assert_eq!(exported.entries, main.snapshot().unwrap().entries());

    let pack = BranchPack::open(&path).unwrap();
    let info = pack.info();
    assert_eq!((info.branch.as_str(), info.entries, info.nodes), ("main", exported.entries, exported.nodes));
    let packed = pack.store(Options::default()).unwrap();
    let branch = packed.branch("main").unwrap();
    check(&branch);
    assert_same(&main.snapshot().unwrap(), &branch.snapshot().unwrap());
    assert!(matches!(branch.kv().put("a", 1), Err(StoreError::ReadOnly)));
    assert!(matches!(packed.fork("main", "x"), Err(StoreError::ReadOnly)));
    assert!(matches!(packed.branch("man"), Err(StoreError::BranchNotFound { hint: Some(_), .. })));
    packed.close().unwrap();
    pack.verify(&mut |_, _| {}).unwrap();
}

/// An export looks at nodes that are not stored yet. If it changed anything about them, the next checkpoint would leave
/// them out.
#[test]
fn an_export_leaves_the_store_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("store");
    {
        let store = open_store(&folder);
        let main = store.branch("main").unwrap();
        fill(&main);
        export_to(&main, &dir.path().join("a.dpack"), None);
        main.kv().put("after", 1).unwrap();
        store.checkpoint().unwrap();
        export_to(&main, &dir.path().join("b.dpack"), None);
        main.kv().put("later", 2).unwrap();
        store.close().unwrap();
    }
    let store = open_store(&folder);
    let main = store.branch("main").unwrap();
    assert_eq!(main.kv().get("later").unwrap(), Some(Value::Int(2)));
    main.kv().delete("after").unwrap();
    main.kv().delete("later").unwrap();
    check(&main);
}

#[test]
fn an_imported_branch_is_durable_and_like_the_original() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("try.dpack");
    let there = Store::memory();
    let origin = there.fork("main", "try").unwrap();
    fill(&origin);
    export_to(&origin, &path, None);
    let pack = BranchPack::open(&path).unwrap();
    let folder = dir.path().join("store");
    {
        let here = open_store(&folder);
        here.branch("main").unwrap().kv().put("mine", 1).unwrap();
        let mut progress = Vec::new();
        let rows = pack.import(&here, "theirs", &mut |done, all| progress.push((done, all))).unwrap();
        assert_eq!(progress.last(), Some(&(rows, rows)));
        // Not closed: what was imported needs no last checkpoint.
        assert!(matches!(
            pack.import(&here, "theirs", &mut |_, _| {}),
            Err(BranchPackError::Store(StoreError::BranchExists { .. }))
        ));
        assert!(matches!(
            pack.import(&here, "main", &mut |_, _| {}),
            Err(BranchPackError::Store(StoreError::BranchExists { .. }))
        ));
        assert!(pack.import(&here, "no name", &mut |_, _| {}).is_err());
        drop(here);
    }
    let here = open_store(&folder);
    let theirs = here.branch("theirs").unwrap();
    check(&theirs);
    assert_same(&origin.snapshot().unwrap(), &theirs.snapshot().unwrap());
    assert_eq!(here.branches(false).unwrap().len(), 2);
    // It is a branch like any other: fork, write, diff, merge. Versions must not have come with it.
    let fork = here.fork("theirs", "fork").unwrap();
    fork.kv().put("new", 1).unwrap();
    fork.kv().put("key 0001", "changed").unwrap();
    let found = here.diff("theirs", "fork", &Part::default(), 10).unwrap();
    assert_eq!((found.added, found.removed, found.modified), (1, 0, 1));
    here.merge("fork", "theirs", duramen_store::MergeOptions::default()).unwrap();
    assert_eq!(theirs.kv().get("new").unwrap(), Some(Value::Int(1)));
    // An empty main takes it, too.
    let empty = Store::memory();
    pack.import(&empty, "main", &mut |_, _| {}).unwrap();
    check(&empty.branch("main").unwrap());
}

#[test]
fn a_pack_against_a_base_holds_what_changed_and_needs_that_base() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let store = open_store(&at("store"));
    let main = store.branch("main").unwrap();
    let rows = (0..50_000).map(|number| (format!("key {number:06}"), format!("value {}", number * 7919)));
    main.bulk_load("default", rows).unwrap();
    let full = export_to(&main, &at("full.dpack"), None);
    let base = BranchPack::open(at("full.dpack")).unwrap();

    main.kv().put("key 025000", "changed").unwrap();
    let monday = export_to(&main, &at("monday.dpack"), Some(&base));
    assert!(monday.nodes <= 4, "{} nodes for one changed key", monday.nodes);
    assert!(monday.left_out > 0);
    assert!(monday.bytes * 10 < full.bytes, "{} bytes against {}", monday.bytes, full.bytes);

    // The base is found beside it, under the name that it had.
    let pack = BranchPack::open(at("monday.dpack")).unwrap();
    let packed = pack.store(Options::default()).unwrap();
    assert_same(&main.snapshot().unwrap(), &packed.branch("main").unwrap().snapshot().unwrap());
    let found = diff(&base, &pack, &Part::default(), 10).unwrap();
    assert_eq!((found.modified, found.entries[0].key.as_str()), (1, "key 025000"));

    // A third on the second, after checkpoints and a restart; nothing changed makes an empty one.
    store.checkpoint().unwrap();
    main.kv().put("key 000001", "changed").unwrap();
    store.close().unwrap();
    drop((main, store));
    let store = open_store(&at("store"));
    let main = store.branch("main").unwrap();
    let tuesday = export_to(&main, &at("tuesday.dpack"), Some(&pack));
    assert!(tuesday.nodes <= 4, "{} nodes for one changed key", tuesday.nodes);
    let third = BranchPack::open(at("tuesday.dpack")).unwrap();
    let same = export_to(&main, &at("same.dpack"), Some(&third));
    assert_eq!((same.nodes, same.left_out), (0, 1));
    let fourth = BranchPack::open(at("same.dpack")).unwrap();
    assert_same(&main.snapshot().unwrap(), &fourth.snapshot().unwrap());
    let target = Store::memory();
    fourth.import(&target, "main", &mut |_, _| {}).unwrap();
    assert_same(&main.snapshot().unwrap(), &target.branch("main").unwrap().snapshot().unwrap());
    assert_eq!(diff(&base, &fourth, &Part::default(), 10).unwrap().modified, 2);
    assert_eq!(diff(&fourth, &third, &Part::default(), 10).unwrap().modified, 0);

    // Elsewhere, it must be named; and no other will do.
    std::fs::create_dir(at("away")).unwrap();
    let away = at("away").join("monday.dpack");
    std::fs::copy(at("monday.dpack"), &away).unwrap();
    let Err(BranchPackError::NeedsBase { base: name, .. }) = BranchPack::open(&away) else {
        panic!("opened")
    };
    assert_eq!(name, "full.dpack");
    BranchPack::open_on(&away, base.clone()).unwrap();
    assert!(matches!(BranchPack::open_on(&away, third), Err(BranchPackError::WrongBase { .. })));
    assert!(matches!(BranchPack::open_on(at("full.dpack"), base), Err(BranchPackError::NoBase { .. })));
    export_to(&main, &at("away").join("full.dpack"), None);
    assert!(matches!(BranchPack::open(&away), Err(BranchPackError::WrongBase { .. })));
    // What is known of it, and whether it is whole, needs no base.
    let alone = Pack::open(&away).unwrap();
    assert_eq!(BranchPack::info_of(&alone).unwrap().base.unwrap().file, "full.dpack");
    BranchPack::verify_alone(&alone, &mut |_, _| {}).unwrap();
}

/// Without it, `export --base a a` leaves a pack that needs what it has just replaced.
#[test]
fn a_pack_never_takes_the_place_of_one_that_it_is_based_on() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("a", 1).unwrap();
    export_to(&main, &at("full.dpack"), None);
    main.kv().put("b", 2).unwrap();
    export_to(&main, &at("monday.dpack"), Some(&BranchPack::open(at("full.dpack")).unwrap()));
    main.kv().put("c", 3).unwrap();
    let base = BranchPack::open(at("monday.dpack")).unwrap();
    std::fs::hard_link(at("full.dpack"), at("same.dpack")).unwrap();
    for name in ["full.dpack", "monday.dpack", "same.dpack"] {
        let options = ExportOptions { base: Some(base.clone()), ..ExportOptions::default() };
        let refused = export(&main, at(name), options, &mut |_, _| {});
        let invalid = matches!(&refused, Err(BranchPackError::Pack(PackError::InvalidInput { .. })));
        assert!(invalid, "{name}: {refused:?}");
    }
    // A file that is not in the chain is replaced as ever.
    std::fs::write(at("tuesday.dpack"), "old").unwrap();
    export_to(&main, &at("tuesday.dpack"), Some(&base));
    assert_eq!(BranchPack::open(at("tuesday.dpack")).unwrap().info().entries, 3);
}

/// A base of another store has other nodes under the same numbers, and other writes under the same versions.
#[test]
fn a_base_of_another_store_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Store::memory(), Store::memory());
    for (store, mark) in [(&one, "one"), (&two, "two")] {
        let main = store.branch("main").unwrap();
        for number in 0..2000 {
            let value = if number % 3 == 0 { "alike" } else { mark };
            main.kv().put(format!("key {number:05}"), value).unwrap();
        }
    }
    let (a, b) = (dir.path().join("a.dpack"), dir.path().join("b.dpack"));
    export_to(&one.branch("main").unwrap(), &a, None);
    let base = BranchPack::open(&a).unwrap();
    export_to(&two.branch("main").unwrap(), &b, Some(&base));
    let pack = BranchPack::open(&b).unwrap();
    let snapshot = two.branch("main").unwrap().snapshot().unwrap();
    assert_same(&snapshot, &pack.snapshot().unwrap());
    let found = diff(&base, &pack, &Part::default(), 1).unwrap();
    assert_eq!((found.modified, found.added, found.removed), (1333, 0, 0));
}

#[test]
fn values_larger_than_a_block_go_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let mut rng = fastrand::Rng::with_seed(7);
    let large: Vec<Vec<u8>> = [1 << 20, (1 << 20) + 1, 5 << 20, 15 << 20, 3]
        .into_iter()
        .map(|len: usize| (0..len).map(|_| rng.u8(..)).collect())
        .collect();
    for (number, value) in large.iter().enumerate() {
        main.kv().put(format!("large {number}"), Value::Bytes(value.clone())).unwrap();
    }
    export_to(&main, &path, None);
    let pack = BranchPack::open(&path).unwrap();
    pack.verify(&mut |_, _| {}).unwrap();
    let packed = pack.store(Options::default()).unwrap();
    for (number, value) in large.iter().enumerate() {
        let found = packed.branch("main").unwrap().kv().get(format!("large {number}")).unwrap();
        assert!(found == Some(Value::Bytes(value.clone())), "value {number}");
    }
    assert_same(&main.snapshot().unwrap(), &packed.branch("main").unwrap().snapshot().unwrap());
}

#[test]
fn an_empty_branch_is_a_branch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let store = Store::memory();
    export_to(&store.branch("main").unwrap(), &path, None);
    let pack = BranchPack::open(&path).unwrap();
    assert_eq!(pack.info().entries, 0);
    assert_eq!(pack.import(&store, "copy", &mut |_, _| {}).unwrap(), 0);
}

#[test]
fn the_store_goes_on_while_a_branch_is_exported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let store = open_store(&dir.path().join("store"));
    let main = store.branch("main").unwrap();
    for number in 0..20_000 {
        main.kv().put(format!("key {number:06}"), number).unwrap();
    }
    let before = main.snapshot().unwrap();
    let mut calls = 0;
    export(&main, &path, ExportOptions::default(), &mut |_, _| {
        calls += 1;
        if calls % 10 == 0 {
            main.kv().put(format!("key {:06}", calls * 7), -1).unwrap();
        }
        if calls % 50 == 0 {
            store.checkpoint().unwrap();
        }
    })
    .unwrap();
    assert!(calls > 20);
    assert_same(&before, &BranchPack::open(&path).unwrap().snapshot().unwrap());
}

/// A flip anywhere is an error of whoever reads it, never another value.
#[test]
fn a_damaged_pack_gives_errors_and_never_other_values() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for number in 0..100 {
        main.kv().put(format!("key {number:04}"), number * 31).unwrap();
    }
    export_to(&main, &path, None);
    let whole = std::fs::read(&path).unwrap();
    let expected = main.snapshot().unwrap();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        match BranchPack::open(&path).and_then(|pack| Ok((pack.snapshot()?, pack))) {
            Ok((snapshot, pack)) => match expected.diff(&snapshot, &Part::default(), 1) {
                // What reading does not touch is found by verifying.
                Ok(diff) => {
                    assert!(diff.entries.is_empty(), "byte {at}");
                    pack.verify(&mut |_, _| {}).unwrap_err();
                }
                Err(_) => refused += 1,
            },
            Err(_) => refused += 1,
        }
    }
    assert!(refused > whole.len() / 2);
}

#[test]
fn a_pack_of_another_kind_is_no_branch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    PackWriter::create(&path, Kind::Graph).unwrap().finish(b"{}").unwrap();
    let error = BranchPack::open(&path).unwrap_err();
    assert!(matches!(error, BranchPackError::Pack(PackError::WrongKind { .. })), "{error}");
    let manifests = [
        "",
        "{}",
        "{\"format\":2}",
        "{\"format\":1,\"branch\":\"b\",\"exported_ms\":0,\"version\":0,\"nodes\":{\"first\":1,\"count\":1},\
         \"root\":{\"node\":5,\"sum\":\"00000000000000000000000000000000\",\"entries\":0,\"bytes\":0},\"base\":null}",
        "{\"format\":1,\"branch\":\"b\",\"exported_ms\":0,\"version\":0,\"nodes\":{\"first\":1,\"count\":1},\
         \"root\":{\"node\":1,\"sum\":\"xyz\",\"entries\":0,\"bytes\":0},\"base\":null}",
        "{\"format\":1,\"branch\":\"b\",\"exported_ms\":0,\"version\":0,\
         \"nodes\":{\"first\":18446744073709551615,\"count\":9},\
         \"root\":{\"node\":1,\"sum\":\"00000000000000000000000000000000\",\"entries\":0,\"bytes\":0},\"base\":null}",
    ];
    for manifest in manifests {
        PackWriter::create(&path, Kind::Branch).unwrap().finish(manifest.as_bytes()).unwrap();
        let error = BranchPack::open(&path).unwrap_err();
        assert!(matches!(error, BranchPackError::Manifest { .. }), "{manifest}: {error}");
    }
    // A manifest that is right, and no nodes.
    let nothing = manifests[3].replace("\"node\":5", "\"node\":1");
    PackWriter::create(&path, Kind::Branch).unwrap().finish(nothing.as_bytes()).unwrap();
    BranchPack::open(&path).unwrap().snapshot().unwrap_err();
}

/// Right digests on bytes that are not nodes: whoever wrote that, it is not a branch.
#[test]
fn verifying_looks_at_nodes_and_not_only_at_digests() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let manifest = "{\"format\":1,\"branch\":\"b\",\"exported_ms\":0,\"version\":0,\"nodes\":{\"first\":1,\"count\":1},\
        \"root\":{\"node\":1,\"sum\":\"00000000000000000000000000000000\",\"entries\":0,\"bytes\":0},\"base\":null}";
    for (block, expected) in
        [(&b"\x00\x01\x01\x04node"[..], "node 1 in "), (b"rubbish", "is of an unknown form")]
    {
        let mut writer = PackWriter::create(&path, Kind::Branch).unwrap();
        writer.begin_section("nodes", Default::default()).unwrap();
        writer.block(&1_u64.to_be_bytes(), 1, block).unwrap();
        writer.finish(manifest.as_bytes()).unwrap();
        let pack = BranchPack::open(&path).unwrap();
        pack.pack().verify(&mut |_, _| {}).unwrap();
        let error = pack.verify(&mut |_, _| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        pack.snapshot().unwrap_err();
    }
}
