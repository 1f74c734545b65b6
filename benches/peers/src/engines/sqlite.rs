//! SQLite: a B-tree with a write-ahead log, reached through SQL.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension};

use crate::data::Key;
use crate::engine::{Done, Engine, Failure, Kind, Level, Row, Snapshot, Tally};

pub(super) const KIND: Kind = Kind {
    name: "sqlite",
    configured:
        "WAL, WITHOUT ROWID, prepared statements; memory: synchronous OFF; buffered: NORMAL; strict: FULL; \
                 bulk: one transaction, no journal, synchronous FULL",
    open,
    has: |_| true,
};

const GET: &str = "SELECT value FROM rows WHERE key = ?1";
const PUT: &str =
    "INSERT INTO rows (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const RANGE: &str = "SELECT key, value FROM rows WHERE key >= ?1 ORDER BY key LIMIT ?2";

/// One connection writes and one reads. A lock in the process queues writers better than SQLite's busy
/// handler, which sleeps.
struct Sqlite {
    path: PathBuf,
    level: Level,
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
}

struct View<'a>(MutexGuard<'a, Connection>);

fn open(dir: &Path, level: Level) -> Done<Box<dyn Engine>> {
    let path = dir.join("rows.sqlite");
    let writer = Mutex::new(connect(&path, level).map_err(Failure::engine)?);
    let reader = Mutex::new(connect(&path, level).map_err(Failure::engine)?);
    Ok(Box::new(Sqlite { path, level, writer, reader }))
}

fn connect(path: &Path, level: Level) -> rusqlite::Result<Connection> {
    let synchronous = match level {
        Level::Memory => "OFF",
        Level::Buffered => "NORMAL",
        Level::Strict => "FULL",
    };
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -(super::cache_bytes() as i64 / 1024))?;
    connection.pragma_update(None, "mmap_size", super::cache_bytes() as i64)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    )?;
    Ok(connection)
}

/// A panic elsewhere has already failed the run.
fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bulk_load(connection: &mut Connection, rows: &mut dyn Iterator<Item = Row<'_>>) -> rusqlite::Result<()> {
    // An empty store has nothing that a journal could bring back. Without one, the commit syncs the file
    // itself.
    connection.pragma_update(None, "journal_mode", "OFF")?;
    let txn = connection.transaction()?;
    {
        let mut put = txn.prepare("INSERT INTO rows (key, value) VALUES (?1, ?2)")?;
        for (key, value) in rows {
            put.execute((key.as_slice(), value))?;
        }
    }
    txn.commit()?;
    connection.pragma_update(None, "journal_mode", "WAL")
}

fn get(connection: &Connection, key: &Key, into: &mut Vec<u8>) -> rusqlite::Result<bool> {
    into.clear();
    let mut get = connection.prepare_cached(GET)?;
    let found = get
        .query_row([key.as_slice()], |row| {
            into.extend_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(())
        })
        .optional()?;
    Ok(found.is_some())
}

fn range(connection: &Connection, start: &[u8], limit: i64, tally: &mut Tally) -> rusqlite::Result<()> {
    let mut range = connection.prepare_cached(RANGE)?;
    let mut rows = range.query((start, limit))?;
    while let Some(row) = rows.next()? {
        tally.row(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
    }
    Ok(())
}

impl Engine for Sqlite {
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Row<'_>>) -> Done<()> {
        // The journal can be changed only by the sole connection.
        let mut reader = lock(&self.reader);
        *reader = Connection::open_in_memory().map_err(Failure::engine)?;
        bulk_load(&mut lock(&self.writer), rows).map_err(Failure::engine)?;
        *reader = connect(&self.path, self.level).map_err(Failure::engine)?;
        Ok(())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Done<()> {
        let writer = lock(&self.writer);
        let mut put = writer.prepare_cached(PUT).map_err(Failure::engine)?;
        put.execute((key.as_slice(), value)).map_err(Failure::engine)?;
        Ok(())
    }

    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        get(&lock(&self.reader), key, into).map_err(Failure::engine)
    }

    fn scan(&self, tally: &mut Tally) -> Done<()> {
        // A negative limit is none.
        range(&lock(&self.reader), &[], -1, tally).map_err(Failure::engine)
    }

    fn range(&self, start: &Key, limit: usize, tally: &mut Tally) -> Done<()> {
        let limit = i64::try_from(limit).unwrap_or(-1);
        range(&lock(&self.reader), start, limit, tally).map_err(Failure::engine)
    }

    fn snapshot(&self) -> Done<Box<dyn Snapshot + '_>> {
        let view = View(lock(&self.reader));
        // A transaction begins to see a fixed state with its first read.
        view.0
            .prepare_cached("BEGIN")
            .and_then(|mut begin| begin.execute(()))
            .and_then(|_| get(&view.0, &[0; 16], &mut Vec::new()))
            .map_err(Failure::engine)?;
        Ok(Box::new(view))
    }

    fn close(self: Box<Self>) -> Done<()> {
        let close = |connection: Mutex<Connection>| {
            let connection = connection.into_inner().unwrap_or_else(PoisonError::into_inner);
            connection.close().map_err(|(_, error)| Failure::engine(error))
        };
        // The last connection to close copies the log into the file.
        close(self.reader)?;
        close(self.writer)
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        get(&self.0, key, into).map_err(Failure::engine)
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // Only a read transaction ends here: it can lose nothing, and if it stays open the next BEGIN fails
        // loudly.
        drop(self.0.prepare_cached("COMMIT").and_then(|mut commit| commit.execute(())));
    }
}
