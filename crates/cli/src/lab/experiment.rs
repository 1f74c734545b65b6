//! Experiments: `duramen lab experiment ...`. One verb, or one family of verbs, a file.

mod agents;
mod attempt;
mod begin;
mod comment;
mod handle;
mod notes;
mod show;
mod stack;

use crate::context::{Context, Outcome};
use clap::{Args, Subcommand};
use handle::Handle;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab experiment init parser --command './bench.sh {scale}' --metric parse_ms
  $EDITOR experiment/experiment.toml                 what is measured, what may be changed, when to stop
  duramen lab experiment baseline                    measure the start against itself
  duramen lab experiment try --hypothesis 'one buffer for all rows' --mechanism 'no malloc in the loop'
  duramen lab experiment run --agent claude --for 16h
  duramen lab experiment log
  duramen lab experiment replay                      the kept stack against the start, in fresh folders
  duramen lab experiment export --prefix faster      a branch for each kept try

A change is tried in its own worktree, measured interleaved with the base, and judged by computation. The working tree,
index and branches of the repository are never written.

Exit status: 0 kept or done, 1 not kept or failed, 2 bad usage, 3 invalid";

#[derive(Debug, Args)]
pub(crate) struct Experiment {
    /// The folder of the series [default: this folder if it holds an experiment.toml, else the folder experiment]
    #[arg(long, global = true, value_name = "FOLDER")]
    series: Option<PathBuf>,
    /// Measure although nothing keeps the two sides apart here: each can read and change what belongs to the other
    #[arg(long, global = true)]
    allow_unisolated: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Begin a series: write a spec with comments, and an empty log
    #[command(after_help = begin::INIT_EXAMPLES)]
    Init(begin::Init),
    /// Measure the commit that is checked out against itself, and begin a segment with it
    #[command(after_help = begin::BASELINE_EXAMPLES)]
    Baseline,
    /// Try a change: measure it against the head, and keep it if it is better
    #[command(after_help = attempt::TRY_EXAMPLES)]
    Try(attempt::Try),
    /// Let a coding agent or a command propose changes, and try each, until a rule ends it
    #[command(after_help = attempt::RUN_EXAMPLES)]
    Run(attempt::Run),
    /// List the coding agents that can be asked for changes
    #[command(after_help = agents::AGENTS_EXAMPLES)]
    Agents,
    /// Continue what was interrupted
    #[command(after_help = attempt::RESUME_EXAMPLES)]
    Resume,
    /// List the open ideas, or add some
    #[command(after_help = notes::IDEAS_EXAMPLES)]
    Ideas(notes::Ideas),
    /// List the lines of thought that are closed, close one, or open it again
    #[command(after_help = notes::CLOSED_EXAMPLES)]
    Closed(notes::Closed),
    /// List the tries, or show one of them in full
    #[command(after_help = show::LOG_EXAMPLES)]
    Log(show::Log),
    /// Show the state of the series
    #[command(after_help = show::STATUS_EXAMPLES)]
    Status,
    /// Write the report, as Markdown and as a page
    #[command(after_help = show::REPORT_EXAMPLES)]
    Report(show::Report),
    /// Print a try as a comment of a pull request
    #[command(after_help = comment::COMMENT_EXAMPLES)]
    Comment(comment::Comment),
    /// Measure the head against the start, in fresh folders
    #[command(after_help = stack::REPLAY_EXAMPLES)]
    Replay,
    /// Measure the head without each of the kept tries
    #[command(after_help = stack::ABLATE_EXAMPLES)]
    Ablate,
    /// Decide a try by hand, beside what was computed
    #[command(name = "override", after_help = stack::OVERRIDE_EXAMPLES)]
    Override(stack::Override),
    /// Import the log of an autoresearch loop
    #[command(after_help = notes::IMPORT_EXAMPLES)]
    Import(notes::Import),
    /// Make a branch for each kept try, and one for all of them
    #[command(after_help = stack::EXPORT_EXAMPLES)]
    Export(stack::Export),
}

pub(super) fn run(context: &Context, experiment: Experiment) -> Outcome {
    let Experiment { series, allow_unisolated, verb } = experiment;
    let handle = Handle::new(context, series, allow_unisolated);
    match verb {
        Verb::Init(init) => begin::init(&handle, &init),
        Verb::Baseline => begin::baseline(&handle),
        Verb::Try(attempt) => attempt::attempt(&handle, attempt),
        Verb::Run(run) => attempt::run(&handle, &run),
        Verb::Agents => agents::list(&handle),
        Verb::Resume => attempt::resume(&handle),
        Verb::Ideas(ideas) => notes::ideas(&handle, ideas),
        Verb::Closed(closed) => notes::closed(&handle, closed),
        Verb::Log(log) => show::log(&handle, &log),
        Verb::Status => show::status(&handle),
        Verb::Report(report) => show::report(&handle, &report),
        Verb::Comment(asked) => comment::comment(&handle, &asked),
        Verb::Replay => stack::replay(&handle),
        Verb::Ablate => stack::ablate(&handle),
        Verb::Override(by_hand) => stack::decide(&handle, &by_hand),
        Verb::Import(import) => notes::import(&handle, &import),
        Verb::Export(export) => stack::export(&handle, &export),
    }
}
