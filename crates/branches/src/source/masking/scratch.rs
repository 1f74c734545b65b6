//! Where a copy lies while its original values are in it: a file system in a file of its own, beside the volume store,
//! which is overwritten and removed afterwards, however the import ended.
//!
//! In a file of its own, because a server deletes files on its way: their blocks are free within that file, and so are
//! overwritten with it. A process that may not mount gets a plain directory instead. Its files are overwritten one by one;
//! those that the server has already deleted are not.

use crate::{
    error::{EngineError, Kind},
    files::{self, io_error, Passage},
    home::Home,
};
use duramen_postgres::{end_processes, processes_below, volume, ServerUser};
use rustix::{
    fs::{FsWord, IFlags, SeekFrom},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

/// btrfs cannot be made much smaller and still hold a cluster.
const SMALLEST: u64 = 512 << 20;
/// What a scratch file system leaves free on the disk that holds its file.
const RESERVE: u64 = 512 << 20;
/// The directory in a home; for root, a mount point.
const DIR: &str = "scratch";
/// The file system that is mounted there.
const FILE: &str = "scratch.btrfs";
/// What `statfs(2)` says of btrfs.
const BTRFS: FsWord = 0x9123_683e;
/// How much is overwritten at a time.
const CHUNK: usize = 1 << 20;
/// How often unmounting is tried, and the pause between attempts: processes that use it may still be exiting.
const UNMOUNT_TRIES: u32 = 50;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(100);

/// The scratch directory of a home.
pub(crate) fn dir(root: &Path) -> PathBuf {
    root.join(DIR)
}

/// The scratch of one import, destroyed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    home: Home,
    /// Opened before anything is written, so that it reports every writeback error since. `None` for a plain directory.
    watch: Option<OwnedFd>,
    destroyed: bool,
}

impl Scratch {
    /// Makes the scratch, after destroying whatever an earlier import left of its own.
    pub(crate) fn open(home: &Home, user: &ServerUser) -> Result<Scratch, EngineError> {
        destroy(home.root())?;
        let dir = home.root().join(DIR);
        files::make_dir(&dir, Passage::Servers, user)?;
        let mut scratch = Scratch { home: home.clone(), watch: None, destroyed: false };
        if rustix::process::geteuid().is_root() {
            scratch.mount()?;
            files::make_dir(&dir, Passage::Servers, user)?;
        } else {
            tracing::warn!(
                "only root may mount: files deleted from the scratch directory are not overwritten"
            );
        }
        Ok(scratch)
    }

    fn mount(&mut self) -> Result<(), EngineError> {
        let (file, dir) = (self.home.root().join(FILE), self.home.root().join(DIR));
        let free =
            volume::free_bytes(self.home.root()).map_err(|error| io_error("look at", &file, &error))?;
        let size = free.saturating_sub(RESERVE) & !0xf_ffff;
        if size < SMALLEST {
            return Err(EngineError::new(
                Kind::Failed,
                "disk_full",
                format!(
                    "masking needs a scratch file system beside the volume store, and {} has only {} MB free",
                    self.home.root().display(),
                    free >> 20
                ),
            ));
        }
        // Sparse, so that only what has been written has to be overwritten.
        let make = || {
            let made = files::private(OpenOptions::new().write(true)).open(&file)?;
            keep_in_place(&made)?;
            made.set_len(size)
        };
        make().map_err(|error| io_error("make", &file, &error))?;
        let (file, dir) = (file.display().to_string(), dir.display().to_string());
        run("mkfs.btrfs", &["--quiet", "--metadata", "single", "--data", "single", &file])?;
        // Without copy-on-write and discard: every block that ever held a value still belongs to the file at the end.
        let options = "loop,nobarrier,noatime,nodatacow,nodiscard";
        run("mount", &["-t", "btrfs", "-o", options, &file, &dir])?;
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let watch = rustix::fs::open(&*dir, flags, rustix::fs::Mode::empty());
        self.watch =
            Some(watch.map_err(|error| io_error("open", &self.home.root().join(DIR), &error.into()))?);
        Ok(())
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.home.root().join(DIR)
    }

    /// Whether files that were deleted on it are overwritten too.
    pub(crate) fn is_whole(&self) -> bool {
        self.watch.is_some()
    }

    /// Checks that no write was lost: the disk below may have been full, which a server that does not flush never
    /// notices.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.watch.as_ref().map_or(Ok(()), rustix::fs::syncfs).map_err(|error| {
            EngineError::new(
                Kind::Failed,
                "disk_full",
                format!(
                    "the scratch file system of the import lost writes ({}); make room on the disk of {} and try again",
                    io::Error::from(error),
                    self.home.root().display()
                ),
            )
        })
    }

    /// Overwrites and removes it.
    pub(crate) fn destroy(mut self) -> Result<(), EngineError> {
        self.watch = None;
        self.destroyed = true;
        destroy(self.home.root())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.watch = None;
        if !self.destroyed {
            if let Err(error) = destroy(self.home.root()) {
                tracing::error!(%error, "the scratch of an import remains; the next start overwrites it");
            }
        }
    }
}

/// Ends the processes that use a home's scratch, then overwrites and removes it, whichever import left it.
///
/// # Errors
/// If it is still in use, or cannot be overwritten.
pub fn destroy(root: &Path) -> Result<(), EngineError> {
    let (file, dir) = (root.join(FILE), root.join(DIR));
    if !dir.exists() && !file.exists() {
        return Ok(());
    }
    for _ in 0..UNMOUNT_TRIES {
        end_processes(&processes_below(&dir), &dir);
        if !is_mounted(&dir) {
            break;
        }
        // Read-only first: that writes back whatever is pending, and stops writers in other namespaces with the same mount.
        let point = dir.display().to_string();
        let still = run("mount", &["-o", "remount,ro", &point]).and_then(|()| run("umount", &[&point]));
        if still.is_err() {
            thread::sleep(UNMOUNT_PAUSE);
        }
    }
    if is_mounted(&dir) {
        return Err(EngineError::new(
            Kind::Failed,
            "scratch_in_use",
            format!(
                "{} holds original values and cannot be unmounted; stop the processes that use it",
                dir.display()
            ),
        ));
    }
    for _ in 0..UNMOUNT_TRIES {
        if !is_device(&file) {
            break;
        }
        thread::sleep(UNMOUNT_PAUSE);
    }
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| io_error("overwrite", &path, &error)
    };
    if dir.exists() {
        for entry in walkdir::WalkDir::new(&dir).into_iter().flatten().filter(|it| it.file_type().is_file()) {
            overwrite(entry.path()).map_err(fail(entry.path()))?;
        }
        fs::remove_dir_all(&dir).map_err(fail(&dir))?;
    }
    if file.exists() {
        overwrite(&file).map_err(fail(&file))?;
        fs::remove_file(&file).map_err(fail(&file))?;
    }
    Ok(())
}

/// Has a file system that otherwise writes changed blocks to another place, as btrfs does, change those of this file, which
/// is empty yet, where they are. `chattr(1)`, attribute `C`.
fn keep_in_place(file: &File) -> io::Result<()> {
    if rustix::fs::fstatfs(file)?.f_type != BTRFS {
        return Ok(());
    }
    let flags = rustix::fs::ioctl_getflags(file)?;
    rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW)?;
    Ok(())
}

/// Writes zeros over every block that a file has, and waits until they are on the disk: if the file were removed first, they
/// might never be written.
fn overwrite(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).read(true).open(path)?;
    let length = file.metadata()?.len();
    let zeros = vec![0; CHUNK];
    let mut position = 0;
    while let Some(data) = seek(&file, SeekFrom::Data(position))? {
        let end = seek(&file, SeekFrom::Hole(data))?.unwrap_or(length);
        position = data;
        while position < end {
            let count = usize::try_from(end - position).map_or(CHUNK, |left| left.min(CHUNK));
            file.write_all_at(&zeros[..count], position)?;
            position += count as u64;
        }
    }
    file.sync_all()
}

/// Where the next data or the next hole of a file begins. `None` if there is none.
fn seek(file: &File, from: SeekFrom) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, from) {
        Ok(position) => Ok(Some(position)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_mounted(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|it| it.dev()).ok();
    let parent = dir.parent().unwrap_or(dir);
    device(dir).is_some_and(|own| device(parent).is_some_and(|around| around != own))
}

/// Whether a loop device still uses a file: another mount namespace may keep it mounted.
fn is_device(file: &Path) -> bool {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let files = devices.map(|device| fs::read_to_string(device.path().join("loop/backing_file")));
    files.flatten().any(|backing| Path::new(backing.trim_end()) == file)
}

fn run(program: &str, arguments: &[&str]) -> Result<(), EngineError> {
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let failed = |reason: String| {
        EngineError::new(
            Kind::Failed,
            "no_scratch",
            format!("the scratch file system of an import cannot be made: {program}: {reason}"),
        )
    };
    let output = Command::new(program).args(arguments).env("PATH", search).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B37: zeros lie where the values were, in the blocks of the file and not in new ones.
    #[test]
    fn what_was_written_is_overwritten_and_holes_stay_holes() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("scratch");
        let file = File::create(&path).expect("a file");
        file.set_len(64 << 20).expect("its length");
        for position in [0, 5_000_001, (64 << 20) - 7] {
            file.write_all_at(b"secret.", position).expect("a write");
        }
        file.sync_all().expect("flushed");
        let blocks = file.metadata().expect("its size").blocks();
        overwrite(&path).expect("overwritten");
        let found = fs::read(&path).expect("what is left");
        assert_eq!(found.len(), 64 << 20);
        assert!(found.iter().all(|byte| *byte == 0), "a value is left");
        assert_eq!(file.metadata().expect("its size").blocks(), blocks, "as many blocks as before");
    }
}
