//! Tables as the MANIFEST lists them. A file is decompressed, verified and opened when one of its rows is asked for first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::deletions::RangeDeletions;
use super::edit::TableFile;
use super::envelope::{Entry, Envelope};
use super::lsm::Fault;
use super::table::{self, Backing, Bounds, Table};
use crate::c1z::error::Bad;

/// The most threads that open files.
const THREADS_MAX: usize = 4;

/// Files that are shorter than this together, decompressed, are not worth a thread, in bytes.
const PARALLEL_BYTES: u64 = 256 << 10;

/// A file of rows that may not have been read yet.
pub(crate) struct RowsFile {
    name: String,
    envelope: Arc<Envelope>,
    entry: Entry,
    check_sha256: bool,
    backing: OnceLock<Arc<Backing>>,
    /// Held while the file is read, so that it is not read twice.
    reading: Mutex<()>,
}

impl RowsFile {
    pub(crate) fn new(name: String, envelope: Arc<Envelope>, entry: Entry, check_sha256: bool) -> RowsFile {
        let (backing, reading) = (OnceLock::new(), Mutex::new(()));
        RowsFile { name, envelope, entry, check_sha256, backing, reading }
    }

    fn open(&self) -> Result<&Arc<Backing>, Fault> {
        if let Some(backing) = self.backing.get() {
            return Ok(backing);
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.backing.get().is_none() {
            let bytes = self.envelope.read(&self.entry, self.check_sha256).map_err(Fault::Whole)?;
            let opened = table::open(bytes).map_err(|bad| self.fault(bad))?;
            return Ok(self.backing.get_or_init(|| Arc::new(opened)));
        }
        self.open_already()
    }

    fn open_already(&self) -> Result<&Arc<Backing>, Fault> {
        self.backing.get().ok_or_else(|| self.fault(Bad::new(0, "it was not opened")))
    }

    fn fault(&self, bad: Bad) -> Fault {
        Fault::In { part: self.name.clone(), bad }
    }
}

enum Rows {
    File(Arc<RowsFile>, table::View),
    #[cfg(test)]
    Open(Table),
}

/// A table of the MANIFEST.
pub(crate) struct Listed {
    rows: Rows,
    /// No key of the table lies outside. None: nothing is known.
    keys: Option<Bounds>,
}

/// Tables that were opened, and what their range deletions hide beside those of the logs.
pub(crate) struct Opened {
    pub(crate) runs: Vec<Vec<Table>>,
    pub(crate) deletions: RangeDeletions,
}

impl Listed {
    pub(crate) fn new(file: Arc<RowsFile>, listed: &TableFile) -> Listed {
        let (first, last, is_open) = (listed.smallest.clone(), listed.largest.clone(), listed.is_open);
        let keys = Some(Bounds { first, last, is_open });
        Listed { rows: Rows::File(file, listed.view.clone()), keys }
    }

    /// Whether a key from `from` to before `to` can be in the table.
    fn overlaps(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        self.keys
            .as_ref()
            .is_none_or(|keys| !keys.end_before(from) && to.is_none_or(|to| keys.first.as_slice() < to))
    }

    /// Whether `key` can be in the table.
    pub(crate) fn can_hold(&self, key: &[u8]) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.first.as_slice() <= key && !keys.end_before(key))
    }

    /// How long the file is that has yet to be read, in bytes.
    pub(crate) fn unread(&self) -> u64 {
        match &self.rows {
            Rows::File(file, _) if file.backing.get().is_none() => file.entry.raw,
            _ => 0,
        }
    }

    /// Opens the table. Its range deletions are those of the table's file: see [`Table::push_deletions`].
    pub(crate) fn open(&self) -> Result<Table, Fault> {
        match &self.rows {
            Rows::File(file, view) => {
                let backing = Arc::clone(file.open()?);
                Ok(Table::listed(file.name.clone(), backing, view.clone(), self.keys.clone()))
            }
            #[cfg(test)]
            Rows::Open(table) => Ok(table.clone()),
        }
    }
}

#[cfg(test)]
impl From<Table> for Listed {
    /// A table of which nothing is listed.
    fn from(table: Table) -> Listed {
        Listed { rows: Rows::Open(table), keys: None }
    }
}

/// Does something with each of `jobs`, on several threads if that is worth it. Results come in the order of the jobs.
pub(crate) fn in_parallel<Job: Sync, Done: Send>(
    jobs: &[Job],
    unread: u64,
    does: impl Fn(&Job) -> Result<Done, Fault> + Sync,
) -> Result<Vec<Done>, Fault> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = available.min(THREADS_MAX).min(jobs.len());
    if threads < 2 || unread < PARALLEL_BYTES {
        return jobs.iter().map(does).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(at) else { return };
        let result = does(job);
        if result.is_err() {
            // The others stop at their next job.
            next.store(jobs.len(), Ordering::Relaxed);
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without another thread, this one does it all.
            let _ = std::thread::Builder::new().name("c1z-tables".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Opens the tables that can hold a key from `from` to before `to`. `deletions` are those of the logs.
pub(crate) fn open(
    runs: &[Vec<Listed>],
    deletions: &RangeDeletions,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<Opened, Fault> {
    let mut wanted = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        wanted.extend(run.iter().filter(|listed| listed.overlaps(from, to)).map(|listed| (number, listed)));
    }
    let unread = wanted.iter().map(|(_, listed)| listed.unread()).sum();
    let tables = in_parallel(&wanted, unread, |(_, listed)| listed.open())?;
    let mut deletions = deletions.clone();
    let mut opened: Vec<Vec<Table>> = Vec::with_capacity(runs.len());
    let mut last = None;
    for ((number, _), table) in wanted.iter().zip(tables) {
        table.push_deletions(&mut deletions).map_err(|bad| Fault::In { part: table.name.clone(), bad })?;
        match opened.last_mut().filter(|_| last == Some(*number)) {
            Some(run) => run.push(table),
            None => opened.push(vec![table]),
        }
        last = Some(*number);
    }
    let mut deletions = deletions.within(from, to);
    deletions.finish();
    Ok(Opened { runs: opened, deletions })
}
