//! Digests of directory trees.

use crate::{files::open_below, parallel::parallel};
use std::{
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

/// Length and BLAKE3 hash of a file below `root`, or of `root` itself. Whoever owns the tree may have put something else in its place since it was
/// listed: a link is not followed, and nobody is waited for at the other end of a pipe.
pub(crate) fn file(root: &Path, path: &Path) -> io::Result<(u64, blake3::Hash)> {
    file_while(root, path, &|| true)
}

/// The same; it ends when nobody wants it any more.
fn file_while(root: &Path, path: &Path, is_wanted: &dyn Fn() -> bool) -> io::Result<(u64, blake3::Hash)> {
    let (mut hasher, mut buffer, mut length) = (blake3::Hasher::new(), vec![0; READ], 0);
    let dir = if path == root { root.parent().unwrap_or(root) } else { root };
    let mut file = open_below(dir, path.strip_prefix(dir).unwrap_or(path))?;
    loop {
        if !is_wanted() {
            return Err(io::Error::other("nobody waits for it any more"));
        }
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
    tree_by(thread::available_parallelism().map_or(1, NonZero::get), root, &|| true)
}

/// The same by so many threads; it ends when nobody wants it any more.
pub(crate) fn tree_by(
    threads: usize,
    root: &Path,
    is_wanted: &(dyn Fn() -> bool + Sync),
) -> io::Result<(u64, String)> {
    let mut hasher = blake3::Hasher::new();
    let mut total = 0;
    let found = files(root)?.into_iter().enumerate().collect();
    let hash =
        |(at, (name, path)): (usize, (String, PathBuf))| (at, name, file_while(root, &path, is_wanted));
    let mut hashed = parallel(threads, found, hash);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink, sync::mpsc, time::Duration};

    #[test]
    fn what_takes_the_place_of_a_file_is_neither_followed_nor_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("data");
        fs::create_dir_all(root.join("base")).expect("a tree");
        fs::write(dir.path().join("secret"), "of somebody else").expect("a file");
        fs::write(root.join("base/1"), "rows").expect("a file");
        let (length, hash) = file(&root, &root.join("base/1")).expect("a file");
        assert_eq!((length, hash), (4, blake3::hash(b"rows")));
        assert_eq!(file(&root.join("base/1"), &root.join("base/1")).expect("the file itself").0, 4);

        symlink(dir.path().join("secret"), root.join("link")).expect("a link");
        symlink(dir.path(), root.join("out")).expect("a link");
        for path in ["link", "out/secret"] {
            assert!(file(&root, &root.join(path)).is_err(), "{path}");
        }
        let pipe = root.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        let (done, came) = mpsc::channel();
        std::thread::spawn(move || done.send(file(&root, &pipe).is_err()));
        assert!(came.recv_timeout(Duration::from_secs(10)).expect("it waits for nobody"));
    }
}
