//! btrfs subvolumes by ioctl. The command-line tool costs several milliseconds more a call.
//! Source: `linux/btrfs.h` of the kernel's user-space headers.

use super::{
    quota::{Inherit, Quota},
    Kind, VolumeError, Volumes,
};
use rustix::{
    fs::{open, Mode, OFlags},
    ioctl::{opcode, Getter, NoArg, Setter, Updater},
};
use std::{io, os::fd::AsRawFd, os::fd::OwnedFd, path::Path};

pub(super) const MAGIC: u8 = 0x94;
const SUBVOLUME_READ_ONLY: u64 = 1 << 1;
/// `statfs` type of btrfs.
const SUPER_MAGIC: u64 = 0x9123_683E;

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolumeArgs {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct SnapshotArgs {
    fd: i64,
    transid: u64,
    flags: u64,
    inherit_len: u64,
    /// A pointer to an [`Inherit`], or zero.
    inherit: u64,
    unused: [u64; 2],
    name: [u8; 4040],
}

/// `struct btrfs_ioctl_timespec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Timespec {
    seconds: u64,
    nanoseconds: u32,
}

/// `struct btrfs_ioctl_get_subvol_info_args`.
#[repr(C)]
struct InfoArgs {
    tree_id: u64,
    name: [u8; 256],
    parent_id: u64,
    dir_id: u64,
    generation: u64,
    flags: u64,
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
    received_uuid: [u8; 16],
    change_transid: u64,
    origin_transid: u64,
    send_transid: u64,
    receive_transid: u64,
    times: [Timespec; 4],
    reserved: [u64; 8],
}

type CreateOp = Setter<{ opcode::write::<VolumeArgs>(MAGIC, 14) }, VolumeArgs>;
type DestroyOp = Setter<{ opcode::write::<VolumeArgs>(MAGIC, 15) }, VolumeArgs>;
type SnapshotOp = Setter<{ opcode::write::<SnapshotArgs>(MAGIC, 23) }, SnapshotArgs>;
type SetFlagsOp = Setter<{ opcode::write::<u64>(MAGIC, 26) }, u64>;
type WaitOp<'a> = Updater<'a, { opcode::write::<WaitArgs>(MAGIC, 65) }, WaitArgs>;
type SyncOp = NoArg<{ opcode::none(MAGIC, 8) }>;
type InfoOp = Getter<{ opcode::read::<InfoArgs>(MAGIC, 60) }, InfoArgs>;

/// `struct btrfs_ioctl_subvol_wait`.
#[repr(C)]
struct WaitArgs {
    subvolume_id: u64,
    mode: u32,
    count: u32,
}

/// `BTRFS_SUBVOL_SYNC_COUNT`: only tell how many deleted subvolumes are not cleaned yet.
const WAIT_MODE_COUNT: u32 = 2;

/// `struct btrfs_ioctl_get_dev_stats`.
#[repr(C)]
struct DeviceStats {
    device_id: u64,
    count: u64,
    flags: u64,
    /// Errors of writes, reads and flushes; damaged blocks; blocks of a wrong generation.
    values: [u64; 5],
    unused: [u64; 121],
}

type StatsOp<'a> = Updater<'a, { opcode::read_write::<DeviceStats>(MAGIC, 52) }, DeviceStats>;

/// `struct btrfs_ioctl_fs_info_args`.
#[repr(C)]
struct FileSystemInfo {
    highest_id: u64,
    device_count: u64,
    id: [u8; 16],
    rest: [u8; 992],
}

type FileSystemOp = Getter<{ opcode::read::<FileSystemInfo>(MAGIC, 31) }, FileSystemInfo>;

/// `BTRFS_DEV_STATS_RESET`.
const RESET: u64 = 1;
/// File systems of more devices are looked at as far as this.
const DEVICES_MAX: u64 = 64;

/// What btrfs knows of a subvolume.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SubvolumeInfo {
    /// Its unique id.
    uuid: [u8; 16],
    /// The transaction that last changed anything in it.
    change_transid: u64,
    /// Whether it is read-only.
    read_only: bool,
}

/// `BTRFS_ROOT_SUBVOL_RDONLY`.
const ROOT_READ_ONLY: u64 = 1;

/// `BTRFS_SUBVOL_QGROUP_INHERIT`.
const INHERIT: u64 = 1 << 2;

/// btrfs subvolumes.
#[derive(Debug)]
pub(super) struct Btrfs {
    /// Whether clones have quotas.
    pub(super) quotas: bool,
    /// Whether they belong to accounts besides.
    pub(super) accounts: bool,
}

fn name_bytes<const N: usize>(path: &Path) -> io::Result<[u8; N]> {
    use std::os::unix::ffi::OsStrExt;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
    let mut bytes = [0; N];
    bytes
        .get_mut(..name.len())
        .filter(|_| name.len() < N)
        .ok_or(io::ErrorKind::InvalidFilename)?
        .copy_from_slice(name);
    Ok(bytes)
}

pub(super) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn open_parent(path: &Path) -> io::Result<OwnedFd> {
    open_dir(path.parent().ok_or(io::ErrorKind::InvalidInput)?)
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn create(path: &Path) -> io::Result<()> {
    let args = VolumeArgs { fd: 0, name: name_bytes(path)? };
    // SAFETY: BTRFS_IOC_SUBVOL_CREATE reads one `btrfs_ioctl_vol_args`, which `VolumeArgs` mirrors (4096 bytes).
    unsafe { rustix::ioctl::ioctl(open_parent(path)?, CreateOp::new(args))? };
    Ok(())
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn destroy(path: &Path) -> io::Result<()> {
    let args = VolumeArgs { fd: 0, name: name_bytes(path)? };
    // SAFETY: BTRFS_IOC_SNAP_DESTROY reads one `btrfs_ioctl_vol_args`, which `VolumeArgs` mirrors (4096 bytes).
    unsafe { rustix::ioctl::ioctl(open_parent(path)?, DestroyOp::new(args))? };
    Ok(())
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn snapshot(source: &Path, target: &Path, inherit: Option<&Inherit>, flags: u64) -> io::Result<()> {
    let from = open_dir(source)?;
    let args = SnapshotArgs {
        fd: i64::from(from.as_raw_fd()),
        transid: 0,
        flags: flags | inherit.map_or(0, |_| INHERIT),
        inherit_len: inherit.map_or(0, Inherit::len),
        inherit: inherit.map_or(0, |it| std::ptr::from_ref(it).expose_provenance() as u64),
        unused: [0; 2],
        name: name_bytes(target)?,
    };
    // SAFETY: BTRFS_IOC_SNAP_CREATE_V2 reads one `btrfs_ioctl_vol_args_v2`, which `SnapshotArgs` mirrors
    // (4096 bytes), and the `btrfs_qgroup_inherit` that it points to, which `Inherit` mirrors; it and `from` live
    // through the call.
    unsafe { rustix::ioctl::ioctl(open_parent(target)?, SnapshotOp::new(args))? };
    Ok(())
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn set_flags(path: &Path, flags: u64) -> io::Result<()> {
    // SAFETY: BTRFS_IOC_SUBVOL_SETFLAGS reads one u64.
    unsafe { rustix::ioctl::ioctl(open_dir(path)?, SetFlagsOp::new(flags))? };
    Ok(())
}

fn info(path: &Path) -> io::Result<SubvolumeInfo> {
    let args = subvolume_info(&open_dir(path)?)?;
    Ok(SubvolumeInfo {
        uuid: args.uuid,
        change_transid: args.change_transid,
        read_only: args.flags & ROOT_READ_ONLY != 0,
    })
}

#[allow(unsafe_code, reason = "ioctl: it takes no argument")]
fn sync(dir: OwnedFd) -> io::Result<()> {
    // SAFETY: BTRFS_IOC_SYNC takes no argument.
    unsafe { rustix::ioctl::ioctl(dir, SyncOp::new())? };
    Ok(())
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn queued_deletions(dir: OwnedFd) -> io::Result<u32> {
    let mut args = WaitArgs { subvolume_id: 0, mode: WAIT_MODE_COUNT, count: 0 };
    // SAFETY: BTRFS_IOC_SUBVOL_SYNC_WAIT reads and writes one `btrfs_ioctl_subvol_wait`, which `WaitArgs` mirrors.
    unsafe { rustix::ioctl::ioctl(dir, WaitOp::new(&mut args))? };
    Ok(args.count)
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn device_stats(root: &OwnedFd, device_id: u64, flags: u64) -> io::Result<[u64; 5]> {
    let mut args = DeviceStats { device_id, count: 5, flags, values: [0; 5], unused: [0; 121] };
    // SAFETY: BTRFS_IOC_GET_DEV_STATS reads and writes one `btrfs_ioctl_get_dev_stats`, which `DeviceStats` mirrors
    // (1032 bytes).
    unsafe { rustix::ioctl::ioctl(root, StatsOp::new(&mut args))? };
    Ok(args.values)
}

/// The id of a file system, as it names its directory in `/sys/fs/btrfs`.
pub(super) fn file_system_id(root: &OwnedFd) -> io::Result<String> {
    let id = file_system_info(root)?.id;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

/// The id of the subvolume that a directory is in.
pub(super) fn subvolume_id(dir: &OwnedFd) -> io::Result<u64> {
    Ok(subvolume_info(dir)?.tree_id)
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn file_system_info(root: &OwnedFd) -> io::Result<FileSystemInfo> {
    // SAFETY: BTRFS_IOC_FS_INFO writes one `btrfs_ioctl_fs_info_args`, which `FileSystemInfo` mirrors (1024 bytes).
    Ok(unsafe { rustix::ioctl::ioctl(root, FileSystemOp::new())? })
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn subvolume_info(dir: &OwnedFd) -> io::Result<InfoArgs> {
    // SAFETY: BTRFS_IOC_GET_SUBVOL_INFO writes one `btrfs_ioctl_get_subvol_info_args`, which `InfoArgs` mirrors.
    Ok(unsafe { rustix::ioctl::ioctl(dir, InfoOp::new())? })
}

/// The ids of the devices of a file system.
pub(super) fn devices(root: &OwnedFd) -> io::Result<Vec<u64>> {
    let info = file_system_info(root)?;
    // Asking for an id that is not there makes the kernel log a warning: once at opening, and never again.
    Ok((1..=info.highest_id.min(DEVICES_MAX)).filter(|id| device_stats(root, *id, 0).is_ok()).collect())
}

/// How many writes and flushes failed on devices of a file system since the count was last `reset`, which this does.
pub(super) fn failed_writes(root: &OwnedFd, devices: &[u64], reset: bool) -> io::Result<u64> {
    let flags = if reset { RESET } else { 0 };
    devices.iter().try_fold(0, |failed, id| {
        let [writes, _, flushes, ..] = device_stats(root, *id, flags)?;
        Ok(failed + writes + flushes)
    })
}

/// Whether subvolumes can be made, snapshot and deleted in `dir`.
pub(super) fn probe(dir: &Path) -> io::Result<()> {
    if rustix::fs::statfs(dir)?.f_type as u64 != SUPER_MAGIC {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let name = format!(".probe-{}", std::process::id());
    let (one, two) = (dir.join(&name), dir.join(name + "-2"));
    create(&one)?;
    let result = snapshot(&one, &two, None, 0).and_then(|()| destroy(&two));
    destroy(&one)?;
    result
}

impl Volumes for Btrfs {
    fn kind(&self) -> Kind {
        Kind::Btrfs
    }

    fn create(&self, path: &Path) -> Result<(), VolumeError> {
        create(path).map_err(|error| VolumeError::io("creating", path, error))
    }

    fn clone_volume(&self, source: &Path, target: &Path, quota: Option<Quota>) -> Result<(), VolumeError> {
        if !source.exists() {
            return Err(VolumeError::Missing { path: source.display().to_string() });
        }
        let inherit = quota.filter(|_| self.quotas).map(|quota| Inherit::of(quota, self.accounts));
        snapshot(source, target, inherit.as_ref(), 0)
            .map_err(|error| VolumeError::io("cloning to", target, error))
    }

    fn snapshot(&self, source: &Path, target: &Path) -> Result<(), VolumeError> {
        snapshot(source, target, None, SUBVOLUME_READ_ONLY)
            .map_err(|error| VolumeError::io("taking a snapshot to", target, error))
    }

    fn freeze(&self, path: &Path) -> Result<(), VolumeError> {
        // What is written back later would change the volume's identity after it was taken.
        let flushed = open_dir(path).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
        flushed
            .and_then(|()| set_flags(path, SUBVOLUME_READ_ONLY))
            .map_err(|error| VolumeError::io("freezing", path, error))
    }

    fn delete(&self, path: &Path) -> Result<(), VolumeError> {
        match destroy(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // Not a subvolume (half-made by something else), or a user without the right to destroy one.
            Err(_) if path.is_dir() => {
                let _ = set_flags(path, 0);
                std::fs::remove_dir_all(path).map_err(|error| VolumeError::io("deleting", path, error))
            }
            result => result.map_err(|error| VolumeError::io("deleting", path, error)),
        }
    }

    fn reclaim(&self, root: &Path) {
        // Best effort: without it the cleaner comes by itself, at a moment of its own.
        let _ = open_dir(root).and_then(sync);
    }

    fn reclaiming(&self, root: &Path) -> bool {
        // A kernel before 6.13 does not tell.
        open_dir(root).and_then(queued_deletions).is_ok_and(|count| count > 0)
    }

    fn identity(&self, path: &Path) -> Option<String> {
        let info = info(path).ok()?;
        let uuid: String = info.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        // The transaction counts a change only when it is written back; that writing became possible shows at once.
        let writable = if info.read_only { "" } else { ":writable" };
        Some(format!("btrfs:{uuid}:{}{writable}", info.change_transid))
    }
}
