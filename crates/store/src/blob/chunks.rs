//! The chunks of blobs, which follow their rows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use duramen_tree::{Entry, Forest, KeyRange, Tree};

use super::{damaged, BlobInfo, Id, BLOB_BYTES_MAX, CHUNK_BYTES};
use crate::access::{Edit, View};
use crate::batch::{Batch, Op};
use crate::branch_state::BranchState;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::expiry::Now;
use crate::keys::{self, KeyBuf, Primitive};
use crate::merge::RawWrite;
use crate::overlay::Reader;

/// Chunks that one commit deletes, at most: each is read first, while others wait.
const DELETED_MAX: usize = 64;

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

fn is_blob(key: &[u8]) -> bool {
    key.first() == Some(&(Primitive::Blob as u8))
}

/// Whether two rows are of blobs that hold the same.
pub(crate) fn are_alike(a: Option<Entry<'_>>, b: Option<Entry<'_>>) -> bool {
    let hash = |entry: Option<Entry<'_>>| Some(BlobInfo::decode(entry?.value)?.hash);
    hash(a).is_some_and(|hash_of_a| Some(hash_of_a) == hash(b))
}

/// Puts before the operations of a commit the marks of the chunks of blobs that it replaces or deletes, which are deleted later.
pub(crate) fn maintain(forest: &Forest, tree: &Tree, batch: &mut Batch) -> Result<(), StoreError> {
    let mut last: BTreeMap<&[u8], Op<'_>> = BTreeMap::new();
    last.extend(batch.iter().filter(|op| is_blob(op.key())).map(|op| (op.key(), op)));
    let (mut gone, mut kept) = (BTreeSet::new(), BTreeSet::new());
    for (key, op) in last {
        let old = tree.get(forest, key, |entry| BlobInfo::decode(entry.value))?.flatten();
        gone.extend(old.filter(|old| old.bytes > 0).map(|old| old.id));
        if let Op::Put { value, .. } = op {
            kept.extend(BlobInfo::decode(value).map(|new| new.id));
        }
    }
    let mut before = Batch::default();
    before.begin(|_| {});
    gone.difference(&kept).try_for_each(|id| before.put(&keys::mark(id), &mut |_| {}))?;
    if before.is_empty() {
        return Ok(());
    }
    batch.prepend(&before)
}

/// Puts the chunks of the blobs that a merge writes, and that the target has not got.
pub(crate) fn copy(edit: &mut dyn Edit, from: &dyn View, writes: &[RawWrite]) -> Result<(), StoreError> {
    let rows = writes.iter().filter_map(|(key, row)| Some((key, row.as_deref().filter(|_| is_blob(key))?)));
    for (key, row) in rows {
        let info = BlobInfo::decode(row).ok_or_else(|| damaged(key))?;
        let mut found = 0;
        for number in 0..info.chunks() {
            let at = chunk_key(&info.id, number);
            // The target may have some of them, of a put that it was forked in the midst of.
            if edit.get(&at, &mut |_, _| {})? {
                found += 1;
                continue;
            }
            let mut failed = None;
            let is_there = from.get(&at, &mut |_, bytes| {
                failed = edit.put(&at, &mut |out| out.extend_from_slice(bytes)).err();
            })?;
            failed.map_or(Ok(()), Err)?;
            found += u64::from(is_there);
        }
        if found != info.chunks() {
            return Err(StoreError::Damaged(format!("{} has not all of its chunks", keys::display(key))));
        }
        let mark = keys::mark(&info.id);
        if edit.get(&mark, &mut |_, _| {})? {
            edit.delete(&mark)?;
        }
    }
    Ok(())
}

/// The first thing that is wrong with the blobs of a tree; none if each has its chunks, and they are what its hash says.
///
/// # Errors
/// When the tree cannot be read.
pub(crate) fn check(view: &dyn View) -> Result<Option<String>, StoreError> {
    let mut checked = Checked::default();
    let (mut wrong, mut failed) = (None, None);
    let (start, end) = ([Primitive::Blob as u8], [Primitive::Blob as u8 + 1]);
    view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, row| {
        match checked.row(view, key, row) {
            Ok(None) => return ControlFlow::Continue(()),
            Ok(Some(found)) => wrong = Some(found),
            Err(error) => failed = Some(error),
        }
        ControlFlow::Break(())
    })?;
    failed.map_or(Ok(wrong), Err)
}

/// Rows that are held against their chunks, as the rows of a tree come by.
#[derive(Default)]
pub(crate) struct Checked {
    seen: HashSet<Id>,
}

impl Checked {
    /// Looks at a row of a tree. Returns what is wrong.
    pub(crate) fn row(
        &mut self,
        view: &dyn View,
        key: &[u8],
        row: &[u8],
    ) -> Result<Option<String>, StoreError> {
        if !is_blob(key) {
            let is_right = keys::is_well_formed(key, BLOB_BYTES_MAX / CHUNK_BYTES as u64);
            return Ok(
                (!is_right).then(|| format!("it has a hidden key of another form, {}", keys::display(key)))
            );
        }
        let Some(info) = BlobInfo::decode(row) else {
            return Ok(Some(format!("the row of {} cannot be read", keys::display(key))));
        };
        if !self.seen.insert(info.id) {
            return Ok(Some(format!("{} has the chunks of another blob", keys::display(key))));
        }
        let ((start, end), mut number, mut right) = (range_of(&info.id), 0, true);
        let mut hasher = blake3::Hasher::new();
        view.scan(&KeyRange::new(&start, Some(&end)), &mut |chunk, _, bytes| {
            let begin = number * CHUNK_BYTES as u64;
            let expected = info.bytes.saturating_sub(begin).min(CHUNK_BYTES as u64);
            right = chunk == &chunk_key(&info.id, number)[..] && bytes.len() as u64 == expected;
            hasher.update(bytes);
            number += 1;
            if right {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        if !right || number != info.chunks() {
            return Ok(Some(format!("{} has not the chunks that its row names", keys::display(key))));
        }
        let is_marked = view.get(&keys::mark(&info.id), &mut |_, _| {})?;
        if is_marked || *hasher.finalize().as_bytes() != info.hash {
            let what = if is_marked { "is to be deleted, by its mark" } else { "is not what its hash says" };
            return Ok(Some(format!("{} {what}", keys::display(key))));
        }
        Ok(None)
    }
}

/// Whether a branch may have marks: of a process that died while it put a blob, of forks that were made meanwhile, and of blobs
/// that were deleted. Whoever changes the tree in another way than by a commit, or puts a mark, says that there may be some.
#[derive(Default)]
pub(crate) struct Marks {
    none: AtomicBool,
}

impl Marks {
    pub(crate) fn expect(&self) {
        self.none.store(false, Ordering::Release);
    }

    pub(crate) fn may_be(&self) -> bool {
        !self.none.load(Ordering::Acquire)
    }
}

impl Engine {
    /// Deletes marked chunks of a branch, some at a time, but for those of blobs that are being put.
    pub(crate) fn delete_marked(&self, branch: &BranchState) -> Result<(), StoreError> {
        while branch.marks().may_be() && !self.is_far_behind() {
            self.check_writable()?;
            let mut writer = self.lock_writer();
            branch.check_alive()?;
            writer.begin_writes(branch.id());
            {
                let tree = branch.tree(self.forest())?;
                let view = Reader { forest: self.forest(), tree: &tree, floor: 0, now: &Now::default() };
                let is_kept = |id: &Id| self.uploads().has(branch.id(), id);
                let found = marked(&view, is_kept)?;
                found.iter().try_for_each(|key| writer.batch_mut().delete(key))?;
            }
            if writer.batch().is_empty() {
                // Whoever is putting a blob says so again if it comes to nothing.
                branch.marks().none.store(true, Ordering::Release);
                return Ok(());
            }
            self.apply_prepared(&mut writer, branch)?;
        }
        Ok(())
    }
}

/// Some chunks that are marked, and the mark if those are the last.
fn marked(view: &dyn View, is_kept: impl Fn(&Id) -> bool) -> Result<Vec<KeyBuf>, StoreError> {
    let (start, end) = keys::ALL_MARKS;
    let mut mark = None;
    view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, _| match keys::split_mark(key) {
        Some(id) if is_kept(&id) => ControlFlow::Continue(()),
        id => {
            mark = Some((KeyBuf::from_slice(key), id));
            ControlFlow::Break(())
        }
    })?;
    let mut found = Vec::new();
    let Some((mark, id)) = mark else { return Ok(found) };
    if let Some(id) = id {
        let (start, end) = range_of(&id);
        view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, _| {
            found.push(KeyBuf::from_slice(key));
            if found.len() < DELETED_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
    }
    if found.len() < DELETED_MAX {
        found.push(mark);
    }
    Ok(found)
}
