//! LMDB through heed: a copy-on-write B+tree in a memory map.

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RoTxn, WithTls};

use crate::data::Key;
use crate::engine::{Done, Engine, Failure, Kind, Level, Row, Snapshot, Tally};

pub(super) const KIND: Kind = Kind {
    name: "lmdb",
    configured:
        "memory: WRITEMAP+NOSYNC; buffered: NOSYNC; strict: default; bulk: one transaction with APPEND; \
                 NORDAHEAD where memory is limited",
    open,
    has: |_| true,
};

/// Address space, not memory.
const MAP_BYTES: usize = 1 << 34;

/// Any transaction of the environment may use it.
type Rows = Database<'static, Bytes, Bytes>;

struct Lmdb {
    env: Env,
    rows: Rows,
}

struct View<'a> {
    rows: Rows,
    txn: RoTxn<'a, WithTls>,
}

#[allow(
    unsafe_code,
    reason = "heed cannot prove that nobody else changes the mapped file; this folder is ours"
)]
fn open_env(dir: &Path, level: Level) -> heed::Result<Env> {
    let flags = match level {
        Level::Memory => EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC,
        Level::Buffered => EnvFlags::NO_SYNC,
        Level::Strict => EnvFlags::empty(),
    };
    // Its manual asks for this where data is larger than memory: otherwise each page that is read brings 31 others.
    let flags = if super::is_limited() { flags | EnvFlags::NO_READ_AHEAD } else { flags };
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_dbs(1);
    // SAFETY: the folder was made by this run for this store, and no other process or store uses it.
    unsafe { options.flags(flags).open(dir) }
}

fn open(dir: &Path, level: Level) -> Done<Box<dyn Engine>> {
    let env = open_env(dir, level).map_err(Failure::engine)?;
    let txn = env.write_txn().map_err(Failure::engine)?;
    let rows = env
        .create_databases_and_commit(txn, |opener, txn| {
            opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        })
        .map_err(|error: heed::Error| Failure::engine(error))?
        .unwrap_commit();
    Ok(Box::new(Lmdb { env, rows }))
}

impl Engine for Lmdb {
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Row<'_>>) -> Done<()> {
        let mut txn = self.env.write_txn().map_err(Failure::engine)?;
        for (key, value) in rows {
            self.rows.put_with_flags(&mut txn, PutFlags::APPEND, key, value).map_err(Failure::engine)?;
        }
        txn.commit().map_err(Failure::engine)?;
        self.env.force_sync().map_err(Failure::engine)
    }

    fn put(&self, key: &Key, value: &[u8]) -> Done<()> {
        let mut txn = self.env.write_txn().map_err(Failure::engine)?;
        self.rows.put(&mut txn, key, value).map_err(Failure::engine)?;
        txn.commit().map_err(Failure::engine)
    }

    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        let txn = self.env.read_txn().map_err(Failure::engine)?;
        get(self.rows, &txn, key, into)
    }

    fn scan(&self, tally: &mut Tally) -> Done<()> {
        let txn = self.env.read_txn().map_err(Failure::engine)?;
        for row in self.rows.iter(&txn).map_err(Failure::engine)? {
            let (key, value) = row.map_err(Failure::engine)?;
            tally.row(key, value);
        }
        Ok(())
    }

    fn range(&self, start: &Key, limit: usize, tally: &mut Tally) -> Done<()> {
        let txn = self.env.read_txn().map_err(Failure::engine)?;
        let from = (std::ops::Bound::Included(start.as_slice()), std::ops::Bound::Unbounded);
        for row in self.rows.range(&txn, &from).map_err(Failure::engine)?.take(limit) {
            let (key, value) = row.map_err(Failure::engine)?;
            tally.row(key, value);
        }
        Ok(())
    }

    fn snapshot(&self) -> Done<Box<dyn Snapshot + '_>> {
        let txn = self.env.read_txn().map_err(Failure::engine)?;
        Ok(Box::new(View { rows: self.rows, txn }))
    }

    fn close(self: Box<Self>) -> Done<()> {
        self.env.force_sync().map_err(Failure::engine)?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        get(self.rows, &self.txn, key, into)
    }
}

fn get(rows: Rows, txn: &RoTxn<'_>, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
    into.clear();
    let value = rows.get(txn, key).map_err(Failure::engine)?;
    into.extend_from_slice(value.unwrap_or_default());
    Ok(value.is_some())
}
