//! Keys and values of the tree that make up an event log.
//!
//! ```text
//! version u8 = 1, time i64, hash 32 bytes, type length u16, type, payload (the rest)
//! hash = blake3(hash before, seq u64, time i64, type length u16, type, payload length u32, payload)
//! ```
//!
//! Where a log begins that was trimmed: `version u8 = 1, seq u64, hash 32 bytes` of the event before.
//!
//! Numbers in values and in what is hashed are little-endian. The hash before the first is all zeros.

use std::ops::ControlFlow;

use duramen_tree::KeyRange;

use crate::access::View;
use crate::error::StoreError;
use crate::json::Json;
use crate::keys::{self, KeyBuf, Primitive};

const FORMAT: u8 = 1;
const ENTRY: u8 = 1;
const INDEX: u8 = 2;
const START: u8 = 3;

/// The hash that chains an event to all before it.
pub(crate) type Hash = [u8; 32];

/// What stands before the first event.
pub(super) const NO_HASH: Hash = [0; 32];

/// An event as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number in the log, from 0.
    pub seq: u64,
    /// Its type.
    pub event_type: String,
    /// What it says: a JSON object.
    pub payload: Json,
    /// When it was appended, in milliseconds since 1970 (UTC).
    pub at_ms: i64,
    /// The BLAKE3 hash of the event and the hash of the one before it.
    pub hash: [u8; 32],
}

impl Event {
    /// The event of a number from the value of its entry.
    pub(crate) fn decode(seq: u64, bytes: &[u8]) -> Result<Self, StoreError> {
        let entry = Stored::decode(seq, bytes)?;
        Ok(Self {
            seq,
            event_type: entry.event_type.to_owned(),
            payload: Json::from_stored(entry.payload)?,
            at_ms: entry.at_ms,
            hash: *entry.hash,
        })
    }
}

/// Where a log begins: before anything was trimmed, with event 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The number of the first event.
    pub(crate) seq: u64,
    /// The hash of the event before it.
    pub(crate) before: Hash,
}

impl Start {
    pub(crate) fn find<V: View + ?Sized>(view: &V, keys: &Keys) -> Result<Self, StoreError> {
        let mut found = None;
        view.get(&keys.start(), &mut |_, bytes| found = Some(Self::decode(bytes)))?;
        found.unwrap_or(Ok(Self { seq: 0, before: NO_HASH }))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("where an event log begins cannot be read".into());
        let (format, rest) = bytes.split_first().ok_or_else(damaged)?;
        if *format > FORMAT {
            let (found, known) = (u64::from(*format), u64::from(FORMAT));
            return Err(StoreError::FromTheFuture { what: "an event log", found, known });
        }
        let (seq, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let before = rest.try_into().map_err(|_| damaged())?;
        Ok(Self { seq: u64::from_le_bytes(*seq), before })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&self.before);
    }
}

/// An event where it lies.
pub(super) struct Stored<'b> {
    pub(super) at_ms: i64,
    pub(super) hash: &'b Hash,
    pub(super) event_type: &'b str,
    pub(super) payload: &'b [u8],
}

impl<'b> Stored<'b> {
    pub(super) fn decode(seq: u64, bytes: &'b [u8]) -> Result<Self, StoreError> {
        if let Some(found) = bytes.first().filter(|found| **found > FORMAT) {
            let found = u64::from(*found);
            return Err(StoreError::FromTheFuture { what: "an event", found, known: FORMAT.into() });
        }
        Self::parse(bytes).ok_or_else(|| StoreError::Damaged(format!("event {seq} cannot be read")))
    }

    fn parse(bytes: &'b [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[FORMAT])?;
        let (at_ms, rest) = rest.split_first_chunk::<8>()?;
        let (hash, rest) = rest.split_first_chunk::<32>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (event_type, payload) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        let event_type = std::str::from_utf8(event_type).ok()?;
        Some(Self { at_ms: i64::from_le_bytes(*at_ms), hash, event_type, payload })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        out.extend_from_slice(&self.at_ms.to_le_bytes());
        out.extend_from_slice(self.hash);
        out.extend_from_slice(&(self.event_type.len() as u16).to_le_bytes());
        out.extend_from_slice(self.event_type.as_bytes());
        out.extend_from_slice(self.payload);
    }
}

/// The hash of an event that follows one with the hash `before`.
pub(super) fn chain(before: &Hash, seq: u64, at_ms: i64, event_type: &str, payload: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before);
    hasher.update(&seq.to_le_bytes());
    hasher.update(&at_ms.to_le_bytes());
    hasher.update(&(event_type.len() as u16).to_le_bytes());
    hasher.update(event_type.as_bytes());
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(payload);
    hasher.finalize().into()
}

/// The keys of one log.
pub(crate) struct Keys {
    prefix: KeyBuf,
}

impl Keys {
    pub(crate) fn new(space: &str) -> Self {
        Self { prefix: keys::prefix(Primitive::Event, space) }
    }

    fn key(&self, parts: [&[u8]; 4]) -> KeyBuf {
        let mut key = self.prefix.clone();
        parts.into_iter().for_each(|part| key.extend_from_slice(part));
        key
    }

    pub(crate) fn entry(&self, seq: u64) -> KeyBuf {
        self.key([&[ENTRY], &seq.to_be_bytes(), &[], &[]])
    }

    pub(crate) fn index_entry(&self, event_type: &str, seq: u64) -> KeyBuf {
        self.key([&[INDEX], event_type.as_bytes(), &[0], &seq.to_be_bytes()])
    }

    /// The keys of the entries from `start` on, below `end` if there is one.
    pub(super) fn entries(&self, start: u64, end: Option<u64>) -> (KeyBuf, KeyBuf) {
        let end = end.map_or_else(|| self.key([&[ENTRY + 1], &[], &[], &[]]), |end| self.entry(end));
        (self.entry(start), end)
    }

    /// The keys of the index for a type, of the numbers from `start` on, below `end` if there is one.
    pub(super) fn index(&self, event_type: &str, start: u64, end: Option<u64>) -> (KeyBuf, KeyBuf) {
        // The NUL after the type is followed by no other byte in its place, so 1 comes after all numbers.
        let behind = || self.key([&[INDEX], event_type.as_bytes(), &[1], &[]]);
        let end = end.map_or_else(behind, |end| self.index_entry(event_type, end));
        (self.index_entry(event_type, start), end)
    }

    /// The key of where the log begins.
    pub(crate) fn start(&self) -> KeyBuf {
        self.key([&[START], &[], &[], &[]])
    }

    pub(super) fn whole_index(&self) -> (KeyBuf, KeyBuf) {
        (self.key([&[INDEX], &[], &[], &[]]), self.key([&[INDEX + 1], &[], &[], &[]]))
    }
}

/// What a key of an event log is for, after [`keys::split`] took the space off it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventPart<'k> {
    /// The entry of a number.
    Entry(u64),
    /// An event's place in the index of types.
    Index {
        /// Its type.
        event_type: &'k str,
        /// Its number.
        seq: u64,
    },
    /// Where the log begins.
    Start,
}

/// Reads the rest of a key of an event log. None if it is no such key.
pub(crate) fn part_of(rest: &[u8]) -> Option<EventPart<'_>> {
    if rest == [START] {
        return Some(EventPart::Start);
    }
    let (kind, rest) = rest.split_first()?;
    let (before, seq) = rest.split_last_chunk::<8>()?;
    let seq = u64::from_be_bytes(*seq);
    match (*kind, before) {
        (ENTRY, []) => Some(EventPart::Entry(seq)),
        (INDEX, [event_type @ .., 0]) => {
            Some(EventPart::Index { event_type: std::str::from_utf8(event_type).ok()?, seq })
        }
        _ => None,
    }
}

fn damaged(key: &[u8]) -> StoreError {
    StoreError::Damaged(format!("{} is not a key of an event log", keys::display(key)))
}

/// The number with which every key of a log ends.
pub(super) fn decode_seq(key: &[u8]) -> Result<u64, StoreError> {
    let (_, seq) = key.split_last_chunk::<8>().ok_or_else(|| damaged(key))?;
    Ok(u64::from_be_bytes(*seq))
}

/// Type and number from a key of the index.
pub(super) fn decode_index(key: &[u8]) -> Result<(&str, u64), StoreError> {
    match keys::split(key).and_then(|(_, _, rest)| part_of(rest)) {
        Some(EventPart::Index { event_type, seq }) => Ok((event_type, seq)),
        _ => Err(damaged(key)),
    }
}

/// Goes through a range until `row` fails or breaks off.
pub(super) fn scan<V: View + ?Sized>(
    view: &V,
    range: &KeyRange<'_>,
    mut row: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut failed = None;
    view.scan(range, &mut |key, _, value| {
        row(key, value).unwrap_or_else(|error| {
            failed = Some(error);
            ControlFlow::Break(())
        })
    })?;
    failed.map_or(Ok(()), Err)
}
