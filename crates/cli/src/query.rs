//! `duramen branch query`: one statement, and its rows as a table, JSON or CSV.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output, parse, progress,
};
use clap::{Args, ValueEnum};
use comfy_table::{presets, Table};
use duramen_api::model::{QueryRequest, StatementReply};
use serde_json::{Map, Value};
use std::{io::Read, process::ExitCode, time::Duration};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen branch query try 'SELECT carrier, count(*) FROM flights GROUP BY 1'
  duramen branch query try 'SELECT * FROM flights WHERE origin = $1' --param JFK --max-rows 5
  duramen branch query try 'SELECT * FROM planes' --format csv > planes.csv
  duramen branch query try - < report.sql
A parameter written as \\N is NULL.";

/// The daemon's own figure when no timeout is given.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How much longer than the statement the reply may take.
const GRACE: Duration = Duration::from_secs(15);
/// The longest text that is read from the standard input; the daemon takes no larger request.
const SQL_MAX: u64 = 8 << 20;

#[derive(Debug, Args)]
pub(crate) struct Query {
    /// The branch's name
    name: String,
    /// The statement; `-` reads it from the standard input
    sql: String,
    /// A value for $1, $2, ... in their order (repeatable)
    #[arg(long = "param", value_name = "VALUE", allow_hyphen_values = true)]
    params: Vec<String>,
    /// At most this many rows [default: 1000]
    #[arg(long, value_name = "N")]
    max_rows: Option<u32>,
    /// How long the statement may run [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    timeout: Option<Duration>,
    /// How rows are printed; --json prints the whole reply
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table
    Table,
    /// A JSON array of objects
    Json,
    /// Comma-separated values with a header
    Csv,
}

pub(crate) async fn run(context: &Context, query: Query) -> Outcome {
    let sql = if query.sql == "-" { sql_from_stdin()? } else { query.sql };
    let request = QueryRequest {
        sql: Some(sql),
        params: query.params.into_iter().map(param).collect(),
        statements: Vec::new(),
        max_rows: query.max_rows,
        timeout_ms: query.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
    };
    let mut connection = context.connect().await?;
    connection.set_deadline(query.timeout.unwrap_or(TIMEOUT).saturating_add(GRACE));
    let work = connection.query(&query.name, &request);
    let reply = progress::during("waiting for the rows", work).await?;
    if context.json {
        output::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    for result in &reply.results {
        let rows = rows(result)?;
        match query.format {
            Format::Table => print_table(result, &rows),
            Format::Json => output::json(&objects(result, rows))?,
            Format::Csv => print_csv(result, &rows),
        }
        // On the standard error, so that neither JSON nor CSV has a line that is not a row.
        if result.truncated && query.format != Format::Table {
            output::error(&format_args!(
                "only the first {} rows are shown; see --max-rows",
                result.row_count
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn sql_from_stdin() -> Result<String, Failure> {
    let mut sql = String::new();
    let read = std::io::stdin().lock().take(SQL_MAX).read_to_string(&mut sql);
    read.map_err(Failure::io("read SQL from", "the standard input".as_ref()))?;
    Ok(sql)
}

/// Values travel as text, and the server reads them as the parameter's type.
fn param(text: String) -> Value {
    if text == "\\N" {
        Value::Null
    } else {
        Value::String(text)
    }
}

/// The rows of a result.
pub(crate) fn rows(result: &StatementReply) -> Result<Vec<Vec<Value>>, Failure> {
    serde_json::from_str(result.rows.get()).map_err(|error| {
        Failure::Other(format!("cannot read the rows: {error}; is the daemon of another version?"))
    })
}

/// A value as people read it. NULL is empty in CSV and named in tables.
pub(crate) fn text(value: &Value, null: &str) -> String {
    match value {
        Value::Null => null.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn print_table(result: &StatementReply, rows: &[Vec<Value>]) {
    if result.columns.is_empty() {
        output::line(&result.command);
        return;
    }
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(result.columns.iter().map(|column| &column.name));
    for row in rows {
        table.add_row(row.iter().map(|value| text(value, "NULL")));
    }
    let count = result.row_count;
    let count = match (result.truncated, count) {
        (true, _) => format!("the first {count} rows; more with --max-rows"),
        (_, 1) => "1 row".to_owned(),
        _ => format!("{count} rows"),
    };
    output::print(format_args!("{table}\n({count})\n"));
}

fn objects(result: &StatementReply, rows: Vec<Vec<Value>>) -> Vec<Map<String, Value>> {
    let names = || result.columns.iter().map(|column| column.name.clone());
    rows.into_iter().map(|row| names().zip(row).collect()).collect()
}

fn print_csv(result: &StatementReply, rows: &[Vec<Value>]) {
    let mut csv = String::new();
    let head = result.columns.iter().map(|column| quoted(&column.name));
    push_line(&mut csv, head);
    for row in rows {
        push_line(&mut csv, row.iter().map(quoted_value));
    }
    output::print(csv);
}

fn push_line(csv: &mut String, fields: impl Iterator<Item = String>) {
    csv.push_str(&fields.collect::<Vec<_>>().join(","));
    csv.push('\n');
}

/// NULL is nothing at all, and an empty string is two quotes, as in PostgreSQL's own CSV.
fn quoted_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        other => quoted(&text(other, "")),
    }
}

/// A CSV field (RFC 4180).
fn quoted(field: &str) -> String {
    if field.is_empty() || field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
#[path = "../tests/unit/printed_rows.rs"]
mod tests;
