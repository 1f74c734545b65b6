//! The text files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file: its path from the root of the repository, with `/` between the parts, and what it holds.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// What follows the last dot of the file's name; empty when there is none.
    pub(crate) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every text file that git tracks or would track. Binary files are left out.
pub(crate) fn of_repository() -> Vec<File> {
    let root = root();
    let mut paths = listed_by_git(&root).unwrap_or_else(|| walked(&root));
    paths.sort();
    paths.dedup();
    let read = |path: String| {
        // A file that is deleted but not yet committed is still listed.
        let bytes = fs::read(root.join(&path)).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        (!text.contains('\0')).then_some(File { path, text })
    };
    paths.into_iter().filter_map(read).collect()
}

/// What git tracks, and what it does not track but does not ignore either. `None` without git, or where the
/// root is not a repository of its own (an unpacked source archive).
pub(crate) fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git")
        .env_remove("GIT_DIR")
        .env_remove("GIT_INDEX_FILE")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let listing = String::from_utf8_lossy(&output.stdout);
    Some(listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Every file below the root, less what builds and runs leave there.
pub(crate) fn walked(root: &Path) -> Vec<String> {
    const SKIPPED: [&str; 7] = [".git", "target", "out", "node_modules", "dist", "__pycache__", ".venv"];
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !SKIPPED.contains(&name.as_str()) => folders.push(path),
                Ok(kind) if kind.is_file() && !name.ends_with(".tmp") => found.push(path),
                _ => {}
            }
        }
    }
    found
}
