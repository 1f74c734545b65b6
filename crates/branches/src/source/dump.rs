//! What a script is by its content: plain SQL, or an archive of `pg_dump` in a file (custom, tar) or a directory.
//!
//! Whoever wrote it may have put anything there. Files are opened without waiting for a writer, those of a directory without
//! following links, and only plain files are read.

use super::import::invalid;
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error},
    interrupt::Interrupt,
};
use duramen_postgres::ServerUser;
use rustix::fs::{Dir, Mode, OFlags};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read, Seek},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

/// What archives of `pg_dump --format=custom` begin with, and tables of contents of those in directories.
const ARCHIVE: &[u8] = b"PGDMP";
/// The table of contents of an archive in a directory, and the first member of one in a tar file.
const CONTENTS: &str = "toc.dat";
/// What the header of a tar file says at [`TAR_MAGIC_AT`].
const TAR_MAGIC: &[u8] = b"ustar";
const TAR_MAGIC_AT: usize = 257;
/// How much of a file tells what it is: one header of a tar file.
const HEADER: usize = 512;

/// A script, opened.
#[derive(Debug)]
pub(super) enum Dump {
    /// Plain SQL.
    Script(File),
    /// An archive of `pg_dump --format=custom`.
    Custom(File),
    /// One of `pg_dump --format=tar`.
    Tar(File),
    /// One of `pg_dump --format=directory`.
    Directory(Listed),
}

/// The files of an archive in a directory, of which none is open yet.
#[derive(Debug)]
pub(super) struct Listed {
    dir: OwnedFd,
    path: PathBuf,
    names: Vec<Vec<u8>>,
}

impl Dump {
    /// Opens what lies at a path.
    ///
    /// # Errors
    /// `bad_script`, when that cannot be read, or is neither a plain file nor a directory of `pg_dump`.
    pub(super) fn open(path: &Path) -> Result<Dump, EngineError> {
        let unreadable = |error: io::Error| {
            invalid("bad_script", format!("cannot read the script {}: {error}", path.display()))
        };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|error| unreadable(error.into()))?;
        let mut file = File::from(opened);
        let found = file.metadata().map_err(unreadable)?;
        if found.is_dir() {
            return Listed::of(file.into(), path).map(Dump::Directory);
        }
        if !found.is_file() {
            return Err(invalid(
                "bad_script",
                format!(
                    "{} is neither a file nor a directory; give a file with SQL, or what pg_dump wrote",
                    path.display()
                ),
            ));
        }
        let mut header = Vec::with_capacity(HEADER);
        file.by_ref().take(HEADER as u64).read_to_end(&mut header).map_err(unreadable)?;
        file.rewind().map_err(unreadable)?;
        Ok(match header {
            header if header.starts_with(ARCHIVE) => Dump::Custom(file),
            header if is_tar(&header) => Dump::Tar(file),
            _ => Dump::Script(file),
        })
    }

    /// What is being done with it.
    pub(super) fn doing(&self) -> &'static str {
        match self {
            Dump::Script(_) => "running the script",
            Dump::Custom(_) | Dump::Tar(_) | Dump::Directory(_) => "restoring the archive",
        }
    }
}

/// Whether this is the beginning of a tar file with a table of contents.
fn is_tar(header: &[u8]) -> bool {
    let name = [CONTENTS.as_bytes(), b"\0"].concat();
    header.starts_with(&name) && header.get(TAR_MAGIC_AT..).is_some_and(|rest| rest.starts_with(TAR_MAGIC))
}

impl Listed {
    fn of(dir: OwnedFd, path: &Path) -> Result<Listed, EngineError> {
        let unreadable = |error: rustix::io::Errno| io_error("read", path, &error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        let listed = Listed { dir, path: path.to_owned(), names };
        let mut magic = Vec::new();
        if listed.names.iter().any(|name| name == CONTENTS.as_bytes()) {
            let contents = listed.file(CONTENTS.as_bytes())?;
            let read = contents.take(ARCHIVE.len() as u64).read_to_end(&mut magic);
            read.map_err(|error| io_error("read", &path.join(CONTENTS), &error))?;
        }
        if magic != ARCHIVE {
            return Err(invalid(
                "bad_script",
                format!(
                    "{} is a directory without a {CONTENTS} of pg_dump; give what `pg_dump --format=directory` wrote, or \
                     import a data directory with --data-dir",
                    path.display()
                ),
            ));
        }
        // Before anything else reads them.
        listed.names.iter().try_for_each(|name| listed.file(name).map(drop))?;
        Ok(listed)
    }

    /// Opens one of the files.
    fn file(&self, name: &[u8]) -> Result<File, EngineError> {
        let path = self.path.join(OsStr::from_bytes(name));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let refuse = || {
            invalid(
                "bad_script",
                format!(
                    "{} is not a plain file, and an archive of pg_dump holds nothing else",
                    path.display()
                ),
            )
        };
        let opened = match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            // A link; a socket.
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(refuse()),
            opened => opened.map_err(|error| io_error("read", &path, &error.into()))?,
        };
        let file = File::from(opened);
        match file.metadata() {
            Ok(found) if found.is_file() => Ok(file),
            Ok(_) => Err(refuse()),
            Err(error) => Err(io_error("read", &path, &error)),
        }
    }

    /// Copies the files to a directory, for a user who may not read them where they are. Blocks.
    pub(super) fn copy(
        &self,
        target: &Path,
        user: &ServerUser,
        interrupt: &Interrupt,
    ) -> Result<(), EngineError> {
        for name in &self.names {
            copy(self.file(name)?, &target.join(OsStr::from_bytes(name)), user, interrupt)?;
        }
        Ok(())
    }
}

/// Copies a file, as long as it is now, for a user who may not read it where it is. Blocks.
pub(super) fn copy(
    from: File,
    target: &Path,
    user: &ServerUser,
    interrupt: &Interrupt,
) -> Result<(), EngineError> {
    /// How much is copied between two looks whether somebody still waits.
    const PART: u64 = 64 << 20;
    let fail = |error: io::Error| io_error("copy to", target, &error);
    let mut left = from.metadata().map_err(fail)?.len();
    let mut to =
        files::private(fs::OpenOptions::new().write(true).create_new(true)).open(target).map_err(fail)?;
    while left > 0 {
        interrupt.check()?;
        let copied = io::copy(&mut (&from).take(left.min(PART)), &mut to).map_err(fail)?;
        if copied == 0 {
            break;
        }
        left -= copied;
    }
    user.own_file(&to).map_err(fail)
}

/// A script or an archive that failed, with what usually helps.
pub(super) fn failed(said: &str, newest: &str) -> EngineError {
    if said.contains("unsupported version (") && said.contains("in file header") {
        return invalid(
            "archive_too_new",
            format!(
                "the archive was made by a later pg_dump than PostgreSQL {newest}, the newest that is installed here, can \
                 read: install that version, or dump in plain SQL (`pg_dump --format=plain`)"
            ),
        );
    }
    let hint = if said.contains("role \"") && said.contains("does not exist") {
        "; dump without owners and grants (`pg_dump --no-owner --no-privileges`), or create the role at the beginning of \
         the script"
    } else if said.contains("invalid byte sequence") || said.contains("contains null byte") {
        "; an SQL script is text: give what pg_dump wrote as it is, in any of its formats, not compressed by another program"
    } else {
        ""
    };
    EngineError::new(Kind::Invalid, "bad_script", format!("the script failed: {said}{hint}"))
}
