//! The audit log: one line an event, each carrying the hash of the one before it.
//!
//! A line is `HASH PREVIOUS {event}`, where `HASH` is BLAKE3 over `PREVIOUS`, a blank and the event's exact text.
//! Changing, removing or reordering a line breaks every hash after it. A line is handed to the operating system
//! before the caller is answered, so a killed daemon has logged whatever it acknowledged.

mod follow;
mod list;

pub use follow::{Events, LoggedEvent, NotAPosition, Position};

use crate::{
    error::EngineError,
    files::{io_error, private},
    model::AuditVerification,
};
use duramen_base::clock;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{json, Value};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};
use tokio::sync::watch;

/// A segment is closed when it has grown past this.
const SEGMENT_BYTES: u64 = 64 << 20;
/// What the first line follows.
const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The open audit log of a home directory.
#[derive(Debug)]
pub(crate) struct Audit {
    dir: PathBuf,
    tail: Mutex<Tail>,
    /// Where the last entry ends, for those who follow the log.
    end: watch::Sender<Position>,
}

/// An event's text: names of fields are in this order.
#[derive(Serialize)]
struct Event<'a, T: Serialize> {
    event: &'a str,
    at: Timestamp,
    #[serde(flatten)]
    details: T,
}

#[derive(Debug)]
struct Tail {
    file: fs::File,
    segment: u64,
    length: u64,
    /// Entries since the log was opened.
    entries: u64,
    head: String,
    /// The first write error: after one, nothing more is written, because the chain would have a hole.
    poisoned: Option<String>,
}

impl Audit {
    pub(crate) fn open(dir: &Path) -> Result<Audit, EngineError> {
        let fail = |error: std::io::Error| io_error("open the audit log in", dir, &error);
        let segment = segments(dir).map_err(fail)?.last().map_or(1, |(number, _)| *number);
        let path = segment_path(dir, segment);
        let torn = cut_torn_tail(&path).map_err(fail)?;
        let mut head = GENESIS.to_owned();
        for (_, path) in segments(dir).map_err(fail)?.iter().rev() {
            if let Some(line) = last_line(path).map_err(fail)? {
                line.split(' ').next().unwrap_or(GENESIS).clone_into(&mut head);
                break;
            }
        }
        let file = private(fs::OpenOptions::new().append(true)).open(&path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        let tail = Tail { file, segment, length, entries: 0, head, poisoned: None };
        let end = watch::Sender::new(Position { segment: tail.segment, offset: length });
        let audit = Audit { dir: dir.to_owned(), tail: Mutex::new(tail), end };
        if torn > 0 {
            audit.append("torn_tail_cut", json!({ "bytes": torn }))?;
        }
        Ok(audit)
    }

    /// Appends one event with its name, its time and `details`, which must serialise to an object.
    pub(crate) fn append(&self, event: &str, details: impl Serialize) -> Result<(), EngineError> {
        let line = Event { event, at: clock::utc_now(), details };
        let text = serde_json::to_string(&line)
            .map_err(|error| io_error("append to the audit log in", &self.dir, &error.into()))?;
        let mut tail = self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(first) = &tail.poisoned {
            return Err(io_error(
                "append to the audit log in",
                &self.dir,
                &std::io::Error::other(first.clone()),
            ));
        }
        self.roll(&mut tail)?;
        let hash = line_hash(&tail.head, &text);
        let line = format!("{hash} {} {text}\n", tail.head);
        if let Err(error) = tail.file.write_all(line.as_bytes()) {
            return Err(self.poison(&mut tail, &error));
        }
        tail.length += line.len() as u64;
        tail.head = hash;
        tail.entries += 1;
        self.end.send_replace(Position { segment: tail.segment, offset: tail.length });
        Ok(())
    }

    /// Closes a segment that has grown enough, once the next one is there. That it cannot be made (no descriptor is free, say)
    /// leaves the chain as it was.
    fn roll(&self, tail: &mut Tail) -> Result<(), EngineError> {
        if tail.length < SEGMENT_BYTES {
            return Ok(());
        }
        let path = segment_path(&self.dir, tail.segment + 1);
        let next = private(fs::OpenOptions::new().append(true)).open(path);
        let next = next.map_err(|error| io_error("append to the audit log in", &self.dir, &error))?;
        if let Err(error) = tail.file.sync_data() {
            return Err(self.poison(tail, &error));
        }
        (tail.file, tail.length) = (next, 0);
        tail.segment += 1;
        Ok(())
    }

    fn poison(&self, tail: &mut Tail, error: &std::io::Error) -> EngineError {
        tail.poisoned =
            Some(format!("an earlier write failed: {error}; restart the daemon when it is fixed"));
        io_error("append to the audit log in", &self.dir, error)
    }

    /// Checks every line that was written before this call.
    pub(crate) fn verify(&self) -> std::io::Result<AuditVerification> {
        let end = {
            let tail = self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            (tail.segment, tail.length)
        };
        verify(&self.dir, Some(end))
    }

    /// How many entries were written since the log was opened, and whether it can still be written.
    pub(crate) fn written(&self) -> (u64, bool) {
        let tail = self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (tail.entries, tail.poisoned.is_none())
    }

    /// Follows the log from a position on, or from its end.
    pub(crate) fn follow(&self, after: Option<Position>) -> Result<Events, EngineError> {
        Events::new(&self.dir, after, self.end.subscribe())
    }

    /// At most `limit` entries before a position, or the newest ones: the newest first, each with where it begins.
    pub(crate) fn before(
        &self,
        position: Option<Position>,
        limit: usize,
    ) -> Result<Vec<(Position, LoggedEvent)>, EngineError> {
        list::before(&self.dir, position, *self.end.borrow(), limit)
    }

    /// Flushes the log to disk.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner).file.sync_data()
    }

    /// The events of one branch, oldest first, at most `limit` of the newest.
    pub(crate) fn events_of(&self, branch_id: &str, limit: usize) -> std::io::Result<Vec<Value>> {
        let mut events = std::collections::VecDeque::new();
        let needle = format!("\"branch\":\"{branch_id}\"");
        for (_, path) in segments(&self.dir)? {
            for line in BufReader::new(fs::File::open(path)?).lines() {
                let line = line?;
                let Some(text) = line.splitn(3, ' ').nth(2).filter(|text| text.contains(&needle)) else {
                    continue;
                };
                if let Ok(event) = serde_json::from_str(text) {
                    events.push_back(event);
                    if events.len() > limit {
                        events.pop_front();
                    }
                }
            }
        }
        Ok(events.into())
    }
}

/// Checks every line of the audit log in `dir` against the one before it, up to a length of a segment if one is named.
fn verify(dir: &Path, end: Option<(u64, u64)>) -> std::io::Result<AuditVerification> {
    let mut head = GENESIS.to_owned();
    let mut entries = 0;
    for (number, path) in segments(dir)? {
        let limit = match end {
            Some((last, _)) if number > last => break,
            Some((last, length)) if number == last => length,
            _ => u64::MAX,
        };
        for (index, line) in BufReader::new(fs::File::open(&path)?.take(limit)).lines().enumerate() {
            let line = line?;
            let mut parts = line.splitn(3, ' ');
            let (hash, previous, text) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
            let problem = if previous != Some(head.as_str()) {
                Some("does not follow from the line before it")
            } else if hash != Some(line_hash(&head, text).as_str()) {
                Some("was changed after it was written")
            } else {
                None
            };
            if let Some(problem) = problem {
                let problem = Some(format!("{} line {} {problem}", path.display(), index + 1));
                return Ok(AuditVerification { intact: false, entries, head, problem });
            }
            hash.unwrap_or_default().clone_into(&mut head);
            entries += 1;
        }
    }
    Ok(AuditVerification { intact: true, entries, head, problem: None })
}

fn line_hash(previous: &str, text: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous.as_bytes());
    hasher.update(b" ");
    hasher.update(text.as_bytes());
    hasher.finalize().to_hex().to_string()
}

fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.jsonl"))
}

fn segments(dir: &Path) -> std::io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let Some(number) = number {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The longest tail that is searched for the start of the last line.
const TAIL_BYTES: u64 = 1 << 20;

fn read_tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = match fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Cuts a last line without its end, which a crash of the machine can leave. Returns the bytes cut.
fn cut_torn_tail(path: &Path) -> std::io::Result<u64> {
    let bytes = read_tail(path)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let torn = (bytes.len() - whole) as u64;
    if torn > 0 {
        let file = fs::OpenOptions::new().write(true).open(path)?;
        file.set_len(file.metadata()?.len() - torn)?;
    }
    Ok(torn)
}

fn last_line(path: &Path) -> std::io::Result<Option<String>> {
    let bytes = read_tail(path)?;
    Ok(String::from_utf8_lossy(&bytes).lines().last().map(ToOwned::to_owned))
}

#[cfg(test)]
#[path = "../tests/unit/audit_chain.rs"]
mod tests;
