//! Reading all that a store has, to see whether it is whole.

use std::collections::HashMap;

use duramen_tree::{Checksum, NodeCopy, NodeId, NodeStoreError, TreeError};
use serde::Serialize;

use crate::blob;
use crate::branch_state::BranchState;
use crate::conflict;
use crate::error::StoreError;
use crate::expiry::{self, Now};
use crate::index;
use crate::overlay::Reader;
use crate::slot::Slot;
use crate::store::Store;

/// How many nodes are read between two reports of progress.
const REPORT_EVERY: u64 = 256;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Nodes that were read and are as they were written. Those that branches share are read once.
    pub nodes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The branches, in the order of their names.
    pub branches: Vec<VerifiedBranch>,
}

/// What a verification found of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifiedBranch {
    /// Its name.
    pub name: String,
    /// The first thing that is wrong with what it holds; none if it is whole.
    pub damage: Option<String>,
    /// The first thing that is wrong with what merges compare it with: what it had when it was forked, or merged.
    pub base_damage: Option<String>,
    /// The first thing that is wrong with one of its retained states.
    pub history_damage: Option<String>,
}

impl Verified {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.branches.iter().all(|branch| {
            let damages = [&branch.damage, &branch.base_damage, &branch.history_damage];
            damages.into_iter().all(Option::is_none)
        })
    }
}

impl Store {
    /// Reads every node of every branch, of what their merges compare with, and of their retained states, and checks it against the checksum that the
    /// node above has of it: so bytes that were changed, lost, or taken from another place are found. What is in memory was
    /// checked when it was read, and what the log holds when the store was opened. The entries of indexes and of pairs that end, and the chunks of blobs, of each branch are held against its rows, and the records of its conflicts read. Others go on reading and writing. `progress` is told how many bytes were
    /// read.
    ///
    /// # Errors
    /// When the operating system refuses. What is damaged is no error of this, and told for each branch.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified, StoreError> {
        let engine = self.engine();
        // What is reached now is not deleted meanwhile.
        let _pin = engine.pin();
        let mut branches: Vec<_> = engine.registry().iter().cloned().collect();
        branches.sort_by(|a, b| a.name().cmp(b.name()));
        let mut seen = Seen { nodes: HashMap::new(), bytes: 0, progress };
        let mut found = Vec::with_capacity(branches.len());
        for branch in branches {
            let (bases, history) = (bases_of(&branch), branch.meta().points.slots());
            let present = branch.share();
            let damage = seen.look_through(self, present.share())?;
            let damage = damage.map_or_else(|| check_entries(self, present), |damage| Ok(Some(damage)))?;
            let mut base_damage = None;
            for base in bases {
                base_damage = base_damage.or(seen.look_through(self, base)?);
            }
            let mut history_damage = None;
            for point in history {
                history_damage = history_damage.or(seen.look_through(self, point)?);
            }
            let name = branch.name().to_owned();
            found.push(VerifiedBranch { name, damage, base_damage, history_damage });
        }
        Ok(Verified { nodes: seen.nodes.len() as u64, bytes: seen.bytes, branches: found })
    }
}

/// What is wrong with the entries of indexes and of pairs that end, the chunks of blobs, and the records of conflicts, of a tree that is
/// whole.
fn check_entries(store: &Store, mut slot: Slot) -> Result<Option<String>, StoreError> {
    let forest = store.engine().forest();
    let tree = slot.tree(forest)?;
    let view = Reader { forest, tree, floor: 0, now: &Now::default() };
    for check in [index::check, expiry::check, blob::check, conflict::check] {
        if let Some(damage) = check(&view)? {
            return Ok(Some(damage));
        }
    }
    Ok(None)
}

fn bases_of(branch: &BranchState) -> Vec<Slot> {
    let meta = branch.meta();
    [&meta.base, &meta.merge_base].into_iter().flatten().map(Slot::share).collect()
}

/// The nodes that are whole, with all below them.
struct Seen<'p> {
    nodes: HashMap<NodeId, Checksum>,
    bytes: u64,
    progress: &'p mut dyn FnMut(u64),
}

impl Seen<'_> {
    /// What is wrong with a tree, if something is.
    fn look_through(&mut self, store: &Store, mut slot: Slot) -> Result<Option<String>, StoreError> {
        let forest = store.engine().forest();
        let looked = match slot.tree(forest) {
            Ok(tree) => tree.copy_nodes(forest, self).map(drop).map_err(StoreError::from),
            Err(error) => Err(error),
        };
        match looked {
            Ok(()) => Ok(None),
            Err(StoreError::Tree(
                error @ (TreeError::Damaged { .. } | TreeError::Store(NodeStoreError::Damaged(_))),
            )) => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

impl NodeCopy for Seen<'_> {
    type Error = TreeError;

    fn known(&mut self, (id, sum): (NodeId, Checksum)) -> Result<Option<(NodeId, Checksum)>, TreeError> {
        Ok(self.nodes.get(&id).filter(|known| **known == sum).map(|sum| (id, *sum)))
    }

    fn keep(&mut self, (id, sum): (NodeId, Checksum), _level: u8, bytes: &[u8]) -> Result<NodeId, TreeError> {
        self.nodes.insert(id, sum);
        self.bytes += bytes.len() as u64;
        if (self.nodes.len() as u64).is_multiple_of(REPORT_EVERY) {
            (self.progress)(self.bytes);
        }
        Ok(id)
    }
}
