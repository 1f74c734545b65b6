//! Files on Windows.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use same_file::Handle;

/// `FILE_FLAG_OPEN_REPARSE_POINT`: opens the link itself, not the file that it points to.
const OPEN_LINK: u32 = 0x0020_0000;

pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(bytes, offset)
}

pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

#[derive(Debug)]
pub(super) struct Folder;

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        match path.metadata()?.is_dir() {
            true => Ok(Self),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn follow_no_link(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OPEN_LINK)
}

pub(super) fn only_plain(options: &mut OpenOptions) -> &mut OpenOptions {
    follow_no_link(options)
}

pub(super) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub(super) fn for_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub(super) fn set_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

pub(super) fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    let known = Handle::from_file(file.try_clone()?)?;
    match follow_no_link(OpenOptions::new().read(true)).open(path) {
        Ok(named) => Ok(Handle::from_file(named)? == known),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn on_other_file_systems(_one: &Metadata, _other: &Metadata) -> bool {
    false
}

pub(super) fn is_root() -> bool {
    false
}
