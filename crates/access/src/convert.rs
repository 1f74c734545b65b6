//! From one format into another, and what did not fit.
//!
//! [`copy`] moves rows from any source to any sink. [`Conversion`] does it between files: what the first one is, its
//! bytes say; which of its syncs fit into the second, and what becomes of the others, is decided here. What is refused is
//! refused before the new file is begun, and a conversion that fails leaves no part of it behind.
//!
//! ```
//! use duramen_access::c1z::ReadOptions;
//! use duramen_access::convert::{Conversion, Format};
//! use duramen_access::graph::{GraphStore, SyncKind};
//!
//! # let dir = tempfile::tempdir()?;
//! let (from, to) = (dir.path().join("access.dpack"), dir.path().join("access.c1z"));
//! let mut store = GraphStore::open(&from)?;
//! store.start_sync(SyncKind::Full, None)?;
//! store.end_sync()?;
//! store.close()?;
//!
//! let format = Format::of_name(&to).ok_or("no format has that name")?;
//! let converted = Conversion { from, to, format, sync: None, read: ReadOptions::default() }.run()?;
//! assert_eq!((format, converted.copied.syncs), (Format::C1z3, 1));
//! assert!(converted.losses.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod copy;
mod error;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub use self::copy::{copy, Copied, CopyError};
pub use self::error::ConvertError;

use duramen_base::file;
use jiff::tz::TimeZone;

use crate::c1z::{C1z1, C1z1Writer, C1z3Writer, ReadOptions, WriteOptions};
use crate::file::{FileError, GraphFile};
use crate::graph::{journal_of, GraphError, GraphSink, GraphSource, GraphStore, Loss, Sync};

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A pack: any number of syncs.
    Pack,
    /// `.c1z`, version 1: any number of syncs.
    C1z1,
    /// `.c1z`, version 3: one sync.
    C1z3,
}

impl Format {
    /// What commands and reports call it: `dpack`, `c1z1` or `c1z3`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Pack => "dpack",
            Format::C1z1 => "c1z1",
            Format::C1z3 => "c1z3",
        }
    }

    /// What a file is.
    pub fn of_file(file: &GraphFile) -> Format {
        match (file.pack(), file.c1z1()) {
            (Some(_), _) => Format::Pack,
            (None, Some(_)) => Format::C1z1,
            (None, None) => Format::C1z3,
        }
    }

    /// The format that the name of a file asks for, by its ending: `.dpack`, or `.c1z`, which is version 3.
    pub fn of_name(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "dpack" => Some(Format::Pack),
            "c1z" => Some(Format::C1z3),
            _ => None,
        }
    }
}

/// Which file becomes which.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The file that is read: a pack of a graph, or a `.c1z` file of either version, whatever its name.
    pub from: PathBuf,
    /// The file that is written. A pack must not be there yet; a `.c1z` file that is there is replaced when the new one is
    /// complete.
    pub to: PathBuf,
    /// What it is written as.
    pub format: Format,
    /// The id of the sync that is copied. None: all of them, or where one fits the latest full one that has ended, else
    /// the one that is [read by default](Sync::to_read).
    pub sync: Option<String>,
    /// How a `.c1z` file is read. Its rows are always checked; a version 1 file is written in the same time zone.
    pub read: ReadOptions,
}

/// What a conversion did, and what did not fit.
#[derive(Clone, Debug)]
pub struct Converted {
    /// How many rows are in the new file.
    pub copied: Copied,
    /// What is in the old file and not in the new one.
    pub losses: Vec<Loss>,
    /// Bytes of the new file.
    pub file_bytes: u64,
    /// That the times of a version 1 file seem to be of another zone than the one in which they were read.
    pub zone_offset: Option<ZoneOffset>,
}

/// A sync of a version 1 file that begins at another time than its id says, by what a time zone can make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneOffset {
    /// By how much the clock that wrote it was ahead of the zone in which it was read, in seconds.
    pub seconds: i64,
    /// The id of the sync.
    pub sync: String,
}

/// The syncs of a file: those that are copied, and those that stay behind.
struct Choice {
    copied: Vec<Sync>,
    left: Vec<Sync>,
}

impl Conversion {
    /// Does it.
    ///
    /// # Errors
    /// When the old file cannot be read, would be replaced by the new one, or has nothing to copy; when the new one cannot
    /// be written, or is a pack that is there already. Nothing is left of it then.
    pub fn run(&self) -> Result<Converted, ConvertError> {
        if is_same_file(&self.from, &self.to) {
            return Err(ConvertError::SameFile { file: self.to.clone() });
        }
        let options = ReadOptions { check_rows: true, ..self.read.clone() };
        let source = GraphFile::open(&self.from, &options)?;
        if let Some(pack) = source.pack() {
            // Digests say that the bytes are those that were written; this, that sections agree.
            pack.verify(&mut |_, _| {}).map_err(|error| ConvertError::Read(error.into()))?;
        }
        let zone_offset = source.c1z1().map(C1z1::zone_offset).transpose()?.flatten();
        let zone_offset = zone_offset.map(|(seconds, sync)| ZoneOffset { seconds, sync });
        Ok(Converted { zone_offset, ..self.write(&source)? })
    }

    /// Writes the new file.
    fn write(&self, source: &GraphFile) -> Result<Converted, ConvertError> {
        let Choice { copied: syncs, left } = self.choose(source)?;
        let (copied, mut losses) =
            write_file(source, &self.to, self.format, self.read.zone.as_ref(), &syncs)?;
        losses.extend(source.left_out().iter().cloned());
        if let Some(first) = left.first() {
            losses.push(Loss {
                row: "sync",
                what: "syncs that were not copied".to_owned(),
                rows: left.len() as u64,
                example: first.id.clone(),
            });
        }
        let file = std::fs::metadata(&self.to).map_err(ConvertError::io("look at", &self.to))?;
        Ok(Converted { copied, losses, file_bytes: file.len(), zone_offset: None })
    }

    /// Which syncs are copied.
    fn choose(&self, source: &GraphFile) -> Result<Choice, ConvertError> {
        let syncs = source.syncs()?;
        let only = match &self.sync {
            None if self.format == Format::C1z1 || self.format == Format::Pack && !syncs.is_empty() => {
                return Ok(Choice { copied: syncs, left: Vec::new() });
            }
            named => source.sync(named.as_deref())?.id,
        };
        let (copied, left) = syncs.into_iter().partition(|sync| sync.id == only);
        Ok(Choice { copied, left })
    }
}

/// Whether two paths are one file. A target that is its own source would be all that is left of it, with what its format
/// cannot hold gone.
pub(crate) fn is_same_file(from: &Path, to: &Path) -> bool {
    let file_of = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    file_of(to).is_some_and(|to| file_of(from) == Some(to))
}

/// Writes a file with `syncs` of a source, completely or not at all.
pub(crate) fn write_file(
    source: &impl GraphSource<Error = FileError>,
    to: &Path,
    format: Format,
    zone: Option<&TimeZone>,
    syncs: &[Sync],
) -> Result<(Copied, Vec<Loss>), ConvertError> {
    match format {
        Format::Pack => write_pack(source, to, syncs),
        Format::C1z1 => {
            let options = WriteOptions { zone: zone.cloned(), ..WriteOptions::default() };
            let mut sink = C1z1Writer::create(to, &options)?;
            let filled = fill(source, &mut sink, syncs)?;
            sink.finish()?;
            Ok(filled)
        }
        Format::C1z3 => {
            let mut sink = C1z3Writer::create(to, &WriteOptions::default())?;
            let filled = fill(source, &mut sink, syncs)?;
            sink.finish()?;
            Ok(filled)
        }
    }
}

/// Keeps others from writing to a pack until what is returned is closed. No sync of it goes on.
pub(crate) fn lock_pack(pack: &Path) -> Result<GraphStore, ConvertError> {
    let store = GraphStore::open(pack)?;
    match store.current_sync() {
        Some(sync) => Err(ConvertError::GoesOn { file: pack.to_owned(), sync: sync.id.clone() }),
        None => Ok(store),
    }
}

/// As [`write_file`], in the place of a file that is there, which may be what the source reads. Of a pack, the caller has the
/// [lock](lock_pack).
pub(crate) fn replace_file(
    source: &impl GraphSource<Error = FileError>,
    path: &Path,
    format: Format,
    zone: Option<&TimeZone>,
    syncs: &[Sync],
) -> Result<(Copied, Vec<Loss>), ConvertError> {
    if format != Format::Pack {
        return write_file(source, path, format, zone, syncs);
    }
    // A pack is never written over another one. Only who has the lock writes beside it.
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".replacing");
    let beside = path.with_file_name(name);
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(ConvertError::io("remove", &beside)(error));
        }
        _ => {}
    }
    let written = write_file(source, &beside, format, zone, syncs)?;
    let renamed = std::fs::rename(&beside, path).and_then(|()| file::sync_folder_of(path));
    renamed.map_err(ConvertError::io("replace", path))?;
    Ok(written)
}

fn write_pack(
    source: &impl GraphSource<Error = FileError>,
    to: &Path,
    syncs: &[Sync],
) -> Result<(Copied, Vec<Loss>), ConvertError> {
    let journal = journal_of(to);
    // A journal that is not empty holds a sync that somebody has not ended yet. An empty one is nobody's.
    for (file, least) in [(to, 0), (journal.as_path(), 1)] {
        if file.symlink_metadata().is_ok_and(|found| found.len() >= least) {
            return Err(ConvertError::Exists { file: file.to_owned() });
        }
    }
    // A graph appears sync by sync, and a part of one is none: it has a hidden name until it is complete. What a
    // conversion that was killed left under that name is taken over.
    let mut sink = GraphStore::begin_anew(hidden(to))?;
    match fill(source, &mut sink, syncs) {
        Ok(filled) => match sink.close_as(to) {
            Ok(()) => Ok(filled),
            Err(GraphError::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                GraphStore::begin_anew(hidden(to))?.discard();
                Err(ConvertError::Exists { file: to.to_owned() })
            }
            Err(error) => Err(error.into()),
        },
        Err(error) => {
            sink.discard();
            Err(error)
        }
    }
}

/// Where a pack is until it is complete.
fn hidden(pack: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(pack.file_name().unwrap_or_default());
    name.push(".converting");
    pack.with_file_name(name)
}

fn fill<T: GraphSink<Error: Into<FileError>>>(
    source: &impl GraphSource<Error = FileError>,
    sink: &mut T,
    syncs: &[Sync],
) -> Result<(Copied, Vec<Loss>), ConvertError> {
    let copied = copy(source, sink, syncs).map_err(|error| match error {
        CopyError::Read(error) => ConvertError::Read(error),
        CopyError::Write(error) => ConvertError::Write(error.into()),
    })?;
    Ok((copied, sink.losses().to_vec()))
}
