//! The log of a series: one JSON object a line, chained by digests, only ever appended to (X2, X3).
//!
//! What [`Log::append`] has returned for is on the disk. Whoever is killed leaves whole lines and at most one that is
//! not, at the end, which the next [`Log::open`] cuts off and tells. Anything else that does not fit is damage, and
//! the log does not open: nothing is decided from half of what was seen.

mod line;

use crate::event::Event;
use duramen_base::{
    clock, file,
    lock::{FileLock, LockError},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The name of the file within the folder of a series.
pub const FILE_NAME: &str = "experiments.jsonl";
/// What the first line names as the digest of the line before.
pub const NO_DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// A line is not longer than this, in bytes.
pub const LINE_LIMIT: usize = 4 << 20;
/// A log is not longer than this, in bytes: it is read whole.
pub const FILE_LIMIT: u64 = 1 << 30;
/// How much of a line that is cut off is shown, in characters.
const SHOWN: usize = 60;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The system refused.
    #[error("cannot {doing} the log {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The log.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is none.
    #[error("there is no log {}; `init` begins a series, `--series FOLDER` names another one", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// There is one already.
    #[error("there is a log already: {}; use it, or begin the series in another folder", path.display())]
    Exists {
        /// The log.
        path: PathBuf,
    },
    /// Another process has it open (X3).
    #[error("another process works on this series: {} is locked; wait for it, or end it", path.display())]
    Busy {
        /// The log.
        path: PathBuf,
    },
    /// A line is not what was written, or not where it was.
    #[error("line {line} of the log {} does not fit: {why}; {}", path.display(), advice(*line, *is_last, path))]
    Damaged {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Whether it is the last.
        is_last: bool,
        /// What does not fit.
        why: String,
    },
    /// A line is whole, but says what this version does not know.
    #[error(
        "line {line} of the log {} is of a later version: {what}; use that version of duramen for this series",
        path.display()
    )]
    Later {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is not known.
        what: String,
    },
    /// An event that cannot be written such that it is read again the same.
    #[error("{what} cannot be written to the log {}: {why}", path.display())]
    Unwritable {
        /// The log.
        path: PathBuf,
        /// The type of the event.
        what: String,
        /// Why.
        why: String,
    },
    /// Somebody else changed the file meanwhile.
    #[error(
        "the log {} was changed or replaced while it was in use ({why}); nothing was written: put it back as it was \
         and run the command again",
        path.display()
    )]
    Changed {
        /// The log.
        path: PathBuf,
        /// What is different.
        why: &'static str,
    },
    /// A line could not be written.
    #[error(
        "cannot append to the log {}: {source}; what was written before is kept: fix that (is the disk full?) and run \
         the command again, it goes on from there",
        path.display()
    )]
    Append {
        /// The log.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An earlier write failed.
    #[error("the log {} takes no more after a failed write; run the command again once that is fixed", path.display())]
    Ended {
        /// The log.
        path: PathBuf,
    },
}

fn advice(line: u64, is_last: bool, path: &Path) -> String {
    let good = line.saturating_sub(1);
    let why = if is_last {
        "it is the last one: if the machine went down while it was written, it was never acted upon"
    } else {
        "somebody or something changed the file after it was written: put back a good copy if there is one"
    };
    format!(
        "{why}; to go on with the {good} lines before it, move the file away and `head -n {good}` it into {}",
        path.display()
    )
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the line, from 1.
    pub seq: u64,
    /// When it was written, to the millisecond.
    pub at: Timestamp,
    /// The digest of the line before: BLAKE3 in hexadecimal digits, [`NO_DIGEST`] in the first line.
    pub prev: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// A last line without an end, which was cut off. What it would have said was not acted upon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// The number of the line.
    pub line: u64,
    /// How much of it there was.
    pub bytes: u64,
    /// How it began.
    pub text: String,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { line, bytes, text } = self;
        write!(f, "line {line} of the log had no end and was cut off: {bytes} bytes, {text:?}; a command was killed")
    }
}

/// A log that is open for appending, and locked until it is dropped.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: FileLock,
    /// How long the file is as far as it is ours.
    length: u64,
    seq: u64,
    digest: String,
    failed: bool,
}

impl Log {
    /// Makes an empty log and locks it.
    ///
    /// # Errors
    /// When there is a file of that name, or it cannot be made, synced or locked.
    pub fn create(path: &Path) -> Result<Log, LogError> {
        let file =
            OpenOptions::new().read(true).append(true).create_new(true).open(path).map_err(|source| {
                match source.kind() {
                    io::ErrorKind::AlreadyExists => LogError::Exists { path: path.to_owned() },
                    _ => fail("make", path)(source),
                }
            })?;
        let file = lock(file, path)?;
        file.sync_all().map_err(fail("sync", path))?;
        sync_folder(path)?;
        Ok(Log::new(path, file))
    }

    /// Locks a log, checks every line of it, and cuts off a last line that has no end.
    ///
    /// # Errors
    /// When there is none, another process has it, a line does not fit, or the system refuses.
    pub fn open(path: &Path) -> Result<(Log, Vec<Entry>, Option<Cut>), LogError> {
        let file = OpenOptions::new().read(true).append(true).open(path).map_err(missing(path))?;
        let file = lock(file, path)?;
        let mut log = Log::new(path, file);
        let found = take(&log.file, path, FILE_LIMIT)?;
        let whole = found.whole;
        let (entries, mut cut) = (found.entries, found.cut);
        if found.lacks_end {
            // The line itself is proven; only its end is missing, as some editors leave it.
            (&*log.file).write_all(b"\n").map_err(fail("end the last line of", path))?;
            log.file.sync_data().map_err(fail("sync", path))?;
            cut = None;
        } else if cut.is_some() {
            log.file.set_len(whole).map_err(fail("cut", path))?;
            log.file.sync_all().map_err(fail("sync", path))?;
        }
        log.length = whole + u64::from(found.lacks_end);
        log.seq = entries.last().map_or(0, |entry| entry.seq);
        log.digest = found.digest;
        Ok((log, entries, cut))
    }

    fn new(path: &Path, file: FileLock) -> Log {
        Log { path: path.to_owned(), file, length: 0, seq: 0, digest: NO_DIGEST.to_owned(), failed: false }
    }

    /// Writes a line and syncs it. After an error of the system the log takes no more: what is on the disk is known
    /// again only when it is opened anew.
    ///
    /// # Errors
    /// When the event cannot be written so that it reads the same again (a figure that is infinite or no number, a line
    /// beyond [`LINE_LIMIT`]), somebody else changed the file, or the system refuses.
    pub fn append(&mut self, event: Event) -> Result<Entry, LogError> {
        if self.failed {
            return Err(LogError::Ended { path: self.path.clone() });
        }
        let at = Timestamp::from_millisecond(clock::unix_ms()).unwrap_or(Timestamp::UNIX_EPOCH);
        let entry = Entry { seq: self.seq + 1, at, prev: self.digest.clone(), event };
        let mut line = line::write(&entry).map_err(|why| self.unwritable(&entry.event, why))?;
        let digest = line::digest(&line);
        line.push('\n');
        let length = line.len() as u64;
        if line.len() > LINE_LIMIT {
            let why = format!("it is a line of {length} bytes, and {LINE_LIMIT} are allowed");
            return Err(self.unwritable(&entry.event, why));
        }
        if self.length + length > FILE_LIMIT {
            let why = format!("the log would be longer than {FILE_LIMIT} bytes; begin another series");
            return Err(self.unwritable(&entry.event, why));
        }
        self.unchanged()?;
        if let Err(source) = (&*self.file).write_all(line.as_bytes()).and_then(|()| self.file.sync_data()) {
            self.failed = true;
            // A part of the line may be there. If it cannot be taken back either, the next one to open cuts it off.
            let _ = self.file.set_len(self.length);
            return Err(LogError::Append { path: self.path.clone(), source });
        }
        self.length += length;
        self.seq = entry.seq;
        self.digest = digest;
        Ok(entry)
    }

    /// The digest of the last line, [`NO_DIGEST`] if there is none.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A checkout, a stash or an editor may put another file in its place: what is appended to the old one is lost.
    fn unchanged(&self) -> Result<(), LogError> {
        let changed = |why| Err(LogError::Changed { path: self.path.clone(), why });
        let there = match fs::metadata(&self.path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return changed("it is gone"),
            Err(error) => return Err(fail("look at", &self.path)(error)),
        };
        let ours = self.file.metadata().map_err(fail("look at", &self.path))?;
        if (there.dev(), there.ino()) != (ours.dev(), ours.ino()) {
            return changed("another file has its name");
        }
        if ours.len() != self.length {
            return changed("its length is another");
        }
        Ok(())
    }

    fn unwritable(&self, event: &Event, why: String) -> LogError {
        let kind =
            serde_json::to_value(event).ok().and_then(|value| Some(value["type"].as_str()?.to_owned()));
        let what = format!("an event `{}`", kind.unwrap_or_default());
        LogError::Unwritable { path: self.path.clone(), what, why }
    }
}

/// Reads a log that another process may be appending to. A line that has no end yet is left out.
///
/// # Errors
/// When there is none, a line does not fit, or the system refuses.
pub fn read(path: &Path) -> Result<Vec<Entry>, LogError> {
    let file = File::open(path).map_err(missing(path))?;
    read_file(&file, path, FILE_LIMIT)
}

/// Reads a log that is open, of at most `most` bytes, as [`read`] does. `path` is what errors call it.
///
/// # Errors
/// When it is longer, a line does not fit, or the system refuses.
///
/// ```
/// use duramen_experiment::log::{read_file, Log, FILE_NAME};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join(FILE_NAME);
/// drop(Log::create(&path)?);
/// let file = std::fs::File::open(&path)?;
/// assert!(read_file(&file, &path, 1 << 20)?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_file(file: &File, path: &Path, most: u64) -> Result<Vec<Entry>, LogError> {
    Ok(take(file, path, most.min(FILE_LIMIT))?.entries)
}

/// What a file holds.
struct Found {
    entries: Vec<Entry>,
    digest: String,
    /// How many bytes are lines that fit.
    whole: u64,
    /// Whether the last of them lacks only its newline.
    lacks_end: bool,
    cut: Option<Cut>,
}

fn take(file: &File, path: &Path, most: u64) -> Result<Found, LogError> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(fail("read", path))?;
    if bytes.len() as u64 > most {
        let source = io::Error::other(format!("it is longer than {most} bytes"));
        return Err(fail("read", path)(source));
    }
    let mut found =
        Found { entries: Vec::new(), digest: NO_DIGEST.to_owned(), whole: 0, lacks_end: false, cut: None };
    let mut rest = bytes.as_slice();
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (text, after) = (&rest[..end], &rest[end + 1..]);
        found.enter(text, path, after.is_empty())?;
        found.whole += end as u64 + 1;
        rest = after;
    }
    if rest.is_empty() {
        return Ok(found);
    }
    let line = found.entries.len() as u64 + 1;
    if line::is_whole(rest) {
        found.enter(rest, path, true)?;
        found.whole += rest.len() as u64;
        found.lacks_end = true;
    } else if line::is_whole(&rest[..rest.len() - 1]) {
        // No kill leaves this: a line is written from its beginning.
        let why = "it is whole, but ends with another byte than a newline".to_owned();
        return Err(LogError::Damaged { path: path.to_owned(), line, is_last: true, why });
    } else {
        let text = String::from_utf8_lossy(rest).chars().take(SHOWN).collect();
        found.cut = Some(Cut { line, bytes: rest.len() as u64, text });
    }
    Ok(found)
}

impl Found {
    /// Checks that a line is the next one.
    fn enter(&mut self, text: &[u8], path: &Path, is_last: bool) -> Result<(), LogError> {
        let path = || path.to_owned();
        let line = self.entries.len() as u64 + 1;
        let entry = line::read(text, line, &self.digest).map_err(|wrong| match wrong {
            line::Wrong::Damaged(why) => LogError::Damaged { path: path(), line, is_last, why },
            line::Wrong::Later(what) => LogError::Later { path: path(), line, what },
        })?;
        self.digest = line::digest_of(text);
        self.entries.push(entry);
        Ok(())
    }
}

fn lock(file: File, path: &Path) -> Result<FileLock, LogError> {
    FileLock::exclusive(file).map_err(|error| match error {
        LockError::Held => LogError::Busy { path: path.to_owned() },
        LockError::Io(doing, error) => fail(doing, path)(error),
    })
}

/// Without this a new name may be lost although the file was kept (fsync(2), notes).
fn sync_folder(path: &Path) -> Result<(), LogError> {
    file::sync_folder_of(path).map_err(fail("sync the folder of", path))
}

fn fail(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| LogError::Io { doing, path, source }
}

fn missing(path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::NotFound => LogError::Missing { path },
        _ => LogError::Io { doing: "open", path, source },
    }
}
