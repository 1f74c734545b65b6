//! Entries of a branch: a page of them with the beginnings of their values, and one in full.

use super::{moment, time, value};
use crate::{
    error::ReadError,
    limits::{FULL_BYTES, PAGE_BYTES, SHORT_BYTES},
    look::Look,
    text::{escaped, unescaped},
};
use duramen_api::attachments::store::{EntryKind, ShownValue, StoreEntries, StoreEntry};
use duramen_base::clock;
use duramen_store::{
    event::{Direction, Event},
    state::Cell,
    value::{Encode, ValueError, ValueRef},
    vector::Row,
    Page, Scope, Snapshot, Space, Store, StoreError, DEFAULT_SPACE,
};
use std::{
    io::Read,
    ops::{Bound, ControlFlow},
};

/// Keys that are listed at a time: each may have eight kilobytes.
const KEYS: usize = 64;
/// The most that an entry takes in a page beside its key and value, in bytes.
const ENTRY_BYTES: usize = 200;

/// What is asked of entries.
#[derive(Debug, Clone, Copy)]
pub struct EntriesAsked<'a> {
    /// A branch, or a state of it; the main one if there is none.
    pub branch: Option<&'a str>,
    /// The kind of data.
    pub kind: EntryKind,
    /// The space; the default one if there is none.
    pub space: Option<&'a str>,
    /// The collection, of vectors.
    pub collection: Option<&'a str>,
    /// Only keys that begin with this, escaped; only events of this type, unless it is empty.
    pub prefix: &'a str,
    /// Where the page begins, as the one before says it.
    pub cursor: Option<&'a str>,
    /// At most so many.
    pub limit: usize,
}

/// Which entry is asked for.
#[derive(Debug, Clone, Copy)]
pub struct EntryAsked<'a> {
    /// A branch, or a state of it; the main one if there is none.
    pub branch: Option<&'a str>,
    /// The kind of data.
    pub kind: EntryKind,
    /// The space; the default one if there is none.
    pub space: Option<&'a str>,
    /// The collection, of vectors.
    pub collection: Option<&'a str>,
    /// The key, escaped; the number of an event.
    pub key: &'a str,
}

/// A page that is filled.
struct Filling {
    look: Look,
    limit: usize,
    bytes: usize,
    entries: Vec<StoreEntry>,
    more: bool,
}

impl Filling {
    fn new(limit: usize) -> Filling {
        Filling { look: Look::begin(), limit, bytes: 0, entries: Vec::new(), more: false }
    }

    /// Whether there is room for one more. If not, there is a next page.
    fn has_room(&mut self) -> ControlFlow<()> {
        self.more |= self.entries.len() >= self.limit || self.bytes >= PAGE_BYTES;
        if self.more {
            return ControlFlow::Break(());
        }
        self.look.on()
    }

    fn take(&mut self, entry: StoreEntry) {
        let metadata = entry.metadata.as_ref().map_or(0, |metadata| metadata.text.len());
        self.bytes += entry.key.len() + entry.value.text.len() + metadata + ENTRY_BYTES;
        self.entries.push(entry);
    }

    fn page(self) -> Result<StoreEntries, ReadError> {
        let is_over = self.look.is_over();
        if is_over && self.entries.is_empty() {
            return Err(Look::too_slow());
        }
        let last = self.entries.last().map(|entry| entry.key.clone());
        Ok(StoreEntries { next: last.filter(|_| self.more || is_over), entries: self.entries })
    }
}

/// A page of entries of a store.
///
/// # Errors
/// [`ReadError::Store`] when there is no such branch, space or collection, or it cannot be read; [`ReadError::Invalid`] for what makes no
/// sense; [`ReadError::TooSlow`] when nothing is found in time.
///
/// # Examples
/// ```
/// use duramen_api::attachments::store::EntryKind;
/// use duramen_attachments::store::{entries, EntriesAsked};
/// use duramen_store::{Scope, Store};
/// let store = Store::memory();
/// store.branch("main")?.kv().put([0xff, b'a'], "green")?;
/// let asked = EntriesAsked { branch: None, kind: EntryKind::Kv, space: None, collection: None, prefix: "\\xff", cursor: None, limit: 10 };
/// let found = entries(&store, &asked)?.entries;
/// assert_eq!((found[0].key.as_str(), found[0].value.text.as_str()), ("\\xffa", "green"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn entries(store: &Store, asked: &EntriesAsked<'_>) -> Result<StoreEntries, ReadError> {
    let snapshot = snapshot(store, asked.branch)?;
    let space = snapshot.space(asked.space.unwrap_or(DEFAULT_SPACE))?;
    let prefix = unescaped(asked.prefix);
    let after = asked.cursor.map(unescaped);
    let mut page = Filling::new(asked.limit);
    match asked.kind {
        EntryKind::Kv => pairs(&space, &prefix, after, &mut page)?,
        EntryKind::State => {
            let list = |after: Option<&str>| space.state().list(text(&prefix), after, KEYS);
            by_keys(&prefix, after, &mut page, list, |key| {
                Ok(space.state().read(key)?.map(|cell| of_cell(key, &cell, SHORT_BYTES)).transpose()?)
            })?;
        }
        EntryKind::Blobs => {
            let list = |after: Option<&str>| space.blobs().list(text(&prefix), after, KEYS);
            by_keys(&prefix, after, &mut page, list, |key| blob(&space, key, SHORT_BYTES))?;
        }
        EntryKind::Json => {
            let (Ok(prefix), Ok(after)) = (std::str::from_utf8(&prefix), texts(&after)) else {
                return page.page();
            };
            space.json().scan_after(prefix, after, |key, text| {
                page.has_room()?;
                page.take(plain(key.as_bytes(), value::of_json(text, SHORT_BYTES)));
                ControlFlow::Continue(())
            })?;
        }
        EntryKind::Vectors => {
            let (Ok(prefix), Ok(after)) = (std::str::from_utf8(&prefix), texts(&after)) else {
                return page.page();
            };
            space.vectors().collection(collection(asked.collection)?).scan(prefix, after, |key, row| {
                page.has_room()?;
                page.take(of_row(key, &row, SHORT_BYTES));
                ControlFlow::Continue(())
            })?;
        }
        EntryKind::Events => events(&space, asked.prefix, asked.cursor, &mut page)?,
        EntryKind::Indexes => return Err(no_entries()),
    }
    page.page()
}

/// One entry of a store, with up to 1 MiB of its value.
///
/// # Errors
/// As [`entries`]; [`ReadError::Unknown`] when there is none.
///
/// # Examples
/// ```
/// use duramen_api::attachments::store::EntryKind;
/// use duramen_attachments::store::{entry, EntryAsked};
/// use duramen_store::{Scope, Store};
/// let store = Store::memory();
/// store.branch("main")?.events().append("login", serde_json::json!({ "user": 1 }))?;
/// let asked = EntryAsked { branch: None, kind: EntryKind::Events, space: None, collection: None, key: "0" };
/// assert_eq!(entry(&store, &asked)?.event_type.as_deref(), Some("login"));
/// assert!(entry(&store, &EntryAsked { key: "1", ..asked }).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn entry(store: &Store, asked: &EntryAsked<'_>) -> Result<StoreEntry, ReadError> {
    let snapshot = snapshot(store, asked.branch)?;
    let space = snapshot.space(asked.space.unwrap_or(DEFAULT_SPACE))?;
    let key = unescaped(asked.key);
    let as_text = || std::str::from_utf8(&key).map_err(|_| unknown(asked));
    let found = match asked.kind {
        EntryKind::Kv => pair(&space, &key)?,
        EntryKind::State => {
            let key = as_text()?;
            space.state().read(key)?.map(|cell| of_cell(key, &cell, FULL_BYTES)).transpose()?
        }
        EntryKind::Blobs => blob(&space, as_text()?, FULL_BYTES)?,
        EntryKind::Json => {
            let mut found = None;
            let key = as_text()?;
            space.json().scan(key, |candidate, text| {
                if candidate == key {
                    found = Some(plain(key.as_bytes(), value::of_json(text, FULL_BYTES)));
                }
                ControlFlow::Break(())
            })?;
            found
        }
        EntryKind::Vectors => {
            let mut found = None;
            let key = as_text()?;
            space.vectors().collection(collection(asked.collection)?).scan(key, None, |candidate, row| {
                if candidate == key {
                    found = Some(of_row(key, &row, FULL_BYTES));
                }
                ControlFlow::Break(())
            })?;
            found
        }
        EntryKind::Events => {
            let seq: u64 = asked.key.parse().map_err(|_| unknown(asked))?;
            space.events().get(seq)?.map(|event| of_event(&event, FULL_BYTES))
        }
        EntryKind::Indexes => return Err(no_entries()),
    };
    found.ok_or_else(|| unknown(asked))
}

fn snapshot(store: &Store, branch: Option<&str>) -> Result<Snapshot, ReadError> {
    match branch {
        Some(branch) => moment::snapshot(store, branch),
        None => moment::snapshot(store, &moment::main_one(store)?),
    }
}

fn unknown(asked: &EntryAsked<'_>) -> ReadError {
    let key: String = asked.key.chars().take(200).collect();
    ReadError::Unknown(format!(
        "there is no entry {key:?} of kind {}; it may have been deleted",
        asked.kind.word()
    ))
}

fn no_entries() -> ReadError {
    ReadError::Invalid("an index has no entries of its own; ask for the kind that it is of".to_owned())
}

fn collection(given: Option<&str>) -> Result<&str, ReadError> {
    given.ok_or_else(|| ReadError::Invalid("the collection is missing; give ?collection=...".to_owned()))
}

/// A prefix as text. What is not text is the prefix of nothing, which is looked at before.
fn text(prefix: &[u8]) -> &str {
    std::str::from_utf8(prefix).unwrap_or_default()
}

fn texts(after: &Option<Vec<u8>>) -> Result<Option<&str>, std::str::Utf8Error> {
    after.as_deref().map(std::str::from_utf8).transpose()
}

fn plain(key: &[u8], value: ShownValue) -> StoreEntry {
    StoreEntry {
        key: escaped(key),
        value,
        size: None,
        version: None,
        event_type: None,
        at: None,
        expires_at: None,
        hash: None,
        metadata: None,
    }
}

/// Entries of which keys are listed, and each is then read.
fn by_keys(
    prefix: &[u8],
    after: Option<Vec<u8>>,
    page: &mut Filling,
    list: impl Fn(Option<&str>) -> Result<Page<String>, StoreError>,
    read: impl Fn(&str) -> Result<Option<StoreEntry>, ReadError>,
) -> Result<(), ReadError> {
    let Ok(mut after) = after.map(String::from_utf8).transpose() else { return Ok(()) };
    if std::str::from_utf8(prefix).is_err() {
        return Ok(());
    }
    loop {
        let keys = list(after.as_deref())?;
        for key in &keys.items {
            if page.has_room().is_break() {
                return Ok(());
            }
            if let Some(entry) = read(key)? {
                page.take(entry);
            }
        }
        match keys.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn pairs(
    space: &Space<'_, Snapshot>,
    prefix: &[u8],
    after: Option<Vec<u8>>,
    page: &mut Filling,
) -> Result<(), ReadError> {
    let start = match after {
        Some(after) if after.as_slice() >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix.to_vec()),
    };
    let mut failed: Option<ValueError> = None;
    space.kv().scan((start, Bound::Unbounded), |key, bytes| {
        if !key.starts_with(prefix) {
            return ControlFlow::Break(());
        }
        page.has_room()?;
        match value::of_value(&bytes, SHORT_BYTES) {
            Ok(shown) => {
                page.take(plain(key, shown));
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), |error| Err(StoreError::from(error).into()))
}

fn pair(space: &Space<'_, Snapshot>, key: &[u8]) -> Result<Option<StoreEntry>, ReadError> {
    let mut found = None;
    space.kv().scan((Bound::Included(key), Bound::Included(key)), |key, bytes| {
        found = Some(value::of_value(&bytes, FULL_BYTES).map(|shown| plain(key, shown)));
        ControlFlow::Break(())
    })?;
    let Some(entry) = found.transpose().map_err(StoreError::from)? else { return Ok(None) };
    let left = space.kv().ttl(key)?;
    let end = left.and_then(|left| i64::try_from(left.as_millis()).ok());
    let expires_at = end.map(|end| time(clock::unix_ms().saturating_add(end)));
    Ok(Some(StoreEntry { expires_at, ..entry }))
}

fn of_cell(key: &str, cell: &Cell, limit: usize) -> Result<StoreEntry, StoreError> {
    let mut bytes = Vec::new();
    cell.value.encode(&mut bytes);
    let value = value::of_value(&ValueRef::decode(&bytes)?, limit)?;
    Ok(StoreEntry { version: Some(cell.version), ..plain(key.as_bytes(), value) })
}

fn blob(space: &Space<'_, Snapshot>, key: &str, limit: usize) -> Result<Option<StoreEntry>, ReadError> {
    let blobs = space.blobs();
    let Some(reader) = blobs.open(key)? else { return Ok(None) };
    let info = *reader.info();
    let mut begin = Vec::new();
    reader
        .take(limit as u64)
        .read_to_end(&mut begin)
        .map_err(|error| StoreError::Damaged(format!("blob {key:?} cannot be read: {error}")))?;
    let mut value = value::of_bytes("blob", &begin, limit);
    value.cut |= info.bytes > begin.len() as u64;
    Ok(Some(StoreEntry {
        size: Some(info.bytes),
        hash: Some(info.hash_hex()),
        ..plain(key.as_bytes(), value)
    }))
}

fn of_row(key: &str, row: &Row<'_>, limit: usize) -> StoreEntry {
    StoreEntry {
        size: Some(row.dimension() as u64),
        metadata: value::of_metadata(row, limit),
        ..plain(key.as_bytes(), value::of_vector(row, limit))
    }
}

fn of_event(event: &Event, limit: usize) -> StoreEntry {
    StoreEntry {
        event_type: Some(escaped(event.event_type.as_bytes())),
        at: Some(time(event.at_ms)),
        hash: Some(event.hash.iter().map(|byte| format!("{byte:02x}")).collect()),
        ..plain(event.seq.to_string().as_bytes(), value::of_json(event.payload.as_str(), limit))
    }
}

/// Events, the newest first, one by one: each may have 16 MiB.
fn events(
    space: &Space<'_, Snapshot>,
    event_type: &str,
    cursor: Option<&str>,
    page: &mut Filling,
) -> Result<(), ReadError> {
    let invalid = |cursor: &str| ReadError::Invalid(format!("{cursor:?} is not an event number"));
    let last: Option<u64> = cursor.map(|cursor| cursor.parse().map_err(|_| invalid(cursor))).transpose()?;
    let mut next = match last {
        Some(0) => return Ok(()),
        Some(last) => last - 1,
        None => u64::MAX,
    };
    let decoded = unescaped(event_type);
    let Ok(event_type) = std::str::from_utf8(&decoded) else { return Ok(()) };
    let event_type = Some(event_type).filter(|name| !name.is_empty());
    loop {
        // It is known that there is one more: the page before it said so.
        if page.has_room().is_break() {
            return Ok(());
        }
        let found = space.events().range(..=next, Direction::Backwards, event_type, 1)?;
        let Some(event) = found.events.first() else { return Ok(()) };
        page.take(of_event(event, SHORT_BYTES));
        match found.next {
            Some(before) => next = before,
            None => return Ok(()),
        }
    }
}
