//! Opening: the lock, the manifest, then the log after it.

mod beside;
mod salvage;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use duramen_base::clock;
use duramen_tree::{Forest, NodeId, NodeStore, NodeStoreError, NodeStoreStats, Tree};

use crate::branch_state::{BranchState, Meta};
use crate::branches::BranchOp;
use crate::engine::{Backing, Engine, Start};
use crate::error::StoreError;
use crate::folder::{self, FolderLock, Found};
use crate::garbage::Garbage;
use crate::ground::{Ground, Guard};
use crate::history::Points;
use crate::log::{
    FileDirectory, Log, LogDirectory, LogError, LogFile, LogOptions, LogTail, Needed, Position,
};
use crate::manifest::{Manifest, More};
use crate::names::DEFAULT_BRANCH;
use crate::nodes::SegmentNodeStore;
use crate::options::Options;
use crate::record::{self, apply};
use crate::registry::Registry;
use crate::slot::Slot;
use crate::stored_branch::StoredBranch;

pub(crate) use self::beside::open_to_tail;
pub use self::salvage::Repaired;
pub(crate) use self::salvage::{repair, VERSIONS_LEFT_OUT};

/// What a store is put together from.
pub(crate) struct Parts<'p> {
    pub(crate) nodes: Arc<dyn NodeStore>,
    pub(crate) log: Arc<dyn LogDirectory>,
    /// The folder, if it has one.
    pub(crate) path: Option<&'p Path>,
    /// What messages call it.
    pub(crate) name: &'p Path,
    pub(crate) guard: Option<Guard>,
    /// Whether the log that the checkpoint goes on in is given up, and another one begins.
    pub(crate) begins_log: bool,
    /// Whether its log is at hand.
    pub(crate) has_log: bool,
}

impl<'p> Parts<'p> {
    fn in_folder(nodes: Arc<dyn NodeStore>, log: Arc<dyn LogDirectory>, path: &'p Path) -> Self {
        Self { nodes, log, path: Some(path), name: path, guard: None, begins_log: false, has_log: true }
    }

    pub(crate) fn on(ground: Ground, name: &'p Path) -> Self {
        let Ground { nodes, log, guard, begins_log, has_log, .. } = ground;
        Self { nodes, log, path: None, name, guard, begins_log, has_log }
    }
}

pub(crate) fn open(path: &Path, options: Options) -> Result<Engine, StoreError> {
    let options = Options { read_only: options.read_only || options.checkpoint_only, ..options };
    if options.read_only {
        return beside::open(path, &options);
    }
    let found = look(path)?;
    if found == Found::Nothing {
        folder::make(path).map_err(StoreError::io("make the folder", path))?;
    }
    let lock = FolderLock::take(path, options.lock_wait)?;
    if found == Found::Nothing {
        // Version 0.1 may have been cut off while it made it.
        let draft = path.join(folder::NEW_NODES_FOLDER);
        if draft.is_dir() {
            std::fs::remove_dir_all(&draft).map_err(StoreError::io("remove", &draft))?;
        }
        // By the lock, the rest is known to be ours if this does not come to its end.
        folder::sync(path).map_err(StoreError::io("make durable", path))?;
    }
    let nodes_path = path.join(folder::NODES_FOLDER);
    if !nodes_path.is_dir() {
        folder::make(&nodes_path).map_err(StoreError::io("make the folder", &nodes_path))?;
    }
    let nodes: Arc<dyn NodeStore> = Arc::new(SegmentNodeStore::open(&nodes_path, false)?);
    let log = open_log(&path.join(folder::LOG_FOLDER), &*nodes, &options)?;
    assemble(Parts { guard: Some(Box::new(lock)), ..Parts::in_folder(nodes, log, path) }, options)
}

/// Whether a folder holds a store of this version, or nothing; all else is refused.
fn look(path: &Path) -> Result<Found, StoreError> {
    match folder::look(path).map_err(StoreError::io("look into", path))? {
        Found::Legacy => Err(StoreError::Legacy { path: path.to_owned() }),
        Found::Foreign(found) => Err(StoreError::Foreign { path: path.to_owned(), found }),
        found @ (Found::Store | Found::Nothing) => Ok(found),
    }
}

fn open_log(
    path: &Path,
    nodes: &dyn NodeStore,
    options: &Options,
) -> Result<Arc<dyn LogDirectory>, StoreError> {
    let failed = || StoreError::io("open the log", path);
    if !path.is_dir() {
        let manifest = nodes.manifest()?;
        if options.checkpoint_only && manifest.is_some() {
            return Ok(Arc::new(NoLog));
        }
        if let Some(manifest) = manifest {
            let (Manifest { version: after, .. }, _) = Manifest::decode(&manifest)?;
            return Err(LogError::Missing { file: "the folder".to_owned(), after }.into());
        }
        // There is no manifest yet, so nothing was ever acknowledged.
        if options.read_only {
            return Err(StoreError::StoreNotFound { path: path.parent().unwrap_or(path).to_owned() });
        }
        folder::make(path).map_err(StoreError::io("make the folder", path))?;
    }
    if options.read_only {
        return Ok(Arc::new(FileDirectory::open_read_only(path).map_err(failed())?));
    }
    Ok(Arc::new(FileDirectory::open(path).map_err(failed())?))
}

pub(crate) fn memory() -> Engine {
    let options = Options { memory_bytes: usize::MAX / 2, ..Options::default() };
    let forest = Forest::new(Arc::new(Nowhere), 1, options.memory_bytes);
    let start = new_store(&forest);
    Engine::new(options, forest, Backing::Memory, start)
}

/// Where a store in memory keeps its nodes: all of them are in its trees, and none is ever read back.
struct Nowhere;

impl NodeStore for Nowhere {
    fn get(&self, _id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(None)
    }

    fn put(&self, _nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        Ok(())
    }

    fn commit(&self, _manifest: &[u8], _deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        Ok(())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(None)
    }

    fn delete_from(&self, _first: NodeId) -> Result<u64, NodeStoreError> {
        Ok(0)
    }

    fn keeps(&self) -> bool {
        false
    }

    fn stats(&self) -> NodeStoreStats {
        NodeStoreStats::default()
    }
}

/// Where a store that is read without its log would have it.
pub(crate) struct NoLog;

impl LogDirectory for NoLog {
    fn list(&self) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn create(&self, _name: &str, _size: u64) -> std::io::Result<Arc<dyn LogFile>> {
        Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, _name: &str) -> std::io::Result<Arc<dyn LogFile>> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    fn rename(&self, _from: &str, _to: &str) -> std::io::Result<()> {
        Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _name: &str) -> std::io::Result<()> {
        Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// What a new store begins with: the branch that every store has.
fn new_store(forest: &Forest) -> Start {
    let mut registry = Registry::default();
    let slot = Slot::Open(Tree::new(forest));
    let created_ms = clock::unix_ms();
    registry.add(BranchState::new(0, DEFAULT_BRANCH.to_owned(), slot, Meta::root(created_ms)));
    Start { registry, version: 0, garbage: Garbage::default(), created_ms }
}

/// Puts an engine together from its parts, and redoes the log.
pub(crate) fn assemble(parts: Parts<'_>, options: Options) -> Result<Engine, StoreError> {
    assemble_to_tail(parts, options).map(|(engine, _)| engine)
}

/// As [`assemble`]; also tells where the log ends, if it is only read.
pub(crate) fn assemble_to_tail(parts: Parts<'_>, options: Options) -> Result<(Engine, ReadTo), StoreError> {
    let Parts { nodes, log, path, name, guard, begins_log, has_log } = parts;
    let read_only = options.read_only || !has_log;
    let checkpoint_only = options.checkpoint_only || !has_log;
    let options = Options { read_only, ..options };
    let mut needed = Needed::Nothing;
    let mut read_to = ReadTo { checkpoint: 0, segment: None, tail: None, needed: None };
    let manifest = nodes.manifest()?;
    let is_new = manifest.is_none();
    let (forest, start) = match manifest {
        Some(bytes) => {
            let (manifest, more) = Manifest::decode(&bytes)?;
            // Whoever wrote format 1 had a segment, too, and did not say which.
            needed = more.as_ref().map_or(Needed::Any, |more| Needed::Segment(more.segment));
            read_to.checkpoint = manifest.version;
            read_to.segment = more.as_ref().map(|more| more.segment);
            from_manifest(nodes, &manifest, more.as_ref(), &options)?
        }
        None if read_only => return Err(StoreError::StoreNotFound { path: name.into() }),
        None => {
            nodes.delete_from(0)?;
            let forest = Forest::new(nodes, 1, options.memory_bytes);
            let start = new_store(&forest);
            (forest, start)
        }
    };
    let position = Position { after: start.version, needed };
    let backing = Backing::Stored { path: path.map(Path::to_owned), _guard: guard };
    let mut engine = Engine::new(options, forest, backing, start);
    let mut parts = Vec::new();
    let mut failed = None;
    let mut tail_of_reader = None;
    let mut replay = |first: u64, count: u32, body: &[u8]| {
        // Where anything follows on it, whoever wrote it was killed before the checkpoint, and there is nothing to wait for.
        read_to.needed = (body.first() == Some(&record::INSTALL)).then_some(first);
        redo(&engine, first, count, body, &mut parts).map_err(|error| {
            let text = error.to_string();
            failed = Some(error);
            LogError::Replay { first, source: text.into() }
        })
    };
    let opened = if checkpoint_only {
        Ok(None)
    } else if read_only {
        Log::read_to_tail(&log, position, &mut replay).map(|tail| {
            tail_of_reader = tail;
            None
        })
    } else {
        let Options { segment_bytes, sync_every, .. } = *engine.options();
        let log_options = LogOptions { segment_bytes, sync_every };
        if begins_log && !is_new {
            let number = read_to.segment.unwrap_or(0).saturating_add(1);
            let log = Log::begin(log, log_options, position.after, number)?;
            engine.attach_log(log);
            // Versions of commits that were lost are not given again.
            engine.reserve_versions(VERSIONS_LEFT_OUT)?;
            engine.checkpoint(false)?;
            return Ok((engine, read_to));
        }
        Log::open_at(log, log_options, position, &mut replay).map(Some)
    };
    if let Some(error) = failed {
        return Err(error);
    }
    read_to.tail = tail_of_reader;
    if let Some(log) = opened? {
        engine.attach_log(log);
    }
    if is_new {
        if engine.last_version() > 0 {
            return Err(StoreError::Damaged("it has commits in its log, and no nodes before them".into()));
        }
        // From here on there is a manifest, so that nodes without one are never taken for a new store.
        engine.checkpoint(false)?;
    }
    Ok((engine, read_to))
}

/// How far a store was read that another process may write.
pub(crate) struct ReadTo {
    /// The version that its checkpoint holds.
    pub(crate) checkpoint: u64,
    /// The segment in which the log goes on after that.
    pub(crate) segment: Option<u64>,
    /// None where the next record will be in a segment that is not there yet.
    pub(crate) tail: Option<LogTail>,
    /// The version of a tree that the next checkpoint has, and the log has not, if that is the last thing in it.
    pub(crate) needed: Option<u64>,
}

/// Builds a read-only engine over branches whose nodes are kept outside a store, for example in a pack.
pub(crate) fn read_only(
    nodes: Arc<dyn NodeStore>,
    branches: &[StoredBranch],
    options: Options,
) -> Result<Engine, StoreError> {
    let next_node = branches.iter().map(|branch| branch.next_node).max().unwrap_or(1);
    let forest = Forest::new(nodes, next_node, options.memory_bytes);
    let mut registry = Registry::default();
    for (id, branch) in (0..).zip(branches) {
        registry.check_free(&branch.name)?;
        let slot = Slot::Stored(branch.root);
        registry.add(BranchState::new(id, branch.name.clone(), slot, Meta::root(branch.created_ms)));
    }
    let garbage = Garbage::default();
    let version = branches.iter().map(|branch| branch.version).max().unwrap_or(0);
    let created_ms = branches.iter().map(|branch| branch.created_ms).max().unwrap_or(0);
    let options = Options { read_only: true, ..options };
    Ok(Engine::new(options, forest, Backing::Copies, Start { registry, version, garbage, created_ms }))
}

/// The trees that a manifest names.
pub(crate) fn from_bytes(
    nodes: Arc<dyn NodeStore>,
    manifest: &[u8],
    options: &Options,
) -> Result<(Forest, Start), StoreError> {
    let (manifest, more) = Manifest::decode(manifest)?;
    from_manifest(nodes, &manifest, more.as_ref(), options)
}

fn from_manifest(
    nodes: Arc<dyn NodeStore>,
    manifest: &Manifest,
    more: Option<&More>,
    options: &Options,
) -> Result<(Forest, Start), StoreError> {
    let floors = more.map(|more| more.branches.as_slice()).unwrap_or_default();
    if !options.read_only {
        let leftovers = nodes.delete_from(manifest.next_node)?;
        if leftovers > 0 {
            log::info!("a checkpoint had not come to its end; its nodes are deleted: leftovers {leftovers}");
        }
    }
    let next_node = if options.read_only { ids_of_a_reader() } else { manifest.next_node };
    let forest = Forest::new(nodes, next_node, options.memory_bytes);
    let mut registry = Registry::default();
    let histories = more.map(|more| more.histories.as_slice()).unwrap_or_default();
    let mut histories: HashMap<u64, Points> =
        histories.iter().map(|history| (history.branch, history.to_points())).collect();
    for (index, branch) in manifest.branches.iter().enumerate() {
        let meta = Meta {
            created_ms: branch.created_ms,
            expires_ms: branch.expires_ms,
            protected: branch.protected,
            parent: branch.parent,
            fork_mark: branch.fork_mark,
            origin_mark: branch.origin_mark,
            parent_mark: branch.parent_mark,
            base_mark: branch.base_mark,
            base: branch.base.map(|root| Slot::Stored(root.into())),
            merge_base: branch.merge_base.map(|root| Slot::Stored(root.into())),
            points: histories.remove(&branch.id).unwrap_or_default(),
        };
        let slot = Slot::Stored(branch.root.into());
        let floor = floors.get(index).map_or(0, |more| more.floor);
        registry.add(BranchState::new(branch.id, branch.name.clone(), slot, meta).with_floor(floor));
    }
    registry.reserve_ids(manifest.next_branch);
    let garbage = Garbage::recovered(manifest);
    let (version, created_ms) = (manifest.version, manifest.created_ms);
    Ok((forest, Start { registry, version, garbage, created_ms }))
}

/// The first number for what a reader makes of the log: no node that is ever stored has it, nor what another reader of this
/// process makes.
fn ids_of_a_reader() -> NodeId {
    static READERS: AtomicU64 = AtomicU64::new(0);
    let reader = READERS.fetch_add(1, Ordering::Relaxed) % (1 << 22);
    (1 << 62) | (reader << 40)
}

/// Redoes a record of the log.
pub(crate) fn redo(
    engine: &Engine,
    first: u64,
    count: u32,
    body: &[u8],
    parts: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let damaged = || StoreError::Damaged("a record of the log cannot be read".into());
    let mut writer = engine.lock_writer();
    // What is told of is there: whoever waits for a version finds it in the trees.
    let last = first + u64::from(count) - 1;
    let (kind, rest) = body.split_first().ok_or_else(damaged)?;
    let number =
        |bytes: &[u8]| bytes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(damaged);
    match *kind {
        record::FIRST_PART => {
            // A crash may have left the first parts of a commit that has no end.
            parts.clear();
            parts.extend_from_slice(rest);
        }
        record::PART => parts.extend_from_slice(rest),
        record::LAST_PART => {
            parts.extend_from_slice(rest);
            let whole = std::mem::take(parts);
            drop(writer);
            return redo(engine, first, count, &whole, parts);
        }
        record::WRITES => {
            let branch = engine.registry().get(number(rest)?)?;
            let mut slot = branch.slot_mut(&writer);
            apply(slot.tree(engine.forest())?, engine.forest(), first, &rest[8..])?;
            engine.advance(&mut writer, last);
        }
        record::MERGE => {
            let (source, rest) = (number(rest)?, &rest[8..]);
            let (target, rest) = (number(rest)?, &rest[8..]);
            let branch = engine.registry().get(target)?;
            {
                let mut slot = branch.slot_mut(&writer);
                apply(slot.tree(engine.forest())?, engine.forest(), first, rest)?;
                engine.advance(&mut writer, last);
            }
            engine.note_merge(&writer, source, target)?;
        }
        record::BRANCH => {
            let op: BranchOp = postcard::from_bytes(rest).map_err(|_| damaged())?;
            engine.apply_branch_op(&mut writer, &op, first)?;
        }
        record::RESERVE | record::INSTALL => {}
        _ => return Err(damaged()),
    }
    engine.advance(&mut writer, last);
    Ok(())
}
