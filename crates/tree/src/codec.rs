//! Nodes as bytes. The picture is in `docs/design/tree.md`; a change of it is a new format version.

use std::sync::Arc;

use duramen_base::varint::{self, put as put_varint, VarintError};

use crate::children::Children;
use crate::error::DecodeError;
use crate::node::{Body, Checksum, Child, Inner, Leaf, Link};
use crate::records::{common_prefix, Records};

/// The format that is written. Later ones are refused.
pub const FORMAT: u8 = 1;

/// The highest level that is believed: with two children a node, 40 levels hold more than any disk.
const LEVEL_MAX: u8 = 40;

/// The bytes of a node. Children must be stored: `link_of` gives their ids and checksums.
pub(crate) fn encode(body: &Body, link_of: &dyn Fn(&Child) -> Option<(u64, Checksum)>) -> Option<Vec<u8>> {
    match body {
        Body::Leaf(leaf) => Some(encode_leaf(leaf)),
        Body::Inner(inner) => encode_inner(inner, link_of),
    }
}

fn shared_prefix(records: &Records) -> &[u8] {
    match records.len() {
        0 => &[],
        count => &records.key(0)[..common_prefix(records.key(0), records.key(count - 1))],
    }
}

fn encode_leaf(leaf: &Leaf) -> Vec<u8> {
    let records = &leaf.records;
    let prefix = shared_prefix(records);
    let base = leaf.versions.iter().copied().min().unwrap_or(0);
    let span = leaf.versions.iter().copied().max().unwrap_or(0) - base;
    let width = (8 - (span.leading_zeros() / 8)) as usize;
    let mut out = Vec::with_capacity(records.live_bytes() + records.len() * width + 64);
    out.extend_from_slice(&[FORMAT, 0]);
    put_varint(&mut out, records.len() as u64);
    put_varint(&mut out, prefix.len() as u64);
    out.extend_from_slice(prefix);
    put_varint(&mut out, base);
    out.push(width as u8);
    for index in 0..records.len() {
        let (key, value) = records.entry(index);
        put_varint(&mut out, (key.len() - prefix.len()) as u64);
        put_varint(&mut out, value.len() as u64);
        out.extend_from_slice(&(leaf.versions[index] - base).to_le_bytes()[..width]);
        out.extend_from_slice(&key[prefix.len()..]);
        out.extend_from_slice(value);
    }
    out
}

fn encode_inner(inner: &Inner, link_of: &dyn Fn(&Child) -> Option<(u64, Checksum)>) -> Option<Vec<u8>> {
    let records = &inner.separators;
    let prefix = shared_prefix(records);
    let mut out = Vec::with_capacity(records.live_bytes() + inner.children.len() * 24 + 64);
    out.extend_from_slice(&[FORMAT, inner.level]);
    put_varint(&mut out, records.len() as u64);
    put_varint(&mut out, prefix.len() as u64);
    out.extend_from_slice(prefix);
    for index in 0..records.len() {
        let suffix = &records.key(index)[prefix.len()..];
        put_varint(&mut out, suffix.len() as u64);
        out.extend_from_slice(suffix);
    }
    for child in inner.children.iter() {
        let (id, sum) = link_of(child)?;
        put_varint(&mut out, id);
        out.extend_from_slice(&sum.0);
    }
    Some(out)
}

/// Takes bytes apart without trusting a length.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut at = 0;
        let value = varint::get(self.0, &mut at).map_err(|error| match error {
            VarintError::Short => DecodeError("it ends too early"),
            VarintError::Large => DecodeError("a number is too large"),
        })?;
        self.0 = &self.0[at..];
        Ok(value)
    }

    /// A length or count, which cannot be above the bytes that are left.
    fn length(&mut self) -> Result<usize, DecodeError> {
        let value = self.varint()?;
        if value > self.0.len() as u64 {
            return Err(DecodeError("a length is beyond its end"));
        }
        Ok(value as usize)
    }
}

/// Whether bytes are a well-formed node. For tools and fuzzing: a tree checks the checksum first.
///
/// # Errors
/// What is wrong with them.
pub fn check_node(bytes: &[u8]) -> Result<(), DecodeError> {
    decode(bytes).map(|_| ())
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Body, DecodeError> {
    let mut reader = Reader(bytes);
    let format = reader.byte()?;
    if format != FORMAT {
        return Err(DecodeError("its format is unknown; a later version of duramen may have written it"));
    }
    let level = reader.byte()?;
    if level > LEVEL_MAX {
        return Err(DecodeError("its level is too high"));
    }
    let count = reader.length()?;
    let prefix_len = reader.length()?;
    let prefix = reader.take(prefix_len)?;
    let body = if level == 0 {
        Body::Leaf(decode_leaf(&mut reader, count, prefix)?)
    } else {
        Body::Inner(decode_inner(&mut reader, level, count, prefix)?)
    };
    if reader.0.is_empty() {
        Ok(body)
    } else {
        Err(DecodeError("it is followed by something else"))
    }
}

/// Keys as they are put together from the prefix and a suffix, checked to be in order.
struct Keys {
    key: Vec<u8>,
    previous: Option<Vec<u8>>,
    prefix: usize,
}

impl Keys {
    fn new(prefix: &[u8]) -> Self {
        Self { key: prefix.to_vec(), previous: None, prefix: prefix.len() }
    }

    fn next(&mut self, suffix: &[u8]) -> Result<&[u8], DecodeError> {
        self.key.truncate(self.prefix);
        self.key.extend_from_slice(suffix);
        if self.key.len() > usize::from(u16::MAX) {
            return Err(DecodeError("a key is too long"));
        }
        match &mut self.previous {
            Some(previous) if *previous >= self.key => return Err(DecodeError("its keys are not in order")),
            Some(previous) => previous.clone_from(&self.key),
            None => self.previous = Some(self.key.clone()),
        }
        Ok(&self.key)
    }
}

/// Memory that the records of a node take, bounded by what the node can really hold.
fn room(count: usize, prefix: usize, left: usize) -> Result<usize, DecodeError> {
    let prefixes = count.checked_mul(prefix).filter(|bytes| *bytes <= 1 << 30);
    let prefixes = prefixes.ok_or(DecodeError("its keys are too long together"))?;
    Ok(prefixes + left + Records::header_bytes(count))
}

fn decode_leaf(reader: &mut Reader<'_>, count: usize, prefix: &[u8]) -> Result<Leaf, DecodeError> {
    let base = reader.varint()?;
    let width = usize::from(reader.byte()?);
    if width > 8 {
        return Err(DecodeError("a version is too wide"));
    }
    let mut records = Records::with_capacity(count, room(count, prefix.len(), reader.0.len())?);
    let mut versions = Vec::with_capacity(count);
    let mut keys = Keys::new(prefix);
    for _ in 0..count {
        let suffix_len = reader.length()?;
        let value_len = reader.length()?;
        let mut version = [0; 8];
        version[..width].copy_from_slice(reader.take(width)?);
        let version = base.checked_add(u64::from_le_bytes(version));
        versions.push(version.ok_or(DecodeError("a version is too large"))?);
        let key = keys.next(reader.take(suffix_len)?)?;
        records.push_raw(key, reader.take(value_len)?);
    }
    records.finish();
    Ok(Leaf::new(records, versions))
}

fn decode_inner(
    reader: &mut Reader<'_>,
    level: u8,
    count: usize,
    prefix: &[u8],
) -> Result<Inner, DecodeError> {
    let mut separators = Records::with_capacity(count, room(count, prefix.len(), reader.0.len())?);
    let mut keys = Keys::new(prefix);
    for _ in 0..count {
        let suffix_len = reader.length()?;
        let key = keys.next(reader.take(suffix_len)?)?;
        separators.push_raw(key, &[]);
    }
    separators.finish();
    let mut children = Children::default();
    for _ in 0..=count {
        let id = reader.varint()?;
        let mut sum = [0; 16];
        sum.copy_from_slice(reader.take(16)?);
        children.push(Child::new(Link::stored(id, Checksum(sum))));
    }
    Ok(Inner { level, separators: Arc::new(separators), children })
}
