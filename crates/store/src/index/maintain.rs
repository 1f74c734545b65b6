//! Writing the entries of indexes with the rows that they are of, in one commit.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use duramen_tree::{Forest, KeyRange, Tree};
use parking_lot::Mutex;

use super::declared::{All, Declared, Place};
use super::value_of;
use crate::batch::{Batch, Op};
use crate::error::StoreError;
use crate::expiry::Now;
use crate::keys::{self, Primitive};
use crate::kv::end_of;
use crate::overlay::{Overlay, Reader};

const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const SOME: u8 = 2;

/// What is known of the indexes of a branch's tree, so that a commit on a branch without any pays one look at a byte. Only
/// whoever holds the writer's lock asks, and whoever changes the tree in another way than by a commit has it forgotten.
#[derive(Default)]
pub(crate) struct Known {
    state: AtomicU8,
    all: Mutex<Arc<All>>,
}

impl Known {
    pub(crate) fn forget(&self) {
        self.state.store(UNKNOWN, Ordering::Release);
    }

    fn get(&self, forest: &Forest, tree: &Tree) -> Result<Option<Arc<All>>, StoreError> {
        match self.state.load(Ordering::Acquire) {
            NONE => Ok(None),
            SOME => Ok(Some(self.all.lock().clone())),
            _ => {
                let all = All::find(&Reader { forest, tree, floor: 0, now: &Now::default() }, None)?;
                if all.is_empty() {
                    self.state.store(NONE, Ordering::Release);
                    return Ok(None);
                }
                let all = Arc::new(all);
                *self.all.lock() = all.clone();
                self.state.store(SOME, Ordering::Release);
                Ok(Some(all))
            }
        }
    }

    /// Whether a commit may change entries of indexes.
    #[inline]
    pub(crate) fn concern(&self, batch: &Batch) -> bool {
        self.state.load(Ordering::Acquire) != NONE || declares(batch)
    }

    /// Puts what a commit changes of the entries of indexes before its own operations.
    ///
    /// # Errors
    /// When the values of a row are not allowed in an index: nothing was changed then.
    pub(crate) fn maintain(&self, forest: &Forest, tree: &Tree, batch: &mut Batch) -> Result<(), StoreError> {
        let declares = declares(batch);
        let all = self.get(forest, tree)?;
        if declares {
            self.forget();
        } else if all.is_none() {
            return Ok(());
        }
        let all = all.unwrap_or_default();
        let mut changes = Changes { overlay: Overlay { forest, tree, batch }, entries: BTreeMap::new() };
        let redeclared = if declares { changes.redeclare()? } else { Vec::new() };
        changes.rows(&all, &redeclared)?;
        if changes.entries.is_empty() {
            return Ok(());
        }
        let now = all.indexes.iter().filter(|one| !redeclared.iter().any(|(was, _)| is_one(was, one)));
        changes.check_unique(now.chain(redeclared.iter().filter_map(|(_, now)| now.as_ref())))?;
        let entries = changes.entries;
        let mut before = Batch::default();
        before.begin(|_| {});
        for (key, is_there) in entries {
            match is_there {
                true => before.put(&key, &mut |_| {})?,
                false => before.delete(&key)?,
            }
        }
        batch.prepend(&before)
    }
}

/// Whether a commit declares an index or drops one.
fn declares(batch: &Batch) -> bool {
    batch.iter().any(|op| op.key().first() == Some(&(Primitive::Index as u8)))
}

/// What a commit changes of the entries of indexes.
struct Changes<'c> {
    overlay: Overlay<'c>,
    /// Whether an entry is there afterwards; those that stay as they are do not stand in it.
    entries: BTreeMap<Vec<u8>, bool>,
}

fn is_one((space, name): &Place, one: &Declared) -> bool {
    one.space == *space && one.name.as_bytes() == name
}

impl Changes<'_> {
    /// Empties the indexes that are declared in this commit or dropped, and fills those that are declared.
    fn redeclare(&mut self) -> Result<Vec<(Place, Option<Declared>)>, StoreError> {
        let mut redeclared = Vec::new();
        let batch = self.overlay.batch;
        for key in batch.sorted().into_keys() {
            let Some((Primitive::Index, space, name)) = keys::split(key) else { continue };
            let place = (space.to_owned(), name.to_vec());
            let start = keys::entries(space, name);
            let entries = &mut self.entries;
            self.overlay.tree.scan(
                self.overlay.forest,
                &KeyRange::new(&start, Some(&end_of(&start))),
                |entry| {
                    entries.insert(entry.key.to_vec(), false);
                    ControlFlow::Continue(())
                },
            )?;
            let mut now = None;
            self.overlay.get(key, &mut |_, bytes| now = Some(Declared::decode(space, name, bytes)))?;
            let now = now.transpose()?;
            if let Some(now) = &now {
                self.fill(now)?;
            }
            redeclared.push((place, now));
        }
        Ok(redeclared)
    }

    /// The entries of all rows, as they are after the commit.
    fn fill(&mut self, one: &Declared) -> Result<(), StoreError> {
        let (start, mut failed) = (keys::prefix(one.index.on, &one.space), None);
        let entries = &mut self.entries;
        let mut take = |key: &[u8], bytes: &[u8]| -> Result<(), StoreError> {
            let value = value_of(one.index.on, key, bytes)?;
            let entry = one.entry(&key[start.len()..], &value)?;
            entries.extend(entry.map(|entry| (entry, true)));
            Ok(())
        };
        self.overlay.scan(&KeyRange::new(&start, Some(&end_of(&start))), &mut |key, _, bytes| match take(
            key, bytes,
        ) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The entries of the rows that the commit changes.
    fn rows(&mut self, all: &All, redeclared: &[(Place, Option<Declared>)]) -> Result<(), StoreError> {
        let mut last: BTreeMap<&[u8], Op<'_>> = BTreeMap::new();
        for op in self.overlay.batch.iter() {
            if let Some((Primitive::Kv | Primitive::Json, ..)) = keys::split(op.key()) {
                last.insert(op.key(), op);
            }
        }
        for key in last.into_keys() {
            let Some((primitive, space, rest)) = keys::split(key) else { continue };
            let mut unreadable = all.unreadable.iter().filter(|(place, _)| place.0 == space);
            // What it is of is not known.
            if let Some((_, error)) =
                unreadable.find(|(it, _)| !redeclared.iter().any(|(place, _)| place == it))
            {
                return Err(error.clone());
            }
            let mut indexes = all
                .of(space)
                .iter()
                .filter(|one| one.index.on == primitive)
                .filter(|one| !redeclared.iter().any(|(place, _)| is_one(place, one)))
                .peekable();
            if indexes.peek().is_none() {
                continue;
            }
            let old =
                self.overlay.tree.get(self.overlay.forest, key, |it| value_of(primitive, key, it.value))?;
            let mut new = None;
            self.overlay.get(key, &mut |_, bytes| new = Some(value_of(primitive, key, bytes)))?;
            let new = new.transpose()?;
            for one in indexes {
                // What cannot be in an index is not in it, and may be replaced.
                let old = old.as_ref().and_then(|old| one.entry(rest, old.as_ref().ok()?).ok()?);
                let new = new.as_ref().map_or(Ok(None), |new| one.entry(rest, new))?;
                if old != new {
                    self.entries.extend(old.map(|entry| (entry, false)));
                    self.entries.extend(new.map(|entry| (entry, true)));
                }
            }
        }
        Ok(())
    }

    /// Refuses a second row with the values of another in a unique index.
    fn check_unique<'d>(&self, all: impl Iterator<Item = &'d Declared>) -> Result<(), StoreError> {
        for one in all.filter(|one| one.index.unique) {
            let start = one.entries().to_vec();
            let end = end_of(&start);
            for (entry, is_there) in self.entries.range(start..end) {
                let (values, is_open) = one.values_end(entry)?;
                if !is_there || is_open {
                    continue;
                }
                let (values, row) = entry.split_at(values);
                if let Some(other) = self.other(values, row)? {
                    let rows = [row, &other].map(|row| row.escape_ascii().to_string());
                    let (index, space, [row, other]) = (one.name.clone(), one.space.clone(), rows);
                    return Err(StoreError::NotUnique { index, space, row, other });
                }
            }
        }
        Ok(())
    }

    /// Another row than `row` whose entry begins with `values` after the commit.
    fn other(&self, values: &[u8], row: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let end = end_of(values);
        let written = self.entries.range(values.to_vec()..end.clone()).filter(|(_, is_there)| **is_there);
        let mut found = written.map(|(entry, _)| &entry[values.len()..]).find(|other| *other != row);
        if let Some(found) = found.take() {
            return Ok(Some(found.to_vec()));
        }
        let mut found = None;
        self.overlay.tree.scan(self.overlay.forest, &KeyRange::new(values, Some(&end)), |entry| {
            let other = &entry.key[values.len()..];
            if other != row && self.entries.get(entry.key) != Some(&false) {
                found = Some(other.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/index_maintain.rs"]
mod tests;
