//! What was kept, as branches of the user's repository.

use super::{Branch, Series, SeriesError};

impl Series<'_> {
    /// Makes `PREFIX/stack` at the head and `PREFIX/try-N` at each kept try of the stack. Either all of them
    /// are made, or, if one exists already, none.
    ///
    /// # Errors
    /// When nothing is kept, a branch exists, the prefix is not a name of a branch, or git refuses.
    pub fn export(&mut self, prefix: &str) -> Result<Vec<Branch>, SeriesError> {
        let current = self.current()?;
        let segment = self.state.current().ok_or(SeriesError::NoBaseline)?;
        if segment.keeps.is_empty() {
            return Err(SeriesError::NothingKept { segment: current.number, doing: "export" });
        }
        let prefix = prefix.trim_end_matches('/');
        let mut branches = Vec::new();
        // After an override the tries stand in the stack under other ids than those of their candidates.
        for (above, kept) in segment.keeps.iter().rev().enumerate() {
            let commit = self.repository.resolve(&format!("{}~{above}", current.head))?;
            branches.push(Branch {
                name: format!("{prefix}/try-{}", kept.number),
                commit,
                number: Some(kept.number),
            });
        }
        branches.reverse();
        branches.push(Branch { name: format!("{prefix}/stack"), commit: current.head, number: None });
        if let Some(taken) = branches.iter().find(|branch| self.exists(&branch.name)) {
            return Err(SeriesError::BranchExists { name: taken.name.clone() });
        }
        for branch in &branches {
            self.repository.create_branch(&branch.name, &branch.commit)?;
        }
        Ok(branches)
    }

    fn exists(&self, branch: &str) -> bool {
        self.repository.resolve(&format!("refs/heads/{branch}")).is_ok()
    }
}
