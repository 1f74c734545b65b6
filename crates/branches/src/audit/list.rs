//! The newest entries of the audit log, and those before a position, read backwards from the log itself.

use super::{
    follow::{event, is_between_entries, LoggedEvent, Position},
    segment_path, segments,
};
use crate::error::{AuditError, EngineError};
use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

/// How much is read at once.
const CHUNK: u64 = 256 << 10;
/// With so many bytes told, no more is read.
const ENOUGH: usize = 4 << 20;

/// At most `limit` entries before a position, the newest first, each with where it begins.
pub(super) fn before(
    dir: &Path,
    before: Option<Position>,
    newest: Position,
    limit: usize,
) -> Result<Vec<(Position, LoggedEvent)>, EngineError> {
    let at = match before {
        None => newest,
        Some(at) if is_between_entries(dir, at, newest).map_err(AuditError::NotRead)? => at,
        Some(at) => return Err(AuditError::NoSuchPosition(at).into()),
    };
    Ok(read(dir, at, limit).map_err(AuditError::NotRead)?)
}

fn read(dir: &Path, mut at: Position, limit: usize) -> io::Result<Vec<(Position, LoggedEvent)>> {
    let mut found = Vec::new();
    while found.len() < limit && told(&found) < ENOUGH {
        if at.offset == 0 {
            let numbers = segments(dir)?.into_iter().map(|(number, _)| number);
            let Some(segment) = numbers.filter(|number| *number < at.segment).max() else { break };
            at = Position { segment, offset: fs::metadata(segment_path(dir, segment))?.len() };
            continue;
        }
        at.offset = read_back(dir, at, limit, &mut found)?;
    }
    Ok(found)
}

fn told(found: &[(Position, LoggedEvent)]) -> usize {
    found.iter().map(|(_, event)| event.json.len()).sum()
}

/// Adds the entries of the last part before a position, and tells where that begins.
fn read_back(
    dir: &Path,
    at: Position,
    limit: usize,
    found: &mut Vec<(Position, LoggedEvent)>,
) -> io::Result<u64> {
    let mut file = fs::File::open(segment_path(dir, at.segment))?;
    let mut chunk = CHUNK.min(at.offset);
    let (bytes, mut offset) = loop {
        let from = at.offset - chunk;
        let mut bytes = vec![0; usize::try_from(chunk).map_err(io::Error::other)?];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut bytes)?;
        if from == 0 {
            break (bytes, 0);
        }
        // The first line may have begun before.
        match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if end + 1 < bytes.len() => {
                let whole = bytes.split_off(end + 1);
                break (whole, from + end as u64 + 1);
            }
            _ => chunk = chunk.saturating_mul(4).min(at.offset),
        }
    };
    let begin = offset;
    let mut lines = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        lines.push((offset, line));
        offset += line.len() as u64;
    }
    for (from, line) in lines.into_iter().rev() {
        if found.len() == limit {
            break;
        }
        let after = Position { segment: at.segment, offset: from + line.len() as u64 };
        found.extend(event(line, after).map(|event| (Position { segment: at.segment, offset: from }, event)));
    }
    Ok(begin)
}

#[cfg(test)]
#[path = "../../tests/unit/listed_log.rs"]
mod tests;
