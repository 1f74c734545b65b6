//! The chunks of blobs, which follow their rows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use duramen_tree::{Entry, Forest, KeyRange, Tree};

use super::{BlobInfo, Id, CHUNK_BYTES};
use crate::access::{Access, Edit, View};
use crate::batch::{Batch, Op};
use crate::branch::Branch;
use crate::branch_state::BranchState;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::expiry::Now;
use crate::keys::{self, KeyBuf, Primitive};
use crate::merge::RawWrite;
use crate::overlay::Reader;

/// Chunks that one commit deletes of blobs that nobody has, at most.
const DELETED_MAX: usize = 1024;

/// The key of a chunk.
pub(super) fn chunk_key(id: &Id, number: u64) -> KeyBuf {
    // There are at most 8,192.
    keys::chunk(id, number as u32)
}

/// Where the chunks of a blob are.
fn range_of(id: &Id) -> (KeyBuf, KeyBuf) {
    let mut end = keys::chunk(id, u32::MAX);
    end.push(0);
    (keys::chunk(id, 0), end)
}

fn id_of(chunk: &[u8]) -> Option<Id> {
    chunk.get(1..17)?.try_into().ok()
}

fn is_blob(key: &[u8]) -> bool {
    key.first() == Some(&(Primitive::Blob as u8))
}

/// Whether two rows are of blobs that hold the same.
pub(crate) fn are_alike(a: Option<Entry<'_>>, b: Option<Entry<'_>>) -> bool {
    let hash = |entry: Option<Entry<'_>>| Some(BlobInfo::decode(entry?.value)?.hash);
    hash(a).is_some_and(|hash_of_a| Some(hash_of_a) == hash(b))
}

/// Puts before the operations of a commit the deletion of the chunks of blobs that it replaces or deletes.
pub(crate) fn maintain(forest: &Forest, tree: &Tree, batch: &mut Batch) -> Result<(), StoreError> {
    let mut last: BTreeMap<&[u8], Op<'_>> = BTreeMap::new();
    last.extend(batch.iter().filter(|op| is_blob(op.key())).map(|op| (op.key(), op)));
    let (mut gone, mut kept) = (BTreeSet::new(), HashSet::new());
    for (key, op) in last {
        let old = tree.get(forest, key, |entry| BlobInfo::decode(entry.value))?.flatten();
        gone.extend(old.map(|old| old.id));
        if let Op::Put { value, .. } = op {
            kept.extend(BlobInfo::decode(value).map(|new| new.id));
        }
    }
    let mut before = Batch::default();
    before.begin(|_| {});
    for id in gone.difference(&kept.iter().copied().collect()) {
        let ((start, end), mut failed) = (range_of(id), None);
        tree.scan(forest, &KeyRange::new(&start, Some(&end)), |entry| {
            // What the commit itself writes of a blob comes after this.
            failed = before.delete(entry.key).err();
            if failed.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        failed.map_or(Ok(()), Err)?;
    }
    if before.is_empty() {
        return Ok(());
    }
    batch.prepend(&before)
}

/// Puts the chunks of the blobs that a merge writes, and that the target does not have.
pub(crate) fn copy(edit: &mut dyn Edit, from: &dyn View, writes: &[RawWrite]) -> Result<(), StoreError> {
    let rows = writes.iter().filter(|(key, _)| is_blob(key)).filter_map(|(_, row)| row.as_deref());
    for info in rows.filter_map(BlobInfo::decode).filter(|info| info.bytes > 0) {
        if edit.get(&chunk_key(&info.id, 0), &mut |_, _| {})? {
            continue;
        }
        let ((start, end), mut failed) = (range_of(&info.id), None);
        from.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, bytes| {
            failed = edit.put(key, &mut |out| out.extend_from_slice(bytes)).err();
            if failed.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        failed.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Deletes the chunks of a blob that has no row.
pub(super) fn delete_chunks(branch: &Branch, id: &Id) -> Result<(), StoreError> {
    let (start, end) = range_of(id);
    loop {
        let (deleted, _) = branch.write(|edit| {
            let mut found = Vec::new();
            edit.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, _| {
                found.push(KeyBuf::from_slice(key));
                if found.len() < DELETED_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            found.iter().try_for_each(|key| edit.delete(key))?;
            Ok(found.len())
        })?;
        if deleted < DELETED_MAX {
            return Ok(());
        }
    }
}

/// The first thing that is wrong with the blobs of a tree; none if each has its chunks.
///
/// # Errors
/// When the tree cannot be read.
pub(crate) fn check(view: &dyn View) -> Result<Option<String>, StoreError> {
    let (mut wrong, mut failed) = (None, None);
    let (start, end) = ([Primitive::Blob as u8], [Primitive::Blob as u8 + 1]);
    view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, row| {
        match check_row(view, key, row) {
            Ok(None) => return ControlFlow::Continue(()),
            Ok(Some(found)) => wrong = Some(found),
            Err(error) => failed = Some(error),
        }
        ControlFlow::Break(())
    })?;
    failed.map_or(Ok(wrong), Err)
}

/// Holds a row of a tree against its chunks, if it is that of a blob. Returns what is wrong.
pub(crate) fn check_row(view: &dyn View, key: &[u8], row: &[u8]) -> Result<Option<String>, StoreError> {
    if !is_blob(key) {
        return Ok(None);
    }
    let Some(info) = BlobInfo::decode(row) else {
        return Ok(Some(format!("the row of {} cannot be read", keys::display(key))));
    };
    let ((start, end), mut number, mut right) = (range_of(&info.id), 0, true);
    view.scan(&KeyRange::new(&start, Some(&end)), &mut |chunk, _, bytes| {
        let begin = number * CHUNK_BYTES as u64;
        let expected = info.bytes.saturating_sub(begin).min(CHUNK_BYTES as u64);
        right = chunk == &chunk_key(&info.id, number)[..] && bytes.len() as u64 == expected;
        number += 1;
        if right {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let is_whole = right && number == info.chunks();
    Ok((!is_whole).then(|| format!("{} has not the chunks that its row names", keys::display(key))))
}

/// Whether a branch was looked through for chunks of no blob, which are there when a process dies that puts one, and in forks that
/// are made meanwhile. Whoever changes the tree in another way than by a commit has it forgotten.
#[derive(Default)]
pub(crate) struct Orphans {
    none: AtomicBool,
}

impl Orphans {
    pub(crate) fn forget(&self) {
        self.none.store(false, Ordering::Release);
    }

    pub(crate) fn may_be(&self) -> bool {
        !self.none.load(Ordering::Acquire)
    }
}

impl Engine {
    /// Deletes chunks of a branch that belong to no blob, and to none that is being put.
    pub(crate) fn delete_orphans(&self, branch: &BranchState) -> Result<(), StoreError> {
        while !self.is_far_behind() {
            self.check_writable()?;
            let mut writer = self.lock_writer();
            branch.check_alive()?;
            writer.begin_writes(branch.id());
            {
                let tree = branch.tree(self.forest())?;
                let view = Reader { forest: self.forest(), tree: &tree, floor: 0, now: &Now::default() };
                let found = orphans(&view, |id| self.uploads().has(branch.id(), id))?;
                found.iter().try_for_each(|key| writer.batch_mut().delete(key))?;
            }
            if writer.batch().is_empty() {
                branch.orphans().none.store(true, Ordering::Release);
                return Ok(());
            }
            self.apply_prepared(&mut writer, branch)?;
        }
        Ok(())
    }
}

/// Some chunks that belong to no blob.
fn orphans(view: &dyn View, is_kept: impl Fn(&Id) -> bool) -> Result<Vec<KeyBuf>, StoreError> {
    let (mut start, end) = (keys::ALL_CHUNKS.0.to_vec(), keys::ALL_CHUNKS.1);
    let (mut known, mut found): (Option<HashSet<Id>>, Vec<KeyBuf>) = (None, Vec::new());
    while found.len() < DELETED_MAX {
        let mut next = None;
        view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, _| {
            next = Some(KeyBuf::from_slice(key));
            ControlFlow::Break(())
        })?;
        let Some(key) = next else { break };
        let Some(id) = id_of(&key) else {
            start = [&key[..], &[0]].concat();
            found.push(key);
            continue;
        };
        let known = match &mut known {
            Some(known) => known,
            None => known.insert(rows(view)?),
        };
        let (_, past) = range_of(&id);
        if !known.contains(&id) && !is_kept(&id) {
            view.scan(&KeyRange::new(&key, Some(&past)), &mut |key, _, _| {
                found.push(KeyBuf::from_slice(key));
                if found.len() < DELETED_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
        }
        start = past.to_vec();
    }
    Ok(found)
}

/// The numbers of all blobs.
fn rows(view: &dyn View) -> Result<HashSet<Id>, StoreError> {
    let (start, end) = ([Primitive::Blob as u8], [Primitive::Blob as u8 + 1]);
    let mut ids = HashSet::new();
    view.scan(&KeyRange::new(&start, Some(&end)), &mut |_, _, row| {
        ids.extend(BlobInfo::decode(row).map(|info| info.id));
        ControlFlow::Continue(())
    })?;
    Ok(ids)
}
