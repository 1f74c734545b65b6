//! Retaining states and forgetting them.

use std::time::Duration;

use duramen_base::clock;

use super::keep::Every;
use super::points::{NewPoint, Points};
use crate::branch_state::BranchState;
use crate::branches::BranchOp;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::slot::Slot;
use crate::writer::Writer;

/// Has the points of a branch take note of what it has dropped until now.
pub(crate) fn note_dropped(branch: &BranchState, points: &mut Points, writer: &Writer) {
    if let Slot::Open(tree) = &mut *branch.slot_for_commit(writer) {
        if tree.has_dropped() {
            points.note_dropped(tree.take_dropped());
        }
    }
}

impl Engine {
    /// What retains the present state of a branch. It says whether the newest point is that already: a replay finds the same point in
    /// the same place, whatever the numbers of its nodes are.
    pub(crate) fn retain_op(branch: &BranchState, time_ms: i64, tag: Option<String>) -> BranchOp {
        let meta = branch.meta();
        let is_new = meta.points.newest().is_none_or(|newest| !newest.slot.same(&branch.share()));
        BranchOp::Retain { id: branch.id(), time_ms, tag, is_new }
    }

    /// Retains the present state of a branch.
    pub(crate) fn take_point(
        &self,
        branch: &BranchState,
        writer: &Writer,
        (version, time_ms): (u64, i64),
    ) -> u64 {
        let mut meta = branch.meta();
        note_dropped(branch, &mut meta.points, writer);
        let slot = branch.share();
        meta.points.push(NewPoint { version, time_ms, floor: branch.floor(), mark: self.node_mark(), slot });
        version
    }

    /// Forgets points of a branch, which are given in their order.
    pub(crate) fn forget(&self, branch: &BranchState, versions: &[u64]) {
        if versions.is_empty() {
            return;
        }
        let slots = branch.meta().points.forget(versions);
        slots.into_iter().for_each(|slot| self.free_memory(slot));
    }

    /// Retains the present state of a branch of which each commit is retained.
    #[inline]
    pub(crate) fn retain_if_each(&self, writer: &mut Writer, branch: &BranchState) -> Result<(), StoreError> {
        if !branch.keeps_each() {
            return Ok(());
        }
        self.log_branch_op(writer, &Self::retain_op(branch, clock::steady_unix_ms(), None))
    }

    /// Retains and forgets what the clock says.
    pub(crate) fn keep_histories(&self) {
        let now = clock::steady_unix_ms();
        let branches: Vec<_> = self.registry().iter().cloned().collect();
        for branch in branches {
            // Whoever is far behind waits for a checkpoint, which nobody would make.
            if self.is_far_behind() {
                return;
            }
            let kept = self.retain_if_due(&branch, now).and_then(|()| self.forget_if_due(&branch, now));
            match kept {
                Ok(()) | Err(StoreError::BranchNotFound { .. }) => {}
                Err(error) => log::warn!("a history is not kept: branch {}, {error}", branch.name()),
            }
        }
    }

    fn retain_if_due(&self, branch: &BranchState, now: i64) -> Result<(), StoreError> {
        let is_due = || {
            let meta = branch.meta();
            let every = match meta.points.keep()?.every {
                Every::Ms(every) => Duration::from_millis(every),
                Every::Commit => return None,
            };
            let is_changed = meta.points.newest().is_none_or(|newest| !newest.slot.same(&branch.share()));
            Some(is_changed && meta.points.is_older_than(every, now))
        };
        if is_due() != Some(true) {
            return Ok(());
        }
        self.change_branches_by_clock(|registry| {
            // It may have been deleted, or the history turned off, since it was looked at.
            let state = registry.find(branch.id()).filter(|_| is_due() == Some(true));
            Ok(state.map(|state| Self::retain_op(state, now, None)))
        })
        .map(drop)
    }

    fn forget_if_due(&self, branch: &BranchState, now: i64) -> Result<(), StoreError> {
        let Some(keep) = branch.meta().points.keep().copied() else { return Ok(()) };
        let age = keep.age_ms.and_then(|age| i64::try_from(age).ok());
        let old = age.map(|age| branch.meta().points.before(now.saturating_sub(age))).unwrap_or_default();
        let large = keep.bytes.map(|most| self.larger_than(branch, most)).unwrap_or_default();
        // Both begin with the oldest.
        let mut versions = if large.len() > old.len() { large } else { old };
        if versions.is_empty() {
            return Ok(());
        }
        self.change_branches_by_clock(|registry| {
            let Some(state) = registry.find(branch.id()) else { return Ok(None) };
            let meta = state.meta();
            // Since they were chosen, some may have got a tag, and others may be wanted longer.
            if meta.points.keep() != Some(&keep) {
                return Ok(None);
            }
            let untagged = meta.points.untagged();
            versions.retain(|version| untagged.binary_search(version).is_ok());
            Ok((!versions.is_empty()).then_some(BranchOp::Forget { id: branch.id(), versions }))
        })
        .map(drop)
    }

    /// The oldest points without a tag, without which the rest of those holds no more than so many bytes.
    fn larger_than(&self, branch: &BranchState, most: u64) -> Vec<u64> {
        // Nobody else has to wait while the sizes are looked up.
        let held = branch.meta().points.held_by_untagged();
        let nodes = self.forest().store();
        let sizes: Vec<_> =
            held.into_iter().map(|(version, dead)| (version, nodes.bytes_of(&dead))).collect();
        let mut all: u64 = sizes.iter().map(|(_, size)| size).sum();
        let mut versions = Vec::new();
        for (version, size) in sizes {
            if all <= most {
                break;
            }
            versions.push(version);
            all -= size;
        }
        versions
    }
}
