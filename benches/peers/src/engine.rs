//! What every engine must do, and what is kept of it.

use std::fmt;
use std::path::Path;

use crate::data::{Data, Key, VALUE_BYTES};

/// What a commit that returned survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The process may lose it.
    Memory,
    /// It survives the process, not the loss of power.
    Buffered,
    /// It survives the loss of power.
    Strict,
}

/// Why an engine, or a row, did not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The engine refused.
    #[error("{0}")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file could not be used.
    #[error("{action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// What was read is not what had been written.
    #[error("wrong result: {0}")]
    Wrong(String),
}

impl Failure {
    /// Wraps any error of an engine.
    pub(crate) fn engine(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Engine(Box::new(error))
    }

    /// For `map_err` on file operations.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

/// The result of everything that an engine does.
pub(crate) type Done<T> = Result<T, Failure>;

/// A row, as [`Engine::bulk_load`] gets it.
pub(crate) type Row<'a> = (&'a Key, &'a [u8]);

/// A store that holds 16-byte keys with values, each call being a transaction of its own.
pub(crate) trait Engine: Sync {
    /// Loads rows in ascending order of keys into the empty store; durable on return.
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Row<'_>>) -> Done<()>;

    /// As [`bulk_load`](Self::bulk_load), of more rows than fit into memory: they are made while it runs. Only for an engine
    /// that loads so many at once.
    fn load_made(&self, _rows: &mut dyn Iterator<Item = (Key, [u8; VALUE_BYTES])>) -> Done<()> {
        Err(Failure::Wrong("it does not load rows that are made meanwhile".to_owned()))
    }

    /// Commits one row at the level that the store was opened with.
    fn put(&self, key: &Key, value: &[u8]) -> Done<()>;

    /// Replaces the content of `into` with the value of `key`; false when there is none.
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool>;

    /// Reads all rows in order. An engine hands each row as it has it, without a copy if it can.
    fn scan(&self, tally: &mut Tally) -> Done<()>;

    /// Reads `limit` rows in order, beginning at `start`.
    fn range(&self, start: &Key, limit: usize, tally: &mut Tally) -> Done<()>;

    /// What is stored now, unchanged by later commits until it is dropped.
    fn snapshot(&self) -> Done<Box<dyn Snapshot + '_>>;

    /// Closes the store in the way after which the next open is fastest.
    fn close(self: Box<Self>) -> Done<()>;
}

/// A view of a store at one moment.
pub(crate) trait Snapshot {
    /// As [`Engine::get`].
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool>;
}

/// An engine by its name.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its column.
    pub(crate) name: &'static str,
    /// How each level is reached, for the JSON file.
    pub(crate) configured: &'static str,
    /// Opens the store in a folder of its own that exists, or makes it there.
    pub(crate) open: fn(&Path, Level) -> Done<Box<dyn Engine>>,
    /// Whether it has such a level.
    pub(crate) has: fn(Level) -> bool,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a scan came across: enough to notice a row that is missing, double, cut, or out of order, and it
/// makes every engine touch every row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    rows: u64,
    bytes: u64,
    sum: u64,
    last: Option<u128>,
    disorder: u64,
}

impl Tally {
    /// Counts a row.
    #[inline]
    pub(crate) fn row(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        let order = key.first_chunk::<16>().map_or(0, |key| u128::from_be_bytes(*key));
        if self.last.is_some_and(|last| last >= order) {
            self.disorder += 1;
        }
        self.last = Some(order);
        let head = |bytes: &[u8]| bytes.first_chunk::<8>().map_or(0, |head| u64::from_le_bytes(*head));
        self.sum = self.sum.wrapping_add(head(key).rotate_left(17) ^ head(value));
    }

    /// What reading the rows of these ranks, which ascend, must give.
    pub(crate) fn expected(data: &Data, ranks: impl IntoIterator<Item = usize>) -> Self {
        let mut tally = Self::default();
        for rank in ranks {
            tally.row(data.key(rank), data.value(rank));
        }
        tally
    }

    /// Compares with what was expected.
    pub(crate) fn verify(&self, expected: &Self, what: &str) -> Done<()> {
        if self == expected {
            return Ok(());
        }
        Err(Failure::Wrong(format!(
            "{what} read {} rows of {} bytes with {} out of order and sum {:x}; \
             expected {} rows of {} bytes with sum {:x}",
            self.rows, self.bytes, self.disorder, self.sum, expected.rows, expected.bytes, expected.sum
        )))
    }
}
