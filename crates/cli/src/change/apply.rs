//! `duramen change apply`: a change set, done to a database.

use super::sign::Signer;
use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output, parse, progress,
};
use clap::{Args, ValueEnum};
use duramen_base::words::counted;
use duramen_carry::{
    apply, apply_durably, Applied as AppliedAt, ApplyError, ApplyOptions, ChangeSet, Counts, Durable,
    DurableOptions, Outcome as Applied, Slice, Triggers,
};
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
    #[arg(long, conflicts_with = "durable")]
    dry_run: bool,
    /// Bring it in slices, and have it done by a worker of durable functions (`duramen fn`), which the database needs: whatever is
    /// killed meanwhile, the same command goes on. Not for change sets with statements
    #[arg(long)]
    durable: bool,
    /// With --durable: how long to wait for a worker to do it, once it was brought
    #[arg(long, value_name = "SPAN", value_parser = parse::span, default_value = "1h", requires = "durable")]
    wait: Duration,
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
            "{} of the file, run with the rights of {} in {}; `duramen change show` shows what is run",
            counted(set.ddl().len(), "statement"),
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
    if options.durable {
        return durable(context, &set, &target, DurableOptions { apply: apply_options, wait: options.wait })
            .await;
    }
    let work = apply(&set, &target, &apply_options);
    let outcome = match progress::during("applying the change set", work).await {
        Ok(outcome) => outcome,
        Err(error) => return refused(context, &set, error),
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
        Applied::AlreadyApplied(applied) => already(&target, applied),
        _ => output::line("done"),
    }
    Ok(ExitCode::SUCCESS)
}

fn already(target: &Target, applied: &AppliedAt) {
    output::line(format_args!(
        "already applied to {} at {} by {}; nothing was done",
        target.describe(),
        output::time(applied.at),
        applied.by
    ));
}

/// Tells why nothing was done.
fn refused(context: &Context, set: &ChangeSet, error: ApplyError) -> Outcome {
    let (conflicts, more) = match error {
        ApplyError::Conflicts { conflicts, more } => (conflicts, more),
        error => return Err(error.into()),
    };
    if context.json {
        output::json(
            &json!({ "status": "conflicts", "digest": set.digest(), "conflicts": conflicts, "more": more }),
        )?;
    } else {
        conflicts.iter().for_each(|conflict| output::error(conflict));
        output::error(&ApplyError::Conflicts { conflicts, more });
    }
    Ok(ExitCode::from(FAILED))
}

/// Brings it, and waits for the instance that does it.
async fn durable(context: &Context, set: &ChangeSet, target: &Target, options: DurableOptions) -> Outcome {
    let mut steps = progress::Steps::new("bringing rows");
    let mut on_slice = |slice: Slice| steps.step(slice.rows, slice.of_rows);
    let done = apply_durably(set, target, &options, &mut on_slice).await;
    drop(steps);
    let done = match done {
        Ok(done) => done,
        Err(error) => return refused(context, set, error),
    };
    if context.json {
        let mut value = match &done {
            Durable::Applied { counts, instance } => {
                let mut value = json!(Applied::Applied(*counts));
                value["instance"] = json!(instance);
                value
            }
            Durable::AlreadyApplied(applied) => json!(Applied::AlreadyApplied(applied.clone())),
            Durable::Brought { instance, status } => {
                json!({ "status": "brought", "instance": instance, "instance_status": status })
            }
            _ => json!({ "status": "done" }),
        };
        value["digest"] = json!(set.digest());
        output::json(&value)?;
    }
    let is_open = matches!(done, Durable::Brought { .. });
    match &done {
        _ if context.json => {}
        Durable::Applied { counts, instance } => output::line(format_args!(
            "applied to {} by instance {instance}: {}",
            target.describe(),
            words(counts)
        )),
        Durable::AlreadyApplied(applied) => already(target, applied),
        Durable::Brought { instance, status } => output::line(format_args!(
            "brought to {}; instance {instance} is {status}: a worker (`duramen fn worker`) will apply it, also without this program; run the same \
             command again to hear what came of it",
            target.describe()
        )),
        _ => output::line("done"),
    }
    // Whoever did not want to wait got what they wanted.
    Ok(if is_open && !options.wait.is_zero() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn words(counts: &Counts) -> String {
    let Counts { statements, inserted, updated, deleted, sequences } = counts;
    format!(
        "{}; {} inserted, {updated} updated, {deleted} deleted; {} moved on",
        counted(*statements, "statement"),
        counted(*inserted, "row"),
        counted(*sequences, "sequence")
    )
}
