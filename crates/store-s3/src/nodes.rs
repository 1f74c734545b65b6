//! Nodes and manifest in SlateDB: one database for all branches of a store.
//!
//! SlateDB's own write-ahead log is off: a checkpoint goes into a sorted table at once, which its manifest then names, and
//! that is its commit. The keys are in `docs/design/store-s3.md`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duramen_tree::{NodeId, NodeStore, NodeStoreError, NodeStoreStats};
use object_store::path::Path as Key;
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, DbReaderOptions, FlushOptions, FlushType,
    GarbageCollectorDirectoryOptions, GarbageCollectorOptions, ObjectStoreCacheOptions, Settings,
};
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use slatedb::db_cache::{DbCache, SplitCache};
use slatedb::{Db, DbReader, DbReaderMode, DbStatus, WriteBatch};
use tokio::sync::watch;

use crate::address::Address;
use crate::bucket_log::BucketLog;
use crate::cache::{CacheWatch, PART_BYTES};
use crate::error::{of_slate, RemoteError};
use crate::options::{Cache, RemoteOptions};
use crate::waiter::Waiter;

/// The folder of the nodes in a store's place in the bucket.
pub(crate) const FOLDER: &str = "nodes";

/// Of a key: what it is of.
const NODE: u8 = b'n';
const MANIFEST: &[u8] = b"m";

/// A table that checkpoints write is begun anew at this size, in bytes. Memory for two of them is taken while one is written.
const TABLE_BYTES: usize = 32 << 20;
/// Bytes that were put and are not in the bucket yet, before a checkpoint waits for the bucket.
const UNFLUSHED_BYTES_MAX: usize = 128 << 20;
/// Tables that checkpoints have written, before one waits until some of them are merged.
const TABLES_MAX: usize = 128;
/// How long an object stays that nothing in the database needs any more: so long a reader can rely on what it opened.
pub(crate) const OBJECTS_STAY: Duration = Duration::from_secs(3600);
/// How often objects are looked for that may go.
const COLLECT_EVERY: Duration = Duration::from_secs(600);
/// A reader stays at the moment that it opened, and so looks for no other: as long as one can run.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Of the memory for blocks, the part that is for indexes and filters.
const META_PART: u64 = 4;

fn key_of(id: NodeId) -> [u8; 9] {
    let mut key = [NODE; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn cache_options(cache: Option<&Cache>) -> ObjectStoreCacheOptions {
    match cache {
        None => ObjectStoreCacheOptions::default(),
        Some(cache) => ObjectStoreCacheOptions {
            root_folder: Some(cache.folder.clone()),
            max_cache_size_bytes: Some(usize::try_from(cache.bytes).unwrap_or(usize::MAX)),
            part_size_bytes: PART_BYTES,
            cache_on_flush: true,
            ..ObjectStoreCacheOptions::default()
        },
    }
}

fn block_cache(options: &RemoteOptions) -> Arc<dyn DbCache> {
    let of = |max_capacity: u64| -> Option<Arc<dyn DbCache>> {
        Some(Arc::new(MokaCache::new_with_opts(MokaCacheOptions { max_capacity, ..Default::default() })))
    };
    let meta = options.block_bytes / META_PART;
    Arc::new(
        SplitCache::new().with_block_cache(of(options.block_bytes - meta)).with_meta_cache(of(meta)).build(),
    )
}

fn settings(address: &Address, options: &RemoteOptions, cache: Option<&Cache>) -> Settings {
    let directory = GarbageCollectorDirectoryOptions {
        interval: Some(COLLECT_EVERY),
        min_age: OBJECTS_STAY,
        dry_run: false,
    };
    let worker = CompactionWorkerOptions {
        max_concurrent_compactions: 1,
        compactions_poll_interval: options.merge_every,
        max_subcompactions: 1,
        min_filter_keys: 1,
        ..CompactionWorkerOptions::default()
    };
    Settings {
        flush_interval: None,
        wal_enabled: false,
        manifest_poll_interval: options.look_every,
        manifest_update_timeout: options.deadline,
        min_filter_keys: 1,
        l0_sst_size_bytes: TABLE_BYTES,
        l0_max_ssts: TABLES_MAX,
        l0_max_ssts_per_key: TABLES_MAX,
        max_unflushed_bytes: UNFLUSHED_BYTES_MAX,
        compactor_options: Some(CompactorOptions {
            poll_interval: options.merge_every,
            manifest_update_timeout: options.deadline,
            max_concurrent_compactions: 1,
            commit_compacted_interval: options.merge_every,
            worker: Some(worker),
            object_store_max_retries: Some(options.retries_max),
            ..CompactorOptions::default()
        }),
        object_store_cache_options: cache_options(cache),
        garbage_collector_options: Some(GarbageCollectorOptions {
            manifest_options: Some(directory),
            wal_options: None,
            wal_fence_options: None,
            compacted_options: Some(directory),
            compactions_options: Some(directory),
            detach_options: None,
            boundary_files_enabled: address.replaces,
            object_store_max_retries: Some(options.retries_max),
            ..GarbageCollectorOptions::default()
        }),
        object_store_max_retries: Some(options.retries_max),
        ..Settings::default()
    }
}

fn place(address: &Address) -> Key {
    address.prefix.clone().join(FOLDER)
}

/// A database that is open for writing: whoever wrote it before is fenced.
#[derive(Clone)]
pub(crate) struct Database {
    db: Db,
    epoch: u64,
    status: watch::Receiver<DbStatus>,
    cache: Arc<CacheWatch>,
    waiter: Arc<Waiter>,
}

impl Database {
    pub(crate) fn open(
        address: &Address,
        waiter: &Arc<Waiter>,
        options: &RemoteOptions,
    ) -> Result<Self, RemoteError> {
        let what = "open the nodes";
        let (cache, watch) = CacheWatch::begin(options.cache.as_ref());
        let builder = Db::builder(place(address), address.store.clone())
            .with_settings(settings(address, options, cache.as_ref()))
            .with_db_cache(block_cache(options), 0);
        let db = waiter
            .wait(what, async move { builder.build().await.map_err(|error| of_slate(what, &error)) })?;
        let (status, epoch) = (db.subscribe(), db.manifest().writer_epoch());
        Ok(Self { status, epoch, db, cache: Arc::new(watch), waiter: waiter.clone() })
    }

    /// Which opening this is: each has a higher one than those before.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn run<T, F, R>(&self, what: &'static str, work: F) -> Result<T, RemoteError>
    where
        T: Send + 'static,
        F: FnOnce(Db) -> R,
        R: Future<Output = Result<T, slatedb::Error>> + Send + 'static,
    {
        let work = work(self.db.clone());
        self.waiter.wait(what, async move { work.await.map_err(|error| of_slate(what, &error)) })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, RemoteError> {
        let key = key.to_vec();
        self.cache.look();
        self.run("read a node", |db| async move { db.get(key).await })
    }

    /// Writes a batch, durably, with all that was written before.
    fn write_durably(&self, batch: WriteBatch) -> Result<(), RemoteError> {
        self.cache.look();
        self.run("store a checkpoint", |db| async move {
            db.write(batch).await?;
            db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await
        })
    }

    /// Whether nobody has taken it over: one look at the bucket.
    pub(crate) fn check(&self) -> Result<(), RemoteError> {
        self.run("look who writes", |db| async move { db.refresh_manifest().await })?;
        self.check_known()
    }

    /// Whether nobody is known to have taken it over.
    pub(crate) fn check_known(&self) -> Result<(), RemoteError> {
        match self.status.borrow().close_reason {
            None => Ok(()),
            Some(slatedb::CloseReason::Fenced) => {
                Err(RemoteError::Fenced { by: "one that opened its nodes later".to_owned() })
            }
            Some(reason) => Err(RemoteError::Failed { what: "use the nodes", said: format!("{reason:?}") }),
        }
    }

    pub(crate) fn close(&self) {
        if let Err(error) = self.run("close the nodes", |db| async move { db.close().await }) {
            log::debug!("the nodes in the bucket were not closed: {error}");
        }
    }
}

/// The nodes of a store that is written.
pub(crate) struct BucketNodes {
    database: Database,
    /// The log, if it is in the bucket: it owes a proof after each checkpoint.
    log: Option<BucketLog>,
}

impl BucketNodes {
    pub(crate) fn new(database: Database, log: Option<BucketLog>) -> Self {
        Self { database, log }
    }
}

impl NodeStore for BucketNodes {
    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(self.database.get(&key_of(id))?.map(|bytes| bytes.to_vec()))
    }

    fn put(&self, nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        let mut batch = WriteBatch::new();
        for (id, bytes) in nodes {
            batch.put(key_of(*id), bytes);
        }
        self.database.run("put nodes", |db| async move { db.write(batch).await.map(drop) })?;
        Ok(())
    }

    fn commit(&self, manifest: &[u8], deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        let mut batch = WriteBatch::new();
        for id in deleted {
            batch.delete(key_of(*id));
        }
        batch.put(MANIFEST, manifest);
        // Before the commit: whatever becomes of it, nothing of the log goes without a proof.
        if let Some(log) = &self.log {
            log.owe_proof();
        }
        Ok(self.database.write_durably(batch)?)
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(self.database.get(MANIFEST)?.map(|bytes| bytes.to_vec()))
    }

    fn delete_from(&self, first: NodeId) -> Result<u64, NodeStoreError> {
        let deleted = self.database.run("delete nodes", move |db| async move {
            // The manifest is the last thing that a commit writes: if nothing was written after it, there is nothing to look for.
            let last = db.get_key_value(MANIFEST).await?;
            if last.is_some_and(|manifest| manifest.seq == db.manifest().last_l0_seq()) {
                return Ok(0);
            }
            let mut found = db.scan(key_of(first).to_vec()..=key_of(NodeId::MAX).to_vec()).await?;
            let mut batch = WriteBatch::new();
            let mut count = 0;
            while let Some(entry) = found.next().await? {
                batch.delete(&entry.key);
                count += 1;
            }
            if count > 0 {
                db.write(batch).await?;
            }
            Ok(count)
        })?;
        Ok(deleted)
    }

    /// A look at each node would be a request for each block of a table.
    fn tells_sizes(&self) -> bool {
        false
    }

    fn stats(&self) -> NodeStoreStats {
        NodeStoreStats { bytes: size_of(&self.database.db.manifest()) }
    }
}

/// Bytes of the tables that a database has: about, where tables are shared in part.
fn size_of(manifest: &slatedb::VersionedManifest) -> u64 {
    manifest.all_sst_views().map(|view| view.estimate_size()).sum()
}

/// The nodes of a store that is only read, as they were when it was opened.
pub(crate) struct ReaderNodes {
    reader: Arc<DbReader>,
    cache: CacheWatch,
    waiter: Arc<Waiter>,
}

impl ReaderNodes {
    /// Opens the nodes without writing anything.
    ///
    /// # Errors
    /// [`RemoteError`], including when the bucket does not hold a store.
    pub(crate) fn open(
        address: &Address,
        waiter: &Arc<Waiter>,
        options: &RemoteOptions,
    ) -> Result<Self, RemoteError> {
        let what = "open the nodes";
        let (cache, watch) = CacheWatch::begin(options.cache.as_ref());
        let reader_options = DbReaderOptions {
            manifest_poll_interval: NEVER,
            checkpoint_lifetime: NEVER * 3,
            skip_wal_replay: true,
            object_store_cache_options: cache_options(cache.as_ref()),
            object_store_max_retries: Some(options.retries_max),
            ..DbReaderOptions::default()
        };
        let builder = DbReader::builder(place(address), address.store.clone())
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_options(reader_options)
            .with_db_cache(block_cache(options), 0);
        let reader = waiter
            .wait(what, async move { builder.build().await.map_err(|error| of_slate(what, &error)) })?;
        Ok(Self { reader: Arc::new(reader), cache: watch, waiter: waiter.clone() })
    }

    fn read(&self, key: &[u8]) -> Result<Option<Bytes>, RemoteError> {
        let (reader, key) = (self.reader.clone(), key.to_vec());
        let what = "read a node";
        self.cache.look();
        self.waiter.wait(what, async move { reader.get(key).await.map_err(|error| of_slate(what, &error)) })
    }

    pub(crate) fn close(&self) {
        let (reader, what) = (self.reader.clone(), "close the nodes");
        let closed = self
            .waiter
            .wait(what, async move { reader.close().await.map_err(|error| of_slate(what, &error)) });
        if let Err(error) = closed {
            log::debug!("the nodes in the bucket were not closed: {error}");
        }
    }
}

fn read_only() -> NodeStoreError {
    std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem).into()
}

impl NodeStore for ReaderNodes {
    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(self.read(&key_of(id))?.map(|bytes| bytes.to_vec()))
    }

    fn put(&self, _nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        Err(read_only())
    }

    fn commit(&self, _manifest: &[u8], _deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        Err(read_only())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(self.read(MANIFEST)?.map(|bytes| bytes.to_vec()))
    }

    fn delete_from(&self, _first: NodeId) -> Result<u64, NodeStoreError> {
        Err(read_only())
    }

    /// As of those that are written.
    fn tells_sizes(&self) -> bool {
        false
    }

    fn stats(&self) -> NodeStoreStats {
        NodeStoreStats { bytes: size_of(&self.reader.manifest()) }
    }
}
