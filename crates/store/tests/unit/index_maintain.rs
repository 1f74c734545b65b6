use serde_json::json;

use crate::access::Access as _;
use crate::index::Index;
use crate::keys::{self, Primitive};
use crate::{MergeOptions, Scope as _, Store, StoreError};

/// Puts a declaration into the tree of the main branch by no commit, as if a file had it.
fn plant(store: &Store, declaration: &[u8]) {
    let branch = store.branch("main").unwrap();
    let engine = branch.engine();
    let version = engine.reserve_versions(1).unwrap() - 1;
    let writer = engine.lock_writer();
    let mut slot = branch.state.slot_mut(&writer);
    let key = keys::key(Primitive::Index, "default", b"i");
    slot.tree(engine.forest()).unwrap().insert(engine.forest(), &key, version, declaration).unwrap();
}

/// A declaration of a later version, or one that was damaged: what does not concern it goes on, and it can be dropped.
#[test]
fn an_index_that_cannot_be_read_stops_its_rows_only_and_can_be_dropped() {
    let declarations: [&[u8]; 4] =
        [b"\x02{}", b"\x01garbage", b"", b"\x01{\"on\":\"event\",\"fields\":[\"a\"]}"];
    for declaration in declarations {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        main.json().set("a", "", json!({"n": 1})).unwrap();
        plant(&store, declaration);
        main.state().init("cell", 1).unwrap();
        main.space("other").unwrap().json().set("a", "", json!(1)).unwrap();
        let index = Index::new(Primitive::Json, ["n"]);
        for refused in [
            main.json().set("b", "", json!(1)).map(drop),
            main.kv().put("b", 1).map(drop),
            main.indexes().list().map(drop),
            main.indexes().create("i", &index).map(drop),
            main.json().find(&crate::index::Query::default(), 1).map(drop),
        ] {
            let error = refused.unwrap_err();
            let is_told = matches!(error, StoreError::Damaged(_) | StoreError::FromTheFuture { .. });
            assert!(is_told, "{declaration:?}: {error}");
        }
        assert!(store.verify(&mut |_| {}).unwrap().branches[0].damage.is_some());
        // Somebody else's store takes none of it, and neither does a merge.
        let other = Store::memory();
        assert!(other.import_branch("copy", &main.snapshot().unwrap(), &mut |_| {}).is_err());
        let fork = main.fork("fork").unwrap();
        assert!(fork.indexes().drop("i").unwrap());
        fork.json().set("b", "", json!({"n": 2})).unwrap();
        fork.indexes().create("i", &index).unwrap();
        // A merge that puts it in order can be done.
        store.merge("fork", "main", MergeOptions::default()).unwrap();
        assert_eq!(main.indexes().get("i").unwrap(), index);
        assert_eq!(store.verify(&mut |_| {}).unwrap().branches[0].damage, None);
        let found = main.json().find(&crate::index::Query::default().order(["n"]), 9).unwrap();
        assert_eq!((found.rows.len(), found.rows[0].0.as_str()), (2, "a"));
    }
}

/// A row that no index can hold, as an import of an earlier version may have brought one, can be replaced and deleted.
#[test]
fn a_row_that_no_index_can_hold_can_be_replaced() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.json().set("long", "", json!({"n": "x".repeat(5000)})).unwrap();
    main.write(|edit| {
        let key = keys::key(Primitive::Json, "default", b"bad");
        edit.put(&key, &mut |out| out.extend_from_slice(b"{"))
    })
    .unwrap();
    let refused = main.indexes().create("i", &Index::new(Primitive::Json, ["n"])).unwrap_err().to_string();
    assert!(refused.contains("json default/bad cannot be read"), "{refused}");
    plant(&store, b"\x01{\"on\":\"json\",\"fields\":[\"n\"]}");
    main.json().set("long", "", json!({"n": 1})).unwrap();
    assert!(main.json().delete("bad", "").unwrap());
    assert_eq!(store.verify(&mut |_| {}).unwrap().branches[0].damage, None);
}
