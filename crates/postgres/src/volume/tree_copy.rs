//! Clones of whole directory trees, file by file: sharing extents where the file system can, else copying.

use super::{quota::Quota, Kind, VolumeError, Volumes};
use duramen_base::file;
use std::{
    fs, io,
    os::unix::fs::{chown, MetadataExt},
    path::Path,
};

/// Directory trees as volumes.
#[derive(Debug)]
pub(super) struct TreeCopy {
    kind: Kind,
}

impl TreeCopy {
    pub(super) fn reflink() -> TreeCopy {
        TreeCopy { kind: Kind::Reflink }
    }

    pub(super) fn plain() -> TreeCopy {
        TreeCopy { kind: Kind::Copy }
    }

    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.kind {
            Kind::Reflink => {
                // A branch that runs may put something else in the place of what was listed.
                let source = file::open_plain(from)?;
                let target = fs::File::create_new(to)?;
                rustix::fs::ioctl_ficlone(&target, &source)?;
                target.set_permissions(source.metadata()?.permissions())
            }
            Kind::Btrfs | Kind::Copy => {
                let mut source = file::open_plain(from)?;
                let mut target = fs::File::create_new(to)?;
                io::copy(&mut source, &mut target)?;
                target.set_permissions(source.metadata()?.permissions())
            }
        }
    }

    pub(super) fn copy_tree(&self, source: &Path, target: &Path) -> io::Result<()> {
        for entry in walkdir::WalkDir::new(source) {
            let entry = entry.map_err(io::Error::from)?;
            let relative = entry.path().strip_prefix(source).map_err(io::Error::other)?;
            let to = if relative.as_os_str().is_empty() { target.to_owned() } else { target.join(relative) };
            let metadata = entry.metadata().map_err(io::Error::from)?;
            if metadata.is_dir() {
                fs::create_dir(&to)?;
                fs::set_permissions(&to, metadata.permissions())?;
            } else if metadata.is_file() {
                self.copy_file(entry.path(), &to)?;
            } else {
                // Sockets and pipes have no content; symbolic links would lead out of the clone.
                continue;
            }
            if rustix::process::geteuid().is_root() {
                chown(&to, Some(metadata.uid()), Some(metadata.gid()))?;
            }
        }
        Ok(())
    }
}

/// Whether files in `dir` can share extents.
pub(super) fn probe_reflink(dir: &Path) -> io::Result<()> {
    let name = format!(".probe-{}", std::process::id());
    let (one, two) = (dir.join(&name), dir.join(name + "-2"));
    let result = (|| {
        fs::write(&one, [1_u8; 4096])?;
        let target = fs::File::create(&two)?;
        Ok(rustix::fs::ioctl_ficlone(&target, fs::File::open(&one)?)?)
    })();
    let _ = fs::remove_file(&one);
    let _ = fs::remove_file(&two);
    result
}

impl Volumes for TreeCopy {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn create(&self, path: &Path) -> Result<(), VolumeError> {
        fs::create_dir(path).map_err(|error| VolumeError::io("creating", path, error))
    }

    fn clone_volume(&self, source: &Path, target: &Path, _quota: Option<Quota>) -> Result<(), VolumeError> {
        if !source.exists() {
            return Err(VolumeError::Missing { path: source.display().to_string() });
        }
        self.copy_tree(source, target).map_err(|error| {
            let _ = fs::remove_dir_all(target);
            VolumeError::io("copying to", target, error)
        })
    }

    fn snapshot(&self, source: &Path, target: &Path) -> Result<(), VolumeError> {
        self.clone_volume(source, target, None)
    }

    fn freeze(&self, _path: &Path) -> Result<(), VolumeError> {
        // File permissions would be cloned along and stop the branch from starting. The tree is owned by the
        // server user and its path is known to nobody else; `verify` finds any change by its digest.
        Ok(())
    }

    fn delete(&self, path: &Path) -> Result<(), VolumeError> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|error| VolumeError::io("deleting", path, error)),
        }
    }

    fn identity(&self, _path: &Path) -> Option<String> {
        None
    }
}
