//! What differs between two branches.

use std::ops::ControlFlow;

use duramen_tree::{Change, KeyRange, Tree};
use serde::Serialize;

use crate::display::{display_key, display_value};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::keys::{self, Primitive};
use crate::kv::end_of;
use crate::names::check_space;
use crate::store::Store;

/// Where a range of a tree begins, and where it ends if it does.
type OwnedRange = (Vec<u8>, Option<Vec<u8>>);

/// A part of a branch. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Only this kind of data.
    pub primitive: Option<Primitive>,
    /// Only this space.
    pub space: Option<String>,
    /// Only keys that begin with this.
    pub prefix: Option<String>,
}

/// How a key differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// Only the second branch has it.
    Added,
    /// Only the first branch has it.
    Removed,
    /// Both have it, with other values.
    Modified,
}

/// A difference as it lies: key and values encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawChange<'a> {
    /// The kind of data.
    pub primitive: Primitive,
    /// The space.
    pub space: &'a str,
    /// The key in its space, as the primitive writes it.
    pub key: &'a [u8],
    /// The value in the first branch.
    pub left: Option<&'a [u8]>,
    /// The value in the second branch.
    pub right: Option<&'a [u8]>,
}

/// A difference to show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffEntry {
    /// The kind of data.
    pub primitive: Primitive,
    /// The space.
    pub space: String,
    /// The key; of an event its number, of a vector `collection/key`.
    pub key: String,
    /// How it differs.
    pub change: ChangeKind,
    /// What the first branch has.
    pub left: Option<serde_json::Value>,
    /// What the second branch has.
    pub right: Option<serde_json::Value>,
}

/// The differences between two branches.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Diff {
    /// The first of them, in the order of kind, space and key.
    pub entries: Vec<DiffEntry>,
    /// Whether there are more than `entries` holds.
    pub truncated: bool,
    /// Keys that only the second branch has.
    pub added: u64,
    /// Keys that only the first branch has.
    pub removed: u64,
    /// Keys with other values.
    pub modified: u64,
}

impl RawChange<'_> {
    /// How the key differs.
    pub fn kind(&self) -> ChangeKind {
        match (self.left, self.right) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Modified,
        }
    }

    /// The key as people read it; none for what a primitive keeps for itself, such as an index.
    pub fn display_key(&self) -> Option<String> {
        display_key(self.primitive, self.key)
    }

    /// The difference as people read it; none for what a primitive keeps for itself.
    pub fn entry(&self) -> Option<DiffEntry> {
        let value = |bytes: Option<&[u8]>| bytes.map(|bytes| display_value(self.primitive, bytes));
        Some(DiffEntry {
            primitive: self.primitive,
            space: self.space.to_owned(),
            key: self.display_key()?,
            change: self.kind(),
            left: value(self.left),
            right: value(self.right),
        })
    }
}

impl Part {
    /// Whether it is everything.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// The ranges of a tree that hold the part.
    pub(crate) fn ranges(&self) -> Result<Vec<OwnedRange>, StoreError> {
        if let Some(space) = &self.space {
            check_space(space)?;
        }
        if self.is_all() {
            return Ok(vec![(Vec::new(), None)]);
        }
        let primitives = match self.primitive {
            Some(primitive) => vec![primitive],
            None => Primitive::ALL.to_vec(),
        };
        Ok(primitives
            .into_iter()
            .map(|primitive| {
                let start = match (&self.space, &self.prefix) {
                    (Some(space), Some(prefix)) => keys::key(primitive, space, prefix.as_bytes()).to_vec(),
                    (Some(space), None) => keys::prefix(primitive, space).to_vec(),
                    (None, _) => vec![primitive as u8],
                };
                let end = end_of(&start);
                (start, Some(end))
            })
            .collect())
    }

    /// Whether a key of one of the ranges is in the part.
    pub(crate) fn has(&self, rest: &[u8]) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| rest.starts_with(prefix.as_bytes()))
    }
}

/// Counts what `differ` shows, and keeps the first `limit` of it.
pub(crate) fn collect(
    limit: usize,
    differ: impl FnOnce(&mut dyn FnMut(RawChange<'_>) -> ControlFlow<()>) -> Result<(), StoreError>,
) -> Result<Diff, StoreError> {
    let mut diff = Diff::default();
    differ(&mut |change| {
        if change.display_key().is_none() {
            return ControlFlow::Continue(());
        }
        match change.kind() {
            ChangeKind::Added => diff.added += 1,
            ChangeKind::Removed => diff.removed += 1,
            ChangeKind::Modified => diff.modified += 1,
        }
        if diff.entries.len() < limit {
            diff.entries.extend(change.entry());
        } else {
            diff.truncated = true;
        }
        ControlFlow::Continue(())
    })?;
    Ok(diff)
}

impl Store {
    /// What differs between two branches, the first `limit` of it with values. It costs what was written to either
    /// since they parted, not what they hold.
    ///
    /// ```
    /// use duramen_store::{Part, Scope, Store};
    /// let store = Store::memory();
    /// store.branch("main")?.kv().put("a", 1)?;
    /// let fork = store.fork("main", "try")?;
    /// fork.kv().put("b", 2)?;
    /// let diff = store.diff("main", "try", &Part::default(), 10)?;
    /// assert_eq!((diff.added, diff.entries[0].key.as_str()), (1, "b"));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such branch, or one cannot be read.
    pub fn diff(&self, left: &str, right: &str, part: &Part, limit: usize) -> Result<Diff, StoreError> {
        collect(limit, |show| self.diff_with(left, right, part, show))
    }

    /// Shows what differs between two branches, one key at a time, as it lies.
    ///
    /// # Errors
    /// When there is no such branch, or one cannot be read.
    pub fn diff_with(
        &self,
        left: &str,
        right: &str,
        part: &Part,
        mut show: impl FnMut(RawChange<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let left = self.branch(left)?.snapshot()?;
        let right = self.branch(right)?.snapshot()?;
        left.diff_with(&right, part, &mut show)
    }
}

pub(crate) fn diff_trees(
    engine: &Engine,
    left: &Tree,
    right: &Tree,
    part: &Part,
    show: &mut dyn FnMut(RawChange<'_>) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    for (start, end) in part.ranges()? {
        let range = KeyRange::new(&start, end.as_deref());
        let mut stopped = false;
        let visit = |change: Change<'_>| {
            let Some((primitive, space, key)) = keys::split(change.key) else {
                return ControlFlow::Continue(());
            };
            if !part.has(key) {
                return ControlFlow::Continue(());
            }
            let (left, right) = (change.left.map(|entry| entry.value), change.right.map(|entry| entry.value));
            let flow = show(RawChange { primitive, space, key, left, right });
            stopped = flow.is_break();
            flow
        };
        if engine.has_unique_versions() {
            left.diff(engine.forest(), right, &range, visit)?;
        } else {
            left.diff_by_value(engine.forest(), right, &range, visit)?;
        }
        if stopped {
            break;
        }
    }
    Ok(())
}
