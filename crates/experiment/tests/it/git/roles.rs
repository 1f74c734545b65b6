//! What tests run in a process of its own, to give it another environment or to kill it.

use duramen_experiment::git::Repository;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A process that plays a role of those below, in a folder, with an argument.
pub(crate) fn role(name: &str, dir: &Path, argument: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "git::roles::all", "--nocapture"]);
    command.env("TEST_ROLE", name).env("TEST_DIR", dir).env("TEST_ARGUMENT", argument);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// No test by itself.
#[test]
fn all() {
    let Some(role) = std::env::var_os("TEST_ROLE") else { return };
    let dir = PathBuf::from(std::env::var_os("TEST_DIR").unwrap());
    let argument = std::env::var_os("TEST_ARGUMENT").unwrap();
    match role.to_str().unwrap() {
        "open" => match Repository::open(&dir) {
            Ok(repository) => println!("opened: {}", repository.root().display()),
            Err(error) => println!("error: {error}"),
        },
        "snapshot" => {
            let repository = Repository::open(&dir).unwrap();
            println!("commit: {}", repository.snapshot(&dir, "HEAD", "", &[]).unwrap());
        }
        "worktrees" => {
            let repository = Repository::open(&dir).unwrap();
            let folder = Path::new(&argument);
            for fresh in [true, false].into_iter().cycle() {
                repository.worktree(folder, "HEAD", fresh).unwrap();
                repository.worktree(folder, "HEAD~1", false).unwrap();
                if fresh {
                    repository.remove_worktree(folder).unwrap();
                }
            }
        }
        other => panic!("no role {other}"),
    }
}

/// What it said after a word.
pub(crate) fn said(mut command: Command, word: &str) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.lines().find_map(|line| line.split_once(word));
    found.unwrap_or_else(|| panic!("no `{word}` in: {text}")).1.trim().to_owned()
}
