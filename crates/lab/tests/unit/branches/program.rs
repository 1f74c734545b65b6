use std::time::Duration;

use rustix::process::{test_kill_process, Pid};
use tokio::process::Command;

use super::{finish, said, ProgramError};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[tokio::test]
async fn what_it_printed_and_how_it_ended_are_told() {
    let output = finish(shell("echo out; echo ' err ' >&2; exit 3"), Duration::from_secs(20)).await;
    let output = output.unwrap();
    assert_eq!((output.stdout.as_slice(), output.status.code()), (b"out\n".as_slice(), Some(3)));
    assert_eq!(said(&output.stderr), "err");
}

#[tokio::test]
async fn more_than_a_pipe_holds_is_read() {
    let command = shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2");
    let output = finish(command, Duration::from_secs(20)).await.unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
}

#[tokio::test]
async fn one_that_does_not_end_is_killed_and_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    // Of the same process id, so that there is nothing else to be killed.
    let script = format!("echo $$ >{}; exec sleep 600", file.display());
    let ended = finish(shell(&script), Duration::from_millis(500)).await;
    let error = ended.unwrap_err();
    assert!(matches!(error, ProgramError::Deadline { .. }), "{error}");
    assert!(error.to_string().starts_with("sh did not end within 0.5 s"), "{error}");
    let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    // A zombie would still be there.
    assert!(test_kill_process(Pid::from_raw(pid).unwrap()).is_err());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_apart() {
    let error = finish(Command::new("/nowhere/psql"), Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_missing() && error.to_string().contains("cannot run /nowhere/psql"), "{error}");
    let error = finish(Command::new("/etc"), Duration::from_secs(1)).await.unwrap_err();
    assert!(!error.is_missing(), "{error}");
}
