//! The branches of a store, by name and by number, and who was forked from whom.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use duramen_base::suggest::closest;
use duramen_tree::NodeId;

use crate::branch_state::BranchState;
use crate::error::StoreError;
use crate::names::check_branch;
use crate::slot::Slot;

#[derive(Default)]
pub(crate) struct Registry {
    by_name: HashMap<String, Arc<BranchState>>,
    by_id: HashMap<u64, Arc<BranchState>>,
    /// The children of each branch that has any.
    children: HashMap<u64, BTreeSet<u64>>,
    next_id: u64,
}

/// What the children of a branch have when it goes: its parent, and what it had of that.
pub(crate) struct Heritage {
    pub(crate) parent: Option<u64>,
    pub(crate) parent_mark: NodeId,
    pub(crate) base: Option<Slot>,
    pub(crate) base_mark: NodeId,
}

impl Registry {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The number that the next branch will have.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Leaves out the numbers below `next_id`, which were given before.
    pub(crate) fn reserve_ids(&mut self, next_id: u64) {
        self.next_id = self.next_id.max(next_id);
    }

    /// All branches, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<BranchState>> {
        self.by_id.values()
    }

    pub(crate) fn add(&mut self, branch: BranchState) {
        let branch = Arc::new(branch);
        self.next_id = self.next_id.max(branch.id() + 1);
        if let Some(parent) = branch.meta().parent {
            self.children.entry(parent).or_default().insert(branch.id());
        }
        self.by_name.insert(branch.name().to_owned(), branch.clone());
        self.by_id.insert(branch.id(), branch);
    }

    /// Takes a branch out, which `parent` is no longer the parent of.
    pub(crate) fn remove(&mut self, branch: &BranchState, parent: Option<u64>) {
        self.by_id.remove(&branch.id());
        self.by_name.remove(branch.name());
        if let Some(siblings) = parent.and_then(|parent| self.children.get_mut(&parent)) {
            siblings.remove(&branch.id());
        }
    }

    /// A branch by its number, if it is there.
    pub(crate) fn find(&self, id: u64) -> Option<&Arc<BranchState>> {
        self.by_id.get(&id)
    }

    /// A branch by its number.
    pub(crate) fn get(&self, id: u64) -> Result<Arc<BranchState>, StoreError> {
        let missing = || StoreError::BranchNotFound { name: format!("number {id}"), hint: None };
        self.find(id).cloned().ok_or_else(missing)
    }

    /// A branch by its name.
    pub(crate) fn named(&self, name: &str) -> Result<Arc<BranchState>, StoreError> {
        self.by_name.get(name).cloned().ok_or_else(|| {
            let hint = closest(name, self.by_name.keys().map(String::as_str)).map(str::to_owned);
            StoreError::BranchNotFound { name: name.to_owned(), hint }
        })
    }

    /// Whether there is a branch of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether a branch of that name may be made.
    pub(crate) fn check_free(&self, name: &str) -> Result<(), StoreError> {
        check_branch(name)?;
        if self.has(name) {
            return Err(StoreError::BranchExists { name: name.to_owned() });
        }
        Ok(())
    }

    /// Nodes of a branch below this are perhaps held by one of its children.
    pub(crate) fn children_mark(&self, id: u64) -> NodeId {
        let children = self.children.get(&id).into_iter().flatten();
        let marks = children.filter_map(|child| self.find(*child)).map(|child| child.meta().parent_mark);
        marks.max().unwrap_or(0)
    }

    /// Makes the children of a branch those of its parent.
    pub(crate) fn hand_over_children(&mut self, id: u64, heritage: &Heritage) {
        let children = self.children.remove(&id).unwrap_or_default();
        for child in children.iter().filter_map(|child| self.by_id.get(child)) {
            let mut meta = child.meta();
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

    /// A branch and its ancestors that are still there.
    pub(crate) fn ancestry(&self, id: u64) -> Vec<u64> {
        let mut up = vec![id];
        let mut at = id;
        while let Some(parent) = self.find(at).and_then(|branch| branch.meta().parent) {
            up.push(parent);
            at = parent;
        }
        up
    }
}
