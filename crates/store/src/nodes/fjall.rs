//! Nodes on local disk, in the log-structured engine `fjall`.
//!
//! Large puts are *ingested*: written once as sorted files, without the engine's journal, durable when the ingestion
//! ends. Small ones ride in the journal record of the commit, so that a small checkpoint costs one flush. Values lie
//! apart from keys, so that merging the keys after random deletes rewrites some 40 bytes a node and not the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

use fjall::config::CompressionPolicy;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, LsmError, PersistMode,
    UserValue,
};
use parking_lot::{Mutex, RwLock};

use duramen_tree::{NodeId, NodeStore, NodeStoreError, NodeStoreStats};

use super::journal::JournalTrim;
use super::reclaim::Reclaimer;
use super::torn;

/// The keyspace of the nodes: the id in eight bytes, big endian, to the encoded node.
const NODES: &str = "nodes";
/// The keyspace of the manifest.
const META: &str = "meta";
const MANIFEST_KEY: &[u8] = b"manifest";
/// The file that the engine writes last when it makes a database: where it is, the database is whole.
const MARKER: &str = "version";
/// Blocks and nodes that the engine keeps in memory. Small, because decoded nodes are cached above.
const CACHE_BYTES: u64 = 8 << 20;
/// What waits in memory for the commit before it is ingested.
const PENDING_BYTES: usize = 32 << 20;
/// Least bytes of a commit that are ingested; below it, one more journal write is cheaper than the flushes of files.
const INGEST_BYTES: usize = 1 << 20;
/// Deletes are worked in when there are this many, and ...
const RECLAIM_DELETES: usize = 512;
/// ... when they are this part of the nodes, so that the work of it, some 40 bytes a node, is paid by what it frees.
const RECLAIM_PART: usize = 8;
/// Ids per record when leftovers are deleted, so that memory stays bounded.
const DELETE_SLICE: usize = 16_384;
/// What the engine keeps in memory of small commits before it writes a file of it.
const WRITE_BUFFER_BYTES: u64 = 8 << 20;
/// Size of the files of nodes.
const BLOB_FILE_BYTES: u64 = 64 << 20;
/// Part of a file of nodes that is dead before the file is rewritten.
const STALE_PART: f32 = 0.33;

/// A [`NodeStore`] in a folder of the local disk.
///
/// One process at a time may have it open, read-only or not: the engine locks its folder. What is put lies in memory
/// (at most 32 MiB) or in files that do not count yet, until [`commit`](NodeStore::commit).
///
/// After an error of a write the store refuses every further write with that first error: what reached the disk is
/// not known any more, and another flush would not say.
///
/// ```
/// use duramen_store::nodes::FjallNodeStore;
/// use duramen_tree::NodeStore;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("nodes");
/// let store = FjallNodeStore::open(&path, false)?;
/// store.put(&[(1, b"a leaf".to_vec()), (2, b"a root".to_vec())])?;
/// store.commit(b"the root is 2", &[])?;
/// drop(store);
///
/// let store = FjallNodeStore::open(&path, true)?;
/// assert_eq!(store.get(2)?, Some(b"a root".to_vec()));
/// assert_eq!(store.manifest()?, Some(b"the root is 2".to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FjallNodeStore {
    // The order of the fields is the order in which they are dropped: the threads, the engine, its journal.
    reclaimer: Option<Reclaimer>,
    nodes: Keyspace,
    meta: Keyspace,
    /// What was put and not yet handed to the engine. Readers look here first.
    pending: RwLock<BTreeMap<NodeId, UserValue>>,
    writer: Mutex<Writer>,
    db: Database,
    journal: JournalTrim,
    path: PathBuf,
    read_only: bool,
    was_torn: bool,
}

/// What only one writer at a time may touch.
#[derive(Default)]
struct Writer {
    pending_bytes: usize,
    /// Deletes since the reclaimer was last woken.
    deletes: usize,
    /// The first error of a write.
    failed: Option<NodeStoreError>,
}

impl FjallNodeStore {
    /// Opens the node store in the folder `path`, and makes it if it is not there and `read_only` is false.
    ///
    /// A read-only store refuses `put`, `commit` and `delete_from`, and starts no background work. The engine itself
    /// has no read-only mode: it takes its lock file, cuts the unused end off its journal, and removes files that
    /// no version of it refers to. The folder must therefore be writable.
    ///
    /// # Errors
    /// [`NodeStoreError::Io`] with kind `WouldBlock` when another process (or another handle) has it open, `NotFound`
    /// when it is to be read only and is not there, else what the file system said; [`NodeStoreError::Damaged`] when
    /// the folder holds something else or its files are not whole.
    pub fn open(path: &Path, read_only: bool) -> Result<Self, NodeStoreError> {
        if !path.join(MARKER).try_exists()? {
            if read_only {
                let text = format!("there is no node store in {}", path.display());
                return Err(IoError::new(ErrorKind::NotFound, text).into());
            }
            create(path)?;
        }
        let was_torn = cut_torn_journal(path)?;
        let (db, nodes, meta) = open_database(path, read_only)?;
        let reclaimer = (!read_only).then(|| Reclaimer::start(db.clone(), nodes.clone())).transpose()?;
        Ok(Self {
            reclaimer,
            nodes,
            meta,
            pending: RwLock::default(),
            writer: Mutex::default(),
            db,
            journal: JournalTrim::new(path),
            path: path.to_path_buf(),
            read_only,
            was_torn,
        })
    }

    /// Whether a batch that a power cut tore was cut off when the store was opened. What was committed is there; who
    /// wants to be sure that no disk lied looks for every node.
    pub fn was_torn(&self) -> bool {
        self.was_torn
    }

    /// Runs one write under the writer's lock, and remembers its error for all that come after it.
    fn write<T>(
        &self,
        action: &str,
        step: impl FnOnce(&mut Writer) -> Result<T, NodeStoreError>,
    ) -> Result<T, NodeStoreError> {
        if self.read_only {
            let text = format!("{action}: the node store in {} was opened read-only", self.path.display());
            return Err(IoError::new(ErrorKind::ReadOnlyFilesystem, text).into());
        }
        let mut writer = self.writer.lock();
        if let Some(error) = &writer.failed {
            return Err(error.clone());
        }
        step(&mut writer).inspect_err(|error| writer.failed = Some(error.clone()))
    }

    /// Hands what is pending, and `more` behind it, to the engine as sorted files. They are durable when it returns.
    fn ingest(&self, writer: &mut Writer, more: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        // Values are shared, not copied. They stay readable as pending until the engine has them.
        let pending = self.pending.read().clone();
        let mut ingestion = self.nodes.start_ingestion().map_err(|error| self.failure(error))?;
        for (id, node) in pending {
            ingestion.write(id.to_be_bytes(), node).map_err(|error| self.failure(error))?;
        }
        for (id, node) in more {
            ingestion.write(id.to_be_bytes(), node.as_slice()).map_err(|error| self.failure(error))?;
        }
        ingestion.finish().map_err(|error| self.failure(error))?;
        self.forget_pending(writer);
        Ok(())
    }

    /// Lets go of what is pending, once the engine has it.
    fn forget_pending(&self, writer: &mut Writer) {
        let pending = std::mem::take(&mut *self.pending.write());
        writer.pending_bytes = 0;
        // Memory is given back after the lock, for the sake of the readers.
        drop(pending);
    }

    fn failure(&self, error: fjall::Error) -> NodeStoreError {
        convert(&self.path, error)
    }
}

impl NodeStore for FjallNodeStore {
    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        // Pending first: an ingestion takes nodes out of it only once the engine has them.
        if let Some(node) = self.pending.read().get(&id) {
            return Ok(Some(node.to_vec()));
        }
        let node = self.nodes.get(id.to_be_bytes()).map_err(|error| self.failure(error))?;
        Ok(node.map(|node| node.to_vec()))
    }

    fn put(&self, nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        self.write("put", |writer| {
            let Some((first, _)) = nodes.first() else { return Ok(()) };
            let last = self.pending.read().last_key_value().map(|(id, _)| *id);
            if nodes.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
                let text = format!("put of nodes from {first} on: they must come in the order of their ids");
                return Err(IoError::new(ErrorKind::InvalidInput, text).into());
            }
            let bytes: usize = nodes.iter().map(|(_, node)| node.len()).sum();
            let full = writer.pending_bytes + bytes >= PENDING_BYTES;
            if full && last.is_none_or(|last| last < *first) {
                return self.ingest(writer, nodes);
            }
            // Copied before the lock is taken: readers do not wait for it.
            let copies: Vec<_> =
                nodes.iter().map(|(id, node)| (*id, UserValue::from(node.as_slice()))).collect();
            self.pending.write().extend(copies);
            writer.pending_bytes += bytes;
            if full {
                self.ingest(writer, &[])?;
            }
            Ok(())
        })
    }

    fn commit(&self, manifest: &[u8], deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        self.write("commit", |writer| {
            if writer.pending_bytes >= INGEST_BYTES {
                self.ingest(writer, &[])?;
            }
            let pending = self.pending.read().clone();
            // A set, because one record must not name a key twice.
            let mut deleted: BTreeSet<NodeId> = deleted.iter().copied().collect();
            let mut batch = self.db.batch().durability(Some(PersistMode::SyncAll));
            for (id, node) in pending {
                if !deleted.remove(&id) {
                    batch.insert(&self.nodes, id.to_be_bytes(), node);
                }
            }
            for id in &deleted {
                batch.remove(&self.nodes, id.to_be_bytes());
            }
            batch.insert(&self.meta, MANIFEST_KEY, manifest);
            batch.commit().map_err(|error| self.failure(error))?;
            self.forget_pending(writer);
            writer.deletes += deleted.len();
            if writer.deletes >= RECLAIM_DELETES.max(self.nodes.approximate_len() / RECLAIM_PART) {
                self.reclaimer.iter().for_each(Reclaimer::wake);
                writer.deletes = 0;
            }
            Ok(())
        })
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        let manifest = self.meta.get(MANIFEST_KEY).map_err(|error| self.failure(error))?;
        Ok(manifest.map(|manifest| manifest.to_vec()))
    }

    fn delete_from(&self, first: NodeId) -> Result<u64, NodeStoreError> {
        self.write("delete_from", |writer| {
            let waiting = self.pending.write().split_off(&first);
            writer.pending_bytes -= waiting.values().map(|node| node.len()).sum::<usize>();
            let mut count = waiting.len() as u64;
            let mut batch = self.db.batch();
            for entry in self.nodes.range(first.to_be_bytes()..) {
                batch.remove(&self.nodes, entry.key().map_err(|error| self.failure(error))?);
                count += 1;
                writer.deletes += 1;
                if batch.len() == DELETE_SLICE {
                    std::mem::replace(&mut batch, self.db.batch())
                        .commit()
                        .map_err(|error| self.failure(error))?;
                }
            }
            batch.commit().map_err(|error| self.failure(error))?;
            if count > 0 {
                // Flushed, so that the batch of a commit is the only one that a power cut can tear.
                self.db.persist(PersistMode::SyncAll).map_err(|error| self.failure(error))?;
            }
            Ok(count)
        })
    }

    fn stats(&self) -> NodeStoreStats {
        NodeStoreStats { bytes: disk_bytes(&self.path) }
    }
}

impl Drop for FjallNodeStore {
    fn drop(&mut self) {
        self.reclaimer = None;
        if !self.read_only && self.writer.lock().failed.is_none() {
            self.journal.prepare([&self.nodes, &self.meta]);
        }
    }
}

/// Cuts a torn batch off the end of the engine's journal, and returns whether there was one.
fn cut_torn_journal(path: &Path) -> Result<bool, NodeStoreError> {
    let cut = torn::cut(path)?.map_err(|damage| {
        let torn::Damage { journal, at, reason } = damage;
        NodeStoreError::Damaged(format!("{} at byte {at}: {reason}", journal.display()))
    })?;
    if cut > 0 {
        log::info!("a commit of nodes had not come to its end; {cut} bytes are cut off the journal");
    }
    Ok(cut > 0)
}

/// Makes the store beside its place and moves it there whole: the engine cannot open a folder that it was killed in
/// the middle of making.
fn create(path: &Path) -> Result<(), NodeStoreError> {
    let occupied = path.try_exists()? && std::fs::read_dir(path)?.next().is_some();
    if occupied {
        return Err(NodeStoreError::Damaged(format!(
            "{} is not empty and lacks the file '{MARKER}' of a node store",
            path.display()
        )));
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let draft = path.with_file_name(name);
    if draft.try_exists()? {
        std::fs::remove_dir_all(&draft)?;
    }
    {
        let failure = |error| convert(&draft, error);
        let db = configure(&draft).open().map_err(failure)?;
        db.keyspace(META, meta_options).map_err(failure)?;
        db.keyspace(NODES, node_options).map_err(failure)?;
        db.persist(PersistMode::SyncAll).map_err(failure)?;
    }
    // The engine leaves it to the file system to keep the names of what it made.
    sync_all(&draft)?;
    std::fs::rename(&draft, path)?;
    if let Some(parent) = std::path::absolute(path)?.parent() {
        std::fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Makes a folder durable with all that is in it.
fn sync_all(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_all(&entry.path())?;
        } else {
            std::fs::File::open(entry.path())?.sync_all()?;
        }
    }
    std::fs::File::open(folder)?.sync_all()
}

fn open_database(path: &Path, read_only: bool) -> Result<(Database, Keyspace, Keyspace), NodeStoreError> {
    let mut builder = configure(path);
    if read_only {
        // Without a worker nothing is flushed, merged or rewritten.
        builder = builder.worker_threads_unchecked(0);
    }
    let db = builder.open().map_err(|error| convert(path, error))?;
    for name in [NODES, META] {
        if !db.keyspace_exists(name) {
            return Err(NodeStoreError::Damaged(format!("{} lacks the keyspace '{name}'", path.display())));
        }
    }
    let nodes = db.keyspace(NODES, KeyspaceCreateOptions::default).map_err(|error| convert(path, error))?;
    let meta = db.keyspace(META, KeyspaceCreateOptions::default).map_err(|error| convert(path, error))?;
    Ok((db, nodes, meta))
}

fn configure(path: &Path) -> fjall::DatabaseBuilder<Database> {
    // One worker: with two, the engine keeps one for flushes alone, and while the other merges it spins on the queue.
    Database::builder(path).cache_size(CACHE_BYTES).worker_threads(1).max_cached_files(Some(256))
}

fn node_options() -> KeyspaceCreateOptions {
    let separation = KvSeparationOptions::default()
        .compression(CompressionType::None)
        .separation_threshold(512)
        .file_target_size(BLOB_FILE_BYTES)
        .staleness_threshold(STALE_PART)
        // All files that are that far dead are rewritten, not only the oldest of them.
        .age_cutoff(1.0);
    KeyspaceCreateOptions::default()
        .max_memtable_size(WRITE_BUFFER_BYTES)
        .data_block_compression_policy(CompressionPolicy::disabled())
        .with_kv_separation(Some(separation))
        // A node is read because a pointer to it was found, so filters would say yes.
        .expect_point_read_hits(true)
}

fn meta_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(WRITE_BUFFER_BYTES)
        .data_block_compression_policy(CompressionPolicy::disabled())
}

/// Disk space of a folder. Blocks are counted and not lengths, because the engine makes its journal long and sparse.
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    // Files come and go while the engine merges; what cannot be read is not counted.
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

fn convert(path: &Path, error: fjall::Error) -> NodeStoreError {
    let damaged = |what: String| NodeStoreError::Damaged(format!("{}: {what}", path.display()));
    let io = |kind, what: String| IoError::new(kind, format!("{}: {what}", path.display())).into();
    match error {
        fjall::Error::Locked => {
            io(ErrorKind::WouldBlock, "another process has the node store open".to_string())
        }
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => match error.kind() {
            // Files of the engine that end early, are gone, or hold nonsense: the disk did as it was asked.
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::NotFound => {
                damaged(error.to_string())
            }
            kind => io(kind, error.to_string()),
        },
        fjall::Error::Poisoned => io(ErrorKind::Other, "an earlier write of the engine failed".to_string()),
        fjall::Error::KeyspaceDeleted => damaged("a keyspace was deleted".to_string()),
        other => damaged(other.to_string()),
    }
}
