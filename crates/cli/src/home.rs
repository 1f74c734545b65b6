//! Clearing a home directory that no daemon serves: processes, their groups, mounts, files, in this order.

use crate::failure::Failure;
use duramen_base::clock;
use rustix::{
    io::Errno,
    mount::{unmount, UnmountFlags},
    process::{kill_process, Pid, Signal},
};
use serde::Serialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::sleep;

/// Where server processes of this home work.
const DATA: [&str; 3] = ["volumes", "origins", "scratch"];
/// What a daemon keeps in its home. Fetched packages are not among it.
const CONTENTS: [&str; 15] = [
    "volumes",
    "volumes.btrfs",
    "volumes.set-back",
    "origins",
    "sources",
    "leases.jsonl",
    "audit",
    "doors",
    "logs",
    "merges",
    "run",
    "state",
    "daemon.sock",
    "key",
    "lost-writes",
];
/// How long killed processes and busy mounts may take.
const LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// What was there and is not any more.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Cleared {
    /// Server processes that were ended.
    pub(crate) processes: usize,
    /// Control groups of branches that were removed.
    pub(crate) groups: usize,
    /// Mounts that were undone.
    pub(crate) mounts: usize,
    /// System users of sources that were removed.
    pub(crate) users: usize,
    /// Files and directories that were removed.
    pub(crate) removed: Vec<PathBuf>,
}

/// Ends every server process that works below the home, unmounts the volume store and removes what daemons keep.
/// The caller holds the home's lock.
pub(crate) async fn clear(home: &Path) -> Result<Cleared, Failure> {
    // Processes and mounts are known by their real paths.
    let home = fs::canonicalize(home).map_err(Failure::io("find", home))?;
    let mut cleared = Cleared { processes: end_processes(&home).await?, ..Cleared::default() };
    cleared.groups = duramen_branches::remove_groups(&home);
    while unmount_when_free(&home.join("volumes")).await? {
        cleared.mounts += 1;
    }
    // What an import with masking rules has left is overwritten before it is removed.
    let scratch = home.clone();
    tokio::task::spawn_blocking(move || duramen_branches::destroy_scratch(&scratch))
        .await
        .map_err(|error| Failure::Other(error.to_string()))?
        .map_err(|error| Failure::Other(error.message))?;
    let damaged_journals =
        fs::read_dir(&home).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("leases.damaged-"))
        });
    let sockets = duramen_branches::sockets_outside(&home);
    for path in CONTENTS.iter().map(|name| home.join(name)).chain(damaged_journals).chain(sockets) {
        if remove(&path).map_err(Failure::io("remove", &path))? {
            cleared.removed.push(path);
        }
    }
    // Last, because a user goes only with all that was its own.
    cleared.users = duramen_branches::remove_users(&home);
    Ok(cleared)
}

fn processes(home: &Path) -> Vec<u32> {
    DATA.iter().flat_map(|name| duramen_postgres::processes_below(&home.join(name))).collect()
}

async fn end_processes(home: &Path) -> Result<usize, Failure> {
    let begin = clock::now();
    let mut ended = 0;
    loop {
        let left = processes(home);
        if left.is_empty() {
            return Ok(ended);
        }
        if begin.elapsed() > LIMIT {
            let home = home.display();
            return Err(Failure::Other(format!(
                "processes {left:?} below {home} do not end; end them, then run this again"
            )));
        }
        // What is found again was started meanwhile or is still ending; the first count is what was there.
        ended = ended.max(left.len());
        for pid in left.iter().filter_map(|&pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // An error means that it has ended already.
            let _ = kill_process(pid, Signal::KILL);
        }
        sleep(POLL).await;
    }
}

/// Returns whether something was mounted there.
async fn unmount_when_free(point: &Path) -> Result<bool, Failure> {
    let begin = clock::now();
    loop {
        match unmount(point, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(true),
            // Not a mount point, not there, or nobody who could have mounted anything.
            Err(Errno::INVAL | Errno::NOENT | Errno::PERM) => return Ok(false),
            // A process that has just been killed may still hold it.
            Err(Errno::BUSY) if begin.elapsed() < LIMIT => sleep(POLL).await,
            Err(error) => return Err(Failure::io("unmount", point)(error.into())),
        }
    }
}

/// Returns whether there was something.
fn remove(path: &Path) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if metadata.is_dir() {
        fs::remove_dir_all(path)?;
    } else {
        fs::remove_file(path)?;
    }
    Ok(true)
}
