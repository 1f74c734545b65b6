//! fjall: a log-structured merge tree.

use std::path::Path;

use fjall::config::PinningPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use crate::data::Key;
use crate::engine::{Done, Engine, Failure, Kind, Level, Row, Snapshot, Tally};

pub(super) const KIND: Kind = Kind {
    name: "fjall",
    configured:
        "memory: manual journal persist; buffered: default; strict: persist(SyncAll) after each insert; \
                 bulk: ingestion; no compression",
    open,
    has: |_| true,
};

struct Fjall {
    db: Database,
    rows: Keyspace,
    level: Level,
}

struct View<'a> {
    rows: &'a Keyspace,
    snapshot: fjall::Snapshot,
}

fn open(dir: &Path, level: Level) -> Done<Box<dyn Engine>> {
    let manual = level == Level::Memory;
    // Its manual asks for a quarter of the memory where data does not fit.
    let cache = if super::is_limited() { super::cache_bytes() / 2 } else { super::cache_bytes() };
    let db = Database::builder(dir)
        .cache_size(cache as u64)
        .manual_journal_persist(manual)
        .open()
        .map_err(Failure::engine)?;
    // The options are kept with the store, so they are those of its first open.
    let rows = db
        .keyspace("rows", || {
            let options = KeyspaceCreateOptions::default().manual_journal_persist(manual);
            let Some(bytes) = super::write_buffer_bytes() else { return options };
            // Otherwise those of all files are kept beside the cache.
            let pinned = PinningPolicy::all(false);
            let options =
                options.filter_block_pinning_policy(pinned.clone()).index_block_pinning_policy(pinned);
            options.max_memtable_size(bytes as u64)
        })
        .map_err(Failure::engine)?;
    Ok(Box::new(Fjall { db, rows, level }))
}

impl Engine for Fjall {
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Row<'_>>) -> Done<()> {
        let mut ingestion = self.rows.start_ingestion().map_err(Failure::engine)?;
        for (key, value) in rows {
            ingestion.write(key.as_slice(), value).map_err(Failure::engine)?;
        }
        ingestion.finish().map_err(Failure::engine)?;
        self.db.persist(PersistMode::SyncAll).map_err(Failure::engine)
    }

    fn put(&self, key: &Key, value: &[u8]) -> Done<()> {
        self.rows.insert(key.as_slice(), value).map_err(Failure::engine)?;
        if self.level == Level::Strict {
            self.db.persist(PersistMode::SyncAll).map_err(Failure::engine)?;
        }
        Ok(())
    }

    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        let value = self.rows.get(key).map_err(Failure::engine)?;
        Ok(keep(value.as_deref(), into))
    }

    fn scan(&self, tally: &mut Tally) -> Done<()> {
        for row in self.rows.iter() {
            let (key, value) = row.into_inner().map_err(Failure::engine)?;
            tally.row(&key, &value);
        }
        Ok(())
    }

    fn range(&self, start: &Key, limit: usize, tally: &mut Tally) -> Done<()> {
        for row in self.rows.range(start.as_slice()..).take(limit) {
            let (key, value) = row.into_inner().map_err(Failure::engine)?;
            tally.row(&key, &value);
        }
        Ok(())
    }

    fn snapshot(&self) -> Done<Box<dyn Snapshot + '_>> {
        Ok(Box::new(View { rows: &self.rows, snapshot: self.db.snapshot() }))
    }

    fn close(self: Box<Self>) -> Done<()> {
        self.db.persist(PersistMode::SyncAll).map_err(Failure::engine)
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        let value = self.snapshot.get(self.rows, key).map_err(Failure::engine)?;
        Ok(keep(value.as_deref(), into))
    }
}

fn keep(value: Option<&[u8]>, into: &mut Vec<u8>) -> bool {
    into.clear();
    into.extend_from_slice(value.unwrap_or_default());
    value.is_some()
}
