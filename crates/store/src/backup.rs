//! Backups: a moment of a store in another folder, made while the store is written.
//!
//! Segments of nodes are copied as far as the last checkpoint needs them, and the records of the log after it are written into
//! a log of its own. So a backup is a store. Of an earlier backup, segments that are the same are linked instead of copied: nothing is
//! ever changed in them.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_base::lock::{FileLock, LockError};
use duramen_base::system::{on_other_file_systems, FileAt};
use duramen_tree::NodeStore as _;
use serde::Serialize;

use crate::error::StoreError;
use crate::folder::{self, Found};
use crate::log::{FileDirectory, Log, LogOptions, Needed, Position};
use crate::manifest::Manifest;
use crate::nodes::{SegmentFile, SegmentNodeStore};
use crate::store::Store;

/// How often a moment is looked for, and for how long, while a store is written.
const TRIES: u32 = 5;
const TRY_FOR: Duration = Duration::from_secs(10);

/// What is behind the name of a backup that is being made, and the file in it by which it is known.
const PART: &str = "part";
pub(crate) const MARKER: &str = "duramen-backup";

/// So many zeros stand behind the last commit of a copy: whoever opens it to write begins another segment, with a salt of its own. So no two
/// stores go on in files of the same number and salt. It is shorter than a record, and is no end of a segment.
const DEAD_BYTES: usize = 16;

/// Files are copied in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// What a backup holds, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// The version of the last write in it.
    pub version: u64,
    /// Bytes of its nodes; its log has what came after the last checkpoint.
    pub bytes: u64,
    /// Of those, bytes that were copied.
    pub copied: u64,
    /// Of those, bytes that an earlier backup has, too.
    pub linked: u64,
}

impl Store {
    /// Makes a backup of the store in a folder, also while another process or this one writes it: a store in a folder that is not there yet,
    /// with every commit that was acknowledged before (at the levels `buffered` and `strict`), and no part of one. It is durable when this returns, or
    /// not there. Segments of nodes that an earlier backup, `since`, holds as well are linked to its files where the file system can; either may be
    /// removed, and both may be opened. `progress` is told how many bytes of how many are done.
    ///
    /// ```
    /// use duramen_store::{Options, Scope, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let (data, backup) = (dir.path().join("data"), dir.path().join("monday"));
    /// let store = Store::open(&data, Options::default())?;
    /// store.branch("main")?.kv().put("greeting", "hello")?;
    /// Store::backup(&data, &backup, None, &mut |_, _| {})?;
    ///
    /// let copy = Store::open(&backup, Options::default())?;
    /// assert_eq!(copy.branch("main")?.kv().get("greeting")?, Some("hello".into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] when something is in `to` already; those of [`open`](Store::open) for reading; when a file cannot be written.
    pub fn backup(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        since: Option<&Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup, StoreError> {
        let (from, to) = (from.as_ref(), to.as_ref());
        check_place(to)?;
        match folder::look(from).map_err(StoreError::io("look into", from))? {
            Found::Store => {}
            Found::Legacy => return Err(StoreError::Legacy { path: from.to_owned() }),
            Found::Nothing => return Err(StoreError::StoreNotFound { path: from.to_owned() }),
            Found::Foreign(found) => return Err(StoreError::Foreign { path: from.to_owned(), found }),
        }
        check_free(to)?;
        let earlier = since.map(Earlier::open).transpose()?;
        let draft = Draft::begin(to)?;
        let begin = clock::now();
        let mut tries = 0;
        let mut told = String::new();
        let made = loop {
            let error = match draft.fill(from, earlier.as_ref(), progress) {
                Ok(made) => break made,
                Err(error) => error,
            };
            tries += 1;
            let text = error.to_string();
            // What does not change is no matter of the moment, unless it says that it is one.
            let is_moment = matches!(error, StoreError::TimedOut { .. });
            let is_same = tries >= 2 && text == told && !is_moment;
            if is_same || (tries >= TRIES && begin.elapsed() > TRY_FOR) {
                return Err(error);
            }
            log::debug!("the store was changed while it was copied: {text}");
            told = text;
        };
        draft.finish(to)?;
        Ok(made)
    }
}

/// Refuses a place to which nothing can be renamed: that is what happens at the end.
fn check_place(to: &Path) -> Result<(), StoreError> {
    let refuse = |reason: &str| {
        let reason = format!("{}: {reason}; name a folder that is not there yet", to.display());
        Err(StoreError::InvalidInput { what: "this place of a backup", reason })
    };
    if to.file_name().is_none() {
        return refuse("it has no name of its own");
    }
    let Ok(found) = std::fs::symlink_metadata(to) else { return Ok(()) };
    if found.is_symlink() {
        return refuse("it is a link");
    }
    let above = std::path::absolute(to).ok().and_then(|path| path.parent().map(Path::to_owned));
    if above
        .and_then(|above| std::fs::metadata(above).ok())
        .is_some_and(|above| on_other_file_systems(&above, &found))
    {
        return refuse("a file system is mounted there");
    }
    Ok(())
}

fn check_free(to: &Path) -> Result<(), StoreError> {
    let mut entries = match std::fs::read_dir(to) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io("look into", to)(error)),
    };
    match entries.next() {
        None => Ok(()),
        Some(entry) => {
            let entry = entry.map_err(StoreError::io("look into", to))?;
            let found = entry.file_name().to_string_lossy().into_owned();
            Err(StoreError::NotEmpty { path: to.to_owned(), found })
        }
    }
}

/// The segments of an earlier backup to which nothing is added.
struct Earlier {
    folder: PathBuf,
    files: Vec<SegmentFile>,
}

impl Earlier {
    fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = path.join(folder::NODES_FOLDER);
        if !folder.is_dir() {
            return Err(StoreError::StoreNotFound { path: path.to_owned() });
        }
        let mut files = SegmentNodeStore::open(&folder, true)?.files();
        files.retain(|file| !file.is_tail());
        Ok(Self { folder, files })
    }
}

/// A backup that is being made. It is removed if it does not come to its end.
struct Draft {
    path: PathBuf,
    /// Held as long as it is being made.
    _lock: FileLock,
    is_done: std::cell::Cell<bool>,
}

impl Draft {
    fn begin(to: &Path) -> Result<Self, StoreError> {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(PART);
        let path = to.with_file_name(name);
        let marker = path.join(MARKER);
        if marker.is_file() {
            // What a killed backup left; or another one is being made.
            let file = File::options().write(true).open(&marker).map_err(StoreError::io("open", &marker))?;
            let _lock = locked(file, &path)?;
            std::fs::remove_dir_all(&path).map_err(StoreError::io("remove", &path))?;
        }
        check_free(&path)?;
        folder::make(&path).map_err(StoreError::io("make the folder", &path))?;
        let file = File::create_new(&marker).map_err(StoreError::io("make", &marker))?;
        let lock = locked(file, &path)?;
        for folder in [folder::NODES_FOLDER, folder::LOG_FOLDER] {
            let folder = path.join(folder);
            folder::make(&folder).map_err(StoreError::io("make the folder", &folder))?;
        }
        Ok(Self { path, _lock: lock, is_done: std::cell::Cell::new(false) })
    }

    /// Copies a moment of a store. What was copied before and is right stays.
    fn fill(
        &self,
        from: &Path,
        earlier: Option<&Earlier>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup, StoreError> {
        let from_nodes = from.join(folder::NODES_FOLDER);
        let nodes = SegmentNodeStore::open(&from_nodes, true)?;
        let manifest =
            nodes.manifest()?.ok_or_else(|| StoreError::StoreNotFound { path: from.to_owned() })?;
        let (Manifest { version: after, .. }, more) = Manifest::decode(&manifest)?;
        let files = nodes.files();
        let mut made = Backup { bytes: files.iter().map(SegmentFile::len).sum(), ..Backup::default() };
        let folder = self.path.join(folder::NODES_FOLDER);
        self.remove_others(&folder, &files)?;
        let mut done = 0;
        for file in &files {
            let to = folder.join(file.name());
            if is_there(&to, file) {
                done += file.len();
                continue;
            }
            let same = earlier.filter(|_| !file.is_tail()).and_then(|earlier| {
                let same = earlier.files.iter().find(|other| other.is_same(file))?;
                std::fs::hard_link(earlier.folder.join(same.name()), &to).ok()
            });
            match same {
                Some(()) => made.linked += file.len(),
                None => {
                    copy(file, &to, &mut |bytes| progress(done + bytes, made.bytes)).inspect_err(|_| {
                        // Whatever is in it may never become durable.
                        let _ = std::fs::remove_file(&to);
                    })?
                }
            }
            done += file.len();
            progress(done, made.bytes);
        }
        made.copied = made.bytes - made.linked;
        folder::sync(&folder).map_err(StoreError::io("make durable", &folder))?;
        let segment = more.map(|more| more.segment);
        made.version = self.write_log(&from.join(folder::LOG_FOLDER), after, segment)?;
        // A file of the log that was used again could look like its end: that is after another checkpoint.
        if SegmentNodeStore::open(&from_nodes, true)?.manifest()?.as_deref() != Some(&manifest[..]) {
            let what = "copying between two checkpoints of the process that writes";
            return Err(StoreError::TimedOut { what, waited_ms: 0 });
        }
        Ok(made)
    }

    /// Removes what a try before copied and this one does not need.
    fn remove_others(&self, folder: &Path, files: &[SegmentFile]) -> Result<(), StoreError> {
        for entry in std::fs::read_dir(folder).map_err(StoreError::io("look into", folder))? {
            let path = entry.map_err(StoreError::io("look into", folder))?.path();
            let is_needed = files.iter().any(|file| path.ends_with(file.name()) && is_there(&path, file));
            if !is_needed {
                std::fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Writes the records after a version into a log of its own. Returns the last version.
    fn write_log(&self, from: &Path, after: u64, segment: Option<u64>) -> Result<u64, StoreError> {
        let path = self.path.join(folder::LOG_FOLDER);
        for entry in std::fs::read_dir(&path).map_err(StoreError::io("look into", &path))? {
            let file = entry.map_err(StoreError::io("look into", &path))?.path();
            std::fs::remove_file(&file).map_err(StoreError::io("remove", &file))?;
        }
        let read = FileDirectory::open_read_only(from).map_err(StoreError::io("open the log", from))?;
        let written = FileDirectory::open(&path).map_err(StoreError::io("open the log", &path))?;
        let options = LogOptions::default();
        let log = Log::begin(Arc::new(written), options, after, segment.unwrap_or(1))?;
        let needed = segment.map_or(Needed::Any, Needed::Segment);
        let last = Log::read_at(&read, Position { after, needed }, &mut |first, count, body| {
            let given = log.append(count, body)?;
            debug_assert_eq!(given, first);
            // The buffer is handed over as it fills.
            log.wait(given + u64::from(count) - 1, crate::durability::Durability::Memory)
        })?;
        log.close()?;
        Ok(last)
    }

    fn finish(self, to: &Path) -> Result<(), StoreError> {
        let marker = self.path.join(MARKER);
        std::fs::remove_file(&marker).map_err(StoreError::io("remove", &marker))?;
        for folder in [folder::NODES_FOLDER, folder::LOG_FOLDER] {
            let folder = self.path.join(folder);
            folder::sync(&folder).map_err(StoreError::io("make durable", &folder))?;
        }
        folder::sync(&self.path).map_err(StoreError::io("make durable", &self.path))?;
        // An empty folder may be there.
        std::fs::rename(&self.path, to).map_err(StoreError::io("rename", &self.path))?;
        self.is_done.set(true);
        let above = std::path::absolute(to).map_err(StoreError::io("find", to))?;
        if let Some(above) = above.parent() {
            folder::sync(above).map_err(StoreError::io("make durable", above))?;
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_done.get() {
            if let Err(error) = std::fs::remove_dir_all(&self.path) {
                log::warn!("a backup that was not made stays in part: {}, {error}", self.path.display());
            }
        }
    }
}

fn locked(file: File, path: &Path) -> Result<FileLock, StoreError> {
    FileLock::exclusive(file).map_err(|error| match error {
        LockError::Held => StoreError::Locked { path: path.to_owned(), pid: None },
        LockError::Io(_, error) => StoreError::io("lock", path)(error),
    })
}

/// Whether a file was copied before. A copy that was cut off is shorter.
fn is_there(path: &Path, file: &SegmentFile) -> bool {
    !file.is_tail() && std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == file.len())
}

/// Copies a segment, and makes the copy durable.
fn copy(file: &SegmentFile, to: &Path, progress: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
    let failed = |action| StoreError::io(action, to);
    let written = File::create_new(to).map_err(failed("make"))?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < file.len() {
        let part = piece.len().min(usize::try_from(file.len() - at).unwrap_or(usize::MAX));
        let bytes = &mut piece[..part];
        file.file().read_exact_at(bytes, at).map_err(failed("copy to"))?;
        written.write_all_at(bytes, at).map_err(failed("write"))?;
        at += part as u64;
        progress(at);
    }
    if file.is_tail() {
        written.write_all_at(&[0; DEAD_BYTES], at).map_err(failed("write"))?;
    }
    written.sync_all().map_err(failed("make durable"))
}
