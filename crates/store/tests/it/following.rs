//! Readers that follow: what a writer does is seen by whoever reads on, whatever it does.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::log::{decode_record, SegmentHeader, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use duramen_store::{Branch, Follower, Keep, MergeOptions, Moment, Options, Part, Scope, Store};

type Pairs = BTreeMap<Vec<u8>, String>;

fn pairs(branch: &Branch) -> Pairs {
    let mut found = BTreeMap::new();
    let row = |key: &[u8], value: duramen_store::value::ValueRef<'_>| {
        found.insert(key.to_vec(), format!("{:?}", value.to_value().unwrap()));
        ControlFlow::Continue(())
    };
    branch.kv().scan(.., row).unwrap();
    found
}

/// Everything that there is, by branch, with its retained states.
fn all(store: &Store) -> BTreeMap<String, (Pairs, Vec<u64>)> {
    let names = store.branches(false).unwrap().into_iter().map(|info| info.name);
    names
        .map(|name| {
            let branch = store.branch(&name).unwrap();
            let states = branch.history().unwrap().states.iter().map(|state| state.version).collect();
            (name, (pairs(&branch), states))
        })
        .collect()
}

/// The follower sees all that was acknowledged before it looks. What only a checkpoint has, it sees when that is there.
fn check(follower: &Follower, store: &Store, what: &str) {
    let begin = clock::now();
    let expected = all(store);
    loop {
        let found = all(&follower.store().unwrap());
        if found == expected {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}: {found:?}\ninstead of {expected:?}");
    }
}

#[test]
fn a_commit_is_seen_by_the_next_look() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let follower = Follower::open(folder.path(), Options::default()).unwrap();
    let (main, seen) = (store.branch("main").unwrap(), follower.branch("main").unwrap());
    for number in 0..2000 {
        main.kv().put("n", number).unwrap();
        assert_eq!(follower.branch("main").unwrap().kv().get("n").unwrap(), Some(number.into()));
        // A handle goes on, too, until the store is opened anew.
        assert_eq!(seen.kv().get("n").unwrap(), Some(number.into()));
    }
    assert!(follower.branch("main").unwrap().kv().put("n", 0).is_err());
    let version = store.info().version;
    assert!(follower.wait(version, Duration::from_millis(20)).unwrap().is_none());
    let waiting =
        std::thread::spawn(move || follower.wait(version, Duration::from_secs(10)).unwrap().is_some());
    std::thread::sleep(Duration::from_millis(30));
    main.kv().put("n", -1).unwrap();
    assert!(waiting.join().unwrap());
}

#[test]
fn what_the_log_does_not_have_is_seen_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let follower = Follower::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    main.bulk_load("default", (0..5000).map(|number| (format!("{number:05}"), number))).unwrap();
    check(&follower, &store, "a load in bulk");
    main.kv().put("after", 1).unwrap();
    check(&follower, &store, "a commit after it");
    let other = Store::memory();
    other.branch("main").unwrap().kv().put("theirs", 1).unwrap();
    store.import_branch("theirs", &other.branch("main").unwrap().snapshot().unwrap(), &mut |_| ()).unwrap();
    store.branch("theirs").unwrap().kv().put("ours", 1).unwrap();
    check(&follower, &store, "an import");
    // A value that takes several records.
    let text = "x".repeat(12 << 20);
    main.transact(|transaction| {
        (0..4).try_for_each(|number| transaction.kv().put(format!("large {number}"), text.as_str()))
    })
    .unwrap();
    check(&follower, &store, "a commit in parts");
}

#[test]
fn everything_is_seen_over_checkpoints_and_openings() {
    for seed in 0..4 {
        let mut rng = entropy::rng(seed);
        let folder = tempfile::tempdir().unwrap();
        // Segments of the least size: they are released and used again all the time.
        let options =
            || Options { segment_bytes: 4096, checkpoint_log_bytes: 64 << 10, ..Options::default() };
        let mut store = Store::open(folder.path(), options()).unwrap();
        let follower = Follower::open(folder.path(), options()).unwrap();
        for step in 0..400 {
            let names: Vec<_> = store.branches(false).unwrap().into_iter().map(|info| info.name).collect();
            let name = &names[rng.usize(0..names.len())];
            let branch = store.branch(name).unwrap();
            match rng.u8(0..24) {
                0..=13 => {
                    for _ in 0..rng.usize(1..30) {
                        branch
                            .kv()
                            .put(format!("{:03}", rng.u32(0..300)), "x".repeat(rng.usize(1..300)))
                            .unwrap();
                    }
                }
                14 if names.len() < 5 => drop(branch.fork(&format!("fork{step}")).unwrap()),
                15 if name != "main"
                    && branch.history().unwrap().states.iter().all(|state| state.tags.is_empty()) =>
                {
                    store.delete_branch(name).unwrap();
                }
                16 if name != "main" => store.reset_branch(name).unwrap(),
                17 if name != "main" => {
                    let options =
                        MergeOptions { strategy: duramen_store::Strategy::Theirs, ..MergeOptions::default() };
                    store.merge(name, "main", options).unwrap();
                }
                18 => drop(store.tag(name, &format!("t{step}")).unwrap()),
                19 => store.keep_history(name, rng.bool().then(|| Keep::each_commit().versions(5))).unwrap(),
                20 => drop(
                    branch
                        .bulk_load(
                            "default",
                            (0..50).map(|number| (format!("b{step:03}{number:02}"), number)),
                        )
                        .unwrap(),
                ),
                21 => store.checkpoint().unwrap(),
                22 => store.compact().unwrap(),
                _ => {
                    drop(branch);
                    match rng.bool() {
                        true => store.close().unwrap(),
                        false => store.sync().unwrap(),
                    }
                    drop(store);
                    store = Store::open(folder.path(), options()).unwrap();
                }
            }
            if rng.u8(0..3) > 0 {
                check(&follower, &store, &format!("seed {seed}, step {step}"));
            }
        }
    }
}

#[test]
fn two_moments_of_a_followed_store_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { segment_bytes: 4096, checkpoint_log_bytes: 64 << 10, ..Options::default() };
    let store = Store::open(folder.path(), options()).unwrap();
    let follower = Follower::open(folder.path(), options()).unwrap();
    let main = store.branch("main").unwrap();
    for number in 0..500 {
        main.kv().put(format!("{number:04}"), number).unwrap();
    }
    let mut before = follower.branch("main").unwrap().snapshot().unwrap();
    for round in 0..50 {
        let key = format!("{:04}", round * 7);
        main.kv().put(key.as_str(), -1).unwrap();
        if round % 3 == 0 {
            store.compact().unwrap();
        }
        let after = follower.branch("main").unwrap().snapshot().unwrap();
        let diff = before.diff(&after, &Part::default(), 10).unwrap();
        assert_eq!((diff.modified, diff.added, diff.removed), (1, 0, 0), "round {round}");
        assert_eq!(diff.entries[0].key, key);
        before = after;
    }
    assert!(store.branch("main").unwrap().at(&Moment::Version(1)).is_err());
}

#[test]
fn whoever_begins_in_the_middle_of_a_load_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    main.kv().put("k", 0).unwrap();
    for round in 0..30 {
        let followers = std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                main.bulk_load("default", (0..500).map(|number| (format!("{round:03} {number:05}"), number)))
                    .unwrap();
            });
            let mut followers = Vec::new();
            while !load.is_finished() {
                followers.push(Follower::open(folder.path(), Options::default()).unwrap());
                followers.truncate(20);
            }
            followers
        });
        main.kv().put("k", round).unwrap();
        for follower in followers {
            check(&follower, &store, &format!("round {round}"));
        }
    }
}

#[test]
fn a_folder_that_is_replaced_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let store = Store::open(&data, Options::default()).unwrap();
    store.branch("main").unwrap().kv().put("k", 1).unwrap();
    store.close().unwrap();
    drop(store);
    Store::backup(&data, &copy, None, &mut |_, _| ()).unwrap();
    let follower = Follower::open(&data, Options::default()).unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    let store = Store::open(&data, Options::default()).unwrap();
    store.branch("main").unwrap().kv().put("k", 2).unwrap();
    check(&follower, &store, "a copy in its place");
}

/// Where the first record that is an end mark stands in a segment of the log.
fn mark_of(bytes: &[u8]) -> Option<usize> {
    let salt = SegmentHeader::decode(bytes).ok()?.salt;
    let mut at = SEGMENT_HEADER_BYTES;
    loop {
        let record = decode_record(&bytes[at..], salt)?;
        if record.is_end() {
            return Some(at);
        }
        at += record.size();
    }
}

#[test]
fn a_segment_that_was_left_without_its_mark_is_followed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options { segment_bytes: 4096, ..Options::default() }).unwrap();
    let main = store.branch("main").unwrap();
    store.checkpoint().unwrap();
    main.kv().put("k", 0).unwrap();
    let follower = Follower::open(folder.path(), Options::default()).unwrap();
    for number in 0..200 {
        main.kv().put("k", format!("{number:0100}")).unwrap();
    }
    // As if each writer had been killed before it wrote the mark, and the next had gone on.
    let mut cut = 0;
    for entry in std::fs::read_dir(folder.path().join("log")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = mark_of(&bytes).filter(|_| path.to_str().unwrap().contains("log-")) {
            bytes[at..at + RECORD_HEADER_BYTES].fill(0);
            std::fs::File::options().write(true).open(&path).unwrap().write_all_at(&bytes, 0).unwrap();
            cut += 1;
        }
    }
    assert!(cut > 1, "{cut} marks");
    assert_eq!(follower.branch("main").unwrap().kv().get("k").unwrap(), main.kv().get("k").unwrap());
}
