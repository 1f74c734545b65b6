//! `duramen change show`: what a change set would do.

use super::origin;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::{Args, ValueEnum};
use duramen_carry::ChangeSet;
use duramen_changes::{
    output::{Format, Printer},
    Part,
};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

/// Rows that are shown unless it is said how many.
const ROWS: u64 = 1000;

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The change set
    file: PathBuf,
    /// How it is written [default: text; json with --json]
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// At most so many rows [default: 1000 for text, else all]
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// For people
    Text,
    /// Its statements, as they run
    Ddl,
    /// All of it
    Json,
}

pub(crate) fn run(context: &Context, show: &Show) -> Outcome {
    let set = ChangeSet::open(&show.file)?;
    match show.format.unwrap_or(if context.json { FormatName::Json } else { FormatName::Text }) {
        FormatName::Text => text(&set, show)?,
        FormatName::Ddl => output::print(output::printable(&statements(&set))),
        FormatName::Json => {
            let mut parts: Vec<Part> = Vec::new();
            set.parts(show.limit.unwrap_or(u64::MAX), &mut |part| parts.push(part.clone()))?;
            output::json(&json!({
                "digest": set.digest(),
                "size_bytes": set.size(),
                "head": set.head(),
                "ddl": set.ddl(),
                "parts": parts,
            }))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(set: &ChangeSet, show: &Show) -> Result<(), Failure> {
    let mut rows = vec![("change set", show.file.display().to_string()), ("digest", set.digest())];
    rows.extend(origin(set.head()));
    output::print(output::printable(&output::pairs(rows)));
    if !set.ddl().is_empty() {
        output::line("\nstatements, which run with the rights of whoever applies them:");
        output::print(output::printable(&statements(set)));
    }
    if !set.head().warnings.is_empty() {
        output::line("\nto know before:");
        for warning in &set.head().warnings {
            output::line(output::printable(warning));
        }
    }
    output::line("");
    let mut printer = Printer::new(Format::Table);
    set.parts(show.limit.unwrap_or(ROWS), &mut |part| output::print(printer.part(part)))?;
    Ok(())
}

fn statements(set: &ChangeSet) -> String {
    set.ddl().iter().map(|ddl| format!("{};\n", ddl.sql)).collect()
}
