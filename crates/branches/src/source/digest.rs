//! Digests of directory trees.

use crate::parallel::parallel;
use std::{
    fs,
    io::{self, Read as _},
    num::NonZero,
    path::{Path, PathBuf},
    thread,
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

/// How much of a file is read at a time: BLAKE3 hashes several blocks of a kilobyte at once.
const READ: usize = 256 << 10;

/// Length and BLAKE3 hash of one file.
pub(crate) fn file(path: &Path) -> io::Result<(u64, blake3::Hash)> {
    let (mut hasher, mut buffer, mut length) = (blake3::Hasher::new(), vec![0; READ], 0);
    let mut file = fs::File::open(path)?;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((length, hasher.finalize())),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Total bytes of all files of a tree.
pub(crate) fn size(root: &Path) -> io::Result<u64> {
    files(root)?.iter().map(|(_, path)| Ok(path.symlink_metadata()?.len())).sum()
}

/// Total bytes and one digest over the names, lengths and contents of all files of a tree.
pub(crate) fn tree(root: &Path) -> io::Result<(u64, String)> {
    let mut hasher = blake3::Hasher::new();
    let mut total = 0;
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let found = files(root)?.into_iter().enumerate().collect();
    let mut hashed = parallel(threads, found, |(at, (name, path))| (at, name, file(&path)));
    hashed.sort_unstable_by_key(|(at, ..)| *at);
    for (_, name, hash) in hashed {
        let (length, hash) = hash?;
        total += length;
        hasher.update(name.as_bytes());
        hasher.update(&[0]);
        hasher.update(&length.to_le_bytes());
        hasher.update(hash.as_bytes());
    }
    Ok((total, hasher.finalize().to_hex().to_string()))
}
