//! A file that takes the room of a small volume store.

use crate::support::Home;
use rustix::fs::{fallocate, statvfs, syncfs, FallocateFlags};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::PathBuf,
};

/// So little that a store is nearly full, and enough for a reset.
pub(crate) const LITTLE: u64 = 110 << 20;

pub(crate) struct Filler {
    volumes: PathBuf,
    file: File,
}

impl Filler {
    pub(crate) fn begin(home: &Home) -> Filler {
        let volumes = home.path().join("volumes");
        Filler { file: File::create(volumes.join("filler")).expect("a file"), volumes }
    }

    fn length(&self) -> u64 {
        self.file.metadata().expect("its length").len()
    }

    /// Leaves so many bytes at most. To be done again and again: what was removed before is given back by and by.
    pub(crate) fn leave(&self, bytes: u64) {
        let free = statvfs(&self.volumes).expect("it is told");
        let mut more = (free.f_bavail * free.f_frsize).saturating_sub(bytes);
        while more > 1 << 20 {
            match fallocate(&self.file, FallocateFlags::empty(), self.length(), more) {
                Ok(()) => break,
                // What is free is not all there at once.
                Err(rustix::io::Errno::NOSPC) => more /= 2,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Takes the last block that it is given. To be done again and again too.
    pub(crate) fn leave_nothing(&self) {
        self.leave(0);
        let block = vec![7_u8; 64 << 10];
        while self.file.write_all_at(&block, self.length()).and_then(|()| self.file.sync_data()).is_ok() {}
    }

    /// Gives the room back.
    pub(crate) fn remove(self) {
        let Filler { volumes, file } = self;
        drop(file);
        fs::remove_file(volumes.join("filler")).expect("it is gone");
        // The room is there when that is written, which a busy machine puts off.
        syncfs(File::open(volumes).expect("the store")).expect("it is written");
    }
}
