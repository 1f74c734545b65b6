//! Evidence read from files and folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use duramen_measure::evidence::EvidenceError;

use crate::document::in_order;
use crate::Document;

/// How many documents a page is made of; of more, the newest count.
pub const MOST_DOCUMENTS: usize = 200;
/// How many files are looked at in a folder and those below it.
pub const MOST_FILES: usize = 5_000;
/// How deep folders are looked into.
const DEEPEST: usize = 8;
/// A file that is larger than this is not an evidence document.
const LARGEST: u64 = 256 << 20;

/// Why documents could not be collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// A file that was named is not a document.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// A file or folder could not be looked at.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is more in a folder than is looked at.
    #[error("more than {MOST_FILES} files are below {}: name folders further down, or files", .0.display())]
    TooMany(PathBuf),
    /// There is nothing.
    #[error(
        "there is no evidence document in what was named; `duramen lab run SUITE --json FILE` writes one"
    )]
    Nothing,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Collected {
    /// The documents in the order of their time, each run once.
    pub documents: Vec<Document>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// Reads the files that are named, and the evidence documents (`*.json`) in folders that are named and below them. What
/// else lies in folders is left out; other JSON is noted. Links to folders are not followed.
///
/// # Errors
/// When a named file is not an evidence document, something cannot be read, a folder holds too much, or there is nothing.
pub fn collect(paths: &[PathBuf]) -> Result<Collected, CollectError> {
    let mut found = Collected::default();
    let mut documents = Vec::new();
    for path in paths {
        let metadata =
            fs::metadata(path).map_err(|source| CollectError::Io { path: path.clone(), source })?;
        if !metadata.is_dir() {
            documents.push(Document::read(path)?);
            continue;
        }
        let mut files = Vec::new();
        list(path, DEEPEST, &mut files).map_err(|(path, source)| CollectError::Io { path, source })?;
        if files.len() > MOST_FILES {
            return Err(CollectError::TooMany(path.clone()));
        }
        files.sort_unstable();
        for file in files {
            match Document::read(&file) {
                Ok(document) => documents.push(document),
                Err(error) => found.notes.push(format!("Left out: {error}")),
            }
        }
    }
    found.documents = in_order(documents);
    if found.documents.is_empty() {
        return Err(CollectError::Nothing);
    }
    let surplus = found.documents.len().saturating_sub(MOST_DOCUMENTS);
    if surplus > 0 {
        found.documents.drain(..surplus);
        found
            .notes
            .push(format!("The {surplus} oldest documents were left out: {MOST_DOCUMENTS} are shown."));
    }
    Ok(found)
}

fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let failed = |source| (folder.to_owned(), source);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = entry.path();
        if files.len() > MOST_FILES {
            return Ok(());
        }
        if kind.is_dir() && depth > 1 {
            list(&path, depth - 1, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "json") {
            let is_small = entry.metadata().is_ok_and(|metadata| metadata.len() <= LARGEST);
            files.extend(is_small.then_some(path));
        }
    }
    Ok(())
}
