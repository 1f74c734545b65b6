//! Records of the log: what stands in them, and how they are cut and applied.

use duramen_tree::{Forest, Tree};

use crate::batch::{operations, splice, Op};
use crate::error::StoreError;
use crate::log::{Log, LogError};

// What a record is, by its first byte.

/// `branch id u64`, then operations.
pub(crate) const WRITES: u8 = 1;
/// What happens to branches themselves.
pub(crate) const BRANCH: u8 = 2;
/// `source id u64, target id u64`, then operations on the target.
pub(crate) const MERGE: u8 = 3;
/// A part of a record that is too large for one, and is neither the first nor the last.
pub(crate) const PART: u8 = 4;
/// The last part.
pub(crate) const LAST_PART: u8 = 5;
/// Versions that a bulk load took: there is nothing to redo.
pub(crate) const RESERVE: u8 = 6;
/// A tree that was built beside the log has become a branch's: there is nothing to redo, as the checkpoint that follows has it.
pub(crate) const INSTALL: u8 = 8;
/// The first part. Parts before it belong to a commit that a crash cut off.
pub(crate) const FIRST_PART: u8 = 7;

/// A record is cut into parts of this size.
const PART_BYTES: usize = 32 << 20;

/// Begins a record of writes to a branch.
pub(crate) fn writes_header(header: &mut Vec<u8>, branch: u64) {
    header.push(WRITES);
    header.extend_from_slice(&branch.to_le_bytes());
}

/// Begins a record of a merge of a whole branch into another.
pub(crate) fn merge_header(header: &mut Vec<u8>, source: u64, target: u64) {
    header.push(MERGE);
    header.extend_from_slice(&source.to_le_bytes());
    header.extend_from_slice(&target.to_le_bytes());
}

/// Records of parts that come before the last one.
pub(crate) fn parts_before(body_len: usize) -> u64 {
    if body_len <= PART_BYTES {
        0
    } else {
        (body_len.div_ceil(PART_BYTES) - 1) as u64
    }
}

/// Appends a record of `count` versions to the log, in parts if it is large. Each part but the last takes a version.
pub(crate) fn append(log: &Log, body: &[u8], count: u32) -> Result<(), LogError> {
    if parts_before(body.len()) == 0 {
        return log.append(count, body).map(drop);
    }
    let mut part = Vec::with_capacity(PART_BYTES + 1);
    let mut chunks = body.chunks(PART_BYTES).peekable();
    let mut is_first = true;
    while let Some(chunk) = chunks.next() {
        let last = chunks.peek().is_none();
        part.clear();
        part.push(match (is_first, last) {
            (true, _) => FIRST_PART,
            (_, false) => PART,
            (_, true) => LAST_PART,
        });
        is_first = false;
        part.extend_from_slice(chunk);
        log.append(if last { count } else { 1 }, &part)?;
    }
    Ok(())
}

/// Applies the operations of a commit, the first of which has the version `first`.
pub(crate) fn apply(tree: &mut Tree, forest: &Forest, first: u64, encoded: &[u8]) -> Result<(), StoreError> {
    let damaged = || StoreError::Damaged("a commit in the log cannot be read".into());
    for (op, version) in operations(encoded).zip(first..) {
        match op.map_err(|()| damaged())? {
            Op::Put { key, value } => {
                tree.insert(forest, key, version, value)?;
            }
            Op::Delete { key } => {
                tree.remove(forest, key)?;
            }
            Op::Splice { key, at, removed, inserted } => {
                let new = tree.get(forest, key, |entry| splice(entry.value, at, removed, inserted))?;
                tree.insert(forest, key, version, &new.flatten().ok_or_else(damaged)?)?;
            }
        }
    }
    Ok(())
}
