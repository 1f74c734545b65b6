//! Old syncs of a file, taken out of it.
//!
//! The rules are those of the ecosystem's tools, and two more. Of the full syncs that have ended the last few stay. A partial one, or
//! one of resources only, goes if it ended before the first of these was begun. Of more than two syncs that a comparison left, the last
//! and the one that it names stay. What has not ended never goes. On top of that, what ended longer ago than a span goes,
//! whatever it is; but the last full sync that has ended (or if there is none, the last of any kind) never goes, by whatever rule.
//!
//! ```
//! use duramen_access::c1z::ReadOptions;
//! use duramen_access::graph::{GraphPack, GraphStore, SyncKind};
//! use duramen_access::prune::Pruning;
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("access.dpack");
//! let mut store = GraphStore::open(&path)?;
//! for _ in 0..3 {
//!     store.start_sync(SyncKind::Full, None)?;
//!     store.end_sync()?;
//! }
//! store.close()?;
//! let pruned = Pruning { file: path.clone(), keep: 2, older_than_s: None, read: ReadOptions::default() }.run()?;
//! assert_eq!((pruned.removed.len(), GraphPack::open(&path)?.syncs().len()), (1, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::PathBuf;

use duramen_base::clock;

use crate::c1z::ReadOptions;
use crate::convert::{lock_pack, replace_file, ConvertError, Format};
use crate::file::{FileError, GraphFile};
use crate::graph::{GraphSource as _, Loss, Sync, SyncKind};

/// Which syncs of which file stay.
#[derive(Clone, Debug)]
pub struct Pruning {
    /// The file: a pack of a graph, or a `.c1z` file of either version. It is replaced.
    pub file: PathBuf,
    /// How many full syncs that have ended stay; one at least.
    pub keep: usize,
    /// How many seconds ago a sync ended at most that stays, if there is a limit.
    pub older_than_s: Option<u64>,
    /// How a `.c1z` file is read. Its rows are always checked.
    pub read: ReadOptions,
}

/// What was taken out.
#[derive(Clone, Debug)]
pub struct Pruned {
    /// The syncs that are gone. If there are none, the file is as it was.
    pub removed: Vec<Sync>,
    /// Those that stayed.
    pub kept: Vec<Sync>,
    /// What the old file held and the new one does not, beside these.
    pub losses: Vec<Loss>,
}

impl Pruning {
    /// Does it.
    ///
    /// # Errors
    /// When the file cannot be read or written, or a sync of the pack goes on. It is as it was then.
    pub fn run(&self) -> Result<Pruned, ConvertError> {
        let options = ReadOptions { check_rows: true, ..self.read.clone() };
        let read = |error: FileError| ConvertError::Read(error);
        let opened = GraphFile::open(&self.file, &options).map_err(read)?;
        let format = Format::of_file(&opened);
        let since = self.older_than_s.map(|span| clock::utc_now().as_second().saturating_sub_unsigned(span));
        if format == Format::Pack {
            // Its syncs are copied block by block, by who has locked it.
            let mut store = lock_pack(&self.file)?;
            let (removed, kept) = self.parted(store.syncs(), since);
            if !removed.is_empty() {
                store.drop_syncs(&removed)?;
            }
            store.close()?;
            return Ok(Pruned { removed, kept, losses: Vec::new() });
        }
        let (removed, kept) = self.parted(opened.syncs().map_err(read)?, since);
        let mut losses = Vec::new();
        if !removed.is_empty() {
            losses = replace_file(&opened, &self.file, format, self.read.zone.as_ref(), &kept)?.1;
            losses.extend(opened.left_out().iter().cloned());
        }
        Ok(Pruned { removed, kept, losses })
    }

    /// The syncs that go, and those that stay.
    fn parted(&self, syncs: Vec<Sync>, since: Option<i64>) -> (Vec<Sync>, Vec<Sync>) {
        let goes = outdated(&syncs, self.keep, since);
        syncs.into_iter().partition(|sync| goes.contains(&sync.id))
    }
}

/// The ids of the syncs that go: of all but the last `keep` full ones, and of those that ended before `since`, in seconds since 1970.
///
/// ```
/// use duramen_access::graph::{Sync, Timestamp};
/// use duramen_access::prune::outdated;
///
/// let ended = |id: &str, seconds| {
///     let time = Timestamp { seconds, nanos: 0 };
///     Sync { id: id.to_owned(), started_at: time, ended_at: Some(time), ..Sync::default() }
/// };
/// let syncs = [ended("a", 10), ended("b", 20), ended("c", 30)];
/// assert_eq!(outdated(&syncs, 2, None), ["a"]);
/// assert_eq!(outdated(&syncs, 2, Some(1_000)), ["a", "b"]); // the last complete one stays, however old it is
/// ```
pub fn outdated(syncs: &[Sync], keep: usize, since: Option<i64>) -> Vec<String> {
    let mut ended: Vec<&Sync> = syncs.iter().filter(|sync| sync.ended_at.is_some()).collect();
    ended.sort_by_key(|sync| (sync.started_at, &sync.id));
    let of = |kinds: &[SyncKind]| -> Vec<&Sync> {
        ended.iter().copied().filter(|sync| kinds.contains(&sync.kind)).collect()
    };
    let full = of(&[SyncKind::Full, SyncKind::Unknown]);
    let differences = of(&[SyncKind::PartialUpserts, SyncKind::PartialDeletions]);
    let mut goes: Vec<&Sync> = Vec::new();
    let first_kept = full.len().saturating_sub(keep.max(1));
    if let (Some(kept), 1..) = (full.get(first_kept), first_kept) {
        goes.extend(&full[..first_kept]);
        let partial = of(&[SyncKind::Partial, SyncKind::ResourcesOnly]).into_iter();
        goes.extend(partial.filter(|sync| sync.ended_at.is_some_and(|ended| ended < kept.started_at)));
    }
    if let Some(last) = differences.last().filter(|_| differences.len() > 2) {
        goes.extend(
            differences.iter().filter(|sync| sync.id != last.id && last.linked.as_ref() != Some(&sync.id)),
        );
    }
    if let Some(since) = since {
        goes.extend(ended.iter().filter(|sync| sync.ended_at.is_some_and(|ended| ended.seconds < since)));
    }
    // That which a reader gets who names none.
    let latest = |all: &[&Sync]| {
        all.iter().max_by_key(|sync| (sync.ended_at, sync.started_at, &sync.id)).map(|sync| sync.id.clone())
    };
    let last = latest(&of(&[SyncKind::Full])).or_else(|| latest(&ended));
    let goes = |sync: &&&Sync| Some(&sync.id) != last.as_ref() && goes.iter().any(|each| each.id == sync.id);
    ended.iter().filter(goes).map(|sync| sync.id.clone()).collect()
}
