//! A directory into which an origin's `archive_command` puts its log: read as text from outside, and never written to.
//!
//! Whatever is asked of it is asked in a thread of its own with a deadline: it may be a file system of another machine.

use super::wal::{history_name, Position};
use crate::{
    error::{EngineError, Kind},
    files,
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Semaphore;

/// How long it may take to answer.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest file that says which timelines a timeline came from, in bytes.
const LINE_MAX: u64 = 1 << 20;
/// How much is copied at a time, in bytes.
const COPIED_AT_ONCE: usize = 1 << 20;
/// The longest path of an archive, in bytes.
const PATH_MAX: usize = 4096;

/// The archive of an origin.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    dir: PathBuf,
    /// Held by what still waits for it.
    turn: Arc<Semaphore>,
    limit: Duration,
}

/// By what a file is known from what it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    node: u64,
    pub(super) bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> io::Result<Stamp> {
        let meta = file.metadata()?;
        Ok(Stamp {
            device: meta.dev(),
            node: meta.ino(),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// What lies under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    File(Stamp),
    /// A link, or something that is not a file.
    Other(String),
}

impl Archive {
    pub(crate) fn new(dir: &Path) -> Archive {
        Archive { dir: dir.to_owned(), turn: Arc::new(Semaphore::new(1)), limit: LIMIT }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Refuses a path that cannot be one.
    pub(crate) fn check_path(dir: &str) -> Result<(), String> {
        if dir.len() > PATH_MAX || dir.contains(char::is_control) || !Path::new(dir).is_absolute() {
            return Err("the archive is named by its absolute path".to_owned());
        }
        Ok(())
    }

    /// Asks it in a thread, with a deadline.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, EngineError> {
        let silent = || {
            let message = format!("the archive {} does not answer", self.dir.display());
            EngineError::new(Kind::Unavailable, "archive_unreadable", message)
        };
        let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned() else { return Err(silent()) };
        let dir = self.dir.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let done = work(&dir);
            drop(turn);
            done
        });
        let answer = tokio::time::timeout(self.limit, asked).await.map_err(|_| silent())?;
        let answer = answer.map_err(|_| silent())?;
        answer.map_err(|error| {
            let message = format!("the archive {} cannot be read: {error}", self.dir.display());
            EngineError::new(Kind::Unavailable, "archive_unreadable", message)
        })
    }

    /// Refuses an archive that cannot be read now, or that lies in one of the daemon's own places.
    pub(crate) async fn check(&self, own: [PathBuf; 2]) -> Result<(), EngineError> {
        let is_own = self.ask(move |dir| {
            files::names_below(dir, Path::new("."), 1)?;
            let path = dir.canonicalize()?;
            Ok(own.iter().any(|own| path.starts_with(own.canonicalize().unwrap_or_else(|_| own.clone()))))
        });
        if is_own.await? {
            let message = format!("the archive {} is a place of Duramen's own", self.dir.display());
            return Err(EngineError::new(Kind::Invalid, "cannot_follow", message));
        }
        Ok(())
    }

    /// What lies under these names.
    pub(super) async fn look(&self, names: Vec<String>) -> Result<Vec<There>, EngineError> {
        self.ask(move |dir| names.iter().map(|name| there(dir, name).map(|(there, _)| there)).collect()).await
    }

    /// The newest of `names` that is there, if those that are there come first.
    pub(super) async fn last_of(
        &self,
        most: usize,
        name_of: impl Fn(usize) -> String + Send + 'static,
    ) -> Result<usize, EngineError> {
        self.ask(move |dir| {
            let is_there =
                |index| Ok::<_, io::Error>(matches!(there(dir, &name_of(index))?.0, There::File(_)));
            let (mut some, mut none) = (0, 1);
            while none <= most && is_there(none - 1)? {
                (some, none) = (none, none * 2);
            }
            none = none.min(most + 1);
            while some + 1 < none {
                let middle = usize::midpoint(some, none);
                match is_there(middle - 1)? {
                    true => some = middle,
                    false => none = middle,
                }
            }
            Ok(some)
        })
        .await
    }

    /// Copies what lies under a name into a file of ours, which is at `path`. What was copied is of the time of one stamp, or has
    /// another length.
    pub(super) async fn copy(
        &self,
        name: String,
        mut to: File,
        path: &Path,
        most: u64,
    ) -> Result<There, EngineError> {
        let copied = self.ask(move |dir| {
            let (there, from) = there(dir, &name)?;
            let Some(from) = from else { return Ok((there, Ok(()))) };
            if rustix::fs::ioctl_ficlone(&to, &from).is_ok() {
                return Ok((there, Ok(())));
            }
            // Which side failed is not to be guessed.
            let (mut from, mut part) = (from.take(most), vec![0; COPIED_AT_ONCE]);
            loop {
                let read = from.read(&mut part)?;
                if read == 0 {
                    return Ok((there, Ok(())));
                }
                if let Err(error) = to.write_all(&part[..read]) {
                    return Ok((there, Err(error)));
                }
            }
        });
        let (there, written) = copied.await?;
        written.map_err(|error| files::io_error("write in", path, &error))?;
        Ok(there)
    }

    /// From which timelines a timeline came, and where each of them ended: the earliest first. None if the archive does not say.
    pub(super) async fn line(&self, timeline: u32) -> Result<Option<(Vec<u8>, Line)>, EngineError> {
        let name = history_name(timeline);
        let wrong = format!("{name} in the archive {} is not a timeline's history", self.dir.display());
        let text = self
            .ask(move |dir| {
                let (there, file) = there(dir, &name)?;
                let mut text = Vec::new();
                if let Some(file) = file {
                    file.take(LINE_MAX).read_to_end(&mut text)?;
                }
                Ok((there, text))
            })
            .await?;
        match text {
            (There::Nothing, _) => Ok(None),
            (There::File(stamp), text) if stamp.bytes < LINE_MAX => match Line::read(timeline, &text) {
                Some(line) => Ok(Some((text, line))),
                None => Err(EngineError::new(Kind::Failed, "archive_damaged", wrong)),
            },
            _ => Err(EngineError::new(Kind::Failed, "archive_damaged", wrong)),
        }
    }
}

/// What lies under a name, without following a link.
fn there(dir: &Path, name: &str) -> io::Result<(There, Option<File>)> {
    use rustix::io::Errno;
    match files::open_below(dir, Path::new(name)) {
        Ok(file) => Ok((There::File(Stamp::of(&file)?), Some(file))),
        // The directory may be gone, too: then it is asked for.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            files::names_below(dir, Path::new("."), 1)?;
            Ok((There::Nothing, None))
        }
        Err(error) => {
            let is = |number: Errno| error.raw_os_error() == Some(number.raw_os_error());
            let is_other = error.kind() == io::ErrorKind::InvalidData
                || [Errno::LOOP, Errno::XDEV, Errno::NXIO, Errno::ISDIR].into_iter().any(is);
            match is_other {
                true => Ok((There::Other("it is a link, or something that is not a file".to_owned()), None)),
                false => Err(error),
            }
        }
    }
}

/// How a timeline came about: its ancestors, the earliest first, and where each was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) timeline: u32,
    left: Vec<(u32, u64)>,
}

impl Line {
    /// That of a timeline of which nothing is known before it.
    pub(super) fn alone(timeline: u32) -> Line {
        Line { timeline, left: Vec::new() }
    }

    /// As a file in a server's log says it.
    pub(super) fn read(timeline: u32, text: &[u8]) -> Option<Line> {
        let text = std::str::from_utf8(text).ok()?;
        let mut left: Vec<(u32, u64)> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        {
            let mut words = line.split_whitespace();
            let of = words.next()?.parse().ok()?;
            let at = words.next()?.parse::<Position>().ok()?.0;
            if left.last().is_some_and(|(before, until)| of <= *before || at < *until) {
                return None;
            }
            left.push((of, at));
        }
        let is_one =
            left.first().is_some_and(|(of, _)| *of > 0) && left.last().is_some_and(|(of, _)| *of < timeline);
        is_one.then_some(Line { timeline, left })
    }

    /// Where a timeline of it was left; none if it is not one of its ancestors.
    pub(super) fn left_at(&self, timeline: u32) -> Option<u64> {
        self.left.iter().find(|(of, _)| *of == timeline).map(|(_, at)| *at)
    }

    /// The timeline whose segment of this number is to be replayed: the newest that has it.
    pub(super) fn of_segment(&self, number: u64, size: u64) -> u32 {
        let passed = |(_, at): &&(u32, u64)| at / size <= number;
        let index = self.left.iter().take_while(passed).count();
        self.left.get(index).map_or(self.timeline, |(of, _)| *of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_base::clock;
    use rustix::mount::{mount, unmount, MountFlags, UnmountFlags};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_line_says_of_which_timeline_each_segment_is() {
        let line =
            Line::read(3, b"1\t0/3000060\tno recovery target specified\n\n# x\n2\t0/5000000\tbefore\n");
        let line = line.expect("it is one");
        let of: Vec<u32> = (1..=6).map(|number| line.of_segment(number, 16 << 20)).collect();
        assert_eq!(of, [1, 1, 2, 2, 3, 3]);
        assert_eq!((line.left_at(1), line.left_at(3)), (Some(0x0300_0060), None));
        assert_eq!(Line::alone(4).of_segment(9, 16 << 20), 4);
        for text in [
            "",
            "#",
            "2\t0/1\n1\t0/2",
            "1\t0/2\n2\t0/1",
            "3\t0/1",
            "1",
            "0\t0/1",
            "1 x",
            "\u{fffd}",
            "../../etc 0/1",
        ] {
            assert_eq!(Line::read(3, text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_file_is_told_and_not_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), b"x").expect("a file");
        std::fs::create_dir(at("dir")).expect("a directory");
        std::os::unix::fs::symlink("file", at("link")).expect("a link");
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RWXU).expect("a FIFO");
        let kind = |name: &str| there(dir.path(), name).map(|(there, _)| there);
        assert!(matches!(kind("file"), Ok(There::File(stamp)) if stamp.bytes == 1));
        for name in ["dir", "link", "fifo"] {
            assert!(matches!(kind(name), Ok(There::Other(_))), "{name}");
        }
        assert!(matches!(kind("none"), Ok(There::Nothing)));
        assert!(there(&at("gone"), "none").is_err(), "the directory itself is gone");
    }

    /// F14: a disk that is full in the middle of a segment is not taken for an archive that cannot be read.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_copy_that_finds_no_room_says_where() {
        let place = tempfile::tempdir().expect("a directory");
        let (dir, small) = (place.path().join("archive"), place.path().join("small"));
        std::fs::create_dir(&dir).expect("a directory");
        std::fs::create_dir(&small).expect("a directory");
        if let Err(error) = mount("small", &small, "tmpfs", MountFlags::NODEV, Some(c"size=1m")) {
            eprintln!("skipped: this is not root ({error})");
            return;
        }
        std::fs::write(dir.join("x"), vec![7; 3 << 20]).expect("a file");
        let at = small.join("draft");
        let archive = Archive::new(&dir);
        let copy = async |most| {
            let to = File::create(&at).expect("a file");
            archive.copy("x".to_owned(), to, &at, most).await
        };
        let refused = copy(3 << 20).await.expect_err("it is full");
        assert_eq!(refused.code, "disk_full", "{refused}");
        assert!(refused.message.contains(&at.display().to_string()), "{refused}");
        assert!(matches!(copy(1 << 10).await, Ok(There::File(stamp)) if stamp.bytes == 3 << 20));
        assert_eq!(std::fs::metadata(&at).expect("the copy").len(), 1 << 10);
        unmount(&small, UnmountFlags::DETACH).expect("it is unmounted");
    }

    /// F14: a file system whose other side says nothing, ever.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_archive_that_hangs_holds_one_thread_and_nobody() {
        let Ok(other_side) = File::options().read(true).write(true).open("/dev/fuse") else {
            eprintln!("skipped: the kernel has no FUSE, or this is not root");
            return;
        };
        let place = tempfile::tempdir().expect("a directory");
        let dir = place.path().join("archive");
        std::fs::create_dir(&dir).expect("a directory");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", other_side.as_raw_fd());
        let options = std::ffi::CString::new(options).expect("options");
        mount("archive", &dir, "fuse", MountFlags::NODEV, Some(options.as_c_str())).expect("it is mounted");

        let mut archive = Archive::new(&dir);
        archive.limit = Duration::from_millis(300);
        let ask = async |archive: &Archive| archive.look(vec!["x".to_owned()]).await.map_err(|it| it.message);
        let asked = clock::now();
        assert!(ask(&archive).await.is_err_and(|why| why.contains("does not answer")));
        assert!(asked.elapsed() >= archive.limit);
        // Whoever comes next neither waits nor takes another thread.
        archive.limit = Duration::from_secs(3600);
        assert!(ask(&archive).await.is_err_and(|why| why.contains("does not answer")));

        // The other side is gone, and what hung ends.
        drop(other_side);
        let turn = tokio::time::timeout(Duration::from_secs(30), archive.turn.acquire());
        drop(turn.await.expect("it ends").expect("a turn"));
        assert!(ask(&archive).await.is_err_and(|why| why.contains("cannot be read")));
        unmount(&dir, UnmountFlags::DETACH).expect("it is unmounted");
        assert_eq!(ask(&archive).await, Ok(vec![There::Nothing]));
    }
}
