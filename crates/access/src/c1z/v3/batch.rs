//! Batches: what one record of a log does to the rows.
//!
//! ```text
//! batch = sequence number u64 | count u32 | (kind u8 | key | [value])*      key, value: varint length and bytes
//! ```

use super::lsm::Change;
use crate::c1z::error::Bad;
use crate::c1z::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::c1z::wire;

/// The length of a batch's header, in bytes.
pub(crate) const HEADER: usize = 12;

/// One change of a batch. Ranges are into the batch.
pub(crate) struct Entry {
    pub(crate) change: Change,
    pub(crate) key: std::ops::Range<usize>,
    pub(crate) value: std::ops::Range<usize>,
    pub(crate) sequence: u64,
}

/// Calls `visit` for each change of a batch.
pub(crate) fn read(batch: &[u8], mut visit: impl FnMut(Entry) -> Result<(), Bad>) -> Result<(), Bad> {
    let Some((header, _)) = batch.split_first_chunk::<HEADER>() else {
        return Err(Bad::new(0, "a batch is shorter than its header"));
    };
    let [s0, s1, s2, s3, s4, s5, s6, s7, c0, c1, c2, c3] = *header;
    let first = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let count = u32::from_le_bytes([c0, c1, c2, c3]);
    let (mut at, mut seen) = (HEADER, 0u32);
    while at < batch.len() {
        let start = at;
        let kind = batch[at];
        at += 1;
        let key = field(batch, &mut at, "key", KEY_BYTES_MAX)?;
        let change = Change::of_kind(kind, start)?;
        let value = match change {
            None | Some(Change::Delete) if kind != Change::DELETE_SIZED => at..at,
            _ => field(batch, &mut at, "value", VALUE_BYTES_MAX)?,
        };
        // Notes for programs that tail the log take no number.
        let Some(change) = change else { continue };
        let sequence = first.checked_add(u64::from(seen)).filter(|number| *number < 1 << 56);
        let Some(sequence) = sequence else {
            return Err(Bad::new(0, "a sequence number of more than 56 bits"));
        };
        seen = seen.saturating_add(1);
        visit(Entry { change, key, value, sequence })?;
    }
    if seen != count {
        return Err(Bad::new(8, format!("a batch of {count} changes holds {seen}")));
    }
    Ok(())
}

fn field(
    batch: &[u8],
    at: &mut usize,
    what: &'static str,
    limit: usize,
) -> Result<std::ops::Range<usize>, Bad> {
    let start = *at;
    let length = wire::varint(batch, at)?;
    if length > limit as u64 {
        return Err(Bad::too_large(
            start,
            if what == "key" { "a key" } else { "a value" },
            length,
            limit as u64,
        ));
    }
    let end = *at + length as usize;
    if end > batch.len() {
        return Err(Bad::new(start, format!("a {what} is longer than its batch")));
    }
    let range = *at..end;
    *at = end;
    Ok(range)
}
