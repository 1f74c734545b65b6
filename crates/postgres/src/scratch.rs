//! A folder with a guardian that clears it away however its process ends, servers in it included.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use duramen_base::entropy;

use crate::guardian::Guardian;
use crate::user::{ServerUser, UserError};

/// Waits for the end of the process that holds the other end of its input, however that ends; then ends whatever works
/// in the folder ($1), servers and workers, and deletes it. First those that would start servers again (supervisor.pid). Servers are first told to end at once (SIGQUIT), which lets
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
    for file in "$dir"/*/supervisor.pid; do
        read -r supervisor 2>/dev/null < "$file" || continue
        inside "$supervisor" && kill -KILL "$supervisor" 2>/dev/null
    done
    servers=
    for file in "$dir"/postmaster.pid "$dir"/*/postmaster.pid "$dir"/*/data/postmaster.pid; do
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

/// The folder that a run works in, with its servers and clients. When this is dropped, or the process ends in any other
/// way, nothing is left of them.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _guardian: Guardian,
}

impl Scratch {
    /// Makes a folder in `dir` that belongs to the servers' user; its name begins with `prefix`.
    ///
    /// # Errors
    /// [`ScratchError`].
    pub fn make(dir: &Path, prefix: &str, user: &ServerUser) -> Result<Self, ScratchError> {
        fs::create_dir_all(dir).map_err(folder("make the folder", dir))?;
        let scratch = Self::private(dir, prefix)?;
        let path = &scratch.path;
        user.check_traversable(path.parent().unwrap_or(dir))?;
        user.own(path).map_err(folder("prepare the folder", path))?;
        Ok(scratch)
    }

    /// Makes a folder in `dir` that nobody else can enter; its name begins with `prefix`.
    ///
    /// # Errors
    /// [`ScratchError::Folder`].
    pub fn private(dir: &Path, prefix: &str) -> Result<Self, ScratchError> {
        fs::create_dir_all(dir).map_err(folder("make the folder", dir))?;
        // What processes say of their place has no links in it.
        let dir = fs::canonicalize(dir).map_err(folder("find the folder", dir))?;
        let path = dir.join(format!("{prefix}-{}", entropy::token(8)));
        fs::create_dir(&path).map_err(folder("make the folder", &path))?;
        let mut command = Command::new("/bin/sh");
        let guardian = Guardian::start(command.args(["-c", GUARDIAN, "guardian"]).arg(&path))
            .map_err(folder("run a guardian for", &path))?;
        let scratch = Self { path, _guardian: guardian };
        let path = &scratch.path;
        // Nobody else is to connect to the socket in it.
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .map_err(folder("prepare the folder", path))?;
        Ok(scratch)
    }

    /// Where it is, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
