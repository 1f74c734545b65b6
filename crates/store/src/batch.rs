//! What a commit writes, in the very bytes that go to the log.
//!
//! ```text
//! put     1, key length u16, value length u32, key, value
//! delete  2, key length u16, key
//! splice  3, key length u16, key, at u32, removed u32, inserted length u32, inserted
//! ```

use std::collections::BTreeMap;

use duramen_tree::KEY_MAX;

use crate::error::StoreError;
use crate::expiry;
use crate::keys::Primitive;

/// Operations in one commit, at most.
pub const BATCH_OPERATIONS_MAX: usize = 1 << 24;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const SPLICE: u8 = 3;

/// Up to this many operations, looking for a key among them goes through all.
const LINEAR_MAX: usize = 8;

/// One operation, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    Put { key: &'a [u8], value: &'a [u8] },
    Delete { key: &'a [u8] },
    Splice { key: &'a [u8], at: u32, removed: u32, inserted: &'a [u8] },
}

impl<'a> Op<'a> {
    pub(crate) fn key(&self) -> &'a [u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } | Self::Splice { key, .. } => key,
        }
    }
}

/// Applies a splice to the bytes that it was computed for.
pub(crate) fn splice(old: &[u8], at: u32, removed: u32, inserted: &[u8]) -> Option<Vec<u8>> {
    let (at, removed) = (at as usize, removed as usize);
    let tail = old.get(at.checked_add(removed)?..)?;
    let mut new = Vec::with_capacity(at + inserted.len() + tail.len());
    new.extend_from_slice(&old[..at]);
    new.extend_from_slice(inserted);
    new.extend_from_slice(tail);
    Some(new)
}

/// The operations of a commit, after `header` bytes that the caller wrote.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    header: usize,
    /// Where each operation begins.
    starts: Vec<u32>,
    /// The last operation on each key, once there are many.
    index: BTreeMap<Vec<u8>, u32>,
    /// Whether a pair was put that ends.
    expiring: bool,
    /// Whether there is an operation on a blob.
    blobs: bool,
}

impl Batch {
    /// Begins anew, with what comes before the operations, and keeps the memory.
    pub(crate) fn begin(&mut self, header: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.clear();
        self.starts.clear();
        self.index.clear();
        self.expiring = false;
        self.blobs = false;
        header(&mut self.bytes);
        self.header = self.bytes.len();
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Whether it may put pairs that end.
    #[inline]
    pub(crate) fn has_expiring(&self) -> bool {
        self.expiring
    }

    /// Whether it may change blobs.
    #[inline]
    pub(crate) fn has_blobs(&self) -> bool {
        self.blobs
    }

    /// The body of the log record.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn operations(&self) -> &[u8] {
        &self.bytes[self.header..]
    }

    /// Whether so many operations more fit, and so many bytes before the last.
    #[inline]
    fn check_room(&self, operations: usize, bytes: usize) -> Result<(), StoreError> {
        let is_full = self.starts.len() + operations > BATCH_OPERATIONS_MAX;
        if is_full || self.bytes.len() + bytes > u32::MAX as usize / 2 {
            let reason =
                format!("it has more than {BATCH_OPERATIONS_MAX} operations or 2 GiB; cut it into several");
            return Err(StoreError::InvalidInput { what: "a commit", reason });
        }
        Ok(())
    }

    fn start(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.check_room(1, 0)?;
        // Lengths of keys have two bytes in the log.
        if key.len() > KEY_MAX {
            return Err(StoreError::TooLarge { what: "key of the tree", len: key.len(), max: KEY_MAX });
        }
        let start = self.bytes.len() as u32;
        if self.starts.len() == LINEAR_MAX {
            for at in 0..self.starts.len() {
                let known = self.starts[at];
                let key = decode(&self.bytes[known as usize..]).map(|(op, _)| op.key().to_vec());
                self.index.extend(key.map(|key| (key, known)));
            }
        }
        if self.starts.len() >= LINEAR_MAX {
            self.index.insert(key.to_vec(), start);
        }
        self.starts.push(start);
        self.blobs |= key.first() == Some(&(Primitive::Blob as u8));
        Ok(())
    }

    #[inline]
    pub(crate) fn put(&mut self, key: &[u8], value: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), StoreError> {
        self.start(key)?;
        self.bytes.push(PUT);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        let len_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(key);
        let begin = self.bytes.len();
        value(&mut self.bytes);
        self.expiring |= expiry::is_expiring(key, &self.bytes[begin..]);
        let len = (self.bytes.len() - begin) as u32;
        self.bytes[len_at..len_at + 4].copy_from_slice(&len.to_le_bytes());
        Ok(())
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.start(key)?;
        self.bytes.push(DELETE);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(key);
        Ok(())
    }

    pub(crate) fn splice(
        &mut self,
        key: &[u8],
        at: u32,
        removed: u32,
        inserted: &[u8],
    ) -> Result<(), StoreError> {
        self.start(key)?;
        self.bytes.push(SPLICE);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(key);
        for number in [at, removed, inserted.len() as u32] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.bytes.extend_from_slice(inserted);
        Ok(())
    }

    /// Puts the operations of another before its own.
    pub(crate) fn prepend(&mut self, before: &Self) -> Result<(), StoreError> {
        self.check_room(before.len(), before.operations().len())?;
        let by = before.operations().len() as u32;
        self.bytes.splice(self.header..self.header, before.operations().iter().copied());
        let own = self.starts.iter().map(|start| start + by);
        // Where they begin in the other, they have its header before them.
        let theirs = before.starts.iter().map(|start| start - before.header as u32 + self.header as u32);
        self.starts = theirs.chain(own).collect();
        self.index_anew();
        Ok(())
    }

    /// Forgets all operations but the first `len`.
    pub(crate) fn cut(&mut self, len: usize) {
        let Some(end) = self.starts.get(len).copied() else { return };
        self.bytes.truncate(end as usize);
        self.starts.truncate(len);
        self.index_anew();
    }

    fn index_anew(&mut self) {
        self.index.clear();
        if self.starts.len() > LINEAR_MAX {
            let known = self.starts.clone();
            let keys = known.iter().filter_map(|start| Some((self.op_at(*start)?.key().to_vec(), *start)));
            self.index = keys.collect();
        }
    }

    fn op_at(&self, start: u32) -> Option<Op<'_>> {
        decode(&self.bytes[start as usize..]).map(|(op, _)| op)
    }

    /// The last operation on a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Op<'_>> {
        if self.starts.len() > LINEAR_MAX {
            return self.index.get(key).and_then(|start| self.op_at(*start));
        }
        self.starts.iter().rev().filter_map(|start| self.op_at(*start)).find(|op| op.key() == key)
    }

    /// The last operation on each key, in the order of the keys.
    pub(crate) fn sorted(&self) -> BTreeMap<&[u8], Op<'_>> {
        self.iter().map(|op| (op.key(), op)).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Op<'_>> {
        self.starts.iter().filter_map(|start| self.op_at(*start))
    }
}

/// Takes bytes apart without trusting a length.
fn decode(bytes: &[u8]) -> Option<(Op<'_>, &[u8])> {
    fn take(bytes: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
        bytes.split_at_checked(len)
    }
    fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
        let (number, rest) = bytes.split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*number), rest))
    }
    let (kind, rest) = bytes.split_first()?;
    let (key_len, rest) = rest.split_first_chunk::<2>()?;
    let key_len = usize::from(u16::from_le_bytes(*key_len));
    match *kind {
        PUT => {
            let (value_len, rest) = number(rest)?;
            let (key, rest) = take(rest, key_len)?;
            let (value, rest) = take(rest, value_len as usize)?;
            Some((Op::Put { key, value }, rest))
        }
        DELETE => {
            let (key, rest) = take(rest, key_len)?;
            Some((Op::Delete { key }, rest))
        }
        SPLICE => {
            let (key, rest) = take(rest, key_len)?;
            let (at, rest) = number(rest)?;
            let (removed, rest) = number(rest)?;
            let (len, rest) = number(rest)?;
            let (inserted, rest) = take(rest, len as usize)?;
            Some((Op::Splice { key, at, removed, inserted }, rest))
        }
        _ => None,
    }
}

/// The operations in encoded bytes, until the end or the first that is none; then `Err`.
pub(crate) fn operations(mut bytes: &[u8]) -> impl Iterator<Item = Result<Op<'_>, ()>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        match decode(bytes) {
            Some((op, rest)) => {
                bytes = rest;
                Some(Ok(op))
            }
            None => {
                bytes = &[];
                Some(Err(()))
            }
        }
    })
}
