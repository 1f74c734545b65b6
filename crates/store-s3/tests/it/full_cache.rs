//! A cache on a disk that is full, or becomes full: reads and writes go on without it, and nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};

use crate::places::fresh;
use duramen_store_s3::{open, Cache, RemoteOptions};
use real::{Durability, Options, Scope as _, Store};

/// A disk of a few MiB. It is unmounted with this.
struct Disk(tempfile::TempDir);

impl Disk {
    /// None without root: only root can mount one.
    fn of(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if !rustix::process::geteuid().is_root() {
            println!("only root can make a small disk");
            return None;
        }
        let size = std::ffi::CString::new(format!("size={megabytes}m")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", folder.path(), "tmpfs", flags, size.as_c_str()).unwrap();
        Some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.path()).unwrap();
        disk.f_bavail * disk.f_frsize
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

fn options() -> Options {
    // Little memory for nodes, so that what is read comes from the bucket or the cache.
    Options { durability: Durability::Strict, memory_bytes: 1 << 20, ..Options::default() }
}

fn remote(folder: PathBuf) -> RemoteOptions {
    let cache = Some(Cache { folder, bytes: 1 << 30 });
    RemoteOptions { cache, block_bytes: 1 << 20, ..RemoteOptions::default() }
}

/// What is under a key: 64 KiB that no other key has and that cannot be compressed.
fn value(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..64 << 10).map(|_| random.u8(..)).collect()
}

fn put(store: &Store, keys: std::ops::Range<u64>) {
    let pairs = store.branch("main").unwrap();
    for key in keys {
        pairs.kv().put(format!("k{key}"), value(key)).unwrap();
    }
    store.checkpoint().unwrap();
}

#[track_caller]
fn all_are_there(store: &Store, keys: std::ops::Range<u64>) {
    let branch = store.branch("main").unwrap();
    for key in keys {
        let found = branch.kv().get(format!("k{key}")).unwrap();
        assert_eq!(found, Some(value(key).into()), "k{key}");
    }
}

#[test]
fn a_disk_of_the_cache_that_becomes_full_costs_nothing_but_the_cache() {
    let Some(disk) = Disk::of(4) else { return };
    let url = fresh("full");
    let store = open(&url, options(), remote(disk.path().join("cache"))).unwrap();
    // 16 MiB through a disk of 4, checkpoint by checkpoint.
    for round in 0..8 {
        put(&store, round * 32..(round + 1) * 32);
        all_are_there(&store, 0..(round + 1) * 32);
    }
    assert!(disk.free() < 2 << 20, "it has become full: {}", disk.free());
    store.fork("main", "try").unwrap();
    store.close().unwrap();
    drop(store);
    // Opened again on the full disk, to write and to read, and where it cannot hold a byte more.
    let filler = disk.path().join("filler");
    let mut left = disk.free();
    while left > 0 {
        let _ = fs::write(&filler, vec![1; usize::try_from(left).unwrap()]);
        left = if disk.free() < left { disk.free() } else { 0 };
    }
    let store = open(&url, options(), remote(disk.path().join("cache"))).unwrap();
    put(&store, 256..288);
    all_are_there(&store, 0..288);
    store.close().unwrap();
    drop(store);
    let read = Options { read_only: true, ..options() };
    all_are_there(&open(&url, read, remote(disk.path().join("cache"))).unwrap(), 0..288);
    // And without it, all is there: the cache had nothing of its own.
    all_are_there(&open(&url, options(), RemoteOptions::default()).unwrap(), 0..288);
}

#[test]
fn a_folder_that_cannot_be_written_is_done_without() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let url = fresh("no_cache");
    let store = open(&url, options(), remote(file.join("cache"))).unwrap();
    put(&store, 0..4);
    all_are_there(&store, 0..4);
}
