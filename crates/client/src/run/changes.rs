//! Which tables of a branch are not as they were. The server's own counters tell that of rows, the numbers of its files of the rest.

use crate::{Client, ClientError};
use duramen_api::model::{BranchEvidence, QueryRequest};
use duramen_base::clock;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::sleep;

/// Tables that are looked at.
const TABLES_MAX: u32 = 100_000;
/// Changed tables whose rows are counted, and how long each of them may take.
const COUNTED_MAX: usize = 20;
const COUNT_LIMIT: Duration = Duration::from_secs(5);
/// How long the sessions of a command that has ended may take to end, too: they count what they did at their end.
const SESSIONS_LIMIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// A row a table: its id, its name in SQL and as it is, the number of its file, rows inserted, updated, deleted.
const TABLES: &str = "
SELECT c.oid::bigint, pg_catalog.format('%I.%I', n.nspname, c.relname),
       pg_catalog.current_database() || '.' || n.nspname || '.' || c.relname,
       pg_catalog.pg_relation_filenode(c.oid)::bigint, pg_catalog.pg_stat_get_tuples_inserted(c.oid),
       pg_catalog.pg_stat_get_tuples_updated(c.oid), pg_catalog.pg_stat_get_tuples_deleted(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'";
const SESSIONS: &str = "
SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()";

/// What happened to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Change {
    /// Rows were written.
    Written,
    /// It has another file: it was truncated, or rewritten as a whole (`ALTER TABLE`, `CLUSTER`, `VACUUM FULL`).
    Rewritten,
    /// It was not there.
    Created,
    /// It is not there any more.
    Dropped,
}

/// A table that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableChange {
    /// Its name, as in SQL: `schema.table`.
    pub name: String,
    /// What happened to it.
    pub change: Change,
    /// Rows that were inserted; those that were rolled back are in these numbers.
    pub inserted: u64,
    /// Rows that were updated.
    pub updated: u64,
    /// Rows that were deleted.
    pub deleted: u64,
    /// Rows that it has now, if they could be counted in a short time.
    pub rows: Option<u64>,
    /// Rows that the source had when it was imported, if the evidence says that.
    pub rows_in_source: Option<u64>,
    /// Its name in the evidence.
    #[serde(skip)]
    known_as: String,
}

/// The tables of a branch at one moment.
#[derive(Debug, Clone)]
pub struct Tables {
    all: BTreeMap<i64, Table>,
    sessions: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Table {
    name: String,
    known_as: String,
    file: i64,
    written: [i64; 3],
}

impl Tables {
    /// Those of a branch now.
    ///
    /// # Errors
    /// When the daemon is not there, or refuses to ask the branch.
    pub async fn of(client: &Client, branch: &str) -> Result<Tables, ClientError> {
        let sessions = first(&rows(client, branch, SESSIONS, COUNT_LIMIT).await?);
        let read = |row: &Vec<Value>| {
            let number = |at: usize| row.get(at).and_then(Value::as_i64).unwrap_or_default();
            let text = |at: usize| row.get(at).and_then(Value::as_str).unwrap_or_default().to_owned();
            let table = Table {
                name: text(1),
                known_as: text(2),
                file: number(3),
                written: [number(4), number(5), number(6)],
            };
            (number(0), table)
        };
        let all = rows(client, branch, TABLES, COUNT_LIMIT * 2).await?.iter().map(read).collect();
        Ok(Tables { all, sessions })
    }

    /// What is not as it was at that moment, by name. Rows are not counted.
    ///
    /// # Errors
    /// When the daemon is not there, or refuses to ask the branch.
    pub async fn written(&self, client: &Client, branch: &str) -> Result<Vec<TableChange>, ClientError> {
        let begin = clock::now();
        while first(&rows(client, branch, SESSIONS, COUNT_LIMIT).await?) > self.sessions
            && begin.elapsed() < SESSIONS_LIMIT
        {
            sleep(POLL).await;
        }
        Ok(self.compared(&Tables::of(client, branch).await?))
    }

    /// The same, with the rows that the first of them have now.
    pub(super) async fn changes(
        &self,
        client: &Client,
        branch: &str,
    ) -> Result<Vec<TableChange>, ClientError> {
        let mut changes = self.written(client, branch).await?;
        let there = changes.iter_mut().filter(|table| table.change != Change::Dropped);
        for table in there.take(COUNTED_MAX) {
            let sql = format!("SELECT pg_catalog.count(*) FROM {}", table.name);
            let counted = rows(client, branch, &sql, COUNT_LIMIT).await;
            table.rows = counted.ok().and_then(|rows| u64::try_from(first(&rows)).ok());
        }
        Ok(changes)
    }

    fn compared(&self, now: &Tables) -> Vec<TableChange> {
        let changed = |table: &Table, change, written: [i64; 3]| {
            let [inserted, updated, deleted] = written.map(|rows| u64::try_from(rows).unwrap_or_default());
            TableChange {
                name: table.name.clone(),
                change,
                inserted,
                updated,
                deleted,
                rows: None,
                rows_in_source: None,
                known_as: table.known_as.clone(),
            }
        };
        let there = now.all.iter().filter_map(|(id, table)| {
            let Some(before) = self.all.get(id) else {
                return Some(changed(table, Change::Created, table.written));
            };
            let written: [i64; 3] = std::array::from_fn(|at| table.written[at] - before.written[at]);
            if table.file != before.file {
                Some(changed(table, Change::Rewritten, written))
            } else {
                (written != [0; 3]).then(|| changed(table, Change::Written, written))
            }
        });
        let gone = self.all.iter().filter(|(id, _)| !now.all.contains_key(id));
        let gone = gone.map(|(_, table)| changed(table, Change::Dropped, [0; 3]));
        let mut changes: Vec<TableChange> = there.chain(gone).collect();
        changes.sort_by(|one, other| one.name.cmp(&other.name));
        changes
    }
}

/// Adds what the evidence knows of the tables in the source.
pub(super) fn compare(changes: &mut [TableChange], evidence: &BranchEvidence) {
    for table in changes.iter_mut().filter(|table| table.change != Change::Created) {
        table.rows_in_source =
            evidence.source_at_import.contents.get(&table.known_as).map(|content| content.count);
    }
}

async fn rows(
    client: &Client,
    branch: &str,
    sql: &str,
    limit: Duration,
) -> Result<Vec<Vec<Value>>, ClientError> {
    let request = QueryRequest {
        sql: Some(sql.to_owned()),
        max_rows: Some(TABLES_MAX),
        timeout_ms: u64::try_from(limit.as_millis()).ok(),
        ..QueryRequest::default()
    };
    let reply = client.connect().await?.query(branch, &request).await?;
    let rows = reply.results.first().and_then(|result| serde_json::from_str(result.rows.get()).ok());
    Ok(rows.unwrap_or_default())
}

/// The number that a statement gives.
fn first(rows: &[Vec<Value>]) -> i64 {
    rows.first().and_then(|row| row.first()).and_then(Value::as_i64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(all: &[(i64, &str, i64, [i64; 3])]) -> Tables {
        let table = |(id, name, file, written): &(i64, &str, i64, [i64; 3])| {
            let table =
                Table { name: (*name).to_owned(), known_as: String::new(), file: *file, written: *written };
            (*id, table)
        };
        Tables { all: all.iter().map(table).collect(), sessions: 0 }
    }

    #[test]
    fn every_kind_of_change_is_told_apart() {
        let before = tables(&[
            (1, "same", 1, [5, 0, 0]),
            (2, "written", 2, [5, 1, 0]),
            (3, "emptied", 3, [0; 3]),
            (4, "gone", 4, [9; 3]),
        ]);
        let now = tables(&[
            (1, "same", 1, [5, 0, 0]),
            (2, "written", 2, [7, 1, 3]),
            (3, "emptied", 30, [0; 3]),
            (5, "fresh", 5, [2, 0, 0]),
        ]);
        let found: Vec<(String, Change, [u64; 3])> = before
            .compared(&now)
            .into_iter()
            .map(|table| (table.name, table.change, [table.inserted, table.updated, table.deleted]))
            .collect();
        let expected = [
            ("emptied", Change::Rewritten, [0; 3]),
            ("fresh", Change::Created, [2, 0, 0]),
            ("gone", Change::Dropped, [0; 3]),
            ("written", Change::Written, [2, 0, 3]),
        ];
        let expected: Vec<(String, Change, [u64; 3])> =
            expected.into_iter().map(|(name, change, rows)| (name.to_owned(), change, rows)).collect();
        assert_eq!(found, expected);
        assert!(before.compared(&before).is_empty());
    }
}
