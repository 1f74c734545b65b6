//! A btrfs file system inside a file, mounted over a loop device.

use super::VolumeError;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// btrfs cannot be made much smaller and still hold a cluster.
const SMALLEST: u64 = 512 << 20;

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

    /// Makes the file if there is none (`size` bytes, sparse) and mounts it. The reason is a sentence for people.
    pub(super) fn mount(&self, size: u64) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err(
                "only root may mount; run the daemon as root, or put --home on btrfs or XFS".to_owned()
            );
        }
        if !self.file.exists() {
            self.make(size)?;
        }
        self.run_mount()
    }

    fn run_mount(&self) -> Result<(), String> {
        // Sums of data would be looked up at every read and written with every write; PostgreSQL's own page checksums
        // travel with the source, and a snapshot has a digest.
        let options = "loop,nobarrier,noatime,nodatasum,commit=300";
        run("mount", &["-t", "btrfs", "-o", options, &path(&self.file), &path(&self.mount_point)])?;
        self.limit_read_ahead();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&self.mount_point, fs::Permissions::from_mode(0o711))
            .map_err(|error| error.to_string())
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
        let make = || -> io::Result<()> {
            let _ = fs::remove_file(&self.file);
            let file = fs::OpenOptions::new().create_new(true).write(true).open(&self.file)?;
            file.set_len(size)
        };
        make().map_err(|error| format!("cannot make {}: {error}", self.file.display()))?;
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
