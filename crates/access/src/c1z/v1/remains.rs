//! What a version 1 database holds that is in no row of a graph: it is counted, so that nothing goes without a word.

use rusqlite::Connection;

use crate::c1z::losses::Losses;

/// A table whose rows are read.
struct Known {
    name: &'static str,
    /// What a row of it is called.
    row: &'static str,
    /// The columns whose content is read, or follows from what is read.
    columns: &'static [&'static str],
}

const TABLES: [Known; 6] = [
    Known {
        name: "v1_sync_runs",
        row: "sync",
        columns: &[
            "sync_id",
            "started_at",
            "ended_at",
            "sync_token",
            "sync_type",
            "parent_sync_id",
            "linked_sync_id",
            "supports_diff",
            // That expansions have columns of their own, which reading does not need to know.
            "grants_backfilled",
        ],
    },
    Known {
        name: "v1_resource_types",
        row: "resource type",
        columns: &["external_id", "data", "sync_id", "discovered_at"],
    },
    Known {
        name: "v1_resources",
        row: "resource",
        columns: &[
            "resource_type_id",
            "external_id",
            "parent_resource_type_id",
            "parent_resource_id",
            "data",
            "sync_id",
            "discovered_at",
        ],
    },
    Known {
        name: "v1_entitlements",
        row: "entitlement",
        columns: &["resource_type_id", "resource_id", "external_id", "data", "sync_id", "discovered_at"],
    },
    Known {
        name: "v1_grants",
        row: "grant",
        columns: &[
            "resource_type_id",
            "resource_id",
            "entitlement_id",
            "principal_resource_type_id",
            "principal_resource_id",
            "external_id",
            "expansion",
            "needs_expansion",
            "data",
            "sync_id",
            "discovered_at",
        ],
    },
    Known {
        name: "v1_assets",
        row: "asset",
        columns: &["external_id", "content_type", "data", "sync_id", "discovered_at"],
    },
];

/// Columns that say one thing together: what their names begin with, and what that is.
const MARKS: (&str, &str) = ("ingest_invariant", "marks of what its writer checked (ingest_invariant)");

/// The column with what the writer counted.
const STATS: &str = "stats";

/// What is in no row.
pub(super) fn of(database: &Connection) -> rusqlite::Result<Losses> {
    let mut losses = Losses::default();
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, u64>(0));
    for table in names(
        database,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite_%'",
    )? {
        let from = quoted(&table);
        let Some(known) = TABLES.iter().find(|known| known.name == table) else {
            let rows = count(&format!("SELECT count(*) FROM {from}"))?;
            match table.as_str() {
                "v1_connector_sessions" => {
                    losses.note_many("session", "values that connectors keep between steps", rows, "");
                }
                _ => losses.note_many("row", "rows of tables that are not known", rows, &table),
            }
            continue;
        };
        let columns = names(database, &format!("SELECT name FROM pragma_table_info({})", text(&table)))?;
        let strange = |column: &&String| **column != "id" && !known.columns.contains(&column.as_str());
        let (marks, others): (Vec<&String>, Vec<&String>) =
            columns.iter().filter(strange).partition(|column| column.starts_with(MARKS.0));
        let is_said = |column: &&String| format!("ifnull({0}, '') NOT IN ('', 0)", quoted(column));
        if !marks.is_empty() {
            let any: Vec<String> = marks.iter().map(is_said).collect();
            let rows = count(&format!("SELECT count(*) FROM {from} WHERE {}", any.join(" OR ")))?;
            losses.note_many(known.row, MARKS.1, rows, "");
        }
        for column in others {
            let rows = count(&format!("SELECT count(*) FROM {from} WHERE {}", is_said(&column)))?;
            losses.note_many(
                known.row,
                &match column.as_str() {
                    STATS => "statistics, which readers count anew".to_owned(),
                    other => format!("the column {other:?}"),
                },
                rows,
                "",
            );
        }
        if known.name != "v1_sync_runs" && columns.iter().any(|column| column == "sync_id") {
            let rows = count(&format!(
                "SELECT count(*) FROM {from} WHERE sync_id NOT IN (SELECT sync_id FROM v1_sync_runs)"
            ))?;
            losses.note_many(known.row, "rows of syncs that are not in the file", rows, "");
        }
    }
    Ok(losses)
}

fn names(database: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = database.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    names.collect()
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL has it.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
