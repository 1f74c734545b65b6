//! What tables there are, in as few words as a model needs to write a statement.

use super::interface::Interface;
use duramen_api::model::QueryReply;
use duramen_client::ClientError;
use serde_json::Value;
use std::{fmt::Write, time::Duration};

/// How long the catalogue is read.
const LIMIT: Duration = Duration::from_secs(30);
/// Tables in short, and bytes of all of them.
const TABLES_MAX: usize = 200;
const BYTES_MAX: usize = 32 << 10;
/// Bytes of one table in short; the rest is seen when it is asked for alone.
const LINE_MAX: usize = 2000;
/// Tables of one name that are described.
const SAME_NAME_MAX: i64 = 5;

/// One row a table: name, kind, number of rows (or -1), columns, keys.
const ALL: &str = "
SELECT n.nspname || '.' || c.relname, c.relkind::text, c.reltuples::bigint,
       (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                          || CASE WHEN a.attnotnull THEN '!' ELSE '' END, ', ' ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       (SELECT string_agg(pg_get_constraintdef(k.oid), '; ' ORDER BY k.contype DESC, k.conname)
        FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'f'))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY 1";

/// One row a table of a name: name, kind, number of rows, comment, columns, constraints, indexes, partitions.
const ONE: &str = "
SELECT n.nspname || '.' || c.relname, c.relkind::text, c.reltuples::bigint, obj_description(c.oid, 'pg_class'),
       (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                          || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
                          || CASE WHEN a.attidentity <> '' THEN ' IDENTITY' ELSE '' END
                          || CASE WHEN d.adbin IS NULL THEN ''
                                  WHEN a.attgenerated <> '' THEN ' GENERATED AS ' || pg_get_expr(d.adbin, d.adrelid)
                                  ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END
                          || coalesce(' -- ' || col_description(c.oid, a.attnum), ''), E'\\n' ORDER BY a.attnum)
        FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       (SELECT string_agg(k.conname || ' ' || pg_get_constraintdef(k.oid), E'\\n' ORDER BY k.contype DESC, k.conname)
        FROM pg_constraint k WHERE k.conrelid = c.oid),
       (SELECT string_agg(pg_get_indexdef(i.indexrelid), E'\\n' ORDER BY i.indexrelid)
        FROM pg_index i WHERE i.indrelid = c.oid),
       (SELECT count(*) FROM pg_inherits h WHERE h.inhparent = c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (n.nspname || '.' || c.relname = $1 OR c.relname = $1)
ORDER BY n.nspname LIKE 'pg\\_%', 1 LIMIT $2";

/// All tables in short, a line each; or all about one.
///
/// # Errors
/// What the daemon refuses, and tables that are not there.
pub(super) async fn describe(
    interface: &Interface,
    branch: &str,
    table: Option<&str>,
) -> Result<String, super::tools::Failure> {
    let Some(table) = table else {
        let sql = ALL.to_owned();
        return Ok(in_short(&rows(&interface.look(branch, false, sql, Vec::new(), LIMIT).await?)));
    };
    let params = vec![Value::from(table), Value::from(SAME_NAME_MAX)];
    let found = rows(&interface.look(branch, false, ONE.to_owned(), params, LIMIT).await?);
    if found.is_empty() {
        let message = format!(
            "unknown_table: there is no table {table:?} in {branch}; describe without a table lists all"
        );
        return Err(super::tools::Failure::Said(message));
    }
    Ok(shortened(found.iter().map(|row| in_full(row)).collect::<Vec<_>>().join("\n"), BYTES_MAX))
}

fn rows(reply: &QueryReply) -> Vec<Vec<Value>> {
    let rows = reply.results.first().map(|result| result.rows.get());
    rows.and_then(|rows| serde_json::from_str(rows).ok()).unwrap_or_default()
}

fn in_short(rows: &[Vec<Value>]) -> String {
    if rows.is_empty() {
        return "there are no tables".to_owned();
    }
    let mut text = "table(about so many rows): column type, ! is NOT NULL; keys\n".to_owned();
    let mut count = 0;
    for row in rows.iter().take(TABLES_MAX) {
        let mut line = format!("{}: {}", head(row), word(row, 3));
        let keys = word(row, 4);
        if !keys.is_empty() {
            let _ = write!(line, "; {keys}");
        }
        let mut line = shortened(line, LINE_MAX);
        line.push('\n');
        if text.len() + line.len() > BYTES_MAX {
            break;
        }
        text.push_str(&line);
        count += 1;
    }
    if count < rows.len() {
        let _ = writeln!(
            text,
            "... and {} more: query pg_catalog.pg_tables for their names, and describe those that you need",
            rows.len() - count
        );
    }
    text
}

fn in_full(row: &[Value]) -> String {
    let mut text = head(row);
    let comment = word(row, 3);
    if !comment.is_empty() {
        let _ = write!(text, " -- {comment}");
    }
    for (title, at) in [("", 4), ("constraints", 5), ("indexes", 6)] {
        let lines = word(row, at);
        if lines.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{title}{}", if title.is_empty() { "" } else { ":\n" });
        text.push_str(&lines.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"));
    }
    if let Some(partitions) = row.get(7).and_then(Value::as_i64).filter(|count| *count > 0) {
        let _ = write!(text, "\npartitions or children: {partitions}");
    }
    text.push('\n');
    text
}

/// Its name and how many rows it has, as far as the server knows.
fn head(row: &[Value]) -> String {
    let kind = match word(row, 1) {
        "v" => "view",
        "m" => "materialized view",
        "f" => "foreign table",
        _ => "",
    };
    let rows = row.get(2).and_then(Value::as_i64).filter(|rows| *rows >= 0 && kind != "view");
    let facts = match (kind, rows) {
        ("", None) => String::new(),
        ("", Some(rows)) => format!("(~{rows})"),
        (kind, _) => format!("({kind})"),
    };
    format!("{}{facts}", word(row, 0))
}

fn word(row: &[Value], at: usize) -> &str {
    row.get(at).and_then(Value::as_str).unwrap_or_default()
}

/// A text without what is beyond so many bytes.
fn shortened(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push_str(" ... (cut)");
    }
    text
}

/// The plan of a statement, which is not run.
///
/// # Errors
/// What the daemon refuses.
pub(super) async fn explain(
    interface: &Interface,
    branch: &str,
    sql: &str,
    params: Vec<Value>,
) -> Result<String, ClientError> {
    // Options in parentheses: a statement cannot bring ANALYZE along behind them.
    let reply = interface.look(branch, true, format!("EXPLAIN (FORMAT TEXT) {sql}"), params, LIMIT).await?;
    let lines = rows(&reply);
    let lines: Vec<&str> = lines.iter().map(|row| word(row, 0)).collect();
    Ok(shortened(lines.join("\n"), BYTES_MAX))
}
