//! Conflicts that merges kept to be settled later.
//!
//! A merge with [`Strategy::Keep`](crate::Strategy::Keep) goes through where both sides changed a row: the target keeps what
//! it has, and a record of what each side had is written in the same commit. Records are rows that are hidden from everything but
//! this module, so forks, histories, backups and followers have them. `docs/design/store.md` gives the invariants.

mod id;
pub(crate) mod record;

use std::ops::ControlFlow;

use duramen_tree::KeyRange;
use serde::Serialize;

use crate::access::{Access, Edit, View};
use crate::diff::Part;
use crate::display::{display_key, display_value};
use crate::error::StoreError;
use crate::expiry;
use crate::json::{three_way, Json, ThreeWay};
use crate::keys::{self, KeyBuf, Primitive};
use crate::kv::Page;
use crate::merge;
use crate::names::{check_key, check_key_bytes};
use crate::state;
use crate::value::Value;
use crate::vector;

pub use id::ConflictId;
use record::Kept;

/// Conflicts that a resolver is asked about before what it decided is committed, and the bytes of their records.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 4 << 20;

/// A conflict that a merge kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenConflict {
    /// Which row it is of.
    #[serde(flatten)]
    pub id: ConflictId,
    /// The branch that was merged; none for a change that was picked.
    pub source: Option<String>,
    /// The version of the store as of which the source was merged.
    pub version: u64,
    /// When, in milliseconds since 1970 (UTC).
    pub merged_ms: i64,
    /// What both sides had when they parted.
    pub base: Option<serde_json::Value>,
    /// What the branch that was merged into had.
    pub ours: Option<serde_json::Value>,
    /// What the branch that was merged had.
    pub theirs: Option<serde_json::Value>,
    /// Of a document, the paths that both sides changed.
    pub paths: Vec<String>,
    /// What the row has now.
    pub now: Option<serde_json::Value>,
    /// Whether that is another value than `ours`.
    pub changed: bool,
    /// Why its record cannot be read, if it cannot; then there is nothing to settle it with but [`Settle::Now`].
    pub unreadable: Option<String>,
    /// The versions of the record and of the row that were shown.
    #[serde(skip)]
    seen: (u64, Option<u64>),
}

/// How a conflict that was kept is settled.
#[derive(Clone, Debug, PartialEq)]
pub enum Settle {
    /// With what the branch that was merged into had.
    Ours,
    /// With what the branch that was merged had.
    Theirs,
    /// With what both had when they parted.
    Base,
    /// With what the row has now, whatever that is: only the record goes.
    Now,
    /// The key is deleted.
    Delete,
    /// With another value: for pairs, cells and documents.
    Value(serde_json::Value),
}

/// What came of settling many conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Settled {
    /// Conflicts that were settled.
    pub settled: u64,
    /// Conflicts that are still open: nothing was decided about them, or they changed between question and answer.
    pub open: u64,
}

/// Decides about open conflicts one by one; none leaves one open.
pub type Settler<'r> = dyn FnMut(&OpenConflict) -> Option<Settle> + 'r;

/// The conflicts that merges kept in a branch, a transaction or a snapshot.
///
/// ```
/// use duramen_store::conflict::{ConflictId, Settle};
/// use duramen_store::{MergeOptions, Part, Primitive, Scope, Store, Strategy};
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.kv().put("colour", "green")?;
/// let draft = main.fork("draft")?;
/// draft.kv().put("colour", "red")?;
/// main.kv().put("colour", "blue")?;
/// let options = MergeOptions { strategy: Strategy::Keep, ..MergeOptions::default() };
/// assert_eq!(store.merge("draft", "main", options)?.kept, 1);
/// assert_eq!(main.kv().get("colour")?, Some("blue".into()));
///
/// let open = main.conflicts().list(&Part::default(), None, 10)?.items;
/// assert_eq!(open[0].theirs, Some("red".into()));
/// main.conflicts().resolve(&open[0].id, Settle::Theirs)?;
/// assert_eq!(main.kv().get("colour")?, Some("red".into()));
/// assert_eq!(main.conflicts().get(&ConflictId::new(Primitive::Kv, "default", "colour"))?, None);
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Conflicts<'s, S> {
    scope: &'s S,
}

impl<S> Clone for Conflicts<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Conflicts<'_, S> {}

impl<'s, S: Access> Conflicts<'s, S> {
    pub(crate) fn new(scope: &'s S) -> Self {
        Self { scope }
    }

    /// The open conflicts of a part, after the one `after` if it is given, in the order of kind, space and key: at most `limit`, and
    /// fewer where their records are large.
    ///
    /// # Errors
    /// When the store cannot be read. A record that cannot be read is told in its [`unreadable`](OpenConflict::unreadable).
    pub fn list(
        &self,
        part: &Part,
        after: Option<&ConflictId>,
        limit: usize,
    ) -> Result<Page<OpenConflict>, StoreError> {
        let (mut items, mut next, mut bytes) = (Vec::new(), None, 0);
        self.scope.read(|view| {
            let behind = after.map(|after| behind(view, after)).transpose()?;
            for (start, end) in ranges(part)? {
                let start = behind.as_deref().map_or(&start[..], |behind| behind.max(&start));
                if start >= &end[..] || next.is_some() {
                    continue;
                }
                let mut failed = None;
                view.scan(&KeyRange::new(start, Some(&end)), &mut |key, version, record| {
                    let Some(row) = keys::split_conflict(key).filter(|row| has(part, row)) else {
                        return ControlFlow::Continue(());
                    };
                    if items.len() >= limit || bytes >= PAGE_BYTES {
                        next = items.last().cloned();
                        return ControlFlow::Break(());
                    }
                    bytes += record.len();
                    match show(view, row, version, record) {
                        Ok(open) => items.push(open),
                        Err(error) => {
                            failed = Some(error);
                            return ControlFlow::Break(());
                        }
                    }
                    ControlFlow::Continue(())
                })?;
                failed.map_or(Ok(()), Err)?;
            }
            Ok(())
        })?;
        Ok(Page { items, next })
    }

    /// How many conflicts of a part are open. It costs a look at each.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self, part: &Part) -> Result<u64, StoreError> {
        let mut count = 0;
        self.scope.read(|view| {
            ranges(part)?.iter().try_for_each(|(start, end)| {
                view.scan(&KeyRange::new(start, Some(end)), &mut |key, _, _| {
                    count += u64::from(keys::split_conflict(key).is_some_and(|row| has(part, row)));
                    ControlFlow::Continue(())
                })
            })
        })?;
        Ok(count)
    }

    /// The open conflict of a row, if it has one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, id: &ConflictId) -> Result<Option<OpenConflict>, StoreError> {
        self.scope.read(|view| {
            let Some((row, version, record)) = find(view, id)? else { return Ok(None) };
            show(view, &row, version, &record).map(Some)
        })
    }

    /// Settles a conflict: writes what was decided to the row, as any write does, and removes the record, both in one commit.
    ///
    /// ```
    /// use duramen_store::conflict::{ConflictId, Settle};
    /// use duramen_store::{Primitive, Scope, Store, StoreError};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// let id = ConflictId::new(Primitive::Kv, "default", "colour");
    /// let error = main.conflicts().resolve(&id, Settle::Theirs).unwrap_err();
    /// assert!(matches!(error, StoreError::ConflictNotFound { .. }));
    /// # Ok::<(), StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::ConflictNotFound`]; [`StoreError::ConflictChanged`] when the row is not what it was when the conflict was
    /// kept, unless it is settled with [`Settle::Now`]; [`StoreError::ConflictUnreadable`]; when the value is not allowed, breaks a
    /// unique index, or its collection of vectors would not take it.
    pub fn resolve(&self, id: &ConflictId, settle: Settle) -> Result<S::Written, StoreError> {
        self.settle(id, &settle, false)
    }

    /// As [`resolve`](Self::resolve), also where the row has changed since the conflict was kept.
    ///
    /// # Errors
    /// As `resolve`, but for [`StoreError::ConflictChanged`].
    pub fn resolve_if_changed(&self, id: &ConflictId, settle: Settle) -> Result<S::Written, StoreError> {
        self.settle(id, &settle, true)
    }

    fn settle(
        &self,
        id: &ConflictId,
        settle: &Settle,
        even_if_changed: bool,
    ) -> Result<S::Written, StoreError> {
        let ((), written) = self.scope.write(|edit| {
            let missing = || StoreError::ConflictNotFound { row: id.to_string() };
            let (row, _, record) = find(edit, id)?.ok_or_else(missing)?;
            settle_in(edit, &row, &record, settle, even_if_changed)
        })?;
        Ok(written)
    }

    /// Asks `settler` about each open conflict of a part, and settles those that it decides about, also where the row has
    /// changed: it is shown what the row has now. What it decides about up to 256 conflicts is one commit of a branch. One that
    /// somebody else changed between question and answer stays open.
    ///
    /// ```
    /// use duramen_store::conflict::Settle;
    /// use duramen_store::{Part, Scope, Store};
    /// let main = Store::memory().branch("main")?;
    /// // Numbers become the higher one; all else stays open.
    /// let done = main.conflicts().resolve_with(&Part::default(), &mut |open| {
    ///     let (ours, theirs) = (open.ours.as_ref()?.as_i64()?, open.theirs.as_ref()?.as_i64()?);
    ///     Some(Settle::Value(ours.max(theirs).into()))
    /// })?;
    /// assert_eq!((done.settled, done.open), (0, 0));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), at the first that cannot be settled: what was committed before stays.
    pub fn resolve_with(&self, part: &Part, settler: &mut Settler<'_>) -> Result<Settled, StoreError> {
        let mut done = Settled::default();
        let mut after: Option<ConflictId> = None;
        loop {
            let page = self.list(part, after.as_ref(), PAGE)?;
            let total = page.items.len() as u64;
            let decided: Vec<_> = page
                .items
                .into_iter()
                .filter_map(|open| settler(&open).map(|settle| (open, settle)))
                .collect();
            let mut settled = 0;
            if !decided.is_empty() {
                (settled, _) = self.scope.write(|edit| settle_page(edit, &decided))?;
            }
            done.settled += settled;
            done.open += total - settled;
            match page.next {
                Some(next) => after = Some(next.id),
                None => return Ok(done),
            }
        }
    }
}

/// Where the records of a part are.
pub(crate) fn ranges(part: &Part) -> Result<Vec<(KeyBuf, KeyBuf)>, StoreError> {
    let all = || KeyBuf::from_slice(&keys::ALL_CONFLICTS.1);
    let end = |end: Option<Vec<u8>>| end.map_or_else(all, |end| keys::conflict(&end));
    Ok(part.ranges()?.into_iter().map(|(start, to)| (keys::conflict(&start), end(to))).collect())
}

/// Whether a row of a range of a part is in it.
fn has(part: &Part, row: &[u8]) -> bool {
    keys::split(row).is_some_and(|(.., rest)| part.has(rest))
}

/// Behind the record of a row. If the row has none any more, and what is shown of its key stands for several, behind all of those:
/// who pages must come to an end.
fn behind(view: &dyn View, id: &ConflictId) -> Result<KeyBuf, StoreError> {
    let found = find(view, id)?.map(|(row, ..)| row);
    let row = found.or_else(|| id.rows().into_iter().max()).unwrap_or_default();
    let mut behind = keys::conflict(&row);
    behind.push(0);
    Ok(behind)
}

/// The key of the row, and version and bytes of the record.
type Found = (KeyBuf, u64, Vec<u8>);

fn find<V: View + ?Sized>(view: &V, id: &ConflictId) -> Result<Option<Found>, StoreError> {
    for row in id.rows() {
        let mut found = None;
        view.get(&keys::conflict(&row), &mut |version, record| found = Some((version, record.to_vec())))?;
        if let Some((version, record)) = found {
            return Ok(Some((row, version, record)));
        }
    }
    Ok(None)
}

/// A side as it stands now: a pair that is over is not there.
fn standing<'b, V: View + ?Sized>(
    view: &V,
    primitive: Primitive,
    side: Option<&'b [u8]>,
) -> Option<&'b [u8]> {
    side.filter(|bytes| primitive != Primitive::Kv || expiry::live(view, bytes).is_some())
}

fn read_row<V: View + ?Sized>(view: &V, row: &[u8]) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
    let mut now = None;
    view.get(row, &mut |version, bytes| now = Some((version, bytes.to_vec())))?;
    Ok(now)
}

fn show(view: &dyn View, row: &[u8], version: u64, record: &[u8]) -> Result<OpenConflict, StoreError> {
    let foreign = || StoreError::Damaged("the record of a conflict is of no row".into());
    let (primitive, space, rest) = keys::split(row).ok_or_else(foreign)?;
    let now = read_row(view, row)?;
    let standing_now = standing(view, primitive, now.as_ref().map(|(_, bytes)| &bytes[..]));
    let display = |side: Option<&[u8]>| side.map(|bytes| display_value(primitive, bytes));
    let (kept, unreadable) = match Kept::decode(record) {
        Ok(kept) => (Some(kept), None),
        Err(error) => (None, Some(reason(&error))),
    };
    let paths = kept.as_ref().map(|kept| paths(primitive, kept)).unwrap_or_default();
    let ours = kept.and_then(|kept| standing(view, primitive, kept.ours));
    Ok(OpenConflict {
        id: ConflictId::of_row(primitive, space, rest),
        source: kept.filter(|kept| !kept.source.is_empty()).map(|kept| kept.source.to_owned()),
        version: kept.map_or(0, |kept| kept.version),
        merged_ms: kept.map_or(0, |kept| kept.merged_ms),
        base: kept.and_then(|kept| display(kept.base)),
        ours: kept.and_then(|kept| display(kept.ours)),
        theirs: kept.and_then(|kept| display(kept.theirs)),
        paths,
        now: display(standing_now),
        changed: kept.is_some() && ours != standing_now,
        unreadable,
        seen: (version, now.as_ref().map(|(version, _)| *version)),
    })
}

/// What is wrong with a record, without the advice that comes with an error about the store itself.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Damaged(reason) => reason.clone(),
        error => error.to_string(),
    }
}

/// The paths of a document at which both sides changed the same thing.
fn paths(primitive: Primitive, kept: &Kept<'_>) -> Vec<String> {
    match (primitive, kept.ours, kept.theirs) {
        (Primitive::Json, Some(ours), Some(theirs)) => match three_way(kept.base, ours, theirs) {
            Ok(ThreeWay::Conflicts(paths)) => paths,
            Ok(ThreeWay::Merged(_)) | Err(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Settles those that are still as they were shown. Returns how many those were.
fn settle_page(edit: &mut dyn Edit, decided: &[(OpenConflict, Settle)]) -> Result<u64, StoreError> {
    let mut settled = 0;
    for (open, settle) in decided {
        let Some((row, version, record)) = find(edit, &open.id)? else { continue };
        let now = read_row(edit, &row)?.map(|(version, _)| version);
        if (version, now) == open.seen {
            settle_in(edit, &row, &record, settle, true)?;
            settled += 1;
        }
    }
    Ok(settled)
}

/// Writes what was decided to a row, and removes its record.
fn settle_in(
    edit: &mut dyn Edit,
    row: &[u8],
    record: &[u8],
    settle: &Settle,
    even_if_changed: bool,
) -> Result<(), StoreError> {
    let at = keys::conflict(row);
    if *settle == Settle::Now {
        return edit.delete(&at);
    }
    let unreadable = |reason: String| StoreError::ConflictUnreadable { row: keys::display(row), reason };
    let (primitive, space, rest) = keys::split(row).ok_or_else(|| unreadable("it is of no row".into()))?;
    let kept = Kept::decode(record).map_err(|error| unreadable(reason(&error)))?;
    let now = read_row(edit, row)?.map(|(_, bytes)| bytes);
    let standing_now = standing(edit, primitive, now.as_deref());
    if !even_if_changed && standing_now != standing(edit, primitive, kept.ours) {
        return Err(StoreError::ConflictChanged { row: keys::display(row) });
    }
    let encoded;
    let chosen = match settle {
        Settle::Ours => standing(edit, primitive, kept.ours),
        Settle::Theirs => standing(edit, primitive, kept.theirs),
        Settle::Base => standing(edit, primitive, kept.base),
        Settle::Value(value) => {
            encoded = merge::encode(primitive, standing_now, value)?;
            Some(&encoded[..])
        }
        Settle::Now | Settle::Delete => None,
    };
    if chosen == standing_now {
        // What is decided holds only as long as the row is this.
        edit.depend(row);
    } else if let Some(bytes) = chosen {
        check_row(edit, (primitive, space, rest), bytes).map_err(|error| match error {
            CheckError::Unreadable(reason) => unreadable(reason),
            CheckError::Refused(error) => error,
        })?;
        edit.put(row, &mut |out| out.extend_from_slice(bytes))?;
    } else {
        edit.delete(row)?;
    }
    edit.delete(&at)
}

/// Why a value of a record is not written.
enum CheckError {
    /// It is no value of its kind.
    Unreadable(String),
    /// It does not fit what is there.
    Refused(StoreError),
}

/// Refuses what no write could have made: a record may come from elsewhere.
fn check_row(
    edit: &mut dyn Edit,
    (primitive, space, rest): (Primitive, &str, &[u8]),
    bytes: &[u8],
) -> Result<(), CheckError> {
    let unreadable = |reason: &str| CheckError::Unreadable(reason.to_owned());
    let key = || std::str::from_utf8(rest).map_err(|_| unreadable("its key is not text"));
    let is_readable = match primitive {
        Primitive::Kv => {
            check_key_bytes(rest).map_err(CheckError::Refused)?;
            Value::decode(expiry::value(bytes)).is_ok()
        }
        Primitive::State => {
            check_key(key()?).map_err(CheckError::Refused)?;
            state::is_cell(bytes)
        }
        Primitive::Json => {
            check_key(key()?).map_err(CheckError::Refused)?;
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            text.parse::<Json>().is_ok_and(|document| document.as_str() == text)
        }
        Primitive::Vector => {
            return vector::check_fits(edit, space, rest, bytes).map_err(|error| match error {
                StoreError::Vector(vector::VectorError::Damaged { what }) => unreadable(what),
                error => CheckError::Refused(error),
            });
        }
        Primitive::Blob | Primitive::Event | Primitive::Index => false,
    };
    if is_readable {
        return Ok(());
    }
    Err(CheckError::Unreadable(format!("what it has is not a value of {primitive}")))
}

/// The first thing that is wrong with the records of a tree.
pub(crate) fn check(view: &dyn View) -> Result<Option<String>, StoreError> {
    let (start, end) = keys::ALL_CONFLICTS;
    let mut wrong = None;
    view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, record| {
        wrong = match (keys::split_conflict(key), Kept::decode(record)) {
            (None, _) => Some(format!("it has a hidden key of another form, {}", keys::display(key))),
            (Some(row), Err(error)) => {
                let (row, reason) = (keys::display(row), reason(&error));
                Some(format!(
                    "the record of the conflict of {row} cannot be read: {reason}; settle it with `now`"
                ))
            }
            (Some(_), Ok(_)) => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(())
    })?;
    Ok(wrong)
}

/// The key of a row as it is shown to people.
fn shown_key(primitive: Primitive, rest: &[u8]) -> String {
    display_key(primitive, rest).unwrap_or_else(|| rest.escape_ascii().to_string())
}
