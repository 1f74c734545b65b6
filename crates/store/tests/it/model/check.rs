//! Reads of a branch, a transaction or a snapshot, compared with what the model has.

use std::ops::Bound;

use duramen_store::event::Events;
use duramen_store::kv::Key;
use duramen_store::{Scope, StoreError};

use super::plan::{event, value, Kind, Step, EVENT_TYPES, SPACES};
use super::shadow::{Data, Entry, Place};

/// Why a check failed.
#[derive(Debug)]
pub(crate) enum Finding {
    /// The store refused to read.
    Error(StoreError),
    /// It read something else.
    Other(String),
}

impl From<StoreError> for Finding {
    fn from(error: StoreError) -> Self {
        Self::Error(error)
    }
}

fn other<T>(text: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Other(text.into()))
}

/// The entries of a kind in a space, in order.
fn rows(data: &Data, kind: u8, space: u8) -> impl Iterator<Item = (u32, &Entry)> {
    data.range((kind, space, 0)..=(kind, space, u32::MAX)).map(|(place, entry)| (place.2, entry))
}

/// Compares one pair, with its version where it is told.
fn pair<S: Scope>(scope: &S, place: Place, right: Option<&Entry>, keys: &[String]) -> Result<(), Finding> {
    let space = scope.space(SPACES[place.1 as usize])?;
    let key = &keys[place.2 as usize];
    let found = space.kv().get_versioned(key)?;
    let right = right.map(|entry| (value(entry.value), entry.version));
    if found != right {
        return other(format!("the pair {key:?} is {found:?}, not {right:?}"));
    }
    if space.kv().exists(key)? != right.is_some() {
        return other(format!("the pair {key:?} is there or not, but exists says the opposite"));
    }
    Ok(())
}

fn cell<S: Scope>(scope: &S, place: Place, right: Option<&Entry>, keys: &[String]) -> Result<(), Finding> {
    let key = &keys[place.2 as usize];
    let found = scope.space(SPACES[place.1 as usize])?.state().read(key)?;
    let found = found.map(|cell| (cell.value, cell.version));
    let right = right.map(|entry| (value(entry.value), entry.cell));
    if found != right {
        return other(format!("the cell {key:?} is {found:?}, not {right:?}"));
    }
    Ok(())
}

/// A step that reads.
pub(crate) fn step<S: Scope>(step: &Step, scope: &S, data: &Data, keys: &[String]) -> Result<(), Finding> {
    let n = step.n;
    let space = (n[1] as usize % SPACES.len()) as u8;
    let key = (n[2] as usize % keys.len()) as u32;
    let kv = scope.space(SPACES[space as usize])?.kv();
    match step.kind {
        Kind::Get | Kind::TxGet => {
            let place = (0, space, key);
            pair(scope, place, data.get(&place), keys)
        }
        Kind::CellRead => {
            let place = (1, space, key);
            cell(scope, place, data.get(&place), keys)
        }
        Kind::Range | Kind::TxRange => {
            let last = (n[3] as usize % keys.len()) as u32;
            let limit = n[4] as usize;
            let (from, to) = (&*keys[key as usize], &*keys[last as usize]);
            // Ranges that are upside down are empty.
            let bounds = (Bound::Included(from), Bound::Excluded(to));
            let found = kv.range(bounds, limit)?;
            let within = rows(data, 0, space).filter(|(at, _)| (key..last).contains(at)).take(limit);
            let right: Vec<_> =
                within.map(|(at, entry)| (Key::new(&keys[at as usize]), value(entry.value))).collect();
            if found != right {
                return other(format!("the range {from:?}..{to:?}, {limit} holds {found:?}, not {right:?}"));
            }
            Ok(())
        }
        Kind::List => {
            let prefix = prefix(&keys[key as usize]);
            let after = (n[4] == 1).then(|| keys[(key as usize + 3) % keys.len()].as_str());
            let limit = n[3] as usize;
            let page = kv.list(prefix, after.map(str::as_bytes), limit)?;
            let mut right = rows(data, 0, space)
                .map(|(at, _)| keys[at as usize].as_str())
                .filter(|key| key.starts_with(prefix) && after.is_none_or(|after| *key > after));
            let on_page: Vec<&str> = right.by_ref().take(limit).collect();
            if page.items != on_page {
                return other(format!("the list of {prefix:?} is {:?}, not {on_page:?}", page.items));
            }
            let is_last = right.next().is_none();
            if limit > 0 && page.next.is_some() == is_last {
                return other(format!("the list of {prefix:?} goes on: {:?}", page.next));
            }
            Ok(())
        }
        _ => {
            let prefix = if n[3] == 1 { "" } else { prefix(&keys[key as usize]) };
            let right = rows(data, 0, space).filter(|(at, _)| keys[*at as usize].starts_with(prefix)).count();
            let found = kv.count(prefix)?;
            if found != right as u64 {
                return other(format!("{found} keys begin with {prefix:?}, not {right}"));
            }
            Ok(())
        }
    }
}

/// Compares an event log: its numbers, what they say, the chain of hashes and the index by type.
fn events<'d, S: Scope>(
    events: &Events<'_, S>,
    right: impl Iterator<Item = (u32, &'d Entry)>,
    name: &str,
) -> Result<(), Finding> {
    let mut count = 0;
    let mut of_type = [0_u64; EVENT_TYPES.len()];
    for (seq, entry) in right {
        let (event_type, payload) = event(entry.value);
        let found = events.get(u64::from(seq))?;
        let is_right = found.as_ref().is_some_and(|found| {
            found.event_type == event_type
                && serde_json::from_str(found.payload.as_str()).ok().as_ref() == Some(&payload)
        });
        if !is_right {
            return other(format!("event {seq} of {name} is {found:?}, not {event_type} {payload}"));
        }
        of_type[entry.value as usize % EVENT_TYPES.len()] += 1;
        count += 1;
    }
    if events.len()? != count {
        return other(format!("space {name} has {} events, not {count}", events.len()?));
    }
    let report = events.verify()?;
    if report.first_bad.is_some() || report.checked != count {
        return other(format!("the events of {name} do not hold: {report:?}"));
    }
    for found in events.types()? {
        let at = EVENT_TYPES.iter().position(|known| *known == found.name);
        let right = at.map(|at| std::mem::take(&mut of_type[at]));
        if right != Some(found.count) {
            return other(format!("{found:?} of {name}, and should be {right:?}"));
        }
    }
    if of_type != [0; EVENT_TYPES.len()] {
        return other(format!("types of {name} are missing: {of_type:?}"));
    }
    Ok(())
}

fn prefix(key: &str) -> &str {
    &key[..key.char_indices().nth(2).map_or(key.len(), |(at, _)| at)]
}

/// Compares all that is in a branch or a snapshot.
pub(crate) fn all<S: Scope>(scope: &S, data: &Data, keys: &[String]) -> Result<(), Finding> {
    for (number, name) in SPACES.iter().enumerate() {
        let number = number as u8;
        let space = scope.space(name)?;
        let found = space.kv().range(.., usize::MAX)?;
        let mut right = rows(data, 0, number);
        for (key, read) in &found {
            let next = right.next();
            let is_right =
                next.is_some_and(|(at, entry)| *key == keys[at as usize] && value(entry.value) == *read);
            if !is_right {
                return other(format!(
                    "space {name} holds the pair {key:?} = {read:?}, and should hold {next:?}"
                ));
            }
        }
        if let Some((at, _)) = right.next() {
            return other(format!("space {name} lacks the pair {:?}", keys[at as usize]));
        }
        let listed = space.state().list("", None, usize::MAX)?.items;
        let right: Vec<_> = rows(data, 1, number).map(|(at, _)| keys[at as usize].as_str()).collect();
        if listed != right {
            return other(format!("space {name} holds the cells {listed:?}, not {right:?}"));
        }
        for (at, entry) in rows(data, 1, number) {
            cell(scope, (1, number, at), Some(entry), keys)?;
        }
        let listed = space.json().list("", None, usize::MAX)?.items;
        let right: Vec<_> = rows(data, 3, number).map(|(at, _)| keys[at as usize].as_str()).collect();
        if listed != right {
            return other(format!("space {name} holds the documents {listed:?}, not {right:?}"));
        }
        for (at, entry) in rows(data, 3, number) {
            let found = space.json().get(&keys[at as usize], "")?;
            let read = found.as_ref().and_then(|json| serde_json::from_str(json.as_str()).ok());
            if read != Some(entry.document()) {
                let key = &keys[at as usize];
                return other(format!("the document {key:?} is {found:?}, not {:?}", entry.document()));
            }
        }
        events(&space.events(), rows(data, 2, number), name)?;
        // Versions, of a few.
        for (at, entry) in rows(data, 0, number).step_by(7) {
            pair(scope, (0, number, at), Some(entry), keys)?;
        }
    }
    Ok(())
}
