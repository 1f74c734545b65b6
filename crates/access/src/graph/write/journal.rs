//! The journal beside a graph: what was put into the sync that is open, batch by batch.
//!
//! A frame is its length, a hash that also covers where it stands, and its content. Frames that belong together say so,
//! and count only when the last of them is whole: whatever follows the last whole batch is cut off when the journal is
//! opened. Lengths are little-endian. The picture is in `docs/design/access-graph.md`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use duramen_base::entropy;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::graph::error::{io_error, GraphError};
use crate::graph::format::bytes::{put_bytes, put_text, put_u32, put_u64, Reader};
use crate::graph::format::details;
use crate::graph::format::table::Table;
use crate::graph::model::Sync;
use crate::graph::tail::{Tail, TailRow};
use duramen_base::lock::{FileLock, LockError};

const MAGIC: &[u8; 8] = b"DGJOURN1";
/// Magic, id, digest of the graph that it belongs to, and a hash of these.
const HEADER_BYTES: usize = 8 + 16 + 32 + 8;
const FRAME_BYTES: usize = 12;
/// What a loss of power leaves as zeros at the least, where a file has grown and its bytes were never written.
const CRASH_BLOCK_BYTES: usize = 4096;
/// Grants of one frame.
const FRAME_ROWS: usize = 1 << 16;
/// The most bytes of one frame: 256 MiB. Longer ones are not believed.
const FRAME_BYTES_MAX: usize = 256 << 20;
/// About so many bytes of a frame are payloads, ids or records: 32 MiB.
const FRAME_PART_BYTES: usize = 32 << 20;

const BEGIN: u8 = 1;
const GRANTS: u8 = 2;
const RECORDS: u8 = 3;
const DELETE_GRANTS: u8 = 4;
const CHECKPOINT: u8 = 5;
const MARKS: u8 = 6;
/// Set beside the kind of a frame when the next one belongs to the same batch.
const MORE: u8 = 0x80;

/// What a frame says.
pub(crate) enum Entry<'a> {
    /// A sync was begun, or one of the graph was opened again.
    Begin { sync: Sync, reopened: bool },
    /// Grants were put.
    Grants(GrantFrame<'a>),
    /// A record was put, or deleted.
    Record { table: Table, key: &'a [u8], value: Option<&'a [u8]> },
    /// A grant was deleted.
    DeleteGrant(&'a str),
    /// The syncing tool said where it stands.
    Checkpoint(&'a str),
    /// The marks of the sync changed.
    Marks(Box<Sync>),
}

/// Grants of one frame, as they lie.
pub(crate) struct GrantFrame<'a>(Reader<'a>);

impl GrantFrame<'_> {
    /// Adds the grants to a tail.
    pub(crate) fn replay(mut self, tail: &mut Tail) -> Result<(), GraphError> {
        let reader = &mut self.0;
        let mut lists = [Vec::new(), Vec::new()];
        for list in &mut lists {
            for _ in 0..reader.count(1)? {
                list.push(reader.bytes()?);
            }
        }
        let [entitlements, principals] = lists;
        let count = reader.count(4)?;
        let mut time = None;
        for _ in 0..count {
            let entitlement = entitlements.get(reader.u32()? as usize).ok_or_else(|| reader.malformed())?;
            let principal = principals.get(reader.u32()? as usize).ok_or_else(|| reader.malformed())?;
            // 0: as before, 1: none, 2: another.
            match reader.u8()? {
                0 => {}
                1 => time = None,
                2 => time = Some(details::time(reader)?),
                _ => return Err(reader.malformed()),
            }
            let payload = match reader.u64()? {
                0 => None,
                len => Some(reader.take(usize::try_from(len - 1).map_err(|_| reader.malformed())?)?),
            };
            tail.push_raw(entitlement, principal, time, payload)?;
        }
        reader.end()
    }
}

/// Where a graph keeps what was put into it and is not in the file yet.
pub(crate) fn journal_of(graph: &Path) -> PathBuf {
    let mut name = graph.file_name().unwrap_or_default().to_owned();
    name.push(".journal");
    graph.with_file_name(name)
}

/// The file, locked, and where the next frame goes.
pub(crate) struct Journal {
    file: FileLock,
    path: PathBuf,
    id: [u8; 16],
    at: u64,
    frame: Vec<u8>,
    numbers: [Numbers; 2],
}

/// Numbers of terms within one frame.
#[derive(Default)]
struct Numbers {
    given: Vec<(u32, u32)>,
    stamp: u32,
    terms: Vec<u32>,
}

impl Numbers {
    fn begin(&mut self, terms: usize) {
        self.stamp += 1;
        self.terms.clear();
        self.given.resize(terms.max(self.given.len()), (0, 0));
    }

    fn number(&mut self, term: u32) -> u32 {
        let (stamp, number) = &mut self.given[term as usize];
        if *stamp != self.stamp {
            (*stamp, *number) = (self.stamp, self.terms.len() as u32);
            self.terms.push(term);
        }
        *number
    }
}

impl Journal {
    /// Opens the journal of a graph, making it if there is none, and locks it against a second writer.
    pub(crate) fn open(graph: &Path) -> Result<Self, GraphError> {
        let path = journal_of(graph);
        let file = FileLock::open(&path).map_err(|error| match error {
            LockError::Held => GraphError::Locked { path: graph.to_owned() },
            LockError::Io(_, error) => io_error("open the journal", &path)(error),
        })?;
        let (id, numbers) = (entropy::random_bytes(), Default::default());
        Ok(Journal { file, path, id, at: 0, frame: Vec::new(), numbers })
    }

    pub(crate) fn id(&self) -> [u8; 16] {
        self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what an earlier writer left: calls `visit` with every entry of every whole batch, cuts off the rest, and
    /// goes on after. `belongs` decides by id and digest whether the journal is of this state of the graph: an error
    /// stops, false throws it away.
    pub(crate) fn replay(
        &mut self,
        belongs: impl FnOnce([u8; 16], [u8; 32]) -> Result<bool, GraphError>,
        mut visit: impl FnMut(Entry<'_>) -> Result<(), GraphError>,
    ) -> Result<u64, GraphError> {
        let failed = |path: &Path| io_error("read the journal", path);
        let size = self.file.metadata().map_err(failed(&self.path))?.len();
        let mut block = [0; CRASH_BLOCK_BYTES];
        let block = &mut block[..size.min(CRASH_BLOCK_BYTES as u64) as usize];
        self.file.read_exact_at(block, 0).map_err(failed(&self.path))?;
        let is_lost = block.iter().all(|byte| *byte == 0);
        let magic = &MAGIC[..block.len().min(MAGIC.len())];
        if !is_lost && !block.starts_with(magic) {
            return Err(GraphError::NotAJournal { path: self.path.clone() });
        }
        let Some(header) = block.first_chunk::<HEADER_BYTES>().filter(|_| !is_lost) else {
            // Begun and not even headed: nothing was ever promised.
            self.clear()?;
            return Ok(size);
        };
        let hash = xxh3_64_with_seed(&header[..HEADER_BYTES - 8], 0).to_le_bytes();
        if header[HEADER_BYTES - 8..] != hash {
            return Err(GraphError::ForeignJournal { path: self.path.clone() });
        }
        let mut id = [0; 16];
        id.copy_from_slice(&header[8..24]);
        let mut base = [0; 32];
        base.copy_from_slice(&header[24..56]);
        if !belongs(id, base)? {
            self.clear()?;
            return Ok(0);
        }
        self.id = id;
        self.at = self.whole(size)?;
        let mut at = HEADER_BYTES as u64;
        let mut payload = Vec::new();
        while at < self.at {
            let next = read_frame(&self.file, at, size, &mut payload).map_err(failed(&self.path))?;
            let Some(next) = next else { break };
            entries(&payload, &mut visit)?;
            at = next;
        }
        if self.at < size {
            self.file
                .set_len(self.at)
                .map_err(io_error("cut off an unfinished batch of the journal", &self.path))?;
        }
        Ok(size - self.at)
    }

    /// Where the last whole batch ends.
    fn whole(&self, size: u64) -> Result<u64, GraphError> {
        let mut at = HEADER_BYTES as u64;
        let mut whole = at;
        let mut payload = Vec::new();
        loop {
            let next = read_frame(&self.file, at, size, &mut payload);
            let Some(next) = next.map_err(io_error("read the journal", &self.path))? else {
                return Ok(whole);
            };
            at = next;
            if payload.first().is_some_and(|kind| kind & MORE == 0) {
                whole = at;
            }
        }
    }

    /// Heads the journal for a graph of this digest. What it held before is gone.
    pub(crate) fn begin(&mut self, base: [u8; 32]) -> Result<(), GraphError> {
        self.clear()?;
        self.id = entropy::random_bytes();
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&self.id);
        header.extend_from_slice(&base);
        let hash = xxh3_64_with_seed(&header, 0);
        header.extend_from_slice(&hash.to_le_bytes());
        self.file.write_all_at(&header, 0).map_err(io_error("write the journal", &self.path))?;
        self.at = HEADER_BYTES as u64;
        Ok(())
    }

    /// Empties it: what it held is in the graph, or given up.
    pub(crate) fn clear(&mut self) -> Result<(), GraphError> {
        self.file.set_len(0).map_err(io_error("empty the journal", &self.path))?;
        self.at = 0;
        Ok(())
    }

    /// Removes it, if nothing is in it.
    pub(crate) fn remove_if_empty(self) {
        // Under the lock, so that it is nobody else's. A journal without content that stays does no harm.
        if self.file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Makes durable what was written.
    pub(crate) fn sync(&self) -> Result<(), GraphError> {
        self.file.sync_data().map_err(io_error("make the journal durable", &self.path))?;
        // Its name too: the file may be new.
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(io_error("make durable the folder", folder))
    }

    fn start(&mut self, kind: u8) {
        self.frame.clear();
        self.frame.resize(FRAME_BYTES, 0);
        self.frame.push(kind);
    }

    fn append(&mut self) -> Result<(), GraphError> {
        let len = self.frame.len() - FRAME_BYTES;
        if len > FRAME_BYTES_MAX {
            let (size, limit) = (len as u64, FRAME_BYTES_MAX as u64);
            return Err(GraphError::TooLarge { what: "a batch of the journal", size, limit });
        }
        let hash = xxh3_64_with_seed(&self.frame[FRAME_BYTES..], self.at);
        self.frame[..4].copy_from_slice(&(len as u32).to_le_bytes());
        self.frame[4..FRAME_BYTES].copy_from_slice(&hash.to_le_bytes());
        self.file.write_all_at(&self.frame, self.at).map_err(io_error("write the journal", &self.path))?;
        self.at += self.frame.len() as u64;
        Ok(())
    }

    pub(crate) fn begin_sync(&mut self, sync: &Sync, reopened: bool) -> Result<(), GraphError> {
        self.start(BEGIN);
        self.frame.push(u8::from(reopened));
        details::put_sync(&mut self.frame, sync);
        self.append()
    }

    pub(crate) fn checkpoint(&mut self, token: &str) -> Result<(), GraphError> {
        self.start(CHECKPOINT);
        put_text(&mut self.frame, token);
        self.append()
    }

    pub(crate) fn marks(&mut self, sync: &Sync) -> Result<(), GraphError> {
        self.start(MARKS);
        details::put_sync(&mut self.frame, sync);
        self.append()
    }

    /// Deletions of grants, of one batch.
    pub(crate) fn delete_grants(&mut self, ids: &[&str]) -> Result<(), GraphError> {
        let mut left = ids;
        loop {
            let (now, later) = frame_part(left, |id| id.len());
            self.start(DELETE_GRANTS | if later.is_empty() { 0 } else { MORE });
            now.iter().for_each(|id| put_text(&mut self.frame, id));
            self.append()?;
            left = later;
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    /// Records of one batch: puts, or with `None` deletions.
    pub(crate) fn records(
        &mut self,
        table: Table,
        records: &[(Vec<u8>, Option<Vec<u8>>)],
    ) -> Result<(), GraphError> {
        let mut left = records;
        loop {
            let (now, later) =
                frame_part(left, |(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
            self.start(RECORDS | if later.is_empty() { 0 } else { MORE });
            self.frame.push(table as u8);
            for (key, value) in now {
                put_bytes(&mut self.frame, key);
                self.frame.push(u8::from(value.is_some()));
                if let Some(value) = value {
                    put_bytes(&mut self.frame, value);
                }
            }
            self.append()?;
            left = later;
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    /// The grants of a tail from a row on, as one batch. After an error nothing of it counts.
    pub(crate) fn grants(&mut self, tail: &Tail, from: usize) -> Result<(), GraphError> {
        let mut begin = from;
        while begin < tail.rows.len() {
            let end = frame_end(tail, begin);
            self.grant_frame(tail, begin, end)?;
            begin = end;
        }
        Ok(())
    }

    fn grant_frame(&mut self, tail: &Tail, begin: usize, end: usize) -> Result<(), GraphError> {
        let rows = &tail.rows[begin..end];
        self.start(GRANTS | if end < tail.rows.len() { MORE } else { 0 });
        let [entitlements, principals] = &mut self.numbers;
        entitlements.begin(tail.entitlements.len());
        principals.begin(tail.principals.len());
        for row in rows {
            entitlements.number(row.entitlement);
            principals.number(row.principal);
        }
        put_u64(&mut self.frame, entitlements.terms.len() as u64);
        entitlements.terms.iter().for_each(|term| put_bytes(&mut self.frame, tail.entitlements.get(*term)));
        put_u64(&mut self.frame, principals.terms.len() as u64);
        principals.terms.iter().for_each(|term| put_bytes(&mut self.frame, tail.principals.get(*term)));
        put_u64(&mut self.frame, rows.len() as u64);
        let mut last = None;
        for row in rows {
            put_u32(&mut self.frame, entitlements.number(row.entitlement));
            put_u32(&mut self.frame, principals.number(row.principal));
            let time = tail.time(row);
            match time {
                same if same == last => self.frame.push(0),
                None => self.frame.push(1),
                Some(time) => {
                    self.frame.push(2);
                    details::put_time(&mut self.frame, time);
                }
            }
            last = time;
            match tail.payload(row) {
                None => self.frame.push(0),
                Some(payload) => {
                    put_u64(&mut self.frame, payload.len() as u64 + 1);
                    self.frame.extend_from_slice(payload);
                }
            }
        }
        self.append()
    }
}

/// What goes into one frame of the rows that are left, and what stays for the next: few megabytes, and one row at least.
fn frame_part<T>(rows: &[T], bytes_of: impl Fn(&T) -> usize) -> (&[T], &[T]) {
    let mut bytes = 0;
    let fits = |row: &&T| {
        bytes += bytes_of(row);
        bytes < FRAME_PART_BYTES
    };
    rows.split_at(rows.iter().take_while(fits).count().max(1).min(rows.len()))
}

/// Where the frame of grants ends that begins with a row.
pub(crate) fn frame_end(tail: &Tail, begin: usize) -> usize {
    // As long as all terms together are not many bytes, those of a frame are not: then they need not be looked at.
    let terms = tail.entitlements.bytes() + tail.principals.bytes() > 2 * FRAME_PART_BYTES;
    let bytes_of = |row: &TailRow| {
        let payload = tail.payload(row).map_or(0, <[u8]>::len);
        match terms {
            true => {
                let entitlement = tail.entitlements.get(row.entitlement).len();
                payload + entitlement + tail.principals.get(row.principal).len()
            }
            false => payload,
        }
    };
    let rows = &tail.rows[begin..tail.rows.len().min(begin + FRAME_ROWS)];
    begin + frame_part(rows, bytes_of).0.len()
}

/// Reads the frame at a place, and says where the next one is; none if there is no whole one.
fn read_frame(file: &File, at: u64, size: u64, payload: &mut Vec<u8>) -> std::io::Result<Option<u64>> {
    let mut head = [0; FRAME_BYTES];
    if size < at + FRAME_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut head, at)?;
    let len = u64::from(u32::from_le_bytes([head[0], head[1], head[2], head[3]]));
    let begin = at + FRAME_BYTES as u64;
    if len == 0 || len > FRAME_BYTES_MAX as u64 || size - begin < len {
        return Ok(None);
    }
    payload.resize(len as usize, 0);
    file.read_exact_at(payload, begin)?;
    let hash = xxh3_64_with_seed(payload, at).to_le_bytes();
    Ok((head[4..] == hash).then_some(begin + len))
}

fn entries(
    payload: &[u8],
    visit: &mut impl FnMut(Entry<'_>) -> Result<(), GraphError>,
) -> Result<(), GraphError> {
    let mut reader = Reader::new(payload, "a frame of the journal");
    match reader.u8()? & !MORE {
        BEGIN => {
            let reopened = reader.u8()? != 0;
            let sync = details::sync(&mut reader)?;
            reader.end()?;
            visit(Entry::Begin { sync, reopened })
        }
        GRANTS => visit(Entry::Grants(GrantFrame(reader))),
        RECORDS => {
            let table = Table::from_number(reader.u8()?).ok_or_else(|| reader.malformed())?;
            while !reader.is_empty() {
                let key = reader.bytes()?;
                let value = if reader.u8()? != 0 { Some(reader.bytes()?) } else { None };
                visit(Entry::Record { table, key, value })?;
            }
            Ok(())
        }
        DELETE_GRANTS => {
            while !reader.is_empty() {
                visit(Entry::DeleteGrant(reader.text()?))?;
            }
            Ok(())
        }
        MARKS => {
            let sync = details::sync(&mut reader)?;
            reader.end()?;
            visit(Entry::Marks(Box::new(sync)))
        }
        CHECKPOINT => {
            let token = reader.text()?;
            reader.end()?;
            visit(Entry::Checkpoint(token))
        }
        _ => Err(reader.malformed()),
    }
}
