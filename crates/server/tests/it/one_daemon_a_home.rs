//! Two daemons on one home would give the same branch to two holders.

use duramen_base::clock;
use duramen_client::socket_path;
use duramen_server::{
    listener::{bind_private, BindError},
    lock::{HomeLock, LockError},
};
use std::os::unix::{fs::PermissionsExt, net::UnixStream};
use std::time::Duration;

#[test]
fn the_second_daemon_is_refused_and_told_about_the_first() {
    let home = tempfile::tempdir().unwrap();
    let first = HomeLock::acquire(home.path()).unwrap();
    let pid = std::process::id().to_string();
    assert_eq!(HomeLock::holder(home.path()).as_deref(), Some(pid.as_str()));
    let error = HomeLock::acquire(home.path()).unwrap_err();
    assert!(matches!(error, LockError::Held { .. }), "{error}");
    assert!(error.to_string().contains(&format!("a daemon (pid {pid}) already serves this home")), "{error}");
    assert!(error.to_string().contains("duramen stop --home"), "{error}");
    drop(first);
    assert_eq!(HomeLock::holder(home.path()), None);
    HomeLock::acquire(home.path()).unwrap();
}

#[test]
fn a_home_that_is_missing_is_made_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("a/b");
    assert_eq!(HomeLock::holder(&home), None);
    HomeLock::acquire(&home).unwrap();
    // The engine lets its servers through when it opens.
    assert_eq!(home.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_home_that_cannot_be_made_is_an_error_with_a_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = HomeLock::acquire(&file.join("home")).unwrap_err();
    assert!(error.to_string().contains("choose a --home"), "{error}");
}

/// A process that is just being started holds a copy of every open file until it runs its own program.
#[test]
fn a_home_is_free_at_once_beside_processes_that_start() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let home = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(std::process::Command::new("/bin/true").status().unwrap().success());
            }
        });
        let mut held = 0;
        for _ in 0..2000 {
            drop(HomeLock::acquire(home.path()).unwrap());
            // Whoever looks takes the lock for a moment, too.
            held += u32::from(HomeLock::holder(home.path()).is_some());
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(held, 0, "of 2,000 looks");
    });
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_only_its_owner_may_connect() {
    let home = tempfile::tempdir().unwrap();
    let socket = socket_path(home.path());
    drop(bind_private(&socket).unwrap());
    // A child that another test starts holds the dropped one until it executes its program.
    let begin = clock::now();
    while UnixStream::connect(&socket).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(10), "a stale socket must not answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    let _listener = bind_private(&socket).unwrap();
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    UnixStream::connect(&socket).unwrap();
}

#[tokio::test]
async fn a_path_that_fits_no_address_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let length = 107 - dir.path().as_os_str().len() - "/".len();
    bind_private(&dir.path().join("x".repeat(length))).unwrap();
    let error = bind_private(&dir.path().join("x".repeat(length + 1))).unwrap_err();
    assert!(matches!(error, BindError::TooLong { length: 108, .. }), "{error}");
    assert!(error.to_string().contains("shorter --home"), "{error}");
}
