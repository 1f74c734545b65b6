//! Event logs: numbers, types, the chain of hashes, and who sees what when.

use std::ops::ControlFlow;

use duramen_base::entropy;
use duramen_store::event::{BadEvent, Direction, Event, EventType, Events};
use duramen_store::json::{Json, JsonError};
use duramen_store::{MergeOptions, Options, Scope, Store, StoreError};
use serde_json::{json, Value};

fn seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

/// The key of an entry in the default space.
fn entry_key(seq: u64) -> Vec<u8> {
    [&[0x30, 0, 1], &seq.to_be_bytes()[..]].concat()
}

fn index_key(event_type: &str, seq: u64) -> Vec<u8> {
    [&[0x30, 0, 2], event_type.as_bytes(), &[0], &seq.to_be_bytes()[..]].concat()
}

/// Changes the stored bytes of an event behind the log's back.
fn tamper<S: Scope>(branch: &S, seq: u64, change: impl FnOnce(&mut Vec<u8>)) {
    let key = entry_key(seq);
    let written = branch.write(|edit| {
        let mut bytes = Vec::new();
        assert!(edit.get(&key, &mut |_, value| bytes = value.to_vec())?);
        change(&mut bytes);
        edit.put(&key, &mut |out| out.extend_from_slice(&bytes))
    });
    written.map(|_| ()).unwrap();
}

/// Deletes a key of the tree behind the log's back.
fn delete<S: Scope>(branch: &S, key: &[u8]) {
    branch.write(|edit| edit.delete(key)).map(|_| ()).unwrap();
}

/// Keys of event logs in the tree.
fn count_keys<S: Scope>(branch: &S) -> usize {
    let mut keys = 0;
    let counted = branch.read(|view| {
        view.scan(&duramen_tree::KeyRange::new(&[0x30], Some(&[0x31])), &mut |_, _, _| {
            keys += 1;
            ControlFlow::Continue(())
        })
    });
    counted.unwrap();
    keys
}

#[test]
fn events_come_back_as_they_were_appended() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let events = main.events();
    assert!(events.is_empty().unwrap());
    assert_eq!(events.len().unwrap(), 0);
    assert_eq!(events.get(0).unwrap(), None);
    assert_eq!(events.types().unwrap(), []);
    assert_eq!(events.verify().unwrap().checked, 0);

    let before = duramen_base::clock::unix_ms();
    assert_eq!(events.append("a", json!({"z": 1, "text": "\u{e9}"})).unwrap(), 0);
    let text: Json = r#"{ "k": [1, 2] }"#.parse().unwrap();
    assert_eq!(events.append("b", &text).unwrap(), 1);
    let after = duramen_base::clock::unix_ms();

    let first = events.get(0).unwrap().unwrap();
    assert_eq!((first.seq, first.event_type.as_str()), (0, "a"));
    assert_eq!(first.payload.to_value().unwrap(), json!({"z": 1, "text": "\u{e9}"}));
    assert!((before..=after).contains(&first.at_ms), "{} is not in {before}..={after}", first.at_ms);
    assert_eq!(events.get(1).unwrap().unwrap().payload.as_str(), r#"{"k":[1,2]}"#);
    assert!(events.exists(1).unwrap() && !events.exists(2).unwrap());
    assert_eq!(events.len().unwrap(), 2);
    assert!(!events.is_empty().unwrap());
}

#[test]
fn the_hash_is_the_documented_one() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.events().append_batch([("one", json!({"n": 1})), ("two", json!({"n": 2}))]).unwrap();
    let mut before = [0; 32];
    for (seq, text) in [(0_u64, r#"{"n":1}"#), (1, r#"{"n":2}"#)] {
        let event = main.events().get(seq).unwrap().unwrap();
        let bytes = [
            &before[..],
            &seq.to_le_bytes(),
            &event.at_ms.to_le_bytes(),
            &3_u16.to_le_bytes(),
            event.event_type.as_bytes(),
            &7_u32.to_le_bytes(),
            text.as_bytes(),
        ];
        before = *blake3::hash(&bytes.concat()).as_bytes();
        assert_eq!(event.hash, before, "event {seq}");
    }
}

#[test]
fn what_is_not_allowed_is_refused_and_leaves_nothing() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let events = main.events();
    for payload in [json!([1]), json!("text"), json!(null), json!(1.5)] {
        let refused = events.append("a", &payload);
        assert!(matches!(refused, Err(StoreError::InvalidInput { .. })), "{payload}: {refused:?}");
    }
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({ "in": deep });
    }
    assert!(matches!(events.append("a", &deep), Err(StoreError::Json(JsonError::TooDeep { .. }))));
    let large = json!({ "text": "x".repeat(16 << 20) });
    assert!(matches!(events.append("a", &large), Err(StoreError::Json(JsonError::TooLarge { .. }))));
    assert!(matches!(events.append("", json!({})), Err(StoreError::InvalidName { .. })));
    assert!(matches!(events.append("a\0b", json!({})), Err(StoreError::InvalidName { .. })));
    assert!(matches!(events.append(&"x".repeat(257), json!({})), Err(StoreError::TooLarge { .. })));
    assert!(events.by_type("", None, 1).is_err());
    let batch = events.append_batch([("a", json!({})), ("a", json!(7))]);
    assert!(matches!(batch, Err(StoreError::InvalidInput { .. })));
    assert_eq!(events.len().unwrap(), 0);
    assert_eq!(events.append_batch(Vec::<(&str, Value)>::new()).unwrap(), 0..0);
    assert_eq!(events.append(&"x".repeat(256), json!({})).unwrap(), 0);
}

/// Reads a log to its end, page by page.
fn pages<S: Scope>(
    events: &Events<'_, S>,
    from: u64,
    to: u64,
    direction: Direction,
    event_type: Option<&str>,
    limit: usize,
) -> Vec<u64> {
    let (mut from, mut end, mut all) = (from, Some(to), Vec::new());
    while let Some(to) = end {
        let page = events.range(from..to, direction, event_type, limit).unwrap();
        assert!(page.events.len() == limit || page.next.is_none());
        all.extend(seqs(&page.events));
        match (page.next, direction) {
            (Some(next), Direction::Forwards) => from = next,
            (Some(next), Direction::Backwards) => end = Some(next + 1),
            (None, _) => end = None,
        }
    }
    all
}

#[test]
fn ranges_and_types_agree_with_a_list() {
    let seed = 0x0e7e_2751;
    let mut rng = entropy::rng(seed);
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    // Types that begin with one another, and one that is rare, so that events are looked up one by one.
    let types = ["a", "a\u{1}", "ab", "b"];
    let mut model: Vec<&str> = Vec::new();
    while model.len() < 3000 {
        let pick = |rng: &mut fastrand::Rng| if rng.u8(..50) == 0 { "rare" } else { types[rng.usize(..4)] };
        let batch: Vec<&str> = (0..rng.usize(1..20)).map(|_| pick(&mut rng)).collect();
        let first = model.len() as u64;
        let numbers = main.events().append_batch(batch.iter().map(|name| (*name, json!({ "t": name }))));
        assert_eq!(numbers.unwrap(), first..first + batch.len() as u64);
        model.extend(batch);
    }
    let events = main.events();
    let of = |name: &str| -> Vec<u64> {
        (0_u64..).zip(&model).filter(|(_, other)| **other == name).map(|(seq, _)| seq).collect()
    };
    for _ in 0..60 {
        let (from, to) = (rng.u64(..3100), rng.u64(..3100));
        let name = [None, Some("a"), Some("a\u{1}"), Some("ab"), Some("rare"), Some("none")][rng.usize(..6)];
        let limit = rng.usize(1..400);
        let direction = if rng.bool() { Direction::Forwards } else { Direction::Backwards };
        let all = name.map_or_else(|| (0..model.len() as u64).collect(), of);
        let mut expected: Vec<u64> = all.into_iter().filter(|seq| (from..to).contains(seq)).collect();
        if direction == Direction::Backwards {
            expected.reverse();
        }
        let found = pages(&events, from, to, direction, name, limit);
        assert_eq!(found, expected, "seed {seed:#x}: {from}..{to} {direction:?} {name:?} by {limit}");
    }
    for name in ["a", "rare", "b", "none"] {
        let expected = of(name);
        assert_eq!(seqs(&events.by_type(name, None, usize::MAX).unwrap()), expected);
        let Some(after) = expected.get(3) else { continue };
        assert_eq!(seqs(&events.by_type(name, Some(*after), 5).unwrap()), expected[4..9]);
        assert!(events.by_type(name, None, 9).unwrap().iter().all(|event| event.event_type == name));
    }
    let listed = events.types().unwrap();
    let names = ["a", "a\u{1}", "ab", "b", "rare"];
    let expected: Vec<EventType> = names
        .iter()
        .map(|name| {
            let seqs = of(name);
            let last_seq = *seqs.last().unwrap();
            EventType { name: (*name).to_owned(), count: seqs.len() as u64, last_seq }
        })
        .collect();
    assert_eq!(listed, expected);
    let report = events.verify().unwrap();
    assert_eq!((report.checked, report.first_bad), (model.len() as u64, None));
}

#[test]
fn odd_ranges_are_empty_and_limits_hold() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let events = main.events();
    events.append_batch((0..5).map(|n| ("a", json!({ "n": n })))).unwrap();
    let range = |from, to| events.range(from..to, Direction::Forwards, None, 10).unwrap().events;
    assert!(range(3, 3).is_empty() && range(4, 2).is_empty() && range(5, 9).is_empty());
    let whole = events.range(0..=u64::MAX, Direction::Forwards, None, 10).unwrap();
    assert_eq!((seqs(&whole.events), whole.next), (vec![0, 1, 2, 3, 4], None));
    let none = events.range(1.., Direction::Forwards, Some("a"), 0).unwrap();
    assert_eq!((none.events.len(), none.next), (0, Some(1)));
    assert_eq!(events.by_type("a", Some(u64::MAX), 10).unwrap(), []);
    let exact = events.range(..5, Direction::Backwards, Some("a"), 5).unwrap();
    assert_eq!((seqs(&exact.events), exact.next), (vec![4, 3, 2, 1, 0], None));
}

#[test]
fn threads_get_numbers_in_the_order_of_their_commits() {
    let store = Store::memory();
    let numbers: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let main = store.branch("main").unwrap();
                scope.spawn(move || {
                    let append = |n| main.events().append("tick", json!({"thread": thread, "n": n})).unwrap();
                    (0..300).map(append).collect::<Vec<u64>>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let main = store.branch("main").unwrap();
    for (thread, numbers) in numbers.iter().enumerate() {
        assert!(numbers.is_sorted());
        for (n, seq) in numbers.iter().enumerate() {
            let payload = main.events().get(*seq).unwrap().unwrap().payload.to_value().unwrap();
            assert_eq!(payload, json!({"thread": thread, "n": n}));
        }
    }
    let mut all = numbers.concat();
    all.sort_unstable();
    assert_eq!(all, (0..1200).collect::<Vec<u64>>());
    let report = main.events().verify().unwrap();
    assert_eq!((report.checked, report.first_bad), (1200, None));
}

#[test]
fn a_transaction_sees_what_it_appends() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for before in [0_u64, 1, 7] {
        while main.events().len().unwrap() < before {
            main.events().append("old", json!({})).unwrap();
        }
        let tx = main.begin().unwrap();
        for n in 0..300 {
            assert_eq!(tx.events().append("new", json!({ "n": n })).unwrap(), before + n);
        }
        assert_eq!(
            tx.events().append_batch([("new", json!({})), ("last", json!({}))]).unwrap().end,
            before + 302
        );
        assert_eq!(tx.events().len().unwrap(), before + 302);
        assert_eq!(tx.events().by_type("new", None, 1000).unwrap().len(), 301);
        let types = tx.events().types().unwrap();
        let new = types.iter().find(|known| known.name == "new").unwrap();
        assert_eq!((new.count, new.last_seq), (301, before + 300));
        assert_eq!(tx.events().verify().unwrap().checked, before + 302);
        assert_eq!(main.events().len().unwrap(), before);
        drop(tx);
    }
    assert_eq!(main.events().len().unwrap(), 7);

    let tx = main.begin().unwrap();
    tx.events().append("new", json!({})).unwrap();
    main.events().append("faster", json!({})).unwrap();
    assert!(matches!(tx.commit(), Err(StoreError::TransactionConflict { .. })));
    let mut runs = 0;
    let seq = main.transact(|tx| {
        runs += 1;
        let seq = tx.events().append("again", json!({}))?;
        if runs == 1 {
            main.events().append("faster", json!({}))?;
        }
        Ok(seq)
    });
    assert_eq!((seq.unwrap(), runs), (9, 2));
    assert_eq!(main.events().verify().unwrap().first_bad, None);
}

/// A number after a gap would be refused by every later check of the log.
#[test]
fn an_event_does_not_outlive_a_reset_that_took_its_predecessor() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let draft = main.fork("draft").unwrap();
    draft.events().append("first", json!({})).unwrap();
    draft.events().append("second", json!({})).unwrap();
    let tx = draft.begin().unwrap();
    assert_eq!(tx.events().append("third", json!({})).unwrap(), 2);
    store.reset_branch("draft").unwrap();
    assert!(matches!(tx.commit(), Err(StoreError::TransactionConflict { .. })));
    assert!(draft.events().is_empty().unwrap());
    assert_eq!(draft.transact(|tx| tx.events().append("anew", json!({}))).unwrap(), 0);
    assert_eq!(draft.events().verify().unwrap().checked, 1);
}

#[test]
fn spaces_and_branches_have_logs_of_their_own() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.events().append("a", json!({"n": 0})).unwrap();
    let space = main.space("other").unwrap();
    assert_eq!(space.events().append("b", json!({})).unwrap(), 0);
    let fork = store.fork("main", "fork").unwrap();
    assert_eq!(fork.events().append("a", json!({"n": 1})).unwrap(), 1);
    assert_eq!(main.events().append("c", json!({"n": 1})).unwrap(), 1);
    let (ours, theirs) = (main.events().get(1).unwrap().unwrap(), fork.events().get(1).unwrap().unwrap());
    assert_ne!(ours.hash, theirs.hash);
    assert_eq!(main.events().get(0).unwrap(), fork.events().get(0).unwrap());
    for branch in [&main, &fork] {
        assert_eq!(branch.events().verify().unwrap().checked, 2);
        assert_eq!(branch.space("other").unwrap().events().len().unwrap(), 1);
    }
    let snapshot = main.snapshot().unwrap();
    main.events().append("d", json!({})).unwrap();
    assert_eq!((snapshot.events().len().unwrap(), main.events().len().unwrap()), (2, 3));
}

#[test]
fn a_log_goes_on_after_the_store_was_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3_u64 {
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let main = store.branch("main").unwrap();
        for n in 0..50 {
            let seq = main.events().append("tick", json!({"round": round, "n": n})).unwrap();
            assert_eq!(seq, round * 50 + n);
        }
        let report = main.events().verify().unwrap();
        assert_eq!((report.checked, report.first_bad), ((round + 1) * 50, None));
        store.close().unwrap();
    }
}

#[test]
fn verify_names_the_first_event_that_was_changed() {
    type Damage = fn(&duramen_store::Branch);
    // The layout of a value: version, time 1..9, hash 9..41, length of the type 41..43, type, payload.
    let damages: [(&str, Damage, &str); 7] = [
        ("payload", |main| tamper(main, 1500, |bytes| *bytes.last_mut().unwrap() = b' '), "hash"),
        ("time", |main| tamper(main, 1500, |bytes| bytes[1] ^= 1), "hash"),
        ("hash", |main| tamper(main, 1500, |bytes| bytes[20] ^= 1), "hash"),
        ("type", |main| tamper(main, 1500, |bytes| bytes[43] ^= 1), "hash"),
        ("cut off", |main| tamper(main, 1500, |bytes| bytes.truncate(30)), "cannot be read"),
        ("gap", |main| delete(main, &entry_key(1500)), "not there"),
        ("index", |main| delete(main, &index_key("tick", 1500)), "index"),
    ];
    for (name, damage, reason) in damages {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        main.events().append_batch((0..3000).map(|n| ("tick", json!({ "n": n })))).unwrap();
        assert_eq!(main.events().verify().unwrap().first_bad, None);
        damage(&main);
        let report = main.events().verify().unwrap();
        assert_eq!(report.checked, 1500, "{name}");
        let BadEvent { seq, reason: found } = report.first_bad.unwrap();
        assert_eq!(seq, 1500, "{name}");
        assert!(found.contains(reason), "{name}: {found}");
    }
}

#[test]
fn damage_is_reported_where_it_is_met() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let events = main.events();
    events
        .append_batch((0..40).map(|n| (if n % 20 == 0 { "rare" } else { "tick" }, json!({ "n": n }))))
        .unwrap();
    tamper(&main, 39, |bytes| bytes[0] = 9);
    assert!(matches!(events.get(39), Err(StoreError::FromTheFuture { found: 9, .. })));
    assert!(matches!(events.append("tick", json!({})), Err(StoreError::FromTheFuture { .. })));
    delete(&main, &entry_key(20));
    assert!(matches!(events.by_type("rare", None, 10), Err(StoreError::Damaged(_))));
    assert!(matches!(events.by_type("tick", None, 30), Ok(found) if found.len() == 30));
    delete(&main, &entry_key(21));
    assert!(matches!(events.by_type("tick", None, 30), Err(StoreError::Damaged(_))));
    // A log is its keys and nothing else: what other code scans is what was appended.
    assert_eq!(count_keys(&main), 38 + 40);
}

/// What cannot be read must not look like an event that says nothing.
#[test]
fn a_merge_conflict_over_a_damaged_event_is_an_error() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.events().append("tick", json!({ "n": 0 })).unwrap();
    let fork = main.fork("fork").unwrap();
    main.events().append("tick", json!({ "n": 1 })).unwrap();
    fork.events().append("tick", json!({ "n": 2 })).unwrap();
    let dry_run = || MergeOptions { dry_run: true, ..MergeOptions::default() };
    let conflicts = store.merge("fork", "main", dry_run()).unwrap().conflicts;
    assert_eq!(conflicts[0].theirs, Some(json!([{ "n": 2 }])));
    tamper(&fork, 1, |bytes| *bytes.last_mut().unwrap() = b' ');
    let merged = store.merge("fork", "main", dry_run());
    assert!(matches!(merged, Err(StoreError::Json(_))), "{merged:?}");
}
