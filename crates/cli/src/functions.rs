//! Durable functions in a PostgreSQL: `duramen fn ...`. One verb, or one family of verbs, a file.

mod adopt;
mod cluster;
mod control;
mod ending;
mod explain;
mod export;
mod graph;
mod handle;
mod install;
mod list;
mod queue;
mod rehearse;
mod schedule;
mod show;
mod start;
mod supervisor;
mod text;
mod top;
mod traces;
mod uninstall;
mod worker;

use crate::context::{Context, Outcome};
use clap::{Args, Subcommand};
use duramen_functions::inspect::Action;
use handle::{Handle, Place};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn install postgres://postgres@db/shop     put the schema df into a database, once
  duramen fn worker postgres://df_worker@db/shop     run what is started there, until Ctrl-C
  duramen fn worker --branch try --external=stub --until-idle    rehearse what runs there in a branch
  export DURAMEN_FN_URL=postgres://app@db/shop       the database of all the other commands
  duramen fn start 'SELECT 1' --wait
  duramen fn start \"'SELECT 1' ~> df.sleep(60) ~> 'SELECT 2'\" --label nightly
  duramen fn list --status running
  duramen fn top";

#[derive(Debug, Args)]
pub(crate) struct Functions {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Install the schema df in a database, or update it
    #[command(after_help = install::EXAMPLES, visible_alias = "upgrade")]
    Install(install::Install),
    /// Take durable functions out of a database
    #[command(after_help = uninstall::EXAMPLES)]
    Uninstall(uninstall::Uninstall),
    /// Let a copy (a branch, a clone, a restored dump) run the instances that it was copied with
    #[command(after_help = adopt::EXAMPLES)]
    Adopt(adopt::Adopt),
    /// Run the functions of a database in the foreground
    #[command(after_help = worker::EXAMPLES)]
    Worker(worker::Work),
    /// Start a function; prints its id, or with --wait its result
    #[command(after_help = start::EXAMPLES)]
    Start(start::Start),
    /// Print the status of an instance
    #[command(after_help = ending::STATUS_EXAMPLES)]
    Status(ending::Id),
    /// List instances, the newest first
    #[command(after_help = list::EXAMPLES)]
    List(list::List),
    /// Show an instance with its steps and its executions
    #[command(after_help = show::EXAMPLES)]
    Show(show::Show),
    /// Print the result of an instance that has completed
    #[command(after_help = ending::RESULT_EXAMPLES)]
    Result(ending::Id),
    /// Wait for the end of an instance; exit status 1 if it did not complete
    #[command(after_help = ending::AWAIT_EXAMPLES)]
    Await(ending::Await),
    /// End an instance, its running statement and its children
    #[command(after_help = control::CANCEL_EXAMPLES)]
    Cancel(control::Cancel),
    /// Send a signal to an instance; it is kept until the instance waits for it
    #[command(after_help = control::SIGNAL_EXAMPLES)]
    Signal(control::Signal),
    /// Pause an instance: it begins no further step
    #[command(after_help = control::PAUSE_EXAMPLES)]
    Pause(ending::Id),
    /// Go on with an instance that is paused, has failed or was cancelled; what completed is not done again
    #[command(after_help = control::RESUME_EXAMPLES)]
    Resume(control::Resume),
    /// Start another instance with what one that has ended has completed; prints its id
    #[command(after_help = control::FORK_EXAMPLES)]
    Fork(control::Fork),
    /// Delete an instance that has ended, with its history
    #[command(after_help = control::DELETE_EXAMPLES)]
    Delete(ending::Id),
    /// Draw a function as a tree, with marks where it runs or ran
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::Explain),
    /// Print everything that is kept of an instance, as JSON
    #[command(after_help = export::EXAMPLES)]
    Export(ending::Id),
    /// Show, limit, pause and drain queues
    #[command(subcommand, after_help = queue::EXAMPLES)]
    Queue(queue::Command),
    /// Start functions at times of the calendar, or at intervals
    #[command(subcommand, after_help = schedule::EXAMPLES)]
    Schedule(schedule::Schedule),
    /// Run durable functions in several databases together
    #[command(subcommand, after_help = cluster::EXAMPLES)]
    Cluster(cluster::Command),
    /// Watch how much is waiting, running and done, how full queues are, and which workers live
    #[command(after_help = top::EXAMPLES)]
    Top(top::Top),
}

pub(crate) fn run(context: &Context, functions: Functions) -> Outcome {
    let Functions { place, verb } = functions;
    let handle = |url: Option<&String>| Handle::new(context, &place, url);
    let here = || handle(None);
    match verb {
        Verb::Install(install) => context.wait(install::run(&handle(install.url.as_ref())?, &install)),
        Verb::Uninstall(uninstall) => {
            context.wait(uninstall::run(&handle(uninstall.url.as_ref())?, &uninstall))
        }
        Verb::Adopt(adopt) => context.wait(adopt::run(&handle(adopt.url.as_ref())?, &adopt)),
        Verb::Worker(work) => context.wait_on_all_cores(worker::run(context, &place, &work)),
        Verb::Start(start) => context.wait(start::run(here()?, start)),
        Verb::Status(id) => context.wait(async { ending::status(&here()?.of(&id.id).await?, &id).await }),
        Verb::List(list) => context.wait(list::run(&handle(None)?, list)),
        Verb::Show(show) => context.wait(async { show::run(&here()?.of(&show.id).await?, &show).await }),
        Verb::Result(id) => context.wait(async { ending::result(&here()?.of(&id.id).await?, &id).await }),
        Verb::Await(id) => context.wait(async { ending::wait(&here()?.of(&id.id).await?, &id).await }),
        Verb::Cancel(cancel) => {
            context.wait(async { control::cancel(&here()?.of(&cancel.id).await?, &cancel).await })
        }
        Verb::Signal(signal) => {
            context.wait(async { control::signal(&here()?.of(&signal.id).await?, &signal).await })
        }
        Verb::Pause(id) => {
            context.wait(async { control::send(&here()?.of(&id.id).await?, Action::Pause, &id).await })
        }
        Verb::Resume(resume) => {
            context.wait(async { control::resume(&here()?.of(&resume.id).await?, &resume).await })
        }
        Verb::Fork(fork) => context.wait(async { control::fork(&here()?.of(&fork.id).await?, &fork).await }),
        Verb::Delete(id) => {
            context.wait(async { control::send(&here()?.of(&id.id).await?, Action::Delete, &id).await })
        }
        Verb::Explain(explain) => context.wait(explain::run(&handle(None)?, explain)),
        Verb::Export(id) => context.wait(async { export::run(&here()?.of(&id.id).await?, &id).await }),
        Verb::Queue(queue) => context.wait(queue::run(&handle(None)?, queue)),
        Verb::Schedule(schedule) => context.wait(schedule::run(&handle(None)?, schedule)),
        Verb::Cluster(command) => context.wait(cluster::run(here, context.json, command)),
        Verb::Top(top) => context.wait(top::run(&handle(None)?, &top)),
    }
}
