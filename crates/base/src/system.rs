//! What differs from one operating system to another, and what is done where one lacks it. Nothing else of the store asks for
//! which system it is built.
//!
//! | what | Linux | macOS | Windows |
//! | --- | --- | --- | --- |
//! | making a file durable | `fdatasync` | `F_FULLFSYNC` | `FlushFileBuffers` |
//! | making names in a [`Folder`] durable | `fsync` of the folder | the same | not possible: the file system does it when it does |
//! | [`write_back`](crate::file::write_back) | `sync_file_range` | not there: the next sync takes longer | not there: the next sync takes longer |
//! | [`Futex`] | the kernel's | a condition variable | a condition variable |
//! | [`memory_bytes`] | is asked for | is not known | is not known |
//! | modes of files | kept | kept | not there: the folder's rights are inherited |
//! | links and pipes in the place of a file | refused | refused | links are refused |

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test))]
#[cfg_attr(
    target_os = "linux",
    expect(unreachable_pub, reason = "it is public where it stands in for the kernel's")
)]
mod portable;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
use linux as kernel;
#[cfg(not(target_os = "linux"))]
use portable as kernel;
#[cfg(unix)]
use unix as files;
#[cfg(windows)]
use windows as files;

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

pub use kernel::Futex;

/// Reading and writing a file at a place, from several threads at once.
///
/// ```
/// use duramen_base::system::FileAt;
/// let file = tempfile::tempfile()?;
/// file.write_all_at(b"hello", 3)?;
/// let mut bytes = [0; 4];
/// file.read_exact_at(&mut bytes, 4)?;
/// assert_eq!(&bytes, b"ello");
/// assert_eq!(file.read_at(&mut bytes, 8)?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait FileAt {
    /// Reads what is at `offset`, perhaps less than there is room for; nothing only at the end of the file.
    ///
    /// # Errors
    /// The operating system's answer.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at `offset`, perhaps only the first of the bytes.
    ///
    /// # Errors
    /// The operating system's answer.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Fills `bytes` with what is at `offset`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file ends before; else the operating system's answer.
    fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.read_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    bytes = &mut bytes[len..];
                    offset += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The operating system's answer; some of the bytes may have been written.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => {
                    bytes = &bytes[len..];
                    offset += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl FileAt for File {
    #[inline]
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        files::read_at(self, bytes, offset)
    }

    #[inline]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        files::write_at(self, bytes, offset)
    }
}

/// A folder whose names can be made durable.
///
/// On Windows that is not possible, and nothing is done: a name may be lost there in a power cut although it was made durable, until the
/// file system has written it by itself.
#[derive(Debug)]
pub struct Folder(files::Folder);

impl Folder {
    /// Opens a folder that is there.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn open(path: &Path) -> io::Result<Self> {
        files::Folder::open(path).map(Self)
    }

    /// Makes the names in it durable.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// Has a file that is opened so be no link under its name.
pub fn follow_no_link(options: &mut OpenOptions) -> &mut OpenOptions {
    files::follow_no_link(options)
}

/// As [`follow_no_link`], and waits for nobody at the other end of a pipe.
pub(crate) fn only_plain(options: &mut OpenOptions) -> &mut OpenOptions {
    files::only_plain(options)
}

/// Makes an open return at once where it would wait for the other end of a pipe.
pub(crate) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    files::without_waiting(options)
}

/// Has a file that is made so be for its owner only until it is given its mode.
pub(crate) fn for_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    files::for_owner(options)
}

/// Gives a file exactly these permissions, where a system has such.
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    files::set_mode(file, mode)
}

/// Whether a file is the one of a name, which is not followed if it is a link.
pub(crate) fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    files::has_name(file, path)
}

/// Whether two files or folders are known to lie in different file systems.
#[must_use]
pub fn on_other_file_systems(one: &Metadata, other: &Metadata) -> bool {
    files::on_other_file_systems(one, other)
}

/// Whether this process may do everything.
pub(crate) fn is_root() -> bool {
    files::is_root()
}

/// Has a part of a file be written to its file system, or waits until it is: see [`file::write_back`](crate::file::write_back).
pub(crate) fn begin_write_back(file: &File, from: u64, len: u64, finish: bool) -> io::Result<()> {
    kernel::write_back(file, from, len, finish)
}

/// The memory of this machine in bytes, if it is known.
///
/// ```
/// assert!(duramen_base::system::memory_bytes().is_none_or(|bytes| bytes > 1 << 20));
/// ```
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    kernel::memory_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Threads that pass a turn around: one that is not woken ends this by the time that the test program has.
    macro_rules! passes_turns {
        ($futex:ty) => {
            let (word, turn) = (<$futex>::default(), AtomicU32::new(0));
            std::thread::scope(|scope| {
                for own in 0..4 {
                    let (word, turn) = (&word, &turn);
                    scope.spawn(move || {
                        for round in 0..500 {
                            loop {
                                let seen = word.load();
                                if turn.load(Ordering::SeqCst) == round * 4 + own {
                                    break;
                                }
                                word.wait(seen);
                            }
                            turn.fetch_add(1, Ordering::SeqCst);
                            word.increment();
                            word.wake(<$futex>::ALL);
                        }
                    });
                }
            });
            assert_eq!(turn.into_inner(), 2000);
        };
    }

    #[test]
    fn a_thread_that_sleeps_on_a_number_is_woken_when_it_changes() {
        passes_turns!(super::Futex);
        passes_turns!(super::portable::Futex);
    }
}
