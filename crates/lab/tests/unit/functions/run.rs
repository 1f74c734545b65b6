//! What becomes of a run that cannot do its work.

use crate::functions::{Options, Phase};
use duramen_measure::evidence::Verdict;
use duramen_postgres::{processes_below, InstallationError};
use duramen_reports::suite::{run, SuiteError};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A folder that the server's user can reach.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    dir
}

fn assert_nothing_left(dir: &Path) {
    assert_eq!(std::fs::read_dir(dir).expect("it is there").count(), 0, "something is left in the folder");
    let dir = dir.canonicalize().expect("it is there");
    assert_eq!(processes_below(&dir), [0_u32; 0], "something still runs");
}

#[test]
fn a_worker_that_does_not_start_is_told_and_nothing_is_left() {
    let dir = folder();
    let options =
        Options { phase: Phase::Mixed, seconds: 0.2, ..Options::new(dir.path(), Path::new("/bin/false")) };
    let evidence = run(&options, &|_| {}).unwrap();
    assert_eq!(evidence.verdict, Verdict::Fail);
    let check = evidence.checks.iter().find(|check| check.name == "every_instance_ended_well").unwrap();
    assert!(!check.passed && check.detail.contains("ended before it was ready"), "{check:?}");
    let finding = evidence.findings.iter().find(|finding| finding.rule == "not_measured").unwrap();
    assert!(finding.text.contains("mixed"), "{finding:?}");
    assert_eq!(evidence.config["server.fsync"], "on");
    assert_nothing_left(dir.path());
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let dir = folder();
    let options = Options { major: Some(9), ..Options::new(dir.path(), "duramen") };
    let error = run(&options, &|_| {}).unwrap_err();
    assert!(matches!(&error, SuiteError::Other(cause) if cause.is::<InstallationError>()), "{error:?}");
    assert!(error.to_string().contains("major version 9"), "{error}");
    assert_nothing_left(dir.path());
}
