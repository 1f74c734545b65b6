//! Reading on in a log that another process writes.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::directory::{LogDirectory, LogFile};
use super::error::LogError;
use super::format::{SegmentHeader, SEGMENT_HEADER_BYTES};
use super::recover::{segment_name, Current};
use super::scan::Walk;

/// Where a log was read up to.
pub(crate) struct LogTail {
    dir: Arc<dyn LogDirectory>,
    number: u64,
    salt: u64,
    file: Arc<dyn LogFile>,
    offset: u64,
    /// The version with which the next record begins.
    next: u64,
}

/// How a reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// There is nothing more yet, or whoever takes the records wants no more now.
    UpToDate,
    /// The segment was released, or what is there does not follow: only a checkpoint leads on.
    Lost,
}

/// Takes the records that follow: first version, count of versions, body.
pub(crate) type Follow<'f> = dyn FnMut(u64, u32, &[u8]) -> Result<ControlFlow<()>, LogError> + 'f;

impl LogTail {
    /// The end of a log that was read for the last time just now.
    pub(super) fn new(dir: Arc<dyn LogDirectory>, current: Current, last: u64) -> Self {
        let Current { number, salt, file, tail, .. } = current;
        Self { dir, number, salt, file, offset: tail, next: last + 1 }
    }

    /// Whether a segment is still in the log.
    pub(crate) fn has_segment(&self, number: u64) -> bool {
        match self.dir.open(&segment_name(number)) {
            Ok(_) => true,
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// Gives the records that have come since to `replay`, which breaks off when it wants no more for now.
    pub(crate) fn read(&mut self, replay: &mut Follow<'_>) -> Result<Followed, LogError> {
        loop {
            match self.read_segment(replay)? {
                Step::Caught => return Ok(Followed::UpToDate),
                Step::Ended => {}
                Step::Nothing => {
                    if !self.is_current()? {
                        return Ok(Followed::Lost);
                    }
                    // Whoever was killed before he wrote the mark goes on in the next segment.
                    if !self.switch()? {
                        return Ok(Followed::UpToDate);
                    }
                    continue;
                }
                Step::Lost => return Ok(Followed::Lost),
            }
            if !self.switch()? {
                return Ok(Followed::Lost);
            }
        }
    }

    /// Whether the file with the segment's name is the one that is read. One that was used again has another salt, and another name; a
    /// name does not come again, but a folder may be replaced.
    fn is_current(&self) -> Result<bool, LogError> {
        Ok(self.header_of(self.number)?.is_some_and(|header| header.salt == self.salt))
    }

    fn header_of(&self, number: u64) -> Result<Option<SegmentHeader>, LogError> {
        let name = segment_name(number);
        let file = match self.dir.open(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("open", name)(error)),
        };
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let got = file.read_at(0, &mut bytes).map_err(LogError::io("read", name))?;
        let header = SegmentHeader::decode(bytes.get(..got).unwrap_or_default()).ok();
        Ok(header.filter(|header| header.number == number))
    }

    fn read_segment(&mut self, replay: &mut Follow<'_>) -> Result<Step, LogError> {
        let name = segment_name(self.number);
        let read = || LogError::io("read", name.clone());
        let mut walk = Walk::new(self.file.clone(), self.salt, self.offset).map_err(read())?;
        loop {
            let Some(record) = walk.next().map_err(read())? else { return Ok(Step::Nothing) };
            if record.first != self.next {
                return Ok(Step::Lost);
            }
            if record.is_end() {
                // Behind the mark of a clean end, whoever opens the store next goes on in its place.
                return Ok(if record.goes_on() { Step::Ended } else { Step::Nothing });
            }
            let next = self.next + u64::from(record.count);
            let flow = replay(record.first, record.count, record.body)?;
            self.next = next;
            self.offset = walk.offset();
            if flow.is_break() {
                return Ok(Step::Caught);
            }
        }
    }

    /// Goes on to the next segment. Returns whether it is there.
    fn switch(&mut self) -> Result<bool, LogError> {
        let Some(header) = self.header_of(self.number + 1)?.filter(|header| header.first == self.next) else {
            return Ok(false);
        };
        let name = segment_name(self.number + 1);
        let file = match self.dir.open(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(LogError::io("open", name)(error)),
        };
        self.number += 1;
        (self.salt, self.file, self.offset) = (header.salt, file, SEGMENT_HEADER_BYTES as u64);
        Ok(true)
    }
}

enum Step {
    /// Whoever takes the records wants no more.
    Caught,
    /// The segment has come to its end.
    Ended,
    Nothing,
    Lost,
}
