//! Replacing a file so that a crash leaves the old one or the new one, whole.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes under another name in the same folder, syncs, renames, and syncs the folder, without which the new name
/// may be lost although its content was kept (fsync(2), notes).
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, |file| file.persist(path).map_err(|error| error.error))
}

/// The same, but what has the name already stays as it is: that is an error of the kind `AlreadyExists`.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, |file| file.persist_noclobber(path).map_err(|error| error.error))
}

fn write(
    path: &Path,
    bytes: &[u8],
    persist: impl FnOnce(NamedTempFile) -> io::Result<File>,
) -> io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; evidence and reports are there to be read by others.
    builder.prefix(".duramen-").permissions(Permissions::from_mode(0o644));
    let mut file = builder.tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    persist(file)?;
    File::open(dir)?.sync_all()
}
