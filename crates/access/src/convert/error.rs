//! What can go wrong with a conversion.

use std::path::{Path, PathBuf};

use crate::file::FileError;

/// Why a file was not converted. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The new file is the old one.
    #[error("{} cannot be written while it is read; choose another name", file.display())]
    SameFile {
        /// The file.
        file: PathBuf,
    },
    /// A pack is not written over what is there.
    #[error("{} exists; remove it, or choose another name", file.display())]
    Exists {
        /// The pack, or its journal.
        file: PathBuf,
    },
    /// A sync of a pack that would be replaced goes on.
    #[error("{} has the sync {sync}, which goes on: end it first", file.display())]
    GoesOn {
        /// The pack.
        file: PathBuf,
        /// The sync.
        sync: String,
    },
    /// One of the files cannot be opened, or the new one not finished.
    #[error(transparent)]
    File(FileError),
    /// A row could not be read.
    #[error("reading failed: {0}")]
    Read(#[source] FileError),
    /// A row could not be written.
    #[error("writing failed: {0}")]
    Write(#[source] FileError),
    /// The operating system failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl<E> From<E> for ConvertError
where
    FileError: From<E>,
{
    fn from(error: E) -> Self {
        ConvertError::File(error.into())
    }
}

impl ConvertError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| ConvertError::Io { doing, path, source }
    }
}
