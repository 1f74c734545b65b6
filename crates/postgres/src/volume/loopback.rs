//! A btrfs file system inside a file, mounted over a loop device.

use super::VolumeError;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// btrfs cannot be made much smaller and still hold a cluster.
const SMALLEST: u64 = 512 << 20;

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

    pub(super) fn is_mounted(&self) -> bool {
        let Ok(point) = fs::canonicalize(&self.mount_point) else { return false };
        fs::read_to_string("/proc/self/mountinfo").is_ok_and(|text| {
            text.lines().any(|line| {
                let mut fields = line.split(' ');
                fields.nth(4).is_some_and(|mounted| unescape(mounted) == point) && line.contains(" - btrfs /dev/loop")
            })
        })
    }

    /// Makes the file if there is none (`size` bytes, sparse) and mounts it. The reason is a sentence for people.
    pub(super) fn mount(&self, size: u64) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root may mount; run the daemon as root, or put --home on btrfs or XFS".to_owned());
        }
        if !self.file.exists() {
            self.make(size)?;
        }
        self.run_mount().or_else(|reason| {
            // No barriers: a crash of the machine can leave the file unusable, and then it is made anew.
            tracing::warn!(reason, "the volume store cannot be mounted and is made anew");
            self.make(size)?;
            self.run_mount()
        })
    }

    fn run_mount(&self) -> Result<(), String> {
        let options = "loop,nobarrier,noatime,discard=async,commit=300";
        run("mount", &["-t", "btrfs", "-o", options, &path(&self.file), &path(&self.mount_point)])?;
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&self.mount_point, fs::Permissions::from_mode(0o711)).map_err(|error| error.to_string())
    }

    fn make(&self, size: u64) -> Result<(), String> {
        if size < SMALLEST {
            return Err(format!("a volume store needs at least {} MB, and {} MB were offered", SMALLEST >> 20, size >> 20));
        }
        let make = || -> io::Result<()> {
            let _ = fs::remove_file(&self.file);
            let file = fs::OpenOptions::new().create_new(true).write(true).open(&self.file)?;
            file.set_len(size)
        };
        make().map_err(|error| format!("cannot make {}: {error}", self.file.display()))?;
        run("mkfs.btrfs", &["--quiet", "--metadata", "single", "--data", "single", &path(&self.file)]).inspect_err(
            |_| {
                let _ = fs::remove_file(&self.file);
            },
        )
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
