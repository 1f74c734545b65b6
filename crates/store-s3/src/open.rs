//! Opening a store in object storage: to write, to read, to follow.

use std::any::Any;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duramen_store::{Follower, Ground, Options, Source, Store, StoreError};
use object_store::path::Path as Key;
use object_store::ObjectStore;

use crate::address::{parse, Address};
use crate::bucket::Bucket;
use crate::bucket_log::{self, BucketLog, ReaderLog};
use crate::error::RemoteError;
use crate::local_log;
use crate::nodes::{BucketNodes, Database, ReaderNodes, OBJECTS_STAY};
use crate::options::{LogPlace, RemoteOptions, TakeOver};
use crate::owner::{id_of, known_id_of, Owner};
use crate::waiter::Waiter;

/// How long a follower that waits lets pass between two looks at the log in a bucket.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Opens the store at a URL, and makes one if there is none and it is to be written.
///
/// `s3://bucket/path`, `gs://bucket/path`, `az://container/path`, `file:///folder`, and `memory:///name`, which is gone with
/// the process. Credentials, region and endpoint come from the environment, by the names that the tools of the provider use.
///
/// Opened to write, it is taken over from whoever wrote it before, as [`TakeOver`] says: the other one acknowledges nothing
/// any more, and says [`StoreError::Fenced`]. With `read_only`, it is a moment of the store, as in a folder: with all that was
/// acknowledged before at the level `strict`, where its log is in the bucket; else what the last checkpoint holds. It can
/// be read for an hour at least, whatever is written meanwhile.
///
/// ```
/// use duramen_store::{Options, Scope};
/// use duramen_store_s3::{open, RemoteOptions};
/// let store = open("memory:///example", Options::default(), RemoteOptions::default())?;
/// store.branch("main")?.kv().put("greeting", "hello")?;
/// store.close()?;
/// drop(store);
///
/// let store = open("memory:///example", Options::default(), RemoteOptions::default())?;
/// assert_eq!(store.branch("main")?.kv().get("greeting")?, Some("hello".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`RemoteError`].
pub fn open(url: &str, options: Options, remote: RemoteOptions) -> Result<Store, RemoteError> {
    at(&parse(url, remote.request_timeout)?, options, &remote)
}

/// Opens a store in an object store of the caller's own, under a path. `replaces` says whether that can replace an object on
/// the condition that it is the one that was read (If-Match); that it puts one on the condition that there is none
/// (If-None-Match) is needed.
///
/// # Errors
/// As [`open`].
pub fn open_on(
    store: Arc<dyn ObjectStore>,
    replaces: bool,
    path: &str,
    options: Options,
    remote: RemoteOptions,
) -> Result<Store, RemoteError> {
    at(&address_on(store, replaces, path)?, options, &remote)
}

/// Opens the store at a URL to be read on, as another process, on this host or on another, writes it. Each look costs a
/// request or two.
///
/// # Errors
/// As [`open`].
pub fn follow(url: &str, options: Options, remote: RemoteOptions) -> Result<Follower, RemoteError> {
    let address = parse(url, remote.request_timeout)?;
    let waiter = Arc::new(Waiter::new(remote.deadline)?);
    Ok(Follower::open_on(RemoteSource { address, remote, waiter }, options)?)
}

/// As [`follow`], in an object store of the caller's own.
///
/// # Errors
/// As [`open`].
pub fn follow_on(
    store: Arc<dyn ObjectStore>,
    replaces: bool,
    path: &str,
    options: Options,
    remote: RemoteOptions,
) -> Result<Follower, RemoteError> {
    let address = address_on(store, replaces, path)?;
    let waiter = Arc::new(Waiter::new(remote.deadline)?);
    Ok(Follower::open_on(RemoteSource { address, remote, waiter }, options)?)
}

/// Whether there is a store at a URL.
///
/// # Errors
/// When that cannot be found out.
pub fn exists(url: &str, remote: &RemoteOptions) -> Result<bool, RemoteError> {
    let address = parse(url, remote.request_timeout)?;
    let waiter = Arc::new(Waiter::new(remote.deadline)?);
    Ok(Owner::read(&Bucket::new(&address, &waiter, remote))?.is_some())
}

fn address_on(store: Arc<dyn ObjectStore>, replaces: bool, path: &str) -> Result<Address, RemoteError> {
    let prefix = Key::parse(path)
        .map_err(|error| RemoteError::Url { url: path.to_owned(), reason: error.to_string() })?;
    Ok(Address { name: format!("{store}/{path}"), store, prefix, replaces })
}

fn at(address: &Address, options: Options, remote: &RemoteOptions) -> Result<Store, RemoteError> {
    let waiter = Arc::new(Waiter::new(remote.deadline)?);
    if options.read_only || options.checkpoint_only {
        return Ok(Store::open_on(look(address, &waiter, remote)?, options)?);
    }
    let bucket = Bucket::new(address, &waiter, remote);
    let owner = Owner::read(&bucket)?;
    match &remote.log {
        LogPlace::Bucket => with_bucket_log(address, &waiter, &bucket, owner, options, remote),
        LogPlace::Local { folder, gives_up } => {
            let local = (folder.as_path(), *gives_up);
            with_local_log(address, &waiter, &bucket, owner, local, options, remote)
        }
    }
}

/// Which process this is, for messages of others.
fn who() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "an unnamed host" } else { host.trim() };
    format!("process {} on {host}", std::process::id())
}

fn elsewhere(address: &Address, there: &Owner, here: &Owner) -> RemoteError {
    RemoteError::LogElsewhere { url: address.name.clone(), there: there.said(), here: here.said() }
}

fn with_bucket_log(
    address: &Address,
    waiter: &Arc<Waiter>,
    bucket: &Bucket,
    owner: Option<Owner>,
    options: Options,
    remote: &RemoteOptions,
) -> Result<Store, RemoteError> {
    let owner = match owner {
        Some(owner) => owner,
        None => Owner::Bucket.write_new(bucket)?,
    };
    if owner != Owner::Bucket {
        return Err(elsewhere(address, &owner, &Owner::Bucket));
    }
    let log_bucket = bucket.folder(bucket_log::FOLDER);
    if remote.take_over == TakeOver::IfEnded {
        if let Some(by) = bucket_log::last_writer(&log_bucket)? {
            return Err(RemoteError::InUse { url: address.name.clone(), by });
        }
    }
    // The nodes first: what of them is read from here on is what the log is read for (L8).
    let database = Database::open(address, waiter, remote)?;
    let log = BucketLog::claim(log_bucket, who(), database.epoch())?;
    let closing = Closing { log: Some(log.clone()), database: database.clone(), _lock: None };
    // Of two that open at the same time, one may have the nodes and the other claimed the log after it: that one sees it here, and
    // must, because the first passes over its claim (L2).
    database.check().inspect_err(|_| log.abandon())?;
    let nodes = BucketNodes::new(database, Some(log.clone()));
    let ground = Ground::new(Arc::new(nodes), Arc::new(log), address.name.as_str()).guarded_by(closing);
    Ok(Store::open_on(ground, options)?)
}

fn with_local_log(
    address: &Address,
    waiter: &Arc<Waiter>,
    bucket: &Bucket,
    owner: Option<Owner>,
    (path, gives_up): (&Path, bool),
    options: Options,
    remote: &RemoteOptions,
) -> Result<Store, RemoteError> {
    let folder = local_log::Folder::lock(path, &address.name)?;
    let called = format!("{} of {}", path.display(), who()).replace('\n', " ");
    let here = Owner::Local { id: id_of(path)?, called };
    let is_here = |owner: &Owner| match (owner, &here) {
        (Owner::Local { id, .. }, Owner::Local { id: mine, .. }) => id == mine,
        _ => false,
    };
    let is_new = owner.is_none();
    let owner = match owner {
        Some(owner) => owner,
        None => here.clone().write_new(bucket)?,
    };
    let begins = !is_new && gives_up;
    if !is_here(&owner) && !begins {
        return Err(elsewhere(address, &owner, &here));
    }
    let database = Database::open(address, waiter, remote)?;
    let log = Arc::new(folder.log(&database, begins)?);
    let lock = Some(folder.into_lock());
    let closing = Closing { log: None, database: database.clone(), _lock: lock };
    if begins {
        here.write_over(bucket)?;
    }
    let nodes = Arc::new(BucketNodes::new(database, None));
    let ground = Ground::new(nodes, log, address.name.as_str()).guarded_by(closing);
    let ground = if begins { ground.with_lost_log() } else { ground };
    Ok(Store::open_on(ground, options)?)
}

/// What is done when all else of a store is closed.
struct Closing {
    log: Option<BucketLog>,
    database: Database,
    _lock: Option<duramen_base::lock::FileLock>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        // In this order: whoever finds the end of the log opens the nodes.
        self.database.close();
        if let Some(log) = &self.log {
            log.end();
        }
    }
}

/// A moment of a store. The log is read before the nodes are opened, as [`Source`] wants it.
fn look(address: &Address, waiter: &Arc<Waiter>, remote: &RemoteOptions) -> Result<Ground, RemoteError> {
    let bucket = Bucket::new(address, waiter, remote);
    let owner = Owner::read(&bucket)?;
    let Some(owner) = owner else {
        return Err(StoreError::StoreNotFound { path: address.name.as_str().into() }.into());
    };
    let open = || Ok::<_, RemoteError>(Arc::new(ReaderNodes::open(address, waiter, remote)?));
    let name = address.name.as_str();
    if owner == Owner::Bucket {
        let log = ReaderLog::open(bucket.folder(bucket_log::FOLDER))?;
        let nodes = open()?;
        let closing = ReaderClosing { nodes: nodes.clone(), _lock: Box::new(()) };
        return Ok(Ground::new(nodes, Arc::new(log), name).guarded_by(closing));
    }
    if let (Owner::Local { id, .. }, LogPlace::Local { folder, .. }) = (&owner, &remote.log) {
        if known_id_of(folder)?.as_ref() == Some(id) {
            if let Some((log, lock)) = local_log::to_read(folder)? {
                let nodes = open()?;
                let closing = ReaderClosing { nodes: nodes.clone(), _lock: Box::new(lock) };
                return Ok(Ground::new(nodes, Arc::new(log), name).guarded_by(closing));
            }
        }
    }
    log::info!("the log of the store is {}: what is read is its last checkpoint", owner.said());
    let nodes = open()?;
    let closing = ReaderClosing { nodes: nodes.clone(), _lock: Box::new(()) };
    Ok(Ground::without_log(nodes, name).guarded_by(closing))
}

struct ReaderClosing {
    nodes: Arc<ReaderNodes>,
    _lock: Box<dyn Any + Send + Sync>,
}

impl Drop for ReaderClosing {
    fn drop(&mut self) {
        self.nodes.close();
    }
}

/// A store in object storage, looked at again and again.
struct RemoteSource {
    address: Address,
    remote: RemoteOptions,
    waiter: Arc<Waiter>,
}

impl Source for RemoteSource {
    fn look(&self) -> Result<Ground, StoreError> {
        look(&self.address, &self.waiter, &self.remote).map_err(StoreError::from)
    }

    fn pause(&self) -> Duration {
        LOOK_PAUSE
    }

    fn lasts(&self) -> Duration {
        OBJECTS_STAY
    }
}

impl From<RemoteError> for StoreError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Store(error) => error,
            error => duramen_tree::NodeStoreError::from(error).into(),
        }
    }
}
