//! `duramen change apply`: a change set, done to a database.

use super::sign::Signer;
use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output, parse, progress,
};
use clap::{Args, ValueEnum};
use duramen_carry::{apply, ApplyError, ApplyOptions, ChangeSet, Counts, Outcome as Applied, Triggers};
use duramen_postgres::connection::Target;
use serde_json::json;
use std::{path::PathBuf, process::ExitCode, time::Duration};

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The change set
    file: PathBuf,
    /// The database
    #[arg(long, value_name = "URL")]
    to: String,
    /// Do all of it and take it back: sequences stay, and what triggers do elsewhere is not taken back
    #[arg(long)]
    dry_run: bool,
    /// What triggers of the tables in it do; those that check foreign keys always do their work [default: refuse if there are any]
    #[arg(long, value_enum)]
    triggers: Option<TriggersName>,
    #[command(flatten)]
    signer: Signer,
    /// How long a statement may wait for a lock
    #[arg(long, value_name = "SPAN", value_parser = parse::span, default_value = "10s")]
    lock_timeout: Duration,
    /// How long a statement may take
    #[arg(long, value_name = "SPAN", value_parser = parse::span, default_value = "10m")]
    statement_timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TriggersName {
    /// They fire, as for any other change, although what they did in the branch stands in the file
    Fire,
    /// They are off in the transaction; the role has to own the tables
    Off,
}

pub(crate) async fn run(context: &Context, options: Apply) -> Outcome {
    let target = Target::parse(&options.to).map_err(|error| Failure::Usage(error.to_string()))?;
    let set = ChangeSet::open(&options.file)?;
    options.signer.check(&set, &options.file)?;
    if !set.ddl().is_empty() && !context.json {
        output::warning(&format_args!(
            "{} statements of the file run with the rights of {} in {}; `duramen change show` shows them",
            set.ddl().len(),
            target.role(),
            target.describe()
        ));
    }
    let apply_options = ApplyOptions {
        dry_run: options.dry_run,
        triggers: match options.triggers {
            None => Triggers::Refuse,
            Some(TriggersName::Fire) => Triggers::Fire,
            Some(TriggersName::Off) => Triggers::Off,
        },
        lock_timeout: options.lock_timeout,
        statement_timeout: options.statement_timeout,
        any_registry: false,
    };
    let work = apply(&set, &target, &apply_options);
    let outcome = match progress::during("applying the change set", work).await {
        Ok(outcome) => outcome,
        Err(ApplyError::Conflicts { conflicts, more }) => {
            if context.json {
                output::json(
                    &json!({ "status": "conflicts", "digest": set.digest(), "conflicts": conflicts, "more": more }),
                )?;
            } else {
                conflicts.iter().for_each(|conflict| output::error(conflict));
                output::error(&ApplyError::Conflicts { conflicts, more });
            }
            return Ok(ExitCode::from(FAILED));
        }
        Err(error) => return Err(error.into()),
    };
    if context.json {
        let mut value = json!(outcome);
        value["digest"] = json!(set.digest());
        output::json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    match &outcome {
        Applied::Applied(counts) => {
            output::line(format_args!("applied to {}: {}", target.describe(), words(counts)))
        }
        Applied::WouldApply(counts) => {
            output::line(format_args!(
                "can be applied to {}: {}; it was taken back",
                target.describe(),
                words(counts)
            ));
        }
        Applied::AlreadyApplied(applied) => output::line(format_args!(
            "already applied to {} at {} by {}; nothing was done",
            target.describe(),
            output::time(applied.at),
            applied.by
        )),
        _ => output::line("done"),
    }
    Ok(ExitCode::SUCCESS)
}

fn words(counts: &Counts) -> String {
    let Counts { statements, inserted, updated, deleted, sequences } = counts;
    format!("{statements} statements; {inserted} rows inserted, {updated} updated, {deleted} deleted; {sequences} sequences moved on")
}
