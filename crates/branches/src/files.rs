//! The one place that makes files and directories of a home, with their modes; and what is said when one cannot be used.
//!
//! What servers make in their data directories has the modes that PostgreSQL gives it, below a directory of 0700.

use crate::error::{EngineError, HomeError, Kind};
use duramen_base::file;
use duramen_postgres::ServerUser;
use rustix::fs::{openat, openat2, Mode, OFlags, ResolveFlags, CWD};
use std::{
    fs, io,
    os::fd::OwnedFd,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// The mode of every file of a home.
pub(crate) const FILE: u32 = 0o600;

/// Who may enter a directory of a home. Nobody but the daemon lists one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The daemon alone.
    Daemon,
    /// Servers too, which pass through on their way to their files.
    Servers,
    /// Servers, and the holders of branches on their way to sockets.
    Holders,
}

impl Passage {
    /// The most that the mode of such a directory allows.
    pub(crate) fn mode(self) -> u32 {
        match self {
            Passage::Daemon => 0o700,
            Passage::Servers | Passage::Holders => 0o710,
        }
    }
}

/// Options by which a file that is made is the daemon's alone from its first moment.
pub(crate) fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options.create(true).mode(FILE)
}

/// Replaces a file, or makes it, in one step.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    file::replace(path, bytes, FILE)
}

/// Gives a file that is there the mode that it should have.
pub(crate) fn close_file(path: &Path) -> Result<(), EngineError> {
    let closed = fs::set_permissions(path, fs::Permissions::from_mode(FILE));
    closed.map_err(|error| io_error("set the mode of", path, &error))
}

/// Takes away what the mode of a directory allows beyond `allowed`.
pub(crate) fn narrow_dir(dir: &Path, allowed: u32) -> Result<(), EngineError> {
    let fail = |error: io::Error| io_error("set the mode of", dir, &error);
    let mode = dir.symlink_metadata().map_err(fail)?.mode() & 0o7777;
    if mode & !allowed == 0 {
        return Ok(());
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode & allowed)).map_err(fail)
}

/// Gives everything in a copied data directory, in which no server works yet, the modes that a server of ours would give
/// it: those of its origin may let in a group, and the group here is that of all servers.
pub(crate) fn close_tree(dir: &Path) -> Result<(), EngineError> {
    for entry in walkdir::WalkDir::new(dir) {
        let entry = entry.map_err(|error| io_error("list", dir, &error.into()))?;
        let mode = match entry.file_type() {
            kind if kind.is_dir() => 0o700,
            kind if kind.is_file() => FILE,
            _ => continue,
        };
        let fail = |error: io::Error| io_error("set the mode of", entry.path(), &error);
        let found = entry.metadata().map_err(|error| fail(error.into()))?;
        if found.mode() & 0o7777 != mode {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).map_err(fail)?;
        }
    }
    Ok(())
}

/// Makes the directory that is to become a home, with those above it.
pub(crate) fn make_root(root: &Path) -> Result<(), EngineError> {
    let fail = |error: io::Error| io_error("make the home directory", root, &error);
    if let Some(parent) = root.parent() {
        fs::create_dir_all(parent).map_err(fail)?;
    }
    make(root).map_err(fail)
}

/// Makes a directory that only the daemon enters, in one of its own.
pub(crate) fn make_private_dir(dir: &Path) -> Result<(), EngineError> {
    make(dir).map_err(|error| io_error("make", dir, &error))
}

/// Makes a directory, or takes one that is there, and lets in whom `passage` says. Where a stranger could have made it
/// first (a socket root below `/tmp`) it must be ours.
pub(crate) fn make_dir(dir: &Path, passage: Passage, user: &ServerUser) -> Result<(), EngineError> {
    let fail = |error: io::Error| io_error("make", dir, &error);
    make(dir).map_err(fail)?;
    let found = dir.symlink_metadata().map_err(fail)?;
    let elsewhere = dir.starts_with("/tmp") && dir.parent() == Some(Path::new("/tmp"));
    if elsewhere && (!found.is_dir() || found.uid() != rustix::process::geteuid().as_raw()) {
        return Err(HomeError::ForeignSockets { path: dir.to_owned() }.into());
    }
    match passage {
        Passage::Daemon => user.keep_out(dir),
        Passage::Servers => user.let_through(dir),
        Passage::Holders => user.let_holders_through(dir),
    }
    .map_err(fail)
}

/// As the daemon's alone: whoever else is to enter is let in afterwards.
fn make(dir: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Opens a file below a directory of ours whose contents are not: no link is followed on the way, what is opened is a file, and
/// opening it waits for nobody.
pub(crate) fn open_below(dir: &Path, relative: &Path) -> io::Result<fs::File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: fs::File = open_there(dir, relative, flags)?.into();
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file"));
    }
    Ok(file)
}

/// The names in a directory below one of ours whose contents are not: at most `most` of them. No link is followed.
pub(crate) fn names_below(dir: &Path, relative: &Path, most: usize) -> io::Result<Vec<String>> {
    let there = open_there(dir, relative, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&there)?.take(most) {
        if let Ok(name) = entry?.file_name().to_str() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// A directory below one of ours whose contents are not, to make files in. No link is followed.
pub(crate) fn dir_below(dir: &Path, relative: &Path) -> io::Result<OwnedFd> {
    open_there(dir, relative, OFlags::RDONLY | OFlags::DIRECTORY)
}

fn open_there(dir: &Path, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let root = openat(CWD, dir, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH, Mode::empty())?;
    let only_below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(root, relative, flags | OFlags::CLOEXEC, Mode::empty(), only_below)?)
}

pub(crate) fn io_error(doing: &str, path: &Path, error: &io::Error) -> EngineError {
    let what = format!("cannot {doing} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => EngineError::new(
            Kind::Failed,
            "disk_full",
            format!(
                "{what}; make room on the file system that holds it: in the volume store, destroy branches, remove unused \
                 sources, or begin anew with a larger one (`duramen purge`, `duramen serve --volume-size`)"
            ),
        ),
        _ => EngineError::new(Kind::Failed, "io_error", what),
    }
}
