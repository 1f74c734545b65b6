//! The state of an open log: the buffer, the current segment, and how far the records have come.

use std::collections::VecDeque;

use duramen_base::entropy;

use super::directory::LogFile;
use super::error::LogError;
use super::format::{
    encode_goes_on, encode_record, SegmentHeader, BODY_BYTES_MAX, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES,
};
use super::group::{Claim, Turns};
use super::pool::Pool;
use super::recover::{segment_name, Closed, Recovered};
use crate::sync::{clock, Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};

/// The size of the first segment of a log at most, in bytes, so that a small store is made fast.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;
/// From here on a commit that promises nothing hands the buffer over, in bytes.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// From here on such a commit waits for whoever is writing, so that the buffer cannot grow without end.
const BUFFER_BYTES_MAX: usize = 8 << 20;
/// A buffer that has grown beyond this is given back after it was written, in bytes.
const BUFFER_KEPT_MAX: usize = 4 << 20;
/// The sizes of segments are multiples of this, in bytes.
const SEGMENT_UNIT: u64 = 4096;

/// A segment as the records for it are made: its file may not be there yet.
#[derive(Debug, Clone, Copy)]
struct Plan {
    header: SegmentHeader,
    size: u64,
}

/// The rest of a segment that is full, or that was closed.
struct Chunk {
    plan: Plan,
    offset: u64,
    bytes: Vec<u8>,
    last: u64,
}

/// What was appended and not yet written.
struct Pending {
    bytes: Vec<u8>,
    /// Where in the segment the bytes go.
    offset: u64,
    plan: Plan,
    /// What goes to earlier segments.
    sealed: Vec<Chunk>,
    last: u64,
    appends: u64,
    closed: bool,
    claim: Claim,
}

/// The segment that is being written.
pub(crate) struct Writer {
    number: u64,
    salt: u64,
    size: u64,
    file: Arc<dyn LogFile>,
    /// Where the bytes end that have been written.
    end: u64,
    /// The other buffer: empty between writes.
    buffer: Vec<u8>,
    asked: bool,
}

/// Why a log takes no more records.
enum Stopped {
    Closed,
    /// By another writer, and by which.
    Fenced(String),
    /// The text of the first error.
    Failed(String),
}

/// The part of a log that its threads share.
pub(crate) struct Core {
    segment_bytes: u64,
    pool: Pool,
    writer: Mutex<Writer>,
    pending: Mutex<Pending>,
    closed: Mutex<VecDeque<Closed>>,
    releasing: Mutex<()>,
    pending_bytes: AtomicUsize,
    last: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
    /// The bytes of all records in the log, with those that were found in it and those since released.
    bytes: AtomicU64,
    bytes_found: u64,
    released: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    sync_nanos: AtomicU64,
    /// One sync at a time, so that an error which the disk reports only once cannot pass by unseen.
    syncing: Mutex<()>,
    is_poisoned: AtomicBool,
    /// Whether segments that are begun now are the last ones.
    is_ending: AtomicBool,
    stopped: Mutex<Option<Stopped>>,
    turns: Turns,
}

/// What a log has done since it was opened. See [`Log::counters`](super::Log::counters).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Records appended.
    pub appends: u64,
    /// Calls that wrote to a segment, with those that wrote its header.
    pub writes: u64,
    /// Calls that made a segment durable.
    pub syncs: u64,
    /// Bytes of the records appended, with their headers.
    pub bytes: u64,
    /// Time spent in the calls counted in `syncs`, in nanoseconds.
    pub sync_nanos: u64,
}

impl Core {
    pub(crate) fn new(pool: Pool, segment_bytes: u64, found: Recovered) -> Result<Self, LogError> {
        let (plan, file, tail) = match found.current {
            Some(current) => {
                let header = SegmentHeader { number: current.number, salt: current.salt, first: 1 };
                (Plan { header, size: current.size }, current.file, current.tail)
            }
            None => {
                // A small store should not have to wait for, nor pay for, a large segment.
                let size = segment_bytes.min(FIRST_SEGMENT_BYTES);
                let plan = Plan { header: new_header(found.next_number, found.last + 1), size };
                let file = open_segment(&pool, &plan)?;
                (plan, file, SEGMENT_HEADER_BYTES as u64)
            }
        };
        let last = found.last;
        let pending = Pending {
            bytes: Vec::with_capacity(64 << 10),
            offset: tail,
            plan,
            sealed: Vec::new(),
            last,
            appends: 0,
            closed: false,
            claim: Claim::new(last),
        };
        let buffer = Vec::with_capacity(64 << 10);
        let SegmentHeader { number, salt, .. } = plan.header;
        let writer = Writer { number, salt, size: plan.size, file, end: tail, buffer, asked: false };
        Ok(Self {
            segment_bytes,
            pool,
            writer: Mutex::new(writer),
            pending: Mutex::new(pending),
            closed: Mutex::new(found.closed),
            releasing: Mutex::new(()),
            pending_bytes: AtomicUsize::new(0),
            last: AtomicU64::new(last),
            written: AtomicU64::new(last),
            durable: AtomicU64::new(last),
            bytes: AtomicU64::new(found.bytes),
            bytes_found: found.bytes,
            released: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            sync_nanos: AtomicU64::new(0),
            syncing: Mutex::new(()),
            is_poisoned: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            stopped: Mutex::new(None),
            turns: Turns::default(),
        })
    }

    /// The last version that was appended.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// The last version that the operating system has.
    #[inline]
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// The last version that is durable.
    #[inline]
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn is_durable(&self, last: u64) -> bool {
        self.durable() >= last
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The right to write to the current segment. Taken before `pending` where both are.
    pub(crate) fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    #[inline]
    pub(crate) fn append(&self, count: u32, body: &[u8]) -> Result<u64, LogError> {
        if body.len() > BODY_BYTES_MAX {
            return Err(LogError::TooLarge { bytes: body.len(), max: BODY_BYTES_MAX });
        }
        let size = RECORD_HEADER_BYTES + body.len();
        let durable = self.durable();
        let mut pending = self.pending.lock();
        if self.is_poisoned.load(Ordering::Relaxed) || pending.closed {
            return Err(self.refusal());
        }
        let before = pending.last;
        let last = match before.checked_add(u64::from(count)) {
            // One is left, so that the version after the last can always be said.
            Some(last) if count > 0 && last < u64::MAX => last,
            _ => return Err(LogError::Versions { count, last: before }),
        };
        // Room is left for the mark of the end.
        if pending.offset + (pending.bytes.len() + size + RECORD_HEADER_BYTES) as u64 > pending.plan.size {
            self.seal(&mut pending, size as u64);
        }
        let salt = pending.plan.header.salt;
        encode_record(&mut pending.bytes, salt, before + 1, count, durable, body);
        pending.last = last;
        pending.appends += 1;
        // All of these are written under the lock only, so a load and a store are enough.
        self.last.store(last, Ordering::Release);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + size as u64, Ordering::Relaxed);
        self.pending_bytes.store(self.pending_bytes.load(Ordering::Relaxed) + size, Ordering::Relaxed);
        Ok(before + 1)
    }

    /// The size of a segment that is to be small.
    fn first_bytes(&self) -> u64 {
        self.segment_bytes.min(FIRST_SEGMENT_BYTES)
    }

    /// Ends the segment of the pending records; the next one has room for a record of `size` bytes.
    #[cold]
    fn seal(&self, pending: &mut Pending, size: u64) {
        let marks = (SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES) as u64;
        let needed = (marks + size).next_multiple_of(SEGMENT_UNIT);
        let header = new_header(pending.plan.header.number + 1, pending.last + 1);
        let is_ending = self.is_ending.load(Ordering::Relaxed);
        let usual = if is_ending { self.first_bytes() } else { self.segment_bytes };
        let plan = Plan { header, size: usual.max(needed) };
        let chunk = Chunk {
            plan: std::mem::replace(&mut pending.plan, plan),
            offset: std::mem::replace(&mut pending.offset, SEGMENT_HEADER_BYTES as u64),
            bytes: std::mem::take(&mut pending.bytes),
            last: pending.last,
        };
        pending.sealed.push(chunk);
    }

    /// Waits until the operating system has the record that ends at `last`.
    #[inline]
    pub(crate) fn wait_written(&self, last: u64) -> Result<(), LogError> {
        if self.written() >= last {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        if self.written() >= last {
            return Ok(());
        }
        self.flush(&mut writer, false).map(drop)
    }

    /// Hands what is pending to the operating system if it has grown large: if nobody is writing, or else if there is
    /// so much that somebody must.
    #[inline]
    pub(crate) fn relieve(&self) -> Result<(), LogError> {
        let pending = self.pending_bytes.load(Ordering::Relaxed);
        if pending > BUFFER_BYTES {
            return self.flush_large(pending);
        }
        self.check()
    }

    #[cold]
    fn flush_large(&self, pending: usize) -> Result<(), LogError> {
        let full = pending > BUFFER_BYTES_MAX;
        let writer = if full { Some(self.writer.lock()) } else { self.writer.try_lock() };
        match writer {
            Some(mut writer) => self.flush(&mut writer, false).map(drop),
            None => self.check(),
        }
    }

    /// Hands all that is pending to the operating system. With `claim`, also begins the turn of a group, of which a
    /// sync follows. Returns the last version that was handed over.
    pub(crate) fn flush(&self, writer: &mut Writer, claim: bool) -> Result<u64, LogError> {
        let mut pending = self.pending.lock();
        if self.is_poisoned.load(Ordering::Relaxed) {
            return Err(self.refusal());
        }
        std::mem::swap(&mut pending.bytes, &mut writer.buffer);
        let sealed = if pending.sealed.is_empty() { Vec::new() } else { std::mem::take(&mut pending.sealed) };
        let (offset, plan, last) = (pending.offset, pending.plan, pending.last);
        pending.offset += writer.buffer.len() as u64;
        self.pending_bytes.store(0, Ordering::Relaxed);
        if claim {
            pending.claim.begin(last);
        }
        drop(pending);
        let bytes = std::mem::take(&mut writer.buffer);
        let done = self.write_all(writer, sealed, plan, offset, &bytes, last);
        writer.buffer = if bytes.capacity() > BUFFER_KEPT_MAX { Vec::new() } else { bytes };
        writer.buffer.clear();
        done.map(|()| last).map_err(|error| self.poison(error))
    }

    fn write_all(
        &self,
        writer: &mut Writer,
        sealed: Vec<Chunk>,
        plan: Plan,
        offset: u64,
        bytes: &[u8],
        last: u64,
    ) -> Result<(), LogError> {
        for chunk in sealed {
            self.enter(writer, &chunk.plan)?;
            self.write(writer, chunk.offset, &chunk.bytes)?;
            self.written.store(chunk.last, Ordering::Release);
        }
        self.enter(writer, &plan)?;
        self.write(writer, offset, bytes)?;
        self.written.store(last, Ordering::Release);
        if !writer.asked && writer.end > plan.size / 2 {
            writer.asked = true;
            self.pool.want();
        }
        Ok(())
    }

    fn write(&self, writer: &mut Writer, offset: u64, bytes: &[u8]) -> Result<(), LogError> {
        if !bytes.is_empty() {
            self.writes.fetch_add(1, Ordering::Relaxed);
            let done = writer.file.write_at(offset, bytes);
            done.map_err(|source| LogError::io("write", segment_name(writer.number))(source))?;
            writer.end = offset + bytes.len() as u64;
        }
        Ok(())
    }

    /// Makes the segment of `plan` the one that is written, if it is not yet. The one before is made durable first,
    /// so that a record is never in a segment after one that lacks a record.
    fn enter(&self, writer: &mut Writer, plan: &Plan) -> Result<(), LogError> {
        if writer.number == plan.header.number {
            return Ok(());
        }
        self.sync_file(&writer.file, writer.number, self.written())?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let file = open_segment(&self.pool, plan)?;
        // Only now, so that the mark never promises what is not there. Nothing waits for it: it is for whoever misses
        // the next segment later.
        if writer.end + RECORD_HEADER_BYTES as u64 <= writer.size {
            let mut mark = Vec::new();
            encode_goes_on(&mut mark, writer.salt, plan.header.first);
            let done = writer.file.write_at(writer.end, &mark);
            done.map_err(|source| LogError::io("write", segment_name(writer.number))(source))?;
        }
        let bytes = writer.end - SEGMENT_HEADER_BYTES as u64;
        self.closed.lock().push_back(Closed { number: writer.number, last: plan.header.first - 1, bytes });
        (writer.number, writer.salt, writer.size) = (plan.header.number, plan.header.salt, plan.size);
        writer.file = file;
        writer.end = SEGMENT_HEADER_BYTES as u64;
        writer.asked = false;
        Ok(())
    }

    /// Makes a segment durable, and with it all records up to `upto`, which the caller has seen written to it or to an
    /// earlier one.
    pub(crate) fn sync_file(&self, file: &Arc<dyn LogFile>, number: u64, upto: u64) -> Result<(), LogError> {
        let turn = self.syncing.lock();
        self.check()?;
        if self.is_durable(upto) {
            return Ok(());
        }
        let begin = clock::now();
        let done = file.sync();
        let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_nanos.fetch_add(nanos, Ordering::Relaxed);
        match done {
            Ok(()) => {
                self.durable.fetch_max(upto, Ordering::AcqRel);
                Ok(())
            }
            Err(error) => {
                // Before the lock is given back: who comes next might take it that all is well.
                let error = self.poison(LogError::io("sync", segment_name(number))(error));
                drop(turn);
                Err(error)
            }
        }
    }

    /// Makes the current segment durable with all that was written to it.
    pub(crate) fn sync_written(&self, writer: &Writer, upto: u64) -> Result<(), LogError> {
        self.sync_file(&writer.file, writer.number, upto)
    }

    /// The number of the segment and its file, for a sync without the lock.
    pub(crate) fn current(writer: &Writer) -> (u64, Arc<dyn LogFile>) {
        (writer.number, writer.file.clone())
    }

    /// The segment to which the next record goes, if it fits.
    pub(crate) fn segment(&self) -> u64 {
        self.pending.lock().plan.header.number
    }

    /// Ends the current segment, unless there is nothing in it.
    pub(crate) fn rotate(&self) -> Result<(), LogError> {
        let mut writer = self.writer.lock();
        let mut pending = self.pending.lock();
        let is_ending = self.is_ending.load(Ordering::Relaxed);
        let is_empty = pending.offset + pending.bytes.len() as u64 <= SEGMENT_HEADER_BYTES as u64;
        if !is_empty || (is_ending && pending.plan.size > self.first_bytes()) {
            self.seal(&mut pending, 0);
        }
        drop(pending);
        self.flush(&mut writer, false).map(drop)
    }

    /// Frees the segments that hold no version after `version`, one caller at a time.
    pub(crate) fn release(&self, version: u64) -> Result<(), LogError> {
        let _turn = self.releasing.lock();
        loop {
            self.check()?;
            let oldest = self.closed.lock().front().copied();
            let Some(oldest) = oldest.filter(|oldest| oldest.last <= version) else { return Ok(()) };
            self.pool.recycle(oldest.number).map_err(|error| self.poison(error))?;
            self.closed.lock().pop_front();
            self.released.fetch_add(oldest.bytes, Ordering::Relaxed);
        }
    }

    /// Gives back the spare files, and makes segments from now on no longer than that of a new log: before the
    /// checkpoint that comes before [`close`](Self::close).
    pub(crate) fn expect_end(&self) -> Result<(), LogError> {
        self.is_ending.store(true, Ordering::Relaxed);
        self.check()?;
        self.pool.give_back().map_err(|error| self.poison(error))
    }

    /// Takes no more records, makes all durable, and marks the clean end, so that the next opening need not search.
    pub(crate) fn close(&self) -> Result<(), LogError> {
        let mut writer = self.writer.lock();
        self.pending.lock().closed = true;
        let last = self.flush(&mut writer, false)?;
        self.sync_written(&writer, last)?;
        let pending = self.pending.lock();
        let (plan, offset) = (pending.plan, pending.offset);
        drop(pending);
        if offset + RECORD_HEADER_BYTES as u64 <= plan.size {
            let mut mark = Vec::new();
            encode_record(&mut mark, plan.header.salt, last + 1, 0, last, &[]);
            let end = writer.end;
            let done = self.write(&mut writer, offset, &mark).and_then(|()| {
                self.syncs.fetch_add(1, Ordering::Relaxed);
                writer.file.sync().map_err(LogError::io("sync", segment_name(writer.number)))
            });
            writer.end = end;
            done.map_err(|error| self.poison(error))?;
        }
        self.stop(|| Stopped::Closed);
        Ok(())
    }

    /// What the sync that began last covers.
    pub(crate) fn claim(&self) -> Claim {
        self.pending.lock().claim
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(crate) fn counters(&self) -> LogCounters {
        let pending = self.pending.lock();
        LogCounters {
            appends: pending.appends,
            writes: self.writes.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed) - self.bytes_found,
            sync_nanos: self.sync_nanos.load(Ordering::Relaxed),
        }
    }

    /// The bytes of the records that are not released.
    pub(crate) fn bytes_held(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).saturating_sub(self.released.load(Ordering::Relaxed))
    }

    /// Refuses if the log is poisoned.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), LogError> {
        if self.is_poisoned.load(Ordering::Acquire) {
            return Err(self.refusal());
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self) -> LogError {
        let first = match &*self.stopped.lock() {
            Some(Stopped::Fenced(by)) => return LogError::Fenced { by: by.clone() },
            Some(Stopped::Failed(first)) => first.clone(),
            Some(Stopped::Closed) => "it was closed".to_owned(),
            None => "it is being closed".to_owned(),
        };
        LogError::Poisoned { first }
    }

    pub(crate) fn poisoned(&self) -> Option<LogError> {
        self.check().err()
    }

    /// Keeps the error if it is the first, wakes all who wait, and gives it back.
    #[cold]
    pub(crate) fn poison(&self, error: LogError) -> LogError {
        self.stop(|| match &error {
            LogError::Fenced { by } => Stopped::Fenced(by.clone()),
            LogError::Poisoned { first } => Stopped::Failed(first.clone()),
            error => Stopped::Failed(error.to_string()),
        });
        error
    }

    /// Takes no more records, for the first reason that is given, and wakes all who wait.
    fn stop(&self, reason: impl FnOnce() -> Stopped) {
        self.stopped.lock().get_or_insert_with(reason);
        self.is_poisoned.store(true, Ordering::Release);
        self.turns.wake_all();
    }
}

fn new_header(number: u64, first: u64) -> SegmentHeader {
    SegmentHeader { number, salt: u64::from_le_bytes(entropy::random_bytes()), first }
}

/// Makes a spare file the segment of `plan`. It gets its name after its header is durable.
fn open_segment(pool: &Pool, plan: &Plan) -> Result<Arc<dyn LogFile>, LogError> {
    let spare = pool.take(plan.size)?;
    let name = segment_name(plan.header.number);
    spare.file.write_at(0, &plan.header.encode()).map_err(LogError::io("write", spare.name.clone()))?;
    spare.file.sync().map_err(LogError::io("sync", spare.name.clone()))?;
    pool.rename(&spare.name, &name)?;
    Ok(spare.file)
}
