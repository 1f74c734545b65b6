//! `duramen lab history`: what was measured on this machine, over time; and filing what a run brings back.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::{Args, Subcommand};
use duramen_measure::{evidence::Evidence, host::Machine};
use duramen_reports::{
    compare::better,
    history::{Filed, History, MOST_RUNS},
    machine_id,
    page::Report,
    trends::{self, Series},
    Document,
};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab history
  duramen lab history store
  duramen lab history store --figure 'kv.put.*/strict' --last 20
  duramen lab history packs --html out/packs-history.html
  duramen lab history add out/store.json

Every `duramen lab run` files its evidence in the folder history of the home, by machine and suite; of more than 100
runs the oldest are deleted. Runs of one version and one configuration are a series. Changes are reported from 6 runs on.";
const ADD_EXAMPLES: &str = "\
Examples:
  duramen lab history add out/store.json out/packs.json

Each is filed under the machine and the suite that it names. Existing entries stay as they are";

/// How many figures are listed when none are chosen.
const MOST_LISTED: usize = 40;
/// What the field `schema` of a printed history says.
const SCHEMA_ID: &str = "duramen.history/1";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Histories {
    #[command(subcommand)]
    add: Option<Change>,
    /// Show the figures of this suite [default: one line for each series of each suite]
    #[arg(value_name = "SUITE")]
    suite: Option<String>,
    /// Which figures: globs, separated by commas
    #[arg(long, value_name = "GLOB,...", requires = "suite")]
    figure: Option<String>,
    /// How many of the last runs of each suite to include
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = at_least_one)]
    last: usize,
    /// Results of another machine, by its name, or `all`
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Write a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// File evidence of earlier runs, or of other machines
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// Evidence documents
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is not a number of runs; write 1 or more")),
        Ok(number) => Ok(number),
    }
}

/// The history of a home.
pub(super) fn open(context: &Context) -> History {
    History::at(context.home.join("history"))
}

/// The name of this machine.
pub(super) fn this_machine() -> Result<String, Failure> {
    let machine = Machine::this().map_err(|error| Failure::Other(error.to_string()))?;
    Ok(machine_id(&machine))
}

/// Files what a run brought back. That it cannot be filed is not a failure of the run.
pub(super) fn file(home: &Path, evidence: &Evidence) -> Option<PathBuf> {
    match History::at(home.join("history")).file(evidence) {
        Ok(Filed::New(file) | Filed::Known(file)) => Some(file),
        Ok(Filed::TooOld) => None,
        Err(error) => {
            output::warning(&format_args!("the run is not in the history: {error}"));
            None
        }
    }
}

/// The runs of a machine, of one suite or all. The newest of each suite are whole, the others without what is large.
pub(super) fn runs(
    history: &History,
    machine: &str,
    suite: Option<&str>,
    last: usize,
) -> Result<Vec<Document>, Failure> {
    let other = |error: duramen_reports::history::HistoryError| Failure::Other(error.to_string());
    let suites = match suite {
        Some(suite) => vec![suite.to_owned()],
        None => history.suites(machine).map_err(other)?,
    };
    let mut documents = Vec::new();
    for suite in suites {
        let found = history.runs(machine, &suite, last).map_err(other)?;
        for error in &found.unreadable {
            output::warning(&format_args!("left out of the history: {error}"));
        }
        let count = found.documents.len();
        let slimmed = found.documents.into_iter().enumerate();
        documents.extend(slimmed.map(|(at, run)| if at + 1 < count { run.slim() } else { run }));
    }
    Ok(documents)
}

/// The history as programs read it.
#[derive(Serialize)]
struct Printed<'a> {
    schema: &'static str,
    folder: &'a Path,
    series: &'a [Series],
}

pub(super) fn run(context: &Context, histories: Histories) -> Outcome {
    let history = open(context);
    let Histories { add, suite, figure, last, machine, html } = histories;
    if let Some(Change::Add { files }) = add {
        return file_all(context, &history, &files);
    }
    let machines = match machine.as_deref() {
        Some("all") => history.machines().map_err(|error| Failure::Other(error.to_string()))?,
        Some(name) => vec![name.to_owned()],
        None => vec![this_machine()?],
    };
    let mut documents = Vec::new();
    for machine in &machines {
        documents.extend(runs(&history, machine, suite.as_deref(), last)?);
    }
    if documents.is_empty() {
        return Err(Failure::Other(nothing(&history, &machines, suite.as_deref())));
    }
    let mut series = trends::series(&documents, last, &better);
    if let Some(globs) = &figure {
        series.iter_mut().for_each(|one| one.keep(|name| duramen_lab::store::matches(globs, name)));
        series.retain(|one| !one.figures.is_empty());
        if series.is_empty() {
            return Err(Failure::Other(format!(
                "no figure of {} fits {globs:?}; duramen lab history {0} lists them",
                suite.as_deref().unwrap_or_default()
            )));
        }
    }
    if let Some(file) = &html {
        super::make_room_for(file)?;
        let page = Report::new("Duramen: trends").with_contents().part("Trends", trends::page(&series));
        page.write(file).map_err(|error| Failure::Other(error.to_string()))?;
    }
    if context.json {
        output::json(&Printed { schema: SCHEMA_ID, folder: history.folder(), series: &series })?;
        return Ok(ExitCode::SUCCESS);
    }
    if suite.is_some() {
        let most = if figure.is_some() { usize::MAX } else { MOST_LISTED };
        for one in &series {
            output::line(trends::print_figures(one, most));
        }
    } else {
        output::print(trends::print_series(&series));
    }
    if let Some(file) = html {
        output::line(format_args!("written: {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing(history: &History, machines: &[String], suite: Option<&str>) -> String {
    let what = suite.map_or_else(String::new, |suite| format!(" of the suite {suite}"));
    let known = history.machines().unwrap_or_default();
    let others: Vec<&str> =
        known.iter().filter(|known| !machines.contains(known)).map(String::as_str).collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("; there are results of other machines: --machine {} or --machine all", others.join(", "))
    };
    format!(
        "there are no results{what} of this machine in {}; duramen lab run makes some, and duramen lab history add files \
         those of earlier runs{others}",
        history.folder().display()
    )
}

/// What became of a file.
#[derive(Serialize)]
struct Added {
    document: PathBuf,
    outcome: &'static str,
    filed: Option<PathBuf>,
}

fn file_all(context: &Context, history: &History, files: &[PathBuf]) -> Outcome {
    // All are read before any is filed: a wrong name changes nothing.
    let read = |file: &PathBuf| Document::read(file).map_err(|error| Failure::Other(error.to_string()));
    let documents = files.iter().map(read).collect::<Result<Vec<Document>, Failure>>()?;
    let mut added = Vec::new();
    for document in documents {
        let filed = history.file(&document.evidence).map_err(|error| Failure::Other(error.to_string()))?;
        let (outcome, filed) = match filed {
            Filed::New(file) => ("filed", Some(file)),
            Filed::Known(file) => ("known", Some(file)),
            Filed::TooOld => ("too old", None),
        };
        added.push(Added { document: document.file, outcome, filed });
    }
    if context.json {
        output::json(&added)?;
        return Ok(ExitCode::SUCCESS);
    }
    for Added { document, outcome, filed } in added {
        match filed {
            Some(file) => {
                output::line(format_args!("{outcome}: {} as {}", document.display(), file.display()));
            }
            None => output::line(format_args!(
                "{outcome}: {} is older than the {MOST_RUNS} runs that are kept",
                document.display()
            )),
        }
    }
    Ok(ExitCode::SUCCESS)
}
