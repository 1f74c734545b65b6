//! Taking up again what has ended: an instance that failed or was cancelled goes on from the steps that did not complete,
//! or another instance begins behind the steps that did.
//!
//! The graph is walked anew from its root. An activation that had completed completes at once with the result that it had,
//! and nothing of it is asked for again; so names, branches and loops come about as they did. All of that happens in the
//! first turn, because nothing in it waits.

use std::collections::BTreeMap;

use super::turn::Turn;
use super::types::{Failure, Outcome};
use crate::graph::{Graph, Kind, Slot};
use crate::interpret::state::{Control, Frame, Key, Scope, State, Status};
use crate::json::Json;

/// The end of an instance, to be taken up in the first turn.
#[derive(Debug)]
pub(crate) struct Revival {
    /// The document of the state in which it ended.
    pub(crate) state: Json,
    /// The node from which on everything is done again; `None`: what completed stays so.
    pub(crate) from: Option<u32>,
}

/// What an earlier life has completed. Whatever is taken out is not done again.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    frames: BTreeMap<Key, Frame>,
    scopes: BTreeMap<Key, Scope>,
    /// The results of a MAP that did not complete, by item.
    maps: BTreeMap<Key, BTreeMap<u32, Json>>,
    /// In which iteration a LOOP was that did not complete.
    loops: BTreeMap<Key, u32>,
}

impl Memo {
    fn new(revival: &Revival, graph: &Graph) -> Result<Memo, String> {
        let old = State::from_json(revival.state.text()).map_err(|error| error.to_string())?;
        if old.undone > 0 {
            return Err("its steps were undone. Start a new one".to_owned());
        }
        let known =
            |key: &Key| graph.get(key.node).is_some_and(|node| node.items as usize == key.items.len());
        if !old.frames.keys().chain(old.scopes.keys()).all(known) {
            return Err("its steps are not those of its graph. Was one of them changed by hand?".to_owned());
        }
        let again = revival.from.map(|from| done_again(graph, from)).unwrap_or_default();
        let is_done_again = |key: &Key| again.get(key.node as usize).copied().unwrap_or(false);
        let mut memo = Memo { scopes: old.scopes, ..Memo::default() };
        for (key, frame) in old.frames {
            if is_done_again(&key) {
                continue;
            }
            match (frame.status, frame.control) {
                (status @ Status::Completed(_), _) => {
                    let frame = Frame { status, control: Control::Plain, due: None, reported: true, ..frame };
                    memo.frames.insert(key, frame);
                }
                (_, Control::Map(progress)) => {
                    memo.maps.insert(key, progress.done);
                }
                (_, Control::Loop { iteration, .. }) => {
                    memo.loops.insert(key, iteration);
                }
                _ => {}
            }
        }
        // Items of a MAP that has not ended have left their cells, but not whether there were others before.
        let is_forgotten = |key: &Key| {
            let mut map = None;
            let mut above = key.parent(graph);
            while let Some(node) = above {
                if memo.frames.contains_key(&node) {
                    return false;
                }
                if matches!(graph.node(node.node).kind, Kind::Map { .. }) {
                    map = Some(node.clone());
                }
                above = node.parent(graph);
            }
            map.is_some_and(|map| !memo.maps.contains_key(&map) && !is_done_again(&map))
        };
        let forgotten = memo.frames.keys().any(|key| !key.items.is_empty() && is_forgotten(key));
        if forgotten {
            return Err(
                "it ended under an earlier version, which did not keep which items of its df.map were done. Start a new one"
                    .to_owned(),
            );
        }
        Ok(memo)
    }

    /// Forgets what is known of an activation and of all below it, because it begins anew.
    pub(super) fn forget(&mut self, key: &Key, graph: &Graph) {
        let node = graph.node(key.node);
        for covered in key.covered(node, &self.frames) {
            self.frames.remove(&covered);
        }
        self.maps.retain(|map, _| !key.covers(node, map));
        self.loops.retain(|key_of_loop, _| !key.covers(node, key_of_loop));
    }

    /// In which iteration a LOOP goes on.
    pub(super) fn iteration(&self, key: &Key) -> Option<u32> {
        self.loops.get(key).copied()
    }

    /// What a MAP has completed of its items.
    pub(super) fn items(&mut self, key: &Key) -> BTreeMap<u32, Json> {
        self.maps.remove(key).unwrap_or_default()
    }
}

impl Turn<'_, '_> {
    /// Makes what an earlier life has completed known to this turn.
    pub(super) fn recall(&mut self) {
        let Some(revival) = self.state.revival.take() else { return };
        match Memo::new(&revival, self.graph) {
            Ok(memo) => self.state.memory.memo = Some(memo),
            Err(reason) => {
                let text = format!("this instance cannot go on where it ended: {reason}");
                self.end(Outcome::Failed(Failure::new(text)));
            }
        }
    }

    /// Completes an activation that an earlier life has completed; `false`: it has not.
    pub(super) fn completed_before(&mut self, key: &Key) -> bool {
        let graph = self.graph;
        let node = graph.node(key.node);
        let Some(memo) = &mut self.state.memory.memo else { return false };
        let Some(Frame { status: Status::Completed(result), at, .. }) = memo.frames.get(key) else {
            return false;
        };
        let (result, at) = (result.clone(), *at);
        let scope = key.scope(graph);
        let mut covered: Vec<(Key, Frame)> = Vec::new();
        for key in key.covered(node, &memo.frames) {
            covered.extend(memo.frames.remove_entry(&key));
        }
        // Below the activation, names are set as they were: what its last iterations have named is in the cells, what
        // earlier ones have named only where all names stand.
        let before = memo.scopes.get(&scope);
        let mut named: Vec<(String, Json)> = Vec::new();
        for below in key.node + 1..node.end {
            let name = graph.node(below).name.as_ref();
            named.extend(name.and_then(|name| Some((name.clone(), before?.own.get(name)?.clone()))));
        }
        covered.sort_by_key(|(_, frame)| frame.at);
        for (below, frame) in covered.iter().filter(|(below, _)| below != key && below.items == key.items) {
            let (Some(name), Status::Completed(result)) = (&graph.node(below.node).name, &frame.status)
            else {
                continue;
            };
            if before.is_none_or(|scope| scope.own.contains_key(name)) {
                named.push((name.clone(), result.clone()));
            }
        }
        let path = self.path(key);
        for (name, result) in named {
            self.name_result(&scope, name, result);
        }
        self.admit(result.text().len());
        self.state.frames.extend(covered);
        if let Some(frame) = self.state.frames.get_mut(key) {
            *frame = Frame {
                at,
                path,
                status: Status::Running,
                reported: false,
                due: None,
                control: Control::Plain,
            };
        }
        self.complete_cell(key, result);
        if let Some(frame) = self.state.frames.get_mut(key) {
            frame.at = at;
        }
        true
    }
}

/// For each node, whether it is done again: the one from which on that is so, what lies above it, and what follows it. What
/// runs beside it, in another branch of a JOIN, does not follow.
fn done_again(graph: &Graph, from: u32) -> Vec<bool> {
    let mut again = vec![false; graph.len()];
    let mut mark = |from: u32, to: u32| {
        if let Some(nodes) = again.get_mut(from as usize..to as usize) {
            nodes.fill(true);
        }
    };
    let Some(first) = graph.get(from) else { return again };
    mark(from, first.end);
    let mut child = from;
    while let Some(parent) = graph.node(child).parent {
        mark(parent, parent + 1);
        let slot = graph.node(child).slot;
        let others: Vec<u32> = match &graph.node(parent).kind {
            Kind::Then { right, .. } if slot == Slot::Left => vec![*right],
            Kind::If { then, otherwise, .. } if slot == Slot::Condition => vec![*then, *otherwise],
            Kind::Loop { condition, .. } if slot == Slot::Left => condition.iter().copied().collect(),
            // Which of two was first is found out again.
            Kind::Race { left, right } => vec![*left, *right],
            Kind::Catch { handler, .. } if slot == Slot::Left => vec![*handler],
            Kind::Map { body, .. } => vec![*body],
            _ => Vec::new(),
        };
        for other in others {
            mark(other, graph.node(other).end);
        }
        child = parent;
    }
    again
}
