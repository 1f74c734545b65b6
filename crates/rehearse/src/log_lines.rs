//! Lines of a server's log, in the forms that it writes for programs: [CSV] and [JSON].
//!
//! [CSV]: https://www.postgresql.org/docs/current/runtime-config-logging.html#RUNTIME-CONFIG-LOGGING-CSVLOG
//! [JSON]: https://www.postgresql.org/docs/current/runtime-config-logging.html#RUNTIME-CONFIG-LOGGING-JSONLOG

use crate::recording::RecordingError;
use serde::Deserialize;
use std::io::{self, BufRead, Read};

/// One line of JSON. The server cuts no message; this is what a line of 64 MiB of SQL needs.
const LINE_MAX: u64 = 160 << 20;
/// Columns of the CSV form that are read: those up to `detail`, which are the same since PostgreSQL 9.0.
const COLUMNS: usize = 15;

/// What is wrong with a log, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) line: u64,
    pub(crate) what: String,
}

/// An entry of the log, as far as it matters here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Microseconds of the server's clock; only differences mean something.
    pub(crate) at_us: i64,
    pub(crate) database: String,
    pub(crate) session: String,
    pub(crate) severity: String,
    pub(crate) message: String,
    pub(crate) detail: String,
}

/// A statement that an entry tells of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Statement<'a> {
    pub(crate) sql: &'a str,
    pub(crate) is_extended: bool,
    pub(crate) is_named: bool,
    pub(crate) parameters: Option<Vec<Option<String>>>,
    /// How long it had run when the entry was written, in microseconds.
    pub(crate) took_us: i64,
}

impl Line {
    /// The statement that a client had executed, if the entry is one of `log_statement` or of
    /// `log_min_duration_statement`.
    pub(crate) fn statement(&self) -> Option<Statement<'_>> {
        if self.severity != "LOG" {
            return None;
        }
        let (took_us, message) = match self.message.strip_prefix("duration: ") {
            Some(rest) => {
                let (ms, rest) = rest.split_once(" ms  ")?;
                ((ms.parse::<f64>().ok()? * 1e3) as i64, rest)
            }
            None => (0, self.message.as_str()),
        };
        if let Some(sql) = message.strip_prefix("statement: ") {
            return Some(Statement { sql, is_extended: false, is_named: false, parameters: None, took_us });
        }
        // Of a portal that is read in pieces only the first execution is a statement.
        let executed = message.strip_prefix("execute ").filter(|rest| !rest.starts_with("fetch from "))?;
        let (name, sql) = executed.split_once(": ")?;
        let is_named = !name.starts_with("<unnamed>");
        Some(Statement { sql, is_extended: true, is_named, parameters: parameters(&self.detail), took_us })
    }
}

/// `parameters: $1 = 'it''s', $2 = NULL`.
fn parameters(detail: &str) -> Option<Vec<Option<String>>> {
    const LEAD: &str = "parameters: ";
    let mut rest = match detail.get(..LEAD.len()) {
        Some(lead) if lead.eq_ignore_ascii_case(LEAD) => &detail[LEAD.len()..],
        _ => return None,
    };
    let mut found = Vec::new();
    loop {
        rest = rest.strip_prefix(&format!("${} = ", found.len() + 1))?;
        if let Some(behind) = rest.strip_prefix("NULL") {
            found.push(None);
            rest = behind;
        } else {
            let (mut value, mut inner) = (String::new(), rest.strip_prefix('\'')?);
            loop {
                let (piece, behind) = inner.split_once('\'')?;
                value.push_str(piece);
                match behind.strip_prefix('\'') {
                    Some(again) => {
                        value.push('\'');
                        inner = again;
                    }
                    None => {
                        rest = behind;
                        break;
                    }
                }
            }
            found.push(Some(value));
        }
        match rest.strip_prefix(", ") {
            Some(more) => rest = more,
            None => return rest.is_empty().then_some(found),
        }
    }
}

/// Reads a log, entry after entry. The last entry may be cut: it was perhaps being written.
pub(crate) fn read(
    mut log: impl BufRead,
    take: impl FnMut(Line) -> Result<(), RecordingError>,
) -> Result<(), RecordingError> {
    match log.fill_buf().map_err(RecordingError::File)?.first() {
        Some(b'{') => read_json(log, take),
        _ => read_csv(log, take),
    }
}

fn wrong(line: u64, what: impl Into<String>) -> RecordingError {
    RecordingError::Line(Wrong { line, what: what.into() })
}

const FORMS: &str = "this is not an entry of a server's log in its CSV or JSON form (log_destination = csvlog, or jsonlog since \
                     PostgreSQL 15)";

#[derive(Deserialize)]
struct Json {
    timestamp: String,
    #[serde(default)]
    dbname: String,
    #[serde(default)]
    session_id: String,
    #[serde(default)]
    error_severity: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    detail: String,
}

fn read_json(
    mut log: impl BufRead,
    mut take: impl FnMut(Line) -> Result<(), RecordingError>,
) -> Result<(), RecordingError> {
    let (mut number, mut text) = (0, Vec::new());
    loop {
        number += 1;
        text.clear();
        let read = log.by_ref().take(LINE_MAX).read_until(b'\n', &mut text).map_err(RecordingError::File)?;
        if read == 0 {
            return Ok(());
        }
        let is_whole = text.ends_with(b"\n");
        if !is_whole && read as u64 == LINE_MAX {
            return Err(wrong(number, "it is longer than 160 MiB"));
        }
        // Servers with other encodings write theirs.
        let entry = String::from_utf8_lossy(&text);
        match serde_json::from_str::<Json>(&entry) {
            Ok(entry) => take(Line {
                at_us: moment(&entry.timestamp).ok_or_else(|| wrong(number, FORMS))?,
                database: entry.dbname,
                session: entry.session_id,
                severity: entry.error_severity,
                message: entry.message,
                detail: entry.detail,
            })?,
            Err(_) if !is_whole || entry.trim().is_empty() => {}
            Err(_) => return Err(wrong(number, FORMS)),
        }
    }
}

fn read_csv(
    log: impl BufRead,
    mut take: impl FnMut(Line) -> Result<(), RecordingError>,
) -> Result<(), RecordingError> {
    // A quote that nobody closes would be an entry as long as the file.
    let log = OneEntry { log, left: LINE_MAX };
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(log);
    let mut record = csv::ByteRecord::new();
    // An entry that is wrong is told of when there is one behind it.
    let mut unread = None;
    loop {
        reader.get_mut().left = LINE_MAX;
        let more = reader.read_byte_record(&mut record).map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            match error.into_kind() {
                csv::ErrorKind::Io(source) => RecordingError::File(source),
                _ => wrong(line, FORMS),
            }
        })?;
        if !more {
            return match unread {
                Some((1, error)) => Err(error),
                _ => Ok(()),
            };
        }
        if let Some((_, error)) = unread {
            return Err(error);
        }
        let column = |at: usize| String::from_utf8_lossy(record.get(at).unwrap_or_default()).into_owned();
        let line = record.position().map_or(0, csv::Position::line);
        // The process and the number of its entry are numbers, wherever a comma is missing.
        let is_number = |at: usize| column(at).parse::<u64>().is_ok();
        let is_entry = record.len() >= COLUMNS && is_number(3) && is_number(6);
        let at_us = is_entry.then(|| moment(&column(0))).flatten();
        let Some(at_us) = at_us else {
            unread = Some((line, wrong(line, FORMS)));
            continue;
        };
        take(Line {
            at_us,
            database: column(2),
            session: column(5),
            severity: column(11),
            message: column(13),
            detail: column(14),
        })?;
        unread = None;
    }
}

/// A log of which so much may be read until there is an entry.
struct OneEntry<R> {
    log: R,
    left: u64,
}

impl<R: Read> Read for OneEntry<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.log.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "an entry is longer than 160 MiB, or ends nowhere")
        })?;
        Ok(read)
    }
}

/// `2026-11-22 09:13:05.123 UTC`, without its zone, which is the same for all entries.
fn moment(text: &str) -> Option<i64> {
    let mut words = text.split(' ');
    let (day, time) = (words.next()?, words.next()?);
    let local: jiff::civil::DateTime = format!("{day}T{time}").parse().ok()?;
    let utc = local.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(utc.timestamp().as_microsecond())
}

#[cfg(test)]
#[path = "../tests/unit/log_lines.rs"]
mod tests;
