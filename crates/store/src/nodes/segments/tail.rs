//! The segment that is written to: nodes behind each other, and commits behind them.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duramen_base::entropy;
use duramen_base::file::{self, WriteBack};
use duramen_base::system::FileAt;
use duramen_tree::{NodeId, NodeStoreError};
use xxhash_rust::xxh3::Xxh3;

use super::commit::{Commit, Place};
use super::format::{padded, Kind, RecordHeader, SegmentHeader, HEADER_BYTES};
use super::index::{segment_name, Segment};
use super::recover::failed;

/// What is written is handed to the operating system in pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;

pub(super) struct Tail {
    segment: Arc<Segment>,
    path: PathBuf,
    /// Bytes that are in the file.
    written: u64,
    /// Bytes that come behind them.
    buffer: Vec<u8>,
    /// Where the last commit begins.
    last_commit: Option<u64>,
    /// Where it ends, and the sum of what was written since.
    since: u64,
    sum: Xxh3,
    /// The piece that is on its way from memory to the disk.
    going: Option<Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    at: u64,
    len: u64,
}

impl Tail {
    /// Makes a segment. Neither it nor its name is durable yet.
    pub(super) fn create(folder: &Path, number: u32) -> Result<Self, NodeStoreError> {
        let path = folder.join(segment_name(number));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| failed(&path, &error))?;
        let salt = u64::from_le_bytes(entropy::random_bytes());
        let mut tail = Self::at(number, salt, file, path, HEADER_BYTES as u64);
        tail.written = 0;
        tail.buffer.extend_from_slice(&SegmentHeader { number, salt }.encode());
        // The header is no part of what a commit vouches for.
        tail.write_buffer()?;
        tail.sum = Xxh3::with_seed(salt);
        Ok(tail)
    }

    /// Goes on in a segment whose last commit ends where the file ends.
    pub(super) fn resume(
        folder: &Path,
        segment: &Segment,
        last_commit: u64,
        len: u64,
    ) -> Result<Self, NodeStoreError> {
        let path = folder.join(segment_name(segment.number));
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| failed(&path, &error))?;
        let mut tail = Self::at(segment.number, segment.salt, file, path, len);
        tail.last_commit = Some(last_commit);
        Ok(tail)
    }

    fn at(number: u32, salt: u64, file: File, path: PathBuf, len: u64) -> Self {
        let segment = Arc::new(Segment { number, salt, file });
        let sum = Xxh3::with_seed(salt);
        Self {
            segment,
            path,
            written: len,
            buffer: Vec::new(),
            last_commit: None,
            since: len,
            sum,
            going: None,
        }
    }

    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The length of the segment, with what is not in the file yet.
    pub(super) fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Whether it takes no more nodes.
    pub(super) fn is_full(&self, target: u64) -> bool {
        self.len() >= target
    }

    pub(super) fn last_commit(&self) -> Option<u64> {
        self.last_commit
    }

    /// Bytes since the last commit: what the next one vouches for.
    pub(super) fn vouches_for(&self) -> u64 {
        self.len() - self.since
    }

    /// Adds a node, which can be read after [`flush`](Self::flush).
    pub(super) fn append(&mut self, id: NodeId, bytes: &[u8]) -> Result<Place, NodeStoreError> {
        let place = Place { segment: self.segment.number, len: self.len_of(bytes)?, at: self.len() };
        let header = RecordHeader { kind: Kind::Node, len: place.len, id };
        self.buffer.extend_from_slice(&header.encode(self.segment.salt, &[]));
        self.buffer.extend_from_slice(bytes);
        self.pad();
        if self.buffer.len() >= PIECE_BYTES {
            self.flush()?;
            self.pace()?;
        }
        Ok(place)
    }

    /// Adds a commit behind what was added before, and makes all of it durable. Returns the length of its record.
    pub(super) fn commit(&mut self, number: u64, commit: Commit) -> Result<u64, NodeStoreError> {
        self.flush()?;
        let at = self.written;
        let commit = Commit { since: self.since, sum: self.sum.digest(), ..commit };
        let body = commit.encode();
        let header = RecordHeader { kind: Kind::Commit, len: self.len_of(&body)?, id: number };
        self.buffer.extend_from_slice(&header.encode(self.segment.salt, &body));
        self.buffer.extend_from_slice(&body);
        self.pad();
        self.buffer.extend_from_slice(&header.size().to_le_bytes());
        self.write_buffer()?;
        self.sync()?;
        self.last_commit = Some(at);
        self.since = self.written;
        self.going = None;
        self.sum = Xxh3::with_seed(self.segment.salt);
        Ok(header.size())
    }

    /// Hands what was added to the operating system.
    pub(super) fn flush(&mut self) -> Result<(), NodeStoreError> {
        self.sum.update(&self.buffer);
        self.write_buffer()
    }

    /// Has what was flushed go to the disk, and waits for the piece before: so that there is never much for a sync to
    /// wait behind, that of a strict commit to the log included.
    fn pace(&mut self) -> Result<(), NodeStoreError> {
        let from = self.going.map_or(self.since, |piece| piece.at + piece.len).min(self.written);
        let next = Piece { at: from, len: self.written - from };
        let file = &self.segment.file;
        let mut done = file::write_back(file, next.at, next.len, WriteBack::Begin);
        if let Some(last) = self.going.replace(next) {
            done = done.and_then(|()| file::write_back(file, last.at, last.len, WriteBack::Finish));
        }
        done.map_err(|error| failed(&self.path, &error))
    }

    /// Makes all of it durable, and ends it. Returns its length.
    pub(super) fn close(mut self) -> Result<u64, NodeStoreError> {
        self.flush()?;
        self.sync()?;
        Ok(self.written)
    }

    fn write_buffer(&mut self) -> Result<(), NodeStoreError> {
        let done = self.segment.file.write_all_at(&self.buffer, self.written);
        done.map_err(|error| failed(&self.path, &error))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn sync(&self) -> Result<(), NodeStoreError> {
        self.segment.file.sync_data().map_err(|error| failed(&self.path, &error))
    }

    fn pad(&mut self) {
        // Where the buffer begins is a multiple, too.
        let len = padded(self.buffer.len() as u64) as usize;
        self.buffer.resize(len, 0);
    }

    fn len_of(&self, bytes: &[u8]) -> Result<u32, NodeStoreError> {
        u32::try_from(bytes.len()).map_err(|_| {
            let text = format!("{}: a record of {} bytes is too long", self.path.display(), bytes.len());
            std::io::Error::new(std::io::ErrorKind::FileTooLarge, text).into()
        })
    }
}
