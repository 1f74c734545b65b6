//! `log`, `status` and `report`: what reads the log, while others may work.

use super::handle::Handle;
use crate::{context::Outcome, failure::Failure, output};
use clap::Args;
use duramen_experiment::{report, spec::Spec, state::State};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(super) const LOG_EXAMPLES: &str = "\
Examples:
  duramen lab experiment log
  duramen lab experiment log 7
  duramen lab experiment log --json";
pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  duramen lab experiment status
  duramen lab experiment status --json

It needs no lock, so you can use it during a run.";
pub(super) const REPORT_EXAMPLES: &str = "\
Examples:
  duramen lab experiment report
  duramen lab experiment report --markdown - > experiments.md
  duramen lab experiment report --html out/parser.html

Without a file it writes experiments.md and experiments.html into the folder of the series.";

/// The report's files in the folder of a series.
const MARKDOWN: &str = "experiments.md";
const PAGE: &str = "experiments.html";

#[derive(Debug, Args)]
pub(super) struct Log {
    /// Show this try in full
    #[arg(value_name = "TRY")]
    number: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct Report {
    /// Write it as Markdown; `-` prints it
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write it as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn log(handle: &Handle<'_>, log: &Log) -> Outcome {
    let state = handle.read()?;
    let Some(number) = log.number else {
        handle.report(&report::rows(&state), || report::table(&state))?;
        return Ok(ExitCode::SUCCESS);
    };
    let row = report::rows(&state).into_iter().find(|row| row.number == number);
    let text = report::one(&state, number);
    let (Some(row), Some(text)) = (row, text) else {
        return Err(Failure::Other(format!("there is no try {number}; `log` lists them")));
    };
    handle.report(&row, || text)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn status(handle: &Handle<'_>) -> Outcome {
    let state = handle.read()?;
    let is_changed = is_spec_changed(handle, &state);
    let mut document = serde_json::to_value(report::overview(&state))
        .map_err(|error| Failure::Other(format!("the state has no JSON form: {error}")))?;
    document["spec_changed"] = json!(is_changed);
    handle.report(&document, || {
        let mut text = report::status(&state);
        if is_changed {
            text.push_str("the spec was changed since: `baseline` begins a new segment with it\n");
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the file says something else than the segment was begun with, of what a verdict can depend on.
fn is_spec_changed(handle: &Handle<'_>, state: &State) -> bool {
    let Some(segment) = state.current() else { return false };
    let then = Spec::parse(&segment.spec, &handle.spec()).ok();
    let now = Spec::read(&handle.spec()).ok().map(|(spec, _)| spec);
    now.map(|spec| spec.judged_by()) != then.map(|spec| spec.judged_by())
}

pub(super) fn report(handle: &Handle<'_>, report: &Report) -> Outcome {
    let state = handle.read()?;
    if report.markdown.as_deref() == Some(Path::new("-")) {
        output::print(report::markdown(&state));
        return Ok(ExitCode::SUCCESS);
    }
    let (markdown, html) = match (&report.markdown, &report.html) {
        (None, None) => (Some(handle.folder.join(MARKDOWN)), Some(handle.folder.join(PAGE))),
        (markdown, html) => (markdown.clone(), html.clone()),
    };
    let mut written = Vec::new();
    let texts = [(markdown, report::markdown as fn(&State) -> String), (html, report::html)];
    for (file, text) in texts {
        let Some(file) = file else { continue };
        crate::lab::make_room_for(&file)?;
        fs::write(&file, text(&state)).map_err(Failure::io("write", &file))?;
        written.push(file);
    }
    handle.report(&json!({ "written": written }), || {
        written.iter().map(|file| format!("written: {}\n", file.display())).collect()
    })?;
    Ok(ExitCode::SUCCESS)
}
