//! What happens to branches themselves: create, fork, delete, reset, protect, expire.
//!
//! Each is one record of the log, whatever the branch holds. The same functions apply a record when it is made and
//! when it is read again after a crash.

use std::sync::Arc;

use duramen_tree::{NodeId, Tree};
use serde::{Deserialize, Serialize};

use crate::branch::{BranchState, Meta, Slot};
use crate::checkpoint::Grave;
use crate::durability::Durability;
use crate::engine::{record, Engine, Registry, Writer};
use crate::error::StoreError;
use crate::names::{check_branch, DEFAULT_BRANCH};

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
}

impl Engine {
    /// Logs and applies what `decide` wants done to branches.
    pub(crate) fn change_branches<R>(
        &self,
        durability: Durability,
        decide: impl FnOnce(&Registry) -> Result<(BranchOp, R), StoreError>,
    ) -> Result<R, StoreError> {
        self.check_writable()?;
        self.throttle()?;
        let mut writer = self.writer.lock();
        self.check_poison()?;
        let (op, result) = decide(&self.registry.read())?;
        let next = writer.version + 1;
        self.apply_branch_op(&mut writer, &op, next)?;
        let body = postcard::to_extend(&op, vec![record::BRANCH]);
        let body =
            body.map_err(|error| StoreError::Damaged(format!("a record cannot be written: {error}")))?;
        let mut version = writer.version;
        self.append(&mut version, &body, 1)?;
        writer.version = version;
        drop(writer);
        self.settle(version, durability)?;
        Ok(result)
    }

    /// `version` is that of the record which tells of it.
    pub(crate) fn apply_branch_op(
        &self,
        writer: &mut Writer,
        op: &BranchOp,
        version: u64,
    ) -> Result<(), StoreError> {
        let mut registry = self.registry.write();
        match op {
            BranchOp::Create { id, name, created_ms } => {
                let slot = Slot::Open(Tree::new(&self.forest));
                registry.add(BranchState::new(*id, name.clone(), slot, Meta::root(*created_ms)));
            }
            BranchOp::Fork { id, source, name, created_ms, expires_ms } => {
                let source = registry.get(*source)?;
                let slot = source.share();
                let mark = self.node_mark();
                let meta = Meta {
                    created_ms: *created_ms,
                    expires_ms: *expires_ms,
                    protected: false,
                    parent: Some(source.id),
                    fork_mark: mark,
                    origin_mark: mark,
                    parent_mark: mark,
                    base: Some(slot.share()),
                    base_mark: mark,
                    merge_base: None,
                };
                // What is seen of a cell in the fork is what was seen in the source.
                let fork = BranchState::new(*id, name.clone(), slot, meta).with_floor(source.floor());
                registry.add(fork);
            }
            BranchOp::Delete { id } => self.bury(&mut registry, writer, *id)?,
            BranchOp::Reset { id } => self.reset(&mut registry, writer, *id, version)?,
            BranchOp::Set { id, expires_ms, protected } => {
                let branch = registry.get(*id)?;
                let mut meta = branch.meta.lock();
                meta.expires_ms = *expires_ms;
                meta.protected = *protected;
            }
        }
        Ok(())
    }

    fn bury(&self, registry: &mut Registry, writer: &mut Writer, id: u64) -> Result<(), StoreError> {
        let branch = registry.get(id)?;
        branch.bury();
        registry.by_id.remove(&id);
        registry.by_name.remove(&branch.name);
        let (parent, parent_mark, low, base, base_mark) = {
            let meta = branch.meta.lock();
            let base = meta.base.as_ref().map(Slot::share);
            (meta.parent, meta.parent_mark, meta.fork_mark, base, meta.base_mark)
        };
        if let Some(siblings) = parent.and_then(|parent| registry.children.get_mut(&parent)) {
            siblings.remove(&id);
        }
        let high = registry.children_mark(id).max(low);
        registry.hand_over_children(id, &Heritage { parent, parent_mark, base, base_mark });
        let dead = std::mem::replace(&mut *branch.slot_mut(), Slot::Open(Tree::new(&self.forest)));
        self.lay_to_rest(writer, Grave { slot: dead, low, high });
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
        let mut meta = branch.meta.lock();
        let no_parent = || StoreError::NoParent { name: branch.name.clone() };
        let parent = registry.get(meta.parent.ok_or_else(no_parent)?)?;
        let high = registry.children_mark(id).max(meta.fork_mark);
        // What its children have in common with the parent is what it was, not what it becomes.
        let base = meta.base.as_ref().map(Slot::share);
        let (parent_mark, base_mark) = (meta.parent_mark, meta.base_mark);
        registry.hand_over_children(id, &Heritage { parent: meta.parent, parent_mark, base, base_mark });
        let fresh = parent.share();
        let mark = self.node_mark();
        let dead = branch.replace(fresh.share(), version);
        self.lay_to_rest(writer, Grave { slot: dead, low: meta.fork_mark, high });
        meta.fork_mark = mark;
        meta.origin_mark = mark;
        meta.parent_mark = mark;
        meta.base = Some(fresh);
        meta.base_mark = mark;
        meta.merge_base = None;
        Ok(())
    }
}

/// What the children of a branch have when it goes: its parent, and what it had of that.
struct Heritage {
    parent: Option<u64>,
    parent_mark: NodeId,
    base: Option<Slot>,
    base_mark: NodeId,
}

impl Registry {
    /// Makes the children of a branch those of its parent.
    fn hand_over_children(&mut self, id: u64, heritage: &Heritage) {
        let children = self.children.remove(&id).unwrap_or_default();
        for child in children.iter().filter_map(|child| self.by_id.get(child)) {
            let mut meta = child.meta.lock();
            meta.parent = heritage.parent;
            meta.parent_mark = heritage.parent_mark;
            meta.base = heritage.base.as_ref().map(Slot::share);
            meta.base_mark = heritage.base_mark;
            meta.merge_base = None;
        }
        if let Some(parent) = heritage.parent {
            self.children.entry(parent).or_default().extend(children);
        }
    }

    pub(crate) fn add(&mut self, branch: BranchState) {
        let branch = Arc::new(branch);
        self.next_id = self.next_id.max(branch.id + 1);
        if let Some(parent) = branch.meta.lock().parent {
            self.children.entry(parent).or_default().insert(branch.id);
        }
        self.by_name.insert(branch.name.clone(), branch.clone());
        self.by_id.insert(branch.id, branch);
    }

    pub(crate) fn get(&self, id: u64) -> Result<Arc<BranchState>, StoreError> {
        let missing = || StoreError::BranchNotFound { name: format!("number {id}"), hint: None };
        self.by_id.get(&id).cloned().ok_or_else(missing)
    }

    /// Nodes of a branch below this are perhaps held by one of its children.
    pub(crate) fn children_mark(&self, id: u64) -> u64 {
        let children = self.children.get(&id).into_iter().flatten();
        let marks =
            children.filter_map(|child| self.by_id.get(child)).map(|child| child.meta.lock().parent_mark);
        marks.max().unwrap_or(0)
    }

    pub(crate) fn check_free(&self, name: &str) -> Result<(), StoreError> {
        check_branch(name)?;
        if self.by_name.contains_key(name) {
            return Err(StoreError::BranchExists { name: name.to_owned() });
        }
        Ok(())
    }

    pub(crate) fn named(&self, name: &str) -> Result<Arc<BranchState>, StoreError> {
        self.by_name.get(name).cloned().ok_or_else(|| {
            let hint = crate::names::did_you_mean(name, self.by_name.keys().map(String::as_str));
            StoreError::BranchNotFound { name: name.to_owned(), hint }
        })
    }
}

/// Whether a branch may go or become another.
pub(crate) fn check_unprotected(branch: &BranchState) -> Result<(), StoreError> {
    let name = branch.name.clone();
    if branch.name == DEFAULT_BRANCH {
        let reason = "it is the branch that every store has";
        return Err(StoreError::BranchProtected { name, reason });
    }
    if branch.meta.lock().protected {
        let reason = "lift the protection first";
        return Err(StoreError::BranchProtected { name, reason });
    }
    Ok(())
}
