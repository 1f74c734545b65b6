//! Merging what a branch changed into the branch that it was made of: three ways, in one transaction, once.
//!
//! ```text
//!  begun -> merged before? -> rows locked and read -> three ways -> rebased set -> done in some order -> written down -> committed
//!             | told            | rolled back, listed: conflicts that nothing answers
//! ```
//!
//! One file an idea: [`three`] decides about one row, [`rebase`] makes the change set anew for the parent as it is, [`conflict`] is
//! what is in the way, [`beyond`] has sequences go on behind what came. The rest is that of applying a change set. Invariants M1
//! to M10 are in `docs/design/merging.md`.

mod beyond;
mod conflict;
mod rebase;
mod three;

pub use conflict::{MergeConflict, Reason, Taken, Three};

use crate::{
    apply::{
        commit,
        registry::{self, Entry},
        run::Run,
        work, Applied, ApplyOptions, Counts, APPLY_LIMIT,
    },
    error::ApplyError,
    read::ChangeSet,
};
use conflict::Found;
use duramen_postgres::connection::Target;
use serde::Serialize;
use std::path::Path;
use tokio::time::timeout;

/// What becomes of a conflict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Nothing is merged if there is one.
    #[default]
    Fail,
    /// The parent's side is taken.
    Ours,
    /// The child's side is taken.
    Theirs,
}

/// What it is when both sides changed a column to the same value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Equal {
    /// Agreement.
    Agree,
    /// A conflict: both may have computed it from what the base had, and then one of the changes is lost.
    #[default]
    Conflict,
}

/// How the definitions of the parent stand to those of the child.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Definitions {
    /// What the child changed has to be done in the parent.
    #[default]
    Behind,
    /// The parent has them already.
    Same,
}

/// How a branch is merged.
#[derive(Debug, Clone, Default)]
pub struct MergeOptions {
    /// What becomes of conflicts.
    pub strategy: Strategy,
    /// What equal changes are.
    pub equal: Equal,
    /// How the definitions stand.
    pub definitions: Definitions,
    /// As for a change set that is applied.
    pub apply: ApplyOptions,
}

/// What was done to a table, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergedTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Rows that come.
    pub inserted: u64,
    /// Rows that change.
    pub updated: u64,
    /// Rows that go.
    pub deleted: u64,
}

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// It is done.
    Merged(Counts),
    /// It can be done, and was taken back.
    WouldMerge(Counts),
    /// It was done before, and nothing was done now.
    AlreadyMerged(Applied),
    /// Conflicts that nothing answers: nothing was done.
    Conflicts,
}

/// A merge, told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// What came of it.
    pub outcome: MergeOutcome,
    /// Tables whose rows are written. If there are conflicts, with the parent's side of them.
    pub tables: Vec<MergedTable>,
    /// Conflicts, the first of them: those that a strategy answered, too.
    pub conflicts: Vec<MergeConflict>,
    /// Whether there are more.
    pub more: bool,
}

/// Merges a change set of a branch into the branch that it was made of. `scratch` is an empty folder for the change set as it is made
/// anew for the parent; nothing stays there that its owner does not remove.
///
/// # Errors
/// [`ApplyError`]. All but [`ApplyError::Unknown`] mean that nothing was changed. Conflicts are not among them: they are told.
pub async fn merge(
    set: &ChangeSet,
    target: &Target,
    options: &MergeOptions,
    scratch: &Path,
) -> Result<Merged, ApplyError> {
    let target = target.clone().application_name("duramen branch merge");
    let digest = digest(set);
    let client = target.connect().await?;
    let run = Run::new(&client, &target, &options.apply);
    let work = async {
        run.begin().await?;
        let step = step(&run, set, options, scratch, &digest).await;
        if !matches!(step, Ok(Step::Commit(_))) {
            run.take_back().await;
        }
        step
    };
    let step = timeout(APPLY_LIMIT, work).await.unwrap_or(Err(ApplyError::TooSlow { limit: APPLY_LIMIT }))?;
    match step {
        Step::Over(merged) => Ok(merged),
        Step::Commit(merged) => {
            commit(client, &target, &options.apply, &digest).await?;
            Ok(merged)
        }
    }
}

/// What the parent remembers of a merge: which branch, and all that it had changed.
fn digest(set: &ChangeSet) -> String {
    let head = set.head();
    format!("merge of {}: {}", head.origin.branch_id, head.diff_digest)
}

enum Step {
    Over(Merged),
    Commit(Merged),
}

async fn step(
    run: &Run<'_>,
    set: &ChangeSet,
    options: &MergeOptions,
    scratch: &Path,
    digest: &str,
) -> Result<Step, ApplyError> {
    if let Some(applied) = registry::enter(run, digest).await? {
        let outcome = MergeOutcome::AlreadyMerged(applied);
        return Ok(Step::Over(Merged { outcome, tables: Vec::new(), conflicts: Vec::new(), more: false }));
    }
    if let Some(applied) = registry::of_branch(run, &set.head().origin.branch_id).await? {
        let branch = set.head().origin.branch.clone();
        return Err(ApplyError::MergedBefore { branch, at: applied.at, by: applied.by });
    }
    let mut found = Found::default();
    let rebased = rebase::rebase(run, set, options, &scratch.join("rebased.dpack"), &mut found).await?;
    // What will be taken back moves no sequence.
    let tried = ApplyOptions { dry_run: options.apply.dry_run || found.is_open, ..options.apply.clone() };
    let trying = run.with(&tried);
    let counts = match work::all(&trying, &rebased).await {
        Ok(counts) => counts,
        Err(ApplyError::Conflicts { conflicts, more }) => {
            conflicts.into_iter().for_each(|conflict| found.structure(&conflict));
            found.more |= more;
            Counts::default()
        }
        Err(ApplyError::Refused { cause, code: Some(code), place, .. }) if code.starts_with("23") => {
            found.constraint(cause, place);
            Counts::default()
        }
        // What else is in the way is told once the conflicts are gone: the parent's side may not be the one that is taken then.
        Err(
            error @ (ApplyError::Refused { .. } | ApplyError::OtherRows { .. } | ApplyError::Triggers { .. }),
        ) if found.is_open && !run.client.is_closed() => {
            tracing::debug!(%error, "what remains beside the conflicts cannot be done");
            Counts::default()
        }
        Err(error) => return Err(error),
    };
    let tables = rebased.tables().iter().map(|stored| MergedTable {
        schema: stored.table.schema.clone(),
        name: stored.table.name.clone(),
        inserted: stored.rows.added,
        updated: stored.rows.changed,
        deleted: stored.rows.removed,
    });
    let tables = tables.collect();
    let Found { listed: conflicts, more, is_open } = found;
    let outcome = match (is_open, options.apply.dry_run) {
        (true, _) => MergeOutcome::Conflicts,
        (false, true) => MergeOutcome::WouldMerge(counts),
        (false, false) => MergeOutcome::Merged(counts),
    };
    if !matches!(outcome, MergeOutcome::Merged(_)) {
        return Ok(Step::Over(Merged { outcome, tables, conflicts, more }));
    }
    run.pinned().await?;
    beyond::move_on(run, &rebased).await?;
    registry::write(run, &Entry { digest, head: set.head(), counts: &counts }).await?;
    Ok(Step::Commit(Merged { outcome, tables, conflicts, more }))
}
