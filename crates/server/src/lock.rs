//! One daemon a home: whoever holds the lock on `daemon.lock` owns everything in the home directory.

use duramen_base::{
    clock,
    lock::{FileLock, LockError as FileLockError},
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Whoever looks whether a daemon runs holds the lock for a moment; a daemon that starts waits that long.
const PATIENCE: Duration = Duration::from_millis(300);
const RETRY: Duration = Duration::from_millis(10);

/// The held lock. Dropping it, or the end of the process, gives it back.
#[derive(Debug)]
pub struct HomeLock {
    file: FileLock,
}

/// Why the home could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another daemon holds it.
    #[error("a daemon (pid {pid}) already serves this home; use it, stop it with `duramen stop --home {home}`, or choose another --home")]
    Held {
        /// The other daemon, as its lock file says.
        pid: String,
        /// The home directory.
        home: String,
    },
    /// The home directory or its lock file cannot be used.
    #[error("cannot {doing} {path}: {source}; choose a --home that this user may write to")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
}

fn lock_path(home: &Path) -> PathBuf {
    home.join("daemon.lock")
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LockError {
    let path = path.display().to_string();
    move |source| LockError::Io { doing, path, source }
}

/// The home directory, made when it is missing. The engine lets its servers through when it opens: whoever only finds
/// the directory must not set its mode, because another daemon may have it open by then.
fn make_home(home: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if let Some(parent) = home.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(home) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && home.is_dir() => Ok(()),
        made => made,
    }
}

impl HomeLock {
    /// Locks a home directory, which is made if it is missing, and writes this process's id into the lock file.
    ///
    /// # Errors
    /// [`LockError::Held`] names the daemon that serves the home.
    pub fn acquire(home: &Path) -> Result<HomeLock, LockError> {
        make_home(home).map_err(failed("make the home directory", home))?;
        let path = lock_path(home);
        let begin = clock::now();
        let file = loop {
            match FileLock::open(&path) {
                Ok(file) => break file,
                Err(FileLockError::Held) if begin.elapsed() < PATIENCE => thread::sleep(RETRY),
                Err(FileLockError::Held) => {
                    return Err(LockError::Held {
                        pid: written_pid(&path),
                        home: home.display().to_string(),
                    });
                }
                Err(FileLockError::Io(doing, error)) => return Err(failed(doing, &path)(error)),
            }
        };
        let lock = HomeLock { file };
        let mut file = &*lock.file;
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(failed("write to", &path))?;
        Ok(lock)
    }

    /// The process id of the daemon that serves a home, as its lock file says; `None` when none does.
    #[must_use]
    pub fn holder(home: &Path) -> Option<String> {
        let path = lock_path(home);
        let file = File::open(&path).ok()?;
        match FileLock::shared(file) {
            Err(FileLockError::Held) => Some(written_pid(&path)),
            _ => None,
        }
    }
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // Best effort: a stale id in a file that nobody has locked misleads no program.
        let _ = self.file.set_len(0);
    }
}

fn written_pid(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let pid = text.trim();
    // The holder may be between locking and writing.
    if pid.is_empty() { "unknown" } else { pid }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::make_home;
    use std::{fs, os::unix::fs::PermissionsExt, sync::Barrier, thread};

    /// The daemon that serves opens the home to its servers' group; one that comes late and is refused leaves it open.
    #[test]
    fn daemons_that_start_together_do_not_close_each_others_home() {
        let dir = tempfile::tempdir().expect("a directory");
        for round in 0..200 {
            let home = dir.path().join(format!("above/home-{round}"));
            let together = Barrier::new(4);
            let open = || {
                together.wait();
                make_home(&home).expect("a home");
                fs::set_permissions(&home, fs::Permissions::from_mode(0o710)).expect("its mode");
                for _ in 0..20 {
                    let mode = fs::metadata(&home).expect("the home").permissions().mode();
                    assert_eq!(mode & 0o777, 0o710, "round {round}");
                }
            };
            thread::scope(|threads| (0..4).for_each(|_| drop(threads.spawn(open))));
        }
    }

    #[test]
    fn a_new_home_is_private_and_its_parents_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("above/home");
        make_home(&home).expect("a home");
        let mode =
            |path: &std::path::Path| fs::metadata(path).expect("a directory").permissions().mode() & 0o777;
        assert_eq!(mode(&home), 0o700);
        assert_ne!(mode(&dir.path().join("above")) & 0o055, 0, "others pass through it");
    }
}
