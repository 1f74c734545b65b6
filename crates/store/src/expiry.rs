//! Pairs that are there for a time.
//!
//! The time at which a pair ends lies before its value, so forks, merges, history and followers carry it with the pair. Beside
//! the pair lies an entry by time and key, written in the same commit as entries of indexes are, from which it is found what
//! is due. From its time on a pair is hidden from those who read; a commit deletes it later. `docs/design/store.md` gives the
//! invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use duramen_base::clock;
use duramen_tree::{Forest, KeyRange, Tree};

use crate::access::View;
use crate::batch::{Batch, Op};
use crate::branch_state::BranchState;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::keys::{self, Primitive};

/// The longest time to live: a thousand years.
pub const TTL_MAX: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// The byte that a pair with an end begins with, before its time in eight bytes, the highest first. Values have other tags.
const EXPIRING: u8 = 9;

/// Pairs that one commit deletes beside what it is for, at most.
const SWEPT_MAX: usize = 1024;

const UNKNOWN: i64 = i64::MIN;
const NONE: i64 = i64::MAX;

/// The time of a view: asked for at most once, so that all that is read in it is as of one time.
#[derive(Clone, Default)]
pub(crate) struct Now(OnceLock<i64>);

impl Now {
    pub(crate) fn at(ms: i64) -> Self {
        Self(OnceLock::from(ms))
    }

    pub(crate) fn ms(&self) -> i64 {
        *self.0.get_or_init(clock::steady_unix_ms)
    }
}

/// When something with a time to live ends, in milliseconds since 1970 (UTC).
pub(crate) fn end_of_ttl(ttl: Duration) -> Result<i64, StoreError> {
    if ttl.is_zero() || ttl > TTL_MAX {
        let reason = "it must be more than nothing and at most a thousand years".to_owned();
        return Err(StoreError::InvalidInput { what: "a time to live", reason });
    }
    // What is shorter than a millisecond is one.
    let ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).max(1);
    Ok(clock::steady_unix_ms().saturating_add(ms))
}

/// Takes the bytes of a pair apart: when it ends, if it does, and the encoded value.
#[inline]
pub(crate) fn split(bytes: &[u8]) -> (Option<i64>, &[u8]) {
    let timed = bytes.split_first_chunk::<9>().filter(|([tag, ..], _)| *tag == EXPIRING);
    match timed {
        Some(([_, time @ ..], value)) => (Some(i64::from_be_bytes(*time)), value),
        None => (None, bytes),
    }
}

/// The encoded value of a pair.
#[inline]
pub(crate) fn value(bytes: &[u8]) -> &[u8] {
    split(bytes).1
}

/// The encoded value of a pair unless its time has passed.
#[inline]
pub(crate) fn live<'b, V: View + ?Sized>(view: &V, bytes: &'b [u8]) -> Option<&'b [u8]> {
    match split(bytes) {
        (None, value) => Some(value),
        (Some(end), value) if end > view.now_ms() => {
            view.shows_until(end);
            Some(value)
        }
        (Some(_), _) => None,
    }
}

/// Writes what stands before the value of a pair that ends.
pub(crate) fn begin(end_ms: Option<i64>, out: &mut Vec<u8>) {
    if let Some(end_ms) = end_ms {
        out.push(EXPIRING);
        out.extend_from_slice(&end_ms.to_be_bytes());
    }
}

/// Whether the value of a key of the tree is that of a pair that ends.
#[inline]
pub(crate) fn is_expiring(key: &[u8], value: &[u8]) -> bool {
    value.first() == Some(&EXPIRING) && key.first() == Some(&(Primitive::Kv as u8))
}

/// The key of the entry of a row of the tree, if it is a pair that ends.
pub(crate) fn entry_of(key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let end = split(value).0.filter(|_| is_expiring(key, value));
    end.map(|at| keys::expiry(at, key).to_vec())
}

/// How many of the pairs in a range of keys of the tree are there no longer, though they are not deleted yet.
pub(crate) fn count_gone(view: &dyn View, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
    let (first, last) = keys::ALL_EXPIRIES;
    let (mut found, mut now_ms) = (Vec::new(), None);
    view.scan_derived(&KeyRange::new(&first, Some(&last)), &mut |entry, _, _| {
        // The time is only asked for where there is such an entry.
        let now_ms = *now_ms.get_or_insert_with(|| view.now_ms());
        match keys::split_expiry(entry) {
            Some((at, _)) if at > now_ms => {
                // The next that ends may be one of those that are counted.
                view.shows_until(at);
                return ControlFlow::Break(());
            }
            Some((_, row)) if (start..end).contains(&row) => found.push(row.to_vec()),
            Some(_) | None => {}
        }
        ControlFlow::Continue(())
    })?;
    let mut gone = 0;
    for row in found {
        view.get(&row, &mut |_, bytes| gone += u64::from(live(view, bytes).is_none()))?;
    }
    Ok(gone)
}

/// What is known of the pairs of a branch's tree that end: when the first of them does. Whoever changes the tree in another
/// way than by a commit has it forgotten.
pub(crate) struct Due {
    next_ms: AtomicI64,
}

impl Default for Due {
    fn default() -> Self {
        Self { next_ms: AtomicI64::new(UNKNOWN) }
    }
}

impl Due {
    pub(crate) fn forget(&self) {
        self.next_ms.store(UNKNOWN, Ordering::Release);
    }

    /// Whether a pair may have to be deleted at a time.
    pub(crate) fn has_come(&self, now_ms: i64) -> bool {
        self.next_ms.load(Ordering::Acquire) <= now_ms
    }

    /// Whether a commit may change entries of pairs that end.
    #[inline]
    pub(crate) fn concern(&self, batch: &Batch) -> bool {
        self.next_ms.load(Ordering::Acquire) != NONE || batch.has_expiring()
    }

    /// When the first pair of a tree ends. Only the holder of the writer's lock asks.
    fn next(&self, forest: &Forest, tree: &Tree) -> Result<i64, StoreError> {
        let known = self.next_ms.load(Ordering::Acquire);
        if known != UNKNOWN {
            return Ok(known);
        }
        let (start, end) = keys::ALL_EXPIRIES;
        let mut next = NONE;
        tree.scan(forest, &KeyRange::new(&start, Some(&end)), |entry| {
            next = keys::split_expiry(entry.key).map_or(NONE, |(at, _)| at);
            ControlFlow::Break(())
        })?;
        self.next_ms.store(next, Ordering::Release);
        Ok(next)
    }

    /// Puts before the operations of a commit what they change of the entries of pairs that end, and the deletion of pairs whose
    /// time has passed.
    pub(crate) fn maintain(&self, forest: &Forest, tree: &Tree, batch: &mut Batch) -> Result<(), StoreError> {
        let next = self.next(forest, tree)?;
        if next == NONE && !batch.has_expiring() {
            return Ok(());
        }
        let mut entries: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        let mut last: BTreeMap<&[u8], Op<'_>> = BTreeMap::new();
        last.extend(batch.iter().filter(|op| is_pair(op.key())).map(|op| (op.key(), op)));
        for (key, op) in &last {
            let old = tree.get(forest, key, |entry| split(entry.value).0)?.flatten();
            let new = match op {
                Op::Put { value, .. } => split(value).0,
                Op::Delete { .. } => None,
                // Of pairs, nothing is spliced.
                Op::Splice { .. } => old,
            };
            if old != new {
                entries.extend(old.map(|at| (keys::expiry(at, key).to_vec(), false)));
                entries.extend(new.map(|at| (keys::expiry(at, key).to_vec(), true)));
            }
        }
        let mut gone = BTreeSet::new();
        let now_ms = if next == NONE { NONE } else { clock::steady_unix_ms() };
        if next <= now_ms && next != NONE {
            let due = due(forest, tree, now_ms, SWEPT_MAX)?;
            for (entry, row) in due.into_iter().filter(|(_, row)| !last.contains_key(&row[..])) {
                entries.insert(entry, false);
                gone.insert(row);
            }
        }
        if entries.is_empty() {
            if next <= now_ms {
                // A commit that was refused had said so.
                self.forget();
            }
            return Ok(());
        }
        match entries.iter().find(|(_, is_there)| !**is_there) {
            // Which is the next now is looked up when somebody asks.
            Some(_) => self.forget(),
            None => {
                let first = entries.keys().next().and_then(|entry| Some(keys::split_expiry(entry)?.0));
                self.next_ms.fetch_min(first.unwrap_or(UNKNOWN), Ordering::AcqRel);
            }
        }
        let mut before = Batch::default();
        before.begin(|_| {});
        gone.iter().try_for_each(|row| before.delete(row))?;
        for (entry, is_there) in entries {
            match is_there {
                true => before.put(&entry, &mut |_| {})?,
                false => before.delete(&entry)?,
            }
        }
        batch.prepend(&before)
    }
}

fn is_pair(key: &[u8]) -> bool {
    key.first() == Some(&(Primitive::Kv as u8))
}

/// An entry, and the key of its pair in the tree.
type DueEntry = (Vec<u8>, Vec<u8>);

/// The first entries until a time, with the keys of their pairs.
fn due(forest: &Forest, tree: &Tree, until_ms: i64, limit: usize) -> Result<Vec<DueEntry>, StoreError> {
    let ((start, _), end) = (keys::ALL_EXPIRIES, keys::expiry(until_ms.saturating_add(1), &[]));
    let mut found = Vec::new();
    tree.scan(forest, &KeyRange::new(&start, Some(&end)), |entry| {
        let row = keys::split_expiry(entry.key).map(|(_, row)| row.to_vec());
        found.extend(row.map(|row| (entry.key.to_vec(), row)));
        if found.len() < limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(found)
}

/// The first thing that is wrong with the entries of pairs that end; none if each has one, and there are no others. It takes a
/// look at each pair.
///
/// # Errors
/// When the tree cannot be read.
pub(crate) fn check(view: &dyn View) -> Result<Option<String>, StoreError> {
    let mut checked = Checked::default();
    let (mut wrong, mut failed) = (None, None);
    let pairs = ([Primitive::Kv as u8], [Primitive::Kv as u8 + 1]);
    for (start, end) in [pairs, keys::ALL_EXPIRIES] {
        view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, bytes| {
            match checked.row(view, key, bytes) {
                Ok(None) => return ControlFlow::Continue(()),
                Ok(Some(found)) => wrong = Some(found),
                Err(error) => failed = Some(error),
            }
            ControlFlow::Break(())
        })?;
        if wrong.is_some() || failed.is_some() {
            break;
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(wrong.or_else(|| checked.finish())),
    }
}

/// Entries that are held against their pairs, as the rows of a tree come by in their order.
#[derive(Default)]
pub(crate) struct Checked {
    pairs: u64,
    entries: u64,
}

impl Checked {
    /// Looks at a row of a tree. Returns what is wrong.
    pub(crate) fn row(
        &mut self,
        view: &dyn View,
        key: &[u8],
        bytes: &[u8],
    ) -> Result<Option<String>, StoreError> {
        if keys::is_expiry(key) {
            self.entries += 1;
        } else if is_expiring(key, bytes) {
            self.pairs += 1;
            let at = split(bytes).0.filter(|at| (0..NONE).contains(at));
            let there = at.map_or(Ok(false), |at| view.get(&keys::expiry(at, key), &mut |_, _| {}))?;
            if !there {
                return Ok(Some(format!("no entry says when {} ends", keys::display(key))));
            }
        }
        Ok(None)
    }

    /// What is wrong with all of them.
    pub(crate) fn finish(&self) -> Option<String> {
        let surplus = self.entries.abs_diff(self.pairs);
        (surplus != 0).then(|| format!("{surplus} entries of pairs that end belong to no pair"))
    }
}

impl Engine {
    /// Deletes the pairs of a branch whose time has passed, some at a time. Returns whether there were any.
    pub(crate) fn delete_gone(&self, branch: &BranchState) -> Result<bool, StoreError> {
        let mut swept = false;
        while !self.is_far_behind() {
            self.check_writable()?;
            let mut writer = self.lock_writer();
            branch.check_alive()?;
            writer.begin_writes(branch.id());
            {
                let tree = branch.tree(self.forest())?;
                branch.due().maintain(self.forest(), &tree, writer.batch_mut())?;
            }
            if writer.batch().is_empty() {
                break;
            }
            self.apply_prepared(&mut writer, branch)?;
            swept = true;
        }
        Ok(swept)
    }
}
