//! The lab: `duramen lab run ...` and what is done with what it brings back.

mod compare;
mod diagnose;
mod experiment;
mod functions;
mod history;
mod packs;
mod replication;
mod report;
mod restore;
mod store;

use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED, INVALID},
    output,
    parse::{self, RefillName, VolumesName},
    progress::Progress,
};
use clap::{Args, Subcommand, ValueEnum};
use duramen_lab::branches::{self, Options, Runner, Write};
use duramen_measure::evidence::{Evidence, Verdict};
use std::{path::PathBuf, process::ExitCode};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen lab run branches
  duramen lab run branches --json out/branches.json --html out/branches.html
  duramen lab run store --rows 20000 --seconds 0.2 --json out/store.json
  duramen lab run functions --json out/functions.json
  duramen lab run packs --json out/packs.json
  duramen lab run replication --quick
  duramen lab diagnose out/store.json
  duramen lab compare before.json after.json
  duramen lab experiment status
  duramen lab history store
  duramen lab report --out out/site.html
  duramen lab restore";
const RUN_EXAMPLES: &str = "\
Examples:
  duramen lab run branches --rounds 5 --concurrency 100 --write events
  duramen lab run store --durability memory,strict --ops 'kv.*'
  duramen lab run functions --phase throughput
  duramen lab run replication S2 S7 S8";
const BRANCHES_EXAMPLES: &str = "\
Examples:
  duramen lab run branches --rounds 5 --concurrency 100 --write ddl --html out/ddl.html
  duramen lab run branches --runner wire --durable
  duramen lab run branches --pool 1000 --concurrency 1000 --rounds 1
  duramen lab run branches --rounds 1 --scale 300k,20M --json out/scale.json

Exit status: 1 when a check failed, 3 when the mechanism under test did not happen";

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run a suite
    #[command(subcommand, after_help = RUN_EXAMPLES)]
    Run(Suite),
    /// Apply the rules of the suites to evidence of earlier runs
    #[command(after_help = diagnose::EXAMPLES)]
    Diagnose(diagnose::Diagnose),
    /// Say what differs between two variants, and how sure that is
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Compare),
    /// Try changes of a program, measure each by turns, keep what is computed to be better
    #[command(after_help = experiment::EXAMPLES)]
    Experiment(Box<experiment::Experiment>),
    /// Show how figures changed over the runs on this machine
    #[command(after_help = history::EXAMPLES)]
    History(history::Histories),
    /// Put evidence of many runs on one page, or into a summary for a pull request
    #[command(after_help = report::EXAMPLES)]
    Report(report::Pages),
    /// Put back what a run of the suite `replication` changed on servers that are not its own
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::Restore),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Suite {
    /// Rounds of many branches at once: create, query, write, destroy
    #[command(after_help = BRANCHES_EXAMPLES)]
    Branches(Branches),
    /// Every operation of the embedded store at every level of durability
    #[command(after_help = store::EXAMPLES)]
    Store(store::Store),
    /// Durable functions: what one costs, how many a second, under kills, over time
    #[command(after_help = functions::EXAMPLES)]
    Functions(functions::Functions),
    /// Access graphs written, read and changed, against SQLite on the same rows
    #[command(after_help = packs::EXAMPLES)]
    Packs(packs::Packs),
    /// Synchronous replication: what each commit level costs, when commits stop, and why
    #[command(after_help = replication::EXAMPLES)]
    Replication(Box<replication::Replication>),
}

#[derive(Debug, Args)]
pub(crate) struct Branches {
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// How many branches at once
    #[arg(long, value_name = "N", default_value_t = 100)]
    concurrency: u32,
    /// What each branch writes
    #[arg(long, value_enum, default_value = "events")]
    write: WriteName,
    /// How queries reach a branch
    #[arg(long, value_enum, default_value = "session")]
    runner: RunnerName,
    /// The source; the sample is imported when it is not there
    #[arg(long, value_name = "NAME", default_value = "flights")]
    source: String,
    /// How many flights the sample has [default: the real 336,776]
    #[arg(long, value_name = "N", value_parser = branches::parse_count)]
    rows: Option<u64>,
    /// Size of the hot pool [default: as many as --concurrency]
    #[arg(long, value_name = "N")]
    pool: Option<u32>,
    /// A server setting of the branches (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::setting)]
    settings: Vec<(String, String)>,
    /// Flush what branches commit
    #[arg(long)]
    durable: bool,
    /// How the pool is refilled, when no daemon runs yet
    #[arg(long, value_enum, default_value = "phased")]
    refill: RefillName,
    /// How volumes are cloned, when no daemon runs yet
    #[arg(long, value_enum, default_value = "auto")]
    volumes: VolumesName,
    /// Two sizes of the sample to compare, the smaller first
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = branches::parse_count)]
    scale: Vec<u64>,
    /// How many branches are made without the pool
    #[arg(long, value_name = "N", default_value_t = 20)]
    cold: u32,
    /// Write the evidence document; `-` prints it instead of the table
    #[arg(long = "json", value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// Write the report
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WriteName {
    /// One row into the table events
    Events,
    /// A schema, a table, two indexes and a row
    Ddl,
    /// Nothing
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RunnerName {
    /// Through the daemon and the branch's resident session
    Session,
    /// Over a new PostgreSQL connection
    Wire,
}

impl Branches {
    fn into_options(self, context: &Context) -> Result<Options, Failure> {
        Ok(Options {
            home: context.home.clone(),
            exe: own_program()?,
            rounds: self.rounds,
            concurrency: self.concurrency,
            write: match self.write {
                WriteName::Events => Write::Events,
                WriteName::Ddl => Write::Ddl,
                WriteName::None => Write::None,
            },
            runner: match self.runner {
                RunnerName::Session => Runner::Session,
                RunnerName::Wire => Runner::Wire,
            },
            source: self.source,
            rows: self.rows,
            pool: self.pool,
            settings: self.settings,
            durable: self.durable,
            refill: self.refill.into(),
            scale: self.scale,
            cold: self.cold,
            volumes: self.volumes.into(),
            json: self.evidence,
            html: self.html,
            progress: true,
            command: command_line(),
        })
    }
}

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
        Lab::Run(Suite::Branches(suite)) => run_branches(context, suite).await,
        Lab::Run(Suite::Store(suite)) => store::run(context, suite),
        Lab::Run(Suite::Functions(suite)) => functions::run(context, suite),
        Lab::Run(Suite::Packs(suite)) => packs::run(context, suite),
        Lab::Run(Suite::Replication(suite)) => replication::run(context, *suite),
        Lab::Diagnose(diagnose) => diagnose::run(context, &diagnose),
        Lab::Compare(options) => compare::run(context, options),
        Lab::Experiment(experiment) => experiment::run(context, *experiment),
        Lab::History(histories) => history::run(context, histories),
        Lab::Report(pages) => report::run(context, pages),
        Lab::Restore(restore) => restore::run(context, restore).await,
    }
}

async fn run_branches(context: &Context, suite: Branches) -> Outcome {
    let mut options = suite.into_options(context)?;
    let documents = Documents::ready(context, &mut options.json, &options.html)?;
    let evidence = measure(options).await?;
    documents.tell(&evidence, branches::print_table)
}

/// Where the outcome goes.
struct Documents {
    /// Whether the evidence is printed instead of the table.
    printed: bool,
    written: Vec<PathBuf>,
    home: PathBuf,
}

impl Documents {
    /// Makes room for the files. A `-` for the evidence means that it is printed.
    fn ready(
        context: &Context,
        json: &mut Option<PathBuf>,
        html: &Option<PathBuf>,
    ) -> Result<Documents, Failure> {
        let printed = context.json || json.as_deref().is_some_and(|file| file.as_os_str() == "-");
        if printed {
            *json = json.take().filter(|file| file.as_os_str() != "-");
        }
        let written: Vec<PathBuf> = [&*json, html].into_iter().flatten().cloned().collect();
        written.iter().try_for_each(|file| make_room_for(file))?;
        Ok(Documents { printed, written, home: context.home.clone() })
    }

    /// Prints the outcome, files it in the history, and says by the exit status what came out.
    fn tell(self, evidence: &Evidence, table: impl FnOnce(&Evidence) -> String) -> Outcome {
        let filed = history::file(&self.home, evidence);
        if self.printed {
            output::json(evidence)?;
        } else {
            output::line(table(evidence).trim_end());
            for file in self.written {
                output::line(format_args!("written: {}", file.display()));
            }
            if let Some(file) = filed {
                output::line(format_args!("filed: {}", file.display()));
            }
        }
        Ok(verdict_code(evidence))
    }
}

/// Runs the suite and says what it is doing.
pub(crate) async fn measure(options: Options) -> Result<Evidence, Failure> {
    let progress = Progress::new("measuring");
    Ok(branches::run(options, &|doing| progress.step(doing, None)).await?)
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
