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
/// in the folder ($1), servers and workers, and deletes it. Servers are first told to end at once (SIGQUIT), which lets
/// them give back their shared memory; a server waits 5 s for its own processes then. What had to be killed all the same
/// leaves its segments behind: those that it had mapped are removed by their names.
const GUARDIAN: &str = r#"
    read -r _
    dir=$1
    inside() {
        place=$(readlink "/proc/$1/cwd" 2>/dev/null) || return 1
        case "$place" in "$dir" | "$dir"/*) return 0 ;; *) return 1 ;; esac
    }
    segments=
    for process in /proc/[0-9]*; do
        inside "${process#/proc/}" || continue
        segments="$segments $(sed -n 's|^.* \(/dev/shm/PostgreSQL\.[0-9]*\)$|\1|p' "$process/maps" 2>/dev/null)"
    done
    servers=
    for file in "$dir"/postmaster.pid "$dir"/*/postmaster.pid; do
        read -r server 2>/dev/null < "$file" || continue
        inside "$server" && kill -QUIT "$server" 2>/dev/null && servers="$servers $server"
    done
    round=0
    while [ $round -lt 140 ]; do
        left=
        for server in $servers; do
            inside "$server" && left=1
        done
        [ -n "$left" ] || break
        sleep 0.05
        round=$((round + 1))
    done
    for round in 1 2 3; do
        for process in /proc/[0-9]*; do
            inside "${process#/proc/}" && kill -KILL "${process#/proc/}" 2>/dev/null
        done
        sleep 0.05
    done
    for segment in $segments; do
        rm -f "$segment"
    done
    rm -rf "$dir"
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
