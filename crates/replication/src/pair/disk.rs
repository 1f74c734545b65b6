//! A disk of its own for the WAL of the standby of a pair of our own: a file with a file system in it, which can be frozen.
//!
//! Only root can do that. A guardian that is there before the disk is thaws it, and takes the mount away, in whatever way
//! this process ends; its loop device goes with the mount, and the file with the folder of the pair.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use duramen_postgres::Guardian;

use super::hop;

/// The file is as large at most, and sparse: it takes what is written to it.
const BYTES: u64 = 8 << 30;
/// Thaws the file system $1 and takes it away, and the folder that it was mounted at. What still works in it (a server that
/// is being ended) does not keep it.
const TAKE_AWAY: &str = r#"
    read -r _
    PATH=$PATH:/usr/sbin:/sbin
    fsfreeze --unfreeze "$1"
    umount "$1" || umount --lazy "$1"
    rmdir "$1"
"#;
/// Freezes the file system $1, says so, and thaws it at the end of its input, also if nobody hears it any more or its mount
/// has been taken away meanwhile.
const FREEZE: &str = r#"
    trap '' PIPE
    PATH=$PATH:/usr/sbin:/sbin
    exec 9< "$1" || exit 1
    fsfreeze --freeze /proc/self/fd/9 || exit 1
    echo frozen
    read -r _
    fsfreeze --unfreeze /proc/self/fd/9
"#;
/// The programs that this takes, with the packages of Debian that they are in.
const PROGRAMS: [(&str, &str); 4] =
    [("mkfs.ext4", "e2fsprogs"), ("mount", "mount"), ("umount", "mount"), ("fsfreeze", "util-linux")];
/// A file system is frozen within this: what is to be written is written before.
const LIMIT: Duration = Duration::from_secs(20);

/// Why no disk can be frozen here, if none can.
pub(in super::super) fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it freezes a file system, which only root may; run it as root".to_owned());
    }
    let control = Path::new("/dev/loop-control");
    let no_loops = || format!("it needs loop devices, and there is no {}", control.display());
    lacking(&PROGRAMS).or_else(|| (!control.exists()).then(no_loops))
}

/// Why no packets can be lost here, if none can.
pub(in super::super) fn no_namespace() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it makes a network namespace, which only root may; run it as root".to_owned());
    }
    lacking(&hop::PROGRAMS)
}

/// Why the flushes of a process cannot be made slower here, if they cannot.
pub(in super::super) fn no_tracer() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it traces a process of the standby, which only root may; run it as root".to_owned());
    }
    lacking(&[("strace", "strace")])
}

/// Which of these programs is not there, if one is not.
fn lacking(programs: &[(&str, &str)]) -> Option<String> {
    let search = search();
    let is_there = |name: &str| search.split(':').any(|dir| Path::new(dir).join(name).is_file());
    let (name, package) = programs.iter().find(|(name, _)| !is_there(name))?;
    Some(format!("it needs the program {name} (Debian's package {package})"))
}

/// The disk, mounted, with the WAL of the standby on it.
pub(super) struct Disk {
    mount: PathBuf,
    file: PathBuf,
    pg_wal: PathBuf,
    // Dropped before the file is removed, by `give_back`.
    guardian: Guardian,
}

impl Disk {
    /// Makes it in `folder`, and moves the `pg_wal` of a server that is stopped to it. Of the segments, those after
    /// `newest` hold nothing yet, and are left. Blocks.
    pub(super) fn make(folder: &Path, data_dir: &Path, newest: &str) -> Result<Self, String> {
        let (mount, file, pg_wal) = (folder.join("w"), folder.join("w.img"), data_dir.join("pg_wal"));
        let make = || {
            fs::create_dir(&mount)?;
            fs::File::create(&file)?.set_len(BYTES)
        };
        make().map_err(|error| format!("cannot make {}: {error}", file.display()))?;
        run("mkfs.ext4", &["-q", "-F", "-E", "nodiscard"], &[&file])?;
        let mut command = Command::new("/bin/sh");
        let guardian = Guardian::start(command.args(["-c", TAKE_AWAY, "guardian"]).arg(&mount));
        let guardian = guardian.map_err(|error| format!("cannot run a guardian of a disk: {error}"))?;
        let disk = Self { mount, file, pg_wal, guardian };
        run("mount", &["-o", "loop,noatime"], &[&disk.file, &disk.mount])?;
        fs::create_dir(disk.on_it())
            .map_err(|error| format!("cannot use {}: {error}", disk.mount.display()))?;
        let like = format!("--reference={}", disk.pg_wal.display());
        for program in ["chown", "chmod"] {
            run(program, &[&like], &[&disk.on_it()])?;
        }
        copy(&disk.pg_wal, &disk.on_it(), newest)?;
        let moved = fs::rename(&disk.pg_wal, disk.kept()).and_then(|()| symlink(disk.on_it(), &disk.pg_wal));
        moved.map_err(|error| format!("cannot move {}: {error}", disk.pg_wal.display()))?;
        Ok(disk)
    }

    /// Moves the WAL back, of a server that is stopped, and takes the disk away. Blocks.
    pub(super) fn give_back(self, newest: &str) -> Result<(), String> {
        let moved = copy(&self.on_it(), &self.kept(), newest).and_then(|()| {
            let moved = fs::remove_file(&self.pg_wal).and_then(|()| fs::rename(self.kept(), &self.pg_wal));
            moved.map_err(|error| format!("cannot move {} back: {error}", self.pg_wal.display()))
        });
        let Self { file, guardian, .. } = self;
        drop(guardian);
        // It goes with the folder of the pair otherwise.
        let _ = fs::remove_file(file);
        moved
    }

    /// Freezes it until what this returns is dropped. Blocks.
    pub(super) fn freeze(&self) -> Result<Guardian, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", FREEZE, "guardian"]).arg(&self.mount);
        Guardian::start_watching(&mut command, "frozen", LIMIT)
            .map_err(|error| format!("cannot freeze {}: {error}", self.mount.display()))
    }

    fn on_it(&self) -> PathBuf {
        self.mount.join("pg_wal")
    }

    fn kept(&self) -> PathBuf {
        self.pg_wal.with_extension("kept")
    }
}

/// Copies what is in a `pg_wal` into another one, but for segments after `newest`.
fn copy(from: &Path, to: &Path, newest: &str) -> Result<(), String> {
    let entries = fs::read_dir(from).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| format!("cannot read {}: {error}", from.display()))?;
    let is_wanted = |name: &str| {
        let is_segment = name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        !is_segment || name[8..] <= *newest
    };
    let wanted = entries.iter().filter(|entry| entry.file_name().to_str().is_some_and(is_wanted));
    let mut paths: Vec<PathBuf> = wanted.map(fs::DirEntry::path).collect();
    if paths.is_empty() {
        return Ok(());
    }
    paths.push(to.to_owned());
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    run("cp", &["-a"], &paths)
}

/// The name of the segment of 16 MiB that a position in the WAL is in, without its time line.
pub(super) fn segment(lsn: u64) -> String {
    format!("{:08X}{:08X}", lsn >> 32, (lsn & 0xffff_ffff) >> 24)
}

pub(super) fn search() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

fn run(program: &str, options: &[&str], paths: &[&Path]) -> Result<(), String> {
    let output = Command::new(program).args(options).args(paths).env("PATH", search()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
