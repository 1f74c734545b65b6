//! Retaining states and forgetting them.

use duramen_base::clock;

use super::keep::Every;
use super::points::{NewPoint, Points};
use crate::branch_state::BranchState;
use crate::branches::BranchOp;
use crate::durability::Durability;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::slot::Slot;
use crate::writer::Writer;

/// Has the points of a branch take note of what it has dropped until now.
pub(crate) fn note_dropped(branch: &BranchState, points: &mut Points, writer: &Writer) {
    if let Slot::Open(tree) = &mut *branch.slot_mut(writer) {
        if tree.has_dropped() {
            points.note_dropped(tree.take_dropped());
        }
    }
}

impl Engine {
    /// Retains the present state of a branch, unless the newest point is that. Returns the version of the point.
    pub(crate) fn take_point(
        &self,
        branch: &BranchState,
        writer: &Writer,
        (version, time_ms): (u64, i64),
    ) -> u64 {
        let mut meta = branch.meta();
        note_dropped(branch, &mut meta.points, writer);
        let slot = branch.share();
        if let Some(newest) = meta.points.newest().filter(|newest| newest.slot.same(&slot)) {
            return newest.version;
        }
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
        self.log_branch_op(
            writer,
            &BranchOp::Retain { id: branch.id(), time_ms: clock::unix_ms(), tag: None },
        )
    }

    /// Retains and forgets what the clock says.
    pub(crate) fn keep_histories(&self) {
        let now = clock::unix_ms();
        let branches: Vec<_> = self.registry().iter().cloned().collect();
        for branch in branches {
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
                Every::Ms(every) => i64::try_from(every).unwrap_or(i64::MAX),
                Every::Commit => return None,
            };
            let newest = meta.points.newest();
            let is_over = newest
                .is_none_or(|newest| now >= newest.time_ms.saturating_add(every) || now < newest.time_ms);
            let is_changed = newest.is_none_or(|newest| !newest.slot.same(&branch.share()));
            Some(is_over && is_changed)
        };
        if is_due() != Some(true) {
            return Ok(());
        }
        self.change_branches_if(Durability::Memory, |registry| {
            let there = registry.find(branch.id()).is_some();
            Ok(there.then(|| BranchOp::Retain { id: branch.id(), time_ms: now, tag: None }))
        })
        .map(drop)
    }

    fn forget_if_due(&self, branch: &BranchState, now: i64) -> Result<(), StoreError> {
        let versions = {
            let meta = branch.meta();
            let Some(keep) = meta.points.keep() else { return Ok(()) };
            let age = keep.age_ms.and_then(|age| i64::try_from(age).ok());
            let mut versions = age.map(|age| meta.points.before(now.saturating_sub(age))).unwrap_or_default();
            if let Some(most) = keep.bytes {
                let large = self.larger_than(&meta.points, most);
                if large.len() > versions.len() {
                    versions = large;
                }
            }
            versions
        };
        if versions.is_empty() {
            return Ok(());
        }
        self.change_branches_if(Durability::Memory, |registry| {
            let there = registry.find(branch.id()).is_some();
            Ok(there.then_some(BranchOp::Forget { id: branch.id(), versions }))
        })
        .map(drop)
    }

    /// The oldest points without a tag, without which the rest holds no more than so many bytes.
    fn larger_than(&self, points: &Points, most: u64) -> Vec<u64> {
        let nodes = self.forest().store();
        let sizes: Vec<_> = points.iter().map(|point| nodes.bytes_of(Points::dead_of(point))).collect();
        let mut all: u64 = sizes.iter().sum();
        let mut free = points.untagged().into_iter().peekable();
        let mut versions = Vec::new();
        for (point, size) in points.iter().zip(sizes) {
            if all <= most {
                break;
            }
            if free.next_if_eq(&point.version).is_some() {
                versions.push(point.version);
                all -= size;
            }
        }
        versions
    }
}
