//! What a branch holds, written to where its caller says: whole, or not at all (X4, X5 of docs/design/export.md).

use crate::{ClientError, Connection};
use bytes::Bytes;
use duramen_api::model::ExportFormat;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    thread::{self, JoinHandle},
};
use tar::Archive;
use tokio::sync::mpsc;

/// Parts that were received and are not written yet.
const UNWRITTEN_PARTS: usize = 16;

/// What is to be exported, and where to.
#[derive(Debug, Clone)]
pub struct Export {
    /// The branch.
    pub branch: String,
    /// In which form.
    pub format: ExportFormat,
    /// How many processes dump a directory.
    pub jobs: u32,
    /// Whether the branch's server is stopped for it.
    pub quiesce: bool,
    /// The file or directory to be made.
    pub out: PathBuf,
    /// Whether a file that is there is replaced. A directory never is.
    pub force: bool,
}

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The daemon did not send it, or not all of it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Something is there already.
    #[error("{path} exists, and was left as it is; choose another name{}", if *.replaceable { ", or --force" } else { "" })]
    Exists {
        /// Where it was to go.
        path: String,
        /// Whether that can be asked for.
        replaceable: bool,
    },
    /// It cannot be written.
    #[error("cannot write {path}: {source}; nothing was left there")]
    Io {
        /// The file or directory.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// What is written before it is whole. It goes with this unless it was put in its place.
struct Part {
    path: PathBuf,
    is_directory: bool,
}

impl Part {
    fn beside(out: &Path, is_directory: bool) -> Part {
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        let token = duramen_base::entropy::token(8);
        Part { path: out.with_file_name(format!(".{name}.{token}.part")), is_directory }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may never have been made, or is in its place.
        let _ = if self.is_directory { fs::remove_dir_all(&self.path) } else { fs::remove_file(&self.path) };
    }
}

/// Exports a branch. `written` counts the bytes as they come. If the future is dropped, nothing is left.
///
/// # Errors
/// Something is there already, it cannot be written, or what the daemon refuses.
pub async fn export(
    connection: &mut Connection,
    wanted: &Export,
    written: &Arc<AtomicU64>,
) -> Result<(), ExportError> {
    let Export { out, format, force, .. } = wanted;
    let is_directory = format.is_directory();
    check_free(out, is_directory, *force)?;
    let failed = |source| ExportError::Io { path: out.display().to_string(), source };
    let mut writing = Writing::begin(Part::beside(out, is_directory), Arc::clone(written)).map_err(failed)?;
    let sent = match &writing.parts {
        Some(parts) => connection.export(&wanted.branch, *format, wanted.jobs, wanted.quiesce, parts).await,
        None => Ok(()),
    };
    let gave_up = writing.parts.as_ref().is_some_and(mpsc::Sender::is_closed);
    let wrote = writing.finish();
    // Without all of it the writer complains, too; what made it give up before is what matters.
    match (sent, wrote) {
        (Ok(()), Ok(())) => put_in_place(&writing.part, out, *force).map_err(failed)?.map_or(Ok(()), Err),
        (Err(error), _) if !gave_up => Err(error.into()),
        (_, Err(error)) => Err(failed(error)),
        (Err(error), Ok(())) => Err(error.into()),
    }
}

/// A thread that writes what comes. When this is dropped it has ended, and what it wrote is gone, unless that was put in its
/// place.
struct Writing {
    parts: Option<mpsc::Sender<Bytes>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    part: Part,
}

impl Writing {
    fn begin(part: Part, written: Arc<AtomicU64>) -> io::Result<Writing> {
        let (parts, receive) = mpsc::channel(UNWRITTEN_PARTS);
        let (path, is_directory) = (part.path.clone(), part.is_directory);
        let incoming = Incoming { parts: receive, rest: Bytes::new(), written };
        let work = move || write(&path, is_directory, incoming);
        let thread = thread::Builder::new().name("export".to_owned()).spawn(work)?;
        Ok(Writing { parts: Some(parts), thread: Some(thread), part })
    }

    /// Nothing more comes.
    fn finish(&mut self) -> io::Result<()> {
        self.parts = None;
        let crashed = |_| Err(io::Error::other("the thread that writes has crashed"));
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(crashed))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // Nobody wants what it wrote.
        let _ = self.finish();
    }
}

fn check_free(out: &Path, is_directory: bool, force: bool) -> Result<(), ExportError> {
    let is_file = match out.symlink_metadata() {
        Err(_) => return Ok(()),
        Ok(found) => found.is_file(),
    };
    if force && is_file && !is_directory {
        return Ok(());
    }
    Err(exists(out, is_file && !is_directory))
}

fn exists(out: &Path, replaceable: bool) -> ExportError {
    ExportError::Exists { path: out.display().to_string(), replaceable }
}

fn write(path: &Path, is_directory: bool, mut incoming: Incoming) -> io::Result<()> {
    if is_directory {
        make_private(path)?;
        let mut archive = Archive::new(incoming);
        archive.set_preserve_permissions(true);
        archive.unpack(path)?;
        // The archive ends before the reply does. Who stopped reading here would break it off.
        io::copy(&mut archive.into_inner(), &mut io::sink())?;
        return private(path);
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    io::copy(&mut incoming, &mut file)?;
    file.flush()?;
    file.sync_all()
}

/// A directory that nobody else enters, as a server wants its data directory to be.
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    private(path)
}

#[cfg(unix)]
fn private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn private(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Gives what was written its name, without taking that from anything else.
fn put_in_place(part: &Part, out: &Path, force: bool) -> io::Result<Option<ExportError>> {
    if part.is_directory || force {
        // A directory takes the place of nothing but an empty one.
        return match fs::rename(&part.path, out) {
            Err(_) if part.is_directory && out.symlink_metadata().is_ok() => Ok(Some(exists(out, false))),
            done => done.map(|()| None),
        };
    }
    match fs::hard_link(&part.path, out) {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Some(exists(out, true))),
        // A file system without such links.
        Err(_) if out.symlink_metadata().is_ok() => Ok(Some(exists(out, true))),
        Err(_) => fs::rename(&part.path, out).map(|()| None),
    }
}

/// What comes from the daemon, to be read where that may block.
struct Incoming {
    parts: mpsc::Receiver<Bytes>,
    rest: Bytes,
    written: Arc<AtomicU64>,
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.parts.blocking_recv() {
                Some(part) => self.rest = part,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.rest.len());
        buffer[..length].copy_from_slice(&self.rest.split_to(length));
        self.written.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// X4: an archive has an end of its own, and what the daemon sends after it is part of a whole reply.
    #[test]
    fn what_comes_after_the_end_of_an_archive_is_taken_too() {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        header.set_mode(0o600);
        archive.append_data(&mut header, "a", &b"ab"[..]).unwrap();
        let archive = archive.into_inner().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let part = Part { path: dir.path().join("part"), is_directory: true };
        let mut writing = Writing::begin(part, Arc::default()).unwrap();
        let parts = writing.parts.clone().unwrap();
        parts.blocking_send(archive.into()).unwrap();
        thread::sleep(Duration::from_millis(200));
        parts.blocking_send(Bytes::from_static(&[0; 1024])).expect("somebody still reads");
        drop(parts);
        writing.finish().unwrap();
        assert_eq!(fs::read(dir.path().join("part/a")).unwrap(), b"ab");
    }
}
