//! Replacing a file so that a crash leaves the old one or the new one, whole.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes under another name in the same folder, syncs, renames, and syncs the folder, without which the new name
/// may be lost although its content was kept (fsync(2), notes).
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
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
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}
