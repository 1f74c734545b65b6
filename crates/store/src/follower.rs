//! A store that another process writes, read on as it goes.
//!
//! The log is read on from where it was read up to. What that makes of trees stays in memory, so once in a while, and when
//! the log has been released, the store is opened anew at a later checkpoint.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use duramen_base::clock;
use parking_lot::Mutex;

use crate::branch::Branch;
use crate::error::StoreError;
use crate::ground::{self, Source};
use crate::log::{Followed, LogError};
use crate::options::Options;
use crate::record;
use crate::recovery::{open_to_tail, redo, ReadTo};
use crate::store::Store;

/// After reading this many bytes of the log, the follower moves on to a later checkpoint.
const READ_BYTES: u64 = 16 << 20;

/// The shortest pause between two attempts to reopen the store while it waits for a checkpoint.
const AGAIN: Duration = Duration::from_millis(20);

/// How often a wait checks for a new version.
const LOOK: Duration = Duration::from_millis(5);

/// A store that is read while another process, or this one, writes it: each look sees what had been acknowledged before, at
/// the levels `buffered` and `strict`. It holds no lock, writes nothing, and never keeps the writer waiting.
///
/// ```
/// use duramen_store::{Follower, Options, Scope, Store};
/// # let dir = tempfile::tempdir()?;
/// let store = Store::open(dir.path(), Options::default())?;
/// let follower = Follower::open(dir.path(), Options::default())?;
/// store.branch("main")?.kv().put("greeting", "hello")?;
/// assert_eq!(follower.branch("main")?.kv().get("greeting")?, Some("hello".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Follower {
    place: Place,
    options: Options,
    state: Mutex<State>,
}

/// Where the store is.
enum Place {
    Folder(PathBuf),
    Elsewhere(Box<dyn Source>),
}

impl Place {
    fn open(&self, options: &Options) -> Result<State, StoreError> {
        let (engine, read_to) = match self {
            Self::Folder(path) => open_to_tail(path, options)?,
            Self::Elsewhere(source) => ground::open_to_tail(&**source, options)?,
        };
        let store = Store::start(engine)?;
        Ok(State { store, read_to, parts: Vec::new(), bytes: 0, is_broken: false, opened: clock::now() })
    }

    fn pause(&self) -> Duration {
        match self {
            Self::Folder(_) => LOOK,
            Self::Elsewhere(source) => source.pause().max(LOOK),
        }
    }

    /// The shortest pause between two openings while it waits for a checkpoint.
    fn again(&self) -> Duration {
        match self {
            Self::Folder(_) => AGAIN,
            Self::Elsewhere(source) => source.pause().max(AGAIN),
        }
    }

    /// Whether what was opened at this time may not be readable for much longer.
    fn is_old(&self, opened: Instant) -> bool {
        match self {
            Self::Folder(_) => false,
            Self::Elsewhere(source) => opened.elapsed() > source.lasts() / 2,
        }
    }
}

struct State {
    store: Store,
    read_to: ReadTo,
    /// The parts of a commit whose last part has not come yet.
    parts: Vec<u8>,
    /// Bytes of the log that were read since the store was opened.
    bytes: u64,
    /// A record could not be replayed, and may be applied in part: nothing here can be trusted.
    is_broken: bool,
    /// When it was opened, or that was tried.
    opened: Instant,
}

impl State {
    fn version(&self) -> u64 {
        self.store.engine().last_version()
    }

    /// Reads on.
    fn read(&mut self) -> Result<Look, StoreError> {
        if self.is_broken {
            return Ok(Look::Over);
        }
        let Self { store, read_to, parts, bytes, .. } = self;
        let needed = &mut read_to.needed;
        let Some(tail) = read_to.tail.as_mut().filter(|_| needed.is_none()) else { return Ok(Look::Waiting) };
        let engine = store.engine();
        let followed = tail.read(&mut |first, count, body| {
            *bytes += body.len() as u64;
            if body.first() == Some(&record::INSTALL) {
                *needed = Some(first);
                return Ok(ControlFlow::Break(()));
            }
            redo(engine, first, count, body, parts)
                .map(ControlFlow::Continue)
                .map_err(|error| LogError::Replay { first, source: error.to_string().into() })
        })?;
        let is_later = |segment: Option<u64>| segment.is_some_and(|segment| !tail.has_segment(segment));
        let is_due = *bytes > READ_BYTES || engine.forest().excess() > 0;
        Ok(match followed {
            Followed::Lost => Look::Over,
            Followed::UpToDate if needed.is_some() => Look::Waiting,
            Followed::UpToDate if is_due && is_later(read_to.segment) => Look::Due,
            Followed::UpToDate => Look::UpToDate,
        })
    }
}

/// What came of reading on.
enum Look {
    UpToDate,
    /// The store has to be opened anew when it has a later checkpoint, or a later segment of its log.
    Waiting,
    /// It is time to go on from a later checkpoint.
    Due,
    /// The store has to be opened anew.
    Over,
}

impl Follower {
    /// Opens the store in a folder, to be read on. It may be on a file system that is mounted read-only.
    ///
    /// # Errors
    /// As [`Store::open`] for reading.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::on(Place::Folder(path.as_ref().to_owned()), options)
    }

    /// Opens a store that is not in a folder, to be read on.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(source: impl Source + 'static, options: Options) -> Result<Self, StoreError> {
        Self::on(Place::Elsewhere(Box::new(source)), options)
    }

    fn on(place: Place, options: Options) -> Result<Self, StoreError> {
        let options = Options { read_only: true, checkpoint_only: false, ..options };
        let state = Mutex::new(place.open(&options)?);
        Ok(Self { place, options, state })
    }

    /// The store as it is now. Its branches go on with each later look, until it is opened anew: so ask for it each time.
    ///
    /// # Errors
    /// When the files are gone, or cannot be read.
    pub fn store(&self) -> Result<Store, StoreError> {
        let mut state = self.state.lock();
        let look = match state.read() {
            Ok(_) if self.place.is_old(state.opened) => Look::Over,
            Ok(look) => look,
            // What does not fit what is here came after something that the log does not have.
            Err(error) => {
                log::debug!("the store is opened anew to be read on: {error}");
                state.is_broken = true;
                Look::Over
            }
        };
        match look {
            Look::UpToDate => {}
            Look::Waiting if state.opened.elapsed() < self.place.again() => {}
            Look::Waiting => {
                state.opened = clock::now();
                let anew = self.place.open(&self.options)?;
                // Its checkpoint has the tree, or whoever wanted to make that was killed, and others have written since.
                let has_it = |needed| {
                    anew.read_to.checkpoint >= needed
                        || (anew.read_to.needed.is_none() && anew.version() > needed)
                };
                let is_enough = state.read_to.needed.is_none_or(has_it);
                if is_enough && anew.version() >= state.version() {
                    *state = anew;
                }
            }
            Look::Due => match self.place.open(&self.options) {
                Ok(anew) => *state = anew,
                // The present state is up to date without it.
                Err(error) => log::debug!("the store was not opened anew: {error}"),
            },
            Look::Over => *state = self.place.open(&self.options)?,
        }
        Ok(state.store.clone())
    }

    /// A branch as it is now: see [`store`](Self::store).
    ///
    /// # Errors
    /// As [`store`](Self::store); when there is no such branch.
    pub fn branch(&self, name: &str) -> Result<Branch, StoreError> {
        self.store()?.branch(name)
    }

    /// Waits until the store has a later version than this one, and returns it then; none when the time is over.
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub fn wait(&self, version: u64, timeout: Duration) -> Result<Option<Store>, StoreError> {
        let begin = clock::now();
        loop {
            let store = self.store()?;
            if store.engine().last_version() > version {
                return Ok(Some(store));
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(self.place.pause().min(left));
        }
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Follower");
        if let Place::Folder(path) = &self.place {
            out.field("path", path);
        }
        out.finish_non_exhaustive()
    }
}
