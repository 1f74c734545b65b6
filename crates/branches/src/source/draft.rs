//! A data directory on its way to a snapshot.

use super::{
    manifest::SourceRecord,
    masking::{LiveFiles, Scratch},
};
use crate::{
    error::{EngineError, Kind},
    files::io_error,
    home::Home,
};
use duramen_base::entropy;
use duramen_postgres::{end_processes, processes_below, volume, Postmaster, ServerUser};
use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A data directory under construction, with its server's socket directory and log; unless it is kept, all of them are
/// removed with it. It is a volume of the store, or lies on a scratch for as long as it holds values that are to be masked.
pub(crate) struct Draft<'a> {
    store: &'a volume::Store,
    pub(crate) path: PathBuf,
    pub(super) socket_dir: PathBuf,
    pub(super) log: PathBuf,
    pub(crate) kept: bool,
    scratch: Option<Scratch>,
    /// Where the volume is, or will be once the scratch is left.
    volume: PathBuf,
}

/// How programs say that a disk is full.
pub(crate) const NO_ROOM: &str = "No space left on device";
/// How much of the end of a log is looked at, in bytes.
const LOG_END: u64 = 64 << 10;

impl<'a> Draft<'a> {
    pub(super) fn begin(
        home: &Home,
        store: &'a volume::Store,
        user: &ServerUser,
        record: &SourceRecord,
    ) -> Result<Draft<'a>, EngineError> {
        let scratch = record.settings.masking.as_ref().map(|_| Scratch::open(home, user)).transpose()?;
        Ok(Draft::at(home, store, record, scratch))
    }

    /// One that holds nothing that has to be masked any more.
    pub(crate) fn of_branch(home: &Home, store: &'a volume::Store, record: &SourceRecord) -> Draft<'a> {
        Draft::at(home, store, record, None)
    }

    fn at(
        home: &Home,
        store: &'a volume::Store,
        record: &SourceRecord,
        scratch: Option<Scratch>,
    ) -> Draft<'a> {
        let token = entropy::token(20);
        let name = format!("{}-{token}", record.name);
        let volume = store.root.join("imports").join(&name);
        // A server's log may hold values too.
        let (path, log) = match &scratch {
            Some(scratch) => (scratch.dir().join(&name), scratch.dir().join("import.log")),
            None => (volume.clone(), home.logs().join(format!("import-{token}.log"))),
        };
        let socket_dir = home.socket(&format!("i-{token}"));
        Draft { store, path, socket_dir, log, kept: false, scratch, volume }
    }

    /// Makes the directory a writable clone of a snapshot of a branch. Blocks.
    pub(super) fn clone_from(&self, snapshot: &Path) -> Result<(), EngineError> {
        self.make_parent()?;
        self.store.volumes.clone_volume(snapshot, &self.volume, None).map_err(|error| {
            let code = match error {
                volume::VolumeError::DiskFull { .. } => "disk_full",
                _ => "import_failed",
            };
            EngineError::new(Kind::Failed, code, error.to_string())
        })
    }

    /// Makes the directory.
    pub(crate) fn create(&self) -> Result<(), EngineError> {
        if self.scratch.is_some() {
            return fs::create_dir(&self.path).map_err(|error| io_error("make", &self.path, &error));
        }
        self.create_volume()
    }

    fn make_parent(&self) -> Result<(), EngineError> {
        let parent = self.volume.parent().unwrap_or(&self.volume);
        fs::create_dir_all(parent).map_err(|error| io_error("make", parent, &error))
    }

    fn create_volume(&self) -> Result<(), EngineError> {
        self.make_parent()?;
        self.store
            .volumes
            .create(&self.volume)
            .map_err(|error| EngineError::new(Kind::Failed, "import_failed", error.to_string()))
    }

    /// Whether the end of its server's log tells of a full disk.
    pub(super) fn ran_out_of_room(&self) -> bool {
        let end = || {
            let mut file = fs::File::open(&self.log)?;
            file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(LOG_END)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&bytes).contains(NO_ROOM))
        };
        end().unwrap_or(false)
    }

    /// Whether destroying the scratch, if there is one, also overwrites files that the server has deleted.
    pub(super) fn is_overwritten(&self) -> bool {
        self.scratch.as_ref().is_none_or(Scratch::is_whole)
    }

    /// Copies the live files from the scratch to a volume, and overwrites the scratch. The server must have stopped. Blocks.
    pub(super) fn leave_scratch(&mut self, live: &LiveFiles, user: &ServerUser) -> Result<(), EngineError> {
        let Some(scratch) = self.scratch.as_ref() else { return Ok(()) };
        self.create_volume()?;
        let made = fs::set_permissions(&self.volume, fs::Permissions::from_mode(0o700));
        made.and_then(|()| user.own(&self.volume)).map_err(|error| io_error("own", &self.volume, &error))?;
        live.copy(&self.path, &self.volume, user)?;
        // A write that was lost on its way to the disk does not spoil the copy, because the page is still cached; but it has
        // to be reported.
        scratch.check()?;
        self.path.clone_from(&self.volume);
        self.scratch.take().map_or(Ok(()), Scratch::destroy)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(mut server) = Postmaster::adopt(&self.path) {
            server.kill();
        }
        // Of an import that is given up: what copies to it, most of all.
        end_processes(&processes_below(&self.path), &self.path);
        let _ = fs::remove_dir_all(&self.socket_dir);
        drop(self.scratch.take());
        if !self.kept && exists(&self.volume) {
            if let Err(error) = self.store.volumes.delete(&self.volume) {
                tracing::warn!(%error, "a half-made snapshot is left to the next start's sweep");
            }
        }
        let _ = fs::remove_file(&self.log);
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
