//! Where a store is, and where its log is: what is refused, what is read, what is given up.

use std::sync::atomic::{AtomicU64, Ordering};

use duramen_store_s3::{exists, follow, open, LogPlace, RemoteError, RemoteOptions, TakeOver};
use real::{Durability, Keep, Options, Scope as _, Store, StoreError};

/// A place that no other test has.
pub(crate) fn fresh(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    crate::shim::url_of(std::path::Path::new(&format!("/tmp/places/{}/{name}{number}", std::process::id())))
}

fn options() -> Options {
    Options { durability: Durability::Strict, ..Options::default() }
}

fn local(folder: &std::path::Path, gives_up: bool) -> RemoteOptions {
    let log = LogPlace::Local { folder: folder.to_owned(), gives_up };
    RemoteOptions { log, ..RemoteOptions::default() }
}

fn put(store: &Store, key: &str, value: i64) {
    store.branch("main").unwrap().kv().put(key, value).unwrap();
}

fn get(store: &Store, key: &str) -> Option<i64> {
    store.branch("main").unwrap().kv().get(key).unwrap().map(|value| value.as_i64().unwrap())
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_a_reader() {
    let url = fresh("nothing");
    let remote = RemoteOptions::default();
    assert!(!exists(&url, &remote).unwrap());
    let read = Options { read_only: true, ..options() };
    let error = open(&url, read, remote.clone()).map(drop).unwrap_err();
    assert!(matches!(error, RemoteError::Store(StoreError::StoreNotFound { .. })), "{error}");
    assert!(follow(&url, options(), remote.clone()).is_err());
    assert!(!exists(&url, &remote).unwrap());
    drop(open(&url, options(), remote.clone()).unwrap());
    assert!(exists(&url, &remote).unwrap());
}

/// A limit that cannot be held is refused, not passed over.
#[test]
fn a_history_is_limited_by_what_is_known_of_it() {
    let url = fresh("history");
    let store = open(&url, options(), RemoteOptions::default()).unwrap();
    let error = store.keep_history("main", Some(Keep::each_commit().bytes(1 << 20))).unwrap_err();
    assert!(matches!(error, StoreError::InvalidInput { .. }), "{error}");
    assert!(error.to_string().contains("limit versions, or how far back"), "{error}");
    assert_eq!(store.branch("main").unwrap().history().unwrap().keep, None);
    store.keep_history("main", Some(Keep::each_commit().versions(2))).unwrap();
    for number in 0..9 {
        put(&store, "k", number);
    }
    let kept = store.branch("main").unwrap().history().unwrap().states;
    assert!((1..=3).contains(&kept.len()), "{kept:?}");
    // What they hold is not known, and not said to be nothing: neither here nor to a reader.
    assert!(kept.iter().all(|state| state.bytes.is_none()), "{kept:?}");
    store.close().unwrap();
    drop(store);
    let read = Options { read_only: true, ..options() };
    let kept =
        open(&url, read, RemoteOptions::default()).unwrap().branch("main").unwrap().history().unwrap().states;
    assert!(!kept.is_empty() && kept.iter().all(|state| state.bytes.is_none()), "{kept:?}");
}

#[test]
fn everything_is_there_after_each_way_to_end() {
    let url = fresh("ends");
    for (round, how) in ["close", "drop", "leak", "close", "leak", "leak", "drop"].into_iter().enumerate() {
        let store = open(&url, options(), RemoteOptions::default()).unwrap();
        for before in 0..round as i64 {
            assert_eq!(get(&store, &format!("k{before}")), Some(before), "{round}");
        }
        put(&store, &format!("k{round}"), round as i64);
        store.fork("main", &format!("b{round}")).unwrap();
        match how {
            "close" => store.close().unwrap(),
            // As if the process were killed: nothing is done any more by whoever is dropped.
            "leak" => std::mem::forget(store.clone()),
            _ => {}
        }
        drop(store);
    }
    let store = open(&url, options(), RemoteOptions::default()).unwrap();
    assert_eq!(store.branches(false).unwrap().len(), 8);
}

#[test]
fn a_reader_sees_a_moment_and_a_follower_goes_on() {
    let url = fresh("readers");
    let store = open(&url, options(), RemoteOptions::default()).unwrap();
    put(&store, "k", 1);
    let read = || open(&url, Options { read_only: true, ..options() }, RemoteOptions::default()).unwrap();
    let moment = read();
    let follower = follow(&url, options(), RemoteOptions::default()).unwrap();
    put(&store, "k", 2);
    assert_eq!((get(&moment, "k"), get(&follower.store().unwrap(), "k")), (Some(1), Some(2)));
    for round in 3..40 {
        put(&store, "k", round);
        if round % 7 == 0 {
            store.checkpoint().unwrap();
        }
        if round % 11 == 0 {
            store.compact().unwrap();
        }
        assert_eq!(get(&follower.store().unwrap(), "k"), Some(round));
    }
    assert_eq!(get(&moment, "k"), Some(1));
    assert_eq!(get(&read(), "k"), Some(39));
    let error = moment.branch("main").unwrap().kv().put("k", 0).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly), "{error}");
}

/// A checkpoint of SlateDB that is made beside the writer pins its manifest, and not what is only in its log: here it has
/// none, so that whoever reads beside the writer sees all that a checkpoint of the store holds, at once.
#[test]
fn what_a_checkpoint_holds_is_seen_by_whoever_opens_next() {
    let url = fresh("pins");
    let store = open(&url, options(), RemoteOptions::default()).unwrap();
    for round in 0..30 {
        put(&store, &format!("k{round}"), round);
        store.checkpoint().unwrap();
        let only = Options { checkpoint_only: true, ..options() };
        let seen = open(&url, only, RemoteOptions::default()).unwrap();
        assert_eq!(get(&seen, &format!("k{round}")), Some(round));
    }
}

#[test]
fn people_do_not_stop_a_service_by_a_slip() {
    let url = fresh("in-use");
    let polite = || RemoteOptions { take_over: TakeOver::IfEnded, ..RemoteOptions::default() };
    let store = open(&url, options(), polite()).unwrap();
    put(&store, "k", 1);
    let error = open(&url, options(), polite()).map(drop).unwrap_err();
    assert!(matches!(error, RemoteError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    // And it has not stopped.
    put(&store, "k", 2);
    store.close().unwrap();
    drop(store);
    let store = open(&url, options(), polite()).unwrap();
    assert_eq!(get(&store, "k"), Some(2));
    std::mem::forget(store);
    // After a crash it takes a word.
    assert!(open(&url, options(), polite()).is_err());
    assert_eq!(get(&open(&url, options(), RemoteOptions::default()).unwrap(), "k"), Some(2));
}

#[test]
fn a_local_log_is_needed_and_can_be_given_up() {
    let url = fresh("local");
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let store = open(&url, options(), local(&here, false)).unwrap();
    put(&store, "stored", 1);
    store.checkpoint().unwrap();
    put(&store, "logged", 2);
    // Nobody else has the folder.
    let error = open(&url, options(), local(&here, false)).map(drop).unwrap_err();
    assert!(matches!(error, RemoteError::InUse { .. }), "{error}");
    // Nobody opens it without its log, and the one that tries does not fence it.
    for remote in [RemoteOptions::default(), local(&there, false)] {
        let error = open(&url, options(), remote).map(drop).unwrap_err();
        assert!(matches!(error, RemoteError::LogElsewhere { .. }), "{error}");
    }
    put(&store, "logged", 3);
    // A reader elsewhere has the last checkpoint.
    let seen = open(&url, Options { read_only: true, ..options() }, RemoteOptions::default()).unwrap();
    assert_eq!((get(&seen, "stored"), get(&seen, "logged")), (Some(1), None));
    let follower = follow(&url, options(), RemoteOptions::default()).unwrap();
    store.checkpoint().unwrap();
    let begin = duramen_base::clock::now();
    while get(&follower.store().unwrap(), "logged") != Some(3) {
        assert!(begin.elapsed().as_secs() < 20, "the follower does not see the checkpoint");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    put(&store, "logged", 4);
    let version = store.info().version;
    // The process goes without a word; the log has it all.
    std::mem::forget(store.clone());
    drop(store);
    let error = open(&url, options(), local(&there, true)).map(drop);
    assert!(error.is_ok(), "{error:?}");
    let store = open(&url, options(), local(&there, false)).unwrap();
    assert_eq!((get(&store, "stored"), get(&store, "logged")), (Some(1), Some(3)));
    // No version is given twice.
    put(&store, "after", 5);
    assert!(store.info().version > version, "{} after {version}", store.info().version);
    store.close().unwrap();
    drop(store);
    let read = open(&url, Options { read_only: true, ..options() }, local(&there, false)).unwrap();
    assert_eq!(get(&read, "after"), Some(5));
}
