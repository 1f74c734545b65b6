//! The branch that commands mean when they name none. It is a file beside the store, which knows nothing of it.

use super::handle::note;
use crate::failure::Failure;
use duramen_base::file;
use duramen_store::{Store, StoreError, DEFAULT_BRANCH};
use std::{fs, io, path::Path};

const FILE: &str = "current-branch";

/// The current branch; `main` where nobody switched, or where the one that was switched to is gone.
pub(crate) fn name(folder: &Path, store: &Store) -> Result<String, Failure> {
    let Some(name) = read(folder)? else { return main_of(store) };
    match store.branch(&name) {
        Ok(_) => Ok(name),
        Err(StoreError::BranchNotFound { .. }) => {
            note(format_args!("the current branch {name:?} is gone; using {DEFAULT_BRANCH:?}"));
            Ok(DEFAULT_BRANCH.to_owned())
        }
        Err(error) => Err(error.into()),
    }
}

/// The branch that every store has; the one that there is, where a pack is read.
fn main_of(store: &Store) -> Result<String, Failure> {
    let mut infos = store.branches(false)?;
    let only = match infos.len() {
        1 => infos.pop(),
        _ => None,
    };
    Ok(only.map_or_else(|| DEFAULT_BRANCH.to_owned(), |info| info.name))
}

fn read(folder: &Path) -> Result<Option<String>, Failure> {
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|name| !name.is_empty())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Failure::io("read", &path)(error)),
    }
}

/// Makes a branch that exists the current one.
pub(crate) fn switch(folder: &Path, name: &str) -> Result<(), Failure> {
    let path = folder.join(FILE);
    file::replace(&path, format!("{name}\n").as_bytes(), 0o644).map_err(Failure::io("replace", &path))
}

/// Forgets the current branch if it is this one. Returns whether it was.
pub(crate) fn forget(folder: &Path, name: &str) -> Result<bool, Failure> {
    if read(folder)?.as_deref() != Some(name) {
        return Ok(false);
    }
    let path = folder.join(FILE);
    fs::remove_file(&path).map_err(Failure::io("remove", &path))?;
    Ok(true)
}
