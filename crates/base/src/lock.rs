//! A file that one process at a time may write: opened under its name, locked, and looked at again.
//!
//! Source: flock(2), and LockFileEx on Windows. A lock belongs to the open file, not to the process.

use crate::system;
use std::{
    fs::{File, TryLockError},
    io,
    ops::Deref,
    path::Path,
};

/// How often a lock is asked for again that belonged to a file which lost its name meanwhile.
const ATTEMPTS: usize = 100;

/// Why a file is not locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else holds the lock.
    #[error("somebody else holds the lock")]
    Held,
    /// The system refused: what was tried, and why.
    #[error("cannot {0} the file: {1}")]
    Io(&'static str, io::Error),
}

/// A file that is locked as long as this is there.
///
/// The lock is given back explicitly. Closing the file would not do: a process that is just being started holds a copy
/// of it until it runs its own program, and the lock with it.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Locks a file that is open, against every other lock; does not wait.
    ///
    /// # Errors
    /// [`LockError::Held`] when somebody else has it.
    ///
    /// # Examples
    /// ```
    /// use duramen_base::lock::{FileLock, LockError};
    /// use std::fs::File;
    /// let dir = tempfile::tempdir().unwrap();
    /// let path = dir.path().join("lock");
    /// let held = FileLock::exclusive(File::create(&path).unwrap()).unwrap();
    /// let again = || FileLock::exclusive(File::open(&path).unwrap());
    /// assert!(matches!(again(), Err(LockError::Held)));
    /// drop(held);
    /// assert!(again().is_ok());
    /// ```
    pub fn exclusive(file: File) -> Result<FileLock, LockError> {
        let tried = file.try_lock();
        FileLock::locked(file, tried)
    }

    /// As [`FileLock::exclusive`], against exclusive locks only.
    ///
    /// # Errors
    /// [`LockError::Held`] when somebody else has it.
    pub fn shared(file: File) -> Result<FileLock, LockError> {
        let tried = file.try_lock_shared();
        FileLock::locked(file, tried)
    }

    fn locked(file: File, tried: Result<(), TryLockError>) -> Result<FileLock, LockError> {
        match tried {
            Ok(()) => Ok(FileLock(file)),
            Err(TryLockError::WouldBlock) => Err(LockError::Held),
            Err(TryLockError::Error(error)) => Err(LockError::Io("lock", error)),
        }
    }

    /// Opens the file of a name by `open` and locks it, against every other lock.
    ///
    /// Between opening and locking, the one who held the lock may have given this very file another name, or removed it:
    /// then the lock would be on a file that is nobody's to write, and the name is opened again.
    ///
    /// # Errors
    /// [`LockError::Held`] when somebody else has it, [`LockError::Io`] when it cannot be opened, locked or looked at.
    pub fn of_name(
        path: &Path,
        mut open: impl FnMut(&Path) -> io::Result<File>,
    ) -> Result<FileLock, LockError> {
        for _ in 0..ATTEMPTS {
            let file = open(path).map_err(|error| LockError::Io("open", error))?;
            let lock = FileLock::exclusive(file)?;
            if system::has_name(&lock, path).map_err(|error| LockError::Io("look at", error))? {
                return Ok(lock);
            }
        }
        Err(LockError::Held)
    }

    /// Opens the file of a name for reading and writing, making it if there is none, and locks it. What is in it stays.
    /// A link under the name is not followed.
    ///
    /// # Errors
    /// As [`FileLock::of_name`].
    pub fn open(path: &Path) -> Result<FileLock, LockError> {
        FileLock::of_name(path, open)
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    system::follow_no_link(&mut options).open(path)
}

impl Deref for FileLock {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::{open, FileLock, LockError};
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    /// What the holder of the lock does with the file between the opening and the locking by another.
    fn taken_away(leave: impl Fn(&std::path::Path, &std::path::Path)) {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("a.part"), dir.path().join("a"));
        let mut holder = Some(FileLock::open(&path).unwrap());
        (&**holder.as_ref().unwrap()).write_all(b"complete").unwrap();
        let mut opened = 0;
        let file = FileLock::of_name(&path, |path| {
            opened += 1;
            let file = open(path)?;
            if let Some(holder) = holder.take() {
                leave(path, &target);
                drop(holder);
            }
            Ok(file)
        });
        let file = file.unwrap();
        assert_eq!(opened, 2, "the first file was no longer the one of that name");
        assert_eq!(file.metadata().unwrap().ino(), fs::metadata(&path).unwrap().ino());
        // What the new holder does first leaves the placed file alone.
        file.set_len(0).unwrap();
        if target.exists() {
            assert_eq!(fs::read(&target).unwrap(), b"complete");
        }
    }

    #[test]
    fn a_file_that_was_put_in_its_place_meanwhile_is_not_taken() {
        taken_away(|path, target| fs::rename(path, target).unwrap());
    }

    /// The next writer has begun already: the name is that of its file.
    #[test]
    fn a_file_whose_name_another_has_meanwhile_is_not_taken() {
        taken_away(|path, target| {
            fs::rename(path, target).unwrap();
            fs::write(path, "of the next").unwrap();
        });
    }

    #[test]
    fn a_file_that_was_removed_meanwhile_is_not_taken() {
        taken_away(|path, _| fs::remove_file(path).unwrap());
    }

    /// A process that is just being started holds a copy of every open file until it runs its own program.
    #[test]
    fn a_lock_is_free_at_once_beside_processes_that_start() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.part");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(std::process::Command::new("/bin/true").status().unwrap().success());
                }
            });
            let refused = (0..50_000).filter(|_| FileLock::open(&path).is_err()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0, "of 50,000 tries");
        });
    }

    #[test]
    fn what_is_held_or_no_file_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.part");
        let holder = FileLock::open(&path).unwrap();
        assert!(matches!(FileLock::open(&path), Err(LockError::Held)));
        drop(holder);
        FileLock::open(&path).unwrap();
        assert!(matches!(FileLock::open(dir.path()), Err(LockError::Io("open", _))));
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        assert!(matches!(FileLock::open(&dir.path().join("link")), Err(LockError::Io("open", _))));
    }
}
