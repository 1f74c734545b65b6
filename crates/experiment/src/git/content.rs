//! What lies in a worktree of ours that is not of its commit: by content, and by the rules of the commit. What a command
//! did with git there (flags in the index, filters, ignored files, settings) hides nothing.

use super::error::io;
use super::snapshot::Index;
use super::worktree::quoted;
use super::{bytes, lossy, GitError, Repository};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How files are named by which git says what it ignores.
const IGNORE: &str = ".gitignore";
/// What is said of a file that is not there, or is something else.
const GONE: &str = "gone";

/// A file of a commit.
struct Entry {
    path: PathBuf,
    mode: String,
    blob: String,
}

impl Repository {
    /// The files of a commit that are not in a worktree as the commit has them, each with what is there instead. Those
    /// that git converts when it checks them out are among them.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) fn differing_files(
        &self,
        worktree: &Path,
        commit: &str,
    ) -> Result<BTreeMap<String, String>, GitError> {
        let targets = tempfile::tempdir().map_err(io("write to", std::env::temp_dir()))?;
        let mut differing = BTreeMap::new();
        let (mut hashed, mut paths) = (Vec::new(), Vec::new());
        for (number, entry) in self.entries(commit)?.into_iter().enumerate() {
            let path = worktree.join(&entry.path);
            let is_link = entry.mode == "120000";
            let meta = path.symlink_metadata();
            let is_it =
                meta.as_ref().is_ok_and(|meta| meta.is_symlink() == is_link && (is_link || meta.is_file()));
            if !is_it || (!is_link && File::open(&path).is_err()) {
                differing.insert(lossy(bytes(&entry.path)), GONE.to_owned());
                continue;
            }
            let is_program = meta.is_ok_and(|meta| !is_link && meta.permissions().mode() & 0o100 != 0);
            let read = if is_link {
                let (copy, target) = (targets.path().join(number.to_string()), fs::read_link(&path));
                let target = target.map_err(io("read", &path))?;
                fs::write(&copy, target.as_os_str().as_bytes()).map_err(io("write", &copy))?;
                copy
            } else {
                path
            };
            paths.extend_from_slice(&quoted(bytes(&read)));
            paths.push(b'\n');
            hashed.push((entry, is_program));
        }
        if hashed.is_empty() {
            return Ok(differing);
        }
        let call = self.call("read the files of a worktree");
        let found = call.args(["hash-object", "--no-filters", "--stdin-paths"]).input(paths).run()?;
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        for ((entry, is_program), digest) in hashed.iter().zip(found.lines()) {
            if digest != entry.blob || *is_program != (entry.mode == "100755") {
                let mode = if *is_program { "x" } else { "" };
                differing.insert(lossy(bytes(&entry.path)), format!("{digest}{mode}"));
            }
        }
        Ok(differing)
    }

    /// The files in a worktree that are not of a commit, ignored or not. Of repositories within only their folders.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) fn other_files(&self, worktree: &Path, commit: &str) -> Result<BTreeSet<String>, GitError> {
        let index = Index::empty()?;
        let call = |doing| index.call(self.call_for(doing, worktree));
        call("read a commit").args(["read-tree", commit]).run()?;
        let others = call("list the new files").args(["ls-files", "-z", "--others"]).run()?;
        Ok(others.items().map(lossy).collect())
    }

    /// Those of some files that a commit has git ignore, whatever files say so that are not of the commit.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) fn ignored(&self, commit: &str, files: &[String]) -> Result<BTreeSet<String>, GitError> {
        if files.is_empty() {
            return Ok(BTreeSet::new());
        }
        let rules = tempfile::tempdir().map_err(io("write to", std::env::temp_dir()))?;
        for entry in self.entries(commit)?.iter().filter(|entry| entry.path.ends_with(IGNORE)) {
            let text =
                self.call("read a file of a commit").args(["cat-file", "blob", &entry.blob]).run()?.stdout;
            let path = rules.path().join(&entry.path);
            let written =
                path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
            written.map_err(io("write", path))?;
        }
        let index = Index::empty()?;
        let mut names = files.join("\0").into_bytes();
        names.push(0);
        let call = index.call(self.call_for("ask what is ignored", rules.path()));
        // Its exit status is 1 where nothing is.
        let ignored = call.args(["check-ignore", "--no-index", "-z", "--stdin"]).input(names).any()?;
        Ok(ignored.items().map(lossy).collect())
    }

    fn entries(&self, commit: &str) -> Result<Vec<Entry>, GitError> {
        let tree = self.call("list a commit").args(["ls-tree", "-r", "-z", "--full-tree", commit]).run()?;
        // `MODE TYPE ID<tab>PATH`. A submodule has the type `commit`, and no content to compare.
        let entry = |item: &[u8]| {
            let at = item.iter().position(|byte| *byte == b'\t')?;
            let head = lossy(&item[..at]);
            let mut words = head.split(' ');
            let (mode, kind, blob) = (words.next()?.to_owned(), words.next()?, words.next()?.to_owned());
            let path = PathBuf::from(OsString::from_vec(item[at + 1..].to_vec()));
            (kind == "blob").then_some(Entry { path, mode, blob })
        };
        Ok(tree.items().filter_map(entry).collect())
    }
}
