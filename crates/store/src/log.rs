//! The commit log: every commit is one record, appended before anything else is written.
//!
//! A record is *appended* when it stands in the buffer of this process, *written* when the operating system has it,
//! and *durable* when the disk has said so. Records become so in the order of their versions. A reader of the log never
//! sees a version without all versions before it.
//!
//! | module | what it is for |
//! | --- | --- |
//! | `format` | the bytes of a segment header and of a record |
//! | `directory` | what the log wants of a file system |
//! | `scan` | reading one segment |
//! | `recover` | reading a log: replay, the torn tail, damage |
//! | `follow` | reading on in a log that another process writes |
//! | `pool` | spare files, made ahead or recycled |
//! | `core` | the buffer and the current segment |
//! | `group` | whose turn it is in group commit |
//! | `commit` | waiting for a commit to be durable |
//! | `background` | the threads of a log |

mod background;
mod commit;
mod core;
mod directory;
mod error;
mod follow;
mod format;
mod group;
mod pool;
mod recover;
mod scan;

use std::sync::Arc;
use std::time::Duration;

pub use self::core::LogCounters;
pub use directory::{FileDirectory, LogDirectory, LogFile};
pub use error::{Fenced, LogError};
pub(crate) use follow::{Followed, LogTail};
pub use format::{
    decode_record, encode_record, HeaderError, Record, SegmentHeader, BODY_BYTES_MAX, FORMAT_VERSION,
    RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES,
};
pub(crate) use recover::{begins_with, is_segment_name, is_spare_name, segment_number};
pub use recover::{Needed, Position, Replay};

use self::core::Core;
use crate::durability::Durability;
use background::Threads;
use pool::Pool;

/// The least size of a segment, in bytes.
const SEGMENT_BYTES_MIN: u64 = 4096;

/// How a log is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of an ordinary segment, in bytes. At least 4 KiB. The first of a log is no larger than 1 MiB, and one
    /// for a larger record is as large as that needs.
    pub segment_bytes: u64,
    /// How old a record gets at most before it is made durable even though nobody waits for it. The time that the disk
    /// takes for it comes on top.
    pub sync_every: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, sync_every: Duration::from_millis(100) }
    }
}

/// A commit log that is open for appending. Every method may be called from any thread.
///
/// When it is dropped, what was appended is handed to the operating system. [`close`](Self::close) also makes it
/// durable.
///
/// ```
/// # use std::sync::Arc;
/// # use duramen_store::durability::Durability;
/// # use duramen_store::log::{FileDirectory, Log, LogError, LogOptions};
/// let folder = tempfile::tempdir()?;
/// let dir = Arc::new(FileDirectory::open(folder.path())?);
/// let log = Log::open(dir.clone(), LogOptions::default(), 0, &mut |_, _, _| Ok(()))?;
/// let first = log.append(1, b"a commit")?;
/// log.wait(first, Durability::Strict)?;
/// assert_eq!(log.durable(), 1);
/// log.close()?;
/// drop(log);
///
/// let mut found = Vec::new();
/// let last = Log::read(dir.as_ref(), 0, &mut |first, count, body| {
///     found.push((first, count, body.to_vec()));
///     Ok(())
/// })?;
/// assert_eq!((last, found), (1, vec![(1, 1, b"a commit".to_vec())]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Log {
    core: Arc<Core>,
    /// Dropped after the rest of the log was handed over.
    _threads: Threads,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Log");
        out.field("last", &self.last()).field("written", &self.written()).field("durable", &self.durable());
        out.finish_non_exhaustive()
    }
}

impl Log {
    /// Opens the log in `dir`, gives the records that begin after version `after` to `replay` in order (first version,
    /// count of versions, body), cuts a torn tail, and goes on after the last record.
    ///
    /// `after` is the last version that a durable checkpoint holds. What was replayed is durable on return, even if
    /// it was not before. The caller makes sure that nobody else has the log open.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if a record is missing or changed that had been durable, [`LogError::FromTheFuture`] for
    /// a later format, [`LogError::Io`], and whatever `replay` returns.
    pub fn open(
        dir: Arc<dyn LogDirectory>,
        options: LogOptions,
        after: u64,
        replay: &mut Replay<'_>,
    ) -> Result<Self, LogError> {
        Self::open_at(dir, options, Position { after, needed: Needed::Nothing }, replay)
    }

    /// Opens the log like [`open`](Self::open), of which something must be there.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and [`LogError::Missing`].
    pub fn open_at(
        dir: Arc<dyn LogDirectory>,
        options: LogOptions,
        position: Position,
        replay: &mut Replay<'_>,
    ) -> Result<Self, LogError> {
        let found = recover::recover(&*dir, position, replay, true)?;
        Self::start(dir, options, found)
    }

    /// Begins a log in a directory that has none, with the version after `after` and a segment of this number or a higher one.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub(crate) fn begin(
        dir: Arc<dyn LogDirectory>,
        options: LogOptions,
        after: u64,
        number: u64,
    ) -> Result<Self, LogError> {
        let position = Position { after, needed: Needed::Nothing };
        let mut found = recover::recover(&*dir, position, &mut |_, _, _| Ok(()), true)?;
        found.next_number = found.next_number.max(number);
        Self::start(dir, options, found)
    }

    fn start(
        dir: Arc<dyn LogDirectory>,
        options: LogOptions,
        found: recover::Recovered,
    ) -> Result<Self, LogError> {
        let segment_bytes = options.segment_bytes.max(SEGMENT_BYTES_MIN);
        let pool = Pool::new(dir, segment_bytes, &found.spares)?;
        let core = Arc::new(Core::new(pool, segment_bytes, found)?);
        let threads = Threads::start(&core, options.sync_every)?;
        Ok(Self { core, _threads: threads })
    }

    /// Replays the records after version `after` like [`open`](Self::open), and writes nothing. Returns the last
    /// version, which is `after` if there are no later ones.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn read(dir: &dyn LogDirectory, after: u64, replay: &mut Replay<'_>) -> Result<u64, LogError> {
        Self::read_at(dir, Position { after, needed: Needed::Nothing }, replay)
    }

    /// Replays the log like [`read`](Self::read), of which something must be there.
    ///
    /// # Errors
    /// Those of [`open_at`](Self::open_at).
    pub fn read_at(
        dir: &dyn LogDirectory,
        position: Position,
        replay: &mut Replay<'_>,
    ) -> Result<u64, LogError> {
        recover::recover(dir, position, replay, false).map(|found| found.last)
    }

    /// Replays the log like [`read_at`](Self::read_at). Returns where it ends; none if the next record needs a segment of its own.
    pub(crate) fn read_to_tail(
        dir: &Arc<dyn LogDirectory>,
        position: Position,
        replay: &mut Replay<'_>,
    ) -> Result<Option<LogTail>, LogError> {
        let found = recover::recover(&**dir, position, replay, false)?;
        Ok(found.current.map(|current| LogTail::new(dir.clone(), current, found.last)))
    }

    /// Appends a record that takes `count` versions, and returns the first of them. It stands in memory only until
    /// somebody waits for more.
    ///
    /// # Errors
    /// [`LogError::TooLarge`] for a body of more than [`BODY_BYTES_MAX`], [`LogError::Versions`] for a count of zero,
    /// [`LogError::Poisoned`] after an earlier error. Nothing was appended then.
    #[inline]
    pub fn append(&self, count: u32, body: &[u8]) -> Result<u64, LogError> {
        self.core.append(count, body)
    }

    /// Waits until the record that ends at version `last` is as durable as asked.
    ///
    /// For [`Durability::Memory`] it returns at once, but hands the buffer to the operating system when that has grown
    /// large. A `last` that was not appended yet stands for the last one that was.
    ///
    /// # Errors
    /// [`LogError::Io`] or [`LogError::Poisoned`]: the record may be lost. One that had become as durable as asked
    /// before the error is still acknowledged, except for [`Durability::Memory`].
    #[inline]
    pub fn wait(&self, last: u64, durability: Durability) -> Result<(), LogError> {
        let last = last.min(self.last());
        match durability {
            Durability::Memory => self.core.relieve(),
            Durability::Buffered => self.core.wait_written(last),
            Durability::Strict => self.core.wait_durable(last),
        }
    }

    /// The last version that was appended.
    #[inline]
    pub fn last(&self) -> u64 {
        self.core.last()
    }

    /// The last version that the operating system has.
    #[inline]
    pub fn written(&self) -> u64 {
        self.core.written()
    }

    /// The last version that is durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.core.durable()
    }

    /// Makes durable all that was appended before the call.
    ///
    /// # Errors
    /// [`LogError::Io`] or [`LogError::Poisoned`]: some of it may be lost.
    pub fn sync(&self) -> Result<(), LogError> {
        self.core.check()?;
        self.core.wait_durable(self.last())
    }

    /// Ends the current segment, durably, and begins another, unless it is empty. For the start of a checkpoint:
    /// [`release`](Self::release) at its end frees whole segments.
    ///
    /// # Errors
    /// [`LogError::Io`] or [`LogError::Poisoned`].
    pub fn rotate(&self) -> Result<(), LogError> {
        self.core.rotate()
    }

    /// Says that [`close`](Self::close) follows after one more [`rotate`](Self::rotate) and
    /// [`release`](Self::release): spare files are given back, and the segment that stays is a small one.
    ///
    /// # Errors
    /// [`LogError::Io`] or [`LogError::Poisoned`].
    pub fn expect_end(&self) -> Result<(), LogError> {
        self.core.expect_end()
    }

    /// The number of the segment to which the next record goes, unless it is too large for what is left of it.
    pub fn segment(&self) -> u64 {
        self.core.segment()
    }

    /// Frees the segments that hold no version after `version`, which a durable checkpoint holds. Some are kept as
    /// spare files and reused, the others are removed.
    ///
    /// # Errors
    /// [`LogError::Io`] or [`LogError::Poisoned`].
    pub fn release(&self, version: u64) -> Result<(), LogError> {
        self.core.release(version)
    }

    /// The bytes of the records in the log that were not released, with those that were found at opening: how much
    /// would be replayed. A store makes a checkpoint when it has grown large.
    pub fn bytes_since_release(&self) -> u64 {
        self.core.bytes_held()
    }

    /// What was done since opening.
    pub fn counters(&self) -> LogCounters {
        self.core.counters()
    }

    /// [`LogError::Poisoned`] with the first error, if the log takes no more records.
    pub fn poisoned(&self) -> Option<LogError> {
        self.core.poisoned()
    }

    /// Refuses all records from now on because of `error`, unless an earlier one is the reason already.
    pub fn poison(&self, error: LogError) {
        self.core.poison(error);
    }

    /// Makes all durable and marks the clean end, which lets the next opening do without a search for what may stand
    /// behind it. The log takes no more records then.
    ///
    /// # Errors
    /// [`LogError::Io`] or [`LogError::Poisoned`]: some records may be lost.
    pub fn close(&self) -> Result<(), LogError> {
        self.core.close()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.core.poisoned().is_none() {
            let mut writer = self.core.lock_writer();
            // Who wants to know whether it worked calls `sync` or `close`.
            self.core.flush(&mut writer, false).ok();
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/support/memory_directory.rs"]
mod memory_directory;

#[cfg(test)]
#[path = "../tests/unit/log_round_trip.rs"]
mod round_trip_tests;

#[cfg(test)]
#[path = "../tests/unit/log_recovery.rs"]
mod recovery_tests;

#[cfg(test)]
#[path = "../tests/unit/log_crash.rs"]
mod crash_tests;

#[cfg(test)]
#[path = "../tests/unit/log_errors.rs"]
mod error_tests;
