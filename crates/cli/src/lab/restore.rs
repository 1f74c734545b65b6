//! `duramen lab restore`: by hand, and as the guardian of a run.

use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output,
};
use clap::Args;
use duramen_replication::restore::{put_back, watch, Outcome as Restored, RestoreFile};
use duramen_reports::suite::SuiteError;
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab restore
  duramen lab restore out/home/lab/restore/kd7ghw2m.json

A run on your servers records each change before it makes it, and restores everything at its end. If the run is killed,
another process does that. This command is for when neither could: the servers or the machine were down. You can repeat
it: what has been restored is left alone, and a file that fails or cannot be read does not affect the others.

Exit status: 1 when something could not be restored; its file is kept then";

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// What a run has written down [default: all files in the folder lab/restore of the home]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Wait for the end of the input, then put back what the file says; a run starts its guardian so
    #[arg(long, hide = true, requires = "file")]
    when_orphaned: bool,
}

/// What came of one file.
#[derive(Serialize)]
struct Line {
    restored: PathBuf,
    #[serde(flatten)]
    outcome: Restored,
}

pub(super) async fn run(context: &Context, restore: Restore) -> Outcome {
    if let (true, Some(file)) = (restore.when_orphaned, &restore.file) {
        return guard(file).await;
    }
    let is_named = restore.file.is_some();
    let files = match restore.file {
        Some(file) => vec![file],
        None => RestoreFile::list(&context.home)?,
    };
    let mut lines = Vec::new();
    for file in files {
        let outcome = match one(&file).await {
            Ok(outcome) => outcome,
            // Something else has put it back since the folder was looked at.
            Err(_) if !is_named && !file.exists() => continue,
            Err(error) => left(&file, error.to_string()),
        };
        lines.push(Line { restored: file, outcome });
    }
    if context.json {
        output::json(&lines)?;
    } else {
        report(context, &lines);
    }
    let complete = lines.iter().all(|line| line.outcome.left.is_empty());
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// What a file says is put back. One that fails keeps no other from it.
async fn one(file: &Path) -> Result<Restored, SuiteError> {
    match RestoreFile::take_over(file)? {
        Some(found) => put_back(found).await,
        None => Ok(left(file, "the run still goes on, or something else puts it back".to_owned())),
    }
}

fn left(file: &Path, why: String) -> Restored {
    Restored { left: vec![why], file: file.exists().then(|| file.to_owned()), ..Restored::default() }
}

fn report(context: &Context, lines: &[Line]) {
    if lines.is_empty() {
        let folder = RestoreFile::folder(&context.home);
        output::line(format_args!("nothing is to be put back: there is no file in {}", folder.display()));
    }
    for Line { restored, outcome } in lines {
        output::line(format_args!("{}:", restored.display()));
        for done in &outcome.done {
            output::line(format_args!("  {done}"));
        }
        for theirs in &outcome.theirs {
            output::line(format_args!("  {theirs}"));
        }
        for left in &outcome.left {
            output::line(format_args!("  not put back: {left}"));
        }
        match &outcome.file {
            None if !outcome.left.is_empty() => output::line("  there is no such file"),
            None if outcome.done.is_empty() && outcome.theirs.is_empty() => {
                output::line("  everything was back already; the file is removed")
            }
            None if !outcome.theirs.is_empty() => output::line("  all else is back; the file is removed"),
            None => output::line("  everything is back; the file is removed"),
            Some(_) => output::line("  the file is kept; run this again when that is fixed"),
        }
    }
}

/// Nobody reads what a guardian says; its exit status is for who looks.
async fn guard(file: &Path) -> Outcome {
    let file = file.to_owned();
    let watched = tokio::task::spawn_blocking(move || watch(&file)).await;
    let watched = watched.map_err(|error| Failure::Other(format!("the guardian failed: {error}")))??;
    let complete = watched.is_none_or(|outcome| outcome.left.is_empty());
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
