//! A run of the suite "replication" that somebody ends. Alone in its process, because signals go to all of it.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use duramen_lab::replication::{run, Options, ReplicationError};
use duramen_postgres::processes_below;
use rustix::process::{getpid, kill_process, Signal};

#[test]
fn a_run_that_is_interrupted_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let options = Options {
            scenarios: vec![2],
            quick: true,
            progress: true,
            ..Options::new(dir.path(), "duramen")
        };
        // In the middle of things: the second pass has just begun, and its reader holds up the replay soon.
        let passes = AtomicUsize::new(0);
        let say = |doing: &str| {
            if doing.starts_with("S2") && passes.fetch_add(1, Ordering::SeqCst) == 1 {
                kill_process(getpid(), signal).expect("a process may signal itself");
            }
        };
        let error = run(&options, &say).expect_err("it was interrupted");
        assert!(matches!(error, ReplicationError::Interrupted), "{error:?}");
        assert_eq!(passes.load(Ordering::SeqCst), 2, "it went on after {signal:?}");
        let left = std::fs::read_dir(dir.path()).expect("it is there").count();
        assert_eq!(left, 0, "something is left in the folder");
        let dir = dir.path().canonicalize().expect("it is there");
        assert_eq!(processes_below(&dir), [0_u32; 0], "something still runs");
    }
}
