//! Event logs whose first events are gone.

use duramen_base::entropy;
use duramen_store::event::{Direction, Event};
use duramen_store::{MergeOptions, Moment, Options, Part, Primitive, Scope, Store, StoreError, Strategy};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a key of the tree behind the log's back; deletes it if there is no value.
fn write<S: Scope>(scope: &S, key: &[u8], value: Option<&[u8]>) {
    let written = scope.write(|edit| match value {
        Some(value) => edit.put(key, &mut |out| out.extend_from_slice(value)),
        None => edit.delete(key),
    });
    written.map(|_| ()).unwrap();
}

fn read<S: Scope>(scope: &S, key: &[u8], into: &mut Vec<u8>) {
    assert!(scope.read(|view| view.get(key, &mut |_, value| *into = value.to_vec())).unwrap());
}

/// Appends events that no other log has.
fn append<S: Scope>(scope: &S, count: u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for n in 0..count {
        let n = 2 * NEXT.fetch_add(1, Ordering::Relaxed) + n % 2;
        scope.events().append(["a", "b"][n as usize % 2], json!({ "n": n })).unwrap();
    }
}

fn all<S: Scope>(scope: &S) -> Vec<Event> {
    scope.events().range(.., Direction::Forwards, None, usize::MAX).unwrap().events
}

fn is_whole<S: Scope>(scope: &S, first: u64, len: u64, context: &str) {
    let events = scope.events();
    let report = events.verify().unwrap();
    assert_eq!(report.first_bad, None, "{context}");
    assert_eq!((report.first, report.checked), (first, len - first), "{context}");
    assert_eq!((events.first().unwrap(), events.len().unwrap()), (first, len), "{context}");
    let listed = all(scope);
    assert_eq!(listed.iter().map(|event| event.seq).collect::<Vec<_>>(), (first..len).collect::<Vec<_>>());
    let types: u64 = events.types().unwrap().iter().map(|kind| kind.count).sum();
    assert_eq!(types, len - first, "{context}");
}

#[test]
fn what_is_trimmed_is_gone_and_the_rest_is_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    assert_eq!(main.events().trim(7).unwrap(), 0, "there is nothing");
    append(&main, 10);
    let before = all(&main);
    assert_eq!(main.events().trim(0).unwrap(), 0);
    assert_eq!(main.events().trim(4).unwrap(), 4);
    assert_eq!(main.events().trim(3).unwrap(), 0, "these are gone already");
    assert_eq!(all(&main), before[4..]);
    is_whole(&main, 4, 10, "trimmed");
    assert!(main.events().get(3).unwrap().is_none() && !main.events().exists(0).unwrap());
    assert!(!main.events().is_empty().unwrap());
    // The last one stays, whatever is asked for, and the next one follows it.
    assert_eq!(main.events().trim(u64::MAX).unwrap(), 5);
    is_whole(&main, 9, 10, "all but the last");
    assert_eq!(main.events().append("a", json!({})).unwrap(), 10);
    is_whole(&main, 9, 11, "appended");
    drop((main, store));
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    is_whole(&main, 9, 11, "opened again");
    // In a transaction, but for what it appended itself.
    main.transact(|transaction| {
        append(transaction, 3);
        assert_eq!(transaction.events().trim(13)?, 1);
        is_whole(transaction, 10, 14, "in the transaction");
        append(transaction, 1);
        is_whole(transaction, 10, 15, "in the transaction");
        Ok(())
    })
    .unwrap();
    is_whole(&main, 10, 15, "committed");
    assert_eq!(main.events().trim(13).unwrap(), 3);
    let diff = store.diff("main", "main", &Part::default(), 9).unwrap();
    assert!(diff.entries.is_empty());
    // All of it goes with its space, and a log begins anew.
    main.drop_space("default").unwrap();
    assert_eq!((main.events().first().unwrap(), main.events().len().unwrap()), (0, 0));
    append(&main, 2);
    is_whole(&main, 0, 2, "anew");
}

#[test]
fn what_comes_back_and_what_is_missing_behind_the_start_is_told() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    append(&main, 6);
    let third = {
        let mut bytes = Vec::new();
        let key = [&[0x30, 0, 1], &2_u64.to_be_bytes()[..]].concat();
        read(&main, &key, &mut bytes);
        (key, bytes)
    };
    main.events().trim(4).unwrap();
    let put = |key: &[u8], value: &[u8]| write(&main, key, Some(value));
    put(&third.0, &third.1);
    let bad = main.events().verify().unwrap().first_bad.unwrap();
    assert_eq!((bad.seq, bad.reason.as_str()), (2, "it is there, and the log begins with event 4"));
    write(&main, &third.0, None);
    assert_eq!(main.events().verify().unwrap().first_bad, None);
    // Another start is not what follows from the hashes.
    let start = [0x30, 0, 3];
    put(&start, &[&[1][..], &5_u64.to_le_bytes(), &[0; 32]].concat());
    assert!(main.events().verify().unwrap().first_bad.is_some());
    put(&start, &[1, 2, 3]);
    assert!(matches!(main.events().verify(), Err(StoreError::Damaged(_))));
    put(&start, &[9]);
    assert!(matches!(main.events().first(), Err(StoreError::FromTheFuture { .. })));
}

#[test]
fn events_are_found_by_when_they_were() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    assert_eq!(main.events().since(0).unwrap(), 0);
    append(&main, 9);
    main.events().trim(2).unwrap();
    let times: Vec<i64> = all(&main).iter().map(|event| event.at_ms).collect();
    assert_eq!(main.events().since(i64::MIN).unwrap(), 2);
    assert_eq!(main.events().since(i64::MAX).unwrap(), 9);
    for at in times.iter().flat_map(|at| [at - 1, *at, at + 1]) {
        let expected = 2 + times.iter().filter(|time| **time < at).count() as u64;
        assert_eq!(main.events().since(at).unwrap(), expected);
    }
}

/// Two branches that append, trim and merge at random, against lists.
#[test]
fn logs_that_are_trimmed_on_both_sides_are_merged() {
    let seed = entropy::seed();
    for round in 0..60 {
        let mut random = entropy::rng(seed ^ round);
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        append(&main, random.u64(1..6));
        let side = main.fork("side").unwrap();
        let mut done = Vec::new();
        for _ in 0..25 {
            let (branch, other) = if random.bool() { (&main, &side) } else { (&side, &main) };
            let context = format!("seed {seed}, round {round}: {done:?}");
            let (first, len) = (branch.events().first().unwrap(), branch.events().len().unwrap());
            match random.u8(..6) {
                0..=2 => {
                    let count = random.u64(1..4);
                    append(branch, count);
                    done.push(format!("{} appends {count}", branch.name()));
                }
                3 => {
                    let before = random.u64(..len + 3);
                    branch.events().trim(before).unwrap();
                    done.push(format!("{} trims to {before}", branch.name()));
                    is_whole(branch, first.max(before.min(len - 1)), len, &context);
                }
                _ => {
                    let strategy = [Strategy::Fail, Strategy::Ours, Strategy::Theirs][random.usize(..3)];
                    let resequence_events = random.u8(..3) == 0;
                    done.push(format!("{} merges, {strategy:?}, {resequence_events}", branch.name()));
                    let (ours, theirs) = (all(branch), all(other));
                    let options = MergeOptions { strategy, resequence_events, ..MergeOptions::default() };
                    let merged = store.merge(other.name(), branch.name(), options);
                    let now = all(branch);
                    match merged {
                        Ok(_) => {}
                        Err(StoreError::MergeConflict { .. }) => assert_eq!(now, ours, "{context}"),
                        Err(error) => panic!("{context}: {error}"),
                    }
                    let seqs = |events: &[Event]| events.iter().map(|event| event.seq).collect::<Vec<_>>();
                    let (a, b, c) = (seqs(&ours), seqs(&theirs), seqs(&now));
                    let context =
                        format!("{context}: {} of {a:?} and {b:?} became {c:?}", done.last().unwrap());
                    assert!(!now.is_empty() && theirs.len() + ours.len() >= now.len(), "{context}");
                    assert!(now
                        .iter()
                        .all(|event| ours.contains(event) || theirs.contains(event) || resequence_events));
                    // Unless the target gets the source's log, what was trimmed here does not come back, and nothing is lost
                    // that it keeps.
                    if strategy != Strategy::Theirs && now != theirs {
                        assert!(now[0].seq >= ours[0].seq, "{context}");
                        let is_kept = |event: &&Event| event.seq >= now[0].seq;
                        let all = ours.iter().filter(is_kept).all(|event| now.contains(event));
                        assert!(all || now.iter().all(|event| theirs.contains(event)), "{context}");
                    }
                }
            }
            for branch in [&main, &side] {
                let context = format!("seed {seed}, round {round}: {done:?}: {}", branch.name());
                is_whole(branch, branch.events().first().unwrap(), branch.events().len().unwrap(), &context);
            }
        }
    }
}

/// A side that only trimmed does not stand in the way of one that appended.
#[test]
fn trimming_and_appending_are_no_conflict() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    append(&main, 6);
    let side = main.fork("side").unwrap();
    side.events().trim(4).unwrap();
    append(&main, 2);
    store.merge("side", "main", MergeOptions::default()).unwrap();
    is_whole(&main, 4, 8, "trimmed by the source, appended to by the target");
    append(&main, 1);
    side.events().trim(5).unwrap();
    store.merge("main", "side", MergeOptions::default()).unwrap();
    is_whole(&side, 5, 9, "trimmed by the target, appended to by the source");
}

/// After a merge that was decided for one side, the target has other events than its base. Those that the source appends
/// next follow from its own, and not from the target's.
#[test]
fn a_log_that_was_decided_for_one_side_keeps_its_chain() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    append(&main, 2);
    let side = main.fork("side").unwrap();
    append(&main, 1);
    append(&side, 1);
    let decided = |strategy| MergeOptions { strategy, ..MergeOptions::default() };
    store.merge("main", "side", decided(Strategy::Ours)).unwrap();
    is_whole(&side, 0, 3, "decided for its own");
    append(&main, 1);
    let refused = store.merge("main", "side", MergeOptions::default()).unwrap_err();
    assert!(matches!(refused, StoreError::MergeConflict { count: 1, .. }), "{refused}");
    let again = side.fork("again").unwrap();
    store.merge("main", "side", decided(Strategy::Theirs)).unwrap();
    is_whole(&side, 0, 4, "decided for the other");
    assert_eq!(all(&side), all(&main));
    // Re-sequenced, only what is new of the source comes.
    append(&main, 1);
    append(&side, 1);
    let options = MergeOptions { resequence_events: true, ..MergeOptions::default() };
    let report = store.merge("main", "side", options).unwrap();
    assert_eq!(report.events_resequenced, 1);
    is_whole(&side, 0, 6, "re-sequenced");
    is_whole(&again, 0, 3, "a fork of it");
}

/// A revert restores what was trimmed after the state, and whatever else there was.
#[test]
fn a_log_goes_back_to_what_it_was() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    append(&main, 6);
    store.tag("main", "t").unwrap();
    let then = all(&main);
    let back = || main.revert_to(&Moment::Tag("t".into())).unwrap();
    main.events().trim(4).unwrap();
    back();
    is_whole(&main, 0, 6, "trimmed");
    append(&main, 2);
    main.events().trim(4).unwrap();
    back();
    is_whole(&main, 0, 6, "appended and trimmed");
    append(&main, 4);
    main.events().trim(8).unwrap();
    back();
    is_whole(&main, 0, 6, "trimmed beyond");
    main.drop_space("default").unwrap();
    append(&main, 1);
    back();
    is_whole(&main, 0, 6, "dropped and begun anew");
    assert_eq!(all(&main), then);
}

/// Where nothing tells that logs are the same, nothing is trimmed for it.
#[test]
fn events_of_the_target_alone_are_never_trimmed_by_a_merge() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    append(&main, 5);
    let side = main.fork("side").unwrap();
    append(&side, 3);
    append(&main, 7);
    main.events().trim(10).unwrap();
    let decided = |strategy| MergeOptions { strategy, ..MergeOptions::default() };
    store.merge("main", "side", decided(Strategy::Ours)).unwrap();
    let ours = all(&side);
    assert_eq!(ours.len(), 8);
    main.events().trim(11).unwrap();
    store.merge("main", "side", MergeOptions::default()).unwrap();
    assert_eq!(all(&side), ours);
    append(&main, 1);
    store.merge("main", "side", decided(Strategy::Ours)).unwrap();
    assert_eq!(all(&side), ours);
    append(&main, 1);
    store.merge("main", "side", decided(Strategy::Theirs)).unwrap();
    is_whole(&side, 11, 14, "decided for the other");
}

/// What the target trimmed of what both had does not come back with the source's log.
#[test]
fn what_the_target_trimmed_does_not_come_back() {
    for trim in [5, 6, 7] {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        append(&main, 5);
        let side = main.fork("side").unwrap();
        append(&main, 3);
        main.events().trim(trim).unwrap();
        append(&side, 1);
        let theirs = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
        store.merge("side", "main", theirs).unwrap();
        is_whole(&main, 5, 6, &format!("trimmed to {trim}"));
    }
}

/// A log that is the beginning of the other is no conflict, whatever is remembered of earlier merges.
#[test]
fn what_was_merged_in_part_before_is_known_by_its_hashes() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    append(&main, 5);
    let side = main.fork("side").unwrap();
    append(&side, 1);
    let events = || MergeOptions {
        part: Part { primitive: Some(Primitive::Event), ..Part::default() },
        ..MergeOptions::default()
    };
    store.merge("side", "main", events()).unwrap();
    append(&side, 1);
    store.merge("side", "main", events()).unwrap();
    is_whole(&main, 0, 7, "twice");
    store.merge("side", "main", MergeOptions::default()).unwrap();
    assert_eq!(all(&main), all(&side));
    // A prefix is of keys, and a log has none.
    append(&side, 1);
    for prefix in ["\u{1}", "\u{2}", "\u{3}", ""] {
        let part = Part { prefix: Some(prefix.into()), space: Some("default".into()), ..Part::default() };
        store.merge("side", "main", MergeOptions { part, ..MergeOptions::default() }).unwrap();
        is_whole(&main, 0, 7, "a prefix");
    }
    // Both began anew.
    for branch in [&main, &side] {
        branch.drop_space("default").unwrap();
    }
    append(&side, 1);
    store.merge("side", "main", MergeOptions::default()).unwrap_err();
    let theirs = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
    store.merge("side", "main", theirs).unwrap();
    assert_eq!(all(&main), all(&side));
}

/// A dry run tells what the merge will do.
#[test]
fn a_merge_tells_what_it_trims() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    append(&main, 20);
    let side = main.fork("side").unwrap();
    append(&main, 1);
    side.events().trim(15).unwrap();
    let dry = MergeOptions { dry_run: true, ..MergeOptions::default() };
    let told = store.merge("side", "main", dry).unwrap();
    let done = store.merge("side", "main", MergeOptions::default()).unwrap();
    assert_eq!((told.deleted, done.deleted), (30, 30));
    is_whole(&main, 15, 21, "merged");
}

/// A transaction that trimmed a log which is taken back meanwhile does not commit.
#[test]
fn a_trim_needs_the_event_that_it_keeps() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    append(&main, 5);
    store.tag("main", "t").unwrap();
    append(&main, 5);
    let transaction = main.begin().unwrap();
    assert_eq!(transaction.events().trim(5).unwrap(), 5);
    main.revert_to(&Moment::Tag("t".into())).unwrap();
    assert!(matches!(transaction.commit(), Err(StoreError::TransactionConflict { .. })));
    is_whole(&main, 0, 5, "taken back");
    write(&main, &[0x30, 0, 3], Some(&[&[1][..], &7_u64.to_le_bytes(), &[0; 32]].concat()));
    for seq in 0..5 {
        write(&main, &[&[0x30, 0, 1], &u64::to_be_bytes(seq)[..]].concat(), None);
    }
    let bad = main.events().verify().unwrap().first_bad.unwrap();
    assert_eq!((bad.seq, bad.reason.as_str()), (7, "it is not there, and the log begins with it"));
}

/// Long logs are trimmed in several commits.
#[test]
fn a_long_log_is_trimmed_in_slices() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for _ in 0..25 {
        main.events().append_batch((0..10_000).map(|n| ("t", json!({ "n": n })))).unwrap();
    }
    assert_eq!(main.events().trim(u64::MAX).unwrap(), 249_999);
    is_whole(&main, 249_999, 250_000, "all but the last");
}

/// A start that is nowhere near the log, as a hand or a hostile file may have it: nothing panics, and it is told.
#[test]
fn a_start_far_behind_the_log_is_told_and_nothing_panics() {
    for seq in [7, u64::MAX - 1, u64::MAX] {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        append(&main, 5);
        let side = main.fork("side").unwrap();
        write(&main, &[0x30, 0, 3], Some(&[&[1][..], &seq.to_le_bytes(), &[0; 32]].concat()));
        assert!(main.events().verify().unwrap().first_bad.is_some());
        assert_eq!(main.events().trim(u64::MAX).unwrap(), 0);
        assert_eq!(main.events().first().unwrap(), seq);
        main.events().since(0).unwrap();
        append(&side, 1);
        for strategy in [Strategy::Fail, Strategy::Ours, Strategy::Theirs] {
            for (from, to) in [("main", "side"), ("side", "main")] {
                let options = MergeOptions { strategy, dry_run: true, ..MergeOptions::default() };
                let _ = store.merge(from, to, options);
            }
        }
    }
}
