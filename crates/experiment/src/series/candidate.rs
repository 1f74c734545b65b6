//! Making a candidate of what the user or a proposer changed. The user's files and index are not touched
//! (X1).

use super::{Change, Current, Series, SeriesError};
use crate::git::GitError;
use std::{collections::BTreeSet, path::Path};

/// The worktree for changes that are looked at.
pub(super) const PROPOSAL: &str = "proposal";

/// A change as a commit of its own.
pub(super) struct Taken {
    pub(super) commit: String,
    /// What it is a change of.
    base: String,
}

impl Series<'_> {
    /// Makes a commit of a change: of what it is a change is `named`, or follows from rules that take no line for a change
    /// that the user may have never touched (X24).
    pub(super) fn take_in(
        &self,
        change: &Change,
        named: Option<&str>,
        current: &Current,
        message: &str,
    ) -> Result<Taken, SeriesError> {
        let named = named.map(|base| self.repository.resolve(base)).transpose()?;
        let keeps = self.state.current().map_or(&[][..], |segment| &segment.keeps);
        // What is older than the start may lack what the start has.
        let is_known = |commit: &str| {
            let name = &current.spec.name;
            let tried =
                |number| self.repository.resolve(&Self::tree_ref(name, number)).is_ok_and(|it| it == commit);
            [&current.start, &current.head].into_iter().any(|known| known == commit)
                || keeps.iter().any(|kept| kept.commit == commit || tried(kept.number))
        };
        match change {
            Change::WorkingTree => {
                if let Some(what) = self.repository.busy() {
                    let path = self.repository.root().to_owned();
                    return Err(SeriesError::Busy { what: what.to_owned(), path });
                }
                let (root, at) = (self.repository.root().to_owned(), self.repository.head()?);
                let base = match named {
                    Some(base) => Some(base),
                    None => self.base_of(&root, &at, current, message)?.filter(|base| is_known(base)),
                };
                let base = base.ok_or_else(|| SeriesError::NoBase { of: "the working tree".to_owned() })?;
                self.snapshot(&root, base, message)
            }
            Change::Branch(name) => {
                let tip = self.repository.resolve(name)?;
                let tree = self.repository.worktree(&self.work.join(PROPOSAL), &tip, false)?.path;
                let base = match named {
                    Some(base) => Some(base),
                    None => self.base_of(&tree, &tip, current, message)?,
                };
                let base = base.ok_or_else(|| SeriesError::NoBase { of: name.clone() })?;
                self.snapshot(&tree, base, message)
            }
            Change::Patch(path) => {
                let base = named.unwrap_or_else(|| current.head.clone());
                let commit = self.repository.apply_patch(&base, path, message)?;
                Ok(Taken { commit, base })
            }
        }
    }

    /// What a tree that was checked out from a commit is a change of. If the history of that commit has something that was
    /// kept, the newest that it has. Else the newest state that was kept and that the tree holds line by line, so that what
    /// it has besides is a change of that state: the stack, the stack without its last tries, or a tree that was tried and
    /// kept. Else what its history has in common with the head, if anything.
    fn base_of(
        &self,
        tree: &Path,
        at: &str,
        current: &Current,
        message: &str,
    ) -> Result<Option<String>, SeriesError> {
        let keeps = self.state.current().map_or(&[][..], |segment| &segment.keeps);
        let common = self.repository.merge_base(at, &current.head)?;
        let is_kept =
            |commit: &String| *commit == current.head || keeps.iter().any(|kept| kept.commit == *commit);
        if keeps.is_empty() || common.as_ref().is_some_and(is_kept) {
            return Ok(common);
        }
        let now = self.snapshot(tree, current.start.clone(), message)?.commit;
        for kept in keeps.iter().rev() {
            // Of a stack that was decided by hand, not every prefix is a commit.
            if self.repository.contains(&now, &current.start, &kept.commit)? {
                return Ok(Some(kept.commit.clone()));
            }
        }
        for kept in keeps.iter().rev() {
            let tried = self.repository.resolve(&Self::tree_ref(&current.spec.name, kept.number));
            let Ok(tried) = tried else { continue };
            // From the start: what the tree was made of was kept, too.
            if self.repository.contains(&now, &current.start, &tried)? {
                return Ok(Some(tried));
            }
        }
        Ok(common)
    }

    /// Tells if a candidate takes back lines of what was kept.
    pub(super) fn tell_reverts(&self, current: &Current, candidate: &str) -> Result<(), SeriesError> {
        let removed = lines(&self.repository.diff(&current.head, candidate)?, '-');
        let keeps = self.state.current().map_or(&[][..], |segment| &segment.keeps);
        for kept in keeps.iter().filter(|_| !removed.is_empty()) {
            let added = lines(&self.repository.diff(&format!("{}~1", kept.commit), &kept.commit)?, '+');
            let back: Vec<&String> = added.intersection(&removed).map(|(_, line)| line).collect();
            if let Some(first) = back.first() {
                let more =
                    if back.len() > 1 { format!(", and {} more", back.len() - 1) } else { String::new() };
                self.say(&format!(
                    "it takes back lines of try {}, which was kept: `{first}`{more}",
                    kept.number
                ));
            }
        }
        Ok(())
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

/// The lines that a patch adds (`+`) or removes (`-`), each with its file, without those that hold nothing but signs.
fn lines(patch: &str, sign: char) -> BTreeSet<(String, String)> {
    let (mut file, mut found, mut is_hunk) = (String::new(), BTreeSet::new(), false);
    for line in patch.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            (file, is_hunk) = (names.to_owned(), false);
        }
        is_hunk |= line.starts_with("@@");
        let Some(text) = line.strip_prefix(sign).filter(|_| is_hunk) else { continue };
        if text.contains(char::is_alphanumeric) {
            found.insert((file.clone(), text.trim().to_owned()));
        }
    }
    found
}
