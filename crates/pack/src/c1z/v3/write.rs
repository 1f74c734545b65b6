//! Writes version 3 files: a manifest and logs, without tables.
//!
//! Rows go into two logs at a time, one for rows and one for indexes, so that like lies beside like; a log that is full
//! is compressed by another thread while the next one fills.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use hashbrown::HashTable;
use xxhash_rust::xxh3::{xxh3_128, xxh3_64};

use super::envelope::{self, Entry};
use super::frames::{Frame, Frames, Log};
use super::key::{self, Edge};
use super::{batch, edit};
use crate::c1z::error::C1zError;
use crate::c1z::limits::ID_BYTES_MAX;
use crate::c1z::losses::Losses;
use crate::c1z::{storage, WriteOptions};
use crate::container::temporary::Temporary;
use crate::error::PackError;
use crate::graph::{Asset, Entitlement, GrantRef, GraphSink, Loss, Resource, ResourceType, Sync};

/// How long a batch grows, in bytes: readers of the ecosystem take batches far smaller than their memory tables.
const BATCH_BYTES: usize = 256 << 10;

/// How long a log grows, in bytes, before it is compressed.
const LOG_BYTES: usize = 8 << 20;

/// The number of the first log; the manifest has number 1.
const FIRST_LOG: u64 = 2;

/// The number of the first change: lower ones mean something else to readers of the ecosystem.
const FIRST_SEQUENCE: u64 = 10;

/// The version of the directory's form: the oldest that readers of the ecosystem take.
const FORMAT: &str = "marker.format-version.000001.013";
const MANIFEST: &str = "MANIFEST-000001";
const MANIFEST_MARKER: &str = "marker.manifest.000001.MANIFEST-000001";

/// Batches that fill up to a log.
#[derive(Default)]
struct Stream {
    batches: Vec<u8>,
    ends: Vec<(usize, u32)>,
    /// Where the batch that fills begins, and how many changes are in it.
    start: usize,
    count: u32,
}

impl Stream {
    fn close_batch(&mut self) {
        if self.count > 0 {
            self.ends.push((self.batches.len(), self.count));
            self.start = self.batches.len();
            self.count = 0;
        }
    }

    /// Counts a change that was appended, and says whether the log is full.
    #[inline]
    fn changed(&mut self) -> bool {
        self.count += 1;
        if self.batches.len() - self.start < BATCH_BYTES {
            return false;
        }
        self.close_batch();
        self.batches.len() >= LOG_BYTES
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.batches.push(super::lsm::Change::Delete as u8);
        crate::c1z::wire::put_varint(&mut self.batches, key.len() as u64);
        self.batches.extend_from_slice(key);
        self.changed()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    InSync,
    Ended,
    Poisoned,
}

/// What ids and edges came before, by hash: a file of version 3 knows a grant by its edge, and everybody else by its id.
#[derive(Default)]
struct Seen {
    /// Id and edge of each grant.
    ids: HashTable<(u128, u64)>,
    /// Edge and id of each grant.
    edges: HashTable<(u64, u64)>,
    /// Id and resource of each entitlement.
    entitlements: HashTable<(u128, u64)>,
    /// For each resource with a parent, the key by which the parent finds it.
    parents: HashMap<Vec<u8>, Vec<u8>>,
}

/// Puts `(id, place)` into a table; the place that the id had before, if it had one.
fn replace(table: &mut HashTable<(u128, u64)>, id: &str, place: u64) -> Option<u64> {
    let id = xxh3_128(id.as_bytes());
    match table.find_mut(id as u64, |(known, _)| *known == id) {
        Some((_, known)) => Some(std::mem::replace(known, place)),
        None => {
            table.insert_unique(id as u64, (id, place), |(known, _)| *known as u64);
            None
        }
    }
}

/// Writes one version 3 file, which holds one sync.
///
/// The file appears under its name when [`finish`](Self::finish) returns, durably; a writer that is dropped before
/// leaves nothing. A second writer of the same file is refused.
///
/// ```
/// use duramen_pack::c1z::{C1z3, C1z3Writer, ReadOptions, WriteOptions};
/// use duramen_pack::graph::{GraphSink, GraphSource, ResourceType, Sync};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("sync.c1z");
/// let mut writer = C1z3Writer::create(&path, &WriteOptions::default())?;
/// writer.begin_sync(&Sync { id: "2aGyRUbxAdE4MTzLqMxgsT1HNjq".to_owned(), ..Sync::default() })?;
/// writer.put_resource_type(&ResourceType { id: "user".to_owned(), ..ResourceType::default() })?;
/// writer.end_sync()?;
/// assert!(writer.losses().is_empty());
/// writer.finish()?;
///
/// let file = C1z3::open(&path, &ReadOptions::default())?;
/// assert_eq!(file.syncs()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct C1z3Writer {
    path: PathBuf,
    temporary: Temporary,
    options: WriteOptions,
    state: State,
    sync: Sync,
    manifest: Vec<u8>,
    losses: Losses,
    rows: Stream,
    indexes: Stream,
    seen: Seen,
    frames: Frames,
    entries: Vec<Entry>,
    /// How long the file is so far.
    offset: u64,
    next_log: u64,
    next_sequence: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl C1z3Writer {
    /// Begins a file. What is there under that name stays until [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// [`C1zError::Locked`] when somebody else writes the same file; [`C1zError::Io`] when the folder does not take it.
    pub fn create(path: &Path, options: &WriteOptions) -> Result<C1z3Writer, C1zError> {
        let temporary = Temporary::create(path).map_err(|error| C1zError::of_pack(error, path))?;
        let frames = Frames::start(options.level).map_err(C1zError::io("starting threads for", path))?;
        Ok(C1z3Writer {
            path: path.to_owned(),
            temporary,
            options: options.clone(),
            state: State::Empty,
            sync: Sync::default(),
            manifest: Vec::new(),
            losses: Losses::default(),
            rows: Stream::default(),
            indexes: Stream::default(),
            seen: Seen::default(),
            frames,
            entries: Vec::new(),
            offset: 0,
            next_log: FIRST_LOG,
            next_sequence: FIRST_SEQUENCE,
            key: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Completes the file: when this returns, it is durable under its name. Gives its length in bytes.
    ///
    /// # Errors
    ///
    /// [`C1zError::Order`] without a sync that has ended; [`C1zError::Io`] when the system fails: the file that was
    /// there before is untouched then.
    pub fn finish(mut self) -> Result<u64, C1zError> {
        self.expect(State::Ended, "finishing the file", "end the sync first")?;
        let path = self.path.clone();
        let next_file = self.next_log;
        let log = edit::write(FIRST_LOG, next_file, self.next_sequence - 1);
        let mut compressor = None;
        for (name, raw) in [(MANIFEST, log.as_slice()), (FORMAT, &[]), (MANIFEST_MARKER, &[])] {
            let frame = super::frames::frame(name.to_owned(), raw, self.options.level, &mut compressor);
            self.write_frame(frame.map_err(C1zError::io("compressing", &path))?)?;
        }
        let tail = envelope::tail(&self.entries, &self.manifest, self.offset);
        self.write(&tail)?;
        let length = self.offset;
        self.temporary.place().map_err(|error| C1zError::of_pack(error, &path))?;
        Ok(length)
    }

    fn expect(&self, state: State, doing: &'static str, reason: &'static str) -> Result<(), C1zError> {
        match self.state {
            State::Poisoned => {
                Err(C1zError::Order { doing, reason: "writing failed before: begin the file again" })
            }
            found if found == state => Ok(()),
            _ => Err(C1zError::Order { doing, reason }),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), C1zError> {
        if let Err(error) = self.temporary.file().write_all(bytes) {
            self.state = State::Poisoned;
            return Err(C1zError::io("writing", &self.path)(error));
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn write_frame(&mut self, frame: Frame) -> Result<(), C1zError> {
        self.entries.push(Entry { offset: self.offset, ..frame.entry });
        self.write(&frame.bytes)
    }

    /// Writes the frames that are ready; with `all`, waits for those that are not.
    fn write_frames(&mut self, all: bool) -> Result<(), C1zError> {
        loop {
            match self.frames.next(all) {
                Ok(Some(frame)) => self.write_frame(frame)?,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.state = State::Poisoned;
                    return Err(C1zError::io("compressing", &self.path)(error));
                }
            }
        }
    }

    /// Hands the log of rows, or the log of indexes, to the threads.
    fn seal(&mut self, indexes: bool) -> Result<(), C1zError> {
        let (batches, ends) = self.frames.buffers();
        let stream = if indexes { &mut self.indexes } else { &mut self.rows };
        stream.close_batch();
        let full = std::mem::replace(stream, Stream { batches, ends, start: 0, count: 0 });
        if full.ends.is_empty() {
            return Ok(());
        }
        let changes: u64 = full.ends.iter().map(|(_, count)| u64::from(*count)).sum();
        let log = Log {
            number: self.next_log,
            sequence: self.next_sequence,
            batches: full.batches,
            ends: full.ends,
        };
        self.next_log += 1;
        self.next_sequence += changes;
        if let Err(error) = self.frames.send(log) {
            self.state = State::Poisoned;
            return Err(C1zError::io("compressing", &self.path)(error));
        }
        self.write_frames(false)
    }

    /// Sets the row `self.key` to `self.value`.
    #[inline]
    fn set_row(&mut self) -> Result<(), C1zError> {
        batch::put_set(&mut self.rows.batches, &self.key, &self.value);
        if self.rows.changed() {
            self.seal(false)?;
        }
        Ok(())
    }

    /// Sets the row `self.key` of an index.
    #[inline]
    fn set_index(&mut self) -> Result<(), C1zError> {
        batch::put_set(&mut self.indexes.batches, &self.key, &[]);
        if self.indexes.changed() {
            self.seal(true)?;
        }
        Ok(())
    }

    fn in_sync(&self) -> Result<(), C1zError> {
        self.expect(State::InSync, "putting a row", "begin a sync first")
    }
}

/// Refuses ids that readers of the ecosystem refuse.
fn check(row: &'static str, id: &str, parts: &[&str]) -> Result<(), C1zError> {
    let bad = |reason: &str| C1zError::Row { row, id: id.to_owned(), reason: reason.to_owned() };
    if parts.iter().any(|part| part.is_empty()) {
        return Err(bad("an id in it is empty; a version 3 file knows rows by their ids"));
    }
    if parts.iter().any(|part| part.len() > ID_BYTES_MAX) {
        return Err(bad("an id in it has more than 1024 bytes"));
    }
    Ok(())
}

impl GraphSink for C1z3Writer {
    type Error = C1zError;

    fn begin_sync(&mut self, sync: &Sync) -> Result<(), C1zError> {
        self.expect(State::Empty, "beginning a sync", "a version 3 file holds one sync: write another file")?;
        check("sync", &sync.id, &[&sync.id])?;
        self.sync = sync.clone();
        self.manifest = envelope::manifest_of(|out| storage::put_sync_summary(out, sync));
        let head = envelope::head(&self.manifest);
        self.write(&head)?;
        self.state = State::InSync;
        for (name, layout) in key::STAMPS {
            self.key.clear();
            self.value.clear();
            key::meta(&mut self.key, name);
            self.value.extend_from_slice(&layout.to_be_bytes());
            self.set_row()?;
        }
        self.key.clear();
        self.value.clear();
        self.key.extend_from_slice(&key::SYNC_RUN);
        storage::put_sync(&mut self.value, sync, &mut self.losses);
        self.set_row()
    }

    fn put_resource_type(&mut self, row: &ResourceType) -> Result<(), C1zError> {
        self.in_sync()?;
        check("resource type", &row.id, &[&row.id])?;
        self.key.clear();
        self.value.clear();
        key::resource_type(&mut self.key, &row.id);
        storage::put_resource_type(&mut self.value, row, &mut self.losses);
        self.set_row()
    }

    fn put_resource(&mut self, row: &Resource) -> Result<(), C1zError> {
        self.in_sync()?;
        let (resource_type, resource) = (&row.id.resource_type, &row.id.resource);
        check("resource", resource, &[resource_type, resource])?;
        self.key.clear();
        self.value.clear();
        key::resource(&mut self.key, resource_type, resource);
        storage::put_resource(&mut self.value, row, &mut self.losses);
        self.set_row()?;
        let before = self.seen.parents.remove(&self.key);
        let own = std::mem::take(&mut self.key);
        if let Some(parent) = &row.parent {
            let parent = (parent.resource_type.as_str(), parent.resource.as_str());
            key::by_parent(&mut self.key, parent, (resource_type, resource));
        }
        if let Some(before) = before.filter(|before| *before != self.key) {
            if self.indexes.delete(&before) {
                self.seal(true)?;
            }
        }
        if row.parent.is_some() {
            self.set_index()?;
            self.seen.parents.insert(own, self.key.clone());
        }
        Ok(())
    }

    fn put_entitlement(&mut self, row: &Entitlement) -> Result<(), C1zError> {
        self.in_sync()?;
        let (resource_type, resource) = (&row.resource.resource_type, &row.resource.resource);
        check("entitlement", &row.id, &[&row.id, resource_type, resource])?;
        self.key.clear();
        self.value.clear();
        key::entitlement(&mut self.key, resource_type, resource, &row.id);
        let place = xxh3_64(&self.key);
        if replace(&mut self.seen.entitlements, &row.id, place).is_some_and(|before| before != place) {
            return Err(moved("entitlement", &row.id));
        }
        storage::put_entitlement(&mut self.value, row, &mut self.losses);
        self.set_row()
    }

    fn put_grant(&mut self, row: &GrantRef<'_>) -> Result<(), C1zError> {
        self.in_sync()?;
        let edge = Edge {
            resource_type: row.resource_type,
            resource: row.resource,
            entitlement: row.entitlement,
            principal_type: row.principal_type,
            principal: row.principal,
        };
        let parts = [
            row.id,
            edge.resource_type,
            edge.resource,
            edge.entitlement,
            edge.principal_type,
            edge.principal,
        ];
        check("grant", row.id, &parts)?;
        self.key.clear();
        self.value.clear();
        edge.grant(&mut self.key);
        let place = xxh3_64(&self.key);
        if replace(&mut self.seen.ids, row.id, place).is_some_and(|before| before != place) {
            return Err(moved("grant", row.id));
        }
        let needs_expansion = row.rest.is_some_and(|rest| rest.needs_expansion);
        let id = xxh3_64(row.id.as_bytes());
        let again = match self.seen.edges.find_mut(place, |(known, _)| *known == place) {
            Some((_, known)) => {
                if std::mem::replace(known, id) != id {
                    self.losses.note("grant", "all but the last of several grants of one edge", row.id);
                }
                true
            }
            None => {
                self.seen.edges.insert_unique(place, (place, id), |(known, _)| *known);
                false
            }
        };
        storage::put_grant(&mut self.value, row, &mut self.losses);
        self.set_row()?;
        if again || needs_expansion {
            self.key.clear();
            edge.needs_expansion(&mut self.key);
            if needs_expansion {
                self.set_index()?;
            } else {
                let key = std::mem::take(&mut self.key);
                if self.indexes.delete(&key) {
                    self.seal(true)?;
                }
                self.key = key;
            }
        }
        if !again {
            self.key.clear();
            edge.by_principal(&mut self.key);
            self.set_index()?;
        }
        Ok(())
    }

    fn put_asset(&mut self, row: &Asset) -> Result<(), C1zError> {
        self.in_sync()?;
        check("asset", &row.id, &[&row.id])?;
        self.key.clear();
        self.value.clear();
        key::asset(&mut self.key, &row.id);
        let sync = std::mem::take(&mut self.sync);
        storage::put_asset(&mut self.value, &sync.id, row);
        self.sync = sync;
        self.set_row()
    }

    fn end_sync(&mut self) -> Result<(), C1zError> {
        self.expect(State::InSync, "ending the sync", "begin a sync first")?;
        self.seal(false)?;
        self.seal(true)?;
        self.write_frames(true)?;
        self.state = State::Ended;
        Ok(())
    }

    fn losses(&self) -> &[Loss] {
        self.losses.all()
    }
}

fn moved(row: &'static str, id: &str) -> C1zError {
    let reason = "it was put before with other parts, and a version 3 file cannot take that back; put the last one only";
    C1zError::Row { row, id: id.to_owned(), reason: reason.to_owned() }
}

impl C1zError {
    /// An error of the file that is being made.
    pub(crate) fn of_pack(error: PackError, path: &Path) -> C1zError {
        match error {
            PackError::Locked { path } => C1zError::Locked { file: path },
            PackError::Io { doing, path, source } => {
                let source = std::io::Error::new(source.kind(), source.to_string());
                C1zError::Io { doing, path, source }
            }
            other => {
                C1zError::Io { doing: "making", path: path.to_owned(), source: std::io::Error::other(other) }
            }
        }
    }
}
