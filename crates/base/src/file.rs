//! Replacing a file so that a crash leaves the old one or the new one, whole.

use crate::entropy;
use crate::system::{self, Folder};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// Writes under another name in the same folder, syncs, renames, and syncs the folder, without which the new name
/// may be lost although its content was kept (fsync(2), notes). The file has exactly the permissions `mode`, where the system
/// has such.
///
/// # Errors
/// The operating system's answer. Before the new name is given, the old file is untouched; an error of the folder's sync
/// comes after.
///
/// # Examples
/// ```
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("state.json");
/// duramen_base::file::replace(&path, b"{}", 0o600)?;
/// assert_eq!(std::fs::read(&path)?, b"{}");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace_with(path, bytes, mode, |_| Ok(()))
}

/// As [`replace`]; the new file is prepared, for instance given to another user, before it has the name.
///
/// # Errors
/// As [`replace`], and those of `prepare`.
pub fn replace_with(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    place(path, bytes, mode, prepare, |fresh| fs::rename(fresh, path))
}

/// Opens a file of a folder in which somebody else may put what he likes: a symbolic link in its place is not followed, nobody is waited
/// for at the other end of a pipe, and anything but a file is refused. The folder itself is reached as usual.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it is not a file, else the operating system's answer.
///
/// # Examples
/// ```
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("pid"), "42")?;
/// std::os::unix::fs::symlink(dir.path().join("pid"), dir.path().join("link"))?;
/// assert_eq!(duramen_base::file::read_plain(&dir.path().join("pid"), 16)?, "42");
/// assert!(duramen_base::file::open_plain(&dir.path().join("link")).is_err());
/// assert!(duramen_base::file::open_plain(dir.path()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_plain(path: &Path) -> io::Result<File> {
    plain(path, OpenOptions::new().read(true))
}

/// Opens a regular file for reading, and follows links to it. Anything else is refused at once: nobody has to be at the other end
/// of a pipe.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it is not a regular file, else the operating system's error.
///
/// # Examples
/// ```
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("table"), "rows")?;
/// std::os::unix::fs::symlink(dir.path().join("table"), dir.path().join("link"))?;
/// assert!(duramen_base::file::open_regular(&dir.path().join("link")).is_ok());
/// assert!(duramen_base::file::open_regular(dir.path()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_regular(path: &Path) -> io::Result<File> {
    if_file(system::without_waiting(OpenOptions::new().read(true)).open(path)?)
}

/// Opens a file that is there as [`open_plain`] does, to read and write it.
///
/// # Errors
/// As [`open_plain`], and when it may not be written.
pub fn open_plain_to_write(path: &Path) -> io::Result<File> {
    plain(path, OpenOptions::new().read(true).write(true))
}

/// Opens a log to write at its end, and makes it if there is none, in a folder that belongs to somebody else: what has the name
/// must be a regular file that has no other name, so that nobody has us write into a file of ours, or give it away.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it is anything else, the operating system's error for a symbolic link, and when it may not be
/// written.
///
/// # Examples
/// ```
/// # use std::io::Write;
/// let dir = tempfile::tempdir()?;
/// let log = dir.path().join("log");
/// duramen_base::file::open_log(&log)?.write_all(b"begun\n")?;
/// std::fs::hard_link(&log, dir.path().join("another name"))?;
/// assert!(duramen_base::file::open_log(&log).is_err());
/// std::os::unix::fs::symlink(&log, dir.path().join("link"))?;
/// assert!(duramen_base::file::open_log(&dir.path().join("link")).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(unix)]
pub fn open_log(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt;
    let mut options = OpenOptions::new();
    let log = plain(path, system::for_owner(options.create(true).append(true)))?;
    if log.metadata()?.nlink() != 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has another name, too"));
    }
    Ok(log)
}

fn plain(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    if_file(system::only_plain(options).open(path)?)
}

fn if_file(file: File) -> io::Result<File> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file"));
    }
    Ok(file)
}

/// The text of a file as [`open_plain`] opens it, of at most `most` bytes.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] if it has more, [`io::ErrorKind::InvalidData`] if it is not UTF-8, else as [`open_plain`].
pub fn read_plain(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    open_plain(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// As [`replace`], but what has the name already stays as it is.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if something has the name, else as [`replace`].
pub fn create(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    place(
        path,
        bytes,
        mode,
        |_| Ok(()),
        |fresh| {
            fs::hard_link(fresh, path)?;
            fs::remove_file(fresh)
        },
    )
}

/// What [`write_back`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// For nothing: the writing is begun.
    Begin,
    /// For the writing to end.
    Finish,
}

/// Has what was written to a part of a file, to its end if `len` is 0, go from memory to its file system. It says nothing of what is durable: it
/// keeps a later sync, and those of other files beside it, from waiting long. Source: sync_file_range(2). Elsewhere than on Linux nothing is done.
///
/// # Errors
/// The operating system's answer. Whoever wrote must take it as an error of a sync: the system tells it once.
///
/// # Examples
/// ```
/// use duramen_base::file::{write_back, WriteBack};
/// use std::{fs::File, io::Write};
/// let dir = tempfile::tempdir()?;
/// let mut file = File::create(dir.path().join("a"))?;
/// file.write_all(&[1; 100_000])?;
/// write_back(&file, 0, 65_536, WriteBack::Begin)?;
/// write_back(&file, 0, 0, WriteBack::Finish)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_back(file: &File, from: u64, len: u64, until: WriteBack) -> io::Result<()> {
    system::begin_write_back(file, from, len, until == WriteBack::Finish)
}

/// Gives a file, which is durable, another name in the same folder, if nothing has that name yet. The name is durable when
/// this returns.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if something has the name, else the operating system's answer.
pub fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    // A link never replaces anything; where there are none (some network file systems), the name is looked at before.
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) if to.symlink_metadata().is_ok() => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to)?,
    }
    sync_folder_of(to)
}

/// Makes the names in the folder of a file durable.
///
/// # Errors
/// The operating system's answer.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync_folder(folder_of(path))
}

/// Makes the names in a folder durable.
///
/// # Errors
/// The operating system's answer.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    Folder::open(folder)?.sync()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn place(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    prepare: impl FnOnce(&File) -> io::Result<()>,
    name: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let fresh = fresh_name(path)?;
    let write = || {
        let mut file = system::for_owner(OpenOptions::new().write(true).create_new(true)).open(&fresh)?;
        file.write_all(bytes)?;
        system::set_mode(&file, mode)?;
        prepare(&file)?;
        file.sync_all()
    };
    write().and_then(|()| name(&fresh)).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })?;
    sync_folder_of(path)
}

/// The letters that tell one draft of a file from another.
const DRAFT_LETTERS: usize = 8;

/// A hidden name beside the file that no other writer chooses.
fn fresh_name(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut fresh = OsString::from(".");
    fresh.push(name);
    fresh.push(format!(".{}", entropy::token(DRAFT_LETTERS)));
    Ok(path.with_file_name(fresh))
}

fn is_draft(name: &str) -> bool {
    let parts = name.strip_prefix('.').and_then(|name| name.rsplit_once('.'));
    parts.is_some_and(|(file, letters)| {
        let is_letter = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        !file.is_empty() && letters.len() == DRAFT_LETTERS && letters.bytes().all(is_letter)
    })
}

/// Removes what [`replace`] and [`create`] left in a folder where a process was killed within them. Only for a folder in which nobody
/// else makes files, while this one does not. Returns how many there were.
///
/// # Errors
/// The operating system's answer.
///
/// # Examples
/// ```
/// use duramen_base::file::{remove_drafts, replace};
/// let dir = tempfile::tempdir()?;
/// replace(&dir.path().join("state.json"), b"{}", 0o600)?;
/// std::fs::write(dir.path().join(".state.json.k3j9x2ab"), b"hal")?;
/// assert_eq!(remove_drafts(dir.path())?, 1);
/// assert_eq!(std::fs::read_dir(dir.path())?.count(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_drafts(folder: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && is_draft(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(dir: &Path) -> Vec<OsString> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_name_that_is_taken_is_not_given_away() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&from, b"a").unwrap();
        fs::write(&to, b"b").unwrap();
        let refused = rename_to_free(&from, &to).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fs::read(&from).unwrap(), fs::read(&to).unwrap()), (b"a".to_vec(), b"b".to_vec()));
        fs::remove_file(&to).unwrap();
        rename_to_free(&from, &to).unwrap();
        assert_eq!(names(dir.path()), ["b"]);
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for (text, mode) in [("one", 0o644), ("two", 0o600)] {
            replace(&path, text.as_bytes(), mode).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn what_has_the_name_is_not_replaced_by_create() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create(&path, b"one", 0o600).unwrap();
        assert_eq!(create(&path, b"two", 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn an_error_leaves_the_old_file_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        fs::create_dir_all(path.join("full")).unwrap();
        assert!(replace(&path, b"text", 0o600).is_err());
        assert!(replace(&dir.path().join("missing/a"), b"text", 0o600).is_err());
        assert!(replace(Path::new("/"), b"text", 0o600).is_err());
        assert_eq!(names(dir.path()), ["folder"]);
    }

    /// A link is replaced as a name, and what it points to stays.
    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("a"), dir.path().join("target"));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        replace(&path, b"text", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
