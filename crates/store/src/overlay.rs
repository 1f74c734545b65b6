//! What is read and written of a tree: as it is, or with the operations of a commit over it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use duramen_tree::{Forest, KeyRange, LeafView, RunView, Tree};

use crate::access::{Edit, RowVisitor, View, WriteVisitor};
use crate::batch::{splice, Batch, Op};
use crate::error::StoreError;
use crate::expiry::Now;

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
            let read = self.value_of(op, &mut |version, value| flow = row(op.key(), version, value));
            if let Err(error) = read {
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

/// A tree for reading, with nothing over it.
pub(crate) struct Reader<'t> {
    pub(crate) forest: &'t Forest,
    pub(crate) tree: &'t Tree,
    pub(crate) floor: u64,
    pub(crate) now: &'t Now,
}

impl View for Reader<'_> {
    #[inline]
    fn get(&self, key: &[u8], show: &mut dyn FnMut(u64, &[u8])) -> Result<bool, StoreError> {
        let found = self.tree.get(self.forest, key, |entry| show(entry.version, entry.value))?;
        Ok(found.is_some())
    }

    fn scan(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        self.tree.scan(self.forest, range, |entry| row(entry.key, entry.version, entry.value))?;
        Ok(())
    }

    fn leaves(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(LeafView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tree.scan_leaves(self.forest, range, visit)?;
        Ok(())
    }

    fn runs(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(RunView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tree.scan_runs(self.forest, range, visit)?;
        Ok(())
    }

    fn written(&self, _range: &KeyRange<'_>, _show: &mut WriteVisitor<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn floor(&self) -> u64 {
        self.floor
    }

    fn now_ms(&self) -> i64 {
        self.now.ms()
    }
}

/// A commit that is being put together, over the branch as it is.
pub(crate) struct Draft<'t> {
    pub(crate) forest: &'t Forest,
    pub(crate) tree: &'t Tree,
    pub(crate) floor: u64,
    pub(crate) now: Now,
    pub(crate) batch: &'t mut Batch,
}

impl Draft<'_> {
    fn overlay(&self) -> Overlay<'_> {
        Overlay { forest: self.forest, tree: self.tree, batch: self.batch }
    }
}

impl View for Draft<'_> {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(u64, &[u8])) -> Result<bool, StoreError> {
        self.overlay().get(key, show)
    }

    fn scan(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        self.overlay().scan(range, row)
    }

    fn leaves(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(LeafView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.overlay().leaves(range, visit)
    }

    fn runs(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(RunView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.overlay().runs(range, visit)
    }

    fn written(&self, range: &KeyRange<'_>, show: &mut WriteVisitor<'_>) -> Result<(), StoreError> {
        self.overlay().written(range, show)
    }

    fn floor(&self) -> u64 {
        self.floor
    }

    fn now_ms(&self) -> i64 {
        self.now.ms()
    }
}

impl Edit for Draft<'_> {
    fn put(&mut self, key: &[u8], value: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), StoreError> {
        self.batch.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.batch.delete(key)
    }

    fn splice(&mut self, key: &[u8], at: u32, removed: u32, inserted: &[u8]) -> Result<(), StoreError> {
        let spliced = splice_over(&self.overlay(), key, at, removed, inserted)?;
        self.batch.add_spliced(spliced, key, at, removed, inserted)
    }

    /// Nobody else can change anything while the writer's lock is held.
    fn depend(&mut self, _: &[u8]) {}
}

/// What a splice adds to a batch: one over a value that the same batch wrote becomes a put of the whole value.
pub(crate) enum Spliced {
    Splice,
    Put(Vec<u8>),
}

pub(crate) fn splice_over(
    overlay: &Overlay<'_>,
    key: &[u8],
    at: u32,
    removed: u32,
    inserted: &[u8],
) -> Result<Spliced, StoreError> {
    if overlay.batch.find(key).is_none() {
        return Ok(Spliced::Splice);
    }
    let mut new = None;
    overlay.get(key, &mut |_, value| new = splice(value, at, removed, inserted))?;
    new.map(Spliced::Put).ok_or_else(|| StoreError::Damaged("a splice does not fit its value".into()))
}

impl Batch {
    pub(crate) fn add_spliced(
        &mut self,
        spliced: Spliced,
        key: &[u8],
        at: u32,
        removed: u32,
        inserted: &[u8],
    ) -> Result<(), StoreError> {
        match spliced {
            Spliced::Splice => self.splice(key, at, removed, inserted),
            Spliced::Put(value) => self.put(key, &mut |out| out.extend_from_slice(&value)),
        }
    }
}
