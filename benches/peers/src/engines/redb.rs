//! redb: a copy-on-write B+tree with checksums.

use std::path::Path;

use redb::{Database, Durability, ReadTransaction, ReadableDatabase, TableDefinition};

use crate::data::Key;
use crate::engine::{Done, Engine, Failure, Kind, Level, Row, Snapshot, Tally};

pub(super) const KIND: Kind = Kind {
    name: "redb",
    configured: "memory: Durability::None; buffered: not offered; strict: Durability::Immediate; \
                 bulk: one transaction",
    open,
    has: |level| level != Level::Buffered,
};

const ROWS: TableDefinition<'_, &[u8; 16], &[u8]> = TableDefinition::new("rows");

struct Redb {
    db: Database,
    durability: Durability,
}

struct View(ReadTransaction);

fn open(dir: &Path, level: Level) -> Done<Box<dyn Engine>> {
    let db = Database::builder()
        .set_cache_size(super::cache_bytes())
        .create(dir.join("rows.redb"))
        .map_err(Failure::engine)?;
    let durability = if level == Level::Memory { Durability::None } else { Durability::Immediate };
    let opened = Redb { db, durability };
    // Reads fail while the table does not exist.
    let missing = {
        let txn = opened.db.begin_read().map_err(Failure::engine)?;
        matches!(txn.open_table(ROWS), Err(redb::TableError::TableDoesNotExist(_)))
    };
    if missing {
        opened.write(Durability::Immediate, |_| Ok(()))?;
    }
    Ok(Box::new(opened))
}

impl Redb {
    fn write(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut redb::Table<'_, &[u8; 16], &[u8]>) -> Done<()>,
    ) -> Done<()> {
        let mut txn = self.db.begin_write().map_err(Failure::engine)?;
        txn.set_durability(durability).map_err(Failure::engine)?;
        change(&mut txn.open_table(ROWS).map_err(Failure::engine)?)?;
        txn.commit().map_err(Failure::engine)
    }
}

impl Engine for Redb {
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Row<'_>>) -> Done<()> {
        self.write(Durability::Immediate, |table| {
            for (key, value) in rows {
                table.insert(key, value).map_err(Failure::engine)?;
            }
            Ok(())
        })
    }

    fn put(&self, key: &Key, value: &[u8]) -> Done<()> {
        self.write(self.durability, |table| {
            table.insert(key, value).map_err(Failure::engine)?;
            Ok(())
        })
    }

    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        View(self.db.begin_read().map_err(Failure::engine)?).get(key, into)
    }

    fn scan(&self, tally: &mut Tally) -> Done<()> {
        self.range(&[0; 16], usize::MAX, tally)
    }

    fn range(&self, start: &Key, limit: usize, tally: &mut Tally) -> Done<()> {
        let txn = self.db.begin_read().map_err(Failure::engine)?;
        let table = txn.open_table(ROWS).map_err(Failure::engine)?;
        for row in table.range::<&Key>(start..).map_err(Failure::engine)?.take(limit) {
            let (key, value) = row.map_err(Failure::engine)?;
            tally.row(key.value(), value.value());
        }
        Ok(())
    }

    fn snapshot(&self) -> Done<Box<dyn Snapshot + '_>> {
        Ok(Box::new(View(self.db.begin_read().map_err(Failure::engine)?)))
    }

    fn close(self: Box<Self>) -> Done<()> {
        self.db.close().map_err(Failure::engine)
    }
}

impl Snapshot for View {
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        into.clear();
        let table = self.0.open_table(ROWS).map_err(Failure::engine)?;
        let value = table.get(key).map_err(Failure::engine)?;
        if let Some(value) = &value {
            into.extend_from_slice(value.value());
        }
        Ok(value.is_some())
    }
}
