//! Branches of branches, and branches that go back: invariants L1 to L9 of docs/design/lineage.md.

pub(crate) mod capture;
mod fork;
pub(crate) mod interval;
mod restore;
mod snapshots;
mod tree;

pub(crate) use fork::start_copy;

use crate::{
    error::{EngineError, LineageError},
    model::{SnapshotSettings, SnapshotView},
    names,
};

/// How many snapshots with names a branch may have.
pub(crate) const NAMED_MAX: usize = 64;
/// The shortest interval of automatic snapshots, in seconds.
const EVERY_MIN_S: u32 = 10;
/// The most automatic snapshots of a branch.
const KEEP_MAX: u32 = 1000;

/// What a child is to be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct From {
    /// The parent's name.
    pub(crate) branch: String,
    /// One of its snapshots, by what [`crate::registry::Registry::find_snapshot`] takes; `None`: the parent as it is.
    pub(crate) snapshot: Option<String>,
}

impl From {
    /// Reads `BRANCH` or `BRANCH@SNAPSHOT`.
    pub(crate) fn read(text: &str) -> Result<From, EngineError> {
        let (branch, snapshot) = match text.split_once('@') {
            Some((branch, snapshot)) => (branch, Some(snapshot.to_owned())),
            None => (text, None),
        };
        names::check("branch", branch)?;
        Ok(From { branch: branch.to_owned(), snapshot })
    }
}

/// Refuses settings that take snapshots without an end.
pub(crate) fn check(settings: &SnapshotSettings) -> Result<(), EngineError> {
    if settings.every_s.is_some_and(|seconds| seconds < EVERY_MIN_S) {
        return Err(LineageError::TooOften { least: EVERY_MIN_S }.into());
    }
    if settings.keep.is_some_and(|count| count > KEEP_MAX) {
        return Err(LineageError::TooManyKept { most: KEEP_MAX }.into());
    }
    Ok(())
}

impl std::convert::From<&crate::journal::SnapshotRecord> for SnapshotView {
    fn from(record: &crate::journal::SnapshotRecord) -> SnapshotView {
        SnapshotView {
            id: record.id.clone(),
            name: record.name.clone(),
            kind: record.kind,
            taken_at: record.taken_at,
            running: record.running,
            problem: record.problem.clone(),
        }
    }
}
