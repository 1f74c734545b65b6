//! The files of a snapshot as a stream of bytes, from one node of a fleet to another: what it looks like is in `docs/design/fleet.md`.
//!
//! FL-18: what comes is another node's, which is trusted to be one, and still nothing is written but below the directory that was made
//! for it: paths are checked, no link is followed, nothing that is there is opened, and more than was said is not taken.

use crate::files::{dir_below, open_below};
use rustix::fs::{mkdirat, openat, Mode, OFlags};
use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};
use walkdir::WalkDir;

/// What a record begins with.
const DIRECTORY: u8 = b'd';
const FILE: u8 = b'f';
const END: u8 = b'e';
/// The longest path, and how deep it may lead. PostgreSQL needs 4.
const PATH_MAX: usize = 1024;
const DEPTH_MAX: usize = 16;
/// The most files and directories.
const ENTRIES_MAX: u64 = 10_000_000;
/// How much is read and written at a time.
const CHUNK: usize = 256 << 10;

/// Why a stream was not received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    /// It is not what a sender sends.
    #[error("what came is not a generation: {0}")]
    Hostile(String),
    /// It ended, or stood still.
    #[error("it did not come whole: {0}")]
    Broken(io::Error),
    /// It cannot be written.
    #[error("cannot write {path}: {error}")]
    Unwritten {
        /// Where.
        path: PathBuf,
        /// The operating system's answer.
        error: io::Error,
    },
}

/// Sends everything below a directory in which nobody works.
///
/// # Errors
/// When it cannot be read, holds something that is neither a file nor a directory, or `sink` does not take it.
pub(crate) fn send(dir: &Path, sink: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    for entry in WalkDir::new(dir).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(io::Error::from)?;
        let relative = entry.path().strip_prefix(dir).unwrap_or(entry.path());
        let kind = entry.file_type();
        let name = relative.to_str().filter(|name| name.len() <= PATH_MAX);
        let name =
            name.ok_or_else(|| io::Error::other(format!("{} is not a name to send", relative.display())))?;
        if kind.is_dir() {
            head(sink, DIRECTORY, name)?;
        } else if kind.is_file() {
            let mut file = open_below(dir, relative)?;
            let mut left = file.metadata()?.len();
            total += left;
            head(sink, FILE, name)?;
            sink.write_all(&left.to_be_bytes())?;
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
                let read = file.read(&mut buffer[..most])?;
                if read == 0 {
                    return Err(io::Error::other(format!("{name} has become shorter")));
                }
                sink.write_all(&buffer[..read])?;
                left -= read as u64;
            }
        } else {
            return Err(io::Error::other(format!("{name} is neither a file nor a directory")));
        }
    }
    sink.write_all(&[END])?;
    sink.write_all(&u64::to_be_bytes(total))
}

fn head(sink: &mut impl Write, kind: u8, name: &str) -> io::Result<()> {
    let length = u16::try_from(name.len()).map_err(io::Error::other)?;
    sink.write_all(&[kind])?;
    sink.write_all(&length.to_be_bytes())?;
    sink.write_all(name.as_bytes())
}

/// Receives what [`send`] sent into an empty directory that nobody else enters: files of mode 0600 and directories of 0700, of `bytes`
/// in all. `note` is told how many have come.
///
/// # Errors
/// [`TransferError`]. What has come until then is in the directory.
pub(crate) fn receive(
    dir: &Path,
    stream: &mut impl Read,
    bytes: u64,
    note: &dyn Fn(u64),
) -> Result<(), TransferError> {
    let mut receiving = Receiving { dir, stream, left: bytes, done: 0, buffer: vec![0; CHUNK], note };
    for _ in 0..ENTRIES_MAX {
        if !receiving.one()? {
            return Ok(());
        }
    }
    Err(hostile("it has too many files"))
}

struct Receiving<'a, R> {
    dir: &'a Path,
    stream: &'a mut R,
    /// Bytes of files that may still come.
    left: u64,
    done: u64,
    buffer: Vec<u8>,
    note: &'a dyn Fn(u64),
}

impl<R: Read> Receiving<'_, R> {
    fn exactly<const N: usize>(&mut self) -> Result<[u8; N], TransferError> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).map_err(TransferError::Broken)?;
        Ok(bytes)
    }

    /// Takes a record; tells whether it was not the last one.
    fn one(&mut self) -> Result<bool, TransferError> {
        let [kind] = self.exactly()?;
        if kind == END {
            let said = u64::from_be_bytes(self.exactly()?);
            if said != self.done || self.left != 0 {
                return Err(hostile("it has not as many bytes as was said"));
            }
            return Ok(false);
        }
        let length = usize::from(u16::from_be_bytes(self.exactly()?));
        if length > PATH_MAX {
            return Err(hostile("a path is too long"));
        }
        let mut name = vec![0; length];
        self.stream.read_exact(&mut name).map_err(TransferError::Broken)?;
        let relative = relative(name)?;
        match kind {
            DIRECTORY => self.directory(&relative)?,
            FILE => self.file(&relative)?,
            _ => return Err(hostile("a record is of no kind that there is")),
        }
        Ok(true)
    }

    fn unwritten(&self, relative: &Path, error: io::Error) -> TransferError {
        match error.kind() {
            // Such a stream would write where something is, or through it.
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                hostile(&format!("{} cannot be made: {error}", relative.display()))
            }
            _ => TransferError::Unwritten { path: self.dir.join(relative), error },
        }
    }

    fn directory(&self, relative: &Path) -> Result<(), TransferError> {
        let (parent, name) = place(relative);
        let made = dir_below(self.dir, parent)
            .and_then(|parent| Ok(mkdirat(parent, name, Mode::from_raw_mode(0o700))?));
        made.map_err(|error| self.unwritten(relative, error))
    }

    fn file(&mut self, relative: &Path) -> Result<(), TransferError> {
        let mut length = u64::from_be_bytes(self.exactly()?);
        if length > self.left {
            return Err(hostile("it has more bytes than was said"));
        }
        self.left -= length;
        let (parent, name) = place(relative);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = dir_below(self.dir, parent)
            .and_then(|parent| Ok(openat(parent, name, flags, Mode::from_raw_mode(0o600))?));
        let mut file = File::from(made.map_err(|error| self.unwritten(relative, error))?);
        while length > 0 {
            let most = usize::try_from(length).unwrap_or(CHUNK).min(CHUNK);
            let read = match self.stream.read(&mut self.buffer[..most]) {
                Ok(0) => return Err(TransferError::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(TransferError::Broken(error)),
            };
            file.write_all(&self.buffer[..read]).map_err(|error| self.unwritten(relative, error))?;
            length -= read as u64;
            self.done += read as u64;
            (self.note)(self.done);
        }
        Ok(())
    }
}

/// A path that leads below the directory and nowhere else.
fn relative(name: Vec<u8>) -> Result<PathBuf, TransferError> {
    let name = String::from_utf8(name).map_err(|_| hostile("a path is not text"))?;
    let path = PathBuf::from(&name);
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = |part: &&str| !part.is_empty() && *part != "." && *part != ".." && !part.contains('\0');
    let is_normal = path.components().all(|part| matches!(part, Component::Normal(_)));
    if parts.len() > DEPTH_MAX || !parts.iter().all(is_plain) || !is_normal {
        return Err(hostile(&format!("{name:?} is not a path of a data directory")));
    }
    Ok(path)
}

/// The directory of a path, and its name there.
fn place(relative: &Path) -> (&Path, &std::ffi::OsStr) {
    let parent = relative.parent().filter(|parent| !parent.as_os_str().is_empty());
    (parent.unwrap_or(Path::new(".")), relative.file_name().unwrap_or_default())
}

fn hostile(what: &str) -> TransferError {
    TransferError::Hostile(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::digest;
    use std::{fs, os::unix::fs::symlink};

    fn sent(dir: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        send(dir, &mut bytes).expect("it is sent");
        bytes
    }

    fn record(kind: u8, name: &[u8], content: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(u16::try_from(name.len()).expect("a length").to_be_bytes());
        bytes.extend(name);
        if let Some(content) = content {
            bytes.extend((content.len() as u64).to_be_bytes());
            bytes.extend(content);
        }
        bytes
    }

    /// FL-17.
    #[test]
    fn what_comes_has_the_digest_of_what_was_sent() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("base/5")).expect("a tree");
        fs::create_dir_all(from.join("pg_notify")).expect("an empty directory");
        fs::write(from.join("base/5/1259"), vec![7; 700_000]).expect("a file");
        fs::write(from.join("empty"), "").expect("a file");
        fs::create_dir(&to).expect("a place");
        let (bytes, expected) = digest::tree(&from).expect("a digest");
        let stream = sent(&from);
        receive(&to, &mut stream.as_slice(), bytes, &|_| {}).expect("it comes");
        assert_eq!(digest::tree(&to).expect("a digest"), (bytes, expected));
        assert!(to.join("pg_notify").is_dir());

        // Every beginning of it is refused, and so are other sizes.
        for length in (0..stream.len()).step_by(9973).chain([stream.len() - 1]) {
            let to = dir.path().join(format!("to-{length}"));
            fs::create_dir(&to).expect("a place");
            let cut = receive(&to, &mut &stream[..length], bytes, &|_| {});
            assert!(matches!(cut, Err(TransferError::Broken(_))), "{length}: {cut:?}");
        }
        for other in [0, bytes - 1, bytes + 1] {
            let to = dir.path().join(format!("of-{other}"));
            fs::create_dir(&to).expect("a place");
            let refused = receive(&to, &mut stream.as_slice(), other, &|_| {});
            assert!(matches!(refused, Err(TransferError::Hostile(_))), "{other}: {refused:?}");
        }
    }

    /// FL-18.
    #[test]
    fn nothing_is_written_but_below_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("to");
        for name in [
            &b""[..],
            b"/etc/x",
            b"../x",
            b"a/../../x",
            b"./x",
            b"a//x",
            b"x/",
            b"\xff",
            b"a\0b",
            b".",
            b"..",
            b"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17",
        ] {
            for (kind, content) in [(DIRECTORY, None), (FILE, Some(&b"x"[..]))] {
                let _ = fs::remove_dir_all(&to);
                fs::create_dir(&to).expect("a place");
                let stream = record(kind, name, content);
                let refused = receive(&to, &mut stream.as_slice(), 1, &|_| {});
                assert!(matches!(refused, Err(TransferError::Hostile(_))), "{name:?}: {refused:?}");
                assert_eq!(fs::read_dir(&to).expect("a list").count(), 0, "{name:?}");
            }
        }
        // Neither through a link nor over a file that is there.
        symlink(dir.path(), to.join("out")).expect("a link");
        fs::write(to.join("there"), "kept").expect("a file");
        for name in [&b"out/x"[..], b"there", b"there/x", b"none/x", b"out"] {
            let stream = record(FILE, name, Some(b"x"));
            assert!(receive(&to, &mut stream.as_slice(), 1, &|_| {}).is_err(), "{name:?}");
        }
        assert_eq!(fs::read_to_string(to.join("there")).expect("a file"), "kept");
        assert_eq!(fs::read_dir(dir.path()).expect("a list").count(), 1);
        assert!(receive(&to, &mut record(b'x', b"a", None).as_slice(), 0, &|_| {}).is_err());
    }
}
