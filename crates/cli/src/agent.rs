//! Commands with a branch of their own: `duramen agent run`.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    log, output,
    parse::{self, PolicyName},
};
use clap::{Args, Subcommand};
use duramen_client::run::{self, Change, Fate, RunError, RunOptions, RunReport, SourceState, TableChange};
use std::{ffi::OsString, process::ExitCode};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen agent run -- claude -p 'find duplicate customers and remove them'";
const RUN_EXAMPLES: &str = "\
Examples:
  duramen agent run -- psql -c 'DELETE FROM flights'
  duramen agent run --source app --policy ddl -- ./migrate.sh
  duramen agent run --keep -- python fix.py         the branch stays for an hour
The command finds its branch in DATABASE_URL, PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE. Its exit status is that of
the command. What the command did is told on the standard error.";

#[derive(Debug, Subcommand)]
pub(crate) enum Agent {
    /// Give a command a branch, take it away afterwards, and tell what was done in it
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The source [default: the only one]
    #[arg(long)]
    source: Option<String>,
    /// What the command may do [default: read-write]
    #[arg(long, value_enum)]
    policy: Option<PolicyName>,
    /// How long the branch outlives this program if it is killed; while it runs, the lease is renewed [default: 2m]
    #[arg(long, value_name = "SPAN", value_parser = parse::ttl)]
    ttl: Option<i64>,
    /// Leave the branch there
    #[arg(long)]
    keep: bool,
    /// The command, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, agent: Agent) -> Outcome {
    let Agent::Run(wanted) = agent;
    let options = options(wanted.source, wanted.policy, wanted.ttl, wanted.keep, wanted.command)?;
    log::to_stderr()?;
    match run::run(&context.client()?, options).await {
        Ok(report) => {
            tell(context, &report)?;
            Ok(ExitCode::from(report.exit_code))
        }
        Err(error) => not_run(error),
    }
}

/// What is run, out of what was given.
pub(crate) fn options(
    source: Option<String>,
    policy: Option<PolicyName>,
    ttl: Option<i64>,
    keep: bool,
    command: Vec<OsString>,
) -> Result<RunOptions, Failure> {
    let mut command = command.into_iter();
    let program = command.next().ok_or_else(|| Failure::Usage("there is no command after --".to_owned()))?;
    let (policy, ttl_s) = (policy.map(Into::into), ttl.unwrap_or(run::TTL_S));
    Ok(RunOptions { source, policy, ttl_s, keep, program, arguments: command.collect() })
}

/// What a command that was not run ends with.
pub(crate) fn not_run(error: RunError) -> Outcome {
    match error {
        RunError::Client(error) => Err(error.into()),
        error => {
            output::error(&error);
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

/// On the standard error: the standard output is the command's.
pub(crate) fn tell(context: &Context, report: &RunReport) -> Result<(), Failure> {
    if context.json {
        let text = serde_json::to_string(report)
            .map_err(|error| Failure::Other(format!("the report has no JSON form: {error}")))?;
        output::remark(&text);
        return Ok(());
    }
    let RunReport { branch, source, .. } = report;
    let fate = match &report.fate {
        Fate::Destroyed => "destroyed".to_owned(),
        Fate::Kept(end) => {
            format!("kept until {}: psql \"$(duramen branch url {branch})\"", output::time(*end))
        }
        Fate::Missing => "gone before the command ended".to_owned(),
        Fate::Left(why) => format!("left to the end of its lease: {why}"),
        _ => "left".to_owned(),
    };
    let mut lines = vec![format!("branch {branch} of {source}: {fate}")];
    match &report.tables_unknown {
        Some(why) => lines.push(format!("tables: not known: {why}")),
        None if report.tables.is_empty() => lines.push("tables: none changed".to_owned()),
        None => lines.extend(report.tables.iter().map(|table| format!("  {}", described(table)))),
    }
    let state = match &report.source_state {
        SourceState::Unchanged => "unchanged, as its hashes say".to_owned(),
        SourceState::LiveSourceChanged(differences) => {
            format!(
                "the snapshot is unchanged; the live source was changed by others: {}",
                differences.join("; ")
            )
        }
        SourceState::SnapshotChanged => "THE SNAPSHOT CHANGED".to_owned(),
        SourceState::Unknown(why) => format!("not known: {why}"),
        _ => "not known".to_owned(),
    };
    lines.push(format!("source {source}: {state}"));
    output::remark(&lines.join("\n"));
    Ok(())
}

fn described(table: &TableChange) -> String {
    let TableChange { name, inserted, updated, deleted, .. } = table;
    let what = match table.change {
        Change::Created => "created, ",
        Change::Dropped => return format!("{name}: dropped"),
        Change::Rewritten => "truncated or rewritten, ",
        _ => "",
    };
    let rows = match (table.rows_in_source, table.rows) {
        (Some(before), Some(now)) => format!("; {before} rows in the source, {now} here"),
        (None, Some(now)) => format!("; {now} rows"),
        _ => String::new(),
    };
    format!("{name}: {what}{inserted} inserted, {updated} updated, {deleted} deleted{rows}")
}
