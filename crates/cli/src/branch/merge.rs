//! `duramen branch merge`.

use crate::{
    context::{Context, Outcome},
    failure::FAILED,
    output, progress,
};
use clap::Args;
use duramen_api::model::{
    MergeBranch, MergeEqual, MergeReport, MergeStatus, MergeStrategy, MergeTriggers, MergedTable,
};
use duramen_base::words::counted;
use std::{process::ExitCode, time::Duration};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen branch merge child parent --dry-run              does all of it and takes it back; lists what it would do, and conflicts
  duramen branch merge child parent                        nothing is written if there is a conflict; the exit status is 1
  duramen branch merge child parent --strategy theirs      the child's side of conflicts; `ours` is the parent's
  duramen branch merge child parent --equal agree          both made a column the same: that is agreement
A conflict by default: both sell one of ten, and both write `stock = 9`, although eight are left.";

/// How long a merge may take: an hour to compare, and one to write.
const LIMIT: Duration = Duration::from_secs(2 * 3600 + 600);

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// The branch whose changes are brought
    child: String,
    /// The branch that it was made of, which gets them
    parent: String,
    /// What becomes of conflicts: fail, ours (the parent's side) or theirs (the child's)
    #[arg(long, value_name = "STRATEGY", default_value = "fail")]
    strategy: MergeStrategy,
    /// What it is when both sides changed a column to the same value: agree or conflict
    #[arg(long, value_name = "WHAT", default_value = "conflict")]
    equal: MergeEqual,
    /// What triggers of the parent's tables do: refuse (nothing is merged if there are any), fire or off
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    triggers: MergeTriggers,
    /// Do all of it and take it back
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(context: &Context, wanted: Merge) -> Outcome {
    let Merge { child, parent, strategy, equal, triggers, dry_run } = wanted;
    let mut connection = context.connect().await?;
    connection.set_deadline(LIMIT);
    let request = MergeBranch { into: parent, strategy, equal, triggers, dry_run };
    let report = progress::during("merging", connection.merge_branch(&child, &request)).await?;
    let has_failed = report.status == MergeStatus::Conflicts;
    if context.json {
        output::json(&report)?;
    } else {
        show(&report);
    }
    Ok(if has_failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn show(report: &MergeReport) {
    let MergeReport { child, parent, .. } = report;
    for conflict in &report.conflicts {
        match conflict.taken {
            Some(_) => output::warning(&output::printable(&conflict.message)),
            None => output::error(&output::printable(&conflict.message)),
        }
    }
    if report.more_conflicts {
        output::warning(&"there are more conflicts");
    }
    match report.status {
        MergeStatus::NothingToDo => {
            output::line(format_args!("{child} has changed nothing; nothing was done"));
        }
        MergeStatus::AlreadyMerged => {
            let at = report.merged_at.map(|at| format!(" at {}", output::time(at))).unwrap_or_default();
            output::line(format_args!(
                "{child} was merged into {parent}{at}, and has not changed since; nothing was done"
            ));
        }
        MergeStatus::Conflicts => output::error(&format_args!(
            "nothing was changed in {parent}: {} conflicts with {child}",
            report.conflicts.len()
        )),
        MergeStatus::Merged => {
            output::line(format_args!("merged {child} into {parent}: {}", words(report)));
        }
        MergeStatus::WouldMerge => {
            output::line(format_args!(
                "{child} can be merged into {parent}: {}; it was taken back",
                words(report)
            ));
            for statement in &report.statements {
                output::line(format_args!("  {};", output::printable(statement)));
            }
            for table in &report.tables {
                let MergedTable { schema, name, inserted, updated, deleted } = table;
                let name = format!("{schema}.{name}");
                output::line(format_args!(
                    "  {}: {inserted} inserted, {updated} updated, {deleted} deleted",
                    output::printable(&name)
                ));
            }
        }
    }
}

fn words(report: &MergeReport) -> String {
    let sum = |of: fn(&MergedTable) -> u64| report.tables.iter().map(of).sum::<u64>();
    format!(
        "{}; {} inserted, {} updated, {} deleted in {}",
        counted(report.statements.len(), "statement"),
        counted(sum(|table| table.inserted), "row"),
        sum(|table| table.updated),
        sum(|table| table.deleted),
        counted(report.tables.len(), "table")
    )
}
