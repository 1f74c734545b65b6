//! A file that appears under its name when it is complete, and that only one process writes at a time.
//!
//! The temporary name follows from the target's, and whoever writes holds a lock on the file that has it. So a second
//! writer finds the lock, and what a killed writer left is taken over by the next one instead of lying about.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::PackError;
use duramen_base::file;
use duramen_base::lock::{FileLock, LockError};

/// A file under a temporary name, locked. It is removed unless it is put in its place.
#[derive(Debug)]
pub struct Temporary {
    target: PathBuf,
    path: PathBuf,
    file: FileLock,
    placed: bool,
}

impl Temporary {
    /// Makes the file beside `target`, or takes over what a writer left that is no more.
    ///
    /// # Errors
    /// [`PackError::Locked`] when another process writes `target`; when the file cannot be made.
    pub fn create(target: &Path) -> Result<Self, PackError> {
        let Some(name) = target.file_name() else {
            let error =
                io::Error::new(io::ErrorKind::InvalidInput, "it does not end with the name of a file");
            return Err(PackError::io("write", target)(error));
        };
        if target.is_dir() {
            let error = io::Error::new(io::ErrorKind::IsADirectory, "it is a folder");
            return Err(PackError::io("write", target)(error));
        }
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".part");
        let path = target.with_file_name(hidden);
        let file = FileLock::open(&path).map_err(|error| match error {
            LockError::Held => PackError::Locked { path: target.to_owned() },
            LockError::Io("open", error) => PackError::io("make", &path)(error),
            LockError::Io(doing, error) => PackError::io(doing, &path)(error),
        })?;
        let temporary = Self { target: target.to_owned(), path, file, placed: false };
        temporary.file.set_len(0).map_err(PackError::io("empty", &temporary.path))?;
        Ok(temporary)
    }

    /// The file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the file is until it is placed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file durable, gives it its name, and makes that durable.
    ///
    /// # Errors
    /// When one of these fails; after the first two, what was under the name before is there still.
    pub fn place(mut self) -> Result<(), PackError> {
        self.file.sync_all().map_err(PackError::io("make durable", &self.path))?;
        std::fs::rename(&self.path, &self.target).map_err(PackError::io("give its name to", &self.target))?;
        self.placed = true;
        file::sync_folder_of(&self.target).map_err(PackError::io("make durable the folder of", &self.target))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Under the lock, so that nobody else's file has the name.
        if !self.placed {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
