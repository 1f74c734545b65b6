//! What primitives read and write through: a branch, a transaction and a snapshot look alike to them.

use std::ops::ControlFlow;

use duramen_tree::{KeyRange, LeafView, RunView};

use crate::error::StoreError;
use crate::snapshot::Snapshot;

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

    /// As [`scan`](Self::scan), of what follows from other data and is hidden: nobody depends on it.
    fn scan_derived(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        self.scan(range, row)
    }

    /// Told of each pair that was shown and ends, and when.
    fn shows_until(&self, _end_ms: i64) {}

    /// The time that it is as of, in milliseconds since 1970 (UTC): pairs that end by then are hidden.
    fn now_ms(&self) -> i64;
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

/// What a [`Scope`](crate::Scope) does for the primitives. It cannot be implemented elsewhere.
pub trait Access: Sized {
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

    /// What reads one after the other see alike, if that is not the case anyway.
    #[doc(hidden)]
    fn moment(&self) -> Result<Option<Snapshot>, StoreError> {
        Ok(None)
    }

    #[doc(hidden)]
    fn write<R>(
        &self,
        write: impl FnOnce(&mut dyn Edit) -> Result<R, StoreError>,
    ) -> Result<(R, Self::Written), StoreError>;
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

impl<'s, S: Access> Space<'s, S> {
    pub(crate) fn new(scope: &'s S, name: &'s str) -> Self {
        Self { scope, name }
    }

    /// Its name.
    pub fn name(&self) -> &'s str {
        self.name
    }

    pub(crate) fn scope(&self) -> &'s S {
        self.scope
    }
}
