//! What two commits have in common.

use super::{GitError, Repository};

impl Repository {
    /// The newest commit that two commits both descend from (or are), or nothing if they have no history in
    /// common.
    ///
    /// # Errors
    /// When there is no such commit, or git fails.
    pub(crate) fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, GitError> {
        let (one, other) = (self.resolve(one)?, self.resolve(other)?);
        let output =
            self.call("find what two commits have in common").args(["merge-base", &one, &other]).any()?;
        match output.code {
            0 => Ok(Some(output.line())),
            1 => Ok(None),
            _ => Err(GitError::Failed {
                doing: "find what two commits have in common",
                dir: self.root.clone(),
                said: output.said(),
            }),
        }
    }
}
