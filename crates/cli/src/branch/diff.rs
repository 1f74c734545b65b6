//! What differs between a branch and what it was made of, or another branch: `duramen branch diff`.

use super::schema_diff;
use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output,
};
use clap::{ArgGroup, Args, ValueEnum};
use duramen_api::data_diff::{DataDiff, DIFF_ROWS, DIFF_ROWS_MAX};
use duramen_changes::{
    output::{Format, Printer},
    Part,
};
use std::{process::ExitCode, time::Duration};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen branch diff try --data                                    which rows differ from the source's snapshot
  duramen branch diff try --data --table public.orders --format jsonl
  duramen branch diff try --data --format sql > changes.sql         statements that make it so elsewhere
  duramen branch diff try --data --format csv --limit 100
  duramen branch diff try --schema                                  what it defines, and what to know before
  duramen branch diff try --schema --format ddl                     statements that make it so elsewhere
  duramen branch diff try --schema --against other --format json    from the other branch to this one";

/// How long the next line may take: a table that was rewritten is read as a whole.
pub(crate) const LINE_LIMIT: Duration = Duration::from_secs(3600);

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["data", "schema"]).required(true))]
pub(crate) struct Diff {
    /// The branch's name
    name: String,
    /// Compare rows, and where sequences stand
    #[arg(long)]
    data: bool,
    /// Compare what they define: tables, views, functions and the like
    #[arg(long)]
    schema: bool,
    /// Compare with this branch [default: what the branch was made of]
    #[arg(long, value_name = "BRANCH", conflicts_with = "data")]
    against: Option<String>,
    /// Only this table or sequence; may be given more than once
    #[arg(long, value_name = "SCHEMA.TABLE", conflicts_with = "schema")]
    table: Vec<String>,
    /// How it is written [default: table for rows, text for what they define; jsonl or json with --json]
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// At most so many rows; all are counted [default: 1000 for table, else 1000000]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(0..=i64::from(DIFF_ROWS_MAX)), conflicts_with = "schema")]
    limit: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// Rows for people
    Table,
    /// Rows: an object a line
    Jsonl,
    /// Rows: a line for each value that differs
    Csv,
    /// Rows: statements in one transaction
    Sql,
    /// Definitions for people
    Text,
    /// Definitions: all that is known of them
    Json,
    /// Definitions: a script for psql
    Ddl,
}

impl FormatName {
    /// The format of rows.
    pub(crate) fn of_rows(self) -> Option<Format> {
        match self {
            FormatName::Table => Some(Format::Table),
            FormatName::Jsonl => Some(Format::JsonLines),
            FormatName::Csv => Some(Format::Csv),
            FormatName::Sql => Some(Format::Sql),
            FormatName::Text | FormatName::Json | FormatName::Ddl => None,
        }
    }

    /// The format of definitions.
    pub(crate) fn of_schemas(self) -> Option<schema_diff::Format> {
        match self {
            FormatName::Text => Some(schema_diff::Format::Text),
            FormatName::Json => Some(schema_diff::Format::Json),
            FormatName::Ddl => Some(schema_diff::Format::Ddl),
            FormatName::Table | FormatName::Jsonl | FormatName::Csv | FormatName::Sql => None,
        }
    }
}

pub(crate) fn no_format(what: &str, formats: &str) -> Failure {
    Failure::Other(format!("{what} has the formats {formats}"))
}

pub(super) async fn run(context: &Context, diff: Diff) -> Outcome {
    if diff.schema {
        let otherwise = if context.json { FormatName::Json } else { FormatName::Text };
        let format = diff.format.unwrap_or(otherwise).of_schemas();
        let format = format.ok_or_else(|| no_format("--schema", "text, json and ddl"))?;
        return schema_diff::run(context, &diff.name, diff.against.as_deref(), format).await;
    }
    data(context, diff).await
}

async fn data(context: &Context, diff: Diff) -> Outcome {
    let otherwise = if context.json { FormatName::Jsonl } else { FormatName::Table };
    let format = diff.format.unwrap_or(otherwise);
    let rows = diff.limit.unwrap_or(if format == FormatName::Table { DIFF_ROWS } else { DIFF_ROWS_MAX });
    let tables = (!diff.table.is_empty()).then(|| diff.table.join(","));
    let written = format.of_rows().ok_or_else(|| no_format("--data", "table, jsonl, csv and sql"))?;
    let mut lines = RowLines::new(Printer::new(written));
    let mut connection = context.connect().await?;
    connection.set_deadline(LINE_LIMIT);
    connection.data_diff(&diff.name, tables.as_deref(), rows, |line| lines.line(&line)).await?;
    lines.outcome(format)
}

/// Lines of a comparison, written down as they come.
pub(crate) struct RowLines {
    printer: Printer,
    is_cut: bool,
    read: Result<(), Failure>,
}

impl RowLines {
    pub(crate) fn new(printer: Printer) -> RowLines {
        RowLines { printer, is_cut: false, read: Ok(()) }
    }

    pub(crate) fn line(&mut self, line: &DataDiff) {
        match part(line) {
            Ok(part) => {
                self.is_cut |= matches!(&part, Part::Summary(summary) if summary.rows.is_cut());
                output::print(self.printer.part(&part));
            }
            Err(error) => self.read = Err(error),
        }
    }

    /// What it came to. A script that takes itself back did not do what it was asked for.
    pub(crate) fn outcome(self, format: FormatName) -> Outcome {
        self.read?;
        let is_cut = self.is_cut && format == FormatName::Sql;
        Ok(if is_cut { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
    }
}

/// A line of the interface as what is written down: the same in other words.
pub(crate) fn part(line: &DataDiff) -> Result<Part, Failure> {
    serde_json::to_value(line)
        .and_then(serde_json::from_value)
        .map_err(|error| Failure::Other(format!("the daemon told of a difference that is none: {error}")))
}
