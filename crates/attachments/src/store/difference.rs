//! What differs between two branches, a page at a time.

use super::{kind_of, moment, primitive_of, value};
use crate::{
    error::ReadError,
    limits::{PAGE_BYTES, SHORT_BYTES},
    look::Look,
    text::{escaped, unescaped},
};
use duramen_api::attachments::store::{EntryKind, ShownValue, StoreChange, StoreDifference};
use duramen_store::{Part, Primitive, RawChange, Store, DEFAULT_SPACE};
use std::ops::ControlFlow;

/// What is asked of a difference.
#[derive(Debug, Clone, Copy)]
pub struct DifferenceAsked<'a> {
    /// A branch, or a state of it.
    pub from: &'a str,
    /// Another one.
    pub to: &'a str,
    /// Only this kind of data.
    pub kind: Option<EntryKind>,
    /// Only this space.
    pub space: Option<&'a str>,
    /// Only keys that begin with this, escaped.
    pub prefix: &'a str,
    /// Where the page begins, as the one before says it.
    pub cursor: Option<&'a str>,
    /// At most so many.
    pub limit: usize,
}

/// A place in the order of what differs.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    primitive: Primitive,
    /// The default space is the first.
    space: String,
    key: Vec<u8>,
}

impl Place {
    fn of(change: &RawChange<'_>) -> Place {
        let space = if change.space == DEFAULT_SPACE { "" } else { change.space };
        Place { primitive: change.primitive, space: space.to_owned(), key: change.key.to_vec() }
    }

    fn text(&self) -> String {
        format!("{}/{}/{}", self.primitive, self.space, escaped(&self.key))
    }

    fn read(text: &str) -> Option<Place> {
        let (primitive, rest) = text.split_once('/')?;
        let (space, key) = rest.split_once('/')?;
        Some(Place { primitive: primitive.parse().ok()?, space: space.to_owned(), key: unescaped(key) })
    }
}

/// What differs between two branches of a store. A page costs what differs before it, too.
///
/// # Errors
/// [`ReadError::Store`] when there is no such branch, or one cannot be read; [`ReadError::Invalid`] for a cursor that is none;
/// [`ReadError::TooSlow`] when nothing is found in time.
///
/// # Examples
/// ```
/// use duramen_attachments::store::{difference, DifferenceAsked};
/// use duramen_store::{Scope, Store};
/// let store = Store::memory();
/// store.fork("main", "try")?.kv().put("colour", "red")?;
/// let asked = DifferenceAsked { from: "main", to: "try", kind: None, space: None, prefix: "", cursor: None, limit: 10 };
/// let found = difference(&store, &asked)?;
/// assert_eq!((found.changes[0].key.as_str(), found.next), ("colour", None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn difference(store: &Store, asked: &DifferenceAsked<'_>) -> Result<StoreDifference, ReadError> {
    let (from, to) = (moment::snapshot(store, asked.from)?, moment::snapshot(store, asked.to)?);
    let after = asked.cursor.map(|cursor| {
        Place::read(cursor)
            .ok_or_else(|| ReadError::Invalid(format!("{cursor:?} is no cursor of a difference")))
    });
    let after = after.transpose()?;
    let part = Part {
        primitive: asked.kind.map(primitive_of),
        space: asked.space.map(str::to_owned),
        ..Part::default()
    };
    let prefix = unescaped(asked.prefix);
    let mut look = Look::begin();
    let (mut changes, mut bytes, mut last, mut more) = (Vec::new(), 0, None, false);
    from.diff_with(&to, &part, &mut |change: RawChange<'_>| {
        look.on()?;
        let Some(key) = shown_key(&change, &prefix) else { return ControlFlow::Continue(()) };
        if after.as_ref().is_some_and(|after| Place::of(&change) <= *after) {
            return ControlFlow::Continue(());
        }
        if changes.len() == asked.limit || bytes >= PAGE_BYTES {
            more = true;
            return ControlFlow::Break(());
        }
        let shown = shown(&change, key);
        bytes += shown.key.len()
            + [&shown.from, &shown.to].into_iter().flatten().map(|side| side.text.len()).sum::<usize>();
        last = Some(Place::of(&change));
        changes.push(shown);
        ControlFlow::Continue(())
    })?;
    if look.is_over() && changes.is_empty() {
        return Err(Look::too_slow());
    }
    let next = last.filter(|_| more || look.is_over()).map(|last| last.text());
    Ok(StoreDifference { changes, next })
}

/// The key as it is shown; none for what is passed over: what a primitive keeps for itself, and other prefixes.
fn shown_key(change: &RawChange<'_>, prefix: &[u8]) -> Option<String> {
    let key = change.display_key()?;
    match change.primitive {
        Primitive::Event => key.as_bytes().starts_with(prefix).then_some(key),
        // The first byte says what it is, and a zero ends the collection's name.
        Primitive::Vector => {
            let (_, name) = change.key.split_first()?;
            let name = match name.iter().position(|byte| *byte == 0) {
                Some(end) => [&name[..end], b"/", &name[end + 1..]].concat(),
                None => name.to_vec(),
            };
            name.starts_with(prefix).then(|| escaped(&name))
        }
        _ => change.key.starts_with(prefix).then(|| escaped(change.key)),
    }
}

fn shown(change: &RawChange<'_>, key: String) -> StoreChange {
    let side = |bytes: Option<&[u8]>| -> Option<ShownValue> {
        // One side at a time, so that two large values are not in memory together.
        let alone = RawChange { left: Some(bytes?), right: None, ..*change };
        Some(of_json(&alone.entry()?.left?))
    };
    StoreChange {
        kind: kind_of(change.primitive),
        space: change.space.to_owned(),
        key,
        from: side(change.left),
        to: side(change.right),
    }
}

fn of_json(json: &serde_json::Value) -> ShownValue {
    value::of_json(&json.to_string(), SHORT_BYTES)
}
