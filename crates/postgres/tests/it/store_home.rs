//! A home directory with a volume store, for one test.

use duramen_postgres::volume::{self, Choice, Store};
use std::process::Command;

/// Gone afterwards with what is mounted in it, also when the test fails half-way.
pub(crate) struct StoreHome(tempfile::TempDir);

impl StoreHome {
    pub(crate) fn new() -> StoreHome {
        StoreHome(tempfile::Builder::new().prefix("dm-").tempdir().unwrap())
    }

    /// As root on most file systems, a btrfs in a file of 1 GiB.
    pub(crate) fn open(&self) -> Store {
        volume::open(self.0.path(), Choice::Auto, 1 << 30).unwrap()
    }
}

impl Drop for StoreHome {
    fn drop(&mut self) {
        // Of a store that was closed there is nothing mounted.
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path().join("volumes")).output();
    }
}
