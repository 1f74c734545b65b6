//! Keys of pairs: any bytes, in their order, in everything that takes or shows keys.

use std::collections::BTreeMap;
use std::ops::Bound;

use duramen_base::entropy;
use duramen_store::kv::{Key, Prefix};
use duramen_store::limits::KEY_BYTES_MAX;
use duramen_store::{MergeOptions, Options, Part, Scope, Store, StoreError, Value};

type Model = BTreeMap<Vec<u8>, i64>;

/// Keys that are easily mistaken for something else.
fn awkward() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        &b"\0"[..],
        b"\0\0",
        b"\0\x01",
        b"a",
        b"a\0",
        b"a\0\0",
        b"a\0b",
        b"a\x01",
        b"\x10",
        b"\x10\0",
        b"\x50\0\x02",
        b"\xff",
        b"\xff\xff",
        b"\xff\0",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        "\u{10ffff}".as_bytes(),
        b"0x00",
        b"\x1b[2J",
    ]
    .iter()
    .map(|key| key.to_vec())
    .collect();
    for len in [KEY_BYTES_MAX - 1, KEY_BYTES_MAX] {
        keys.extend([vec![0; len], vec![b'k'; len], vec![0xff; len]]);
    }
    keys
}

fn random(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut key = vec![0; rng.usize(1..6)];
    key.iter_mut().for_each(|byte| *byte = [0, 1, b'a', 0xfe, 0xff][rng.usize(0..5)]);
    key
}

fn check(scope: &impl Scope, model: &Model) {
    let kv = scope.kv();
    let found: Vec<_> = kv.iter(..).unwrap().map(|pair| pair.unwrap()).collect();
    let expected: Vec<_> = model.iter().map(|(key, value)| (Key::new(key), Value::Int(*value))).collect();
    assert_eq!(found, expected);
    assert_eq!(kv.range(.., usize::MAX).unwrap(), expected);
    let mut back: Vec<_> = kv.iter(..).unwrap().rev().map(|pair| pair.unwrap()).collect();
    back.reverse();
    assert_eq!(back, expected);
    for (key, value) in model {
        assert_eq!(kv.get(key).unwrap(), Some(Value::Int(*value)), "{key:?}");
    }
    assert_eq!(kv.count("").unwrap(), model.len() as u64);
}

fn filled() -> (Store, Model) {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    // Others' entries lie right before and behind.
    main.space("defaul").unwrap().kv().put([0xff], 1).unwrap();
    main.space("z").unwrap().kv().put([0], 1).unwrap();
    main.state().init("\u{1}", 1).unwrap();
    let mut model = Model::new();
    let mut rng = entropy::rng(1);
    let keys = awkward().into_iter().chain((0..700).map(|_| random(&mut rng)));
    for (number, key) in keys.enumerate() {
        main.kv().put(&key, number as i64).unwrap();
        model.insert(key, number as i64);
    }
    (store, model)
}

#[test]
fn any_bytes_are_a_key() {
    let (store, mut model) = filled();
    let main = store.branch("main").unwrap();
    check(&main, &model);
    check(&main.snapshot().unwrap(), &model);
    for key in awkward() {
        assert!(main.kv().exists(&key).unwrap());
        assert!(main.kv().delete(&key).unwrap() && !main.kv().delete(&key).unwrap(), "{key:?}");
        model.remove(&key);
    }
    check(&main, &model);
    for (key, name) in [(vec![], "empty"), (vec![1; KEY_BYTES_MAX + 1], "too long")] {
        assert!(main.kv().put(&key, 1).is_err(), "{name}");
        assert!(main.kv().get(&key).is_err(), "{name}");
    }
}

#[test]
fn ranges_are_those_of_an_ordered_map() {
    let (store, model) = filled();
    let main = store.branch("main").unwrap();
    let mut rng = entropy::rng(2);
    for _ in 0..400 {
        let (a, b) = (random(&mut rng), random(&mut rng));
        let bound = |key: &Vec<u8>, kind| match kind {
            0 => Bound::Included(key.clone()),
            1 => Bound::Excluded(key.clone()),
            _ => Bound::Unbounded,
        };
        let bounds = (bound(&a, rng.usize(0..3)), bound(&b, rng.usize(0..3)));
        let inside = |key: &[u8]| {
            let from = match &bounds.0 {
                Bound::Included(start) => key >= start.as_slice(),
                Bound::Excluded(start) => key > start.as_slice(),
                Bound::Unbounded => true,
            };
            let to = match &bounds.1 {
                Bound::Included(end) => key <= end.as_slice(),
                Bound::Excluded(end) => key < end.as_slice(),
                Bound::Unbounded => true,
            };
            from && to
        };
        let expected: Vec<_> =
            model.iter().filter(|(key, _)| inside(key)).map(|(key, _)| key.clone()).collect();
        let keys = |pairs: Vec<(Key, Value)>| -> Vec<_> {
            pairs.into_iter().map(|(key, _)| key.into_bytes()).collect()
        };
        assert_eq!(keys(main.kv().range(bounds.clone(), usize::MAX).unwrap()), expected, "{bounds:?}");

        // From both ends at once, in any order.
        let mut iter = main.kv().iter(bounds.clone()).unwrap();
        let (mut front, mut back) = (Vec::new(), Vec::new());
        loop {
            let from_front = rng.bool();
            let next = if from_front { iter.next() } else { iter.next_back() };
            let Some(next) = next else { break };
            let key = next.unwrap().0.into_bytes();
            if from_front { &mut front } else { &mut back }.push(key);
        }
        assert!(iter.next().is_none() && iter.next_back().is_none());
        back.reverse();
        assert_eq!([front, back].concat(), expected, "{bounds:?}");

        let with_prefix: Vec<_> = model.keys().filter(|key| key.starts_with(&a)).cloned().collect();
        assert_eq!(keys(main.kv().range(Prefix(&a), usize::MAX).unwrap()), with_prefix, "{a:?}");
        assert_eq!(main.kv().count(&a).unwrap(), with_prefix.len() as u64, "{a:?}");
        let mut listed = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = main.kv().list(&a, after.as_deref(), 7).unwrap();
            listed.extend(page.items.into_iter().map(Key::into_bytes));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(listed, with_prefix, "{a:?}");
    }
}

#[test]
fn a_range_is_deleted_in_one_commit() {
    let (store, mut model) = filled();
    let main = store.branch("main").unwrap();
    let before = main.snapshot().unwrap();
    let whole = model.clone();
    let (from, to) = (vec![b'a'], vec![0xfe, 0xff]);
    let inside = model.range(from.clone()..to.clone()).count() as u64;
    assert!(inside > 100);
    let version = store.info().version;
    assert_eq!(main.kv().delete_range(from.clone()..to.clone()).unwrap(), inside);
    model.retain(|key, _| *key < from || *key >= to);
    check(&main, &model);
    check(&before, &whole);
    assert_eq!(store.info().version, version + inside);
    assert_eq!(main.kv().delete_range(from..to).unwrap(), 0);
    assert_eq!(store.info().version, version + inside, "nothing is written for nothing");
    // In a transaction it sees what that wrote, and is undone with it.
    let tx = main.begin().unwrap();
    tx.kv().put("aaa", 1).unwrap();
    assert_eq!(tx.kv().delete_range(..).unwrap(), model.len() as u64 + 1);
    assert_eq!(tx.kv().iter(..).unwrap().count(), 0);
    drop(tx);
    check(&main, &model);
    assert_eq!(main.kv().delete_range(..).unwrap(), model.len() as u64);
    assert_eq!(main.space("z").unwrap().kv().count("").unwrap(), 1, "other spaces stay");
}

#[test]
fn an_iterator_is_of_one_moment() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put_many((0..5000_u64).map(|key| (key, key as i64))).unwrap();
    let mut iter = main.kv().iter(..).unwrap();
    assert_eq!(iter.next().unwrap().unwrap().0.to_u64(), Some(0));
    main.kv().delete_range(1_u64..).unwrap();
    main.kv().put(2500_u64, -1).unwrap();
    let rest: Vec<_> = iter.map(|pair| pair.unwrap()).collect();
    assert_eq!(rest.len(), 4999);
    assert!((1..)
        .zip(&rest)
        .all(|(n, (key, value))| (key.to_u64(), value.as_i64()) == (Some(n), Some(n as i64))));
    // A transaction shows what it wrote itself.
    let tx = main.begin().unwrap();
    tx.kv().put(1_u64, 7).unwrap();
    let keys: Vec<_> =
        tx.kv().iter(..).unwrap().rev().map(|pair| pair.unwrap().0.to_u64().unwrap()).collect();
    assert_eq!(keys, [2500, 1, 0]);
}

#[test]
fn long_and_binary_keys_survive_restarts_merges_and_loads() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { memory_bytes: 1 << 20, checkpoint_log_bytes: 1 << 16, ..Options::default() };
    let long = |number: u32| {
        let mut key = vec![0xfe; KEY_BYTES_MAX];
        key[KEY_BYTES_MAX - 4..].copy_from_slice(&number.to_be_bytes());
        key
    };
    let mut model = Model::new();
    let store = Store::open(dir.path(), options()).unwrap();
    let main = store.branch("main").unwrap();
    let mut rng = entropy::rng(3);
    for round in 0..300 {
        let key = if round % 2 == 0 {
            long(rng.u32(0..1000))
        } else {
            long(rng.u32(0..1000))[rng.usize(0..8000)..].to_vec()
        };
        main.kv().put(&key, round).unwrap();
        model.insert(key, round);
        if round % 7 == 0 {
            let (gone, _) = model.pop_first().unwrap();
            assert!(main.kv().delete(&gone).unwrap());
        }
    }
    let fork = store.fork("main", "fork").unwrap();
    fork.kv().put([0, 0xff], -1).unwrap();
    let diff = store.diff("main", "fork", &Part::default(), 10).unwrap();
    assert_eq!(diff.entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["0x00ff"]);
    store.merge("fork", "main", MergeOptions::default()).unwrap();
    model.insert(vec![0, 0xff], -1);
    check(&main, &model);
    drop((main, fork));
    store.close().unwrap();
    drop(store);
    let store = Store::open(dir.path(), options()).unwrap();
    let main = store.branch("main").unwrap();
    check(&main, &model);
    let side = store.fork("main", "side").unwrap();
    let mut loaded: Vec<_> = (0..3000_u64).map(|key| (Key::new(key), 5)).collect();
    assert_eq!(side.bulk_load("default", loaded.iter().map(|(key, value)| (key, *value))).unwrap(), 3000);
    let mut both = model.clone();
    both.extend(loaded.iter().map(|(key, value)| (key.to_vec(), *value)));
    check(&side, &both);
    loaded.reverse();
    let error = side.bulk_load("default", loaded).unwrap_err();
    assert!(matches!(error, StoreError::Tree(_)), "{error}");
    check(&main, &model);
}

#[test]
fn keys_are_shown_as_text_or_as_their_bytes() {
    let shown = |key: &[u8]| (Key::new(key).to_string(), serde_json::to_string(&Key::new(key)).unwrap());
    assert_eq!(shown("gr\u{fc}n\tx".as_bytes()), ("gr\u{fc}n\tx".to_owned(), "\"gr\u{fc}n\\tx\"".to_owned()));
    assert_eq!(shown(b"\x1b[2J"), ("0x1b5b324a".to_owned(), "{\"hex\":\"1b5b324a\"}".to_owned()));
    assert_eq!(shown(b"a\0"), ("0x6100".to_owned(), "{\"hex\":\"6100\"}".to_owned()));
    for key in awkward() {
        let key = Key::new(key);
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key, "{json}");
    }
    for wrong in ["0", "0g", "+1", "\u{e9}", "00 1"] {
        assert!(Key::from_hex(wrong).is_err(), "{wrong}");
        assert!(serde_json::from_value::<Key>(serde_json::json!({ "hex": wrong })).is_err(), "{wrong}");
    }
    assert_eq!(Key::new(258_u64).to_string(), "0x0000000000000102");
}
