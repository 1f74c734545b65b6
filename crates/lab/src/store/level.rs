//! The store of one level of durability, with what the operations find in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::kv::AsKey;
use duramen_store::{Branch, Durability, Options as StoreOptions, Store, StoreError};

use super::data::{Key, Pool};
use super::ops::Kind;
use super::options::{Options, Sabotage};

/// Bytes of the values of the main branch's pairs.
pub(crate) const VALUE_BYTES: usize = 100;

/// When the log has grown by so much, it is not left to chance when the next checkpoint begins.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// How much data the operations find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) rows: u64,
    pub(crate) vectors: u64,
}

/// The store of one level.
pub(crate) struct Level {
    pub(crate) durability: Durability,
    pub(crate) sizes: Sizes,
    pub(crate) sabotage: Sabotage,
    pub(crate) pool: Arc<Pool>,
    pub(crate) fifo: bool,
    path: PathBuf,
    /// The store and its main branch, but while it is reopened.
    open: Option<(Store, Branch)>,
    /// What was made ready already.
    ready: BTreeSet<&'static str>,
    /// Grows with every name that is given out.
    named: u64,
    seed: u64,
    /// Bytes that the log had at the last checkpoint.
    logged: u64,
}

impl Level {
    pub(crate) fn open(
        options: &Options,
        durability: Durability,
        path: PathBuf,
        seed: u64,
    ) -> Result<Self, StoreError> {
        let store = Self::store_at(&path, durability, options.sabotage)?;
        let main = store.branch("main")?;
        Ok(Self {
            durability,
            sizes: Sizes { rows: options.rows, vectors: options.vectors() },
            sabotage: options.sabotage,
            pool: Arc::new(Pool::new(seed)),
            fifo: options.fifo,
            path,
            open: Some((store, main)),
            ready: BTreeSet::new(),
            named: 0,
            seed,
            logged: 0,
        })
    }

    fn store_at(path: &Path, durability: Durability, sabotage: Sabotage) -> Result<Store, StoreError> {
        let durability = match (sabotage, durability) {
            (Sabotage::StrictForBuffered, Durability::Buffered) => Durability::Strict,
            (_, durability) => durability,
        };
        Store::open(path, StoreOptions { durability, ..StoreOptions::default() })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.opened().0
    }

    fn opened(&self) -> &(Store, Branch) {
        self.open.as_ref().expect("only a failed reopening leaves no store, and that ends the run")
    }

    /// The branch that holds the rows, committing at the level under test.
    pub(crate) fn main(&self) -> Branch {
        self.opened().1.clone()
    }

    /// The same branch, for what is not timed: nobody waits for the disk.
    pub(crate) fn aside(&self) -> Branch {
        self.opened().1.with_durability(Durability::Memory)
    }

    /// A generator whose numbers are different every time, and the same in every run with the same seed.
    pub(crate) fn rng(&mut self) -> fastrand::Rng {
        self.named += 1;
        entropy::rng(self.seed ^ self.named.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number that was not given out before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.named += 1;
        self.named
    }

    /// A name of a branch that was not given out before.
    pub(crate) fn fresh_name(&mut self) -> String {
        format!("b-{}", self.fresh())
    }

    /// Whether something has to be made ready now; only the first time.
    pub(crate) fn lacks(&mut self, what: &'static str) -> bool {
        self.ready.insert(what)
    }

    /// Loads the rows of the main branch. Returns the bytes that nodes take on disk per byte of keys and values.
    pub(crate) fn load(&mut self) -> Result<f64, StoreError> {
        let mut rng = self.rng();
        let rows = self.sizes.rows;
        let pool = self.pool.clone();
        let empty = self.store().info().node_bytes;
        let pairs = (0..rows)
            .map(|row| (LoadedKey(Key::from_number(row)), pool.value(&mut rng, VALUE_BYTES).to_vec()));
        self.main().bulk_load("default", pairs)?;
        self.store().checkpoint()?;
        let node_bytes = self.store().info().node_bytes.saturating_sub(empty);
        Ok(node_bytes as f64 / (rows as f64 * (16 + VALUE_BYTES) as f64))
    }

    /// Waits until nothing is left to be written, so that what is counted next belongs to what is done next. Before
    /// reads a checkpoint is made, because one that begins by itself would be counted as theirs.
    pub(crate) fn quiesce(&mut self, before: Kind) -> Result<(), StoreError> {
        let grown = self.store().counters().log_bytes.saturating_sub(self.logged);
        if grown > LOG_BYTES_MAX || (before == Kind::Read && grown > 0) {
            self.store().checkpoint()?;
        }
        self.store().sync()?;
        if grown > LOG_BYTES_MAX || before == Kind::Read {
            self.logged = self.store().counters().log_bytes;
        }
        Ok(())
    }

    /// Closes the store cleanly and opens it again. Returns what opening took.
    pub(crate) fn reopen(&mut self) -> Result<Duration, StoreError> {
        if let Some((store, main)) = self.open.take() {
            store.close()?;
            // The folder is free when the last handle is gone.
            drop((main, store));
        }
        let begin = clock::now();
        let store = Self::store_at(&self.path, self.durability, self.sabotage)?;
        let main = store.branch("main")?;
        let took = begin.elapsed();
        self.open = Some((store, main));
        self.logged = 0;
        Ok(took)
    }
}

/// A key as bulk loading takes it.
pub(crate) struct LoadedKey(pub(crate) Key);

impl AsKey for LoadedKey {
    type Bytes<'k> = &'k [u8];

    fn as_key(&self) -> &[u8] {
        self.0.as_str().as_bytes()
    }
}
