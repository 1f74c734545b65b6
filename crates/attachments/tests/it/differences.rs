//! What differs between two branches is told once, by pages, in whichever order it lies.

use duramen_api::attachments::store::{EntryKind, StoreChange};
use duramen_attachments::store::{difference, DifferenceAsked};
use duramen_store::{vector::Metric, Scope, Store};
use serde_json::json;

const ASKED: DifferenceAsked<'_> =
    DifferenceAsked { from: "main", to: "try", kind: None, space: None, prefix: "", cursor: None, limit: 7 };

fn all(store: &Store, asked: DifferenceAsked<'_>) -> Vec<StoreChange> {
    let (mut changes, mut cursor): (Vec<StoreChange>, Option<String>) = Default::default();
    loop {
        let page = difference(store, &DifferenceAsked { cursor: cursor.as_deref(), ..asked }).unwrap();
        assert!(page.changes.len() <= asked.limit);
        changes.extend(page.changes);
        cursor = page.next;
        if cursor.is_none() {
            return changes;
        }
    }
}

#[test]
fn pages_have_each_change_once() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put_many([("gone", 1), ("same", 1), ("other", 1)]).unwrap();
    let fork = store.fork("main", "try").unwrap();
    fork.kv().delete("gone").unwrap();
    fork.kv().put("other", "<b>\u{202e}").unwrap();
    for space in ["default", "aa", "zz"] {
        let space = fork.space(space).unwrap();
        for number in 0..20_u64 {
            space.kv().put([b'k', number as u8], number as i64).unwrap();
            space.json().set(&format!("d/{number}"), "$", json!({ "n": number })).unwrap();
            space.events().append("tick", json!({ "n": number })).unwrap();
        }
        space.vectors().create("points", 2, Metric::Dot).unwrap();
        space.vectors().collection("points").upsert("p", &[1.0, 2.0], None).unwrap();
    }
    let wanted = store.diff("main", "try", &Default::default(), 1000).unwrap();
    for limit in [1, 7, 1000] {
        let found = all(&store, DifferenceAsked { limit, ..ASKED });
        assert_eq!(found.len() as u64, wanted.added + wanted.removed + wanted.modified, "{limit}");
        for (found, wanted) in found.iter().zip(&wanted.entries) {
            assert_eq!(
                (&found.space, found.from.is_some(), found.to.is_some()),
                (&wanted.space, wanted.left.is_some(), wanted.right.is_some())
            );
        }
    }
    let other = all(&store, ASKED).into_iter().find(|change| change.key == "other").unwrap();
    assert_eq!(other.to.unwrap().text, "<b>\\xe2\\x80\\xae");
    assert_eq!(other.from.unwrap().text, "1");
    let only = DifferenceAsked { kind: Some(EntryKind::Json), space: Some("aa"), prefix: "d/1", ..ASKED };
    assert_eq!(all(&store, only).len(), 11);
    let points = DifferenceAsked { kind: Some(EntryKind::Vectors), prefix: "points/", ..ASKED };
    assert_eq!(all(&store, points).len(), 3);
    // The other way round, and with itself.
    assert_eq!(
        all(&store, DifferenceAsked { from: "try", to: "main", ..ASKED }).len(),
        all(&store, ASKED).len()
    );
    assert!(all(&store, DifferenceAsked { from: "try", ..ASKED }).is_empty());
}

#[test]
fn cursors_that_are_none_are_refused() {
    let store = Store::memory();
    store.fork("main", "try").unwrap();
    for cursor in ["", "x", "kv/a", "rows/a/b"] {
        let error = difference(&store, &DifferenceAsked { cursor: Some(cursor), ..ASKED }).err().unwrap();
        assert_eq!(error.code(), "bad_request", "{cursor}");
    }
    assert_eq!(
        difference(&store, &DifferenceAsked { to: "none", ..ASKED }).err().unwrap().code(),
        "unknown_branch"
    );
}
