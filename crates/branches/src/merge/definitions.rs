//! How the definitions of both sides stand to those of the base.

use super::{catalogue, Sides};
use crate::{
    branch::Branch,
    error::{EngineError, MergeError},
    model::Policy,
};
use duramen_carry::{is_of_registry, Ddl, Definitions};
use duramen_schema::{Catalogue, Diff};
use std::sync::Arc;

/// Statements that a message names.
const NAMED_MAX: usize = 10;
/// Characters of each that it shows.
const SHOWN_MAX: usize = 120;

/// What the child changed, and whether the parent has it.
#[derive(Debug)]
pub(super) struct Compared {
    /// From the base to the child.
    pub(super) ddl: Vec<Ddl>,
    pub(super) parent: Definitions,
}

impl Compared {
    /// Whether the parent's definitions are changed.
    pub(super) fn is_to_define(&self) -> bool {
        self.parent == Definitions::Behind && !self.ddl.is_empty()
    }
}

/// Compares them, and refuses what both sides changed and not to the same.
pub(super) async fn compare(sides: &Sides<'_>, base: &Arc<Branch>) -> Result<Compared, EngineError> {
    let (base, child) = (catalogue(base).await?, catalogue(&sides.child.branch).await?);
    let parent = catalogue(&sides.parent.branch).await?;
    let ddl = from(&base, &child);
    let both = || (sides.child_name.to_owned(), sides.parent_name.to_owned());
    let ours = from(&base, &parent);
    if ddl.is_empty() || ours.is_empty() {
        let policy = sides.parent.policy;
        if !ddl.is_empty() && policy == Policy::ReadWrite {
            let ((child, parent), list) = (both(), named(&ddl));
            return Err(MergeError::Definitions { child, parent, policy, list }.into());
        }
        return Ok(Compared { ddl, parent: Definitions::Behind });
    }
    if from(&parent, &child).is_empty() {
        return Ok(Compared { ddl, parent: Definitions::Same });
    }
    let ((child, parent), ours, theirs) = (both(), named(&ours), named(&ddl));
    Err(MergeError::BothDefined { child, parent, ours, theirs }.into())
}

/// What the child changed, read anew.
pub(super) async fn of_child(sides: &Sides<'_>, base: &Arc<Branch>) -> Result<Vec<Ddl>, EngineError> {
    let (base, child) = (catalogue(base).await?, catalogue(&sides.child.branch).await?);
    Ok(from(&base, &child))
}

/// The statements from one to the other, without those about what targets remember of change sets.
fn from(one: &Catalogue, other: &Catalogue) -> Vec<Ddl> {
    let diff = tokio::task::block_in_place(|| Diff::between(one, other));
    let statements = diff.ddl().iter().filter(|step| !is_of_registry(&step.sql));
    statements.map(|step| Ddl { sql: step.sql.clone(), in_transaction: step.in_transaction }).collect()
}

fn named(ddl: &[Ddl]) -> String {
    let shown = |ddl: &Ddl| {
        let mut text: String = ddl.sql.chars().take(SHOWN_MAX).collect();
        if ddl.sql.chars().count() > SHOWN_MAX {
            text.push_str("...");
        }
        format!("`{text}`")
    };
    let mut all: Vec<String> = ddl.iter().take(NAMED_MAX).map(shown).collect();
    if ddl.len() > NAMED_MAX {
        all.push(format!("and {} more", ddl.len() - NAMED_MAX));
    }
    all.join(", ")
}
