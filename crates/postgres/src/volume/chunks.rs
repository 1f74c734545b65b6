//! Chunks: btrfs sets its space aside in large pieces, each for file data or for metadata, and gives a piece back by itself
//! only when nothing is left in it. Data that filled the store once, and is mostly gone again, so leaves no space for
//! metadata: the file system then counts as full, however much of it is free. Chunks of data that hold little are emptied
//! into others here, one at a time, as soon as metadata could not grow by what the store keeps in reserve.
//!
//! Only chunks that hold nothing of a volume with a limit. With simple quotas the kernel (6.18 at least) has an extent that
//! it moves count for the owner of the next one: a clone would be charged with what others wrote.
//!
//! Source: `linux/btrfs.h`, and `fs/btrfs/sysfs.c` for what the kernel tells.

use super::{
    btrfs::{file_system_id, open_dir, MAGIC},
    tree_search::{data_chunks, owners, DataChunk},
};
use duramen_base::clock;
use rustix::{
    io::Errno,
    ioctl::{opcode, IntegerSetter, Updater},
};
use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex, PoisonError, TryLockError,
    },
    time::{Duration, Instant},
};

/// How full a chunk may be, in percent, to be emptied.
const USED_MAX: u64 = 80;
/// After a try in vain, another one is worth it when there is this part of the store less data than then, or after so long.
const LESS_DATA_PART: u64 = 64;
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// `struct btrfs_balance_args`.
#[repr(C)]
#[derive(Default)]
struct Filter {
    profiles: u64,
    usage: u64,
    device: u64,
    physical: [u64; 2],
    logical: [u64; 2],
    target: u64,
    flags: u64,
    limit: u64,
    stripes: u64,
    unused: [u64; 6],
}

/// `struct btrfs_ioctl_balance_args`.
#[repr(C)]
struct BalanceArgs {
    flags: u64,
    state: u64,
    data: Filter,
    metadata: Filter,
    system: Filter,
    /// Chunks that were expected to be emptied, were looked at, and were emptied.
    progress: [u64; 3],
    unused: [u64; 72],
}

/// `BTRFS_BALANCE_DATA`.
const DATA: u64 = 1;
/// `BTRFS_BALANCE_ARGS_VRANGE`.
const BY_ADDRESS: u64 = 1 << 4;
/// `BTRFS_BALANCE_CTL_CANCEL`.
const CANCEL: usize = 2;

type BalanceOp<'a> = Updater<'a, { opcode::read_write::<BalanceArgs>(MAGIC, 32) }, BalanceArgs>;
type BalanceControlOp = IntegerSetter<{ opcode::write::<i32>(MAGIC, 33) }>;

/// How the space of a file system is divided, in bytes.
#[derive(Debug, Clone, Copy)]
struct Division {
    total: u64,
    /// Belongs to chunks of any kind.
    allocated: u64,
    data: Part,
    metadata: Part,
    /// What the file system keeps of its metadata for itself.
    kept: u64,
}

/// The chunks of one kind.
#[derive(Debug, Clone, Copy)]
struct Part {
    allocated: u64,
    used: u64,
}

impl Division {
    fn read(root: &Path, kernel: &Path) -> io::Result<Division> {
        let read = |name: &str| -> io::Result<u64> {
            let text = fs::read_to_string(kernel.join(name))?;
            text.trim().parse().map_err(io::Error::other)
        };
        let part = |kind: &str| -> io::Result<Part> {
            let allocated = read(&format!("{kind}/disk_total"))?;
            Ok(Part { allocated, used: read(&format!("{kind}/disk_used"))? })
        };
        let (data, metadata, system) = (part("data")?, part("metadata")?, part("system")?);
        let kept = read("global_rsv_size")?;
        let stat = rustix::fs::statvfs(root)?;
        Ok(Division {
            // What is kept is not in what the file system says of its size.
            total: stat.f_blocks * stat.f_frsize + kept,
            allocated: data.allocated + metadata.allocated + system.allocated,
            data,
            metadata,
            kept,
        })
    }

    /// Bytes by which metadata may grow.
    fn metadata_room(&self) -> u64 {
        let unallocated = self.total.saturating_sub(self.allocated);
        (unallocated + self.metadata.allocated).saturating_sub(self.metadata.used + self.kept)
    }

    /// Bytes that are set aside for data and hold none.
    fn idle(&self) -> u64 {
        self.data.allocated.saturating_sub(self.data.used)
    }
}

/// A try that emptied no chunk.
#[derive(Debug, Clone, Copy)]
struct InVain {
    at: Instant,
    /// How much data there was.
    data: u64,
}

/// The chunks of a file system that is ours alone.
#[derive(Debug)]
pub(super) struct Chunks {
    root: PathBuf,
    /// Where the kernel tells of the file system.
    kernel: PathBuf,
    /// The last try, if it was in vain. Locked while chunks are emptied.
    in_vain: Mutex<Option<InVain>>,
    stopped: AtomicBool,
}

impl Chunks {
    pub(super) fn open(root: &Path) -> io::Result<Chunks> {
        let kernel = PathBuf::from(format!("/sys/fs/btrfs/{}", file_system_id(&open_dir(root)?)?));
        let chunks = Chunks {
            root: root.to_owned(),
            kernel,
            in_vain: Mutex::new(None),
            stopped: AtomicBool::new(false),
        };
        chunks.division()?;
        Ok(chunks)
    }

    fn division(&self) -> io::Result<Division> {
        Division::read(&self.root, &self.kernel.join("allocation"))
    }

    /// Whether metadata could grow by less than `wanted` bytes, and emptying chunks may change that. Where less than that is
    /// free in all, the store is full indeed.
    pub(super) fn are_to_be_emptied(&self, wanted: u64) -> bool {
        let in_vain = match self.in_vain.try_lock() {
            Ok(in_vain) => *in_vain,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        self.division().is_ok_and(|now| is_worth_it(&now, wanted, in_vain))
    }

    /// Empties one chunk of data. Returns whether there was one, and it was needed. Waits for a call that runs.
    pub(super) fn empty_one(&self, wanted: u64) -> io::Result<bool> {
        let mut in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.division()?;
        if !is_worth_it(&before, wanted, *in_vain) {
            return Ok(false);
        }
        *in_vain = Some(InVain { at: clock::now(), data: before.data.used });
        let dir = open_dir(&self.root)?;
        // The trees tell of what is committed.
        rustix::fs::syncfs(&dir)?;
        let Some(chunk) = self.emptiest(&dir)? else { return Ok(false) };
        if self.stopped.load(Ordering::Acquire) || !balance(&dir, &chunk)? {
            return Ok(false);
        }
        *in_vain = None;
        Ok(true)
    }

    /// The chunk that holds least of those that may be emptied.
    fn emptiest(&self, dir: &OwnedFd) -> io::Result<Option<DataChunk>> {
        let may_be = |chunk: &DataChunk| chunk.used <= chunk.len / 100 * USED_MAX;
        for chunk in data_chunks(dir)?.into_iter().filter(may_be) {
            if !owners(dir, &chunk)?.into_iter().any(|owner| self.is_limited(owner)) {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// Whether a subvolume has a limit; one that is gone has none.
    fn is_limited(&self, subvolume: u64) -> bool {
        let limit = self.kernel.join(format!("qgroups/0_{subvolume}/max_referenced"));
        fs::read_to_string(limit).is_ok_and(|limit| limit.trim() != "0")
    }

    /// Has a chunk that is being emptied left as it is, and no other one begun.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Most often nothing runs, which is an error.
        let _ = open_dir(&self.root).and_then(|dir| cancel(&dir));
    }
}

fn is_worth_it(now: &Division, wanted: u64, in_vain: Option<InVain>) -> bool {
    let is_short = now.metadata_room() < wanted && now.idle() > wanted;
    let may_have_changed = |last: InVain| {
        now.data.used + now.total / LESS_DATA_PART <= last.data || last.at.elapsed() > TRY_AGAIN
    };
    is_short && in_vain.is_none_or(may_have_changed)
}

/// Moves what is in a chunk into others. Whether it did: a chunk may be gone by itself. A balance that somebody else runs, or
/// has paused, is left alone.
#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn balance(dir: &OwnedFd, chunk: &DataChunk) -> io::Result<bool> {
    let data = Filter { logical: [chunk.at, chunk.at + 1], flags: BY_ADDRESS, ..Filter::default() };
    let mut args = BalanceArgs {
        flags: DATA,
        state: 0,
        data,
        metadata: Filter::default(),
        system: Filter::default(),
        progress: [0; 3],
        unused: [0; 72],
    };
    // SAFETY: BTRFS_IOC_BALANCE_V2 reads and writes one `btrfs_ioctl_balance_args`, which `BalanceArgs` mirrors (1024 bytes).
    match unsafe { rustix::ioctl::ioctl(dir, BalanceOp::new(&mut args)) } {
        Ok(()) => Ok(args.progress[2] > 0),
        // Stopped by us.
        Err(Errno::CANCELED) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/btrfs.h")]
fn cancel(dir: &OwnedFd) -> io::Result<()> {
    // SAFETY: BTRFS_IOC_BALANCE_CTL takes a number, and no pointer.
    unsafe { rustix::ioctl::ioctl(dir, BalanceControlOp::new_usize(CANCEL))? };
    Ok(())
}
