//! Each entry is shown once, whatever its key and however large its value, and no page is larger than it may be.

use duramen_api::attachments::store::{EntryKind, StoreEntries};
use duramen_attachments::{
    error::{ReadError, Remedy},
    limits::{FULL_BYTES, PAGE_BYTES, SHORT_BYTES},
    store::{contents, entries, entry, EntriesAsked, EntryAsked},
    text::{escaped, unescaped},
};
use duramen_store::{vector::Metric, Scope, Store, Value};
use serde_json::json;
use std::collections::BTreeMap;

const ALL: EntriesAsked<'_> = EntriesAsked {
    branch: None,
    kind: EntryKind::Kv,
    space: None,
    collection: None,
    prefix: "",
    cursor: None,
    limit: 100,
};
const ONE: EntryAsked<'_> =
    EntryAsked { branch: None, kind: EntryKind::Kv, space: None, collection: None, key: "" };

/// All pages, one after another.
fn pages(store: &Store, asked: EntriesAsked<'_>) -> Vec<StoreEntries> {
    let mut pages: Vec<StoreEntries> = Vec::new();
    loop {
        let cursor = pages.last().and_then(|page| page.next.clone());
        let page = entries(store, &EntriesAsked { cursor: cursor.as_deref(), ..asked }).unwrap();
        let is_last = page.next.is_none();
        pages.push(page);
        assert!(pages.len() < 1000);
        if is_last {
            return pages;
        }
    }
}

fn keys(pages: &[StoreEntries]) -> Vec<String> {
    pages.iter().flat_map(|page| page.entries.iter().map(|entry| entry.key.clone())).collect()
}

#[test]
fn pages_have_each_key_once_whatever_is_in_it() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let mut wanted: Vec<Vec<u8>> = (0..700_u64).map(|number| number.to_be_bytes().to_vec()).collect();
    wanted.extend((0..=255_u8).flat_map(|byte| [vec![b'k', byte], vec![byte, b'\\', 0]]));
    wanted.push("<img src=x onerror=alert(1)>\u{202e}".into());
    wanted.push(vec![0xff; 8000]);
    wanted.sort();
    wanted.dedup();
    main.kv().put_many(wanted.iter().map(|key| (key.clone(), 1))).unwrap();
    for limit in [1000, 100, 7] {
        let found = keys(&pages(&store, EntriesAsked { limit, ..ALL }));
        let found: Vec<Vec<u8>> = found.iter().map(|key| unescaped(key)).collect();
        assert_eq!(found, wanted, "{limit}");
    }
    // A prefix as people type it, and as it is written.
    assert_eq!(keys(&pages(&store, EntriesAsked { prefix: "k", ..ALL })).len(), 257);
    assert_eq!(keys(&pages(&store, EntriesAsked { prefix: "\\xff\\xff", ..ALL })).len(), 1);
    for key in &wanted {
        assert_eq!(entry(&store, &EntryAsked { key: &escaped(key), ..ONE }).unwrap().value.text, "1");
    }
}

#[test]
fn every_kind_is_shown_and_pages_of_it_are_whole() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let space = main.space("tenant").unwrap();
    space.vectors().create("points", 3, Metric::Euclidean).unwrap();
    for number in 0..250 {
        let key = format!("k{number:03}");
        space.kv().put(&key, number).unwrap();
        space.state().set(&key, number).unwrap();
        space.json().set(&key, "$", json!({ "n": number })).unwrap();
        space.events().append(if number % 2 == 0 { "even" } else { "odd" }, json!({ "n": number })).unwrap();
        space.vectors().collection("points").upsert(&key, &[1.0, f32::MAX, number as f32], None).unwrap();
    }
    for number in 0..130 {
        main.space("tenant").unwrap().blobs().put(&format!("k{number:03}"), &b"\x00\xffblob"[..]).unwrap();
    }
    let found = contents(&store, None).unwrap();
    assert_eq!((found.spaces[0].name.as_str(), found.truncated), ("tenant", false));
    assert_eq!(found.spaces[0].kinds.len(), 6);
    assert_eq!(found.spaces[0].collections, ["points"]);
    for kind in EntryKind::ALL.into_iter().filter(|kind| *kind != EntryKind::Indexes) {
        let asked =
            EntriesAsked { kind, space: Some("tenant"), collection: Some("points"), limit: 60, ..ALL };
        let found = keys(&pages(&store, asked));
        let count = if kind == EntryKind::Blobs { 130 } else { 250 };
        let wanted: Vec<String> = match kind {
            EntryKind::Events => (0..250).rev().map(|number: u32| number.to_string()).collect(),
            _ => (0..count).map(|number| format!("k{number:03}")).collect(),
        };
        assert_eq!(found, wanted, "{kind:?}");
        let one =
            EntryAsked { kind, space: Some("tenant"), collection: Some("points"), key: &found[7], ..ONE };
        let one = entry(&store, &one).unwrap();
        assert!(!one.value.text.is_empty() && !one.value.cut, "{one:?}");
        let none = EntryAsked { kind, space: Some("tenant"), collection: Some("points"), key: "999", ..ONE };
        assert!(matches!(entry(&store, &none), Err(ReadError::Unknown(_))), "{kind:?}");
    }
    let odd =
        EntriesAsked { kind: EntryKind::Events, space: Some("tenant"), prefix: "odd", limit: 50, ..ALL };
    assert_eq!(keys(&pages(&store, odd)).len(), 125);
    let blob = EntryAsked { kind: EntryKind::Blobs, space: Some("tenant"), key: "k000", ..ONE };
    let blob = entry(&store, &blob).unwrap();
    assert_eq!((blob.size, blob.value.text.as_str()), (Some(6), "\\x00\\xffblob"));
}

#[test]
fn huge_values_are_cut_and_pages_of_them_are_short() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let long = "\u{e9}<b>".repeat(2 << 20);
    main.kv().put("text", long.as_str()).unwrap();
    main.kv().put("bytes", vec![0_u8; 10 << 20]).unwrap();
    main.kv().put("list", Value::Array(vec![Value::Bytes(vec![7; 1000]); 5000])).unwrap();
    main.json().set("text", "$", json!([long])).unwrap();
    main.blobs().put("text", std::io::repeat(b'x').take(30 << 20)).unwrap();
    use std::io::Read as _;
    for kind in [EntryKind::Kv, EntryKind::Json, EntryKind::Blobs] {
        for found in entries(&store, &EntriesAsked { kind, ..ALL }).unwrap().entries {
            assert!(found.value.cut && found.value.text.len() <= SHORT_BYTES, "{kind:?} {}", found.key);
            let whole = entry(&store, &EntryAsked { kind, key: &found.key, ..ONE }).unwrap();
            assert!(whole.value.cut && whole.value.text.len() <= FULL_BYTES, "{kind:?} {}", found.key);
            assert!(whole.value.text.len() > FULL_BYTES / 2, "{kind:?} {}", found.key);
        }
    }
    // Keys that are as long as they may be, a byte of which takes four.
    main.kv().put_many((0..1000_u64).map(|n| ([&n.to_be_bytes()[..], &[0; 8000]].concat(), 1))).unwrap();
    let page = entries(&store, &EntriesAsked { limit: 1000, ..ALL }).unwrap();
    let bytes: usize = page.entries.iter().map(|entry| entry.key.len()).sum();
    assert!(bytes < PAGE_BYTES + 40_000 && page.next.is_some(), "{bytes}");
    assert_eq!(keys(&pages(&store, EntriesAsked { limit: 1000, ..ALL })).len(), 1003);
}

#[test]
fn values_are_written_so_that_they_are_what_they_were() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let object = BTreeMap::from([
        ("\u{202e}\"<script>".to_owned(), Value::Float(f64::NAN)),
        ("bytes".to_owned(), Value::Bytes(vec![0, 255])),
        (
            "list".to_owned(),
            Value::Array(vec![Value::Null, Value::Bool(true), Value::Int(i64::MAX), Value::Float(0.1)]),
        ),
    ]);
    main.kv().put("object", Value::Object(object)).unwrap();
    for (key, value, form, text) in [
        ("null", Value::Null, "null", "null"),
        ("int", Value::Int(-5), "int", "-5"),
        ("float", Value::Float(1.0), "float", "1"),
        ("inf", Value::Float(f64::INFINITY), "float", "inf"),
        (
            "text",
            Value::String("a\n\u{1b}[31m\u{202e}b".to_owned()),
            "string",
            "a\n\\x1b[31m\\xe2\\x80\\xaeb",
        ),
        ("bytes", Value::Bytes(vec![0, b'a']), "bytes", "\\x00a"),
    ] {
        main.kv().put(key, value).unwrap();
        let found = entry(&store, &EntryAsked { key, ..ONE }).unwrap().value;
        assert_eq!((found.form.as_str(), found.text.as_str(), found.cut), (form, text, false));
    }
    let found = entry(&store, &EntryAsked { key: "object", ..ONE }).unwrap().value;
    let json: serde_json::Value = serde_json::from_str(&found.text).unwrap();
    assert_eq!(json["bytes"], json!({ "$bytes": "AP8=" }));
    assert_eq!(json["list"], json!([null, true, i64::MAX, 0.1]));
    assert_eq!(json["\u{202e}\"<script>"], json!("NaN"));
    assert!(!found.text.contains('\u{202e}'));
    main.kv().put_with_ttl("ends", 1, std::time::Duration::from_secs(600)).unwrap();
    assert!(entry(&store, &EntryAsked { key: "ends", ..ONE }).unwrap().expires_at.is_some());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let store = Store::memory();
    store.branch("main").unwrap().events().append("a", json!({})).unwrap();
    for (asked, code) in [
        (EntriesAsked { branch: Some("none"), ..ALL }, "unknown_branch"),
        (EntriesAsked { space: Some("NO"), ..ALL }, "bad_request"),
        (EntriesAsked { kind: EntryKind::Vectors, ..ALL }, "bad_request"),
        (EntriesAsked { kind: EntryKind::Vectors, collection: Some("none"), ..ALL }, "unknown_collection"),
        (EntriesAsked { kind: EntryKind::Events, cursor: Some("x"), ..ALL }, "bad_request"),
        (EntriesAsked { kind: EntryKind::Indexes, ..ALL }, "bad_request"),
    ] {
        let error = entries(&store, &asked).err().unwrap();
        assert_eq!(error.code(), code, "{error}");
        assert!(matches!(error.remedy(), Remedy::AskForAnother | Remedy::AskDifferently), "{error}");
    }
    // What is no text is the prefix of nothing that has text for keys.
    for kind in [EntryKind::State, EntryKind::Json, EntryKind::Blobs, EntryKind::Events] {
        let asked = EntriesAsked { kind, prefix: "\\xff", ..ALL };
        assert!(entries(&store, &asked).unwrap().entries.is_empty(), "{kind:?}");
    }
}
