//! A segment of the log: a file to the store, and a row of objects in the bucket.

use std::io;
use std::sync::Arc;

use duramen_store::log::LogFile;
use parking_lot::Mutex;

use super::{Place, Shared};
use crate::error::RemoteError;

/// A segment, or a file that waits to become one.
pub(super) struct Segment {
    /// How long it may become, in bytes.
    size: u64,
    state: Mutex<SegmentState>,
    /// One put at a time, so that pieces are in their order.
    putting: Mutex<()>,
}

#[derive(Default)]
struct SegmentState {
    number: Option<u64>,
    /// The objects that go when it goes.
    pieces: Vec<u64>,
    /// What was written and is not put yet. It stands at the end.
    pending: Vec<u8>,
    /// Where what was written ends.
    end: u64,
    /// What was found of it, as long as that is needed.
    found: Option<Vec<u8>>,
    /// Whether another writer wrote it: it is read, and never written.
    is_found: bool,
}

impl Segment {
    /// A file of so many zeros.
    pub(super) fn new(size: u64) -> Self {
        Self { size, state: Mutex::default(), putting: Mutex::new(()) }
    }

    /// What was found of a segment.
    pub(super) fn found(number: u64, size: u64) -> Self {
        let state = SegmentState {
            number: Some(number),
            found: Some(Vec::new()),
            is_found: true,
            ..Default::default()
        };
        Self { size, state: Mutex::new(state), putting: Mutex::new(()) }
    }

    /// Adds what was found next. Whether it follows on what was found before.
    pub(super) fn add_found(&self, at: u64, offset: u64, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.end != offset {
            return false;
        }
        state.end += bytes.len() as u64;
        state.found.get_or_insert_default().extend_from_slice(bytes);
        state.pieces.push(at);
        true
    }

    pub(super) fn add_piece(&self, at: u64) {
        self.state.lock().pieces.push(at);
    }

    pub(super) fn pieces(&self) -> Vec<u64> {
        self.state.lock().pieces.clone()
    }

    /// The first object of it.
    pub(super) fn first_piece(&self) -> Option<u64> {
        self.state.lock().pieces.first().copied()
    }

    pub(super) fn name(&self, number: u64) {
        self.state.lock().number = Some(number);
    }

    pub(super) fn planned(&self) -> u64 {
        self.size
    }

    pub(super) fn forget(&self) {
        self.state.lock().found = None;
    }

    /// Where what is known of it ends.
    pub(super) fn end(&self) -> u64 {
        self.state.lock().end
    }

    /// Puts what was written since the last time.
    pub(super) fn put_pending(&self, shared: &Shared) -> Result<(), RemoteError> {
        let _turn = self.putting.lock();
        let (place, bytes) = {
            let mut state = self.state.lock();
            let Some(segment) = state.number.filter(|_| !state.pending.is_empty()) else { return Ok(()) };
            let bytes = std::mem::take(&mut state.pending);
            (Place { segment, size: self.size, offset: state.end - bytes.len() as u64 }, bytes)
        };
        shared.put_data(self, place, bytes)
    }

    /// Reads what was found, or what is not put yet.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.state.lock();
        let Some(found) = &state.found else {
            let text = "what was put is not read back by the writer";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(found.len());
        let len = buffer.len().min(found.len() - from);
        buffer[..len].copy_from_slice(&found[from..from + len]);
        Ok(len)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.is_found {
            // An opening wipes what it takes for a torn tail, and a closing repeats the mark of the end: pieces are whole, and
            // nothing is ever added to a segment of another writer, so neither changes what is read (L7).
            let end = offset.checked_add(bytes.len() as u64);
            return match end.is_some_and(|end| end <= state.end) {
                true => Ok(()),
                false => Err(out_of_order(offset, state.end)),
            };
        }
        if offset != state.end || offset + bytes.len() as u64 > self.size {
            return Err(out_of_order(offset, state.end));
        }
        state.pending.extend_from_slice(bytes);
        state.end += bytes.len() as u64;
        Ok(())
    }
}

fn out_of_order(offset: u64, end: u64) -> io::Error {
    let text = format!(
        "a segment in a bucket is only appended to: byte {offset} was to be written at its end, {end}"
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// A handle on a segment.
pub(super) struct SegmentFile {
    shared: Arc<Shared>,
    segment: Arc<Segment>,
}

impl SegmentFile {
    pub(super) fn new(shared: Arc<Shared>, segment: Arc<Segment>) -> Self {
        Self { shared, segment }
    }
}

impl LogFile for SegmentFile {
    fn size(&self) -> io::Result<u64> {
        let state = self.segment.state.lock();
        // One of another writer has no room left, so that nothing is added to it.
        Ok(if state.is_found { state.end } else { self.segment.size })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.segment.read(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.segment.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(self.segment.put_pending(&self.shared)?)
    }
}
