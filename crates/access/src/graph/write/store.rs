//! A graph that is being written: the life of a sync from its start to its end.
//!
//! Puts go to the [journal](crate::graph::write::journal) and into memory ([`Tail`]); what
//! does not fit there becomes sorted runs, which are packs of their own under a temporary name. Ending a sync merges all
//! of it into a new file, which takes the place of the old one when it is complete and durable. The old one, with all
//! syncs that it holds, is never changed.

mod cleanup;
mod deletions;
mod newer;
mod puts;
mod rewrite;
mod runs;
mod sink;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duramen_base::{clock, file};

pub use self::puts::MAX_BATCH_ROWS;

use self::runs::Run;
use super::journal::{Entry, Journal};
use crate::graph::error::{io_error, GraphError};
use crate::graph::format::details;
use crate::graph::format::ksuid;
use crate::graph::format::manifest::MAX_SYNCS;
use crate::graph::format::segment::Segment;
use crate::graph::model::{Sync, SyncKind, Timestamp};
use crate::graph::read::overlay::{self, Overlay};
use crate::graph::read::pack::GraphPack;
use crate::graph::read::view::SyncView;
use crate::graph::tail::{Tail, MAX_RECORD_BYTES};

/// A sync that was begun longer ago than this, in seconds, is not resumed unless it is named: 7 days.
pub const RESUME_SECONDS: i64 = 7 * 24 * 3600;

/// What a store is opened with.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How much memory what was put may take before it is sorted and written to a run, in bytes: 64 KiB to 2 GiB. A
    /// single batch may go beyond it.
    pub memory_bytes: usize,
}

impl Default for StoreOptions {
    /// 192 MiB: about six million plain grants.
    fn default() -> Self {
        StoreOptions { memory_bytes: 192 << 20 }
    }
}

/// The sync that is open.
struct Open {
    sync: Sync,
    /// What the file holds of it.
    base: Option<Arc<Segment>>,
    runs: Vec<Run>,
    tail: Tail,
    /// Rows that gave way to others before the tail was begun.
    replaced: u64,
}

impl Open {
    fn segments(&self) -> Vec<Arc<Segment>> {
        self.base.iter().chain(self.runs.iter().map(|run| &run.segment)).cloned().collect()
    }
}

/// A graph that is open for writing, by one process and one thread at a time.
///
/// **What a put promises.** When a put returns, its batch is in the journal: it survives the end of the process, however
/// that comes. It survives the loss of power after [`checkpoint`](Self::checkpoint), [`end_sync`](Self::end_sync) or
/// [`close`](Self::close). After a crash a batch is there whole or not at all, in all indexes alike.
///
/// **What readers see.** Others who open the file see a sync when it was ended or suspended, never a part of it.
///
/// ```
/// use duramen_access::graph::{GraphStore, Resource, ResourceId, SyncKind};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("access.dpack");
/// let mut store = GraphStore::open(&path)?;
/// let sync = store.start_sync(SyncKind::Full, None)?;
/// let ada = Resource { id: ResourceId::new("user", "ada"), ..Resource::default() };
/// store.put_resources([&ada])?;
/// store.checkpoint("users done")?;
/// store.close()?;
///
/// // Another process goes on.
/// let mut store = GraphStore::open(&path)?;
/// let (resumed, started) = store.start_or_resume_sync(SyncKind::Full, None)?;
/// assert_eq!((resumed, started), (sync, false));
/// assert_eq!(store.current_sync().map(|sync| sync.token.as_str()), Some("users done"));
/// store.end_sync()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphStore {
    path: PathBuf,
    options: StoreOptions,
    pack: Option<GraphPack>,
    journal: Option<Journal>,
    open: Option<Open>,
    poisoned: bool,
    next_run: u32,
    /// Bytes of batches that were not whole, cut off when the store was opened.
    cut_off: u64,
}

impl std::fmt::Debug for GraphStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = self.open.as_ref().map(|open| &open.sync.id);
        f.debug_struct("GraphStore").field("path", &self.path).field("open", &open).finish_non_exhaustive()
    }
}

/// The time of the wall clock.
fn now() -> Timestamp {
    let now = clock::utc_now();
    Timestamp { seconds: now.as_second(), nanos: now.subsec_nanosecond() }
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), GraphError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Refuses what is larger than a row may be.
fn check_size(what: &'static str, size: usize) -> Result<(), GraphError> {
    if size > MAX_RECORD_BYTES {
        return Err(GraphError::TooLarge { what, size: size as u64, limit: MAX_RECORD_BYTES as u64 });
    }
    Ok(())
}

impl GraphStore {
    /// Opens a graph for writing, and begins one if there is no file. What an earlier writer put into a sync that it did
    /// not end is there again.
    ///
    /// # Errors
    /// [`GraphError::Locked`] when another process writes it; when the file is damaged or something else.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GraphError> {
        Self::open_with(path, StoreOptions::default())
    }

    /// As [`open`](Self::open), with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, mut options: StoreOptions) -> Result<Self, GraphError> {
        options.memory_bytes = options.memory_bytes.clamp(64 << 10, 2 << 30);
        let path = path.as_ref().to_owned();
        let journal = Journal::open(&path)?;
        Self::opened(path, options, journal)
    }

    /// A graph that is begun anew: what an earlier writer left under this name, whole or not, is nobody's any more.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn begin_anew(path: PathBuf) -> Result<Self, GraphError> {
        let mut journal = Journal::open(&path)?;
        remove(&path)?;
        journal.clear()?;
        Self::opened(path, StoreOptions::default(), journal)
    }

    /// The graph of a name whose journal is locked.
    fn opened(path: PathBuf, options: StoreOptions, mut journal: Journal) -> Result<Self, GraphError> {
        // Only what is not there is begun: an empty file is not a graph, and is not taken for one.
        let pack = match path.exists().then(|| GraphPack::open(&path)).transpose() {
            Ok(pack) => pack,
            Err(error) => {
                journal.remove_if_empty();
                return Err(error);
            }
        };
        let mut store = GraphStore {
            path,
            options,
            pack,
            journal: None,
            open: None,
            poisoned: false,
            next_run: 0,
            cut_off: 0,
        };
        store.remove_left_runs();
        let digest = store.digest();
        let absorbed = store.pack.as_ref().map(|pack| pack.manifest().journal);
        let journal_path = journal.path().to_owned();
        let belongs = |id, base: [u8; 32]| {
            if base == digest {
                Ok(true)
            } else if absorbed == Some(id) {
                Ok(false)
            } else {
                Err(GraphError::ForeignJournal { path: journal_path })
            }
        };
        let cut_off = journal.replay(belongs, |entry| store.replay(entry))?;
        store.cut_off = cut_off;
        store.journal = Some(journal);
        Ok(store)
    }

    /// The digest of the file that the journal belongs to; zeros when there is none yet.
    fn digest(&self) -> [u8; 32] {
        self.pack.as_ref().map_or([0; 32], |pack| pack.pack().root_digest())
    }

    fn replay(&mut self, entry: Entry<'_>) -> Result<(), GraphError> {
        if let Entry::Begin { sync, reopened } = entry {
            let base = if reopened { self.base_of(&sync.id)? } else { None };
            self.open = Some(Open { sync, base, runs: Vec::new(), tail: Tail::default(), replaced: 0 });
            return Ok(());
        }
        let open = self.open.as_mut().ok_or(GraphError::NoOpenSync)?;
        match entry {
            Entry::Begin { .. } => {}
            Entry::Grants(frame) => frame.replay(&mut open.tail)?,
            Entry::Record { table, key, value } => {
                open.tail.put(table, key.to_vec(), value.map(<[u8]>::to_vec))
            }
            Entry::DeleteGrant(id) => open.tail.delete_grant(id),
            Entry::Checkpoint(token) => open.sync.token = token.to_owned(),
            Entry::Marks(sync) => open.sync = *sync,
        }
        self.make_room()
    }

    fn base_of(&self, id: &str) -> Result<Option<Arc<Segment>>, GraphError> {
        let Some(pack) = &self.pack else { return Ok(None) };
        pack.manifest().find(id).map(|kept| pack.segment(kept)).transpose()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of an unfinished batch that were cut off when the store was opened: what a crash interrupted.
    pub fn cut_off_bytes(&self) -> u64 {
        self.cut_off
    }

    /// All syncs: those of the file, and the one that is open with its present state.
    pub fn syncs(&self) -> Vec<Sync> {
        let mut syncs: Vec<Sync> = self.pack.iter().flat_map(GraphPack::syncs).cloned().collect();
        if let Some(open) = &self.open {
            match syncs.iter_mut().find(|sync| sync.id == open.sync.id) {
                Some(sync) => sync.clone_from(&open.sync),
                None => syncs.push(open.sync.clone()),
            }
        }
        syncs
    }

    /// The sync that is open.
    pub fn current_sync(&self) -> Option<&Sync> {
        self.open.as_ref().map(|open| &open.sync)
    }

    /// Begins a sync with a new id, and returns the id. A sync that was open is [suspended](Self::suspend).
    ///
    /// # Errors
    /// When the file has too many syncs, or cannot be written.
    pub fn start_sync(&mut self, kind: SyncKind, parent: Option<&str>) -> Result<String, GraphError> {
        let id = ksuid::new();
        let parent = parent.map(str::to_owned);
        self.begin(Sync { id: id.clone(), kind, parent, started_at: now(), ..Sync::default() })?;
        Ok(id)
    }

    /// Begins a sync whose id, times and marks are given: one that is copied from elsewhere.
    ///
    /// # Errors
    /// When there is a sync of that id, or the id is none.
    pub fn begin(&mut self, sync: Sync) -> Result<(), GraphError> {
        self.usable()?;
        if !ksuid::is_one(&sync.id) {
            return Err(GraphError::InvalidSyncId { id: sync.id });
        }
        let mut encoded = Vec::new();
        details::put_sync(&mut encoded, &sync);
        check_size("a sync", encoded.len())?;
        if self.syncs().iter().any(|each| each.id == sync.id) {
            return Err(GraphError::SyncExists { id: sync.id });
        }
        self.suspend()?;
        let kept = self.pack.as_ref().map_or(0, |pack| pack.syncs().len());
        if kept >= MAX_SYNCS {
            let (size, limit) = (kept as u64 + 1, MAX_SYNCS as u64);
            return Err(GraphError::TooLarge {
                what: "the file (in syncs; `cleanup` drops old ones)",
                size,
                limit,
            });
        }
        self.open_new(sync, None)
    }

    fn open_new(&mut self, sync: Sync, base: Option<Arc<Segment>>) -> Result<(), GraphError> {
        let digest = self.digest();
        let reopened = base.is_some();
        self.write(|journal| {
            journal.begin(digest)?;
            journal.begin_sync(&sync, reopened)
        })?;
        self.open = Some(Open { sync, base, runs: Vec::new(), tail: Tail::default(), replaced: 0 });
        Ok(())
    }

    /// Makes the sync of an id the one that rows are put into, finished or not. Its rows stay as they are for readers
    /// until it is ended again.
    ///
    /// # Errors
    /// When there is no such sync, or the file cannot be written.
    pub fn open_sync(&mut self, id: &str) -> Result<(), GraphError> {
        self.usable()?;
        if self.current_sync().is_some_and(|open| open.id == id) {
            return Ok(());
        }
        let kept = self.pack.as_ref().and_then(|pack| pack.manifest().find(id));
        let sync =
            kept.map(|kept| kept.sync.clone()).ok_or_else(|| GraphError::NoSync { id: id.to_owned() })?;
        self.suspend()?;
        let base = self.base_of(id)?;
        self.open_new(sync, base)
    }

    /// Goes on with a sync: that of the id, else the latest unfinished one of the kind (of any, if none is named) that
    /// was begun less than seven days ago. Returns its id, or none if there is nothing to resume.
    ///
    /// # Errors
    /// When the sync that was named is not there.
    pub fn resume_sync(
        &mut self,
        id: Option<&str>,
        kind: Option<SyncKind>,
    ) -> Result<Option<String>, GraphError> {
        self.usable()?;
        let id = match id {
            Some(id) => id.to_owned(),
            None => {
                let since = now().seconds - RESUME_SECONDS;
                let syncs = self.syncs().into_iter().filter(|sync| {
                    sync.ended_at.is_none()
                        && kind.is_none_or(|kind| sync.kind == kind)
                        && sync.started_at.seconds > since
                });
                match syncs.max_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id))) {
                    Some(sync) => sync.id,
                    None => return Ok(None),
                }
            }
        };
        self.open_sync(&id)?;
        Ok(Some(id))
    }

    /// Resumes a sync of the kind if one can be, else starts one. Returns its id, and whether it was started.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn start_or_resume_sync(
        &mut self,
        kind: SyncKind,
        parent: Option<&str>,
    ) -> Result<(String, bool), GraphError> {
        match self.resume_sync(None, Some(kind))? {
            Some(id) => Ok((id, false)),
            None => Ok((self.start_sync(kind, parent)?, true)),
        }
    }

    /// Notes where the syncing tool stands, and makes durable all that was put.
    ///
    /// # Errors
    /// When no sync is open, or the journal cannot be written.
    pub fn checkpoint(&mut self, token: &str) -> Result<(), GraphError> {
        self.usable()?;
        if self.open.is_none() {
            return Err(GraphError::NoOpenSync);
        }
        check_size("the token of a checkpoint", token.len())?;
        self.write(|journal| {
            journal.checkpoint(token)?;
            journal.sync()
        })?;
        if let Some(open) = &mut self.open {
            open.sync.token = token.to_owned();
        }
        Ok(())
    }

    /// Ends the open sync now: it is in the file, complete and durable, when this returns. Returns the sync.
    ///
    /// # Errors
    /// When no sync is open, or the file cannot be written: all syncs in it are then as they were. What was put is there
    /// still, at the latest when the store is opened again.
    pub fn end_sync(&mut self) -> Result<Sync, GraphError> {
        self.end_sync_at(now())
    }

    /// As [`end_sync`](Self::end_sync), with a time of end that is given.
    ///
    /// # Errors
    /// As [`end_sync`](Self::end_sync).
    pub fn end_sync_at(&mut self, ended_at: Timestamp) -> Result<Sync, GraphError> {
        let mut sync = self.current_sync().cloned().ok_or(GraphError::NoOpenSync)?;
        sync.ended_at = Some(ended_at);
        self.save(&sync)?;
        Ok(sync)
    }

    /// Puts the open sync into the file as it is, and opens it no longer: it can be resumed. Without one, does nothing.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn suspend(&mut self) -> Result<(), GraphError> {
        match self.current_sync().cloned() {
            Some(sync) => self.save(&sync),
            None => Ok(()),
        }
    }

    /// Gives up all that was put since the sync was opened. The file is as it was before.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn abandon(&mut self) -> Result<(), GraphError> {
        self.usable()?;
        self.write(Journal::clear)?;
        self.open = None;
        Ok(())
    }

    /// Marks the open sync as one that diffs can be made against.
    ///
    /// # Errors
    /// When no sync is open, or the journal cannot be written.
    pub fn mark_supports_diff(&mut self) -> Result<(), GraphError> {
        self.change_marks(|sync| sync.supports_diff = true)
    }

    /// Says which sync the open one belongs with.
    pub(crate) fn link(&mut self, other: &str) -> Result<(), GraphError> {
        self.change_marks(|sync| sync.linked = Some(other.to_owned()))
    }

    fn change_marks(&mut self, change: impl FnOnce(&mut Sync)) -> Result<(), GraphError> {
        self.usable()?;
        let mut sync = self.current_sync().cloned().ok_or(GraphError::NoOpenSync)?;
        change(&mut sync);
        self.write(|journal| journal.marks(&sync))?;
        if let Some(open) = &mut self.open {
            open.sync = sync;
        }
        Ok(())
    }

    /// A sync for reading, with all that was put so far: that of an id, else the open one, else that which is read by
    /// default.
    ///
    /// # Errors
    /// When there is no such sync, or the file cannot be read.
    pub fn view(&mut self, sync: Option<&str>) -> Result<SyncView, GraphError> {
        let is_open = |open: &Open| sync.is_none_or(|id| open.sync.id == id);
        if !self.open.as_ref().is_some_and(is_open) {
            return match &self.pack {
                Some(pack) => pack.view(sync),
                None => {
                    Err(sync.map_or(GraphError::NothingToRead, |id| GraphError::NoSync { id: id.to_owned() }))
                }
            };
        }
        self.usable()?;
        let open = self.open.as_ref().ok_or(GraphError::NoOpenSync)?;
        if open.tail.len() > overlay::MAX_ROWS || open.segments().len() > 1 {
            self.merge_runs()?;
        }
        let open = self.open.as_ref().ok_or(GraphError::NoOpenSync)?;
        let overlay = if open.tail.is_empty() { None } else { Some(Arc::new(Overlay::new(&open.tail)?)) };
        let segment = open.segments().pop();
        Ok(SyncView { sync: open.sync.clone(), stats: None, segment, overlay })
    }

    /// Closes the store: what was put is durable. A sync that is open stays so, for whoever opens the store next.
    ///
    /// # Errors
    /// When the journal cannot be made durable.
    pub fn close(mut self) -> Result<(), GraphError> {
        self.usable()?;
        if self.open.is_some() {
            self.write(|journal| journal.sync())?;
        }
        if let Some(journal) = self.journal.take() {
            journal.remove_if_empty();
        }
        Ok(())
    }

    /// Closes a store whose syncs have all been saved, and gives the file another name, if nothing has that yet. It is
    /// there, durably, when this returns.
    ///
    /// # Errors
    /// When something has the name, with [`io::ErrorKind::AlreadyExists`], or the file cannot have it.
    pub(crate) fn close_as(mut self, name: &Path) -> Result<(), GraphError> {
        self.usable()?;
        self.suspend()?;
        // The journal is locked as long as the file has its old name: nobody else begins one there meanwhile.
        let named = file::rename_to_free(&self.path, name);
        named.map_err(io_error("give its name to", name))?;
        self.close()
    }

    /// Gives up the graph, with all that was saved of it.
    pub(crate) fn discard(mut self) {
        self.open = None;
        let _ = remove(&self.path);
        if let Some(mut journal) = self.journal.take() {
            // A journal that stays is taken over by whoever begins anew.
            let _ = journal.clear();
            journal.remove_if_empty();
        }
    }

    fn usable(&self) -> Result<(), GraphError> {
        if self.poisoned {
            return Err(GraphError::Poisoned);
        }
        Ok(())
    }

    /// Writes to the journal. After an error nobody knows what it holds: nothing more is written.
    fn write(
        &mut self,
        write: impl FnOnce(&mut Journal) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        let journal = self.journal.as_mut().ok_or(GraphError::Poisoned)?;
        write(journal).inspect_err(|_| self.poisoned = true)
    }

    fn folder(&self) -> PathBuf {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        }
    }
}

impl Drop for GraphStore {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take().filter(|_| !self.poisoned && self.open.is_none()) {
            journal.remove_if_empty();
        }
    }
}
