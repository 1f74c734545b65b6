//! What happens to branches themselves: create, fork, delete, reset, protect, expire.
//!
//! Each is one record of the log, whatever the branch holds. The same functions apply a record when it is made and
//! when it is redone after a crash.

use duramen_tree::Tree;
use serde::{Deserialize, Serialize};

use crate::branch_state::{BranchState, Meta};
use crate::durability::Durability;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::garbage::Tombstone;
use crate::history::{not_retained, note_dropped, Keep};
use crate::record;
use crate::registry::{Heritage, Registry};
use crate::slot::Slot;
use crate::writer::Writer;

/// A record about a branch. The order of the variants is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BranchOp {
    Create {
        id: u64,
        name: String,
        created_ms: i64,
    },
    Fork {
        id: u64,
        source: u64,
        name: String,
        created_ms: i64,
        expires_ms: Option<i64>,
    },
    Delete {
        id: u64,
    },
    /// The branch becomes what its parent is now.
    Reset {
        id: u64,
    },
    Set {
        id: u64,
        expires_ms: Option<i64>,
        protected: bool,
    },
    /// Which states of the branch are retained from now on; none: only those that have a tag.
    Keep {
        id: u64,
        keep: Option<Keep>,
    },
    /// The state of the branch is retained, and named if there is a tag.
    Retain {
        id: u64,
        time_ms: i64,
        tag: Option<String>,
        /// Whether it is not what the newest point is.
        is_new: bool,
    },
    /// Retained states are forgotten; their versions in their order.
    Forget {
        id: u64,
        versions: Vec<u64>,
    },
    /// A retained state is named.
    Tag {
        id: u64,
        version: u64,
        tag: String,
    },
    Untag {
        id: u64,
        tag: String,
    },
    /// A fork of a retained state.
    ForkAt {
        id: u64,
        source: u64,
        version: u64,
        name: String,
        created_ms: i64,
        expires_ms: Option<i64>,
    },
}

impl Engine {
    /// Logs and applies what `decide` wants done to branches.
    pub(crate) fn change_branches<R>(
        &self,
        durability: Durability,
        decide: impl FnOnce(&Registry) -> Result<(BranchOp, R), StoreError>,
    ) -> Result<R, StoreError> {
        let mut result = None;
        self.change_branches_if(durability, |registry| {
            let (op, decided) = decide(registry)?;
            result = Some(decided);
            Ok(Some(op))
        })?;
        Ok(result.expect("what was decided is there when it was done"))
    }

    /// As [`Engine::change_branches`], unless `decide` finds that nothing is to be done. Says whether something was.
    pub(crate) fn change_branches_if(
        &self,
        durability: Durability,
        decide: impl FnOnce(&Registry) -> Result<Option<BranchOp>, StoreError>,
    ) -> Result<bool, StoreError> {
        self.check_writable()?;
        self.throttle()?;
        self.decide_on_branches(durability, decide)
    }

    /// As [`Engine::change_branches_if`], for the thread that makes the checkpoints: it never waits for one.
    pub(crate) fn change_branches_by_clock(
        &self,
        decide: impl FnOnce(&Registry) -> Result<Option<BranchOp>, StoreError>,
    ) -> Result<bool, StoreError> {
        self.check_writable()?;
        self.decide_on_branches(Durability::Buffered, decide)
    }

    fn decide_on_branches(
        &self,
        durability: Durability,
        decide: impl FnOnce(&Registry) -> Result<Option<BranchOp>, StoreError>,
    ) -> Result<bool, StoreError> {
        let mut writer = self.lock_writer();
        self.check_poison()?;
        let Some(op) = decide(&self.registry())? else { return Ok(false) };
        self.log_branch_op(&mut writer, &op)?;
        if let BranchOp::Reset { id } = op {
            let branch = self.registry().get(id)?;
            self.retain_if_each(&mut writer, &branch)?;
        }
        let version = writer.version();
        drop(writer);
        self.wait_durable(version, durability)?;
        Ok(true)
    }

    /// Applies what is done to a branch, and logs it.
    pub(crate) fn log_branch_op(&self, writer: &mut Writer, op: &BranchOp) -> Result<(), StoreError> {
        let next = writer.version() + 1;
        self.apply_branch_op(writer, op, next)?;
        let body = postcard::to_extend(op, vec![record::BRANCH]);
        let body =
            body.map_err(|error| StoreError::Damaged(format!("a record cannot be written: {error}")))?;
        self.append(writer, &body, 1)
    }

    /// `version` is that of the record which says so.
    pub(crate) fn apply_branch_op(
        &self,
        writer: &mut Writer,
        op: &BranchOp,
        version: u64,
    ) -> Result<(), StoreError> {
        let mut registry = self.registry_mut(writer);
        match op {
            BranchOp::Create { id, name, created_ms } => {
                let slot = Slot::Open(Tree::new(self.forest()));
                registry.add(BranchState::new(*id, name.clone(), slot, Meta::root(*created_ms)));
            }
            BranchOp::Fork { id, source, name, created_ms, expires_ms } => {
                let source = registry.get(*source)?;
                let (slot, floor) = (source.share(), source.floor());
                let meta = self.forked(&source, &slot, (*created_ms, *expires_ms));
                // What is seen of a cell in the fork is what was seen in the source.
                registry.add(BranchState::new(*id, name.clone(), slot, meta).with_floor(floor));
            }
            BranchOp::ForkAt { id, source, version, name, created_ms, expires_ms } => {
                let source = registry.get(*source)?;
                let (slot, floor, mark) = {
                    let meta = source.meta();
                    let missing = || not_retained(source.name(), &meta.points, *version);
                    let point = meta.points.at(*version).ok_or_else(missing)?;
                    (point.slot.share(), point.floor, point.mark)
                };
                let mut meta = self.forked(&source, &slot, (*created_ms, *expires_ms));
                // Its base is older than the fork.
                meta.base_mark = mark;
                registry.add(BranchState::new(*id, name.clone(), slot, meta).with_floor(floor));
            }
            BranchOp::Delete { id } => self.delete(&mut registry, writer, *id)?,
            BranchOp::Reset { id } => self.reset(&mut registry, writer, *id, version)?,
            BranchOp::Set { id, expires_ms, protected } => {
                let branch = registry.get(*id)?;
                let mut meta = branch.meta();
                meta.expires_ms = *expires_ms;
                meta.protected = *protected;
            }
            BranchOp::Keep { id, keep } => {
                let branch = registry.get(*id)?;
                branch.set_keep(*keep, writer);
                let meta = branch.meta();
                let over = if keep.is_none() { meta.points.untagged() } else { meta.points.surplus() };
                drop(meta);
                self.forget(&branch, &over);
            }
            BranchOp::Retain { id, time_ms, tag, is_new } => {
                let branch = registry.get(*id)?;
                let newest = branch.meta().points.newest().map(|newest| newest.version);
                let at = match newest.filter(|_| !is_new) {
                    Some(at) => at,
                    None => self.take_point(&branch, writer, (version - 1, *time_ms)),
                };
                if let Some(tag) = tag {
                    branch.meta().points.tag(tag.clone(), at);
                }
                let surplus = branch.meta().points.surplus();
                self.forget(&branch, &surplus);
            }
            BranchOp::Forget { id, versions } => self.forget(&*registry.get(*id)?, versions),
            BranchOp::Tag { id, version, tag } => {
                let branch = registry.get(*id)?;
                let mut meta = branch.meta();
                let missing = || not_retained(branch.name(), &meta.points, *version);
                meta.points.at(*version).ok_or_else(missing)?;
                meta.points.tag(tag.clone(), *version);
            }
            BranchOp::Untag { id, tag } => {
                let freed = registry.get(*id)?.meta().points.untag(tag);
                freed.into_iter().for_each(|slot| self.free_memory(slot));
            }
        }
        Ok(())
    }

    /// What is known of a branch that is forked now, from `slot`.
    fn forked(
        &self,
        source: &BranchState,
        slot: &Slot,
        (created_ms, expires_ms): (i64, Option<i64>),
    ) -> Meta {
        let mark = self.node_mark();
        Meta {
            expires_ms,
            parent: Some(source.id()),
            fork_mark: mark,
            origin_mark: mark,
            parent_mark: mark,
            base: Some(slot.share()),
            base_mark: mark,
            ..Meta::root(created_ms)
        }
    }

    fn delete(&self, registry: &mut Registry, writer: &mut Writer, id: u64) -> Result<(), StoreError> {
        let branch = registry.get(id)?;
        branch.mark_deleted();
        let (parent, parent_mark, low, base, base_mark) = {
            let meta = branch.meta();
            let base = meta.base.as_ref().map(Slot::share);
            (meta.parent, meta.parent_mark, meta.fork_mark, base, meta.base_mark)
        };
        registry.remove(&branch, parent);
        let high = registry.children_mark(id).max(low);
        registry.hand_over_children(id, &Heritage { parent, parent_mark, base, base_mark });
        let (points, dead) = branch.meta().points.take_all();
        points.into_iter().for_each(|slot| self.free_memory(slot));
        let slot = branch.replace(Tree::new(self.forest()), writer);
        self.retire(writer, Tombstone { slot, low, high, dead });
        Ok(())
    }

    fn reset(
        &self,
        registry: &mut Registry,
        writer: &mut Writer,
        id: u64,
        version: u64,
    ) -> Result<(), StoreError> {
        let branch = registry.get(id)?;
        let mut meta = branch.meta();
        let no_parent = || StoreError::NoParent { name: branch.name().to_owned() };
        let parent = registry.get(meta.parent.ok_or_else(no_parent)?)?;
        note_dropped(&branch, &mut meta.points, writer);
        let high = registry.children_mark(id).max(meta.fork_mark).max(meta.points.mark());
        // What its children have in common with the parent is what it was, not what it becomes.
        let base = meta.base.as_ref().map(Slot::share);
        let (parent_mark, base_mark) = (meta.parent_mark, meta.base_mark);
        registry.hand_over_children(id, &Heritage { parent: meta.parent, parent_mark, base, base_mark });
        let fresh = parent.share();
        let mark = self.node_mark();
        let slot = branch.reset_to(fresh.share(), version, writer);
        self.retire(writer, Tombstone { slot, low: meta.fork_mark, high, dead: Vec::new() });
        meta.fork_mark = mark;
        meta.origin_mark = mark;
        meta.parent_mark = mark;
        meta.base = Some(fresh);
        meta.base_mark = mark;
        meta.merge_base = None;
        Ok(())
    }
}
