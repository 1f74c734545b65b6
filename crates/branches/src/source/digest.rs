//! Digests of directory trees.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The files below `root` (or `root` itself), by relative name, in order.
pub(crate) fn files(root: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(root) {
        let entry = entry.map_err(io::Error::from)?;
        if entry.file_type().is_file() {
            let name = entry.path().strip_prefix(root).unwrap_or(entry.path());
            found.push((name.to_string_lossy().into_owned(), entry.path().to_owned()));
        }
    }
    found.sort();
    Ok(found)
}

/// Length and BLAKE3 hash of one file.
pub(crate) fn file(path: &Path) -> io::Result<(u64, blake3::Hash)> {
    let mut hasher = blake3::Hasher::new();
    let length = io::copy(&mut fs::File::open(path)?, &mut hasher)?;
    Ok((length, hasher.finalize()))
}

/// Total bytes and one digest over the names, lengths and contents of all files of a tree.
pub(crate) fn tree(root: &Path) -> io::Result<(u64, String)> {
    let mut hasher = blake3::Hasher::new();
    let mut total = 0;
    for (name, path) in files(root)? {
        let (length, hash) = file(&path)?;
        total += length;
        hasher.update(name.as_bytes());
        hasher.update(&[0]);
        hasher.update(&length.to_le_bytes());
        hasher.update(hash.as_bytes());
    }
    Ok((total, hasher.finalize().to_hex().to_string()))
}
