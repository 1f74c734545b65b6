//! The file by which a daemon tells the next one that writes were lost.

use crate::{
    error::EngineError,
    files::{io_error, private},
};
use std::{fs, io, os::unix::fs::FileExt, path::Path};

/// A file that says that writes were lost before that is written down elsewhere. It has its block from the beginning
/// and is overwritten in place, because the disk may be full when it is needed.
#[derive(Debug)]
pub(crate) struct Marker(fs::File);

impl Marker {
    const LENGTH: usize = 512;

    /// Opens the marker; with what it says, if it was set.
    pub(crate) fn open(path: &Path) -> Result<(Marker, Option<String>), EngineError> {
        let fail = |error: io::Error| io_error("open", path, &error);
        let mut file = private(fs::OpenOptions::new().read(true).write(true)).open(path).map_err(fail)?;
        let mut text = Vec::new();
        io::Read::read_to_end(&mut file, &mut text).map_err(fail)?;
        let marker = Marker(file);
        if text.len() != Marker::LENGTH {
            marker.clear()?;
        }
        let said = String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned();
        Ok((marker, Some(said).filter(|said| !said.is_empty())))
    }

    pub(crate) fn set(&self, text: &str) -> Result<(), EngineError> {
        let mut block = [0; Marker::LENGTH];
        let length = text.len().min(Marker::LENGTH);
        block[..length].copy_from_slice(&text.as_bytes()[..length]);
        let write = || {
            self.0.write_all_at(&block, 0)?;
            self.0.sync_data()
        };
        write().map_err(|error: io::Error| io_error("write", Path::new("lost-writes"), &error))
    }

    pub(crate) fn clear(&self) -> Result<(), EngineError> {
        self.set("")
    }
}
