//! What goes between stores: a branch that is read where it was copied to, and one that is taken in from elsewhere.

use std::ops::ControlFlow;
use std::sync::Arc;

use duramen_base::clock;
use duramen_tree::{BulkBuilder, KeyRange, NodeStore, Tree};

use crate::access::{Access, View};
use crate::blob;
use crate::branch_state::{BranchState, Meta};
use crate::bulk::VERSIONS;
use crate::diff::{collect, diff_trees, Diff, Part, RawChange};
use crate::engine::{CheckpointGuard, Engine};
use crate::error::StoreError;
use crate::expiry;
use crate::index;
use crate::keys;
use crate::names::check_space;
use crate::options::Options;
use crate::record;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::stored_branch::StoredBranch;

/// Rows of another store that are compared at a time, at most, and their bytes.
const PAGE_ROWS: usize = 1024;
const PAGE_BYTES: usize = 1 << 20;

/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 1 << 14;

impl Store {
    /// Opens branches for reading where their nodes lie, without a folder: everything that reads works on them, and
    /// everything that writes is refused. Nodes of one id are one node, whichever branch has it.
    ///
    /// # Errors
    /// When two have the same name, or one is none.
    pub fn read_branches(
        nodes: Arc<dyn NodeStore>,
        branches: &[StoredBranch],
        options: Options,
    ) -> Result<Self, StoreError> {
        Self::start(crate::recovery::read_only(nodes, branches, options)?)
    }

    /// Makes a branch that has everything that a snapshot of any store has, all of it or nothing. A branch of that name
    /// may be there if it is empty. It is durable when this returns, whatever the level; what is written meanwhile takes
    /// no memory but a path of nodes. `progress` is given the number of entries that are done. Returns the number of entries.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// let (here, there) = (Store::memory(), Store::memory());
    /// there.branch("main")?.kv().put("colour", "green")?;
    /// let snapshot = there.branch("main")?.snapshot()?;
    /// assert_eq!(here.import_branch("theirs", &snapshot, &mut |_| {})?, 1);
    /// assert_eq!(here.branch("theirs")?.kv().get("colour")?, Some("green".into()));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the name is taken or not allowed, the snapshot cannot be read, or nothing can be written.
    pub fn import_branch(
        &self,
        name: &str,
        from: &Snapshot,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, StoreError> {
        let engine = self.engine();
        engine.check_writable()?;
        // Entries are taken over as they are, so they have to be right.
        if let Some(wrong) = from.peek(|view| index::check(view))? {
            return Err(not_whole(&wrong));
        }
        let guard = engine.lock_checkpoints()?;
        let empty = self.check_free_or_empty(name)?;
        // What others wrote is stored first, so that little is left to do while they wait at the end.
        engine.checkpoint_locked(&guard, false)?;
        let mut builder = BulkBuilder::new(engine.forest());
        match fill(engine, &mut builder, from, progress) {
            Ok(rows) => {
                let tree = builder.finish().map_err(|error| engine.poison(error))?;
                match empty {
                    Some(old) => engine.install(&guard, &self.branch(name)?, old, tree)?,
                    None => engine.install_new(&guard, name, tree)?,
                }
                progress(rows);
                Ok(rows)
            }
            Err(error) => {
                engine.free_nodes(builder.abandon());
                Err(error)
            }
        }
    }

    /// The empty branch of that name as it is now, if there is one.
    fn check_free_or_empty(&self, name: &str) -> Result<Option<Snapshot>, StoreError> {
        let engine = self.engine();
        if !engine.registry().has(name) {
            return engine.registry().check_free(name).map(|()| None);
        }
        let old = self.branch(name)?.snapshot()?;
        if old.tree().is_empty() {
            return Ok(Some(old));
        }
        Err(StoreError::BranchExists { name: name.to_owned() })
    }
}

fn not_whole(wrong: &str) -> StoreError {
    StoreError::Damaged(format!("what is to be imported is not whole: {wrong}"))
}

/// Gives all rows of a snapshot to a builder, under versions of this store: one version means one row in it, so those
/// of another store mean nothing here.
fn fill(
    engine: &Engine,
    builder: &mut BulkBuilder<'_>,
    from: &Snapshot,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, StoreError> {
    let (mut next, mut end, mut rows) = (0, 0, 0_u64);
    let mut failed = None;
    let (mut entries, mut blobs) = (expiry::Checked::default(), blob::Checked::default());
    let mut take = |view: &dyn View, key: &[u8], value: &[u8]| -> Result<(), StoreError> {
        let wrong = match entries.row(view, key, value)? {
            Some(wrong) => Ok(Some(wrong)),
            None => blobs.row(view, key, value),
        };
        if let Some(wrong) = wrong? {
            return Err(not_whole(&wrong));
        }
        if !keys::is_derived(key) {
            let unknown = || StoreError::Damaged("it has a key of an unknown kind".into());
            let (_, space, _) = keys::split(key).ok_or_else(unknown)?;
            check_space(space)?;
        }
        if next == end {
            end = engine.reserve_versions(VERSIONS)?;
            next = end - u64::from(VERSIONS);
        }
        builder.push(key, next, value)?;
        next += 1;
        rows += 1;
        if rows.is_multiple_of(PROGRESS_ROWS) {
            progress(rows);
        }
        Ok(())
    };
    from.peek(|view| {
        view.scan(&KeyRange::all(), &mut |key, _, value| match take(view, key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    entries.finish().map_or(Ok(rows), |wrong| Err(not_whole(&wrong)))
}

impl Engine {
    /// Puts a tree that was built into the registry, as a branch of its own, and makes both durable in one step: no log
    /// has a record of the branch before the manifest has it.
    fn install_new(&self, guard: &CheckpointGuard<'_>, name: &str, tree: Tree) -> Result<(), StoreError> {
        let mut writer = self.lock_writer();
        let free = self.check_poison().and_then(|()| self.registry().check_free(name));
        if let Err(error) = free {
            drop(writer);
            self.free_tree(&tree)?;
            return Err(error);
        }
        {
            let mut registry = self.registry_mut(&writer);
            let id = registry.next_id();
            let meta = Meta::root(clock::unix_ms());
            registry.add(BranchState::new(id, name.to_owned(), Slot::Open(tree), meta));
        }
        self.append(&mut writer, &[record::INSTALL], 1)?;
        self.checkpoint_within(guard, &mut writer)
    }
}

impl Snapshot {
    /// What differs between two snapshots, the first `limit` of it with values. Of one store, it costs what was written
    /// to either since they parted; of different stores, all of both is read.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn diff(&self, other: &Self, part: &Part, limit: usize) -> Result<Diff, StoreError> {
        collect(limit, |show| self.diff_with(other, part, show))
    }

    /// Shows what differs between two snapshots, one key at a time, as it lies.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn diff_with(
        &self,
        other: &Self,
        part: &Part,
        mut show: impl FnMut(RawChange<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let show: &mut dyn FnMut(RawChange<'_>) -> ControlFlow<()> = &mut show;
        if Arc::ptr_eq(self.engine(), other.engine()) {
            return diff_trees(self.engine(), self.tree(), other.tree(), part, show);
        }
        for (start, end) in part.ranges()? {
            let mut left = Cursor::new(self, start.clone(), end.clone());
            let mut right = Cursor::new(other, start, end);
            if compare(&mut left, &mut right, part, show)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn compare(
    left: &mut Cursor<'_>,
    right: &mut Cursor<'_>,
    part: &Part,
    show: &mut dyn FnMut(RawChange<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, StoreError> {
    loop {
        left.fill()?;
        right.fill()?;
        let (a, b) = (left.head(), right.head());
        let Some(key) = [a, b].into_iter().flatten().map(|(key, _)| key).min() else {
            return Ok(ControlFlow::Continue(()));
        };
        let (a, b) = (a.filter(|row| row.0 == key), b.filter(|row| row.0 == key));
        let values = (a.map(|row| row.1), b.map(|row| row.1));
        if values.0 != values.1 {
            if let Some((primitive, space, rest)) = keys::split(key).filter(|(.., rest)| part.has(rest)) {
                let change = RawChange { primitive, space, key: rest, left: values.0, right: values.1 };
                if show(change).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        let (a, b) = (a.is_some(), b.is_some());
        left.at += usize::from(a);
        right.at += usize::from(b);
    }
}

/// Goes over a snapshot a page at a time, so that two can be read side by side.
struct Cursor<'s> {
    snapshot: &'s Snapshot,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    page: Vec<(Vec<u8>, Vec<u8>)>,
    at: usize,
    over: bool,
}

impl<'s> Cursor<'s> {
    fn new(snapshot: &'s Snapshot, start: Vec<u8>, end: Option<Vec<u8>>) -> Self {
        Self { snapshot, start, end, page: Vec::new(), at: 0, over: false }
    }

    fn head(&self) -> Option<(&[u8], &[u8])> {
        self.page.get(self.at).map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// Reads the next page if this one is used up.
    fn fill(&mut self) -> Result<(), StoreError> {
        if self.at < self.page.len() || self.over {
            return Ok(());
        }
        if let Some((last, _)) = self.page.pop() {
            self.start = last;
            // The next key after this one.
            self.start.push(0);
        }
        self.page.clear();
        self.at = 0;
        let (page, mut bytes) = (&mut self.page, 0);
        let range = KeyRange::new(&self.start, self.end.as_deref());
        self.snapshot.peek(|view| {
            view.scan(&range, &mut |key, _, value| {
                bytes += key.len() + value.len();
                page.push((key.to_vec(), value.to_vec()));
                if page.len() == PAGE_ROWS || bytes >= PAGE_BYTES {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })
        })?;
        self.over = self.page.is_empty();
        Ok(())
    }
}
