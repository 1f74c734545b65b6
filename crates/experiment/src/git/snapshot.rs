//! A working tree as a commit, through an index of our own.

use super::error::io;
use super::{bytes, path_of_line, within, Call, GitError, Repository};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An index in a folder of its own, which goes with it.
pub(super) struct Index {
    _folder: TempDir,
    path: PathBuf,
}

impl Index {
    pub(super) fn empty() -> Result<Self, GitError> {
        let temporary = std::env::temp_dir();
        let folder =
            tempfile::Builder::new().prefix("duramen-index-").tempdir().map_err(io("write to", temporary))?;
        let path = folder.path().join("index");
        Ok(Self { _folder: folder, path })
    }

    /// Begins with what an index knows of the files, so that only changed ones are read.
    pub(super) fn copy_of(index: &Path) -> Result<Self, GitError> {
        let new = Self::empty()?;
        let modified = match fs::metadata(index).and_then(|meta| meta.modified()) {
            Ok(modified) => modified,
            // Nothing was ever added.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(new),
            Err(error) => return Err(io("read", index)(error)),
        };
        fs::copy(index, &new.path).map_err(io("copy", index))?;
        // Git compares a file anew if it was changed when the index was written or later. With a later time of the
        // index a change right after it would go unseen.
        let copy = File::options().write(true).open(&new.path).map_err(io("open", &new.path))?;
        copy.set_modified(modified).map_err(io("set the time of", &new.path))?;
        Ok(new)
    }

    /// Takes away the flags by which git does not look at files: those that are taken for unchanged, and those that
    /// are left out of a working tree and are there all the same.
    pub(super) fn reveal(&self, top: &Path, call: &dyn Fn(&'static str) -> Call) -> Result<(), GitError> {
        let listed = call("list the index").args(["ls-files", "-z", "-v"]).run()?;
        let (mut assumed, mut skipped) = (Vec::new(), Vec::new());
        for item in listed.items() {
            let (flag, name) = (item.first().copied().unwrap_or_default(), item.get(2..).unwrap_or_default());
            let is_there = || top.join(OsString::from_vec(name.to_vec())).symlink_metadata().is_ok();
            if flag.is_ascii_lowercase() {
                assumed.extend_from_slice(name);
                assumed.push(0);
            }
            if flag.eq_ignore_ascii_case(&b's') && is_there() {
                skipped.extend_from_slice(name);
                skipped.push(0);
            }
        }
        for (how, list) in [("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)] {
            if !list.is_empty() {
                call("change an index of our own")
                    .args(["update-index", how, "-z", "--stdin"])
                    .input(list)
                    .run()?;
            }
        }
        Ok(())
    }

    pub(super) fn call(&self, call: Call) -> Call {
        call.env("GIT_INDEX_FILE", &self.path)
    }
}

impl Repository {
    /// The commit of what a working tree of this repository holds, the user's or a worktree of ours: tracked files, and
    /// those that git neither knows nor ignores. What is in `except` (folders or files, absolute or relative to the top)
    /// is as in `parent`. Repositories within the working tree are left out, unless they are submodules.
    ///
    /// Flags in the index (`--assume-unchanged`, `--skip-worktree`) hide no change. Neither the working tree nor its index
    /// is written. Nothing refers to the commit yet.
    ///
    /// # Errors
    /// When the folder belongs to another repository, or git fails.
    pub fn snapshot(
        &self,
        worktree: &Path,
        parent: &str,
        message: &str,
        except: &[PathBuf],
    ) -> Result<String, GitError> {
        let parent = &self.resolve(parent)?;
        let worktree = worktree.canonicalize().map_err(io("find", worktree))?;
        let is_ours = self.is_ours(&worktree);
        let (top, index) = if is_ours {
            // What a command did with git there counts for nothing: all files are compared with the parent's.
            let index = Index::empty()?;
            let call = index.call(self.call_for("read a commit", &worktree));
            call.args(["read-tree", parent]).run()?;
            (worktree, index)
        } else {
            let (top, git_dir) = self.working_tree(&worktree)?;
            (top, Index::copy_of(&git_dir.join("index"))?)
        };
        let except = within(&top, except);
        let call =
            |doing| index.call(if is_ours { self.call_for(doing, &top) } else { self.call_in(doing, &top) });

        if !is_ours {
            index.reveal(&top, &call)?;
        }
        let excluded = except.iter().map(|path| {
            let mut pattern = b":(top,exclude,literal)".to_vec();
            pattern.extend_from_slice(bytes(path));
            OsString::from_vec(pattern)
        });
        call("read the changed files").args(["add", "--update", "--", ":(top)"]).args(excluded).run()?;
        // `git add --all` would take repositories within for submodules, and fail at those without a commit.
        let others =
            call("list the new files").args(["ls-files", "-z", "--others", "--exclude-standard"]).run()?;
        let mut list = Vec::new();
        for item in others.items().filter(|item| !item.ends_with(b"/")) {
            let path = PathBuf::from(OsString::from_vec(item.to_vec()));
            if !except.iter().any(|folder| path.starts_with(folder)) {
                list.extend_from_slice(item);
                list.push(0);
            }
        }
        if !list.is_empty() {
            // A file may go while it is being read.
            call("read the new files")
                .args(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"])
                .input(list)
                .run()?;
        }
        if !except.is_empty() {
            self.restore(&call, parent, &except)?;
        }
        let tree = call("write a tree").arg("write-tree").run()?.line();
        self.commit_tree(&tree, &[parent], message)
    }

    /// Makes the files below some paths in an index those of a commit.
    fn restore(
        &self,
        call: &dyn Fn(&'static str) -> Call,
        commit: &str,
        paths: &[PathBuf],
    ) -> Result<(), GitError> {
        let call = |doing| call(doing).arg("--literal-pathspecs");
        let mut list = Vec::new();
        let now = call("list the index").args(["ls-files", "-z", "--"]).args(paths).run()?;
        for item in now.items() {
            // Mode 0 takes a file out. The id is not looked at, but has its length.
            list.extend_from_slice(format!("0 {}\t", "0".repeat(commit.len())).as_bytes());
            list.extend_from_slice(item);
            list.push(0);
        }
        let then = call("list a commit")
            .args(["ls-tree", "-r", "-z", "--full-tree", commit, "--"])
            .args(paths)
            .run()?;
        list.extend_from_slice(&then.stdout);
        if !list.is_empty() {
            call("change an index of our own")
                .args(["update-index", "--replace", "-z", "--index-info"])
                .input(list)
                .run()?;
        }
        Ok(())
    }

    /// The top and the git folder of a working tree of this repository.
    fn working_tree(&self, worktree: &Path) -> Result<(PathBuf, PathBuf), GitError> {
        let ask = |what: &str| -> Result<PathBuf, GitError> {
            let call = Call::new("look at the working tree", worktree);
            Ok(path_of_line(call.args(["rev-parse", "--path-format=absolute", what]).run()?))
        };
        if ask("--git-common-dir")? != self.common_dir {
            return Err(GitError::OtherRepository { worktree: worktree.to_owned(), root: self.root.clone() });
        }
        Ok((ask("--show-toplevel")?, ask("--git-dir")?))
    }
}
