//! The lease journal: what has been promised to whom, so that a restarted daemon can keep it.
//!
//! Each line is a lease as it became, or the id of one that ended; the last line of an id counts. A line is handed
//! to the operating system before the caller is answered. The file is rewritten when it is opened.

use crate::{error::EngineError, home::io_error, home::replace_file, model::Policy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Mutex,
};

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
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) protected: bool,
    /// The boot of the machine that its server was started in: unflushed data do not outlive it.
    pub(crate) boot: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Lease(LeaseRecord),
    End(String),
}

/// The open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    /// The file, and the first write error: after one nothing more is written, because a torn line would swallow the
    /// next one.
    file: Mutex<(fs::File, Option<String>)>,
}

impl Journal {
    /// Reads the journal and rewrites it to hold only what still counts.
    pub(crate) fn open(path: &Path) -> Result<(Journal, Vec<LeaseRecord>), EngineError> {
        let fail = |error: std::io::Error| io_error("open the lease journal", path, &error);
        let mut leases = BTreeMap::new();
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.map_err(fail)?,
        };
        for line in text.lines() {
            // Only a crash of the machine can tear a line, and its lease was not acknowledged.
            match serde_json::from_str(line) {
                Ok(Line::Lease(lease)) => drop(leases.insert(lease.id.clone(), lease)),
                Ok(Line::End(id)) => drop(leases.remove(&id)),
                Err(error) => tracing::warn!(%error, "a torn line of the lease journal is left out"),
            }
        }
        let leases: Vec<LeaseRecord> = leases.into_values().collect();
        let mut rewritten = Vec::new();
        for lease in &leases {
            rewritten.extend_from_slice(to_line(&Line::Lease(lease.clone())).as_bytes());
        }
        replace_file(path, &rewritten).map_err(fail)?;
        let file = fs::OpenOptions::new().append(true).open(path).map_err(fail)?;
        Ok((Journal { path: path.to_owned(), file: Mutex::new((file, None)) }, leases))
    }

    pub(crate) fn put(&self, lease: &LeaseRecord) -> Result<(), EngineError> {
        self.append(&to_line(&Line::Lease(lease.clone())))
    }

    pub(crate) fn end(&self, id: &str) -> Result<(), EngineError> {
        self.append(&to_line(&Line::End(id.to_owned())))
    }

    fn append(&self, line: &str) -> Result<(), EngineError> {
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (file, poisoned) = &mut *file;
        if let Some(first) = poisoned {
            let error = format!("an earlier write failed: {first}; restart the daemon when it is mended");
            return Err(io_error("append to the lease journal", &self.path, &std::io::Error::other(error)));
        }
        file.write_all(line.as_bytes()).map_err(|error| {
            *poisoned = Some(error.to_string());
            io_error("append to the lease journal", &self.path, &error)
        })
    }
}

fn to_line(line: &Line) -> String {
    // Strings, numbers and times: this cannot fail.
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

/// The id of the machine's current boot.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
#[path = "../tests/unit/journal_replay.rs"]
mod tests;
