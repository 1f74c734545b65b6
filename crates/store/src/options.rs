//! How a store is opened.

use std::time::Duration;

use duramen_base::system::memory_bytes;

use crate::durability::Durability;

/// How a store is opened. [`Options::default`] is right for most.
///
/// ```
/// use duramen_store::{Durability, Options, Store};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("store");
/// let store = Store::open(&path, Options { durability: Durability::Strict, ..Options::default() })?;
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How durable a commit is when it is acknowledged, unless the commit says otherwise.
    pub durability: Durability,
    /// Open for reading only: nothing is written, not even a log. It is a moment of the store, with every commit that was
    /// acknowledged before (at the level `memory`, that the operating system had by then). Nobody is kept from writing, and
    /// what is written later is not in it: open again to see that.
    pub read_only: bool,
    /// Open for reading only, and only what the last checkpoint holds, whatever became of the log: what can be saved
    /// of a store whose log is lost.
    pub checkpoint_only: bool,
    /// How long an opening for writing waits while others have the store open for that. It takes a turn as soon as there is
    /// one, and no queue is kept. Whoever only reads waits for nobody.
    pub lock_wait: Duration,
    /// Bytes of memory for nodes. What was written since the last checkpoint may go beyond it for a moment.
    pub memory_bytes: usize,
    /// A checkpoint begins in the background when the log since the last one has this many bytes.
    pub checkpoint_log_bytes: u64,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
    /// How often what is not durable yet is made so: the loss window of the levels below strict.
    pub sync_every: Duration,
}

impl Default for Options {
    /// Buffered, for writing, with a quarter of the machine's memory; with 512 MiB where that is not known, on other systems than Linux.
    fn default() -> Self {
        Self {
            durability: Durability::Buffered,
            read_only: false,
            checkpoint_only: false,
            lock_wait: Duration::ZERO,
            memory_bytes: quarter_of_memory(),
            checkpoint_log_bytes: 128 << 20,
            segment_bytes: 16 << 20,
            sync_every: Duration::from_millis(100),
        }
    }
}

/// What is assumed of a machine that does not tell how much it has.
const MEMORY_BYTES_UNKNOWN: u64 = 2 << 30;

fn quarter_of_memory() -> usize {
    let total = memory_bytes().unwrap_or(MEMORY_BYTES_UNKNOWN);
    usize::try_from(total / 4).unwrap_or(usize::MAX).max(64 << 20)
}
