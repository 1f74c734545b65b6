//! Places for data directories that can be cloned: btrfs subvolumes, reflink copies, plain copies.
//!
//! Which of them a directory's file system offers is found by trying ([`open`]). Where it offers neither
//! snapshots nor reflinks and this process may mount, a btrfs file system is made in a file and mounted over a
//! loop device. Branch storage is disposable, so that file system runs without write barriers: after a crash of
//! the *machine* it is thrown away, after a crash of a process nothing is lost.

mod btrfs;
mod chunks;
mod extents;
mod loopback;
mod quota;
mod tree_copy;
mod tree_search;
mod write_back;

pub use extents::{extents, shares_extents, Extent, Place, EXTENTS_MAX};
pub use quota::{Account, Quota, Quotas};
pub use write_back::write_back;

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// How volumes are cloned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// btrfs subvolume snapshots: constant time.
    Btrfs,
    /// File by file, sharing extents (XFS, btrfs): time grows with the number of files.
    Reflink,
    /// File by file, copying every byte: degraded.
    Copy,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Btrfs => "btrfs snapshots",
            Kind::Reflink => "reflink copies",
            Kind::Copy => "degraded: plain copies",
        })
    }
}

/// What the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// The best that works here.
    #[default]
    Auto,
    /// btrfs, on the directory's own file system or in a loop-backed file; fail rather than degrade.
    Btrfs,
    /// Reflink copies; fail rather than degrade.
    Reflink,
    /// Plain copies.
    Copy,
}

/// Why a volume operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The file system is full.
    #[error("no space left while {doing} {path}; destroy branches, remove unused sources, or begin anew with a larger volume store (`duramen purge`, `duramen serve --volume-size`)")]
    DiskFull {
        /// "cloning", "copying", ...
        doing: &'static str,
        /// The volume.
        path: String,
    },
    /// What should be cloned is not there.
    #[error("the snapshot {path} is missing; run `duramen source refresh` to make a new one")]
    Missing {
        /// The snapshot.
        path: String,
    },
    /// Any other failure of the operating system.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or directory.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The wanted kind does not work here.
    #[error("{wanted} do not work in {path}: {reason}")]
    Unsupported {
        /// The kind.
        wanted: Kind,
        /// The directory.
        path: String,
        /// Why, and what would fix it.
        reason: String,
    },
}

impl VolumeError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> VolumeError {
        let text = path.display().to_string();
        match source.raw_os_error() {
            Some(28 | 122) => VolumeError::DiskFull { doing, path: text },
            _ => VolumeError::Io { doing, path: text, source },
        }
    }
}

/// Operations on volumes. A volume is a directory; snapshots are volumes that were [frozen](Volumes::freeze).
pub trait Volumes: Send + Sync + std::fmt::Debug {
    /// Which mechanism this is.
    fn kind(&self) -> Kind;

    /// Makes a new, empty volume.
    ///
    /// # Errors
    /// [`VolumeError`]; nothing is left behind.
    fn create(&self, path: &Path) -> Result<(), VolumeError>;

    /// Makes `target` a writable clone of the frozen volume `snapshot`. Where there are [`Quotas`], no more than `quota` can
    /// be written to it.
    ///
    /// # Errors
    /// [`VolumeError`]; nothing is left behind.
    fn clone_volume(&self, snapshot: &Path, target: &Path, quota: Option<Quota>) -> Result<(), VolumeError>;

    /// Makes `target` a clone of a volume, whether that is frozen or not, that is frozen itself. What is written to `source`
    /// meanwhile is in it or not, file by file.
    ///
    /// # Errors
    /// [`VolumeError`]; nothing is left behind.
    fn snapshot(&self, source: &Path, target: &Path) -> Result<(), VolumeError>;

    /// Makes a volume read-only.
    ///
    /// # Errors
    /// [`VolumeError::Io`].
    fn freeze(&self, path: &Path) -> Result<(), VolumeError>;

    /// Deletes a volume. Freeing its blocks may go on in the background.
    ///
    /// # Errors
    /// [`VolumeError::Io`]. A volume that is not there is no error.
    fn delete(&self, path: &Path) -> Result<(), VolumeError>;

    /// Has the space of deleted volumes below `root` freed now rather than at a moment of the file system's choice.
    fn reclaim(&self, _root: &Path) {}

    /// Whether the space of deleted volumes is still being freed, as far as the file system tells.
    fn reclaiming(&self, _root: &Path) -> bool {
        false
    }

    /// An identity of a frozen volume that changes when anything in it is written, where the file system keeps one.
    fn identity(&self, path: &Path) -> Option<String>;
}

/// An opened volume store.
#[derive(Debug)]
pub struct Store {
    /// The directory that holds volumes.
    pub root: PathBuf,
    /// How they are cloned.
    pub volumes: Box<dyn Volumes>,
    /// One sentence for people: what was chosen and why.
    pub reason: String,
    /// Set when the store is a mounted file that [`Store::close`] unmounts.
    loopback: Option<loopback::Loopback>,
    /// Where lost writes are looked for, on btrfs.
    watch: Mutex<Option<Watch>>,
    /// The quotas of clones, or why there are none.
    quotas: Result<Quotas, String>,
    /// How its space is divided, of a btrfs of its own.
    chunks: Option<chunks::Chunks>,
}

/// What tells of writes that were taken and then lost.
#[derive(Debug)]
struct Watch {
    /// Open since before anything was written: errors of writing back since then are reported here once.
    root: Arc<OwnedFd>,
    /// Whose failed writes are counted.
    devices: Vec<u64>,
    /// Failed writes of the devices that are not to be reported any more.
    acknowledged: u64,
}

impl Store {
    /// Unmounts the store's own file system, if it has one.
    ///
    /// # Errors
    /// When something still uses it.
    pub fn close(&self) -> Result<(), VolumeError> {
        // An open directory would keep it mounted.
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(watch);
        self.loopback.as_ref().map_or(Ok(()), loopback::Loopback::unmount)
    }

    fn watching(mut self) -> Store {
        if self.volumes.kind() == Kind::Btrfs {
            let watch = btrfs::open_dir(&self.root).and_then(|root| {
                // A file system of ours counts from zero, because what was acknowledged is taken off its count. Others have a
                // past that is none of ours.
                let devices = btrfs::devices(&root)?;
                let acknowledged =
                    if self.loopback.is_some() { 0 } else { btrfs::failed_writes(&root, &devices, false)? };
                Ok(Watch { root: Arc::new(root), devices, acknowledged })
            });
            match watch {
                Ok(watch) => self.watch = Mutex::new(Some(watch)),
                Err(error) => tracing::warn!(%error, "failed writes of the volume store cannot be counted"),
            }
        }
        self
    }

    /// Whether writes to the store failed after they had been taken, and that has not been [acknowledged](Store::acknowledge_losses) yet; with
    /// fsync off no server ever hears of it. Costs two system calls, and sees what the devices counted and whether the
    /// file system gave up writing. What neither shows (a full disk below the store) [`Store::flush`] finds.
    #[must_use]
    pub fn lost_writes(&self) -> Option<String> {
        if self.loopback.as_ref().is_some_and(loopback::Loopback::is_set_back) {
            return Some(
                "the volume store could be mounted only as it was some time before it was last written"
                    .to_owned(),
            );
        }
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = watch.as_ref()?;
        let failed = btrfs::failed_writes(&watch.root, &watch.devices, false)
            .unwrap_or(0)
            .saturating_sub(watch.acknowledged);
        if failed > 0 {
            return Some(format!("{failed} writes to the volume store failed"));
        }
        let flags = rustix::fs::fstatvfs(&watch.root).ok()?.f_flag;
        flags
            .contains(rustix::fs::StatVfsMountFlags::RDONLY)
            .then(|| "the volume store turned read-only after an error".to_owned())
    }

    /// Flushes the store, if it is a file system of its own, and tells whether what was written before was lost.
    ///
    /// # Errors
    /// The first error of writing back since the last call.
    pub fn flush(&self) -> io::Result<()> {
        if self.loopback.is_none() {
            return Ok(());
        }
        let root = match &*self.watch.lock().unwrap_or_else(PoisonError::into_inner) {
            // No other descriptor: that there is none to be had must not look like lost writes.
            Some(watch) => Arc::clone(&watch.root),
            None => return Ok(()),
        };
        Ok(rustix::fs::syncfs(root)?)
    }

    /// Forgets the writes that were lost until now: whoever they concern has been told, and that has been written down.
    pub fn acknowledge_losses(&self) {
        if let Some(loopback) = &self.loopback {
            loopback.acknowledge();
        }
        if let Some(watch) = &mut *self.watch.lock().unwrap_or_else(PoisonError::into_inner) {
            let counted = btrfs::failed_writes(&watch.root, &watch.devices, self.loopback.is_some())
                .unwrap_or(watch.acknowledged);
            watch.acknowledged = if self.loopback.is_some() { 0 } else { counted };
        }
    }

    /// Bytes that the store promises but the disk below it has not set aside, of a store that lies in a file.
    #[must_use]
    pub fn unallocated_bytes(&self) -> u64 {
        self.loopback.as_ref().map_or(0, loopback::Loopback::unallocated)
    }

    /// The quotas of clones.
    ///
    /// # Errors
    /// Why there are none, in a sentence for people.
    pub fn quotas(&self) -> Result<&Quotas, &str> {
        self.quotas.as_ref().map_err(String::as_str)
    }

    /// Removes what quotas keep of volumes that are gone. `directories` are those that hold volumes.
    pub fn sweep_quotas(&self, directories: &[PathBuf]) {
        if let Ok(quotas) = &self.quotas {
            let entries = |dir: &PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
            quotas.sweep(|| directories.iter().flat_map(entries).map(|entry| entry.path()).collect());
        }
    }

    /// Whether so much of a btrfs of its own is set aside for data that there may soon be no space for anything else, although
    /// much of that is free. [`Store::balance`] frees them.
    #[must_use]
    pub fn is_unbalanced(&self) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| chunks.are_to_be_emptied(quota::reserve(&self.root)))
    }

    /// Moves the data of one piece of the store elsewhere, and so frees the piece for any use. Takes from milliseconds to
    /// seconds, while the store can be used as always; [`Store::end_balance`] ends it. Returns whether there was such a
    /// piece, and it was needed.
    ///
    /// # Errors
    /// The operating system's answer. The data is as it was.
    pub fn balance(&self) -> io::Result<bool> {
        self.chunks.as_ref().map_or(Ok(false), |chunks| chunks.empty_one(quota::reserve(&self.root)))
    }

    /// Has a [`Store::balance`] that runs end soon, and no other one begin.
    pub fn end_balance(&self) {
        if let Some(chunks) = &self.chunks {
            chunks.stop();
        }
    }

    /// The size of the file system that holds the volumes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        rustix::fs::statvfs(&self.root).map_or(0, |it| it.f_blocks * it.f_frsize)
    }

    /// Free bytes for new volumes.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.root)
    }
}

/// Free bytes of the file system that holds `dir`, for a user without privileges.
///
/// # Errors
/// The operating system's answer.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Copies a directory tree into a new directory, with permissions and owners; links are left out.
pub(crate) fn copy_directory(source: &Path, target: &Path) -> io::Result<()> {
    tree_copy::TreeCopy::plain().copy_tree(source, target)
}

/// Opens the volume store of a home directory, `home/volumes`: probes the file system and, where that helps and
/// is allowed, mounts the loop-backed file `home/volumes.btrfs` there, making it with `size` bytes first if it
/// does not exist.
///
/// # Errors
/// [`VolumeError::Unsupported`] when a named choice does not work here; [`VolumeError::Io`].
pub fn open(home: &Path, choice: Choice, size: u64) -> Result<Store, VolumeError> {
    let root = home.join("volumes");
    std::fs::create_dir_all(&root).map_err(|error| VolumeError::io("creating", &root, error))?;
    let store = |volumes: Box<dyn Volumes>, reason: String| {
        let quotas = Err(format!("{} have no quotas of disk", volumes.kind()));
        Store {
            root: root.clone(),
            volumes,
            reason,
            loopback: None,
            watch: Mutex::new(None),
            quotas,
            chunks: None,
        }
    };
    let btrfs_store = |reason: String, loopback: Option<loopback::Loopback>| {
        let quotas = Quotas::open(&root, loopback.is_some());
        if let Err(reason) = &quotas {
            tracing::warn!(reason, "branches have no quotas of disk");
        }
        let accounts = quotas.as_ref().is_ok_and(Quotas::has_accounts);
        let volumes = Box::new(btrfs::Btrfs { quotas: quotas.is_ok(), accounts });
        let chunks = loopback.as_ref().and_then(|_| {
            let opened = chunks::Chunks::open(&root);
            opened
                .inspect_err(|error| tracing::warn!(%error, "how the volume store is divided cannot be seen"))
                .ok()
        });
        let watch = Mutex::new(None);
        Store { root: root.clone(), volumes, reason, loopback, watch, quotas, chunks }.watching()
    };
    let loopback = loopback::Loopback::at(home, &root);
    if loopback.is_mounted() {
        loopback.take_over();
        return Ok(btrfs_store(loopback.describe("already mounted"), Some(loopback)));
    }
    if choice == Choice::Copy {
        return Ok(store(Box::new(tree_copy::TreeCopy::plain()), "plain copies were asked for".to_owned()));
    }
    if choice != Choice::Reflink && btrfs::probe(&root).is_ok() {
        let reason = format!("{} lies on btrfs", root.display());
        return Ok(btrfs_store(reason, None));
    }
    if choice != Choice::Btrfs {
        match tree_copy::probe_reflink(&root) {
            Ok(()) => {
                let reason = format!("the file system of {} shares extents between files", root.display());
                return Ok(store(Box::new(tree_copy::TreeCopy::reflink()), reason));
            }
            Err(error) if choice == Choice::Reflink => {
                return Err(VolumeError::Unsupported {
                    wanted: Kind::Reflink,
                    path: root.display().to_string(),
                    reason: format!("{error}; use a home on XFS or btrfs, or --volumes auto"),
                });
            }
            Err(_) => {}
        }
    }
    let existed = loopback.exists();
    match loopback.mount(size) {
        Ok(()) => Ok(btrfs_store(loopback.describe("made and mounted"), Some(loopback))),
        // Falling back to copies, or making the file anew, would lose every snapshot and branch that it holds.
        Err(reason) if existed => {
            let reason = format!(
                "{reason}; the volume store {} is there and is not touched: fix what keeps it from being mounted, or run `duramen purge` to begin anew without its snapshots and branches",
                home.join("volumes.btrfs").display()
            );
            Err(VolumeError::Unsupported { wanted: Kind::Btrfs, path: root.display().to_string(), reason })
        }
        Err(reason) if choice == Choice::Btrfs => {
            Err(VolumeError::Unsupported { wanted: Kind::Btrfs, path: root.display().to_string(), reason })
        }
        Err(reason) => {
            let reason = format!(
                "the file system of {} has neither snapshots nor reflinks, and a loop-backed btrfs is not possible: {reason}",
                root.display()
            );
            Ok(store(Box::new(tree_copy::TreeCopy::plain()), reason))
        }
    }
}
