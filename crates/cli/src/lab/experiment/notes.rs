//! `ideas`, `closed` and `import`.

use super::handle::Handle;
use crate::{context::Outcome, failure::Failure, output};
use clap::{Args, Subcommand};
use duramen_experiment::{
    report,
    series::{NewIdea, SeriesError},
    state::{Axis, State},
};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

pub(super) const IDEAS_EXAMPLES: &str = "\
Examples:
  duramen lab experiment ideas
  duramen lab experiment ideas add 'sum by 8' --mechanism 'SIMD' --rank 5
  duramen lab experiment ideas change 3 --rank 9
  duramen lab experiment ideas done 3";
pub(super) const CLOSED_EXAMPLES: &str = "\
Examples:
  duramen lab experiment closed
  duramen lab experiment closed add unrolling --mechanism 'the loop waits for memory' --try 7
  duramen lab experiment closed reopen unrolling --mechanism 'the data fits into the cache now'

A try of a closed line of thought is refused, unless it is tried with --although-closed.";
pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  duramen lab experiment import autoresearch.jsonl
  duramen lab experiment import .auto/log.jsonl

Rows are kept beside the tries. Their status was given by hand: it is shown, but has no effect. Rows that were imported
before are skipped.";

#[derive(Debug, Args)]
pub(super) struct Ideas {
    #[command(subcommand)]
    verb: Option<IdeasVerb>,
}

#[derive(Debug, Subcommand)]
enum IdeasVerb {
    /// Write an idea down; prints its number
    #[command(after_help = IDEAS_EXAMPLES)]
    Add(Add),
    /// Change an idea
    #[command(after_help = IDEAS_EXAMPLES)]
    Change(ChangeIdea),
    /// Mark an idea as done
    #[command(after_help = IDEAS_EXAMPLES)]
    Done(Done),
}

#[derive(Debug, Args)]
struct Add {
    /// What to do
    #[arg(value_name = "TEXT")]
    text: String,
    /// Why it should help
    #[arg(long, value_name = "TEXT", default_value = "")]
    mechanism: String,
    /// Higher ranks come first
    #[arg(long, value_name = "N", default_value_t = 0.0, allow_negative_numbers = true)]
    rank: f64,
}

#[derive(Debug, Args)]
struct ChangeIdea {
    /// The idea
    #[arg(value_name = "N")]
    idea: u32,
    /// What to do
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Why it should help
    #[arg(long, value_name = "TEXT")]
    mechanism: Option<String>,
    /// Higher ranks come first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    rank: Option<f64>,
    /// Reopen it
    #[arg(long)]
    reopen: bool,
}

#[derive(Debug, Args)]
struct Done {
    /// The idea
    #[arg(value_name = "N")]
    idea: u32,
}

#[derive(Debug, Args)]
pub(super) struct Closed {
    #[command(subcommand)]
    verb: Option<ClosedVerb>,
}

#[derive(Debug, Subcommand)]
enum ClosedVerb {
    /// Close a line of thought
    #[command(after_help = CLOSED_EXAMPLES)]
    Add(Close),
    /// Open it again
    #[command(after_help = CLOSED_EXAMPLES)]
    Reopen(Reopen),
}

#[derive(Debug, Args)]
struct Close {
    /// Its name
    #[arg(value_name = "AXIS")]
    axis: String,
    /// The mechanism by which it failed
    #[arg(long, value_name = "TEXT")]
    mechanism: String,
    /// The try that showed it
    #[arg(long = "try", value_name = "N")]
    number: Option<u32>,
}

#[derive(Debug, Args)]
struct Reopen {
    /// Its name
    #[arg(value_name = "AXIS")]
    axis: String,
    /// Why it is open again
    #[arg(long, value_name = "TEXT")]
    mechanism: String,
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The log of the other tool
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn ideas(handle: &Handle<'_>, ideas: Ideas) -> Outcome {
    let Some(verb) = ideas.verb else {
        let state = handle.read()?;
        handle.report(&state.open_ideas(), || report::ideas(&state))?;
        return Ok(ExitCode::SUCCESS);
    };
    let number = handle.work("writing", |series| {
        let new = match verb {
            IdeasVerb::Add(Add { text, mechanism, rank }) => {
                NewIdea { idea: None, rank, text, mechanism, done: false }
            }
            IdeasVerb::Change(change) => {
                let mut known = known(series.state(), change.idea)?;
                known.text = change.text.unwrap_or(known.text);
                known.mechanism = change.mechanism.unwrap_or(known.mechanism);
                known.rank = change.rank.unwrap_or(known.rank);
                known.done &= !change.reopen;
                known
            }
            IdeasVerb::Done(Done { idea }) => NewIdea { done: true, ..known(series.state(), idea)? },
        };
        series.idea(&new)
    })?;
    handle.report(&json!({ "idea": number }), || format!("idea {number}"))?;
    Ok(ExitCode::SUCCESS)
}

/// An idea as it is, to be written anew.
fn known(state: &State, number: u32) -> Result<NewIdea, SeriesError> {
    let known = state.ideas.get(&number).cloned().ok_or(SeriesError::NoIdea { number })?;
    let (text, mechanism) = (known.text, known.mechanism);
    Ok(NewIdea { idea: Some(number), rank: known.rank, text, mechanism, done: known.done })
}

pub(super) fn closed(handle: &Handle<'_>, closed: Closed) -> Outcome {
    let (axis, is_closed, mechanism, number) = match closed.verb {
        None => return list_closed(handle),
        Some(ClosedVerb::Add(Close { axis, mechanism, number })) => (axis, true, mechanism, number),
        Some(ClosedVerb::Reopen(Reopen { axis, mechanism })) => (axis, false, mechanism, None),
    };
    let is_open = |state: &State| !state.axes.get(axis.trim()).is_some_and(|axis| axis.closed);
    if !is_closed && is_open(&handle.read()?) {
        return Err(Failure::Other(format!(
            "the axis `{axis}` is not closed; `closed` lists those that are"
        )));
    }
    handle.work("writing", |series| series.axis(&axis, is_closed, &mechanism, number))?;
    handle.report(&json!({ "axis": axis, "closed": is_closed }), || {
        format!("the axis {} is {}", report::one_line(&axis), if is_closed { "closed" } else { "open" })
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list_closed(handle: &Handle<'_>) -> Outcome {
    let state = handle.read()?;
    let closed: Vec<&Axis> = state.closed_axes().collect();
    handle.report(&closed, || {
        if closed.is_empty() {
            return "no line of thought is closed".to_owned();
        }
        let row = |axis: &&Axis| {
            let number = axis.number.map(|number| number.to_string()).unwrap_or_default();
            [report::one_line(&axis.axis), number, report::one_line(&axis.mechanism)]
        };
        output::table(["AXIS", "TRY", "WHY IT FAILED"], closed.iter().map(row))
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn import(handle: &Handle<'_>, import: &Import) -> Outcome {
    let new = handle.work("importing", |series| series.import(&import.file))?;
    handle.report(&json!({ "imported": new }), || match new {
        1 => "1 new row".to_owned(),
        new => format!("{new} new rows"),
    })?;
    Ok(ExitCode::SUCCESS)
}
