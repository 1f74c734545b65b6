//! A daemon that does not start must be told at once, with the reason from its log, and leave no process.

use duramen_server::process::{Daemon, DaemonError};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A program that stands in for the daemon.
fn program(dir: &TempDir, script: &str) -> PathBuf {
    let path = dir.path().join("program");
    install(&path, &format!("#!/bin/sh\n{script}\n"));
    path
}

/// Makes a program that can be started at once. Another process writes it: what is open for writing here, or in a child
/// that another test just forked, cannot be started.
fn install(program: &Path, script: &str) {
    let mut child = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("install starts");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("it is written");
    assert!(child.wait().expect("install ends").success(), "{} is not installed", program.display());
}

#[tokio::test]
async fn a_daemon_that_ends_at_once_is_told_with_the_end_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let program = program(&dir, "echo \"asked: $*\"; echo 'error: no room' >&2; exit 7");
    let log = dir.path().join("log");
    let args = ["--volumes".to_owned(), "copy".to_owned()];
    let error = Daemon::spawn(&program, dir.path(), &args, &log).await.unwrap_err();
    assert!(matches!(error, DaemonError::Exited { .. }), "{error}");
    let said = error.to_string();
    let asked = format!("asked: --home {} serve --until-stdin-ends --volumes copy", dir.path().display());
    for part in ["exit status: 7", "error: no room", asked.as_str()] {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = Daemon::spawn(&missing, dir.path(), &[], &dir.path().join("log")).await.unwrap_err();
    assert!(matches!(error, DaemonError::Spawn { .. }), "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
}

#[tokio::test]
async fn giving_up_on_a_daemon_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    // It never answers; what it writes shows that it was asked to stop and that its input was held open.
    let program =
        program(&dir, "trap 'echo stopped; exit 0' TERM; echo $$; read line || echo closed; exit 0");
    let log = dir.path().join("log");
    let started = async {
        loop {
            if fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n')) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        result = Daemon::spawn(&program, dir.path(), &[], &log) => panic!("it does not answer: {result:?}"),
        () = started => {}
    }
    let text = fs::read_to_string(&log).unwrap();
    let pid: i32 = text.lines().next().unwrap().parse().unwrap();
    assert!(text.contains("stopped") && !text.contains("closed"), "{text}");
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_err(), "the process is still there");
}
