//! A disk that is soon full.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// A file system in memory, for one test. Made before the home that lies in it, so that the home goes first.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn new(megabytes: u32) -> SmallDisk {
        let dir = tempfile::Builder::new().prefix("dm-disk-").tempdir().expect("a scratch directory");
        let options = format!("size={megabytes}m,mode=0755");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(dir.path()).output();
        assert!(mounted.expect("mount").status.success());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        SmallDisk(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes every block that is left.
    pub(crate) fn fill(&self) {
        use rustix::{fs::FallocateFlags, io::Errno};
        let file = fs::File::create(self.filling()).expect("a file");
        let mut at = 0;
        for step in [64 << 20, 1 << 20, 4 << 10] {
            loop {
                match rustix::fs::fallocate(&file, FallocateFlags::empty(), at, step) {
                    Ok(()) => at += step,
                    Err(Errno::NOSPC) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// Gives back what [`SmallDisk::fill`] took.
    pub(crate) fn free(&self) {
        fs::remove_file(self.filling()).expect("the file");
    }

    fn filling(&self) -> std::path::PathBuf {
        self.path().join("filling")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).output();
    }
}
