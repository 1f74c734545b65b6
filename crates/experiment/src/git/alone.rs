//! A worktree that knows nothing of the repository that it came from.

use super::{error::io, worktree::delete, Call, GitError, Repository};
use std::{
    fs,
    path::{Path, PathBuf},
};

impl Repository {
    /// Gives a worktree of ours a git folder with one commit, of what lies in it now, and without history, refs, settings
    /// or objects of this repository: whoever works there can use git, and learns of the repository what the files say.
    /// Before that `without`, relative to its top, is deleted. The next [`worktree`](Self::worktree) undoes all of it, and
    /// [`snapshot`](Self::snapshot) does not look at it.
    ///
    /// # Errors
    /// When git fails, or something cannot be deleted.
    pub(crate) fn set_apart(&self, path: &Path, without: &[PathBuf]) -> Result<(), GitError> {
        for file in without {
            // Of a link on the way to it, what it points at stays.
            let real = path.join(file).parent().and_then(|parent| parent.canonicalize().ok());
            if real.is_some_and(|real| real.starts_with(path)) {
                delete(&path.join(file))?;
            }
        }
        let git_dir = path.join(".git");
        let exclude = fs::read(git_dir.join("info/exclude")).unwrap_or_default();
        delete(&git_dir)?;
        let call = |doing| Call::new(doing, path).guarded();
        call("make a git folder")
            .args(["init", "--quiet", "--template=", "--initial-branch=main"])
            .arg(format!("--object-format={}", self.object_format()?))
            .run()?;
        let place = git_dir.join("info");
        fs::create_dir_all(&place).map_err(io("make", &place))?;
        fs::write(place.join("exclude"), exclude).map_err(io("write", &place))?;
        for (name, value) in
            [("user.name", "duramen"), ("user.email", "duramen@localhost"), ("commit.gpgsign", "false")]
        {
            call("name an author").args(["config", name, value]).run()?;
        }
        call("read the files").args(["add", "--all", "--", "."]).run()?;
        let commit = ["commit", "--quiet", "--no-verify", "--allow-empty", "-m", "The head of the series"];
        call("make a commit").args(commit).run()?;
        Ok(())
    }
}
