//! When the steps of an instance began and ended, by what its state keeps of them, and how its nodes hang together. No database.
//!
//! Of each activation of a node the state has its last change: of one that runs its beginning, of one that has ended its end. When that one
//! began is told by what came before it: the left side of a sequence by its right side, the node above by those below it. Where that is not
//! kept either (a later round of a loop, a later attempt of a retry), nothing is said.

use jiff::Timestamp;
use std::collections::HashMap;

/// Which child of its parent a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// What is asked or gone through first.
    Condition,
    /// The first one, or the body.
    Left,
    /// The second one, or the handler.
    Right,
    /// One more branch.
    Extra,
}

impl Slot {
    /// Its word.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(duramen_functions::inspect::Slot::Extra.word(), "extra");
    /// ```
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Slot::Condition => "condition",
            Slot::Left => "left",
            Slot::Right => "right",
            Slot::Extra => "extra",
        }
    }
}

/// That one node stands below another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The index of the node above.
    pub from: usize,
    /// The index of the node below.
    pub to: usize,
    /// Which child it is.
    pub slot: Slot,
}

/// One activation of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The activation: the node's index, and within bodies of maps the numbers of the items: `7@3`.
    pub cell: String,
    /// The index of the node.
    pub node: usize,
    /// The numbers of the items, if it stands in the body of a map.
    pub items: Option<String>,
    /// The rounds of the loops around it, the outermost first, behind the instance's own: `1.3`.
    pub round: Option<String>,
    /// `running`, `completed` or `failed`.
    pub status: String,
    /// When it began, if that can be told.
    pub begun_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When its timer fires.
    pub due_at: Option<Timestamp>,
    /// Of a retry that goes on: which attempt it is at.
    pub attempt: Option<u32>,
    /// Of a loop that goes on: in which round it is.
    pub iteration: Option<u32>,
    /// The instance that it has started and waits for.
    pub child: Option<String>,
    /// The error code of its failure.
    pub sqlstate: Option<String>,
    /// The activation whose failure it has passed on.
    pub origin: Option<String>,
    /// Of a map that goes on: how many items have begun, and how many of them run.
    pub items_begun: Option<(u32, u32)>,
}

/// A cell as the state has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) key: String,
    pub(super) status: String,
    pub(super) at: Option<Timestamp>,
    pub(super) path: Option<String>,
    pub(super) due: Option<Timestamp>,
    pub(super) attempt: Option<u32>,
    pub(super) iteration: Option<u32>,
    pub(super) began: Option<Timestamp>,
    pub(super) child: Option<String>,
    pub(super) sqlstate: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) items_begun: Option<(u32, u32)>,
}

/// The children of a node, as the graph has them: indexes that may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Below {
    pub(super) condition: Option<String>,
    pub(super) left: Option<String>,
    pub(super) right: Option<String>,
    pub(super) extra: Vec<u32>,
}

/// The edges of a graph. What is no tree in pre-order is left out: a child comes behind its parent, and has one.
pub(super) fn edges(below: &[Below]) -> Vec<Edge> {
    let mut has_parent = vec![false; below.len()];
    let mut edges = Vec::new();
    for (from, node) in below.iter().enumerate() {
        let index = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<usize>().ok());
        let named = [
            (Slot::Condition, index(&node.condition)),
            (Slot::Left, index(&node.left)),
            (Slot::Right, index(&node.right)),
        ];
        let named = named.into_iter().filter_map(|(slot, to)| Some((slot, to?)));
        let all = named.chain(node.extra.iter().map(|to| (Slot::Extra, *to as usize)));
        for (slot, to) in all {
            if to > from && to < below.len() && !has_parent[to] {
                has_parent[to] = true;
                edges.push(Edge { from, to, slot });
            }
        }
    }
    edges
}

/// The node and the items of an activation's key.
fn parts(key: &str) -> Option<(usize, Option<&str>)> {
    let key = key.split('#').next().unwrap_or(key);
    match key.split_once('@') {
        None => Some((key.parse().ok()?, None)),
        Some((node, items)) => Some((node.parse().ok()?, Some(items))),
    }
}

/// The key of another activation that has the same items.
fn beside(node: usize, items: Option<&str>) -> String {
    items.map_or_else(|| node.to_string(), |items| format!("{node}@{items}"))
}

/// The steps in the order in which they began, as far as that is known.
pub(super) fn steps(
    types: &[String],
    edges: &[Edge],
    mut cells: Vec<Cell>,
    begun_at: Option<Timestamp>,
) -> Vec<Step> {
    let parents: HashMap<usize, &Edge> = edges.iter().map(|edge| (edge.to, edge)).collect();
    // The condition and the left side of each node.
    let mut firsts: Vec<(Option<usize>, Option<usize>)> = vec![(None, None); types.len()];
    for edge in edges.iter().filter(|edge| edge.from < types.len()) {
        match edge.slot {
            Slot::Condition => firsts[edge.from].0 = Some(edge.to),
            Slot::Left => firsts[edge.from].1 = Some(edge.to),
            Slot::Right | Slot::Extra => {}
        }
    }
    cells.retain(|cell| parts(&cell.key).is_some_and(|(node, _)| node < types.len()));
    // Those above come before those below: an index is larger than that of its parent.
    cells.sort_by_key(|cell| parts(&cell.key).map_or(0, |(node, _)| node));
    let mut found: HashMap<String, Step> = HashMap::with_capacity(cells.len());
    let by_key: HashMap<&str, &Cell> = cells.iter().map(|cell| (cell.key.as_str(), cell)).collect();
    // When an activation ended, if it is one of the same round.
    let end = |key: &str, of: &Cell| {
        let other = by_key.get(key)?;
        (other.status != "running" && other.path == of.path).then_some(other.at).flatten()
    };
    for cell in &cells {
        let Some((node, items)) = parts(&cell.key) else { continue };
        let runs = cell.status == "running";
        let begun = if runs {
            cell.at
        } else if node == 0 {
            begun_at.filter(|_| types[0] != "LOOP" || cell.path.as_deref() == Some("1"))
        } else {
            parents.get(&node).and_then(|edge| {
                let above = &types[edge.from];
                let (condition, left) = firsts[edge.from];
                let in_map = above == "MAP" && edge.slot == Slot::Left;
                let outer = match in_map {
                    true => items.and_then(|items| items.rsplit_once('.')).map(|(outer, _)| outer),
                    false => items,
                };
                let parent = by_key.get(beside(edge.from, outer).as_str())?;
                let parent_began = || {
                    let above = found.get(&beside(edge.from, outer))?;
                    above.begun_at.filter(|_| above.round == cell.path)
                };
                let behind = |node: Option<usize>| end(&beside(node?, items), cell);
                match (above.as_str(), edge.slot) {
                    ("THEN" | "CATCH", Slot::Right) | ("LOOP", Slot::Condition) => behind(left),
                    ("IF", Slot::Left | Slot::Right) if condition.is_some() => behind(condition),
                    ("LOOP", Slot::Left) if parent.status == "running" => parent.began,
                    ("RETRY", Slot::Left) if parent.attempt == Some(1) => parent_began(),
                    ("LOOP" | "RETRY", _) | ("STEP", Slot::Right) | ("CALL", _) => None,
                    ("MAP", Slot::Left) => None,
                    _ => parent_began(),
                }
            })
        };
        let ended_at = cell.at.filter(|_| !runs);
        let step = Step {
            cell: cell.key.clone(),
            node,
            items: items.map(str::to_owned),
            round: cell.path.clone(),
            status: cell.status.clone(),
            // Somebody may have set the clock back.
            begun_at: begun.filter(|begun| ended_at.is_none_or(|ended| *begun <= ended)),
            ended_at,
            due_at: cell.due,
            attempt: cell.attempt,
            iteration: cell.iteration,
            child: cell.child.clone(),
            sqlstate: cell.sqlstate.clone(),
            origin: cell.origin.clone(),
            items_begun: cell.items_begun,
        };
        found.insert(cell.key.clone(), step);
    }
    let mut steps: Vec<Step> = cells.iter().filter_map(|cell| found.remove(&cell.key)).collect();
    steps.sort_by_key(|step| (step.begun_at.or(step.ended_at), step.node));
    steps
}

#[cfg(test)]
#[path = "../../tests/unit/shown_steps.rs"]
mod tests;
