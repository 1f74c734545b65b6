//! A run of the suite "replication" that somebody ends. Alone in its process, because signals go to all of it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test by panicking")]

#[path = "it/user.rs"]
mod user;

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use duramen_postgres::processes_below;
use duramen_replication::{scenario::Node, Options};
use duramen_reports::suite::{run, Output, SuiteError};
use rustix::process::{getpid, kill_process, Signal};
use user::{folder, majors, User};

/// One after the other: the signals are for whoever listens.
#[test]
fn a_run_that_is_interrupted_tells_the_truth_about_what_it_leaves() {
    a_run_that_is_interrupted_leaves_nothing();
    what_a_guardian_did_not_put_back_is_told_when_a_run_is_interrupted();
    what_differs_is_told_when_a_run_is_interrupted();
}

/// A program that watches as a guardian does, and then does nothing.
fn idle_guardian(dir: &std::path::Path) -> std::path::PathBuf {
    let path = dir.join("guardian");
    std::fs::write(&path, "#!/bin/sh\necho watching\nread -r _\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn interrupt() {
    kill_process(getpid(), Signal::INT).expect("a process may signal itself");
}

fn what_a_guardian_did_not_put_back_is_told_when_a_run_is_interrupted() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let user = runtime.block_on(User::new(majors()[0]));
    let tools = folder();
    let options = Options {
        scenarios: vec![2],
        quick: true,
        output: Output { progress: true, ..Output::default() },
        ..user.options(&idle_guardian(tools.path()))
    };
    let say = |doing: &str| {
        if doing.starts_with("preparing") {
            interrupt();
        }
    };
    let error = run(&options, &say).expect_err("it was interrupted");
    let file = user.restore_files().pop().expect("the guardian has put nothing back");
    assert!(matches!(error, SuiteError::Unrestored { file: Some(_), .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains(file.to_str().unwrap()) && said.contains("duramen lab restore"), "{said}");
    assert!(!said.contains("changed has been put back"), "{said}");
}

fn what_differs_is_told_when_a_run_is_interrupted() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let user = runtime.block_on(User::new(majors()[0]));
    let standby = runtime.block_on(user.client(Node::Standby));
    let tools = folder();
    let options = Options {
        scenarios: vec![2],
        quick: true,
        output: Output { progress: true, ..Output::default() },
        ..user.options(&idle_guardian(tools.path()))
    };
    let passes = AtomicUsize::new(0);
    let say = |doing: &str| {
        if doing.starts_with("S2") && passes.fetch_add(1, Ordering::SeqCst) == 0 {
            runtime.block_on(async {
                standby.batch_execute("ALTER SYSTEM SET hot_standby_feedback = 'true'").await.unwrap();
                user.reload(Node::Standby).await;
            });
            interrupt();
        }
    };
    // Another thread than the run's: a runtime must not wait within another one.
    let (sender, receiver) = std::sync::mpsc::channel::<String>();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            for doing in receiver {
                say(&doing);
                done.send(()).unwrap();
            }
        });
        let is_done = std::sync::Mutex::new(is_done);
        let sender = std::sync::Mutex::new(sender);
        let add = |doing: &str| {
            sender.lock().unwrap().send(doing.to_owned()).unwrap();
            is_done.lock().unwrap().recv().unwrap();
        };
        let error = run(&options, &add).expect_err("it was interrupted");
        drop(sender);
        error
    });
    assert!(matches!(error, SuiteError::Unrestored { file: None, .. }), "{error}");
    assert!(error.to_string().contains("hot_standby_feedback was set by somebody else"), "{error}");
    assert!(user.restore_files().is_empty());
}

fn a_run_that_is_interrupted_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let options = Options {
            scenarios: vec![2],
            quick: true,
            output: Output { progress: true, ..Output::default() },
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
        assert!(matches!(error, SuiteError::Interrupted(_)), "{error:?}");
        assert_eq!(passes.load(Ordering::SeqCst), 2, "it went on after {signal:?}");
        let left = std::fs::read_dir(dir.path()).expect("it is there").count();
        assert_eq!(left, 0, "something is left in the folder");
        let dir = dir.path().canonicalize().expect("it is there");
        assert_eq!(processes_below(&dir), [0_u32; 0], "something still runs");
    }
}
