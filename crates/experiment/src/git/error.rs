//! What can go wrong with a repository, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why something could not be done with git.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// There is no git.
    #[error("there is no program `git` on the PATH: install git {}.{} or newer", OLDEST.0, OLDEST.1)]
    NotInstalled,
    /// Git lacks something that is needed.
    #[error("{found} is too old: git {}.{} or newer is needed", OLDEST.0, OLDEST.1)]
    TooOld {
        /// What it says of itself.
        found: String,
    },
    /// There is no repository.
    #[error("{} is not in a git repository: run `git init` and commit, or go to the repository", dir.display())]
    NotARepository {
        /// The folder that was asked about.
        dir: PathBuf,
    },
    /// There is no working tree.
    #[error("{} has no working tree: use a clone of it that is not bare", dir.display())]
    Bare {
        /// The folder that was asked about.
        dir: PathBuf,
    },
    /// There is no commit.
    #[error("the repository {} has no commit yet: commit what the experiment shall begin with", root.display())]
    Unborn {
        /// Its working tree.
        root: PathBuf,
    },
    /// Nothing has this name.
    #[error("`{rev}` names no commit of the repository: give a branch, a tag or a commit id")]
    NoSuchCommit {
        /// The name.
        rev: String,
    },
    /// A working tree of another repository.
    #[error("{} is not a working tree of the repository {}", worktree.display(), root.display())]
    OtherRepository {
        /// The working tree.
        worktree: PathBuf,
        /// The repository.
        root: PathBuf,
    },
    /// Two changes touch the same lines.
    #[error("the change does not fit: conflicts in {}", files.join(", "))]
    Conflict {
        /// The files.
        files: Vec<String>,
    },
    /// A patch that cannot be applied.
    #[error("the patch {} cannot be applied: {why}", file.display())]
    Patch {
        /// The patch.
        file: PathBuf,
        /// What git says.
        why: String,
    },
    /// The commit is not part of the stack.
    #[error("the commit {commit} is not among those that were kept")]
    NotInStack {
        /// The commit.
        commit: String,
    },
    /// Not a name that may be written.
    #[error("`{name}` cannot be written: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The branch is there.
    #[error("the branch `{name}` is there already: it is not overwritten; choose another name or delete it")]
    BranchExists {
        /// Its name.
        name: String,
    },
    /// A worktree would be part of the user's.
    #[error("{} is in the repository {}: worktrees are made outside of it", folder.display(), root.display())]
    InsideRepository {
        /// The folder for the worktree.
        folder: PathBuf,
        /// The repository.
        root: PathBuf,
    },
    /// Something else is there.
    #[error("{} is not a worktree that was made here: it is left as it is; move it away", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// Git failed.
    #[error("cannot {doing} in {}: {said}", dir.display())]
    Failed {
        /// What was to be done.
        doing: &'static str,
        /// Where.
        dir: PathBuf,
        /// What git says.
        said: String,
    },
    /// Git took too long.
    #[error("cannot {doing} in {}: git was ended after {seconds} s", dir.display())]
    TimedOut {
        /// What was to be done.
        doing: &'static str,
        /// Where.
        dir: PathBuf,
        /// After which time.
        seconds: u64,
    },
    /// Git said more than is read.
    #[error("cannot {doing} in {}: git says more than {limit} bytes", dir.display())]
    TooMuch {
        /// What was to be done.
        doing: &'static str,
        /// Where.
        dir: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// A file or process.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The oldest git that can merge without a working tree (`git merge-tree --write-tree`).
pub(super) const OLDEST: (u32, u32) = (2, 38);

/// For `map_err`: an error of a file.
pub(super) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> GitError {
    let path = path.into();
    move |source| GitError::Io { doing, path, source }
}
