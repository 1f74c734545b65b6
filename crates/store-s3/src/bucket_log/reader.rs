//! The log in the bucket, read by somebody who does not write it, and read on.

use duramen_store::log::{LogDirectory, LogFile};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::found::load;
use super::segment::Segment;
use super::{not_found, segment_name, segment_number};
use crate::bucket::Bucket;
use crate::error::RemoteError;
use crate::piece::{name, Kind, Piece};

/// A log that is only read.
#[derive(Clone)]
pub(crate) struct ReaderLog {
    shared: Arc<Shared>,
}

struct Shared {
    bucket: Bucket,
    state: Mutex<State>,
}

struct State {
    segments: BTreeMap<u64, Arc<Segment>>,
    /// The number of the next object.
    next: u64,
    /// Whether whoever reads on in the last segment has just found nothing: then there is no next segment either.
    is_read: bool,
}

impl ReaderLog {
    /// The log as it is now.
    pub(crate) fn open(bucket: Bucket) -> Result<Self, RemoteError> {
        let found = load(&bucket)?;
        let segments = found.segments.into_iter().map(|(number, segment)| (number, Arc::new(segment)));
        let state = State { segments: segments.collect(), next: found.last + 1, is_read: false };
        Ok(Self { shared: Arc::new(Shared { bucket, state: Mutex::new(state) }) })
    }
}

impl Shared {
    /// Reads what has come since, which is one request if nothing has.
    fn read_on(&self) -> Result<(), RemoteError> {
        let mut state = self.state.lock();
        loop {
            let at = state.next;
            let Some(bytes) = self.bucket.get(&name(at))? else { return Ok(()) };
            let damaged =
                |reason: String| RemoteError::Damaged(format!("object {} of the log", name(at)), reason);
            let piece = Piece::decode(&bytes, at).map_err(damaged)?;
            state.next += 1;
            if piece.kind != Kind::Data {
                continue;
            }
            if piece.offset == 0 {
                let segment = Segment::found(piece.segment, piece.size);
                segment.add_found(at, 0, &piece.bytes);
                state.segments.insert(piece.segment, Arc::new(segment));
                continue;
            }
            let segment = state.segments.get(&piece.segment);
            if !segment.is_some_and(|segment| segment.add_found(at, piece.offset, &piece.bytes)) {
                return Err(damaged("it does not follow on the one before".to_owned()));
            }
        }
    }

    /// Whether a segment that was there has not been released, so that what follows on it would be found.
    fn is_there(&self, number: u64) -> Result<bool, RemoteError> {
        let first = self.state.lock().segments.get(&number).and_then(|segment| segment.first_piece());
        let is_there = match first {
            Some(first) => self.bucket.has(&name(first))?,
            None => false,
        };
        if !is_there {
            self.state.lock().segments.remove(&number);
        }
        Ok(is_there)
    }
}

fn read_only() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl LogDirectory for ReaderLog {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.shared.state.lock().segments.keys().map(|number| segment_name(*number)).collect())
    }

    fn create(&self, _name: &str, _size: u64) -> io::Result<Arc<dyn LogFile>> {
        Err(read_only())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let number = segment_number(name).ok_or_else(|| not_found(name))?;
        let is_known = self.shared.state.lock().segments.contains_key(&number);
        let is_there = match is_known {
            true => self.shared.is_there(number)?,
            false => {
                if !std::mem::take(&mut self.shared.state.lock().is_read) {
                    self.shared.read_on()?;
                }
                true
            }
        };
        let state = self.shared.state.lock();
        let segment = state.segments.get(&number).filter(|_| is_there).cloned();
        let segment = segment.ok_or_else(|| not_found(name))?;
        let is_last = state.segments.keys().next_back() == Some(&number);
        drop(state);
        Ok(Arc::new(ReaderFile { shared: self.shared.clone(), segment, was_last: is_last }))
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Err(read_only())
    }
}

struct ReaderFile {
    shared: Arc<Shared>,
    segment: Arc<Segment>,
    /// Whether there was none after it when it was opened: it may have grown.
    was_last: bool,
}

impl LogFile for ReaderFile {
    fn size(&self) -> io::Result<u64> {
        if self.was_last {
            self.shared.read_on()?;
        }
        self.shared.state.lock().is_read = self.was_last;
        Ok(self.segment.end())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.segment.read(offset, buffer)
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn sync(&self) -> io::Result<()> {
        Err(read_only())
    }
}
