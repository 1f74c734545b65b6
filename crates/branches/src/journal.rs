//! The lease journal: what has been promised to whom, so that a restarted daemon can keep it.
//!
//! Each line is a lease as it became, or the id of one that ended; the last line of an id counts. A line is handed
//! to the operating system before the caller is answered, with a sum over its text, because a flipped bit in a name is
//! as bad as one that breaks the line. The file is rewritten when it is opened; if a line of it is damaged, the file as
//! it was is kept beside it, and rewritten only when what it may have named is safe ([`Journal::rewrite`]).

use crate::{
    error::EngineError,
    files::{self, io_error, private},
    model::{Policy, SnapshotKind},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// The boot of a branch that was stopped cleanly: its files are whole in any boot.
pub(crate) const CLEAN: &str = "clean";
/// Length of a line's sum.
const SUM_LEN: usize = 16;
/// How many damaged journals are kept beside the journal.
const DAMAGED_MAX: u32 = 100;

/// A lease as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) generation: u32,
    pub(crate) policy: Policy,
    /// The directory of its volume below `volumes/branches`.
    pub(crate) volume: String,
    /// The directory of its socket below `run`.
    pub(crate) socket: String,
    pub(crate) durable: bool,
    /// Whether its holder is admitted to every database.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) all_databases: bool,
    /// Whether its statements are in the audit log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) audits_statements: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) protected: bool,
    /// The boot of the machine that its server was started in: unflushed data do not outlive it.
    pub(crate) boot: String,
    /// Why its data may not be what it acknowledged, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// Whether its server's role may not have the branch's own secret yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unentered: bool,
    /// The id of the token by which it was created, if it was by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<String>,
    /// What it was made of, if that is another branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<Base>,
    /// The volume whose administrator's secret may be in force in its own, if it is a copy of another branch's, or of an earlier
    /// one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inherited: Option<String>,
}

/// What a child was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// The id of the snapshot.
    pub(crate) snapshot: String,
    /// The id of the parent, and the name that it had then.
    pub(crate) branch: String,
    pub(crate) name: String,
    /// When the snapshot was taken.
    pub(crate) taken_at: Timestamp,
    /// Whether its server ran then.
    pub(crate) running: bool,
}

/// A snapshot of a branch as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SnapshotRecord {
    /// The name of its volume, too, below `volumes/branches`.
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) kind: SnapshotKind,
    /// The id of the lease that it is of.
    pub(crate) lease: String,
    pub(crate) source: String,
    pub(crate) generation: u32,
    pub(crate) policy: Policy,
    /// The volume that it was taken of.
    pub(crate) volume: String,
    pub(crate) taken_at: Timestamp,
    /// Whether its server ran, so that it has to be recovered.
    pub(crate) running: bool,
    pub(crate) durable: bool,
    /// The boot of the machine that it was taken in: what was not flushed does not outlive it.
    pub(crate) boot: String,
    /// Why it may not be what it should be, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Lease(Box<LeaseRecord>),
    End(String),
    Snapshot(Box<SnapshotRecord>),
    #[serde(rename = "snapshot_end")]
    SnapshotEnd(String),
}

/// The open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    /// The file, and the first write error: after one nothing more is written, because a torn line would swallow the
    /// next one.
    file: Mutex<(fs::File, Option<String>)>,
}

/// What an earlier process left in the journal.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    /// The leases that have not ended, as far as they can be read.
    pub(crate) leases: Vec<LeaseRecord>,
    /// The snapshots of branches that have not ended either.
    pub(crate) snapshots: Vec<SnapshotRecord>,
    /// Where the journal was kept as it was found, if a line in it is damaged: what that line said is unknown, so any
    /// volume that seems to be nobody's may be somebody's.
    pub(crate) damaged: Option<PathBuf>,
}

impl Journal {
    /// Reads the journal and rewrites it to hold only what still counts.
    pub(crate) fn open(path: &Path) -> Result<Opened, EngineError> {
        let fail = |error: std::io::Error| io_error("open the lease journal", path, &error);
        let mut leases: BTreeMap<String, LeaseRecord> = BTreeMap::new();
        let mut snapshots: BTreeMap<String, SnapshotRecord> = BTreeMap::new();
        // Which lease has a name. A name is given to a second one only after the first has ended.
        let mut holders: HashMap<String, String> = HashMap::new();
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            bytes => bytes.map_err(fail)?,
        };
        let mut is_damaged = false;
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            match read_line(line) {
                Ok(Line::Lease(lease)) => {
                    // A lease that was given another name has the earlier one no more, and that may be somebody else's.
                    let was = leases.get(&lease.id).map(|was| &was.name).filter(|was| **was != lease.name);
                    if let Some(was) = was.filter(|was| holders.get(*was) == Some(&lease.id)) {
                        holders.remove(was);
                    }
                    let earlier = holders.insert(lease.name.clone(), lease.id.clone());
                    if let Some(ended) = earlier.filter(|id| *id != lease.id && leases.contains_key(id)) {
                        // The line by which it ended can only be a damaged one, after which its volume is kept in
                        // quarantine with whatever else no lease names.
                        tracing::warn!(
                            name = lease.name,
                            ended,
                            "a later lease has the name: the earlier one ended"
                        );
                        leases.remove(&ended);
                    }
                    leases.insert(lease.id.clone(), *lease);
                }
                Ok(Line::End(id)) => drop(leases.remove(&id)),
                Ok(Line::Snapshot(snapshot)) => {
                    snapshots.insert(snapshot.id.clone(), *snapshot);
                }
                Ok(Line::SnapshotEnd(id)) => drop(snapshots.remove(&id)),
                // A write that was cut short: it was not acknowledged.
                Err(_) if !line.ends_with(b"\n") => {
                    tracing::warn!("the torn last line of the lease journal is left out");
                }
                Err(error) => {
                    tracing::error!(line = number + 1, error, "a line of the lease journal is damaged");
                    is_damaged = true;
                }
            }
        }
        let damaged = is_damaged.then(|| keep_damaged(path, &bytes)).transpose().map_err(fail)?;
        let mut leases: Vec<LeaseRecord> = leases.into_values().collect();
        let snapshots: Vec<SnapshotRecord> = snapshots.into_values().collect();
        let mut file = private(fs::OpenOptions::new().append(true)).open(path).map_err(fail)?;
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            file.write_all(b"\n").map_err(fail)?;
        }
        let journal = Journal { path: path.to_owned(), file: Mutex::new((file, None)) };
        if damaged.is_some() {
            // The damaged line may have protected any of them, or moved its end.
            leases.iter_mut().for_each(|lease| lease.protected = true);
        } else {
            journal.rewrite(&leases, &snapshots)?;
        }
        Ok(Opened { journal, leases, snapshots, damaged })
    }

    /// Replaces the file by one that holds these leases and snapshots and nothing else.
    pub(crate) fn rewrite(
        &self,
        leases: &[LeaseRecord],
        snapshots: &[SnapshotRecord],
    ) -> Result<(), EngineError> {
        let fail = |error: std::io::Error| io_error("rewrite the lease journal", &self.path, &error);
        let mut rewritten = Vec::new();
        for lease in leases {
            rewritten.extend_from_slice(to_line(&Line::Lease(Box::new(lease.clone()))).as_bytes());
        }
        for snapshot in snapshots {
            rewritten.extend_from_slice(to_line(&Line::Snapshot(Box::new(snapshot.clone()))).as_bytes());
        }
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        files::replace(&self.path, &rewritten).map_err(fail)?;
        file.0 = fs::OpenOptions::new().append(true).open(&self.path).map_err(fail)?;
        Ok(())
    }

    pub(crate) fn put(&self, lease: &LeaseRecord) -> Result<(), EngineError> {
        self.append(&to_line(&Line::Lease(Box::new(lease.clone()))))
    }

    pub(crate) fn end(&self, id: &str) -> Result<(), EngineError> {
        self.append(&to_line(&Line::End(id.to_owned())))
    }

    pub(crate) fn put_snapshot(&self, snapshot: &SnapshotRecord) -> Result<(), EngineError> {
        self.append(&to_line(&Line::Snapshot(Box::new(snapshot.clone()))))
    }

    pub(crate) fn end_snapshot(&self, id: &str) -> Result<(), EngineError> {
        self.append(&to_line(&Line::SnapshotEnd(id.to_owned())))
    }

    fn append(&self, line: &str) -> Result<(), EngineError> {
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (file, poisoned) = &mut *file;
        if let Some(first) = poisoned {
            let error = format!("an earlier write failed: {first}; restart the daemon when it is fixed");
            return Err(io_error("append to the lease journal", &self.path, &std::io::Error::other(error)));
        }
        file.write_all(line.as_bytes()).map_err(|error| {
            *poisoned = Some(error.to_string());
            io_error("append to the lease journal", &self.path, &error)
        })
    }
}

/// Copies the bytes of a damaged journal to a file beside it that does not exist yet.
fn keep_damaged(path: &Path, bytes: &[u8]) -> std::io::Result<PathBuf> {
    let copy = (1..=DAMAGED_MAX)
        .map(|number| path.with_extension(format!("damaged-{number}.jsonl")))
        .find(|copy| !copy.exists() || fs::read(copy).is_ok_and(|kept| kept == bytes))
        .ok_or_else(|| std::io::Error::other("too many damaged journals are kept; move them away"))?;
    files::replace(&copy, bytes)?;
    Ok(copy)
}

fn to_line(line: &Line) -> String {
    let text = serde_json::to_string(line).expect("strings, numbers and times are always JSON");
    format!("{text} {}\n", sum(text.as_bytes()))
}

/// The first 64 bits of a text's BLAKE3 hash, in hexadecimal.
fn sum(text: &[u8]) -> String {
    blake3::hash(text).to_hex()[..SUM_LEN].to_owned()
}

/// Whether a journal holds a line with a sum, and so was written by a later version than 0.1.
pub(crate) fn is_of_today(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| text_with_sum(line).is_some())
}

/// The text of a line before its sum.
fn text_with_sum(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (text, rest) = line.split_at(line.len().checked_sub(SUM_LEN + 1)?);
    (text.ends_with(b"}") && rest.starts_with(b" ")).then(|| (text, &rest[1..]))
}

/// A line with its sum, or without one as version 0.1 wrote them.
fn read_line(line: &[u8]) -> Result<Line, String> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let text = match text_with_sum(line) {
        Some((text, found)) if sum(text).as_bytes() != found => return Err("its sum is another".to_owned()),
        Some((text, _)) => text,
        None => line,
    };
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// The id of the machine's current boot. An unknown boot could not be told from another one, and what was not flushed
/// in that would be taken for whole.
///
/// # Errors
/// When `/proc` is not there.
pub(crate) fn boot_id() -> Result<String, EngineError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let id = fs::read_to_string(path).map_err(|error| io_error("read", path, &error))?;
    Ok(id.trim().to_owned())
}

#[cfg(test)]
#[path = "../tests/unit/journal_replay.rs"]
mod tests;
