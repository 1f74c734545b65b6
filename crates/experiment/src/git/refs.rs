//! Names for commits: ours below `refs/duramen/`, and branches that the user asked for.

use super::{GitError, Repository};

/// All names that are ours begin with this.
const REFS: &str = "refs/duramen/";
/// As the value that a name has now: none, it must not be there.
const NONE: &str = "";

impl Repository {
    /// Lets a name below `refs/duramen/` be that of a commit, whatever it was before.
    ///
    /// # Errors
    /// [`GitError::Name`] for any other name.
    pub fn set_ref(&self, name: &str, commit: &str) -> Result<(), GitError> {
        self.check_ours(name)?;
        let commit = self.resolve(commit)?;
        self.call("write a ref").args(["update-ref", "--no-deref", name, &commit]).run()?;
        Ok(())
    }

    /// Removes a name below `refs/duramen/`; it need not be there.
    ///
    /// # Errors
    /// [`GitError::Name`] for any other name.
    pub fn delete_ref(&self, name: &str) -> Result<(), GitError> {
        self.check_ours(name)?;
        self.call("delete a ref").args(["update-ref", "--no-deref", "-d", name]).run()?;
        Ok(())
    }

    /// Makes a branch for the user.
    ///
    /// # Errors
    /// [`GitError::BranchExists`], [`GitError::Name`].
    pub fn create_branch(&self, name: &str, commit: &str) -> Result<(), GitError> {
        let commit = self.resolve(commit)?;
        let branch = format!("refs/heads/{name}");
        let fits = self.call("check a name").args(["check-ref-format", "--branch", name]).any()?;
        // `@{-1}` is a name for another branch.
        if name.starts_with('-') || fits.code != 0 || fits.line() != name {
            return Err(GitError::Name { name: name.to_owned(), why: "git does not take it for a branch" });
        }
        let there = self.call("find a branch").args(["show-ref", "--verify", "--quiet", &branch]).any()?;
        if there.code == 0 {
            return Err(GitError::BranchExists { name: name.to_owned() });
        }
        // Somebody may make it meanwhile.
        self.call("make a branch").args(["update-ref", &branch, &commit, NONE]).run()?;
        Ok(())
    }

    fn check_ours(&self, name: &str) -> Result<(), GitError> {
        if !name.starts_with(REFS) {
            return Err(GitError::Name { name: name.to_owned(), why: "it is not below refs/duramen/" });
        }
        if self.call("check a name").args(["check-ref-format", name]).any()?.code != 0 {
            return Err(GitError::Name { name: name.to_owned(), why: "git does not take it for a ref" });
        }
        Ok(())
    }
}
