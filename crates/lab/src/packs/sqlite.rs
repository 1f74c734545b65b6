//! The peer: SQLite, as fast as it goes with the same rows and indexes.

use std::fs::File;
use std::path::Path;

use rusqlite::{params_from_iter, Connection};

use super::engine::{Engine, Put, Read, PAGE_ROWS};
use super::workload::{Workload, PRINCIPAL_TYPE, RESOURCE, RESOURCE_TYPE, SEEN_SECONDS};
use duramen_reports::suite::{Cause, SuiteError};

/// One table and two indexes, made after the rows are there. There is no journal while the file is new, no sync before
/// its end, one transaction, prepared statements of many rows, and a sync of file and folder at the end. Ids are not
/// held unique, which favours SQLite.
pub(crate) struct SqliteEngine;

/// Rows of one statement: of 1 to 200, this was the fastest.
const ROWS: usize = 50;

const TABLE: &str = "CREATE TABLE grants (
    id TEXT NOT NULL, resource_type TEXT NOT NULL, resource TEXT NOT NULL, entitlement TEXT NOT NULL,
    principal_type TEXT NOT NULL, principal TEXT NOT NULL, discovered_at INTEGER NOT NULL);";
const INDEXES: &str = "
    CREATE INDEX by_entitlement ON grants (resource_type, resource, entitlement, principal_type, principal);
    CREATE INDEX by_principal ON grants (principal_type, principal, resource_type, resource, entitlement);";
const COLUMNS: usize = 7;

fn insert(rows: usize) -> String {
    let row = format!("({})", ["?"; COLUMNS].join(","));
    format!("INSERT INTO grants VALUES {}", vec![row; rows].join(","))
}

impl Engine for SqliteEngine {
    fn write(&self, path: &Path, workload: &Workload) -> Result<(), Cause> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA page_size = 8192; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
            PRAGMA locking_mode = EXCLUSIVE; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -262144;
            PRAGMA threads = 1; BEGIN;",
        )?;
        connection.execute_batch(TABLE)?;
        {
            let mut many = connection.prepare(&insert(ROWS))?;
            let mut one = connection.prepare(&insert(1))?;
            let whole = workload.len() / ROWS * ROWS;
            for at in (0..whole).step_by(ROWS) {
                bind(&mut many, workload, at..at + ROWS)?;
            }
            for at in whole..workload.len() {
                bind(&mut one, workload, at..at + 1)?;
            }
        }
        connection.execute_batch(INDEXES)?;
        connection.execute_batch("COMMIT;")?;
        connection.close().map_err(|(_, error)| error)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
        sync(path)
            .and_then(|()| sync(folder))
            .map_err(SuiteError::file("make durable", path))
            .map_err(Cause::from)
    }

    fn read(&self, path: &Path, visit: &mut dyn FnMut(Read<'_>)) -> Result<(), Cause> {
        let connection = Connection::open(path)?;
        connection.execute_batch("PRAGMA cache_size = -262144; PRAGMA mmap_size = 1073741824;")?;
        let mut page =
            connection.prepare("SELECT rowid, * FROM grants WHERE rowid > ? ORDER BY rowid LIMIT ?")?;
        let mut last = 0_i64;
        loop {
            let mut rows = page.query((last, PAGE_ROWS as i64))?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
                last = row.get(0)?;
                visit(Read {
                    id: text(1)?,
                    resource_type: text(2)?,
                    resource: text(3)?,
                    entitlement: text(4)?,
                    principal_type: text(5)?,
                    principal: text(6)?,
                    seen_seconds: row.get(7)?,
                });
                count += 1;
            }
            if count < PAGE_ROWS {
                return Ok(());
            }
        }
    }

    fn lookup(&self, path: &Path, user: &str) -> Result<usize, Cause> {
        let connection = Connection::open(path)?;
        let mut query =
            connection.prepare("SELECT * FROM grants WHERE principal_type = ? AND principal = ?")?;
        let mut rows = query.query((PRINCIPAL_TYPE, user))?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            count += usize::from(!row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?.is_empty());
        }
        Ok(count)
    }

    fn put(
        &self,
        path: &Path,
        ids: &[(String, String)],
        timed: &mut dyn FnMut(Put<'_>),
    ) -> Result<(), Cause> {
        let connection = Connection::open(path)?;
        // What is committed outlives the process, not the loss of power: the same promise.
        connection.execute_batch(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
            PRAGMA cache_size = -262144;",
        )?;
        let mut one = connection.prepare(&insert(1))?;
        for (id, user) in ids {
            let mut put = Ok(0);
            timed(&mut || {
                put = one.execute((
                    id,
                    RESOURCE_TYPE,
                    RESOURCE,
                    "app:github:entitlement-0001",
                    PRINCIPAL_TYPE,
                    user,
                    SEEN_SECONDS,
                ));
            });
            put?;
        }
        drop(one);
        connection.close().map_err(|(_, error)| error)?;
        Ok(())
    }
}

fn bind(
    statement: &mut rusqlite::Statement<'_>,
    workload: &Workload,
    rows: std::ops::Range<usize>,
) -> Result<(), Cause> {
    use rusqlite::types::{ToSqlOutput, ValueRef};
    let text = |text: &'static str| ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()));
    let values = rows.flat_map(|at| {
        let row = workload.row(at);
        let own = |text| ToSqlOutput::Borrowed(ValueRef::Text(str::as_bytes(text)));
        [
            own(row.id),
            text(RESOURCE_TYPE),
            text(RESOURCE),
            own(row.entitlement),
            text(PRINCIPAL_TYPE),
            own(row.user),
            ToSqlOutput::Borrowed(ValueRef::Integer(SEEN_SECONDS)),
        ]
    });
    statement.execute(params_from_iter(values))?;
    Ok(())
}
