//! Writing back what a directory tree's files have in memory, so that a clone of them has little to write.

use duramen_base::file::{self, WriteBack};
use std::{io, path::Path};

/// Has the data of all files below `dir` written to their file system, and waits for that. It says nothing of what is durable, and
/// what is written meanwhile may be in it or not. Files that go away meanwhile are left out. Blocks.
///
/// # Errors
/// The operating system's answer.
pub fn write_back(dir: &Path) -> io::Result<()> {
    for entry in walkdir::WalkDir::new(dir).into_iter().flatten() {
        if !entry.file_type().is_file() {
            continue;
        }
        match file::open_plain(entry.path()) {
            Ok(file) => file::write_back(&file, 0, 0, WriteBack::Finish)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
