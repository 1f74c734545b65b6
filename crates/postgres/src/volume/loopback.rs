//! A btrfs file system inside a file, mounted over a loop device.

use super::VolumeError;
use duramen_base::file;
use rustix::{fs::FallocateFlags, io::Errno};
use std::{
    fs, io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Command,
};

/// btrfs cannot be made much smaller and still hold a cluster.
const SMALLEST: u64 = 512 << 20;

/// What a volume store leaves free on the disk that holds its file.
const RESERVE: u64 = 256 << 20;

/// What btrfs reads ahead at most, in KiB.
const READ_AHEAD_KB: &str = "16";

/// The file and its mount point.
#[derive(Debug)]
pub(super) struct Loopback {
    file: PathBuf,
    mount_point: PathBuf,
}

impl Loopback {
    pub(super) fn at(home: &Path, mount_point: &Path) -> Loopback {
        Loopback { file: home.join("volumes.btrfs"), mount_point: mount_point.to_owned() }
    }

    /// Whether the file system was mounted as it was before its last writes, and nobody has
    /// [acknowledged](Loopback::acknowledge) that yet.
    pub(super) fn is_set_back(&self) -> bool {
        self.set_back_marker().exists()
    }

    /// What was lost is written down elsewhere.
    pub(super) fn acknowledge(&self) {
        if let Err(error) = fs::remove_file(self.set_back_marker()) {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::error!(%error, "the volume store goes on to count as one that lost writes");
            }
        }
    }

    fn set_back_marker(&self) -> PathBuf {
        self.file.with_extension("set-back")
    }

    pub(super) fn describe(&self, how: &str) -> String {
        format!(
            "{} is a btrfs file system in a file, {how}; it has no write barriers, which is safe because branches are disposable",
            self.file.display()
        )
    }

    /// Whether there is a file already, with whatever it holds.
    pub(super) fn exists(&self) -> bool {
        self.file.exists()
    }

    pub(super) fn is_mounted(&self) -> bool {
        self.mounted_device().is_some()
    }

    /// Makes the file if there is none (`size` bytes, all of them allocated) and mounts it. The reason is a sentence for people.
    pub(super) fn mount(&self, size: u64) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err(
                "only root may mount; run the daemon as root, or put --home on btrfs or XFS".to_owned()
            );
        }
        if self.file.exists() {
            self.allocate_rest();
        } else {
            self.make(size)?;
        }
        self.run_mount()
    }

    /// Has a mount that an earlier daemon left keep to the rules of this one. Best effort: it is in use.
    pub(super) fn take_over(&self) {
        self.allocate_rest();
        self.refuse_discards();
        if let Err(error) = run("mount", &["-o", "remount,nodiscard", &path(&self.mount_point)]) {
            tracing::warn!(error, "the volume store that is mounted may discard blocks");
        }
    }

    /// Bytes of the file that have no blocks on the disk below: what is written there may find none, and what the
    /// branches wrote is then lost without an error for them.
    pub(super) fn unallocated(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |it| it.len().saturating_sub(it.blocks() * 512))
    }

    /// Gives a file of version 0.1, which was sparse, the blocks that it lacks. Where the disk has not enough of them,
    /// [`Loopback::unallocated`] goes on telling.
    fn allocate_rest(&self) {
        if self.unallocated() == 0 {
            return;
        }
        let allocate = || -> io::Result<()> {
            let file = fs::OpenOptions::new().write(true).open(&self.file)?;
            let length = file.metadata()?.len();
            let missing = self.unallocated().saturating_add(RESERVE);
            if super::free_bytes(&self.file)? < missing {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, length)?)
        };
        if let Err(error) = allocate() {
            tracing::error!(%error, file = %self.file.display(), "the volume store is not allocated in full");
        }
    }

    /// Mounts the file. Where the last state of its trees cannot be read, because writes were lost with a crash of the
    /// machine, one of the states before it is taken, which btrfs keeps: it lacks what was written last.
    fn run_mount(&self) -> Result<(), String> {
        // Sums of data would be looked up at every read and written with every write; PostgreSQL's own page checksums
        // travel with the source, and a snapshot has a digest.
        // Discarding would punch holes into the file, and give away blocks that were allocated for it.
        let options = "loop,nobarrier,noatime,nodatasum,nodiscard,commit=300";
        let mount = |options: &str| {
            run("mount", &["-t", "btrfs", "-o", options, &path(&self.file), &path(&self.mount_point)])
        };
        // Twice, because a device that is still busy is not damage.
        if let Err(reason) = mount(options).or_else(|_| mount(options)) {
            // Known before it happens: once it is mounted, nothing about it says that it lacks writes.
            let marked = file::replace(&self.set_back_marker(), b"", 0o600);
            marked.map_err(|error| {
                format!("{reason}; and {} cannot be written: {error}", path(&self.set_back_marker()))
            })?;
            if mount(&format!("{options},usebackuproot")).is_err() {
                self.acknowledge();
                return Err(reason);
            }
            tracing::error!(reason, "the volume store was mounted as it was some time before");
        }
        self.limit_read_ahead();
        self.refuse_discards();
        Ok(())
    }

    /// A fresh clone shares no cached pages with its siblings, so what is read ahead in it is mostly read for
    /// nothing: pages of the catalogue are wanted one by one. Best effort.
    fn limit_read_ahead(&self) {
        let Some(device) = self.mounted_device() else { return };
        for entry in fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten() {
            if entry.path().join("devices").join(&device).exists() {
                let _ = fs::write(entry.path().join("bdi/read_ahead_kb"), READ_AHEAD_KB);
            }
        }
    }

    /// `fstrim`, which many systems run by a timer, would punch the holes that the mount does not. Best effort.
    fn refuse_discards(&self) {
        if let Some(device) = self.mounted_device() {
            let _ = fs::write(format!("/sys/block/{device}/queue/discard_max_bytes"), "0");
        }
    }

    /// The loop device (`loop0`) that is mounted at the mount point.
    fn mounted_device(&self) -> Option<String> {
        let point = fs::canonicalize(&self.mount_point).ok()?;
        let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
        text.lines().find_map(|line| {
            let mounted = line.split(' ').nth(4)?;
            let device = line.split_once(" - btrfs /dev/")?.1.split(' ').next()?;
            (unescape(mounted) == point && device.starts_with("loop")).then(|| device.to_owned())
        })
    }

    fn make(&self, size: u64) -> Result<(), String> {
        if size < SMALLEST {
            return Err(format!(
                "a volume store needs at least {} MB, and {} MB were offered",
                SMALLEST >> 20,
                size >> 20
            ));
        }
        let home = self.file.parent().unwrap_or(&self.file);
        let free = super::free_bytes(home).unwrap_or(0);
        if free < size.saturating_add(RESERVE) {
            return Err(format!(
                "a volume store of {} MB would fill the disk, which has {} MB free: choose a smaller one (`duramen serve --volume-size`), or another --home",
                size >> 20,
                free >> 20
            ));
        }
        let make = || -> io::Result<()> {
            let _ = fs::remove_file(&self.file);
            let file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&self.file)?;
            // All of it now: a block that is missing when the branches' pages are written back is lost data of
            // branches that were told otherwise.
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
                Err(Errno::OPNOTSUPP) => file.set_len(size),
                allocated => Ok(allocated?),
            }
        };
        make().map_err(|error| {
            let _ = fs::remove_file(&self.file);
            format!("cannot make {}: {error}", self.file.display())
        })?;
        // Small nodes: a branch's first writes copy the leaves they touch and count new references for every extent
        // in them, and a commit checks each dirty leaf whole. 4 KiB nodes make both several times cheaper here.
        let arguments = ["--quiet", "--metadata", "single", "--data", "single", "--nodesize", "4096"];
        run("mkfs.btrfs", &[&arguments[..], &[&path(&self.file)]].concat()).inspect_err(|_| {
            let _ = fs::remove_file(&self.file);
        })
    }

    pub(super) fn unmount(&self) -> Result<(), VolumeError> {
        // The loop device goes with its last user: `mount -o loop` sets autoclear.
        run("umount", &[&path(&self.mount_point)])
            .map_err(|reason| VolumeError::io("unmounting", &self.mount_point, io::Error::other(reason)))
    }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Octal escapes of blanks in `mountinfo`.
fn unescape(field: &str) -> PathBuf {
    PathBuf::from(field.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", search).output().map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            format!("`{program}` is not installed; run `make setup` (Debian's package btrfs-progs)")
        } else {
            format!("{program}: {error}")
        }
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
