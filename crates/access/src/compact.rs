//! Partial syncs and the full one before them, made into one sync of a new file.
//!
//! The rules are those of the ecosystem's compactor. Of each file the latest sync counts that has ended and is full, of
//! resources only, or partial; the differences that a comparison leaves are none of these. For each resource type, resource,
//! entitlement and grant the row that was discovered last stays, of several at the same moment that of the file named last.
//! Nothing is ever deleted: that a partial sync does not have a row says nothing. The result has an id of its own, is as
//! wide as the widest of them (full, then resources only, then partial), and ended when the last of them did (in version 1, when it was made).
//!
//! ```
//! use duramen_access::c1z::ReadOptions;
//! use duramen_access::compact::Compaction;
//! use duramen_access::convert::Format;
//! use duramen_access::graph::{GraphPack, GraphStore, ResourceType, SyncKind};
//!
//! # let dir = tempfile::tempdir()?;
//! let (base, part) = (dir.path().join("base.dpack"), dir.path().join("part.dpack"));
//! for (path, kind, id) in [(&base, SyncKind::Full, "user"), (&part, SyncKind::Partial, "group")] {
//!     let mut store = GraphStore::open(path)?;
//!     store.start_sync(kind, None)?;
//!     store.put_resource_types([&ResourceType { id: id.to_owned(), ..ResourceType::default() }])?;
//!     store.end_sync()?;
//!     store.close()?;
//! }
//! let to = dir.path().join("all.dpack");
//! let compaction = Compaction { inputs: vec![base, part], to: to.clone(), format: None, read: ReadOptions::default() };
//! let compacted = compaction.run()?;
//! assert_eq!((compacted.sync.kind, compacted.copied.resource_types), (SyncKind::Full, 2));
//! assert_eq!(GraphPack::open(&to)?.syncs().len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod merge;

use std::path::PathBuf;

use duramen_base::clock;
use serde_json::json;

use self::merge::{Identity, Merge, Part};
use crate::c1z::ReadOptions;
use crate::convert::{is_same_file, write_file, ConvertError, Copied, Format};
use crate::file::{FileError, GraphFile};
use crate::graph::{new_sync_id, GraphSource as _, Loss, Sync, SyncKind, Timestamp};

/// How many syncs the token of a result names; how many there were is in it too.
const NAMED_SYNCS_MAX: usize = 32;

/// Why files were not compacted. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// There is nothing to join.
    #[error("compaction needs a base and at least one more file, and got {got}; name them before the file to write")]
    TooFew {
        /// How many files were named.
        got: usize,
    },
    /// A file has no sync that can be joined with others.
    #[error(
        "{} has no sync that can be compacted: one that has ended and is full, partial, or of resources only; {holds}",
        file.display()
    )]
    NothingToCompact {
        /// The file.
        file: PathBuf,
        /// What is in it.
        holds: String,
    },
    /// The new file is one of those that it would be made of.
    #[error("{} is one of the files to compact; name another file to write", file.display())]
    SameFile {
        /// The file.
        file: PathBuf,
    },
    /// A file could not be read, or the new one not be written.
    #[error(transparent)]
    Convert(Box<ConvertError>),
    /// A file could not be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: Box<FileError>,
    },
}

impl From<ConvertError> for CompactError {
    fn from(error: ConvertError) -> CompactError {
        CompactError::Convert(Box::new(error))
    }
}

/// Which files become one.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// The base, then what came after it, the oldest first: packs of graphs, or `.c1z` files of either version.
    pub inputs: Vec<PathBuf>,
    /// The file that is written, on the terms of a [conversion](crate::convert::Conversion).
    pub to: PathBuf,
    /// What it is written as. None: what its inputs are, version 3 if one of them is, else version 1 if one of them is, else
    /// a pack.
    pub format: Option<Format>,
    /// How `.c1z` files are read. Their rows are always checked.
    pub read: ReadOptions,
}

/// What a compaction made.
#[derive(Clone, Debug)]
pub struct Compacted {
    /// The new sync.
    pub sync: Sync,
    /// The ids of those that it was made of, in the order of the files.
    pub of: Vec<String>,
    /// What the new file is.
    pub format: Format,
    /// How many rows are in it.
    pub copied: Copied,
    /// What is in the old files and not in the new one, apart from rows that a later one replaced.
    pub losses: Vec<Loss>,
    /// Bytes of the new file.
    pub file_bytes: u64,
}

impl Compaction {
    /// Does it. Takes memory for the keys of all files but the base: 48 bytes a row, one table at a time.
    ///
    /// # Errors
    /// When a file cannot be read, has no sync for it, or would be replaced by the new one; when the new one cannot be written.
    /// Nothing is left of it then.
    pub fn run(&self) -> Result<Compacted, CompactError> {
        if self.inputs.len() < 2 {
            return Err(CompactError::TooFew { got: self.inputs.len() });
        }
        let options = ReadOptions { check_rows: true, ..self.read.clone() };
        let mut parts = Vec::new();
        for path in &self.inputs {
            if is_same_file(path, &self.to) {
                return Err(CompactError::SameFile { file: self.to.clone() });
            }
            let read = |source| CompactError::Read { file: path.clone(), source: Box::new(source) };
            let file = GraphFile::open(path, &options).map_err(read)?;
            let syncs = file.syncs().map_err(read)?;
            let sync = to_compact(&syncs)
                .ok_or_else(|| CompactError::NothingToCompact { file: path.clone(), holds: holds(&syncs) })?;
            parts.push(Part { sync: sync.clone(), file });
        }
        let has = |format| parts.iter().any(|part| Format::of_file(&part.file) == format);
        let format = self.format.unwrap_or(match () {
            () if has(Format::C1z3) => Format::C1z3,
            () if has(Format::C1z1) => Format::C1z1,
            () => Format::Pack,
        });
        let identity = match () {
            () if has(Format::C1z3) || format == Format::C1z3 => Identity::Edge,
            () if has(Format::Pack) => Identity::Id,
            () => Identity::IdAlone,
        };
        let sync = sync_of(&parts, format, identity);
        let of: Vec<String> = parts.iter().map(|part| part.sync.id.clone()).collect();
        let left_out: Vec<Loss> =
            parts.iter().flat_map(|part| part.file.left_out().iter().cloned()).collect();
        let merge = Merge::new(parts, sync.clone(), identity);
        let (copied, mut losses) =
            write_file(&merge, &self.to, format, self.read.zone.as_ref(), std::slice::from_ref(&sync))?;
        losses.extend(left_out);
        losses.extend(merge.assets_left().map_err(ConvertError::Read)?);
        let file = std::fs::metadata(&self.to).map_err(ConvertError::io("look at", &self.to))?;
        Ok(Compacted { sync, of, format, copied, losses, file_bytes: file.len() })
    }
}

/// The new sync.
fn sync_of(parts: &[Part], format: Format, identity: Identity) -> Sync {
    let kinds = || parts.iter().map(|part| part.sync.kind);
    let kind =
        [SyncKind::Full, SyncKind::ResourcesOnly].into_iter().find(|kind| kinds().any(|of| of == *kind));
    let now = clock::utc_now();
    let now = Timestamp { seconds: now.as_second(), nanos: now.subsec_nanosecond() };
    let floor = (identity == Identity::IdAlone).then_some(now);
    let token = match format {
        // There the ecosystem's compactor writes none.
        Format::C1z1 => String::new(),
        Format::Pack | Format::C1z3 => token(parts),
    };
    Sync {
        id: new_sync_id(),
        kind: kind.unwrap_or(SyncKind::Partial),
        started_at: now,
        // The ecosystem's compactor of version 1 begins with a sync that has ended already.
        ended_at: parts.iter().filter_map(|part| part.sync.ended_at).chain(floor).max(),
        token,
        ..Sync::default()
    }
}

/// Where a result comes from, as the ecosystem's tools look for it in the token of a sync.
fn token(parts: &[Part]) -> String {
    let ids: Vec<&str> = parts.iter().map(|part| part.sync.id.as_str()).collect();
    let Some((base, others)) = ids.split_first() else { return String::new() };
    let named = &others[..others.len().min(NAMED_SYNCS_MAX)];
    let compaction = json!({
        "mode": "overlay",
        "stats_sync_id": base,
        "base_sync_id": base,
        "partial_sync_ids": named,
        "partial_count": others.len(),
    });
    json!({ "compaction": compaction, "version": 1 }).to_string()
}

/// The sync of a file that is joined with those of others.
fn to_compact(syncs: &[Sync]) -> Option<&Sync> {
    let kinds = [SyncKind::Full, SyncKind::ResourcesOnly, SyncKind::Partial];
    let ended = syncs.iter().filter(|sync| sync.ended_at.is_some() && kinds.contains(&sync.kind));
    ended.max_by(|a, b| (a.ended_at, &a.id).cmp(&(b.ended_at, &b.id)))
}

fn holds(syncs: &[Sync]) -> String {
    let each = syncs.iter().map(|sync| {
        let state = if sync.ended_at.is_some() { "ended" } else { "not ended" };
        format!("{} ({}, {state})", sync.id, sync.kind_name())
    });
    match each.collect::<Vec<_>>() {
        none if none.is_empty() => "it holds no sync".to_owned(),
        syncs => format!("it holds {}", syncs.join(", ")),
    }
}
