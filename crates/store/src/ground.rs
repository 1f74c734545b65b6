//! What a store stands on where that is no folder.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_tree::NodeStore;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::log::LogDirectory;
use crate::options::Options;
use crate::recovery::{assemble_to_tail, NoLog, Parts, ReadTo};

/// Something that is let go of when all else of a store is closed, such as a lock or a connection.
pub(crate) type Guard = Box<dyn Any + Send + Sync>;

/// How long an opening for reading is tried again while somebody writes, and how often at least.
const TRY_FOR: Duration = Duration::from_secs(5);
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// A place for a store other than a folder: where its nodes are kept, and where its log.
///
/// Whoever makes one to write sees to it that nobody else writes there; a folder has a lock for that.
///
/// ```
/// use std::sync::Arc;
/// use duramen_store::log::FileDirectory;
/// use duramen_store::{Ground, Options, Scope, Store};
/// use duramen_tree::MemoryNodeStore;
/// # let folder = tempfile::tempdir()?;
/// let nodes = Arc::new(MemoryNodeStore::new());
/// let ground = || -> std::io::Result<Ground> {
///     let log = Arc::new(FileDirectory::open(folder.path())?);
///     Ok(Ground::new(nodes.clone(), log, "nodes in memory"))
/// };
/// let store = Store::open_on(ground()?, Options::default())?;
/// store.branch("main")?.kv().put("greeting", "hello")?;
/// store.close()?;
///
/// let store = Store::open_on(ground()?, Options::default())?;
/// assert_eq!(store.branch("main")?.kv().get("greeting")?, Some("hello".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ground {
    pub(crate) nodes: Arc<dyn NodeStore>,
    pub(crate) log: Arc<dyn LogDirectory>,
    name: PathBuf,
    pub(crate) guard: Option<Guard>,
    pub(crate) begins_log: bool,
    pub(crate) has_log: bool,
}

impl Ground {
    /// Nodes here, the log there, and what messages call it.
    pub fn new(nodes: Arc<dyn NodeStore>, log: Arc<dyn LogDirectory>, name: impl Into<PathBuf>) -> Self {
        Self { nodes, log, name: name.into(), guard: None, begins_log: false, has_log: true }
    }

    /// Nodes whose log is not at hand: to be read only, and only what the last checkpoint holds.
    pub fn without_log(nodes: Arc<dyn NodeStore>, name: impl Into<PathBuf>) -> Self {
        Self { has_log: false, ..Self::new(nodes, Arc::new(NoLog), name) }
    }

    /// Keeps something as long as the store is open, and lets go of it last.
    #[must_use]
    pub fn guarded_by(self, guard: impl Any + Send + Sync) -> Self {
        Self { guard: Some(Box::new(guard)), ..self }
    }

    /// The log that the last checkpoint goes on in is lost, and the one that is given here, in which nothing is, begins after it.
    /// What was committed since that checkpoint is lost; versions of such commits are not given again.
    #[must_use]
    pub fn with_lost_log(self) -> Self {
        Self { begins_log: true, ..self }
    }

    /// What messages call it.
    pub fn name(&self) -> &Path {
        &self.name
    }
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where a store that somebody else writes is read, again and again: see [`Follower::open_on`](crate::Follower::open_on).
///
/// What [`look`](Self::look) returns must be of one moment in this sense: the log was listed before the manifest was read, so
/// that no record of it follows on a tree which only a later checkpoint has.
pub trait Source: Send + Sync {
    /// The store as it is now, to be read only.
    ///
    /// # Errors
    /// When it cannot be read.
    fn look(&self) -> Result<Ground, StoreError>;

    /// How long a follower that waits lets pass between two looks.
    fn pause(&self) -> Duration;

    /// How long what [`look`](Self::look) returned can be read, whatever is written meanwhile. A follower looks again earlier.
    fn lasts(&self) -> Duration;
}

/// Opens a store on a source for reading only, to be read on.
pub(crate) fn open_to_tail(source: &dyn Source, options: &Options) -> Result<(Engine, ReadTo), StoreError> {
    let begin = clock::now();
    let mut tries = 0;
    loop {
        let opened = source.look().and_then(|ground| {
            let name = ground.name().to_owned();
            assemble_to_tail(Parts::on(ground, &name), options.clone())
        });
        let error = match opened {
            Err(error @ StoreError::StoreNotFound { .. }) => return Err(error),
            Err(error) => error,
            opened => return opened,
        };
        tries += 1;
        if tries >= TRIES && begin.elapsed() > TRY_FOR {
            return Err(error);
        }
        log::debug!("the store was changed while it was opened for reading: {error}");
        std::thread::sleep(PAUSE);
    }
}
