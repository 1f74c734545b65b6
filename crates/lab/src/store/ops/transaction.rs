//! Transactions of ten writes.

use duramen_store::{Branch, Scope, StoreError, Transaction};

use crate::store::data::Key;
use crate::store::level::VALUE_BYTES;
use crate::store::slice::Slice;

/// Writes in a transaction.
const WRITES: usize = 10;
/// Of so many neighbouring pairs one is put anew beforehand: fewer than a leaf holds.
const NEIGHBOURS: usize = 16;
/// How many of these are in a commit.
const UNSHARED_AT_ONCE: usize = 1000;

/// What a transaction is kept apart from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Writes of what it writes.
    Snapshot,
    /// Writes of what it reads, too.
    Serialisable,
}

impl Isolation {
    fn begin(self, branch: &Branch) -> Result<Transaction, StoreError> {
        match self {
            Self::Snapshot => branch.begin(),
            Self::Serialisable => branch.begin_serialisable(),
        }
    }
}

/// Reads ten pairs, puts others in their places, and commits: from the beginning of the transaction until it is
/// acknowledged.
pub(crate) fn commit(slice: &mut Slice<'_>, isolation: Isolation) -> Result<(), StoreError> {
    let (mut rng, pool, main) = (slice.level.rng(), slice.level.pool.clone(), slice.level.main());
    let rows = slice.level.sizes.rows;
    let mut missing = 0;
    let mut last = None;
    // Leaves that branches of operations before still share are copied by whoever writes to them first. That is no transaction's.
    let numbers: Vec<u64> = (0..rows).step_by(NEIGHBOURS).collect();
    for numbers in numbers.chunks(UNSHARED_AT_ONCE) {
        main.transact(|tx| {
            numbers.iter().try_for_each(|number| {
                tx.kv().put(Key::from_number(*number).as_str(), pool.value(&mut rng, VALUE_BYTES)).map(drop)
            })
        })?;
    }
    slice.begin()?;
    while slice.more() {
        let keys: Vec<Key> = (0..WRITES).map(|_| Key::from_number(rng.u64(0..rows))).collect();
        let value = pool.value(&mut rng, VALUE_BYTES);
        let found = slice.time(|| {
            let tx = isolation.begin(&main)?;
            let mut found = 0;
            for key in &keys {
                found += usize::from(tx.kv().exists(key.as_str())?);
                tx.kv().put(key.as_str(), value)?;
            }
            tx.commit()?;
            Ok(found)
        })?;
        missing += WRITES - found;
        last = Some((keys, value));
    }
    slice.end();
    if let Some((keys, value)) = last {
        for key in keys {
            let found = main.kv().get(key.as_str())?;
            let is_it = found.as_ref().and_then(|found| found.as_bytes()) == Some(value);
            slice.expect(is_it, || "a pair that a transaction put is not there".to_owned());
        }
    }
    let count = main.kv().count("k")?;
    slice.expect(missing == 0 && count == rows, || {
        format!("{missing} pairs were not there in transactions, and {count} of {rows} are")
    });
    Ok(())
}
