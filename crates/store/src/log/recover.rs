//! What stands in a log: its records are replayed, its torn tail is cut, and damage is distinguished from it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::directory::{LogDirectory, LogFile};
use super::error::LogError;
use super::format::{HeaderError, SegmentHeader, FORMAT_VERSION, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use super::scan::{later_claim, wipe, Later, Walk};

const SEGMENT_PREFIX: &str = "log-";
const SPARE_PREFIX: &str = "spare-";

/// Takes the records at replay, in order: first version, count of versions, body.
pub type Replay<'a> = dyn FnMut(u64, u32, &[u8]) -> Result<(), LogError> + 'a;

/// Where a log goes on, as the checkpoint before says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The last version that the checkpoint holds.
    pub after: u64,
    /// What must be there.
    pub needed: Needed,
}

/// What must be there of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// Nothing: the log may be new.
    Nothing,
    /// A segment, whichever.
    Any,
    /// The segment with this number.
    Segment(u64),
}

/// Whether a file has the name of a segment.
pub(crate) fn is_segment_name(name: &str) -> bool {
    segment_number(name).is_some()
}

/// The number of the segment in a file of this name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    number(name, SEGMENT_PREFIX)
}

/// The version with which the segment in a file begins, if its header can be read.
pub(crate) fn begins_with(dir: &dyn LogDirectory, name: &str) -> Option<u64> {
    segment_number(name)?;
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let got = dir.open(name).ok()?.read_at(0, &mut bytes).ok()?;
    SegmentHeader::decode(bytes.get(..got)?).ok().map(|header| header.first)
}

/// Whether a file has the name of one that waits to become a segment.
pub(crate) fn is_spare_name(name: &str) -> bool {
    number(name, SPARE_PREFIX).is_some()
}

/// The name of the segment with this number.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{SEGMENT_PREFIX}{number:016x}")
}

/// The name of a file that waits to become a segment.
pub(crate) fn spare_name(id: u64) -> String {
    format!("{SPARE_PREFIX}{id:016x}")
}

/// A segment to which nothing is added any more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closed {
    pub(crate) number: u64,
    /// The last version in it or before it.
    pub(crate) last: u64,
    /// The bytes of its records.
    pub(crate) bytes: u64,
}

/// The segment to which records can be added.
pub(crate) struct Current {
    pub(crate) number: u64,
    pub(crate) salt: u64,
    pub(crate) file: Arc<dyn LogFile>,
    pub(crate) size: u64,
    /// Where the next record goes.
    pub(crate) tail: u64,
}

/// What was found in the directory of a log.
pub(crate) struct Recovered {
    pub(crate) closed: VecDeque<Closed>,
    /// None if a new segment is needed.
    pub(crate) current: Option<Current>,
    pub(crate) last: u64,
    /// The bytes of all records that were read.
    pub(crate) bytes: u64,
    pub(crate) next_number: u64,
    /// The ids of the spare files.
    pub(crate) spares: Vec<u64>,
}

struct Segment {
    number: u64,
    file: Arc<dyn LogFile>,
    header: SegmentHeader,
}

/// Reads the log in `dir` and replays what comes after a position. With `repair` the tail is made fit for more
/// records, and what was replayed is durable on return; without, nothing is written.
pub(crate) fn recover(
    dir: &dyn LogDirectory,
    position: Position,
    replay: &mut Replay<'_>,
    repair: bool,
) -> Result<Recovered, LogError> {
    let Position { after, needed } = position;
    let names = dir.list().map_err(LogError::io("list", "."))?;
    let spares = numbers(&names, SPARE_PREFIX);
    let all = numbers(&names, SEGMENT_PREFIX);
    // The checkpoint holds all that lies before the segment that it needs: what of that is there yet only waits for its
    // release, whatever became of it.
    let unneeded = match needed {
        Needed::Segment(number) if all.contains(&number) => all.partition_point(|before| *before < number),
        _ => 0,
    };
    let (unneeded, all) = all.split_at(unneeded);
    let segments = open_segments(dir, all)?;
    let mut found = Recovered {
        closed: VecDeque::new(),
        current: None,
        last: after,
        bytes: 0,
        next_number: segments.last().map_or(1, |segment| segment.number + 1),
        spares,
    };
    for &number in unneeded {
        found.closed.push_back(Closed { number, last: after, bytes: 0 });
    }
    let missing = match needed {
        Needed::Nothing => None,
        Needed::Any => segments.is_empty().then(|| format!("{SEGMENT_PREFIX}*")),
        Needed::Segment(number) => {
            // A record that was too large for it leaves it empty, and it may be released: then the next one begins
            // where it began.
            let next = after.saturating_add(1);
            let is_it = |segment: &Segment| {
                segment.number == number || (segment.number > number && segment.header.first == next)
            };
            let is_there = segments.iter().any(is_it);
            (!is_there).then(|| segment_name(number))
        }
    };
    if let Some(file) = missing {
        return Err(LogError::Missing { file, after });
    }
    let Some(oldest) = segments.first() else { return Ok(found) };
    let Some(start) = segments.iter().rposition(|segment| segment.header.first <= after.saturating_add(1))
    else {
        let reason = format!(
            "it begins with version {}, and those from version {} on are missing",
            oldest.header.first,
            after.saturating_add(1)
        );
        return Err(LogError::damaged(oldest.number, 0, reason));
    };
    // The checkpoint holds all of the segments before, so they are not read: they only wait for their release.
    for pair in segments[..=start].windows(2) {
        found.closed.push_back(Closed { number: pair[0].number, last: pair[1].header.first - 1, bytes: 0 });
    }
    for (index, segment) in segments.iter().enumerate().skip(start) {
        let following = segments.get(index + 1).map(|next| next.header.first);
        read_segment(segment, following, after, replay, repair, &mut found)?;
    }
    Ok(found)
}

/// Reads one segment into `found`. `following` is the version with which the next segment begins, if there is one.
fn read_segment(
    segment: &Segment,
    following: Option<u64>,
    after: u64,
    replay: &mut Replay<'_>,
    repair: bool,
    found: &mut Recovered,
) -> Result<(), LogError> {
    let name = segment_name(segment.number);
    let read = || LogError::io("read", name.clone());
    let damaged = |offset, reason| LogError::damaged(segment.number, offset, reason);
    let mut walk =
        Walk::new(segment.file.clone(), segment.header.salt, SEGMENT_HEADER_BYTES as u64).map_err(read())?;
    let mut next = segment.header.first;
    let mut clean = false;
    let mut looked_again = 0;
    loop {
        let offset = walk.offset();
        let Some(record) = walk.next().map_err(read())? else {
            // Whoever only reads may have read this before a writer beside him wrote it.
            if repair || offset <= looked_again {
                break;
            }
            looked_again = offset;
            walk = Walk::new(segment.file.clone(), segment.header.salt, offset).map_err(read())?;
            continue;
        };
        if record.first != next {
            let reason = format!("a record begins with version {}, not with version {next}", record.first);
            return Err(damaged(offset, reason));
        }
        if record.is_end() {
            clean = true;
            if record.goes_on() && following.is_none() {
                let (file, after) = (segment_name(segment.number + 1), next - 1);
                return Err(LogError::Missing { file, after });
            }
            break;
        }
        next += u64::from(record.count);
        if record.first > after {
            replay(record.first, record.count, record.body)?;
        } else if next > after.saturating_add(1) {
            let reason = format!("the checkpoint ends with version {after}, inside of a record");
            return Err(damaged(offset, reason));
        }
    }
    let tail = walk.offset();
    let last = next - 1;
    let bytes = tail - SEGMENT_HEADER_BYTES as u64;
    found.bytes += bytes;
    if let Some(following) = following {
        if next != following {
            let reason =
                format!("version {next} is broken or missing, and the next segment begins with {following}");
            return Err(damaged(tail, reason));
        }
        found.closed.push_back(Closed { number: segment.number, last, bytes });
        return Ok(());
    }
    let rest = if clean { vec![u8::MAX; RECORD_HEADER_BYTES] } else { walk.rest().map_err(read())? };
    if !clean {
        // What the checkpoint holds is not lost, whatever became of its record.
        let missing = next.max(after.saturating_add(1));
        match later_claim(&rest, segment.header.salt, missing) {
            Later::Nothing => {}
            Later::Durable { at, version } => {
                let place = tail + at as u64;
                let reason = format!(
                    "version {next} is broken, and the record at byte {place} says that version {version} had been durable"
                );
                return Err(damaged(tail, reason));
            }
            Later::TooMany => {
                let reason =
                    format!("version {next} is broken, and what follows looks like too many records to tell");
                return Err(damaged(tail, reason));
            }
        }
    }
    if repair {
        // The sync also makes durable what a process that was killed had written: it has been replayed.
        wipe(&*segment.file, tail, &rest).map_err(LogError::io("cut the tail of", name.clone()))?;
        segment.file.sync().map_err(LogError::io("sync", name.clone()))?;
    }
    found.last = last.max(after);
    if last < after {
        // What comes next does not follow on the last record, so it needs a segment of its own.
        found.closed.push_back(Closed { number: segment.number, last, bytes });
        return Ok(());
    }
    let size = segment.file.size().map_err(read())?;
    let (file, salt) = (segment.file.clone(), segment.header.salt);
    found.current = Some(Current { number: segment.number, salt, file, size, tail });
    Ok(())
}

/// Opens the segments and reads their headers. A file gets the name of a segment only after its header is durable, so
/// one without a header is damaged.
fn open_segments(dir: &dyn LogDirectory, numbers: &[u64]) -> Result<Vec<Segment>, LogError> {
    let mut segments: Vec<Segment> = Vec::with_capacity(numbers.len());
    for &number in numbers {
        let name = segment_name(number);
        let file = dir.open(&name).map_err(LogError::io("open", name.clone()))?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let got = file.read_at(0, &mut bytes).map_err(LogError::io("read", name))?;
        let header = match SegmentHeader::decode(bytes.get(..got).unwrap_or_default()) {
            Ok(header) => header,
            Err(HeaderError::FromTheFuture(version)) => {
                return Err(LogError::FromTheFuture { segment: number, version, known: FORMAT_VERSION });
            }
            Err(HeaderError::Invalid) => {
                return Err(LogError::damaged(number, 0, "its header is broken"));
            }
        };
        if header.number != number {
            let reason = format!("its header is that of segment {}", header.number);
            return Err(LogError::damaged(number, 0, reason));
        }
        if let Some(before) = segments.last() {
            if before.number + 1 != number {
                return Err(LogError::damaged(before.number + 1, 0, "the segment is missing"));
            }
            if before.header.first > header.first {
                return Err(LogError::damaged(number, 0, "it begins before the segment before it"));
            }
        }
        segments.push(Segment { number, file, header });
    }
    Ok(segments)
}

/// The numbers in the names that begin with `prefix`, in order. Other names are none of the log's.
fn numbers(names: &[String], prefix: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name, prefix)).collect();
    numbers.sort_unstable();
    numbers
}

fn number(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{number:016x}") == digits && number < u64::MAX).then_some(number)
}
