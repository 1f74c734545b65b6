//! Entries of the audit log as they come, read from the log itself: a reader that is slow, or that comes back later with the
//! position that it had, misses none and costs no memory.

use super::{segment_path, segments};
use crate::error::{AuditError, EngineError};
use std::{
    fmt, fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    str::FromStr,
};
use tokio::sync::watch;

/// How much is read at once.
const CHUNK: u64 = 256 << 10;

/// A place between two entries of the audit log. It is written `SEGMENT-BYTES`, and stays right for as long as the log is kept.
///
/// ```
/// let position: duramen_branches::Position = "1-4096".parse()?;
/// assert_eq!(position.to_string(), "1-4096");
/// # Ok::<(), duramen_branches::NotAPosition>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.segment, self.offset)
    }
}

/// A text that is no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a position in the audit log: they are like 1-4096, and come with the events")]
pub struct NotAPosition;

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Position, NotAPosition> {
        let (segment, offset) = text.split_once('-').ok_or(NotAPosition)?;
        let number = |text: &str| {
            // Not what Rust also takes for a number.
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse().ok()).flatten().ok_or(NotAPosition)
        };
        Ok(Position { segment: number(segment)?, offset: number(offset)? })
    }
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvent {
    /// Where the log goes on after it.
    pub after: Position,
    /// What happened: `leased`, `destroyed`, ...
    pub name: String,
    /// All that the log says of it: a JSON object, on one line.
    pub json: String,
}

/// Follows the audit log.
#[derive(Debug)]
pub struct Events {
    dir: PathBuf,
    at: Position,
    end: watch::Receiver<Position>,
}

impl Events {
    pub(super) fn new(
        dir: &Path,
        after: Option<Position>,
        mut end: watch::Receiver<Position>,
    ) -> Result<Events, EngineError> {
        let newest = *end.borrow_and_update();
        let at = match after {
            None => newest,
            Some(at) if is_between_entries(dir, at, newest).map_err(AuditError::NotRead)? => at,
            Some(at) => return Err(AuditError::NoSuchPosition(at).into()),
        };
        Ok(Events { dir: dir.to_owned(), at, end })
    }

    /// Where it is.
    #[must_use]
    pub fn position(&self) -> Position {
        self.at
    }

    /// The next entries, some at a time; waits until there is one. `None` when the log was closed. Nothing is lost if the future
    /// is dropped.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<LoggedEvent>>, EngineError> {
        loop {
            let end = *self.end.borrow_and_update();
            if self.at < end {
                let (dir, at) = (self.dir.clone(), self.at);
                let read = tokio::task::spawn_blocking(move || read(&dir, at, end)).await;
                let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
                let (events, at) = read.map_err(AuditError::NotRead)?;
                self.at = at;
                if !events.is_empty() {
                    return Ok(Some(events));
                }
            } else if self.end.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

pub(super) fn is_between_entries(dir: &Path, at: Position, newest: Position) -> io::Result<bool> {
    if at > newest {
        return Ok(false);
    }
    let mut file = match fs::File::open(segment_path(dir, at.segment)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    if at.offset == 0 {
        return Ok(true);
    }
    if at.offset > file.metadata()?.len() {
        return Ok(false);
    }
    let mut before = [0];
    file.seek(SeekFrom::Start(at.offset - 1))?;
    file.read_exact(&mut before)?;
    Ok(before == [b'\n'])
}

/// Entries from a position on, and where those after them begin.
fn read(dir: &Path, at: Position, end: Position) -> io::Result<(Vec<LoggedEvent>, Position)> {
    let mut file = fs::File::open(segment_path(dir, at.segment))?;
    let length = if at.segment == end.segment { end.offset } else { file.metadata()?.len() };
    let left = length.saturating_sub(at.offset);
    if left == 0 {
        let next = segments(dir)?.into_iter().map(|(number, _)| number).find(|number| *number > at.segment);
        return Ok((Vec::new(), next.map_or(end, |segment| Position { segment, offset: 0 })));
    }
    let mut bytes = Vec::new();
    let mut chunk = CHUNK.min(left);
    let whole = loop {
        bytes.clear();
        file.seek(SeekFrom::Start(at.offset))?;
        (&mut file).take(chunk).read_to_end(&mut bytes)?;
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => break last + 1,
            None if chunk == left => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an entry has no end"));
            }
            // An entry that is longer.
            None => chunk = chunk.saturating_mul(4).min(left),
        }
    };
    let mut events = Vec::new();
    let mut offset = at.offset;
    for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
        offset += line.len() as u64;
        // One that was damaged is told by the log's verification, and keeps nobody from those after it.
        events.extend(event(line, Position { segment: at.segment, offset }));
    }
    Ok((events, Position { segment: at.segment, offset }))
}

pub(super) fn event(line: &[u8], after: Position) -> Option<LoggedEvent> {
    #[derive(serde::Deserialize)]
    struct Named {
        event: String,
    }
    let json = std::str::from_utf8(line).ok()?.trim_end_matches('\n').splitn(3, ' ').nth(2)?;
    let Named { event: name } = serde_json::from_str(json).ok()?;
    Some(LoggedEvent { after, name, json: json.to_owned() })
}

#[cfg(test)]
#[path = "../../tests/unit/followed_log.rs"]
mod tests;
