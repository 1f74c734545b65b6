//! Watches: no change is missed, whoever is slow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_store::{ChangeKind, Follower, Keep, Moment, Options, Part, Primitive, Scope, Store, Watch};

/// Follows a map by the changes that a watch tells.
fn apply(watch: &mut Watch, map: &mut BTreeMap<String, serde_json::Value>, timeout: Duration) -> bool {
    let Some((version, changes)) = watch.next(timeout).unwrap() else { return false };
    assert_eq!(watch.version(), version);
    for change in changes {
        let before = match change.change {
            ChangeKind::Removed => map.remove(&change.key),
            ChangeKind::Added | ChangeKind::Modified => map.insert(change.key, change.right.unwrap()),
        };
        // Each change begins where the one before ended.
        assert_eq!(before, change.left);
    }
    true
}

fn follow(mut watch: Watch, done: Duration) -> BTreeMap<String, serde_json::Value> {
    let mut map = BTreeMap::new();
    let begin = clock::now();
    while !map.contains_key("end") {
        apply(&mut watch, &mut map, Duration::from_millis(100));
        assert!(begin.elapsed() < done, "{} keys", map.len());
    }
    map
}

#[test]
fn whoever_watches_sees_each_state_of_each_key_or_a_later_one() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { segment_bytes: 1 << 16, checkpoint_log_bytes: 1 << 18, ..Options::default() };
    let store = Store::open(folder.path(), options()).unwrap();
    let main = store.branch("main").unwrap();
    let follower = Arc::new(Follower::open(folder.path(), options()).unwrap());
    let part = Part { primitive: Some(Primitive::Kv), ..Part::default() };
    let here = main.watch(part.clone(), None).unwrap();
    let there = follower.watch("main", part.clone(), None).unwrap();
    // Two of one follower: what one has read on, the other sees.
    let too = follower.watch("main", part, None).unwrap();
    std::thread::scope(|scope| {
        let watching =
            [here, there, too].map(|watch| scope.spawn(move || follow(watch, Duration::from_secs(60))));
        for number in 0..20_000_u32 {
            let key = format!("{:03}", number * 7 % 500);
            if number % 5 == 0 {
                main.kv().delete(key.as_str()).unwrap();
            } else {
                main.kv().put(key.as_str(), i64::from(number)).unwrap();
            }
            if number % 100 == 0 {
                main.state().set("not", i64::from(number)).unwrap();
            }
        }
        main.kv().put("end", 1).unwrap();
        let mut expected = BTreeMap::new();
        for (key, value) in main.kv().range(.., 1000).unwrap() {
            expected.insert(key.to_string(), value.as_i64().unwrap().into());
        }
        for watching in watching {
            assert_eq!(watching.join().unwrap(), expected);
        }
    });
}

#[test]
fn a_watch_is_of_a_part_and_from_a_moment() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let begin = main.kv().put("a/1", 1).unwrap();
    main.kv().put("a/2", 2).unwrap();
    let part =
        Part { primitive: Some(Primitive::Kv), space: Some("default".into()), prefix: Some("a/".into()) };
    let mut watch = main.watch(part, Some(&Moment::Version(begin))).unwrap();
    let (_, changes) = watch.next(Duration::ZERO).unwrap().unwrap();
    assert_eq!(changes.iter().map(|change| change.key.as_str()).collect::<Vec<_>>(), ["a/2"]);
    main.kv().put("b/1", 1).unwrap();
    assert!(watch.next(Duration::from_millis(20)).unwrap().is_none(), "another prefix");
    // What was broken off comes again.
    main.kv().put("a/3", 3).unwrap();
    let stop = watch.next_with(Duration::ZERO, |_| std::ops::ControlFlow::Break(())).unwrap();
    assert!(stop.is_some());
    main.kv().put("a/4", 4).unwrap();
    assert_eq!(watch.next(Duration::ZERO).unwrap().unwrap().1.len(), 2);
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path(), Options::default()).unwrap());
    let read = Store::open(folder.path(), Options { read_only: true, ..Options::default() }).unwrap();
    assert!(read.branch("main").unwrap().watch(Part::default(), None).is_err(), "nothing changes in it");
    let begin = clock::now();
    assert!(watch.next(Duration::from_millis(50)).unwrap().is_none());
    assert!(begin.elapsed() >= Duration::from_millis(50));
    // Others write all the time: the wait has its end.
    let other = store.fork("main", "other").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| watch.next(Duration::from_millis(200)).unwrap().is_none());
        let begin = clock::now();
        while !waiting.is_finished() {
            other.kv().put("x", 1).unwrap();
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
        assert!(waiting.join().unwrap());
    });
    store.fork("main", "side").unwrap();
    let mut watch = store.branch("side").unwrap().watch(Part::default(), None).unwrap();
    store.delete_branch("side").unwrap();
    assert!(watch.next(Duration::from_secs(5)).is_err(), "the branch is gone");
}
