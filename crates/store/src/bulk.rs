//! Loading many sorted pairs at once: a tree is built beside the branch's and takes its place, durable.

use std::collections::HashSet;
use std::ops::ControlFlow;

use duramen_tree::{BulkBuilder, KeyRange, Tree, TreeError};

use crate::access::Access;
use crate::branch::Branch;
use crate::engine::{CheckpointGuard, Engine};
use crate::error::{Severity, StoreError};
use crate::expiry;
use crate::garbage::Tombstone;
use crate::history::note_dropped;
use crate::index::index_of;
use crate::keys::{self, Primitive};
use crate::kv::AsKey;
use crate::names::{check_key_bytes, check_space};
use crate::record;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::value::{check_encoded, Encode};

/// Versions that a load takes at a time. What it does not use is left out for good.
pub(crate) const VERSIONS: u32 = 1 << 20;

impl Branch {
    /// Loads pairs in the order of their keys into a space, replacing those that are there; all of them or none.
    /// They are durable when it returns, whatever the level, without having gone through the log. It is meant for an
    /// empty branch: what the branch holds is rewritten. Other writers wait while the result is put in place.
    /// While it runs there is no checkpoint, so `pairs` must not ask for one.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// let pairs = (0..1000).map(|number| (format!("key {number:04}"), number as i64));
    /// assert_eq!(main.bulk_load("default", pairs)?, 1000);
    /// assert_eq!(main.kv().count("key 01")?, 100);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the keys are not in order, a key or value breaks a limit, pairs of the space are indexed, another commit on the branch came between
    /// ([`StoreError::TransactionConflict`]), or nothing can be written.
    pub fn bulk_load<K: AsKey, V: Encode>(
        &self,
        space: &str,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64, StoreError> {
        check_space(space)?;
        let engine = self.engine();
        engine.check_writable()?;
        let guard = engine.lock_checkpoints()?;
        // What others wrote is stored first, so that little is left to do while they wait at the end.
        engine.checkpoint_locked(&guard, false)?;
        let snapshot = self.snapshot()?;
        if let Some(index) = snapshot.peek(|view| index_of(view, Primitive::Kv, space))? {
            let reason = format!(
                "index {index:?} is of pairs of space {space:?}; drop it, load, and create it again, or put the pairs"
            );
            return Err(StoreError::InvalidInput { what: "a load", reason });
        }
        let mut builder = BulkBuilder::new(engine.forest());
        let mut load = Load { engine, space, next: 0, end: 0, rows: 0, replaced: HashSet::new() };
        match load.run(&mut builder, &snapshot, pairs.into_iter()) {
            Ok(()) => {
                let rows = load.rows;
                let tree = builder.finish().map_err(|error| engine.poison(error))?;
                engine.install(&guard, self, snapshot, tree)?;
                Ok(rows)
            }
            Err(error) => {
                engine.free_nodes(builder.abandon());
                // The disk, and not what was to be loaded: then nothing more is written (S9).
                Err(if error.severity() == Severity::System { engine.poison(error) } else { error })
            }
        }
    }
}

/// A load on its way.
struct Load<'l> {
    engine: &'l Engine,
    space: &'l str,
    /// The next version to give, and the first that is not this load's to give.
    next: u64,
    end: u64,
    rows: u64,
    /// The entries of pairs that ended, and have others in their place.
    replaced: HashSet<Vec<u8>>,
}

impl Load<'_> {
    fn run<K: AsKey, V: Encode>(
        &mut self,
        builder: &mut BulkBuilder<'_>,
        old: &Snapshot,
        mut pairs: impl Iterator<Item = (K, V)>,
    ) -> Result<(), StoreError> {
        let mut key = Vec::new();
        let mut value = Vec::new();
        let prefix = keys::prefix(Primitive::Kv, self.space);
        let mut pending = self.take(&mut pairs, &prefix, &mut key, &mut value)?;
        let mut failed = None;
        if !old.tree().is_empty() {
            old.tree().scan(self.engine.forest(), &KeyRange::all(), |entry| {
                while pending && key.as_slice() < entry.key {
                    let step = self.push(builder, &key, &value).and_then(|()| {
                        pending = self.take(&mut pairs, &prefix, &mut key, &mut value)?;
                        Ok(())
                    });
                    if let Err(error) = step {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                if pending && key == entry.key {
                    self.replaced.extend(expiry::entry_of(entry.key, entry.value));
                    return ControlFlow::Continue(());
                }
                // Entries come behind all pairs.
                if self.replaced.contains(entry.key) {
                    return ControlFlow::Continue(());
                }
                if let Err(error) = builder.push(entry.key, entry.version, entry.value) {
                    failed = Some(error.into());
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        while pending {
            self.push(builder, &key, &value)?;
            pending = self.take(&mut pairs, &prefix, &mut key, &mut value)?;
        }
        Ok(())
    }

    /// The next pair, encoded. Returns whether there was one.
    fn take<K: AsKey, V: Encode>(
        &self,
        pairs: &mut impl Iterator<Item = (K, V)>,
        prefix: &[u8],
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        let Some((name, new)) = pairs.next() else { return Ok(false) };
        let name = name.as_key();
        let name = name.as_ref();
        check_key_bytes(name)?;
        check_encoded(&new)?;
        let not_after = key.get(prefix.len()..).is_some_and(|last| last >= name);
        if not_after {
            return Err(TreeError::NotSorted { row: self.rows }.into());
        }
        key.clear();
        key.extend_from_slice(prefix);
        key.extend_from_slice(name);
        value.clear();
        new.encode(value);
        Ok(true)
    }

    fn push(&mut self, builder: &mut BulkBuilder<'_>, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if self.next == self.end {
            self.end = self.engine.reserve_versions(VERSIONS)?;
            self.next = self.end - u64::from(VERSIONS);
        }
        builder.push(key, self.next, value)?;
        self.next += 1;
        self.rows += 1;
        Ok(())
    }
}

impl Engine {
    /// Takes versions that no other write will have. Returns the first that is not taken.
    pub(crate) fn reserve_versions(&self, count: u32) -> Result<u64, StoreError> {
        let mut writer = self.lock_writer();
        self.check_poison()?;
        self.append(&mut writer, &[record::RESERVE], count)?;
        Ok(writer.version() + 1)
    }

    /// Puts a loaded tree in the place of a branch's, and makes it durable before anybody can build on it.
    pub(crate) fn install(
        &self,
        guard: &CheckpointGuard<'_>,
        branch: &Branch,
        snapshot: Snapshot,
        tree: Tree,
    ) -> Result<(), StoreError> {
        let mut writer = self.lock_writer();
        let state = &branch.state;
        let unchanged =
            state.check_alive().and_then(|()| Ok(state.tree(self.forest())?.same(snapshot.tree())));
        let refused = match unchanged {
            Ok(true) => None,
            Ok(false) => Some(StoreError::TransactionConflict { key: format!("branch {}", state.name()) }),
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            drop(writer);
            self.free_tree(&tree)?;
            return Err(error);
        }
        drop(snapshot);
        // What a base or a child may hold is not this branch's alone to give back.
        let (low, shared) = {
            let mut meta = state.meta();
            note_dropped(state, &mut meta.points, &writer);
            (meta.fork_mark, meta.origin_mark.max(meta.points.mark()))
        };
        let high = self.registry().children_mark(state.id()).max(shared);
        let slot = {
            // A version of its own: what was read before the load is told from what is read after it.
            let mut held = state.slot_mut(&writer);
            self.append(&mut writer, &[record::INSTALL], 1)?;
            std::mem::replace(&mut *held, Slot::Open(tree))
        };
        self.retire(&mut writer, Tombstone { slot, low, high, dead: Vec::new() });
        self.retain_if_each(&mut writer, state)?;
        self.checkpoint_within(guard, &mut writer)
    }
}
