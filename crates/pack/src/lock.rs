//! A file that one process at a time writes: opened under its name, locked, and looked at again.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{flock, FlockOperation, OFlags};
use rustix::io::Errno;

/// How often a lock is asked for again that belonged to a file which lost its name meanwhile.
const ATTEMPTS: usize = 100;

/// Why a file is not locked.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Somebody else holds the lock.
    Held,
    /// The system refused: what was tried, and why.
    Io(&'static str, io::Error),
}

/// A file that is locked as long as this is there.
#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing the file would not do: a process that is just being started holds a copy of it until it runs its
        // own program, and the lock with it.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Opens the file of a name for reading and writing, making it if there is none, and locks it against every other
/// writer. What is in it stays. A link under the name is not followed.
pub(crate) fn open_locked(path: &Path) -> Result<LockedFile, LockError> {
    lock_named(path, open)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
}

fn lock_named(path: &Path, mut open: impl FnMut(&Path) -> io::Result<File>) -> Result<LockedFile, LockError> {
    let failed = |doing| move |error| LockError::Io(doing, error);
    for _ in 0..ATTEMPTS {
        let file = open(path).map_err(failed("make"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(LockError::Held),
            Err(error) => return Err(LockError::Io("lock", error.into())),
        }
        let file = LockedFile(file);
        // Between opening and locking, the one who held the lock may have given this very file another name, or removed
        // it. Then the lock is on a file that is nobody's to write.
        let seen = file.metadata().map_err(failed("look at"))?;
        match std::fs::symlink_metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (seen.dev(), seen.ino()) => return Ok(file),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(LockError::Io("look at", error)),
        }
    }
    Err(LockError::Held)
}

#[cfg(test)]
mod tests {
    use super::{lock_named, open, open_locked, LockError};
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    /// What the holder of the lock does with the file between the opening and the locking by another.
    fn taken_away(leave: impl Fn(&std::path::Path, &std::path::Path)) {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("a.part"), dir.path().join("a"));
        let mut holder = Some(open_locked(&path).unwrap());
        (&**holder.as_ref().unwrap()).write_all(b"complete").unwrap();
        let mut opened = 0;
        let file = lock_named(&path, |path| {
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
            let refused = (0..50_000).filter(|_| open_locked(&path).is_err()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0, "of 50,000 tries");
        });
    }

    #[test]
    fn what_is_held_or_no_file_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.part");
        let holder = open_locked(&path).unwrap();
        assert!(matches!(open_locked(&path), Err(LockError::Held)));
        drop(holder);
        open_locked(&path).unwrap();
        assert!(matches!(open_locked(dir.path()), Err(LockError::Io("make", _))));
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        assert!(matches!(open_locked(&dir.path().join("link")), Err(LockError::Io("make", _))));
    }
}
