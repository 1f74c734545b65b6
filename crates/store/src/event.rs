//! The event log of a space: entries that are only ever appended, each chained to the one before it by its hash.
//!
//! ```text
//! entry  event prefix of the space, 1, seq u64 (big-endian)             -> see `entry`
//! index  event prefix of the space, 2, type, 0, seq u64 (big-endian)    -> nothing
//! ```
//!
//! No row says how long the log is: its last entry does. So two appends write no key in common but the next entry. A log
//! that was trimmed has a row that says where it begins (`event prefix, 3`); its last event is never trimmed.

mod entry;
mod tail;
mod verify;

use std::ops::{Bound, ControlFlow, Range, RangeBounds};
use std::time::Duration;

use duramen_base::clock;
use duramen_tree::KeyRange;

use crate::access::{Access, Edit, Space, View};
use crate::error::StoreError;
use crate::index::RawRow;
use crate::json::ToJson;
use crate::names::check_label;

pub use entry::Event;
use entry::{decode_index, decode_seq, scan, Stored};
pub(crate) use entry::{part_of, EventPart, Keys, Start};
use tail::Tail;
pub(crate) use tail::{append_resequenced, length};
pub use verify::{BadEvent, EventReport};

/// In which order events are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The oldest first.
    #[default]
    Forwards,
    /// The newest first.
    Backwards,
}

/// A page of events, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// The events, in the order that was asked for.
    pub events: Vec<Event>,
    /// The number of the first event that is not on the page any more, if there is one: the start of the next range
    /// forwards, and its last number (`..=next`) backwards.
    pub next: Option<u64>,
}

/// What is known of a type of event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EventType {
    /// Its name.
    #[serde(rename = "type")]
    pub name: String,
    /// How many events of it there are.
    pub count: u64,
    /// The number of the last one.
    pub last_seq: u64,
}

/// The event log of a space.
///
/// Events are numbered from 0 without gaps and never change; the first of them can be trimmed. Those that several threads append get their numbers in
/// the order in which they are committed. In a transaction, an append conflicts with any other on the same log that is
/// committed first.
///
/// ```
/// use duramen_store::{Scope, Store};
/// use serde_json::json;
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// let events = main.events();
/// assert_eq!(events.append("login", &json!({"user": "alice"}))?, 0);
/// assert_eq!(events.append("logout", &json!({"user": "alice"}))?, 1);
/// assert_eq!(events.append("login", &json!({"user": "bob"}))?, 2);
///
/// let logins = events.by_type("login", None, 10)?;
/// assert_eq!(logins[1].payload.as_str(), r#"{"user":"bob"}"#);
/// assert_eq!(events.len()?, 3);
/// assert_eq!(events.verify()?.first_bad, None);
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Events<'s, S> {
    space: Space<'s, S>,
}

/// Events that are trimmed in one commit.
const TRIM_EVENTS: u64 = 100_000;

/// The bytes of an object, of which a payload must be one.
fn check_payload(text: &str) -> Result<(), StoreError> {
    if text.starts_with('{') {
        return Ok(());
    }
    let reason = "it must be a JSON object; put the value in one, under a name".to_owned();
    Err(StoreError::InvalidInput { what: "an event's payload", reason })
}

fn check_type(name: &str) -> Result<(), StoreError> {
    check_label("event type", name)
}

/// The numbers of a range: the first, and the first after it. None if it is empty.
fn numbers(range: impl RangeBounds<u64>) -> Option<(u64, Option<u64>)> {
    let start = match range.start_bound() {
        Bound::Included(seq) => *seq,
        Bound::Excluded(seq) => seq.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(seq) => seq.checked_add(1),
        Bound::Excluded(seq) => Some(*seq),
        Bound::Unbounded => None,
    };
    end.is_none_or(|end| start < end).then_some((start, end))
}

impl<'s, S: Access> Events<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }

    fn keys(&self) -> Keys {
        Keys::new(self.space.name())
    }

    /// Appends an event. Returns its number.
    ///
    /// # Errors
    /// When the type is empty, has a NUL or more than 256 bytes; when the payload is not a JSON object or breaks a limit
    /// of documents; when nothing can be written.
    pub fn append(&self, event_type: &str, payload: impl ToJson) -> Result<u64, StoreError> {
        check_type(event_type)?;
        let payload = payload.to_json()?;
        check_payload(payload.as_str())?;
        let (seq, _) = self.space.scope().write(|edit| {
            // The time is taken where no other append can come between, so that it runs with the numbers.
            Tail::find(edit, self.keys())?.push(edit, event_type, payload.as_str(), clock::unix_ms())
        })?;
        Ok(seq)
    }

    /// Appends several events in one commit, in their order. Returns their numbers.
    ///
    /// # Errors
    /// As [`append`](Self::append): then none is appended.
    pub fn append_batch<T: AsRef<str>, P: ToJson>(
        &self,
        events: impl IntoIterator<Item = (T, P)>,
    ) -> Result<Range<u64>, StoreError> {
        let events: Vec<(T, P)> = events.into_iter().collect();
        let mut payloads = Vec::with_capacity(events.len());
        for (event_type, payload) in &events {
            check_type(event_type.as_ref())?;
            let payload = payload.to_json()?;
            check_payload(payload.as_str())?;
            payloads.push(payload);
        }
        let (numbers, _) = self.space.scope().write(|edit| {
            let mut tail = Tail::find(edit, self.keys())?;
            let first = tail.next();
            let at_ms = clock::unix_ms();
            for ((event_type, _), payload) in events.iter().zip(&payloads) {
                tail.push(edit, event_type.as_ref(), payload.as_str(), at_ms)?;
            }
            Ok(first..tail.next())
        })?;
        Ok(numbers)
    }

    /// The event of a number.
    ///
    /// # Errors
    /// When the store cannot be read or the event is damaged.
    pub fn get(&self, seq: u64) -> Result<Option<Event>, StoreError> {
        let key = self.keys().entry(seq);
        self.space.scope().peek(|view| event_at(view, &key, seq))
    }

    /// Whether there is an event of a number.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn exists(&self, seq: u64) -> Result<bool, StoreError> {
        let key = self.keys().entry(seq);
        self.space.scope().peek(|view| view.get(&key, &mut |_, _| {}))
    }

    /// The number of the next event: how many were ever appended.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn len(&self) -> Result<u64, StoreError> {
        self.space.scope().peek(|view| length(view, self.space.name()))
    }

    /// Whether there is no event.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.len()? == 0)
    }

    /// The number of the first event that is there: 0 unless the log was trimmed.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn first(&self) -> Result<u64, StoreError> {
        self.space.scope().peek(|view| Ok(Start::find(view, &self.keys())?.seq))
    }

    /// The number of the first event of a time or later, in milliseconds since 1970 (UTC): [`len`](Self::len) if all are
    /// earlier.
    ///
    /// # Errors
    /// When the store cannot be read or an event is damaged.
    pub fn since(&self, at_ms: i64) -> Result<u64, StoreError> {
        let keys = self.keys();
        self.space.scope().read(|view| {
            let (mut low, mut high) = (Start::find(view, &keys)?.seq, length(view, self.space.name())?);
            while low < high {
                let middle = low + (high - low) / 2;
                let missing =
                    || StoreError::Damaged(format!("event {middle} is not there, and later ones are"));
                let event = event_at(view, &keys.entry(middle), middle)?.ok_or_else(missing)?;
                match event.at_ms < at_ms {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            Ok(low)
        })
    }

    /// The number of the first event that is not older than this: [`len`](Self::len) if all are.
    ///
    /// # Errors
    /// As [`since`](Self::since).
    pub fn since_age(&self, age: Duration) -> Result<u64, StoreError> {
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.since(clock::unix_ms().saturating_sub(age_ms))
    }

    /// Deletes the events before a number, in commits of at most 100,000 events. The last event stays in any case, so that the next one follows
    /// it; in a transaction, that before it, and what it appended itself. What is left keeps its numbers and hashes, and can
    /// be verified as before. Returns how many were deleted.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// # let store = Store::memory();
    /// # let main = store.branch("main")?;
    /// # let events = main.events();
    /// events.append_batch((0..5).map(|n| ("tick", serde_json::json!({ "n": n }))))?;
    /// assert_eq!(events.trim(3)?, 3);
    /// assert_eq!((events.first()?, events.len()?), (3, 5));
    /// assert_eq!(events.verify()?.first_bad, None);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When an event is damaged, or nothing can be written: what was deleted until then stays so, and the rest is a whole log.
    pub fn trim(&self, before: u64) -> Result<u64, StoreError> {
        let (mut deleted, mut end) = (0, self.first()?);
        while end < before {
            end = before.min(end.saturating_add(TRIM_EVENTS));
            let (trimmed, _) = self.space.scope().write(|edit| trim(edit, self.space.name(), end))?;
            deleted += trimmed;
            if trimmed == 0 {
                break;
            }
        }
        Ok(deleted)
    }

    /// The events of a range of numbers, at most `limit`, of one type if one is given.
    ///
    /// ```
    /// use duramen_store::event::Direction;
    /// use duramen_store::{Scope, Store};
    /// # let store = Store::memory();
    /// # let main = store.branch("main")?;
    /// # let events = main.events();
    /// events.append_batch((0..5).map(|n| ("tick", serde_json::json!({ "n": n }))))?;
    /// let page = events.range(.., Direction::Backwards, None, 2)?;
    /// assert_eq!(page.events[0].seq, 4);
    /// let next = page.next.expect("there are three more");
    /// assert_eq!(events.range(..=next, Direction::Backwards, None, 2)?.events[0].seq, 2);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the type is not allowed, the store cannot be read, or an event is damaged.
    pub fn range(
        &self,
        seqs: impl RangeBounds<u64>,
        direction: Direction,
        event_type: Option<&str>,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        event_type.map_or(Ok(()), check_type)?;
        let Some((start, end)) = numbers(seqs) else {
            return Ok(EventPage { events: Vec::new(), next: None });
        };
        let backwards = direction == Direction::Backwards;
        let keys = self.keys();
        self.space.scope().read(|view| match event_type {
            None => {
                let (start, end) = keys.entries(start, end);
                let range = KeyRange { start: &start, end: Some(&end), backwards };
                entries(view, &range, limit)
            }
            Some(event_type) => {
                let (start, end) = keys.index(event_type, start, end);
                let range = KeyRange { start: &start, end: Some(&end), backwards };
                let (seqs, next) = indexed(view, &range, limit)?;
                Ok(EventPage { events: events_at(view, &keys, &seqs)?, next })
            }
        })
    }

    /// Shows the events of a range of numbers, the oldest first, until `show` breaks off, as of one moment.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// use std::ops::ControlFlow;
    /// # let store = Store::memory();
    /// # let main = store.branch("main")?;
    /// # let events = main.events();
    /// events.append_batch((0..5).map(|n| ("tick", serde_json::json!({ "n": n }))))?;
    /// let mut seen = Vec::new();
    /// events.scan(3.., |event| {
    ///     seen.push(event.seq);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(seen, [3, 4]);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the store cannot be read, or an event is damaged.
    pub fn scan(
        &self,
        seqs: impl RangeBounds<u64>,
        mut show: impl FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some((start, end)) = numbers(seqs) else { return Ok(()) };
        let (start, end) = self.keys().entries(start, end);
        self.space.scope().read(|view| {
            scan(view, &KeyRange::new(&start, Some(&end)), |key, value| {
                Ok(show(Event::decode(decode_seq(key)?, value)?))
            })
        })
    }

    /// The events of a type whose numbers are above `after`, the oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the type is not allowed, the store cannot be read, or an event is damaged.
    pub fn by_type(
        &self,
        event_type: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.range((after, Bound::Unbounded), Direction::Forwards, Some(event_type), limit)?.events)
    }

    /// The types that there are events of, in the order of their names.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn types(&self) -> Result<Vec<EventType>, StoreError> {
        let keys = self.keys();
        self.space.scope().read(|view| {
            let (mut start, end) = keys.whole_index();
            let mut types = Vec::new();
            while let Some(name) = first_type(view, &KeyRange::new(&start, Some(&end)))? {
                let (first, behind) = keys.index(&name, 0, None);
                let range = KeyRange::new(&first, Some(&behind));
                let count = count(view, &range)?;
                let (last, _) = indexed(view, &range.reversed(), 1)?;
                let last_seq = last.first().copied().unwrap_or_default();
                types.push(EventType { name, count, last_seq });
                start = behind;
            }
            Ok(types)
        })
    }

    /// Checks that the log is as it was written: numbers without gaps, hashes that follow from one another, and each
    /// event in the index of its type. It stops at the first event that is not.
    ///
    /// # Errors
    /// When the store cannot be read. An event that is damaged is not an error, but in the report.
    pub fn verify(&self) -> Result<EventReport, StoreError> {
        let keys = self.keys();
        self.space.scope().read(|view| verify::verify(view, &keys))
    }
}

/// Deletes the events of a log before a number, but for the last. Returns how many.
pub(crate) fn trim(edit: &mut dyn Edit, space: &str, before: u64) -> Result<u64, StoreError> {
    let keys = Keys::new(space);
    let start = Start::find(edit, &keys)?;
    let Some(last) = tail::committed_length(edit, &keys)?.checked_sub(1) else { return Ok(0) };
    let end = before.min(last);
    if end <= start.seq {
        return Ok(0);
    }
    let row = start_row(edit, space, end)?;
    let gone = keys_between(edit, space, start.seq, Some(end))?;
    gone.iter().try_for_each(|key| edit.delete(key))?;
    // The branch may be reset before a transaction commits, and the log would begin with an event that is not there.
    edit.depend(&keys.entry(end));
    edit.put(&keys.start(), &mut |out| out.extend_from_slice(&row))?;
    // Each has a place in the index of its type.
    Ok(gone.len() as u64 / 2)
}

/// The hash of an event; none if it is not there.
pub(crate) fn hash_at<V: View + ?Sized>(
    view: &V,
    space: &str,
    seq: u64,
) -> Result<Option<[u8; 32]>, StoreError> {
    Ok(event_at(view, &Keys::new(space).entry(seq), seq)?.map(|event| event.hash))
}

/// The row that says that a log begins with an event, of a log that has it and began no later.
pub(crate) fn start_row<V: View + ?Sized>(view: &V, space: &str, seq: u64) -> Result<Vec<u8>, StoreError> {
    let mut start = Start::find(view, &Keys::new(space))?;
    if start.seq != seq {
        let missing = || StoreError::Damaged(format!("event {} is not there, and later ones are", seq - 1));
        start = Start { seq, before: hash_at(view, space, seq - 1)?.ok_or_else(missing)? };
    }
    let mut row = Vec::new();
    start.encode(&mut row);
    Ok(row)
}

/// The keys of the tree and the values that the events from `seq` on have.
pub(crate) fn rows_from<V: View + ?Sized>(
    view: &V,
    space: &str,
    seq: u64,
) -> Result<Vec<RawRow>, StoreError> {
    let keys = Keys::new(space);
    let (start, end) = keys.entries(seq, None);
    let mut rows = Vec::new();
    scan(view, &KeyRange::new(&start, Some(&end)), |key, value| {
        let seq = decode_seq(key)?;
        let index = keys.index_entry(Stored::decode(seq, value)?.event_type, seq);
        rows.push((key.to_vec(), value.to_vec()));
        rows.push((index.to_vec(), Vec::new()));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// The keys of the tree that the events from `seq` on have, below `end` if there is one.
pub(crate) fn keys_between<V: View + ?Sized>(
    view: &V,
    space: &str,
    seq: u64,
    end: Option<u64>,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let keys = Keys::new(space);
    let mut found = Vec::new();
    if end.is_some_and(|end| end <= seq) {
        return Ok(found);
    }
    let (start, end) = keys.entries(seq, end);
    scan(view, &KeyRange::new(&start, Some(&end)), |key, value| {
        let seq = decode_seq(key)?;
        found.push(keys.index_entry(Stored::decode(seq, value)?.event_type, seq).to_vec());
        found.push(key.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Events whose numbers are above or equal to `seq`: those that a merge may resequence.
pub(crate) fn entries_from<V: View + ?Sized>(
    view: &V,
    space: &str,
    seq: u64,
) -> Result<Vec<Event>, StoreError> {
    let (start, end) = Keys::new(space).entries(seq, None);
    Ok(entries(view, &KeyRange::new(&start, Some(&end)), usize::MAX)?.events)
}

fn event_at<V: View + ?Sized>(view: &V, key: &[u8], seq: u64) -> Result<Option<Event>, StoreError> {
    let mut found = None;
    view.get(key, &mut |_, bytes| found = Some(Event::decode(seq, bytes)))?;
    found.transpose()
}

/// The events of a range of entries.
fn entries<V: View + ?Sized>(view: &V, range: &KeyRange<'_>, limit: usize) -> Result<EventPage, StoreError> {
    let mut page = EventPage { events: Vec::new(), next: None };
    scan(view, range, |key, value| {
        let seq = decode_seq(key)?;
        if page.events.len() == limit {
            page.next = Some(seq);
            return Ok(ControlFlow::Break(()));
        }
        page.events.push(Event::decode(seq, value)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(page)
}

/// The numbers in a range of the index, and the first that is too many.
fn indexed<V: View + ?Sized>(
    view: &V,
    range: &KeyRange<'_>,
    limit: usize,
) -> Result<(Vec<u64>, Option<u64>), StoreError> {
    let mut seqs = Vec::new();
    let mut next = None;
    scan(view, range, |key, _| {
        let seq = decode_seq(key)?;
        if seqs.len() == limit {
            next = Some(seq);
            return Ok(ControlFlow::Break(()));
        }
        seqs.push(seq);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((seqs, next))
}

/// Up to so many entries are stepped over rather than that the next one is looked up from the root of the tree.
const STEPS_PER_LOOKUP: u64 = 4;

/// The events of numbers that rise or fall.
fn events_at<V: View + ?Sized>(view: &V, keys: &Keys, seqs: &[u64]) -> Result<Vec<Event>, StoreError> {
    let (Some(first), Some(last)) = (seqs.first().copied(), seqs.last().copied()) else {
        return Ok(Vec::new());
    };
    let missing =
        |seq: u64| StoreError::Damaged(format!("event {seq} is in the index of types and not there"));
    let mut events = Vec::with_capacity(seqs.len());
    if first.abs_diff(last) / STEPS_PER_LOOKUP < seqs.len() as u64 {
        let (start, end) = keys.entries(first.min(last), first.max(last).checked_add(1));
        let range = KeyRange { start: &start, end: Some(&end), backwards: first > last };
        scan(view, &range, |key, value| {
            let seq = decode_seq(key)?;
            if seqs.get(events.len()) == Some(&seq) {
                events.push(Event::decode(seq, value)?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        return match seqs.get(events.len()) {
            Some(seq) => Err(missing(*seq)),
            None => Ok(events),
        };
    }
    for seq in seqs {
        events.push(event_at(view, &keys.entry(*seq), *seq)?.ok_or_else(|| missing(*seq))?);
    }
    Ok(events)
}

/// The type of the first key in a range of the index.
fn first_type<V: View + ?Sized>(view: &V, range: &KeyRange<'_>) -> Result<Option<String>, StoreError> {
    let mut found = None;
    scan(view, range, |key, _| {
        found = Some(decode_index(key)?.0.to_owned());
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// The keys in a range of an index. What a transaction appended is new, so it is never among the leaves, and what it trimmed
/// always is.
fn count<V: View + ?Sized>(view: &V, range: &KeyRange<'_>) -> Result<u64, StoreError> {
    let mut count = 0;
    view.leaves(range, &mut |leaf| {
        count += leaf.len() as u64;
        ControlFlow::Continue(())
    })?;
    view.written(range, &mut |_, there| match there {
        Some(_) => count += 1,
        None => count -= 1,
    })?;
    Ok(count)
}
