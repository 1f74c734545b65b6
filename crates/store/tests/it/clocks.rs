//! The wall clock of the machine is set forward and back while a store is open.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use duramen_base::clock;
use duramen_store::event::Direction;
use duramen_store::{Keep, Moment, Options, Scope, Store, StoreError};
use serde_json::json;

/// Names the file that shifts the clock, and makes a process the one whose clock is shifted.
const CLOCK: &str = "DURAMEN_TEST_CLOCK";
const YEAR: i64 = 365 * 24 * 3600;

/// The child's part; it does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(file) = std::env::var_os(CLOCK) else { return };
    let set = |seconds: i64| std::fs::write(&file, seconds.to_string()).unwrap();
    set(0);
    let real = clock::unix_ms();
    set(YEAR);
    assert!(clock::unix_ms() > real + YEAR * 999, "the clock is shifted");
    set(0);

    let path = Path::new(&file).with_file_name("store");
    let store = Store::open(&path, Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    store.fork_for("main", "hour", Duration::from_secs(3600)).unwrap();
    store.fork_for("main", "moment", Duration::from_millis(700)).unwrap();
    let hour = store.branch("hour").unwrap();
    store.keep_history("main", Some(Keep::each_commit().age(Duration::from_secs(3600)))).unwrap();
    store.keep_history("hour", Some(Keep::every(Duration::from_secs(3600)).versions(2))).unwrap();
    hour.kv().put_with_ttl("session", 1, Duration::from_secs(3600)).unwrap();
    for seconds in [0, YEAR, -YEAR, 0, 2 * YEAR, 0] {
        set(seconds);
        hour.kv().put("shifted", seconds).unwrap();
        main.events().append("tick", json!({ "shifted": seconds })).unwrap();
        main.events().append_batch([("tick", json!({})), ("tick", json!({}))]).unwrap();
        // Time enough to look for branches whose time is up, twice.
        std::thread::sleep(Duration::from_millis(1200));
        assert!(store.branch("hour").is_ok(), "shifted by {seconds} s");
        assert!(hour.kv().ttl("session").unwrap().is_some(), "shifted by {seconds} s");
        assert_eq!(store.branches(false).unwrap().len(), 2, "shifted by {seconds} s");
    }
    assert!(matches!(store.branch("moment"), Err(StoreError::BranchNotFound { .. })));
    let events = main.events().range(.., Direction::Forwards, None, 100).unwrap().events;
    assert_eq!(events.len(), 18);
    assert!(events.windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms), "{events:?}");
    assert_eq!(main.events().verify().unwrap().first_bad, None);

    // H6: nothing was forgotten as too old, and nothing retained before its time.
    let states = main.history().unwrap().states;
    assert_eq!(states.len(), 12);
    assert!(states.windows(2).all(|pair| pair[0].time_ms <= pair[1].time_ms), "{states:?}");
    let states = hour.history().unwrap().states;
    assert_eq!(states.len(), 1, "{states:?}");
    assert_eq!(
        hour.at(&Moment::Version(states[0].version)).unwrap().kv().get("shifted").unwrap(),
        Some(0.into())
    );

    // A time to live counts from now, whatever the wall clock says.
    set(YEAR);
    store.fork_for("main", "brief", Duration::from_millis(300)).unwrap();
    set(0);
    std::thread::sleep(Duration::from_millis(400));
    assert!(matches!(store.branch("brief"), Err(StoreError::BranchNotFound { .. })));
    store.close().unwrap();
}

#[test]
fn a_clock_that_is_set_deletes_no_branch_reorders_no_event_and_forgets_no_state() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("shifted.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clocks/shifted.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&library, &source])
        .status();
    assert!(built.expect("cc is there, see scripts/setup").success());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "clocks::child", "--nocapture", "--test-threads", "1"])
        .env(CLOCK, dir.path().join("clock"))
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("1 passed"), "{said}");
}
