//! What lies in a worktree after a build, and whether it is still that (X13).
//!
//! A look at a worktree is one `lstat` a file. What the build made is known by its content too: a file whose size, inode,
//! mode and times are what they were is taken for unchanged, any other is read. Its times can be set back; the time of
//! its last change of any kind (ctime) cannot, short of setting the clock.

use crate::glob::{self, Use};
use blake3::Hasher;
use duramen_base::clock;
use globset::{GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The most files of a worktree that are looked at.
pub(crate) const FILES_MAX: usize = 500_000;
/// A file that was changed so shortly before it was read may change again without its times showing it: they are as
/// coarse as the file system's clock. It is read again the next time.
const COARSE_NS: i128 = 2_000_000_000;
/// The bits of a mode that say what kind of file it is.
const KIND: u32 = 0o170_000;
const PLAIN: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const FOLDER_OF_GIT: &str = ".git";

/// What `lstat` says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stat {
    mode: u32,
    size: u64,
    inode: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Stat {
    fn new(meta: &Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            mode: meta.mode(),
            size: meta.size(),
            inode: meta.ino(),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// The files of a worktree by name, as they were at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    files: BTreeMap<String, Stat>,
    folders: BTreeSet<String>,
    /// Folders that cannot be read.
    closed: BTreeSet<String>,
    /// The paths of those whose names had to be escaped.
    odd: BTreeMap<String, PathBuf>,
    /// When it began.
    at_ns: i128,
}

/// What the build made, and the files of the commit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outputs {
    files: BTreeMap<String, Output>,
    folders: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Output {
    stat: Stat,
    /// Nothing for what has no content: a pipe, or a file that may not be read.
    digest: Option<String>,
    /// Whether it was changed so shortly before it was read that its times do not tell.
    is_young: bool,
}

/// Files that runs may change.
pub(crate) struct Scratch(GlobSet);

impl Scratch {
    /// Those that globs match, and the file of figures.
    ///
    /// # Errors
    /// When a glob does not parse, which no spec has that was checked.
    pub(crate) fn new(globs: &[String], figures: Option<&str>) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            for one in glob::compile(glob, Use::Forbid)? {
                set.add(one);
            }
        }
        if let Some(figures) = figures {
            set.add(globset::Glob::new(&globset::escape(figures)).map_err(|error| error.to_string())?);
        }
        set.build().map(Self).map_err(|error| error.to_string())
    }
}

impl Look {
    /// Looks at all files of a worktree but those of git itself.
    ///
    /// # Errors
    /// When a folder cannot be read, or there are more than [`FILES_MAX`] files.
    pub(crate) fn at(tree: &Path, scratch: &Scratch) -> io::Result<Self> {
        let mut look = Self {
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
            closed: BTreeSet::new(),
            odd: BTreeMap::new(),
            at_ns: now_ns(),
        };
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(tree.join(&folder)) {
                Ok(entries) => entries,
                // What was there and cannot be seen any more is missing.
                Err(error) if is_absent(&error) => {
                    look.closed.insert(name(&folder));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                if scratch.0.is_match(&path) {
                    continue;
                }
                let meta = match entry.metadata() {
                    Ok(meta) => meta,
                    Err(error) if is_absent(&error) => continue,
                    Err(error) => return Err(error),
                };
                if meta.is_dir() && path.as_os_str() == FOLDER_OF_GIT {
                    continue;
                }
                let name = name(&path);
                if path.as_os_str() != name.as_str() {
                    look.odd.insert(name.clone(), path.clone());
                }
                if meta.is_dir() {
                    look.folders.insert(name);
                    folders.push(path);
                    continue;
                }
                look.files.insert(name, Stat::new(&meta));
                if look.files.len() > FILES_MAX {
                    let what = format!(
                        "there are more than {FILES_MAX} files, which is too many to look at after each run: name \
                         folders that need no look in `measure.scratch`"
                    );
                    return Err(io::Error::new(ErrorKind::FileTooLarge, what));
                }
            }
        }
        Ok(look)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.odd.get(name).cloned().unwrap_or_else(|| PathBuf::from(name))
    }

    /// The files that are there in one of two looks only, or not the same.
    fn differs_from<'l>(&'l self, other: &'l Self) -> impl Iterator<Item = &'l String> {
        let all: BTreeSet<&String> = self.files.keys().chain(other.files.keys()).collect();
        all.into_iter().filter(|name| self.files.get(*name) != other.files.get(*name))
    }
}

impl Outputs {
    /// Takes down what a build made: what is not as it was `before`, what was an output and still is there, and the
    /// files of the commit. What else is there was added by runs.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn capture(
        tree: &Path,
        before: &Look,
        after: &Look,
        known: &Self,
        commit: &BTreeSet<String>,
    ) -> io::Result<Self> {
        let mut outputs = BTreeMap::new();
        for (name, stat) in &after.files {
            let was = known.files.get(name);
            if before.files.get(name) == Some(stat) && was.is_none() && !commit.contains(name) {
                continue;
            }
            let output = match was.filter(|was| was.stat == *stat && !was.is_young) {
                Some(was) => was.clone(),
                None => Output::read(tree, name, stat, after)?,
            };
            outputs.insert(name.clone(), output);
        }
        Ok(Self { files: outputs, folders: after.folders.clone() })
    }

    /// Removes what is neither an output nor a file of `commit`: what runs left. It is gone from the look, too.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub(crate) fn sweep(
        &self,
        tree: &Path,
        now: &mut Look,
        commit: &BTreeSet<String>,
    ) -> io::Result<Vec<String>> {
        let of_commit = |folder: &str| {
            let first = commit.range(format!("{folder}/")..).next();
            first.is_some_and(|file| file.starts_with(folder) && file[folder.len()..].starts_with('/'))
        };
        let is_stray = |name: &&String| !self.files.contains_key(*name) && !commit.contains(*name);
        let files: Vec<String> = now.files.keys().filter(is_stray).cloned().collect();
        for name in &files {
            remove(&tree.join(now.path(name)))?;
            now.files.remove(name);
        }
        let is_stray = |name: &&String| !self.folders.contains(*name) && !of_commit(name);
        // What is longer lies deeper, if one lies in the other.
        let mut folders: Vec<String> = now.folders.iter().filter(is_stray).cloned().collect();
        folders.sort_by_key(|name| std::cmp::Reverse(name.len()));
        for name in &folders {
            let path = tree.join(now.path(name));
            match fs::remove_dir(&path) {
                // What cannot be read hides something; anything else in it is scratch.
                Err(_) if now.closed.contains(name) => remove(&path)?,
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => continue,
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            now.folders.remove(name);
        }
        Ok(files)
    }

    /// The outputs that are not what they were. Of those that are, the times are taken down as they are now.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn changed(&mut self, tree: &Path, now: &Look) -> io::Result<Vec<String>> {
        let mut changed = Vec::new();
        for (name, output) in &mut self.files {
            let Some(stat) = now.files.get(name) else {
                changed.push(name.clone());
                continue;
            };
            if output.stat == *stat && !output.is_young {
                continue;
            }
            if (output.stat.mode, output.stat.size) != (stat.mode, stat.size) {
                changed.push(name.clone());
                continue;
            }
            let read = Output::read(tree, name, stat, now)?;
            let is_known = read.digest.is_some() || read.stat == output.stat;
            if read.digest == output.digest && is_known {
                *output = read;
            } else {
                changed.push(name.clone());
            }
        }
        Ok(changed)
    }

    /// Takes down anew what became of the outputs that are still there.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn recapture(&self, tree: &Path, now: &Look) -> io::Result<Self> {
        let mut outputs = BTreeMap::new();
        for name in self.files.keys() {
            if let Some(stat) = now.files.get(name) {
                outputs.insert(name.clone(), Output::read(tree, name, stat, now)?);
            }
        }
        Ok(Self { files: outputs, folders: self.folders.clone() })
    }

    /// What was changed in a folder in which nothing was to change, not even what runs had added: outputs by their
    /// content, anything else by its times.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn touched(&mut self, tree: &Path, before: &Look, now: &Look) -> io::Result<Vec<String>> {
        let mut changed = self.changed(tree, now)?;
        let others = now.differs_from(before).filter(|name| !self.files.contains_key(*name)).cloned();
        changed.extend(others);
        changed.extend(now.folders.symmetric_difference(&before.folders).cloned());
        Ok(changed)
    }
}

impl Output {
    fn read(tree: &Path, name: &str, stat: &Stat, look: &Look) -> io::Result<Self> {
        let path = tree.join(look.path(name));
        let mut hasher = Hasher::new();
        let read = match stat.mode & KIND {
            PLAIN => File::open(&path).and_then(|file| hasher.update_reader(file).map(|_| true)),
            LINK => fs::read_link(&path).map(|target| {
                hasher.update(target.as_os_str().as_bytes());
                true
            }),
            _ => Ok(false),
        };
        let has_content = match read {
            Err(error) if is_absent(&error) => false,
            other => other?,
        };
        Ok(Self {
            stat: *stat,
            digest: has_content.then(|| hasher.finalize().to_hex().to_string()),
            is_young: stat.changed_ns + COARSE_NS > look.at_ns,
        })
    }
}

/// Removes a file, or a folder with all that is in it, whatever its mode.
fn remove(path: &Path) -> io::Result<()> {
    let is_folder = match path.symlink_metadata() {
        Ok(meta) => meta.is_dir(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let removed = || if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // A file goes if its folder can be written to.
            let locked = if is_folder { path } else { path.parent().unwrap_or(path) };
            unlock(locked)?;
            removed()
        }
        other => other,
    }
}

/// Lets a folder and those in it be read and written to.
fn unlock(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        }
    }
    Ok(())
}

fn now_ns() -> i128 {
    i128::from(clock::unix_ms()) * 1_000_000
}

/// Gone, or not for us to see.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory)
}

/// A path as text, whatever bytes it has: a backslash stands only in what had to be escaped.
pub(crate) fn name(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains('\\') && !text.chars().any(char::is_control) => text.to_owned(),
        _ => path.as_os_str().as_bytes().escape_ascii().to_string(),
    }
}
