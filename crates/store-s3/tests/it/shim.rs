//! A store that is opened by the name of a folder, and is in a bucket.
#![allow(missing_docs, reason = "what is here is documented in the store")]

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use duramen_store_s3::{exists, follow, open, Cache, RemoteError, RemoteOptions};
use real::log::LogDirectory;
use real::{Durability, Moment, Options, Part, StoreError, Watch};

/// A store in a bucket.
#[derive(Clone, Debug)]
pub struct Store(real::Store);

/// A follower of one.
#[derive(Debug)]
pub struct Follower(Arc<real::Follower>);

/// With `DURAMEN_TEST_LOG`, what the libraries say is printed.
struct Printer;

impl log::Log for Printer {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Debug
    }

    fn log(&self, record: &log::Record<'_>) {
        let at = duramen_base::clock::unix_ms() % 1_000_000;
        eprintln!("{at} {} {}: {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

fn print_log() {
    if std::env::var_os("DURAMEN_TEST_LOG").is_some() && log::set_logger(&Printer).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
}

/// Where a folder would be in the bucket.
pub(crate) fn url_of(path: &Path) -> String {
    print_log();
    let path = path.to_str().unwrap().trim_start_matches('/');
    let bucket = std::env::var("DURAMEN_TEST_BUCKET").unwrap_or_else(|_| "memory".to_owned());
    match bucket.as_str() {
        "memory" => format!("memory:///{path}"),
        "file" => format!("file:///{path}/bucket"),
        bucket => format!("{bucket}/{path}"),
    }
}

/// Tests make as many checkpoints in a second as others in an hour.
fn remote() -> RemoteOptions {
    RemoteOptions { merge_every: Duration::from_millis(50), ..RemoteOptions::default() }
}

fn told(error: RemoteError) -> StoreError {
    match error {
        RemoteError::Store(error) => error,
        RemoteError::Fenced { by } => StoreError::Fenced { by },
        error => StoreError::Damaged(error.to_string()),
    }
}

impl Store {
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        // At the level below, no operating system keeps a commit of a killed process, or shows it to a reader.
        let durability = match options.durability {
            Durability::Buffered => Durability::Strict,
            level => level,
        };
        open(&url_of(path.as_ref()), Options { durability, ..options }, remote()).map(Self).map_err(told)
    }

    /// A store that nobody else opens. In a bucket in memory it is in that.
    pub fn memory() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = format!("memory:///fresh/{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self(open(&path, Options::default(), remote()).unwrap())
    }

    pub fn open_parts(
        nodes: Arc<dyn duramen_tree::NodeStore>,
        log: Arc<dyn LogDirectory>,
        options: Options,
    ) -> Result<Self, StoreError> {
        real::Store::open_parts(nodes, log, options).map(Self)
    }

    /// Of a bucket, that is a matter of the bucket.
    pub fn backup(
        _path: impl AsRef<Path>,
        _to: impl AsRef<Path>,
        _since: Option<&Path>,
        _progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        Err(StoreError::InvalidInput { what: "a backup", reason: "it is for a store in a folder".to_owned() })
    }

    pub fn sync(&self) -> Result<(), StoreError> {
        self.0.sync()
    }

    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.0.checkpoint()
    }

    pub fn compact(&self) -> Result<(), StoreError> {
        self.0.compact()
    }

    pub fn close(&self) -> Result<(), StoreError> {
        self.0.close()
    }

    pub fn is_in(path: impl AsRef<Path>) -> Result<bool, StoreError> {
        exists(&url_of(path.as_ref()), &remote()).map_err(told)
    }
}

impl Deref for Store {
    type Target = real::Store;

    fn deref(&self) -> &real::Store {
        &self.0
    }
}

impl Follower {
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        follow(&url_of(path.as_ref()), options, remote())
            .map(|follower| Self(Arc::new(follower)))
            .map_err(told)
    }

    pub fn store(&self) -> Result<Store, StoreError> {
        self.0.store().map(Store)
    }

    pub fn watch(&self, branch: &str, part: Part, from: Option<&Moment>) -> Result<Watch, StoreError> {
        self.0.watch(branch, part, from)
    }

    pub fn wait(&self, version: u64, timeout: Duration) -> Result<Option<Store>, StoreError> {
        Ok(self.0.wait(version, timeout)?.map(Store))
    }
}

impl Deref for Follower {
    type Target = real::Follower;

    fn deref(&self) -> &real::Follower {
        &self.0
    }
}

#[test]
fn a_cache_on_disk_changes_nothing_and_keeps_its_budget() {
    use real::Scope as _;
    let folder = tempfile::tempdir().unwrap();
    let url = url_of(&folder.path().join("cached"));
    let cache = folder.path().join("cache");
    let budget = 4 << 20;
    let remote = || RemoteOptions {
        cache: Some(Cache { folder: cache.clone(), bytes: budget }),
        block_bytes: 1 << 20,
        ..remote()
    };
    let options = || Options { memory_bytes: 1 << 20, ..Options::default() };
    let store = open(&url, options(), remote()).unwrap();
    let main = store.branch("main").unwrap();
    for round in 0..20 {
        main.kv().put_many((0..500).map(|n| (format!("{round:02} {n:04}"), format!("{n:01000}")))).unwrap();
        store.checkpoint().unwrap();
    }
    store.close().unwrap();
    drop((main, store));
    let store = open(&url, Options { read_only: true, ..options() }, remote()).unwrap();
    let main = store.branch("main").unwrap();
    for round in 0..20 {
        for n in (0..500).step_by(7) {
            let found = main.kv().get(format!("{round:02} {n:04}")).unwrap();
            assert_eq!(found, Some(format!("{n:01000}").into()));
        }
    }
    drop((main, store));
    let bytes = bytes_of(&cache);
    assert!(bytes > 0, "nothing was cached");
    // What is being written is counted when it is there.
    assert!(bytes <= budget + (2 << 20), "{bytes}");
}

/// Bytes of all files in a folder.
fn bytes_of(path: &Path) -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        bytes += if metadata.is_dir() { bytes_of(&entry.path()) } else { metadata.len() };
    }
    bytes
}
