//! What differs between a branch and the snapshot that it was cloned from: `duramen branch diff`.

use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output,
};
use clap::{Args, ValueEnum};
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
  duramen branch diff try --data --format csv --limit 100";

/// How long the next line may take: a table that was rewritten is read as a whole.
const LINE_LIMIT: Duration = Duration::from_secs(3600);

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The branch's name
    name: String,
    /// Compare rows, and where sequences stand
    #[arg(long, required = true)]
    data: bool,
    /// Only this table or sequence; may be given more than once
    #[arg(long, value_name = "SCHEMA.TABLE")]
    table: Vec<String>,
    /// How it is written [default: table; jsonl with --json]
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// At most so many rows; all are counted [default: 1000 for table, else 1000000]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(0..=i64::from(DIFF_ROWS_MAX)))]
    limit: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// For people
    Table,
    /// An object a line
    Jsonl,
    /// A line for each value that differs
    Csv,
    /// Statements in one transaction
    Sql,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Format {
        match name {
            FormatName::Table => Format::Table,
            FormatName::Jsonl => Format::JsonLines,
            FormatName::Csv => Format::Csv,
            FormatName::Sql => Format::Sql,
        }
    }
}

pub(super) async fn run(context: &Context, diff: Diff) -> Outcome {
    let otherwise = if context.json { FormatName::Jsonl } else { FormatName::Table };
    let format = diff.format.unwrap_or(otherwise);
    let rows = diff.limit.unwrap_or(if format == FormatName::Table { DIFF_ROWS } else { DIFF_ROWS_MAX });
    let tables = (!diff.table.is_empty()).then(|| diff.table.join(","));
    let mut printer = Printer::new(format.into());
    let mut read = Ok(());
    let mut is_cut = false;
    let mut connection = context.connect().await?;
    connection.set_deadline(LINE_LIMIT);
    connection
        .data_diff(&diff.name, tables.as_deref(), rows, |line| match part(&line) {
            Ok(part) => {
                is_cut |= matches!(&part, Part::Summary(summary) if summary.rows.is_cut());
                output::print(printer.part(&part));
            }
            Err(error) => read = Err(error),
        })
        .await?;
    read?;
    // A script that takes itself back did not do what it was asked for.
    Ok(if is_cut && format == FormatName::Sql { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// A line of the interface as what is written down: the same in other words.
fn part(line: &DataDiff) -> Result<Part, Failure> {
    serde_json::to_value(line)
        .and_then(serde_json::from_value)
        .map_err(|error| Failure::Other(format!("the daemon told of a difference that is none: {error}")))
}
