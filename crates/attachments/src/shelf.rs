//! What is open of what is attached: so many at a time, closed when nobody has looked for a while, and opened anew when the file is another.

use crate::{
    error::ReadError,
    graph::Graph,
    limits::{LOG_BYTES_MAX, OPEN_BYTES, OPEN_MAX, STORE_BYTES, UNUSED},
    pack::OpenBranch,
};
use duramen_api::attachments::{pack::PackView, AttachmentKind};
use duramen_base::{clock, file::open_regular};
use duramen_pack::container::{Kind, Pack};
use duramen_store::{Follower, Options, Store, StoreError};
use jiff::Timestamp;
use std::{
    fs::{self, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// With what a `.c1z` file begins.
const C1Z: [u8; 3] = *b"C1Z";
/// Where the nodes and the log of a store lie: if one of them is another, so is the store.
const PARTS: [&str; 2] = ["nodes", "log"];

/// Attachments that are open.
#[derive(Debug, Default)]
pub struct Shelf {
    held: Mutex<Vec<Held>>,
    /// One is opened at a time: each may take as much memory as it may.
    opening: Mutex<()>,
}

#[derive(Debug)]
struct Held {
    at: String,
    identity: Identity,
    content: Content,
    bytes: u64,
    used: Instant,
}

/// Something that is open.
#[derive(Debug, Clone)]
enum Content {
    Store(Arc<Follower>),
    Branch(Arc<OpenBranch>),
    Graph(Arc<Graph>),
}

/// By what it is known that a file is still the same: of a store, its directory and what lies in it; else the file, with its times.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity(Vec<[i128; 5]>);

impl Identity {
    fn of(kind: AttachmentKind, path: &Path) -> io::Result<Identity> {
        let whose = |found: &Metadata| [found.dev().into(), found.ino().into(), 0, 0, 0];
        let found = fs::metadata(path)?;
        if kind != AttachmentKind::Store {
            let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
            let times = [ns(found.mtime(), found.mtime_nsec()), ns(found.ctime(), found.ctime_nsec())];
            let [dev, ino, ..] = whose(&found);
            return Ok(Identity(vec![[dev, ino, found.len().into(), times[0], times[1]]]));
        }
        let parts = PARTS.iter().filter_map(|part| fs::metadata(path.join(part)).ok());
        Ok(Identity(std::iter::once(found).chain(parts).map(|found| whose(&found)).collect()))
    }
}

impl Shelf {
    /// One with nothing on it.
    #[must_use]
    pub fn new() -> Shelf {
        Shelf::default()
    }

    /// The store at a place, or the branch of a pack as one: as it is now.
    ///
    /// # Errors
    /// [`ReadError::Gone`] when it is not there, [`ReadError::Store`] and [`ReadError::Branch`] when it is damaged or none,
    /// [`ReadError::OtherContent`] when the pack holds something else, [`ReadError::TooLarge`].
    ///
    /// # Examples
    /// ```
    /// use duramen_api::attachments::AttachmentKind;
    /// use duramen_attachments::shelf::Shelf;
    /// use duramen_store::{Options, Scope, Store};
    /// # let dir = tempfile::tempdir()?;
    /// let writer = Store::open(dir.path(), Options::default())?;
    /// let shelf = Shelf::new();
    /// let at = dir.path().to_str().unwrap();
    /// writer.branch("main")?.kv().put("a", 1)?;
    /// assert!(shelf.store(AttachmentKind::Store, at)?.branch("main")?.kv().exists("a")?);
    /// assert_eq!(shelf.open(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(&self, kind: AttachmentKind, at: &str) -> Result<Store, ReadError> {
        match self.content(kind, at)? {
            Content::Store(follower) => {
                check_log(at)?;
                // One that cannot go on is opened anew by whoever comes next.
                follower.store().map_err(|error| {
                    self.close(at);
                    error.into()
                })
            }
            Content::Branch(branch) => Ok(branch.store().clone()),
            Content::Graph(_) => Err(ReadError::OtherContent {
                at: at.to_owned(),
                found: "an access graph",
                wanted: "a store",
            }),
        }
    }

    /// The access graph in a pack or a `.c1z` file.
    ///
    /// # Errors
    /// As [`store`](Self::store), and [`ReadError::Graph`] when it is damaged or none.
    pub fn graph(&self, at: &str) -> Result<Arc<Graph>, ReadError> {
        match self.content(AttachmentKind::Pack, at)? {
            Content::Graph(graph) => Ok(graph),
            Content::Store(_) | Content::Branch(_) => Err(ReadError::OtherContent {
                at: at.to_owned(),
                found: "a branch of a store",
                wanted: "an access graph",
            }),
        }
    }

    /// What a pack or a `.c1z` file holds.
    ///
    /// # Errors
    /// As [`graph`](Self::graph).
    pub fn pack(&self, at: &str) -> Result<PackView, ReadError> {
        let content = self.content(AttachmentKind::Pack, at)?;
        let found = fs::metadata(at).map_err(gone(at))?;
        let nanos = i32::try_from(found.mtime_nsec()).unwrap_or_default();
        let changed_at = Timestamp::new(found.mtime(), nanos).unwrap_or_default();
        let (mut branch, mut graph) = (None, None);
        match content {
            Content::Branch(open) => branch = Some(open.view().clone()),
            Content::Graph(open) => graph = Some(open.view().clone()),
            Content::Store(_) => {}
        }
        Ok(PackView { file_bytes: found.len(), changed_at, branch, graph })
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.lock().len()
    }

    /// Closes those at which nobody looked for a minute, and says whether one is left.
    pub fn close_unused(&self) -> bool {
        self.close_older(clock::now(), UNUSED)
    }

    pub(crate) fn close_older(&self, now: Instant, age: std::time::Duration) -> bool {
        let mut held = self.lock();
        let old: Vec<Held> =
            held.extract_if(.., |held| now.saturating_duration_since(held.used) >= age).collect();
        let is_left = !held.is_empty();
        drop(held);
        // It may take a while.
        drop(old);
        is_left
    }

    /// Closes one.
    fn close(&self, at: &str) {
        let gone: Vec<Held> = self.lock().extract_if(.., |held| held.at == at).collect();
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is open of a place, if it is still the same.
    fn find(&self, at: &str, identity: &Identity) -> Option<Content> {
        let mut all = self.lock();
        let held = all.iter_mut().find(|held| held.at == at && held.identity == *identity)?;
        held.used = clock::now();
        Some(held.content.clone())
    }

    fn content(&self, kind: AttachmentKind, at: &str) -> Result<Content, ReadError> {
        let path = Path::new(at);
        let identity = Identity::of(kind, path).map_err(gone(at))?;
        if let Some(content) = self.find(at, &identity) {
            return Ok(content);
        }
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have opened it meanwhile.
        if let Some(content) = self.find(at, &identity) {
            return Ok(content);
        }
        self.close(at);
        self.make_room(OPEN_MAX - 1, u64::MAX);
        let (content, bytes) = open(kind, at)?;
        self.make_room(OPEN_MAX - 1, OPEN_BYTES.saturating_sub(bytes));
        self.lock().push(Held {
            at: at.to_owned(),
            identity,
            content: content.clone(),
            bytes,
            used: clock::now(),
        });
        Ok(content)
    }

    /// Closes those that were looked at least lately, until there are so many and they take so much.
    fn make_room(&self, most: usize, bytes: u64) {
        loop {
            let mut held = self.lock();
            let is_enough = held.len() <= most && held.iter().map(|held| held.bytes).sum::<u64>() <= bytes;
            let oldest = held.iter().enumerate().min_by_key(|(_, held)| held.used).map(|(place, _)| place);
            let Some(oldest) = oldest.filter(|_| !is_enough) else { return };
            let closed = held.swap_remove(oldest);
            drop(held);
            drop(closed);
        }
    }
}

fn gone(at: &str) -> impl FnOnce(io::Error) -> ReadError {
    let at = at.to_owned();
    move |source| ReadError::Gone { at, source }
}

/// Opens what is at a place, and says about how much memory it takes.
fn open(kind: AttachmentKind, at: &str) -> Result<(Content, u64), ReadError> {
    let path = Path::new(at);
    if kind == AttachmentKind::Store {
        if !Store::is_in(path)? {
            return Err(StoreError::StoreNotFound { path: path.to_owned() }.into());
        }
        let log = check_log(at)?;
        let options = Options { read_only: true, memory_bytes: STORE_BYTES, ..Options::default() };
        let follower = Follower::open(path, options)?;
        return Ok((Content::Store(Arc::new(follower)), STORE_BYTES as u64 + log));
    }
    let mut head = Vec::new();
    open_regular(path).and_then(|file| file.take(4).read_to_end(&mut head)).map_err(gone(at))?;
    let kind = match head.starts_with(&C1Z) {
        true => Kind::Graph,
        false => Pack::open(path)?.kind(),
    };
    match kind {
        Kind::Branch => {
            let branch = OpenBranch::open(path)?;
            let bytes = branch.bytes();
            Ok((Content::Branch(Arc::new(branch)), bytes))
        }
        Kind::Graph => {
            let graph = Graph::open(path)?;
            let bytes = graph.bytes();
            Ok((Content::Graph(Arc::new(graph)), bytes))
        }
        Kind::Changes => Err(ReadError::OtherContent {
            at: at.to_owned(),
            found: "a change set",
            wanted: "a branch of a store or an access graph",
        }),
    }
}

/// The bytes of a store's log, if they are not too many.
fn check_log(at: &str) -> Result<u64, ReadError> {
    let log = Path::new(at).join("log");
    let entries = match fs::read_dir(&log) {
        Ok(entries) => entries,
        // What the store says of that is better.
        Err(_) => return Ok(0),
    };
    let bytes = entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|found| found.len());
    let bytes = bytes.fold(0, u64::saturating_add);
    if bytes > LOG_BYTES_MAX {
        let what = "bytes of log since its last checkpoint";
        return Err(ReadError::TooLarge { at: at.to_owned(), what, found: bytes, limit: LOG_BYTES_MAX });
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "../tests/unit/shelf.rs"]
mod tests;
