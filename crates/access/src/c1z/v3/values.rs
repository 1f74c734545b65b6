//! Values that are put now and read back in another order: in memory up to a budget, beyond it in a file without a name.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::c1z::error::C1zError;

/// Where a value lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    at: u64,
    length: u32,
}

/// Values of rows, one behind the other.
pub(crate) struct Values {
    folder: PathBuf,
    budget: usize,
    /// What is in the file comes first, then what is in memory.
    file: Option<File>,
    filed: u64,
    memory: Vec<u8>,
}

impl Values {
    /// Values of which at most `budget` bytes stay in memory; the file is made in `folder`, when there has to be one.
    pub(crate) fn new(folder: &Path, budget: usize) -> Values {
        Values { folder: folder.to_owned(), budget, file: None, filed: 0, memory: Vec::new() }
    }

    /// Keeps a value of less than 4 GiB.
    pub(crate) fn push(&mut self, value: &[u8]) -> Result<Place, C1zError> {
        if self.memory.len() + value.len() > self.budget && !self.memory.is_empty() {
            self.spill()?;
        }
        let at = self.filed + self.memory.len() as u64;
        self.memory.extend_from_slice(value);
        Ok(Place { at, length: value.len() as u32 })
    }

    fn spill(&mut self) -> Result<(), C1zError> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let made = tempfile::tempfile_in(&self.folder);
                self.file.insert(made.map_err(C1zError::io("making a file without a name in", &self.folder))?)
            }
        };
        let written = file.write_all_at(&self.memory, self.filed);
        written.map_err(C1zError::io("writing to a file without a name in", &self.folder))?;
        self.filed += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    /// Appends a value to `out`.
    pub(crate) fn read(&self, place: Place, out: &mut Vec<u8>) -> Result<(), C1zError> {
        let length = place.length as usize;
        if let Some(at) = place.at.checked_sub(self.filed) {
            // A value lies in one piece: memory is emptied between values.
            out.extend_from_slice(&self.memory[at as usize..at as usize + length]);
            return Ok(());
        }
        let start = out.len();
        out.resize(start + length, 0);
        let read = match &self.file {
            Some(file) => file.read_exact_at(&mut out[start..], place.at),
            None => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        // An error takes a copy of the path, which a value does not.
        read.map_err(|error| C1zError::io("reading from a file without a name in", &self.folder)(error))
    }
}

#[cfg(test)]
#[path = "values/tests.rs"]
mod tests;
