//! Blocks of grants: edges as pairs of small numbers, column by column.
//!
//! A block holds edges in ascending order. In the section `grants` the major number is the entitlement and the minor
//! one the principal; in `by-principal` it is the other way round. Both are places in sorted lists of terms, so what
//! repeats, counts up or is the same all over becomes next to nothing. The picture is in `docs/design/access-graph.md`.

use super::bytes::{put_bytes, put_i64, put_u32, put_u64, Reader};
use crate::graph::error::GraphError;
use crate::graph::model::Timestamp;

/// The most grants in one block.
pub(crate) const BLOCK_ROWS: usize = 8192;
/// The most bytes of payloads in one block before it is closed.
pub(crate) const BLOCK_PAYLOAD_BYTES: usize = 256 << 10;

const VERSION: u8 = 1;

/// One edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    /// 0: no time; else one more than its place in the table of times.
    pub(crate) time: u32,
    /// 0: nothing beside the edge; else one more than the place of its payload.
    pub(crate) payload: u32,
}

/// Edges with their times and payloads, in one piece of memory each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    pub(crate) times: Vec<Timestamp>,
    payloads: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

impl Rows {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.times.clear();
        self.payloads.clear();
        self.bytes.clear();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= BLOCK_ROWS || self.bytes.len() >= BLOCK_PAYLOAD_BYTES
    }

    #[inline]
    pub(crate) fn push(&mut self, major: u32, minor: u32, time: Option<Timestamp>, payload: Option<&[u8]>) {
        let time = match time {
            None => 0,
            Some(time) => {
                // Rows of one batch share their time: only the last one is looked at.
                if self.times.last() != Some(&time) {
                    self.times.push(time);
                }
                self.times.len() as u32
            }
        };
        let payload = match payload {
            None => 0,
            Some(payload) => {
                let begin = self.bytes.len() as u32;
                self.bytes.extend_from_slice(payload);
                self.payloads.push((begin, self.bytes.len() as u32));
                self.payloads.len() as u32
            }
        };
        self.rows.push(Row { major, minor, time, payload });
    }

    #[inline]
    pub(crate) fn time(&self, row: &Row) -> Option<Timestamp> {
        let at = (row.time as usize).checked_sub(1)?;
        self.times.get(at).copied()
    }

    #[inline]
    pub(crate) fn payload(&self, row: &Row) -> Option<&[u8]> {
        let at = (row.payload as usize).checked_sub(1)?;
        let (begin, end) = *self.payloads.get(at)?;
        self.bytes.get(begin as usize..end as usize)
    }

    /// Writes the rows as a block.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.reserve(self.rows.len() + self.bytes.len() + 64);
        out.push(VERSION);
        put_u64(out, self.rows.len() as u64);
        let mut last = 0;
        for run in self.rows.chunk_by(|a, b| a.major == b.major) {
            put_u32(out, run[0].major - last);
            put_u64(out, run.len() as u64);
            last = run[0].major;
            let mut minor = 0;
            for row in run {
                put_u32(out, row.minor - minor);
                minor = row.minor;
            }
        }
        self.encode_times(out);
        put_u64(out, self.payloads.len() as u64);
        let mut next = 0;
        for (at, row) in self.rows.iter().enumerate() {
            if let Some(payload) = self.payload(row) {
                put_u64(out, (at - next) as u64);
                put_bytes(out, payload);
                next = at + 1;
            }
        }
    }

    fn encode_times(&self, out: &mut Vec<u8>) {
        put_u64(out, self.times.len() as u64);
        let mut last = Timestamp::default();
        for time in &self.times {
            put_i64(out, time.seconds.wrapping_sub(last.seconds));
            put_i64(out, i64::from(time.nanos) - i64::from(last.nanos));
            last = *time;
        }
        if self.times.is_empty() {
            return;
        }
        let all_first = self.times.len() == 1 && self.rows.iter().all(|row| row.time == 1);
        out.push(u8::from(all_first));
        if !all_first {
            let mut last = 0;
            for row in &self.rows {
                put_i64(out, i64::from(row.time) - last);
                last = i64::from(row.time);
            }
        }
    }

    /// Reads a block. The rows are ascending, and all numbers lie within the block.
    pub(crate) fn decode(&mut self, raw: &[u8]) -> Result<(), GraphError> {
        self.clear();
        let mut reader = Reader::new(raw, "a block of grants");
        let version = reader.u8()?;
        if version != VERSION {
            return Err(GraphError::Newer { found: u64::from(version), known: u64::from(VERSION) });
        }
        let count = reader.count(1)?;
        if count > BLOCK_ROWS {
            return Err(reader.malformed());
        }
        self.rows.reserve(count);
        let mut major = 0_u32;
        let mut first = true;
        while self.rows.len() < count {
            let step = reader.u32()?;
            if step == 0 && !first {
                return Err(reader.malformed());
            }
            first = false;
            major = major.checked_add(step).ok_or_else(|| reader.malformed())?;
            let run = reader.count(1)?;
            if run == 0 || run > count - self.rows.len() {
                return Err(reader.malformed());
            }
            let mut minor = 0_u32;
            for _ in 0..run {
                minor = minor.checked_add(reader.u32()?).ok_or_else(|| reader.malformed())?;
                self.rows.push(Row { major, minor, time: 0, payload: 0 });
            }
        }
        self.decode_times(&mut reader)?;
        let payloads = reader.count(2)?;
        let mut next = 0;
        for number in 1..=payloads {
            let at = next + reader.u32()? as usize;
            let payload = reader.bytes()?;
            let row = self.rows.get_mut(at).ok_or_else(|| reader.malformed())?;
            row.payload = number as u32;
            let begin = self.bytes.len() as u32;
            self.bytes.extend_from_slice(payload);
            self.payloads.push((begin, self.bytes.len() as u32));
            next = at + 1;
        }
        reader.end()
    }

    fn decode_times(&mut self, reader: &mut Reader<'_>) -> Result<(), GraphError> {
        let count = reader.count(2)?;
        // A row brings one new time at most.
        if count > self.rows.len() {
            return Err(reader.malformed());
        }
        let mut last = Timestamp::default();
        for _ in 0..count {
            let seconds = last.seconds.wrapping_add(reader.i64()?);
            let nanos = i64::from(last.nanos).checked_add(reader.i64()?).ok_or_else(|| reader.malformed())?;
            last = Timestamp { seconds, nanos: i32::try_from(nanos).map_err(|_| reader.malformed())? };
            self.times.push(last);
        }
        if count == 0 {
            return Ok(());
        }
        match reader.u8()? {
            1 => self.rows.iter_mut().for_each(|row| row.time = 1),
            0 => {
                let mut last = 0_i64;
                for row in &mut self.rows {
                    last = last.checked_add(reader.i64()?).ok_or_else(|| reader.malformed())?;
                    if last < 0 || last > count as i64 {
                        return Err(reader.malformed());
                    }
                    row.time = last as u32;
                }
            }
            _ => return Err(reader.malformed()),
        }
        Ok(())
    }
}

/// The key of a row in the index of blocks: the edge, and the place among the rows of the same edge.
pub(crate) fn block_key(major: u32, minor: u32, nth: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&major.to_be_bytes());
    key[4..8].copy_from_slice(&minor.to_be_bytes());
    key[8..].copy_from_slice(&nth.to_be_bytes());
    key
}
