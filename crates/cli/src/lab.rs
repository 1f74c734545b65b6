//! The lab: `duramen lab run ...` and what is done with what it brings back.

mod agent;
mod branches;
mod compare;
mod diagnose;
mod drill;
mod experiment;
mod functions;
mod history;
mod lineage;
mod list;
mod packs;
mod pair;
mod replication;
mod report;
mod restore;
mod store;
mod watch;

use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED, INVALID},
    output,
    progress::Progress,
};
use clap::{Args, Subcommand};
use duramen_measure::evidence::{Evidence, Verdict};
use duramen_reports::suite::{self, Measured, Output, Plan, Suite as MeasuringSuite};
use std::{path::PathBuf, process::ExitCode};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen lab list
  duramen lab run branches
  duramen lab run branches --json out/branches.json --html out/branches.html
  duramen lab run store --rows 20000 --seconds 0.2 --json out/store.json
  duramen lab run functions --json out/functions.json
  duramen lab run packs --json out/packs.json
  duramen lab run replication --quick
  duramen lab run replication S2 --source app
  duramen lab diagnose out/store.json
  duramen lab compare before.json after.json
  duramen lab experiment status
  duramen lab history store
  duramen lab report --out out/site.html
  duramen lab watch replication --primary 'host=db1 user=watcher'
  duramen lab drill failover kill --times 5
  duramen lab restore";
const RUN_EXAMPLES: &str = "\
Examples:
  duramen lab run branches --rounds 5 --concurrency 100 --write events
  duramen lab run store --durability memory,strict --ops 'kv.*'
  duramen lab run functions --phase throughput
  duramen lab run replication S2 S7 S8";
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// List the suites, and what can be run alone in them
    #[command(after_help = list::EXAMPLES)]
    List(list::List),
    /// Run a suite
    #[command(subcommand, after_help = RUN_EXAMPLES)]
    Run(Suite),
    /// Watch a live system, and say what holds it up
    #[command(subcommand, after_help = watch::EXAMPLES)]
    Watch(watch::Watch),
    /// Bring up a cluster, break it under load, and say what its clients saw and what was lost
    #[command(subcommand, after_help = drill::EXAMPLES)]
    Drill(drill::Drill),
    /// Apply the rules of the suites to evidence of earlier runs
    #[command(after_help = diagnose::EXAMPLES)]
    Diagnose(diagnose::Diagnose),
    /// Compare two variants, and show how certain each difference is
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Compare),
    /// Try changes of a program, interleave each with its base, and keep what is computed to be better
    #[command(after_help = experiment::EXAMPLES)]
    Experiment(Box<experiment::Experiment>),
    /// Show how figures changed over the runs on this machine
    #[command(after_help = history::EXAMPLES)]
    History(history::Histories),
    /// Show evidence of many runs on one page, or in a summary for a pull request
    #[command(after_help = report::EXAMPLES)]
    Report(report::Pages),
    /// Make load for a run on another machine, which starts this by ssh
    #[command(after_help = agent::EXAMPLES)]
    Agent(agent::Agent),
    /// Restore what a run of the suite `replication` changed on your servers
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::Restore),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Suite {
    /// Rounds of many branches at once: create, query, write, destroy
    #[command(after_help = branches::EXAMPLES)]
    Branches(branches::Branches),
    /// Every operation of the embedded store at every level of durability
    #[command(after_help = store::EXAMPLES)]
    Store(store::Store),
    /// Durable functions: what one costs, how many a second, under kills, over time
    #[command(after_help = functions::EXAMPLES)]
    Functions(functions::Functions),
    /// Access graphs written, read and changed, against SQLite on the same rows
    #[command(after_help = packs::EXAMPLES)]
    Packs(packs::Packs),
    /// Branches of branches: of a busy one, a spine, a bushy tree, many of one
    #[command(after_help = lineage::EXAMPLES)]
    Lineage(lineage::Lineage),
    /// Synchronous replication: what each commit level costs, when commits stop, and why
    #[command(after_help = replication::EXAMPLES)]
    Replication(Box<replication::Replication>),
}

/// All suites.
pub(crate) const SUITES: [&dyn MeasuringSuite; 10] = {
    let [branches, store, functions, packs, lineage] = duramen_lab::SUITES;
    let (replication, watching) = (&duramen_replication::Replication, &duramen_watch::document::Watching);
    let (topologies, failover) = (&duramen_replication::topology::Topologies, &duramen_drill::Failover);
    [
        branches,
        store,
        functions,
        packs,
        lineage,
        replication,
        watching,
        topologies,
        failover,
        &duramen_drill::Shards,
    ]
};

/// The program that runs now, to start daemons with.
pub(crate) fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::io("find", "the running program".as_ref()))
}

/// The command with its arguments, for the evidence.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

pub(crate) async fn run(context: &Context, lab: Lab) -> Outcome {
    match lab {
        Lab::List(list) => list::run(context, &list),
        Lab::Run(Suite::Branches(suite)) => branches::run(context, suite),
        Lab::Run(Suite::Store(suite)) => store::run(context, suite),
        Lab::Run(Suite::Functions(suite)) => functions::run(context, suite),
        Lab::Run(Suite::Packs(suite)) => packs::run(context, suite),
        Lab::Run(Suite::Lineage(suite)) => lineage::run(context, suite),
        Lab::Run(Suite::Replication(suite)) => replication::run(context, *suite),
        Lab::Watch(watch) => watch::run(context, watch).await,
        Lab::Drill(drill) => drill::run(context, drill),
        Lab::Diagnose(diagnose) => diagnose::run(context, &diagnose),
        Lab::Compare(options) => compare::run(context, options),
        Lab::Experiment(experiment) => experiment::run(context, *experiment),
        Lab::History(histories) => history::run(context, histories),
        Lab::Report(pages) => report::run(context, pages),
        Lab::Agent(agent) => agent::run(agent).await,
        Lab::Restore(restore) => restore::run(context, restore).await,
    }
}

/// Where the evidence of a run goes.
#[derive(Debug, Args)]
pub(crate) struct Documents {
    /// Write the evidence document; `-` prints it instead of the table
    #[arg(long = "json", value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// Write the report
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Documents {
    fn output(self) -> Output {
        Output { json: self.evidence, html: self.html, progress: true, command: command_line() }
    }
}

/// Runs a suite, prints the outcome, files it in the history, and says by the exit status what came out.
fn measure<P: Plan>(context: &Context, mut plan: P) -> Outcome {
    let output = plan.output_mut();
    // A `-` for the evidence means that it is printed.
    let is_dash = output.json.as_deref().is_some_and(|file| file.as_os_str() == "-");
    if is_dash {
        output.json = None;
    }
    let written: Vec<PathBuf> = [&output.json, &output.html].into_iter().flatten().cloned().collect();
    written.iter().try_for_each(|file| make_room_for(file))?;
    let progress = Progress::new("measuring");
    let Measured { evidence, unrestored, .. } =
        suite::run_to_end(&plan, &|doing| progress.step(doing, None))?;
    drop(progress);
    let filed = history::file(&context.home, &evidence);
    if context.json || is_dash {
        output::json(&evidence)?;
    } else {
        output::line(plan.suite().table(&evidence).trim_end());
        for file in written {
            output::line(format_args!("written: {}", file.display()));
        }
        if let Some(file) = filed {
            output::line(format_args!("filed: {}", file.display()));
        }
    }
    // What was measured is told also when not everything could be put back.
    unrestored.map_or_else(|| Ok(verdict_code(&evidence)), |error| Err(error.into()))
}

/// Files a document in the history of this machine.
pub(crate) fn file(home: &std::path::Path, evidence: &Evidence) {
    history::file(home, evidence);
}

/// Writes one page over documents.
pub(crate) fn write_site(documents: &[PathBuf], file: &std::path::Path) -> Result<(), Failure> {
    report::write_site(documents, file)
}

/// The directory that a file will be written to, so that a long run does not fail at its end.
fn make_room_for(file: &std::path::Path) -> Result<(), Failure> {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => {
            std::fs::create_dir_all(dir).map_err(Failure::io("make the directory", dir))
        }
        _ => Ok(()),
    }
}

/// The exit status that says what came out.
pub(crate) fn verdict_code(evidence: &Evidence) -> ExitCode {
    match evidence.verdict {
        Verdict::Pass => ExitCode::SUCCESS,
        Verdict::Fail => ExitCode::from(FAILED),
        Verdict::Invalid => ExitCode::from(INVALID),
    }
}
