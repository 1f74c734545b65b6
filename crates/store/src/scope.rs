//! What primitives read and write through: a branch, a transaction and a snapshot look alike to them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use duramen_tree::{Forest, KeyRange, LeafView, RunView, Tree};

use crate::batch::{splice, Batch, Op};
use crate::error::StoreError;
use crate::event::Events;
use crate::json::Documents;
use crate::kv::Kv;
use crate::names::{check_space, DEFAULT_SPACE};
use crate::state::Cells;
use crate::vector::Vectors;

/// A row of a scan: key, version, value.
pub(crate) type RowVisitor<'v> = dyn FnMut(&[u8], u64, &[u8]) -> ControlFlow<()> + 'v;

/// An uncommitted write: key, and value if it is not a deletion.
pub(crate) type WriteVisitor<'v> = dyn FnMut(&[u8], Option<&[u8]>) + 'v;

/// Reading, as it was at one moment, with what the reader itself wrote.
#[doc(hidden)]
pub trait View {
    /// Shows version and value of a key. Returns whether there is one.
    fn get(&self, key: &[u8], show: &mut dyn FnMut(u64, &[u8])) -> Result<bool, StoreError>;

    /// Shows the rows of a range, in its order.
    fn scan(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError>;

    /// Shows the leaves that hold a range, without what the reader itself wrote: that is in [`written`](Self::written).
    fn leaves(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(LeafView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Shows the runs of leaves that hold a range, without what the reader itself wrote.
    fn runs(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(RunView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Shows what the reader itself wrote in a range and did not commit: key and value, none for a deletion.
    fn written(&self, range: &KeyRange<'_>, show: &mut WriteVisitor<'_>) -> Result<(), StoreError>;

    /// No cell has a version below this, whenever it was written.
    fn floor(&self) -> u64;
}

/// Writing: what is written is seen by the reads of the same edit at once, and by others when it is committed.
#[doc(hidden)]
pub trait Edit: View {
    /// Puts a value under a key. `value` appends the value's bytes.
    fn put(&mut self, key: &[u8], value: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), StoreError>;

    /// Deletes a key. To delete one that is not there is no error, but it is written.
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError>;

    /// Replaces `removed` bytes at `at` of a value that is there by others, without writing the rest of it to the log.
    fn splice(&mut self, key: &[u8], at: u32, removed: u32, inserted: &[u8]) -> Result<(), StoreError>;

    /// Makes the commit depend on a key that it does not write: it conflicts if somebody else changes that first.
    fn depend(&mut self, key: &[u8]);
}

/// Where primitives work: a [`Branch`](crate::Branch), whose every operation is a commit of its own, a
/// [`Transaction`](crate::Transaction), which commits all of them together, or a [`Snapshot`](crate::Snapshot), which
/// only reads.
pub trait Scope: Sized {
    /// What a write returns beside its result: the version of the commit where it is known at once.
    type Written;

    /// What a write returns that found what it was to write, of this version.
    #[doc(hidden)]
    fn written(version: u64) -> Self::Written;

    /// Reads briefly and runs no code of the program's: writers of the branch wait meanwhile.
    #[doc(hidden)]
    fn peek<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError>;

    /// Reads for as long as it takes: nobody waits.
    #[doc(hidden)]
    fn read<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError>;

    #[doc(hidden)]
    fn write<R>(
        &self,
        write: impl FnOnce(&mut dyn Edit) -> Result<R, StoreError>,
    ) -> Result<(R, Self::Written), StoreError>;

    /// A space by its name. Spaces need not be made.
    ///
    /// # Errors
    /// When the name is not allowed: a-z, 0-9, `_` and `-`, beginning with a letter, at most 64 bytes.
    fn space<'s>(&'s self, name: &'s str) -> Result<Space<'s, Self>, StoreError> {
        check_space(name)?;
        Ok(Space { scope: self, name })
    }

    /// The key-value pairs of the default space.
    fn kv(&self) -> Kv<'_, Self> {
        default_space(self).kv()
    }

    /// The state cells of the default space.
    fn state(&self) -> Cells<'_, Self> {
        default_space(self).state()
    }

    /// The event log of the default space.
    fn events(&self) -> Events<'_, Self> {
        default_space(self).events()
    }

    /// The JSON documents of the default space.
    fn json(&self) -> Documents<'_, Self> {
        default_space(self).json()
    }

    /// The vector collections of the default space.
    fn vectors(&self) -> Vectors<'_, Self> {
        default_space(self).vectors()
    }
}

fn default_space<S: Scope>(scope: &S) -> Space<'_, S> {
    Space { scope, name: DEFAULT_SPACE }
}

/// A space of a branch, a transaction or a snapshot: a part of the data with keys of its own.
#[derive(Debug)]
pub struct Space<'s, S> {
    scope: &'s S,
    name: &'s str,
}

impl<S> Clone for Space<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Space<'_, S> {}

impl<'s, S: Scope> Space<'s, S> {
    /// Its name.
    pub fn name(&self) -> &'s str {
        self.name
    }

    /// Its key-value pairs.
    pub fn kv(&self) -> Kv<'s, S> {
        Kv::new(*self)
    }

    /// Its state cells.
    pub fn state(&self) -> Cells<'s, S> {
        Cells::new(*self)
    }

    /// Its event log.
    pub fn events(&self) -> Events<'s, S> {
        Events::new(*self)
    }

    /// Its JSON documents.
    pub fn json(&self) -> Documents<'s, S> {
        Documents::new(*self)
    }

    /// Its vector collections.
    pub fn vectors(&self) -> Vectors<'s, S> {
        Vectors::new(*self)
    }

    pub(crate) fn scope(&self) -> &'s S {
        self.scope
    }
}

/// A tree with uncommitted operations over it.
pub(crate) struct Overlay<'t> {
    pub(crate) forest: &'t Forest,
    pub(crate) tree: &'t Tree,
    pub(crate) batch: &'t Batch,
}

impl Overlay<'_> {
    fn value_of(&self, op: Op<'_>, show: &mut dyn FnMut(u64, &[u8])) -> Result<bool, StoreError> {
        match op {
            Op::Put { value, .. } => {
                show(0, value);
                Ok(true)
            }
            Op::Delete { .. } => Ok(false),
            Op::Splice { key, at, removed, inserted } => {
                let new =
                    self.tree.get(self.forest, key, |entry| splice(entry.value, at, removed, inserted))?;
                match new.flatten() {
                    Some(new) => show(0, &new),
                    None => return Err(StoreError::Damaged("a splice does not fit its value".into())),
                }
                Ok(true)
            }
        }
    }

    pub(crate) fn get(&self, key: &[u8], show: &mut dyn FnMut(u64, &[u8])) -> Result<bool, StoreError> {
        if !self.batch.is_empty() {
            if let Some(op) = self.batch.find(key) {
                return self.value_of(op, show);
            }
        }
        let found = self.tree.get(self.forest, key, |entry| show(entry.version, entry.value))?;
        Ok(found.is_some())
    }

    pub(crate) fn scan(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        if self.batch.is_empty() {
            self.tree.scan(self.forest, range, |entry| row(entry.key, entry.version, entry.value))?;
            return Ok(());
        }
        let mut written: BTreeMap<&[u8], Op<'_>> = self.batch.sorted();
        written.retain(|key, _| range.contains(key));
        let mut failed = None;
        let mut show_written = |op: Op<'_>, row: &mut RowVisitor<'_>| {
            let mut flow = ControlFlow::Continue(());
            let shown = self.value_of(op, &mut |version, value| flow = row(op.key(), version, value));
            if let Err(error) = shown {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            flow
        };
        let mut stopped = false;
        self.tree.scan(self.forest, range, |entry| {
            while let Some(op) = pop(&mut written, range.backwards, Some(entry.key)) {
                let replaced = op.key() == entry.key;
                if show_written(op, row).is_break() {
                    stopped = true;
                    return ControlFlow::Break(());
                }
                if replaced {
                    return ControlFlow::Continue(());
                }
            }
            let flow = row(entry.key, entry.version, entry.value);
            stopped = flow.is_break();
            flow
        })?;
        while !stopped {
            let Some(op) = pop(&mut written, range.backwards, None) else { break };
            stopped = show_written(op, row).is_break();
        }
        failed.map_or(Ok(()), Err)
    }

    pub(crate) fn written(
        &self,
        range: &KeyRange<'_>,
        show: &mut WriteVisitor<'_>,
    ) -> Result<(), StoreError> {
        for (key, op) in self.batch.sorted() {
            if range.contains(key) {
                let there = self.value_of(op, &mut |_, value| show(key, Some(value)))?;
                if !there {
                    show(key, None);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn leaves(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(LeafView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tree.scan_leaves(self.forest, range, visit)?;
        Ok(())
    }

    pub(crate) fn runs(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(RunView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tree.scan_runs(self.forest, range, visit)?;
        Ok(())
    }
}

/// Takes the next written operation that comes before `limit` in the order of a scan, or is on it.
fn pop<'b>(
    written: &mut BTreeMap<&'b [u8], Op<'b>>,
    backwards: bool,
    limit: Option<&[u8]>,
) -> Option<Op<'b>> {
    let entry = if backwards { written.last_entry() } else { written.first_entry() }?;
    let due = limit.is_none_or(|limit| if backwards { *entry.key() >= limit } else { *entry.key() <= limit });
    due.then(|| entry.remove())
}
