//! Quotas of disk: how much may be written to a volume, by the simple quotas of btrfs (kernel 6.7 or newer).
//!
//! With simple quotas an extent counts for the subvolume that wrote it, for as long as it exists. So a clone counts
//! what was written to it, and nothing that it shares with its snapshot. Clones belong to an account besides, whose
//! limit leaves a reserve of the file system free for what must go on when it is full: resets and deletions.
//! The older qgroups count anew what is shared whenever a clone is deleted, which takes half a second each; they are
//! not used. Source: `linux/btrfs.h`.

use super::btrfs::{file_system_id, open_dir, subvolume_id, MAGIC};
use rustix::{
    io::Errno,
    ioctl::{opcode, Setter, Updater},
};
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// What a store keeps free for resets and deletions: this part of it, between the bounds.
const RESERVE_PART: u64 = 16;
const RESERVE_MIN: u64 = 64 << 20;
const RESERVE_MAX: u64 = 1 << 30;
/// The limit of all branches is moved when it is off by more than this.
const CAP_STEP: u64 = 1 << 20;
/// The group of [`Account::Common`], as the kernel writes it.
const ALL: &str = "1_1";
/// The first id of an ordinary subvolume.
const FIRST_SUBVOLUME: u64 = 256;

/// Where the bytes of a volume count besides its own quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// With those of all branches.
    Common,
    /// In the reserve, as long as the volume is made for a branch that had another one.
    Reserve,
}

impl Account {
    /// The id of its group: a level, and a number within it.
    const fn id(self) -> u64 {
        (1 << 48)
            | match self {
                Account::Common => 1,
                Account::Reserve => 2,
            }
    }
}

/// What may be written to a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes, metadata of the file system included.
    pub bytes: u64,
    /// Where they count besides.
    pub account: Account,
}

/// `struct btrfs_ioctl_quota_ctl_args`.
#[repr(C)]
struct ControlArgs {
    command: u64,
    status: u64,
}

/// `struct btrfs_ioctl_qgroup_create_args`.
#[repr(C)]
struct CreateArgs {
    create: u64,
    id: u64,
}

/// `struct btrfs_ioctl_qgroup_assign_args`.
#[repr(C)]
struct AssignArgs {
    assign: u64,
    member: u64,
    group: u64,
}

/// `struct btrfs_qgroup_limit`.
#[repr(C)]
#[derive(Default)]
struct Limit {
    flags: u64,
    referenced: u64,
    exclusive: u64,
    reserved_referenced: u64,
    reserved_exclusive: u64,
}

/// `struct btrfs_ioctl_qgroup_limit_args`.
#[repr(C)]
struct LimitArgs {
    id: u64,
    limit: Limit,
}

/// `struct btrfs_qgroup_inherit` with one group behind it.
#[repr(C)]
pub(super) struct Inherit {
    flags: u64,
    groups: u64,
    copies: u64,
    exclusive_copies: u64,
    limit: Limit,
    group: u64,
}

/// `BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA`.
const ENABLE_SIMPLE: u64 = 4;
/// `BTRFS_QGROUP_LIMIT_MAX_RFER`.
const MAX_REFERENCED: u64 = 1;
/// `BTRFS_QGROUP_INHERIT_SET_LIMITS`.
const SET_LIMITS: u64 = 1;

type ControlOp<'a> = Updater<'a, { opcode::read_write::<ControlArgs>(MAGIC, 40) }, ControlArgs>;
type AssignOp = Setter<{ opcode::write::<AssignArgs>(MAGIC, 41) }, AssignArgs>;
type CreateOp = Setter<{ opcode::write::<CreateArgs>(MAGIC, 42) }, CreateArgs>;
type LimitOp = Setter<{ opcode::read::<LimitArgs>(MAGIC, 43) }, LimitArgs>;

impl Inherit {
    /// What a snapshot is made with, so that it is limited from its first moment on. `in_account`: whether the file system has
    /// accounts.
    pub(super) fn of(quota: Quota, in_account: bool) -> Inherit {
        Inherit {
            flags: SET_LIMITS,
            groups: u64::from(in_account),
            copies: 0,
            exclusive_copies: 0,
            limit: Limit { flags: MAX_REFERENCED, referenced: quota.bytes, ..Limit::default() },
            group: quota.account.id(),
        }
    }

    /// How many bytes of it the kernel shall read.
    pub(super) fn len(&self) -> u64 {
        let all = size_of::<Inherit>();
        (if self.groups == 0 { all - size_of::<u64>() } else { all }) as u64
    }
}

/// What a group has used of its limit.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// Has blocks.
    allocated: u64,
    /// Was written and has none yet; it counts against the limit too.
    pending: u64,
}

impl Counted {
    fn sum(self) -> u64 {
        self.allocated + self.pending
    }
}

/// The quotas of one file system.
#[derive(Debug)]
pub struct Quotas {
    root: PathBuf,
    /// Where the kernel tells what is used.
    kernel: PathBuf,
    /// Whether the file system is ours alone, so that what is free of it is ours to divide.
    own: bool,
    /// The limit of all branches together, as last set.
    cap: AtomicU64,
}

impl Quotas {
    /// The quotas of the file system that holds `root`; they are turned on if it is our own. The error is a sentence for
    /// people.
    pub(super) fn open(root: &Path, own: bool) -> Result<Quotas, String> {
        let dir = open_dir(root).map_err(|error| error.to_string())?;
        let id = file_system_id(&dir).map_err(|error| error.to_string())?;
        let kernel = PathBuf::from(format!("/sys/fs/btrfs/{id}/qgroups"));
        let mode = || fs::read_to_string(kernel.join("mode")).unwrap_or_default();
        if mode().trim() != "squota" {
            if !own {
                return Err(format!(
                    "simple quotas are not on in the file system of {0}; turn them on if nobody else needs other ones: btrfs quota enable --simple {0}",
                    root.display()
                ));
            }
            enable(&dir)
                .map_err(|error| format!("simple quotas of btrfs need Linux 6.7 or newer ({error})"))?;
            if mode().trim() != "squota" {
                return Err("the kernel does not tell what quotas are used".to_owned());
            }
        }
        let quotas = Quotas { root: root.to_owned(), kernel, own, cap: AtomicU64::new(0) };
        if own {
            for account in [Account::Common, Account::Reserve] {
                group(&dir, true, account.id())
                    .or_else(|error| if is(&error, Errno::EXIST) { Ok(()) } else { Err(error) })
                    .map_err(|error| format!("an account of branches cannot be made ({error})"))?;
            }
            set_limit(&dir, Account::Reserve.id(), Some(quotas.reserve() / 2))
                .map_err(|error| format!("no reserve can be kept ({error})"))?;
            quotas.keep_reserve();
        }
        Ok(quotas)
    }

    /// Whether branches belong to accounts, which leave a reserve free.
    pub(super) fn has_accounts(&self) -> bool {
        self.own
    }

    /// Limits a volume anew; `None` lifts its limit.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn limit(&self, volume: &Path, bytes: Option<u64>) -> io::Result<()> {
        // By way of the root: in a volume that is full the change itself would be refused.
        set_limit(&open_dir(&self.root)?, subvolume_id(&open_dir(volume)?)?, bytes)
    }

    /// Bytes that were written to a volume and are still there.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn used(&self, volume: &Path) -> io::Result<u64> {
        Ok(self.counted(&format!("0_{}", subvolume_id(&open_dir(volume)?)?))?.sum())
    }

    /// Has what a volume holds count in an account, and in no other.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn count_in(&self, volume: &Path, account: Account) -> io::Result<()> {
        if !self.own {
            return Ok(());
        }
        let (dir, member) = (open_dir(&self.root)?, subvolume_id(&open_dir(volume)?)?);
        let other = if account == Account::Common { Account::Reserve } else { Account::Common };
        for (assign, account, harmless) in [(1, account, Errno::EXIST), (0, other, Errno::NOENT)] {
            let args = AssignArgs { assign, member, group: account.id() };
            match assign_group(&dir, args) {
                // It is so already.
                Err(error) if is(&error, harmless) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Moves the limit of all branches together such that the reserve stays free, whatever else has become larger or
    /// smaller in the store. Cheap when nothing has.
    pub fn keep_reserve(&self) {
        let (true, Ok(used), Ok(free)) = (self.own, self.counted(ALL), super::free_bytes(&self.root)) else {
            return;
        };
        // What is pending has not been taken off what is free yet.
        let cap = (used.allocated + free).saturating_sub(self.reserve());
        if cap.abs_diff(self.cap.load(Ordering::Relaxed)) < CAP_STEP {
            return;
        }
        let set = open_dir(&self.root).and_then(|dir| set_limit(&dir, Account::Common.id(), Some(cap)));
        match set {
            Ok(()) => self.cap.store(cap, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "the reserve of the volume store cannot be kept"),
        }
    }

    /// Bytes that all branches together may still write, if they have an account.
    #[must_use]
    pub fn room(&self) -> Option<u64> {
        let used = self.own.then(|| self.counted(ALL).ok()).flatten()?;
        Some(self.cap.load(Ordering::Relaxed).saturating_sub(used.sum()))
    }

    /// Bytes that are kept free for resets and deletions.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        reserve(&self.root)
    }

    /// Removes the groups of volumes that are gone, where the kernel (before 6.10) does not do so itself. `volumes` are all
    /// that are there, asked for after the groups were listed.
    pub(super) fn sweep(&self, volumes: impl FnOnce() -> Vec<PathBuf>) {
        if !self.own {
            return;
        }
        let listed: Vec<u64> = fs::read_dir(&self.kernel)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("0_")?.parse().ok())
            .filter(|id| *id >= FIRST_SUBVOLUME)
            .collect();
        let there: HashSet<u64> =
            volumes().iter().filter_map(|path| subvolume_id(&open_dir(path).ok()?).ok()).collect();
        let Ok(dir) = open_dir(&self.root) else { return };
        for id in listed.into_iter().filter(|id| !there.contains(id)) {
            if self.counted(&format!("0_{id}")).is_ok_and(|used| used.sum() == 0) {
                // The kernel was faster, or still deletes the volume.
                let _ = group(&dir, false, id);
            }
        }
    }

    fn counted(&self, group: &str) -> io::Result<Counted> {
        let read = |name: &str| -> io::Result<u64> {
            let text = fs::read_to_string(self.kernel.join(group).join(name))?;
            text.trim().parse().map_err(io::Error::other)
        };
        Ok(Counted { allocated: read("referenced")?, pending: read("rsv_data")? })
    }
}

/// Bytes that the store that holds `root` keeps free.
pub(super) fn reserve(root: &Path) -> u64 {
    let total = rustix::fs::statvfs(root).map_or(0, |it| it.f_blocks * it.f_frsize);
    (total / RESERVE_PART).clamp(RESERVE_MIN, RESERVE_MAX)
}

fn is(error: &io::Error, number: Errno) -> bool {
    Errno::from_io_error(error) == Some(number)
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn enable(dir: &impl std::os::fd::AsFd) -> io::Result<()> {
    let mut args = ControlArgs { command: ENABLE_SIMPLE, status: 0 };
    // SAFETY: BTRFS_IOC_QUOTA_CTL reads and writes one `btrfs_ioctl_quota_ctl_args`, which `ControlArgs` mirrors.
    unsafe { rustix::ioctl::ioctl(dir, ControlOp::new(&mut args))? };
    Ok(())
}

/// Makes or removes a group.
#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn group(dir: &impl std::os::fd::AsFd, create: bool, id: u64) -> io::Result<()> {
    let args = CreateArgs { create: u64::from(create), id };
    // SAFETY: BTRFS_IOC_QGROUP_CREATE reads one `btrfs_ioctl_qgroup_create_args`, which `CreateArgs` mirrors.
    unsafe { rustix::ioctl::ioctl(dir, CreateOp::new(args))? };
    Ok(())
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn assign_group(dir: &impl std::os::fd::AsFd, args: AssignArgs) -> io::Result<()> {
    // SAFETY: BTRFS_IOC_QGROUP_ASSIGN reads one `btrfs_ioctl_qgroup_assign_args`, which `AssignArgs` mirrors.
    unsafe { rustix::ioctl::ioctl(dir, AssignOp::new(args))? };
    Ok(())
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn set_limit(dir: &impl std::os::fd::AsFd, id: u64, bytes: Option<u64>) -> io::Result<()> {
    // All bits set clear a limit.
    let referenced = bytes.unwrap_or(u64::MAX);
    let args = LimitArgs { id, limit: Limit { flags: MAX_REFERENCED, referenced, ..Limit::default() } };
    // SAFETY: BTRFS_IOC_QGROUP_LIMIT reads one `btrfs_ioctl_qgroup_limit_args`, which `LimitArgs` mirrors (48 bytes).
    unsafe { rustix::ioctl::ioctl(dir, LimitOp::new(args))? };
    Ok(())
}
