//! Where the files of a merge lie: a folder of its own in the home, which goes with it. What a killed daemon left goes at the
//! next opening (M9).

use crate::home::Home;
use duramen_base::entropy;
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// A folder that is removed with this.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make(home: &Home) -> io::Result<Folder> {
        let path = home.merges().join(entropy::token(16));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "the files of a merge were not removed");
        }
    }
}

/// Removes what is left of merges of earlier daemons.
pub(crate) fn sweep(home: &Home) {
    for entry in fs::read_dir(home.merges()).into_iter().flatten().flatten() {
        let path = entry.path();
        // A link is removed, and not what it leads to.
        let removed = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(&path),
            _ => fs::remove_file(&path),
        };
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), %error, "what a merge left was not removed");
        }
    }
}
