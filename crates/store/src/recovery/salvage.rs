//! A store of whose log something is missing or broken: what can be had of it, put in order again.
//!
//! The nodes and the last checkpoint are whole, or this refuses, too. What the log has after that is redone as far as each
//! record follows on the one before. Then a new log begins in a folder of its own, a checkpoint that needs nothing of the old
//! one is made durable, and only then the two change their names: whoever cuts this off finds a store that is to be
//! repaired still, and loses nothing more. The old log is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duramen_tree::NodeStore;

use super::{from_manifest, look, redo};
use crate::engine::{Backing, Engine};
use crate::error::StoreError;
use crate::folder::{self, FolderLock, Found};
use crate::log::{
    begins_with, segment_number, FileDirectory, Log, LogDirectory, LogError, LogFile, LogOptions, Needed,
    Position,
};
use crate::manifest::Manifest;
use crate::nodes::SegmentNodeStore;
use crate::options::Options;

/// Versions that are left out, so that none of those that were lost is given again: a log that was not released yet has
/// fewer.
pub(crate) const VERSIONS_LEFT_OUT: u32 = u32::MAX;
/// Where the new log is made.
const NEW_LOG: &str = "log.new";
/// What the old one is called after.
const OLD_LOG: &str = "log.lost";

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// What was wrong.
    pub damage: String,
    /// Every commit up to this version is there, and none after it.
    pub kept: u64,
    /// A version after that one of which the old log still tells, if it does: so many were lost at least.
    pub known: Option<u64>,
    /// Where the old log is now; none if there was none.
    pub old_log: Option<PathBuf>,
}

/// Repairs the store in a folder. None if it is whole.
pub(crate) fn repair(path: &Path, wait: Duration) -> Result<Option<Repaired>, StoreError> {
    if look(path)? == Found::Nothing {
        return Err(StoreError::StoreNotFound { path: path.to_owned() });
    }
    let lock = FolderLock::take(path, wait)?;
    let new_log = path.join(NEW_LOG);
    // Of a repair that was cut off: what is in it is in a checkpoint, or in the old log.
    if new_log.is_dir() {
        std::fs::remove_dir_all(&new_log).map_err(StoreError::io("remove", &new_log))?;
    }
    let nodes_path = path.join(folder::NODES_FOLDER);
    if !nodes_path.is_dir() {
        return Err(StoreError::Damaged(format!("{} is not there", nodes_path.display())));
    }
    let log_path = path.join(folder::LOG_FOLDER);
    let nodes: Arc<dyn NodeStore> = Arc::new(SegmentNodeStore::open(&nodes_path, false)?);
    let Some(bytes) = nodes.manifest()? else {
        return Err(StoreError::Damaged("it has no checkpoint from which a repair could begin".into()));
    };
    let (manifest, more) = Manifest::decode(&bytes)?;
    let needed = more.as_ref().map_or(Needed::Any, |more| Needed::Segment(more.segment));
    let options = Options::default();
    let (forest, start) = from_manifest(nodes, &manifest, more.as_ref(), &options)?;
    let position = Position { after: start.version, needed };
    let LogOptions { segment_bytes, sync_every } = LogOptions::default();
    let backing = Backing::Stored { path: Some(path.to_owned()), _guard: Some(Box::new(lock)) };
    let mut engine = Engine::new(options, forest, backing, start);
    let (damage, known, last_segment) = match log_path.is_dir() {
        true => {
            let log = FileDirectory::open_read_only(&log_path);
            let log = log.map_err(StoreError::io("open the log", &log_path))?;
            let Some(damage) = redo_prefix(&engine, &log, position)? else { return Ok(None) };
            let names = log.list().map_err(StoreError::io("list", &log_path))?;
            let begun = names.iter().filter_map(|name| begins_with(&log, name)).max();
            let known = begun.map(|first| first.saturating_sub(1));
            let last_segment = names.iter().filter_map(|name| segment_number(name)).max();
            (damage, known.filter(|version| *version > engine.last_version()), last_segment)
        }
        false => (LogError::Missing { file: "the folder".to_owned(), after: position.after }, None, None),
    };
    let kept = engine.last_version();

    folder::make(&new_log).map_err(StoreError::io("make the folder", &new_log))?;
    let directory = FileDirectory::open(&new_log).map_err(StoreError::io("open the log", &new_log))?;
    let log_options = LogOptions { segment_bytes, sync_every };
    // No segment of the old log is taken for the one that the checkpoint is to need: cut off here, the store is refused.
    let needed = match needed {
        Needed::Segment(number) => number,
        Needed::Nothing | Needed::Any => 0,
    };
    let number = last_segment.unwrap_or(0).max(needed).saturating_add(1);
    let log = Log::begin(Arc::new(directory), log_options, kept, number)?;
    engine.attach_log(log);
    engine.reserve_versions(VERSIONS_LEFT_OUT)?;
    engine.checkpoint(false)?;
    engine.close_log()?;
    let old_log = if log_path.is_dir() { Some(put_aside(path, &log_path)?) } else { None };
    std::fs::rename(&new_log, &log_path).map_err(StoreError::io("rename", &new_log))?;
    folder::sync(path).map_err(StoreError::io("make durable", path))?;
    Ok(Some(Repaired { damage: damage.to_string(), kept, known, old_log }))
}

/// Redoes what of a log follows on a position without a gap. Returns what is wrong with the rest, if something is.
fn redo_prefix(
    engine: &Engine,
    log: &dyn LogDirectory,
    mut position: Position,
) -> Result<Option<LogError>, StoreError> {
    let mut damage = None;
    let mut limit = u64::MAX;
    loop {
        let (mut parts, mut redone, mut failed) = (Vec::new(), false, None);
        let found = Log::read_at(&Before { log, limit }, position, &mut |first, count, body| {
            redone = true;
            redo(engine, first, count, body, &mut parts).map_err(|error| {
                let text = error.to_string();
                failed = Some(error);
                LogError::Replay { first, source: text.into() }
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let error = match found {
            Ok(_) => return Ok(damage),
            Err(error) => error,
        };
        let (is_missing, segment) = match &error {
            LogError::Missing { .. } => (true, None),
            LogError::Damaged { segment, .. } => (false, Some(*segment)),
            _ => return Err(error.into()),
        };
        damage.get_or_insert(error);
        if redone {
            return Ok(damage);
        }
        // What was found first may be behind records that are whole.
        match segment.filter(|segment| *segment < limit) {
            Some(segment) => limit = segment,
            None if is_missing && position.needed != Needed::Nothing => position.needed = Needed::Nothing,
            None => return Ok(damage),
        }
    }
}

/// Gives the old log a name that nothing has.
fn put_aside(path: &Path, log: &Path) -> Result<PathBuf, StoreError> {
    let mut to = path.join(OLD_LOG);
    let mut number = 1;
    while to.symlink_metadata().is_ok() {
        number += 1;
        to = path.join(format!("{OLD_LOG}.{number}"));
    }
    std::fs::rename(log, &to).map_err(StoreError::io("rename", log))?;
    Ok(to)
}

/// A log as it would be without the segments from one on.
struct Before<'l> {
    log: &'l dyn LogDirectory,
    limit: u64,
}

impl LogDirectory for Before<'_> {
    fn list(&self) -> std::io::Result<Vec<String>> {
        let mut names = self.log.list()?;
        names.retain(|name| segment_number(name).is_none_or(|number| number < self.limit));
        Ok(names)
    }

    fn create(&self, _name: &str, _size: u64) -> std::io::Result<Arc<dyn LogFile>> {
        Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, name: &str) -> std::io::Result<Arc<dyn LogFile>> {
        self.log.open(name)
    }

    fn rename(&self, _from: &str, _to: &str) -> std::io::Result<()> {
        Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _name: &str) -> std::io::Result<()> {
        Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
