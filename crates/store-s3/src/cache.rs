//! The folder for what was read from the bucket, and a disk that has no room for it.
//!
//! SlateDB goes on without what it cannot keep there, and says nothing. So a folder is tried before it is used, and looked at now and
//! then: whoever wonders why reads are slow finds why, once, and nothing else comes of it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use duramen_base::clock;
use parking_lot::Mutex;

use crate::options::Cache;

/// The size of the pieces that are kept.
pub(crate) const PART_BYTES: usize = 1 << 20;
/// Less room than for so many pieces is none.
const PARTS_LEAST: u64 = 2;
/// How often the disk is looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What is written to see whether anything can be.
const PROBE: &str = "duramen-probe";
/// In the name of what SlateDB had begun to write. It removes none of these.
const UNFINISHED: &str = "_tmp";
/// So deep are the folders below that are looked into.
const DEPTH_MAX: usize = 16;

/// Looks after the folder of a store that is open.
pub(crate) struct CacheWatch {
    folder: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked: Option<Instant>,
    is_full: bool,
}

impl CacheWatch {
    /// Tries the folder. What cannot be written at all is not used; that is said here. What earlier writes have left half done goes.
    pub(crate) fn begin(cache: Option<&Cache>) -> (Option<Cache>, Self) {
        let watch = |folder| Self { folder, state: Mutex::default() };
        let Some(cache) = cache else { return (None, watch(None)) };
        let folder = cache.folder.as_path();
        let tried = fs::create_dir_all(folder).and_then(|()| {
            remove_unfinished(folder, DEPTH_MAX);
            probe(folder)
        });
        match tried {
            Ok(()) => (Some(cache.clone()), watch(Some(folder.to_owned()))),
            Err(error) => {
                log::warn!(
                    "the cache {} cannot be written, and the store goes on without it: {error}",
                    folder.display()
                );
                (None, watch(None))
            }
        }
    }

    /// Looks at the disk, if it was not looked at lately, and says when it has become full, and when it has room again.
    pub(crate) fn look(&self) {
        let Some(folder) = &self.folder else { return };
        // Whoever comes while somebody looks has nothing to wait for.
        let Some(mut state) = self.state.try_lock() else { return };
        let now = clock::now();
        if state.looked.is_some_and(|at| now.duration_since(at) < LOOK_EVERY) {
            return;
        }
        state.looked = Some(now);
        let is_full = match rustix::fs::statvfs(folder) {
            Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize) < PARTS_LEAST * PART_BYTES as u64,
            Err(_) => true,
        };
        if is_full && !state.is_full {
            log::warn!(
                "the disk of the cache {} is full: what is read from the bucket from now on is not kept, and reads of it go there again; nothing is lost",
                folder.display()
            );
        } else if !is_full && state.is_full {
            log::info!("the disk of the cache {} has room again", folder.display());
        }
        state.is_full = is_full;
    }
}

fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("{PROBE}-{}", std::process::id()));
    let written = fs::File::create(&path).and_then(|mut file| file.write_all(&[0; 4096]));
    // Where nothing was made there is nothing to remove.
    let _ = fs::remove_file(&path);
    written
}

/// What is not removed now is removed the next time.
fn remove_unfinished(folder: &Path, depth: usize) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            remove_unfinished(&entry.path(), depth - 1);
        } else if kind.is_file() && entry.file_name().to_string_lossy().contains(UNFINISHED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &Path) -> Cache {
        Cache { folder: folder.to_owned(), bytes: 1 << 30 }
    }

    #[test]
    fn a_folder_that_can_be_written_is_used_and_what_was_half_written_goes() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        let (kept, left) = (below.join("_part1mb-000000000"), below.join("_part1mb-000000000._tmpAbC"));
        fs::write(&kept, "x").unwrap();
        fs::write(&left, "x").unwrap();
        let (used, watch) = CacheWatch::begin(Some(&cache(folder.path())));
        assert_eq!(used, Some(cache(folder.path())));
        assert!(kept.exists() && !left.exists());
        watch.look();
        assert!(!watch.state.lock().is_full);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        // A file stands where the folder should be, whoever asks.
        let (used, watch) = CacheWatch::begin(Some(&cache(&file.join("cache"))));
        assert_eq!((used, watch.folder.clone()), (None, None));
        watch.look();
    }
}
