//! Opening: the lock, the manifest, then the log after it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use duramen_measure::clock;
use duramen_tree::{Forest, NodeId, NodeStore, NodeStoreError, NodeStoreStats, Tree};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::batch::Batch;
use crate::branch::{BranchState, Meta, Slot};
use crate::branches::BranchOp;
use crate::checkpoint::Garbage;
use crate::engine::{apply, record, Engine, Registry, Requests, Writer};
use crate::error::StoreError;
use crate::exchange::StoredBranch;
use crate::log::{FileDirectory, Log, LogDirectory, LogError, LogOptions};
use crate::manifest::Manifest;
use crate::names::DEFAULT_BRANCH;
use crate::nodes::FjallNodeStore;
use crate::options::Options;

/// The file that says which process has the store.
const LOCK_FILE: &str = "lock";

pub(crate) fn open(path: &Path, options: Options) -> Result<Engine, StoreError> {
    if options.read_only && !path.join(LOCK_FILE).exists() {
        return Err(StoreError::StoreNotFound { path: path.to_owned() });
    }
    std::fs::create_dir_all(path).map_err(StoreError::io("make the folder", path))?;
    let lock = lock(path)?;
    let (nodes, log) = (path.join("nodes"), path.join("log"));
    let nodes: Arc<dyn NodeStore> = Arc::new(FjallNodeStore::open(&nodes, options.read_only)?);
    let log: Arc<dyn LogDirectory> = if options.read_only {
        Arc::new(FileDirectory::open_read_only(&log).map_err(StoreError::io("open the log", &log))?)
    } else {
        std::fs::create_dir_all(&log).map_err(StoreError::io("make the folder", &log))?;
        Arc::new(FileDirectory::open(&log).map_err(StoreError::io("open the log", &log))?)
    };
    assemble(nodes, log, options, Some(path), Some(lock))
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let file = path.join(LOCK_FILE);
    let open = File::options().read(true).write(true).create(true).truncate(false).open(&file);
    let mut lock = open.map_err(StoreError::io("open the lock", &file))?;
    if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        let pid = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
        return Err(StoreError::Locked { path: path.to_owned(), pid });
    }
    let told = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    told.map_err(StoreError::io("write the lock", &file))?;
    Ok(lock)
}

pub(crate) fn memory() -> Engine {
    let options = Options { memory_bytes: usize::MAX / 2, ..Options::default() };
    let forest = Forest::new(Arc::new(Nowhere), 1, options.memory_bytes);
    let mut registry = Registry::default();
    let slot = Slot::Open(Tree::new(&forest));
    let created_ms = clock::unix_ms();
    registry.add(BranchState::new(0, DEFAULT_BRANCH.to_owned(), slot, Meta::root(created_ms)));
    let garbage = Garbage::default();
    let engine = engine(options, forest, Start { registry, version: 0, garbage, created_ms });
    Engine { in_memory: true, ..engine }
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

/// What a manifest gives.
struct Start {
    registry: Registry,
    version: u64,
    garbage: Garbage,
    created_ms: i64,
}

fn engine(options: Options, forest: Forest, start: Start) -> Engine {
    Engine {
        path: None,
        in_memory: false,
        foreign: false,
        options,
        forest,
        log: None,
        writer: Mutex::new(Writer {
            batch: Batch::default(),
            version: start.version,
            garbage: start.garbage,
        }),
        registry: RwLock::new(start.registry),
        checkpointing: Mutex::new(()),
        requests: Mutex::new(Requests::default()),
        wake: Condvar::new(),
        epoch: Mutex::new(Arc::new(())),
        checkpoints: AtomicU64::new(0),
        poison: OnceLock::new(),
        created_ms: start.created_ms,
        _lock: None,
    }
}

/// Puts an engine together from its parts, and redoes the log.
pub(crate) fn assemble(
    nodes: Arc<dyn NodeStore>,
    log: Arc<dyn LogDirectory>,
    options: Options,
    path: Option<&Path>,
    lock: Option<File>,
) -> Result<Engine, StoreError> {
    let read_only = options.read_only;
    let (mut engine, is_new) = match nodes.manifest()? {
        Some(bytes) => (from_manifest(nodes, &Manifest::decode(&bytes)?, options)?, false),
        None if read_only => {
            return Err(StoreError::StoreNotFound { path: path.unwrap_or(Path::new("")).into() })
        }
        None => {
            nodes.delete_from(0)?;
            let forest = Forest::new(nodes, 1, options.memory_bytes);
            let mut registry = Registry::default();
            let slot = Slot::Open(Tree::new(&forest));
            let created_ms = clock::unix_ms();
            registry.add(BranchState::new(0, DEFAULT_BRANCH.to_owned(), slot, Meta::root(created_ms)));
            let garbage = Garbage::default();
            (engine(options, forest, Start { registry, version: 0, garbage, created_ms }), true)
        }
    };
    engine.path = path.map(Path::to_owned);
    engine._lock = lock;
    let after = engine.writer.get_mut().version;
    let mut parts = Vec::new();
    let mut failed = None;
    let mut replay = |first: u64, count: u32, body: &[u8]| {
        redo(&engine, first, count, body, &mut parts).map_err(|error| {
            let text = error.to_string();
            failed = Some(error);
            LogError::Replay { first, source: text.into() }
        })
    };
    let opened = if read_only {
        Log::read(&*log, after, &mut replay).map(|_| None)
    } else {
        let log_options =
            LogOptions { segment_bytes: engine.options.segment_bytes, sync_every: engine.options.sync_every };
        Log::open(log, log_options, after, &mut replay).map(Some)
    };
    if let Some(error) = failed {
        return Err(error);
    }
    engine.log = opened?;
    if is_new {
        // From here on there is a manifest, so that nodes without one are never taken for a new store.
        engine.checkpoint(false)?;
    }
    Ok(engine)
}

/// Puts an engine for reading together, of branches whose nodes lie outside of any store.
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
    let engine = engine(options, forest, Start { registry, version, garbage, created_ms });
    Ok(Engine { foreign: true, ..engine })
}

fn from_manifest(
    nodes: Arc<dyn NodeStore>,
    manifest: &Manifest,
    options: Options,
) -> Result<Engine, StoreError> {
    if !options.read_only {
        let leftovers = nodes.delete_from(manifest.next_node)?;
        if leftovers > 0 {
            tracing::info!(leftovers, "a checkpoint had not come to its end; its nodes are deleted");
        }
    }
    let forest = Forest::new(nodes, manifest.next_node, options.memory_bytes);
    let mut registry = Registry::default();
    for branch in &manifest.branches {
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
        };
        let slot = Slot::Stored(branch.root.into());
        registry.add(BranchState::new(branch.id, branch.name.clone(), slot, meta));
    }
    registry.next_id = registry.next_id.max(manifest.next_branch);
    let garbage = Garbage::recovered(manifest);
    let (version, created_ms) = (manifest.version, manifest.created_ms);
    Ok(engine(options, forest, Start { registry, version, garbage, created_ms }))
}

/// Does again what a record of the log says.
fn redo(engine: &Engine, first: u64, count: u32, body: &[u8], parts: &mut Vec<u8>) -> Result<(), StoreError> {
    let damaged = || StoreError::Damaged("a record of the log cannot be read".into());
    let mut writer = engine.writer.lock();
    writer.version = first + u64::from(count) - 1;
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
            let branch = engine.registry.read().get(number(rest)?)?;
            let mut slot = branch.slot_mut();
            apply(slot.tree(&engine.forest)?, &engine.forest, first, &rest[8..])?;
        }
        record::MERGE => {
            let (source, rest) = (number(rest)?, &rest[8..]);
            let (target, rest) = (number(rest)?, &rest[8..]);
            let branch = engine.registry.read().get(target)?;
            {
                let mut slot = branch.slot_mut();
                apply(slot.tree(&engine.forest)?, &engine.forest, first, rest)?;
            }
            engine.note_merge(source, target)?;
        }
        record::BRANCH => {
            let op: BranchOp = postcard::from_bytes(rest).map_err(|_| damaged())?;
            engine.apply_branch_op(&mut writer, &op)?;
        }
        record::RESERVE => {}
        _ => return Err(damaged()),
    }
    Ok(())
}
