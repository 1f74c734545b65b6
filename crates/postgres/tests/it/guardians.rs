//! What is left of a process that ends: nothing.

use duramen_postgres::{processes_below, Guardian, Scratch};
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

/// Something would be left if the work were not done, or not waited for.
#[test]
fn a_guardian_does_its_work_when_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("left");
    std::fs::write(&left, "").unwrap();
    let script = format!("echo watching; read -r _; sleep 0.1; rm '{}'", left.display());
    let guardian = Guardian::start_watching(&mut shell(&script), "watching", SOON).unwrap();
    assert!(left.exists(), "it waits");
    drop(guardian);
    assert!(!left.exists(), "it has cleared up when the drop returns");
}

/// Who believed in a guardian that does not watch would do what nobody undoes.
#[test]
fn a_guardian_that_does_not_say_that_it_watches_is_none() {
    for script in ["exit 0", "echo something else; read -r _", "echo watchin; read -r _"] {
        let error = Guardian::start_watching(&mut shell(script), "watching", SOON).unwrap_err();
        assert!(error.to_string().contains("/bin/sh does not watch over it"), "{script}: {error}");
    }
}

/// A drop that must return soon leaves the work to the guardian.
#[test]
fn a_guardian_that_is_released_goes_on_alone() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let script = format!("read -r _; sleep 0.5; touch '{}'", done.display());
    Guardian::start(&mut shell(&script)).unwrap().release();
    assert!(!done.exists(), "it was not waited for");
    let began = duramen_base::clock::now();
    while !done.exists() {
        assert!(began.elapsed() < SOON, "the work is not done");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that works in a scratch folder ends with it, and nobody else enters it.
#[test]
fn a_scratch_folder_goes_with_all_that_works_in_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let scratch = Scratch::private(folder.path(), "run").unwrap();
    let path = scratch.path().to_owned();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let mut sleeper = Command::new("sleep").arg("600").current_dir(&path).spawn().unwrap();
    assert_eq!(processes_below(&path), [sleeper.id()]);
    drop(scratch);
    assert!(!path.exists(), "the folder is gone");
    assert!(!sleeper.wait().unwrap().success(), "it was killed");
}
