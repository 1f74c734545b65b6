//! JSON documents: paths, patches, limits, and what a change writes to the log.

use duramen_base::entropy;
use duramen_store::json::{Json, JsonError, Path, Segment, MAX_DOCUMENT_BYTES};
use duramen_store::{Branch, Options, Scope, Store, StoreError};
use serde_json::{json, Value};

fn value<S: Scope>(scope: &S, key: &str, path: &str) -> Option<Value> {
    scope.json().get(key, path).unwrap().map(|json| json.to_value().unwrap())
}

#[test]
fn values_are_set_read_and_deleted_at_paths() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let docs = main.json();
    assert_eq!(docs.get("a", "").unwrap(), None);
    assert!(!docs.exists("a").unwrap());
    // A missing document is made along the path.
    docs.set("a", "x.y", json!(1)).unwrap();
    assert_eq!(value(&main, "a", "$"), Some(json!({"x": {"y": 1}})));
    let text: Json = "[ 1, 2 ]".parse().unwrap();
    docs.set("a", Path::root().key("x").key("z"), &text).unwrap();
    docs.set("a", String::from("/x/z/-"), json!("\u{e9}")).unwrap();
    assert_eq!(docs.get("a", "x").unwrap().unwrap().as_str(), "{\"y\":1,\"z\":[1,2,\"\u{e9}\"]}");
    assert_eq!(docs.get("a", "x.z[3]").unwrap(), None);
    assert_eq!(docs.get("a", "x.y.deeper").unwrap(), None);

    assert!(docs.delete("a", "x.z[1]").unwrap());
    assert!(!docs.delete("a", "x.z[2]").unwrap());
    assert!(!docs.delete("b", "x").unwrap() && !docs.delete("b", "").unwrap());
    assert_eq!(value(&main, "a", "x.z"), Some(json!([1, "\u{e9}"])));
    docs.set("a", "", json!(7)).unwrap();
    assert_eq!(value(&main, "a", ""), Some(json!(7)));
    assert!(docs.exists("a").unwrap());
    assert!(docs.delete("a", "$").unwrap());
    assert!(!docs.exists("a").unwrap());
}

#[test]
fn what_is_not_allowed_is_refused_and_changes_nothing() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let docs = main.json();
    docs.set("a", "", json!({"n": 1, "list": [1]})).unwrap();
    let refused = |result: Result<u64, StoreError>| match result {
        Err(StoreError::Json(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(docs.set("a", "x[", json!(1))), JsonError::Path(_)));
    assert!(matches!(refused(docs.set("a", "n.x", json!(1))), JsonError::WrongType { .. }));
    assert!(matches!(refused(docs.set("a", "list[2]", json!(1))), JsonError::IndexOutOfRange { .. }));
    assert!(matches!(refused(docs.set("new", "[1]", json!(1))), JsonError::IndexOutOfRange { .. }));
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    docs.set("deep", "", &deep).unwrap();
    assert!(matches!(refused(docs.set("a", "x", &deep)), JsonError::TooDeep { .. }));
    assert!(matches!(refused(docs.merge_patch("a", &json!({ "x": deep }))), JsonError::TooDeep { .. }));
    assert!(matches!(docs.get("a", "x["), Err(StoreError::Json(JsonError::Path(_)))));
    assert!(matches!(docs.delete("a", "x["), Err(StoreError::Json(JsonError::Path(_)))));
    assert!(matches!(docs.set("", "", json!(1)), Err(StoreError::InvalidName { .. })));
    assert!(matches!(docs.get("a\0", ""), Err(StoreError::InvalidName { .. })));
    assert_eq!(docs.list("", None, 10).unwrap().items, ["a", "deep"]);
    assert_eq!(value(&main, "a", ""), Some(json!({"n": 1, "list": [1]})));
}

#[test]
fn the_limit_of_size_holds_after_a_change() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let docs = main.json();
    // {"fill":"...","n":1} is exactly as large as it may be.
    let fill = MAX_DOCUMENT_BYTES - r#"{"fill":"","n":1}"#.len();
    docs.set("a", "", json!({"fill": "x".repeat(fill), "n": 1})).unwrap();
    let too_large = |result: Result<u64, StoreError>| matches!(result, Err(StoreError::Json(JsonError::TooLarge { len, .. })) if len == MAX_DOCUMENT_BYTES + 1);
    assert!(too_large(docs.set("a", "n", json!(10))));
    assert!(too_large(docs.merge_patch("a", &json!({"n": 10}))));
    assert!(too_large(main.begin().unwrap().json().set("a", "n", json!(10)).map(|()| 0)));
    docs.set("a", "n", json!(2)).unwrap();
    assert_eq!(docs.get("a", "").unwrap().unwrap().as_str().len(), MAX_DOCUMENT_BYTES);
    assert_eq!(value(&main, "a", "n"), Some(json!(2)));
}

#[test]
fn patches_follow_rfc_7396() {
    // The examples of the RFC's appendix, but for the order of members.
    let examples = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ];
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for (before, patch, after) in examples {
        main.json().set("a", "", &before).unwrap();
        main.json().merge_patch("a", &patch).unwrap();
        assert_eq!(value(&main, "a", ""), Some(after), "{before} patched with {patch}");
    }
    main.json().merge_patch("new", &json!({"a": {"b": null, "c": 1}, "d": null})).unwrap();
    assert_eq!(value(&main, "new", ""), Some(json!({"a": {"c": 1}})));
    main.json().merge_patch("null", &json!(null)).unwrap();
    assert_eq!(value(&main, "null", ""), Some(json!(null)));
}

#[test]
fn several_changes_are_one_commit() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let docs = main.json();
    let items = [("a", "", json!({})), ("a", "x", json!(1)), ("b", "y", json!(2)), ("a", "x", json!(3))];
    docs.set_many(items).unwrap();
    assert_eq!(value(&main, "a", ""), Some(json!({"x": 3})));
    let failed = docs.set_many([("a", "x", json!(4)), ("a", "x.y", json!(5))]);
    assert!(matches!(failed, Err(StoreError::Json(JsonError::WrongType { .. }))));
    assert_eq!(value(&main, "a", ""), Some(json!({"x": 3})));
    let found = docs.get_many([("a", "x"), ("c", ""), ("b", "y"), ("b", "z")]).unwrap();
    let found: Vec<Option<&str>> = found.iter().map(|json| json.as_ref().map(Json::as_str)).collect();
    assert_eq!(found, [Some("3"), None, Some("2"), None]);
    assert_eq!(docs.delete_many([("a", "x"), ("a", "x"), ("a", ""), ("a", ""), ("c", "")]).unwrap(), 2);
    assert_eq!(docs.list("", None, 10).unwrap().items, ["b"]);
}

#[test]
fn documents_are_listed_and_counted_by_prefix() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let keys = ["a/1", "a/2", "a/3", "b/1"];
    main.json().set_many(keys.map(|key| (key, "", json!(1)))).unwrap();
    main.space("other").unwrap().json().set("c", "", json!(1)).unwrap();
    main.kv().put("a/4", 1).unwrap();
    let page = main.json().list("a/", None, 2).unwrap();
    assert_eq!((page.items, page.next.as_deref()), (vec!["a/1".into(), "a/2".into()], Some("a/2")));
    let page = main.json().list("a/", Some("a/2"), 2).unwrap();
    assert_eq!((page.items, page.next), (vec!["a/3".to_owned()], None));
    assert_eq!((main.json().count("a/").unwrap(), main.json().count("").unwrap()), (3, 4));
    let tx = main.begin().unwrap();
    tx.json().delete("a/1", "").unwrap();
    tx.json().set("a/2", "", json!(2)).unwrap();
    tx.json().set("a/9", "", json!(2)).unwrap();
    assert_eq!(tx.json().count("a/").unwrap(), 3);
    assert_eq!(tx.json().list("a/", None, 9).unwrap().items, ["a/2", "a/3", "a/9"]);
}

#[test]
fn transactions_and_forks_have_their_own_view() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.json().set("a", "", json!({"n": [0]})).unwrap();
    let tx = main.begin().unwrap();
    tx.json().set("a", "n[0]", json!(1)).unwrap();
    tx.json().set("a", "n[1]", json!(2)).unwrap();
    tx.json().merge_patch("a", &json!({"m": 3})).unwrap();
    assert_eq!(value(&tx, "a", ""), Some(json!({"n": [1, 2], "m": 3})));
    assert_eq!(value(&main, "a", ""), Some(json!({"n": [0]})));
    assert!(tx.json().set("a", "n.x", json!(1)).is_err());
    let fork = store.fork("main", "fork").unwrap();
    tx.commit().unwrap();
    fork.json().set("a", "n[0]", json!("fork")).unwrap();
    assert_eq!(value(&main, "a", ""), Some(json!({"n": [1, 2], "m": 3})));
    assert_eq!(value(&fork, "a", ""), Some(json!({"n": ["fork"]})));

    let tx = main.begin().unwrap();
    tx.json().set("a", "m", json!(4)).unwrap();
    main.json().set("a", "n", json!(5)).unwrap();
    assert!(matches!(tx.commit(), Err(StoreError::TransactionConflict { .. })));
}

#[test]
fn a_change_at_a_path_logs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    let fill = "x".repeat(100_000);
    main.json().set("a", "", json!({"n": 1, "fill": fill, "list": [1, 2, 3]})).unwrap();
    let logged = |change: &dyn Fn(&Branch)| {
        let before = store.counters().log_bytes;
        change(&main);
        store.counters().log_bytes - before
    };
    let set = logged(&|main| assert!(main.json().set("a", "list[1]", json!("two")).is_ok()));
    let patched = logged(&|main| assert!(main.json().merge_patch("a", &json!({"n": null})).is_ok()));
    let deleted = logged(&|main| assert!(main.json().delete("a", "list[0]").unwrap()));
    for bytes in [set, patched, deleted] {
        assert!((1..200).contains(&bytes), "{bytes} bytes were logged for a small change");
    }
    assert_eq!(value(&main, "a", ""), Some(json!({"fill": fill, "list": ["two", 3]})));
    store.close().unwrap();
    drop((main, store));
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    assert_eq!(value(&main, "a", "list"), Some(json!(["two", 3])));
}

/// Sets in a parsed document as [`Documents::set`](duramen_store::json::Documents::set) says. False if it cannot be.
fn set_in(target: &mut Value, path: &[Segment], new: &Value) -> bool {
    let Some((step, rest)) = path.split_first() else {
        *target = new.clone();
        return true;
    };
    let created = || match rest.first() {
        Some(Segment::Index(_)) => json!([]),
        _ => json!({}),
    };
    match (target, step) {
        (Value::Object(members), Segment::Key(key)) => {
            let mut member = members.get(key).cloned().unwrap_or_else(created);
            let done = set_in(&mut member, rest, new);
            if done {
                members.insert(key.clone(), member);
            }
            done
        }
        (Value::Array(elements), Segment::Index(index)) if *index <= elements.len() => {
            let mut element = elements.get(*index).cloned().unwrap_or_else(created);
            let done = set_in(&mut element, rest, new);
            if done {
                elements.truncate(elements.len().max(*index));
                if *index == elements.len() {
                    elements.push(element);
                } else {
                    elements[*index] = element;
                }
            }
            done
        }
        _ => false,
    }
}

fn delete_in(target: &mut Value, path: &[Segment]) -> bool {
    let Some((step, rest)) = path.split_first() else { return false };
    match (target, step) {
        (Value::Object(members), Segment::Key(key)) if rest.is_empty() => members.remove(key).is_some(),
        (Value::Array(elements), Segment::Index(index)) if rest.is_empty() => {
            let there = *index < elements.len();
            if there {
                elements.remove(*index);
            }
            there
        }
        (Value::Object(members), Segment::Key(key)) => {
            members.get_mut(key).is_some_and(|member| delete_in(member, rest))
        }
        (Value::Array(elements), Segment::Index(index)) => {
            elements.get_mut(*index).is_some_and(|element| delete_in(element, rest))
        }
        _ => false,
    }
}

#[test]
fn random_changes_agree_with_a_parsed_document_and_outlive_the_store() {
    let seed = 0x0d0c_2751;
    let mut rng = entropy::rng(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut models: [Option<Value>; 3] = [None, None, None];
    let mut refused = 0;
    for round in 0..4 {
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let main = store.branch("main").unwrap();
        for (key, model) in models.iter().enumerate() {
            assert_eq!(&value(&main, &key.to_string(), ""), model, "seed {seed:#x}, round {round}");
        }
        for step in 0..400 {
            let place = format!("seed {seed:#x}, round {round}, step {step}");
            let which = rng.usize(..3);
            let (key, model) = (which.to_string(), &mut models[which]);
            let path: Vec<Segment> = (0..rng.usize(..4))
                .map(|_| match rng.bool() {
                    true => Segment::Key(["a", "b", "\u{e9} \"quoted\""][rng.usize(..3)].to_owned()),
                    false => Segment::Index(rng.usize(..3)),
                })
                .collect();
            let new = match rng.u8(..5) {
                0 => json!({}),
                1 => json!([]),
                2 => json!({"a": {"b": [rng.u32(..)]}}),
                3 => json!([1.5, "text, with ] and }"]),
                _ => json!(rng.u64(..)),
            };
            let at = Path::from(path.clone());
            if rng.u8(..4) == 0 {
                let expected = match (path.is_empty(), model.as_mut()) {
                    (true, _) => model.take().is_some(),
                    (false, Some(model)) => delete_in(model, &path),
                    (false, None) => false,
                };
                assert_eq!(main.json().delete(&key, &at).unwrap(), expected, "{place}: delete {at}");
            } else {
                let first = match path.first() {
                    Some(Segment::Index(_)) => json!([]),
                    _ => json!({}),
                };
                let mut changed = model.clone().unwrap_or(first);
                let expected = set_in(&mut changed, &path, &new);
                let done = if rng.bool() {
                    main.json().set(&key, &at, &new).is_ok()
                } else {
                    main.transact(|tx| {
                        tx.json().set("other", "x", json!(step))?;
                        tx.json().set(&key, &at, &new)
                    })
                    .is_ok()
                };
                assert_eq!(done, expected, "{place}: set {at} to {new}");
                if done {
                    *model = Some(changed);
                } else {
                    refused += 1;
                }
            }
            assert_eq!(&value(&main, &key, ""), model, "{place}: after a change at {at}");
        }
        store.close().unwrap();
    }
    assert!((100..1400).contains(&refused), "{refused} of 1600 changes were refused: the mix is off");
}
