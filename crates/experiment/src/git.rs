//! A repository of the user's, seen through the program `git`: candidates become commits, and nothing of the user's is
//! touched (X1).

mod alone;
mod call;
mod common;
mod content;
mod error;
mod history;
mod refs;
mod snapshot;
mod worktree;

pub use error::GitError;
pub(crate) use worktree::delete;
pub use worktree::Worktree;

use call::{Call, Output};
use error::OLDEST;
use snapshot::Index;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A repository with a working tree.
#[derive(Debug, Clone)]
pub struct Repository {
    root: PathBuf,
    /// Of the working tree; that of a linked one lies within the common one.
    git_dir: PathBuf,
    common_dir: PathBuf,
    /// Who makes commits, as settings, where the user has not said who they are.
    identity: Vec<String>,
}

impl Repository {
    /// The repository that a folder belongs to.
    ///
    /// # Errors
    /// When there is no git or an old one, no repository, or one without a working tree.
    pub fn open(dir: &Path) -> Result<Self, GitError> {
        let dir = dir.canonicalize().map_err(error::io("open", dir))?;
        check_version(&dir)?;
        let ask = |what: &[&str]| Call::new("open the repository", &dir).arg("rev-parse").args(what).any();
        let answer = ask(&["--is-bare-repository", "--is-inside-work-tree"])?;
        if answer.code != 0 {
            let said = answer.said();
            return Err(if said.contains("not a git repository") {
                GitError::NotARepository { dir }
            } else {
                GitError::Failed { doing: "open the repository", dir, said }
            });
        }
        // In the folder `.git` itself there is none either.
        if answer.line() != "false\ntrue" {
            return Err(GitError::Bare { dir });
        }
        let path = |what: &str| -> Result<PathBuf, GitError> {
            let output = Call::new("open the repository", &dir)
                .args(["rev-parse", "--path-format=absolute", what])
                .run()?;
            Ok(path_of_line(output))
        };
        let (root, git_dir, common_dir) =
            (path("--show-toplevel")?, path("--git-dir")?, path("--git-common-dir")?);
        let mut identity = Vec::new();
        for (name, ours) in [("user.name", "Duramen"), ("user.email", "duramen@localhost")] {
            let said = Call::new("read the settings", &dir).args(["config", "--get", name]).any()?;
            if said.line().trim().is_empty() {
                identity.push(format!("{name}={ours}"));
            }
        }
        Ok(Self { root, git_dir, common_dir, identity })
    }

    /// The top folder of the working tree.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where its objects and settings are.
    pub(crate) fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The commit that the user's working tree is at.
    ///
    /// # Errors
    /// When there is none yet.
    pub fn head(&self) -> Result<String, GitError> {
        let output =
            self.call("find HEAD").args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).any()?;
        match output.code {
            0 => Ok(output.line()),
            _ => Err(GitError::Unborn { root: self.root.clone() }),
        }
    }

    /// The id of the commit that something names: a branch, a tag, a commit id, `HEAD~2`.
    ///
    /// # Errors
    /// When it names none.
    pub fn resolve(&self, rev: &str) -> Result<String, GitError> {
        let none = || GitError::NoSuchCommit { rev: rev.to_owned() };
        // An option is not a name, and neither is what git would read on after.
        if rev.is_empty() || rev.starts_with('-') || rev.contains(['\0', '\n']) {
            return Err(none());
        }
        let rev = format!("{rev}^{{commit}}");
        let output = self.call("find a commit").args(["rev-parse", "--verify", "--quiet"]).arg(rev).any()?;
        if output.code == 0 {
            Ok(output.line())
        } else {
            Err(none())
        }
    }

    /// The files of the working tree that differ from HEAD or from the index, or that git does not know and does not
    /// ignore, without those in the folders `except`. Flags in the index hide none.
    ///
    /// # Errors
    /// When git fails.
    pub fn dirty_files(&self, except: &[PathBuf]) -> Result<Vec<String>, GitError> {
        let index = Index::copy_of(&self.git_dir.join("index"))?;
        index.reveal(&self.root, &|doing| index.call(self.call(doing)))?;
        let output = index
            .call(self.call("look for changed files"))
            .args(["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"])
            .run()?;
        let except = within(&self.root, except);
        let path = |item: &[u8]| Some(PathBuf::from(OsString::from_vec(item.get(3..)?.to_vec())));
        let paths = output.items().filter_map(path).collect::<Vec<_>>();
        let kept = paths.iter().filter(|path| !except.iter().any(|folder| path.starts_with(folder)));
        Ok(kept.map(|path| path.to_string_lossy().into_owned()).collect())
    }

    /// What is under way in the user's working tree that a commit of it would cut in two: a merge, rebase, cherry-pick,
    /// revert or bisect.
    #[must_use]
    pub fn busy(&self) -> Option<&'static str> {
        const SIGNS: [(&str, &str); 6] = [
            ("MERGE_HEAD", "merge"),
            ("rebase-merge", "rebase"),
            ("rebase-apply", "rebase"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
            ("BISECT_LOG", "bisect"),
        ];
        SIGNS.iter().find(|(file, _)| self.git_dir.join(file).exists()).map(|(_, what)| *what)
    }

    fn call(&self, doing: &'static str) -> Call {
        self.call_in(doing, &self.root)
    }

    fn call_in(&self, doing: &'static str, dir: &Path) -> Call {
        self.identity.iter().fold(Call::new(doing, dir), |call, setting| call.setting(setting))
    }
}

fn check_version(dir: &Path) -> Result<(), GitError> {
    let said = Call::new("ask for the version of git", dir).arg("version").run()?.line();
    // `git version 2.39.5 (Apple Git-154)`.
    let mut numbers =
        said.split(' ').nth(2).unwrap_or_default().split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => Err(GitError::TooOld { found: said }),
        // A version that cannot be read is most likely a newer one.
        _ => Ok(()),
    }
}

fn path_of_line(mut output: Output) -> PathBuf {
    if output.stdout.last() == Some(&b'\n') {
        output.stdout.pop();
    }
    PathBuf::from(OsString::from_vec(output.stdout))
}

/// Paths relative to a folder; those that lie elsewhere are left out.
fn within(root: &Path, paths: &[PathBuf]) -> Vec<PathBuf> {
    let relative = |path: &PathBuf| {
        let path = if path.is_absolute() {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            real.strip_prefix(root).ok()?.to_owned()
        } else {
            path.clone()
        };
        // `./a/` is `a`.
        let path: PathBuf = path.components().filter(|part| *part != std::path::Component::CurDir).collect();
        (!path.as_os_str().is_empty()).then_some(path)
    };
    paths.iter().filter_map(relative).collect()
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn lossy(item: &[u8]) -> String {
    String::from_utf8_lossy(item).into_owned()
}
