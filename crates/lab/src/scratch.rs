//! The folder of a run with servers of its own, with a guardian that clears it away however the run ends.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use duramen_measure::entropy;
use duramen_postgres::{ServerUser, UserError};

/// Waits for the end of the process that holds the other end of its input, however that ends; then ends whatever works
/// in the folder ($1), servers and workers, and deletes it.
const GUARDIAN: &str = r#"
    read -r _
    for round in 1 2 3; do
        for process in /proc/[0-9]*; do
            place=$(readlink "$process/cwd" 2>/dev/null) || continue
            case "$place" in "$1" | "$1"/*) kill -KILL "${process#/proc/}" 2>/dev/null ;; esac
        done
        sleep 0.05
    done
    rm -rf "$1"
"#;

/// Why there is no folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// The servers' user cannot reach it.
    #[error(transparent)]
    User(#[from] UserError),
    /// It could not be made, or its guardian not be run.
    #[error("cannot {doing} {}: {source}", path.display())]
    Folder {
        /// What was tried.
        doing: &'static str,
        /// The folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

fn folder(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ScratchError {
    let path = path.to_owned();
    move |source| ScratchError::Folder { doing, path, source }
}

/// The folder that the servers and their clients work in. When this is dropped nothing is left of them.
pub(crate) struct Scratch {
    path: PathBuf,
    guardian: Child,
}

impl Scratch {
    /// Makes a folder in `dir` that belongs to the servers' user; its name begins with `prefix`.
    pub(crate) fn make(dir: &Path, prefix: &str, user: &ServerUser) -> Result<Self, ScratchError> {
        fs::create_dir_all(dir).map_err(folder("make the folder", dir))?;
        // What processes say of their place has no links in it.
        let dir = fs::canonicalize(dir).map_err(folder("find the folder", dir))?;
        user.check_traversable(&dir)?;
        let path = dir.join(format!("{prefix}-{}", entropy::token(8)));
        fs::create_dir(&path).map_err(folder("make the folder", &path))?;
        let guardian = Command::new("/bin/sh")
            .args(["-c", GUARDIAN, "guardian"])
            .arg(&path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What interrupts the run must not interrupt its guardian.
            .process_group(0)
            .spawn()
            .map_err(folder("run a guardian for", &path))?;
        let scratch = Self { path, guardian };
        let path = &scratch.path;
        // Nobody else is to connect to the socket in it.
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .and_then(|()| user.own(path))
            .map_err(folder("prepare the folder", path))?;
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.guardian.stdin.take());
        // It has nothing to tell.
        let _ = self.guardian.wait();
    }
}
