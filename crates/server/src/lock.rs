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

/// The home directory, made when it is missing. The engine lets its servers through when it opens.
fn make_home(home: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if home.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(home)?;
    fs::set_permissions(home, fs::Permissions::from_mode(0o700))
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
