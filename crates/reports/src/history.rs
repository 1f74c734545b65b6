//! Results kept: one file a run, by machine and suite.
//!
//! ```text
//! FOLDER/<machine>/<suite>/<time of the run>-<digest of the document>.json
//! ```
//!
//! A file is written whole and never over another one. Of each suite on each machine at most [`MOST_RUNS`] runs and
//! [`MOST_BYTES`] are kept; the oldest go first. Nothing else in the folder is read or removed.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, EvidenceError};

use crate::settings::digest;
use crate::{machine_id, Document};

/// How many runs of a suite are kept for each machine.
pub const MOST_RUNS: usize = 100;
/// How many bytes the runs of a suite on a machine may take. The newest run is kept even if it alone takes more.
pub const MOST_BYTES: u64 = 64 << 20;
/// The longest name of a suite.
const LONGEST_SUITE: usize = 64;
/// What the names of unfinished files begin with.
const UNFINISHED: &str = ".duramen-";
/// An unfinished file that is older than this was left by a process that was killed.
const STALE: Duration = Duration::from_secs(3600);

/// What can go wrong with the history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A folder or a file could not be read, made or removed.
    #[error("cannot {action} {} of the history: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The document could not be written.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The suite has a name that is not a name of a folder.
    #[error("the suite {0:?} cannot be filed: its name may have letters, digits, - and _ only, 64 at most")]
    Suite(String),
}

/// What became of a document that was to be filed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filed {
    /// It is in this file now.
    New(PathBuf),
    /// It was in this file already.
    Known(PathBuf),
    /// It is older than all that are kept, and there is no room for more.
    TooOld,
}

/// The runs of a suite on a machine.
#[derive(Debug, Default)]
pub struct Runs {
    /// Those that can be read, oldest first.
    pub documents: Vec<Document>,
    /// Why others cannot.
    pub unreadable: Vec<EvidenceError>,
}

/// A folder of results.
#[derive(Debug, Clone)]
pub struct History {
    folder: PathBuf,
}

impl History {
    /// The history in this folder, which need not exist.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Files a document under the machine and the suite that it names.
    ///
    /// # Errors
    /// When the folder cannot be made or written, the document has no JSON form, or its suite has a name that cannot be
    /// filed.
    pub fn file(&self, evidence: &Evidence) -> Result<Filed, HistoryError> {
        if !is_suite(&evidence.suite) {
            return Err(HistoryError::Suite(evidence.suite.clone()));
        }
        let folder = self.folder.join(machine_id(&evidence.host.machine())).join(&evidence.suite);
        fs::create_dir_all(&folder).map_err(failed("make the folder", &folder))?;
        sweep(&folder);
        let file = folder.join(file_name(evidence)?);
        match evidence.write_new(&file) {
            Ok(()) => {}
            Err(EvidenceError::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                return Ok(Filed::Known(file));
            }
            Err(error) => return Err(error.into()),
        }
        let removed = prune(&folder)?;
        Ok(if removed.contains(&file) { Filed::TooOld } else { Filed::New(file) })
    }

    /// The machines of which there are results, in the order of their names.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn machines(&self) -> Result<Vec<String>, HistoryError> {
        let is_id = |name: &str| name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit());
        folders(&self.folder, is_id)
    }

    /// The suites of which there are results of a machine, in the order of their names.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn suites(&self, machine: &str) -> Result<Vec<String>, HistoryError> {
        folders(&self.folder.join(machine), is_suite)
    }

    /// The last runs of a suite on a machine. A file that cannot be read keeps no other from being read.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn runs(&self, machine: &str, suite: &str, last: usize) -> Result<Runs, HistoryError> {
        let mut runs = Runs::default();
        if !is_suite(suite) {
            return Ok(runs);
        }
        let files = filed(&self.folder.join(machine).join(suite))?;
        for (file, _) in &files[files.len().saturating_sub(last)..] {
            match Document::read(file) {
                Ok(document) => runs.documents.push(document),
                // Another process has removed it since the folder was looked at.
                Err(EvidenceError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => runs.unreadable.push(error),
            }
        }
        Ok(runs)
    }
}

fn is_suite(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= LONGEST_SUITE && name.chars().all(is_plain)
}

/// Names that sort by time.
fn file_name(evidence: &Evidence) -> Result<String, EvidenceError> {
    let text = evidence.to_json()?;
    Ok(format!("{}-{}.json", evidence.started_at.strftime("%Y%m%dT%H%M%S%.3fZ"), digest(&text)))
}

fn is_file_name(name: &str) -> bool {
    let Some((time, digest)) = name.strip_suffix(".json").and_then(|stem| stem.split_once("Z-")) else {
        return false;
    };
    let is_time = time.len() >= 19 && time.starts_with(|c: char| c.is_ascii_digit());
    is_time && digest.len() == 16 && digest.chars().all(|c| c.is_ascii_hexdigit())
}

fn folders(folder: &Path, is_name: impl Fn(&str) -> bool) -> Result<Vec<String>, HistoryError> {
    let entries = entries(folder)?.into_iter().filter(|entry| entry.path().is_dir());
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_name(name)).collect();
    names.sort_unstable();
    Ok(names)
}

/// What is filed in a folder with its sizes, oldest first.
fn filed(folder: &Path) -> Result<Vec<(PathBuf, u64)>, HistoryError> {
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(is_file_name);
    let sized = |entry: fs::DirEntry| {
        Some((entry.path(), entry.metadata().ok().filter(fs::Metadata::is_file)?.len()))
    };
    let mut files: Vec<(PathBuf, u64)> =
        entries(folder)?.into_iter().filter(is_ours).filter_map(sized).collect();
    files.sort_unstable();
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, HistoryError> {
    match fs::read_dir(folder).and_then(Iterator::collect) {
        Ok(entries) => Ok(entries),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("read the folder", folder)(error)),
    }
}

/// Removes the oldest until what is left is within the limits, and says what was removed.
fn prune(folder: &Path) -> Result<Vec<PathBuf>, HistoryError> {
    let files = filed(folder)?;
    let mut bytes: u64 = files.iter().map(|(_, size)| size).sum();
    let mut count = files.len();
    let mut removed = Vec::new();
    for (file, size) in files {
        if count <= 1 || (count <= MOST_RUNS && bytes <= MOST_BYTES) {
            break;
        }
        match fs::remove_file(&file) {
            Ok(()) => {}
            // Another run prunes too.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed("remove the old file", &file)(error)),
        }
        count -= 1;
        bytes -= size;
        removed.push(file);
    }
    Ok(removed)
}

/// Removes what killed processes have left. It is no matter if it cannot be.
fn sweep(folder: &Path) {
    let is_unfinished = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(UNFINISHED);
    let now = Duration::from_millis(u64::try_from(clock::unix_ms()).unwrap_or(0));
    for entry in entries(folder).unwrap_or_default().into_iter().filter(is_unfinished) {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age =
            modified.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|at| now.saturating_sub(at));
        if age.is_some_and(|age| age > STALE) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HistoryError {
    let path = path.to_owned();
    move |source| HistoryError::Io { action, path, source }
}
