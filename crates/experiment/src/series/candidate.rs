//! Making a candidate of what the user or a proposer changed. The user's files and index are not touched
//! (X1).

use super::{Change, Current, Series, SeriesError};
use crate::git::GitError;
use std::path::Path;

/// The worktree for changes that are looked at.
pub(super) const PROPOSAL: &str = "proposal";

/// A change as a commit of its own.
pub(super) struct Taken {
    pub(super) commit: String,
    /// What it is a change of.
    base: String,
}

impl Series<'_> {
    /// Makes a commit of a change.
    ///
    /// A tree goes on where an earlier one ended: it holds what was kept of it already, perhaps edited once
    /// more. Or it does not, because the user went back. So a tree is taken for a change of what it differs
    /// least from: the newest commit that it has in common with the head, or one of the trees that were tried
    /// and kept.
    pub(super) fn take_in(
        &self,
        change: &Change,
        current: &Current,
        message: &str,
    ) -> Result<Taken, SeriesError> {
        match change {
            Change::WorkingTree => {
                if let Some(what) = self.repository.busy() {
                    let path = self.repository.root().to_owned();
                    return Err(SeriesError::Busy { what: what.to_owned(), path });
                }
                let root = self.repository.root().to_owned();
                self.take_tree(&root, &self.repository.head()?, current, message)
            }
            Change::Branch(name) => {
                let tip = self.repository.resolve(name)?;
                let tree = self.repository.worktree(&self.work.join(PROPOSAL), &tip, false)?.path;
                self.take_tree(&tree, &tip, current, message)
            }
            Change::Patch(path) => {
                let commit = self.repository.apply_patch(&current.head, path, message)?;
                Ok(Taken { commit, base: current.head.clone() })
            }
        }
    }

    /// `at` is the commit that the tree is checked out from.
    fn take_tree(
        &self,
        tree: &Path,
        at: &str,
        current: &Current,
        message: &str,
    ) -> Result<Taken, SeriesError> {
        let common = self.repository.merge_base(at, &current.head)?;
        let mut nearest = self.snapshot(tree, common.unwrap_or_else(|| current.start.clone()), message)?;
        let mut distance = self.repository.diff(&nearest.base, &nearest.commit)?.len();
        let keeps = self.state.current().map_or(&[][..], |segment| &segment.keeps);
        for kept in keeps {
            let Ok(tried) = self.repository.resolve(&Self::tree_ref(&current.spec.name, kept.number)) else {
                continue;
            };
            let other = self.snapshot(tree, tried, message)?;
            let far = self.repository.diff(&other.base, &other.commit)?.len();
            if far <= distance {
                (nearest, distance) = (other, far);
            }
        }
        Ok(nearest)
    }

    /// The ref of a tree as it was when it was tried, before it was put on the head.
    pub(super) fn tree_ref(series: &str, number: u32) -> String {
        Self::reference(series, &format!("tree-{number}"))
    }

    /// A change as a commit on the head.
    pub(super) fn on_head(&self, taken: &Taken, head: &str, message: &str) -> Result<String, SeriesError> {
        if taken.base == head {
            return Ok(taken.commit.clone());
        }
        self.transplant(&taken.commit, head, message)
    }

    pub(super) fn transplant(&self, commit: &str, onto: &str, message: &str) -> Result<String, SeriesError> {
        match self.repository.transplant(commit, onto, message) {
            Err(GitError::Conflict { files, .. }) => {
                Err(SeriesError::Conflict { files, head: onto.to_owned() })
            }
            other => Ok(other?),
        }
    }

    /// The series' own files stay as they are in the base.
    fn snapshot(&self, tree: &Path, base: String, message: &str) -> Result<Taken, SeriesError> {
        let commit = self.repository.snapshot(tree, &base, message, &self.own_files(tree))?;
        Ok(Taken { commit, base })
    }
}
