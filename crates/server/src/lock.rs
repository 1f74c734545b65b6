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
/// How long the end of a daemon that was killed is waited for: while the kernel does something for it, as balancing a volume
/// store, that has to end first, and the lock is held so long.
const END_LIMIT: Duration = Duration::from_secs(30);
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
    /// Locks a home directory, which is made if it is missing, and writes this process's id into the lock file. The end of a
    /// daemon that was killed is waited for.
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
                Err(FileLockError::Held)
                    if begin.elapsed() < PATIENCE
                        || (begin.elapsed() < END_LIMIT && is_ending(&written_pid(&path))) =>
                {
                    thread::sleep(RETRY);
                }
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

/// Whether a process was killed, and waits for a thread of its own that the kernel has not let go of: its first thread is
/// gone by then.
fn is_ending(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may hold anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

fn written_pid(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let pid = text.trim();
    // The holder may be between locking and writing.
    if pid.is_empty() { "unknown" } else { pid }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{is_ending, lock_path, make_home, HomeLock, LockError};
    use std::{fs, os::unix::fs::PermissionsExt, process::Command, sync::Barrier, thread, time::Duration};

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

    /// Locks the file that is its argument. With a second argument its first thread ends then, and another one some time later:
    /// so a daemon looks that was killed while the kernel works for it.
    const HOLDER: &str = r"
import ctypes, fcntl, os, sys, threading, time
lock = open(sys.argv[1], 'w')
fcntl.flock(lock, fcntl.LOCK_EX)
print(os.getpid(), file=lock, flush=True)
threading.Thread(target=time.sleep, args=(1.5,)).start()
if len(sys.argv) > 2:
    libc = ctypes.CDLL(None)
    libc.pthread_exit(None)
";

    /// Invariant B16. Whoever started a daemon at once after the end of one that was killed in the middle of a balance of the
    /// volume store was told that the dead one serves.
    #[test]
    fn a_holder_that_is_ending_is_waited_for_and_another_one_is_not() {
        for is_ended in [true, false] {
            let dir = tempfile::tempdir().expect("a directory");
            let path = lock_path(dir.path());
            let mut command = Command::new("python3");
            command.args(["-c", HOLDER]).arg(&path).args(is_ended.then_some("ends"));
            let mut holder = command.spawn().expect("python3");
            let pid = holder.id().to_string();
            let is_there = || fs::read_to_string(&path).is_ok_and(|text| text.trim() == pid);
            while !is_there() || is_ending(&pid) != is_ended {
                thread::sleep(Duration::from_millis(1));
            }
            match HomeLock::acquire(dir.path()) {
                Ok(_) => assert!(is_ended, "the holder lives"),
                Err(LockError::Held { pid: told, .. }) => assert!(!is_ended && told == pid, "{told}"),
                Err(error) => panic!("{error}"),
            }
            holder.kill().and_then(|()| holder.wait()).expect("it ends");
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
