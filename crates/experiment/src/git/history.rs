//! Commits made of commits, and what lies between two.

use super::snapshot::Index;
use super::{lossy, GitError, Repository};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

impl Repository {
    /// The change of a commit (against its first parent) as a commit on another one.
    ///
    /// # Errors
    /// [`GitError::Conflict`] if both changed the same lines.
    pub fn transplant(&self, commit: &str, onto: &str, message: &str) -> Result<String, GitError> {
        let commit = self.resolve(commit)?;
        let parent = self.resolve(&format!("{commit}~1"))?;
        let onto = self.resolve(onto)?;
        let tree = if parent == onto { self.tree(&commit)? } else { self.merged(&parent, &onto, &commit)? };
        self.commit_tree(&tree, &[&onto], message)
    }

    /// The tree that two commits come to together, seen from a third.
    fn merged(&self, base: &str, ours: &str, theirs: &str) -> Result<String, GitError> {
        // Git before 2.40 finds the base by itself only: in a history of three commits made for it, it is the one.
        let made = "made to find the base of a merge";
        let base = self.commit_tree(&self.tree(base)?, &[], made)?;
        let ours = self.commit_tree(&self.tree(ours)?, &[&base], made)?;
        let theirs = self.commit_tree(&self.tree(theirs)?, &[&base], made)?;
        let output = self
            .call("merge two changes")
            .args(["merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", &ours, &theirs])
            .any()?;
        let mut items = output.items();
        match (output.code, items.next()) {
            (0, Some(tree)) => Ok(lossy(tree)),
            (1, Some(_)) => Err(GitError::Conflict { files: items.map(lossy).collect() }),
            _ => Err(GitError::Failed {
                doing: "merge two changes",
                dir: self.root.clone(),
                said: output.said(),
            }),
        }
    }

    /// A patch, as `git diff` or `git format-patch` write it, as a commit on a base.
    ///
    /// # Errors
    /// [`GitError::Patch`] if it is none, does not fit, or changes nothing.
    pub fn apply_patch(&self, base: &str, patch: &Path, message: &str) -> Result<String, GitError> {
        let base = self.resolve(base)?;
        let bad = |why: String| GitError::Patch { file: patch.to_owned(), why };
        let text = std::fs::read(patch).map_err(|error| bad(error.to_string()))?;
        let apply = |how: &[&str]| -> Result<Result<String, String>, GitError> {
            let index = Index::empty()?;
            let call = |doing| index.call(self.call(doing));
            call("read a commit").args(["read-tree", &base]).run()?;
            let args = ["apply", "--cached", "--whitespace=nowarn"];
            let output = call("apply a patch").args(args).args(how).arg("-").input(text.clone()).any()?;
            if output.code != 0 {
                return Ok(Err(output.said()));
            }
            Ok(Ok(call("write a tree").arg("write-tree").run()?.line()))
        };
        let tree = match apply(&[])? {
            Ok(tree) => tree,
            // One that was made from another commit may fit all the same, seen from what it was made from.
            Err(why) => apply(&["--3way"])?.map_err(|_| bad(why))?,
        };
        if tree == self.tree(&base)? {
            return Err(bad("it changes nothing".to_owned()));
        }
        self.commit_tree(&tree, &[&base], message)
    }

    /// Whether a commit holds the change from one commit to another, line by line: whether that can be taken back there.
    /// A change of nothing is held by none.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) fn contains(&self, commit: &str, from: &str, to: &str) -> Result<bool, GitError> {
        let patch = self.diff(from, to)?;
        if patch.is_empty() {
            return Ok(false);
        }
        let index = Index::empty()?;
        let call = |doing| index.call(self.call(doing));
        call("read a commit").args(["read-tree", commit]).run()?;
        let args = ["apply", "--cached", "--reverse", "--check", "--whitespace=nowarn", "-"];
        Ok(call("look for a change").args(args).input(patch.into_bytes()).any()?.code == 0)
    }

    /// The files that differ between two commits, each once, by name; a renamed one under both names.
    ///
    /// # Errors
    /// When git fails.
    pub fn changed_files(&self, from: &str, to: &str) -> Result<Vec<String>, GitError> {
        let (from, to) = (self.resolve(from)?, self.resolve(to)?);
        let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", &from, &to];
        Ok(self.call("compare two commits").args(args).run()?.items().map(lossy).collect())
    }

    /// The paths of the files of a commit.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) fn files(&self, commit: &str) -> Result<Vec<PathBuf>, GitError> {
        let commit = self.resolve(commit)?;
        let args = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", &commit];
        let list = self.call("list a commit").args(args).run()?;
        Ok(list.items().map(|item| PathBuf::from(OsString::from_vec(item.to_vec()))).collect())
    }

    /// The difference between two commits, as a patch. What is not UTF-8 is replaced.
    ///
    /// # Errors
    /// When git fails.
    pub fn diff(&self, from: &str, to: &str) -> Result<String, GitError> {
        let (from, to) = (self.resolve(from)?, self.resolve(to)?);
        let args = ["diff-tree", "-r", "-p", "--no-renames", "--full-index", "--binary"];
        let plain = ["--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
        Ok(lossy(&self.call("compare two commits").args(args).args(plain).args([&from, &to]).run()?.stdout))
    }

    /// A stack of commits without one of them, or nothing if the others do not fit together then. `stack` are the
    /// commits on top of `start` in their order.
    ///
    /// # Errors
    /// [`GitError::NotInStack`].
    pub fn without(&self, start: &str, stack: &[String], left_out: &str) -> Result<Option<String>, GitError> {
        if !stack.iter().any(|commit| commit == left_out) {
            return Err(GitError::NotInStack { commit: left_out.to_owned() });
        }
        let mut head = self.resolve(start)?;
        for commit in stack.iter().filter(|commit| *commit != left_out) {
            if self.resolve(&format!("{commit}~1"))? == head {
                head.clone_from(commit);
                continue;
            }
            head = match self.transplant(commit, &head, &self.message(commit)?) {
                Ok(head) => head,
                Err(GitError::Conflict { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(Some(head))
    }

    /// The message of a commit.
    ///
    /// # Errors
    /// When there is no such commit.
    pub fn message(&self, commit: &str) -> Result<String, GitError> {
        let commit = self.resolve(commit)?;
        let output = self
            .call("read a commit")
            .args(["log", "-1", "--no-color", "--no-show-signature", "--format=%B", &commit])
            .run()?;
        Ok(lossy(&output.stdout).trim_end().to_owned())
    }

    /// The same files as a commit has, on another parent and with another message.
    pub(crate) fn reworded(&self, commit: &str, parent: &str, message: &str) -> Result<String, GitError> {
        let commit = self.resolve(commit)?;
        self.commit_tree(&self.tree(&commit)?, &[parent], message)
    }

    fn tree(&self, commit: &str) -> Result<String, GitError> {
        let tree = format!("{commit}^{{tree}}");
        Ok(self.call("find a tree").args(["rev-parse", "--verify", &tree]).run()?.line())
    }

    pub(super) fn commit_tree(
        &self,
        tree: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<String, GitError> {
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        let call = self.call("make a commit").args(["commit-tree", tree]).args(parents);
        Ok(call.args(["-F", "-"]).input(message.as_bytes().to_vec()).run()?.line())
    }
}
