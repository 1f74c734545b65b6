//! Writing back what a directory tree's files have in memory, so that a clone of them has little to write.

use duramen_base::file;
use std::{fs, io, os::fd::AsRawFd, path::Path};

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
            Ok(file) => sync_range(&file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[allow(unsafe_code, reason = "no library has this system call in a safe form")]
fn sync_range(file: &fs::File) -> io::Result<()> {
    let how =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: sync_file_range(2) takes a descriptor, which `file` keeps open, and numbers; a length of 0 means to the end.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
