//! A directory in which somebody else may put what he likes: what lies in it, and reading that.
//!
//! Each step down is made from the directory above it, and follows no symbolic link: whatever is put in the place of a directory
//! meanwhile, nothing outside is read. (The attached path itself may lead by links; who attached it chose it.)

use duramen_experiment::log;
use rustix::{
    fs::{fstat, openat, statat, AtFlags, Dir, FileType, Mode, OFlags, Stat, CWD},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

/// How many entries of directories are looked at.
pub const ENTRIES_MAX: usize = 50_000;
/// How many documents and logs are looked at.
pub const FILES_MAX: usize = 20_000;
/// How deep directories are looked into. Each level holds a descriptor while it is.
pub const DEPTH_MAX: usize = 8;

/// What is no link, and no pipe at whose other end somebody would be waited for.
const PLAIN: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What tells that a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    modified_ns: i128,
    inode: u64,
}

impl Stamp {
    fn of(stat: &Stat) -> Stamp {
        Stamp {
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
            inode: stat.st_ino,
        }
    }

    /// What is newer comes first.
    pub(super) fn order(&self) -> std::cmp::Reverse<i128> {
        std::cmp::Reverse(self.modified_ns)
    }
}

/// A file, by its path below the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
}

/// What lies in a directory.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files called `*.json`, in the order of their paths.
    pub(super) documents: Vec<Entry>,
    /// Logs of experiments, in the order of their paths.
    pub(super) logs: Vec<Entry>,
    /// Whether there is more than was looked at.
    pub(super) is_partial: bool,
    /// How many entries were looked at.
    seen: usize,
}

/// A directory that is open.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder(openat(CWD, path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?))
    }

    /// What lies in it and below it. What begins with a dot is nobody's, or not finished.
    pub(super) fn list(&self) -> io::Result<Found> {
        let mut found = Found::default();
        let own = openat(&self.0, ".", DIRECTORY, Mode::empty())?;
        enter(own, Path::new(""), 1, &mut found)?;
        found.documents.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        found.logs.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// A file of it, and what it is by now.
    pub(super) fn file(&self, path: &Path) -> io::Result<(File, Stamp)> {
        let mut above: Vec<&OsStr> = path.iter().collect();
        let name = above.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let mut at: Option<OwnedFd> = None;
        for step in above {
            let next = match &at {
                Some(at) => openat(at, step, DIRECTORY, Mode::empty())?,
                None => openat(&self.0, step, DIRECTORY, Mode::empty())?,
            };
            at = Some(next);
        }
        let file = match &at {
            Some(at) => openat(at, name, PLAIN, Mode::empty())?,
            None => openat(&self.0, name, PLAIN, Mode::empty())?,
        };
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file"));
        }
        Ok((File::from(file), Stamp::of(&stat)))
    }

    /// The first `most` bytes of a file of it, and how many it has in all.
    pub(super) fn read(&self, path: &Path, most: u64) -> io::Result<(Vec<u8>, u64)> {
        let (file, stamp) = self.file(path)?;
        let mut bytes = Vec::with_capacity(usize::try_from(stamp.bytes.min(most)).unwrap_or(0));
        file.take(most).read_to_end(&mut bytes)?;
        Ok((bytes, stamp.bytes))
    }
}

fn enter(folder: OwnedFd, at: &Path, depth: usize, found: &mut Found) -> io::Result<()> {
    let mut entries = Dir::read_from(&folder)?;
    let mut below: Vec<OsString> = Vec::new();
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        found.seen += 1;
        if found.seen > ENTRIES_MAX || found.documents.len() + found.logs.len() >= FILES_MAX {
            found.is_partial = true;
            return Ok(());
        }
        let is_log = name == log::FILE_NAME;
        let is_document = Path::new(name).extension().is_some_and(|extension| extension == "json");
        let kind = entry.file_type();
        // Of most files the name is enough. Some file systems do not tell what an entry is.
        if !matches!(kind, FileType::Directory | FileType::Unknown) && !is_log && !is_document {
            continue;
        }
        // It may be gone by now.
        let Some(stat) = gone(statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW))? else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => below.push(name.to_owned()),
            FileType::RegularFile if is_log || is_document => {
                let entry = Entry { path: at.join(name), stamp: Stamp::of(&stat) };
                if is_log { &mut found.logs } else { &mut found.documents }.push(entry);
            }
            _ => {}
        }
    }
    below.sort_unstable();
    for name in below {
        if depth >= DEPTH_MAX {
            found.is_partial = true;
            return Ok(());
        }
        match openat(&folder, name.as_os_str(), DIRECTORY, Mode::empty()) {
            Ok(next) => enter(next, &at.join(&name), depth + 1, found)?,
            // Somebody else's, a link by now, or gone: the rest is looked at all the same.
            Err(Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => {
                found.is_partial = true;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn gone<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
