//! The graph of a function: its nodes, checked, with what the interpreter wants to know about each.
//!
//! Graphs are untrusted: whoever may submit functions can also write the column that holds them. [`Graph::parse`]
//! therefore refuses what is not a tree in pre-order, and nothing after it has to check an index again.

mod kind;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

pub use kind::Waiting;
pub(crate) use kind::{HttpSettings, Kind, RetryPolicy, Seconds, Test};

/// The most nodes that one instance may have.
pub const MAX_NODES: usize = 10_000;
/// How many levels of nodes may stand below the root.
pub const MAX_DEPTH: u32 = 256;

/// Why a graph was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The text is not a JSON array of nodes.
    #[error(
        "the graph is not a JSON array of nodes: {0}. Start the function with df.start, which writes it"
    )]
    Json(#[from] serde_json::Error),
    /// There is no node at all.
    #[error("the graph has no nodes: a function needs at least one step")]
    Empty,
    /// More than [`MAX_NODES`].
    #[error("the graph has {nodes} nodes and may have {MAX_NODES}: split the function with df.call")]
    TooManyNodes {
        /// How many it has.
        nodes: usize,
    },
    /// Nodes lie more than [`MAX_DEPTH`] levels deep.
    #[error(
        "node {node} exceeds the maximum nesting depth of {MAX_DEPTH}: nest sequences evenly, or use df.call"
    )]
    TooDeep {
        /// The index of the first node that lies too deep.
        node: usize,
    },
    /// One node is not what its type demands.
    #[error("node {node} of the graph cannot be run: {problem}")]
    Node {
        /// Its index.
        node: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// A checked graph. Its root is node 0, and the nodes below a node follow it without a gap.
///
/// ```
/// use duramen_functions::graph::Graph;
/// let graph = Graph::parse(r#"[{"type":"THEN","left":1,"right":2},
///     {"type":"SQL","query":"SELECT 1"},{"type":"SLEEP","query":"0.5"}]"#)?;
/// assert_eq!(graph.len(), 3);
/// assert!(Graph::parse(r#"[{"type":"THEN","left":0,"right":0}]"#).is_err());
/// # Ok::<(), duramen_functions::graph::GraphError>(())
/// ```
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    /// The nodes as they came, for children to be started with; empty if no node starts one.
    raw: Vec<RawNode>,
}

/// One node of a graph.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The name under which later steps see the result.
    pub(crate) name: Option<String>,
    pub(crate) parent: Option<u32>,
    pub(crate) slot: Slot,
    /// The first index behind the nodes below this one.
    pub(crate) end: u32,
    /// The nearest node, this one or above it, with named results of its own: a branch of a JOIN or RACE, the body of
    /// a MAP, else the root.
    pub(crate) scope: u32,
    /// The LOOP that a BREAK here would leave.
    pub(crate) enclosing_loop: Option<u32>,
    /// How many bodies of MAPs this node stands in: so many item numbers has the key of its cells.
    pub(crate) items: u32,
    /// Whether a MAP is among the nodes below.
    pub(crate) maps_below: bool,
}

/// Which child of its parent a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Root,
    Condition,
    Left,
    Right,
    Extra,
}

/// A node as the column `graph` has it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RawNode {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) query: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) params: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) right: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) condition: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) extra: Vec<u32>,
}

impl RawNode {
    /// The children with their slots, in the order of the node's own keys.
    fn children(&self) -> impl Iterator<Item = (Slot, u32)> + '_ {
        let single = [(Slot::Condition, self.condition), (Slot::Left, self.left), (Slot::Right, self.right)];
        let single = single.into_iter().filter_map(|(slot, child)| child.map(|child| (slot, child)));
        single.chain(self.extra.iter().map(|&child| (Slot::Extra, child)))
    }
}

impl Graph {
    /// Reads and checks a flattened graph.
    ///
    /// # Errors
    /// When it is not an array of nodes, has no nodes or more than [`MAX_NODES`], is not a tree in pre-order, is nested
    /// deeper than [`MAX_DEPTH`], or a node lacks what its type demands.
    pub fn parse(json: &str) -> Result<Graph, GraphError> {
        let raw: Vec<RawNode> = serde_json::from_str(json)?;
        if raw.is_empty() {
            return Err(GraphError::Empty);
        }
        if raw.len() > MAX_NODES {
            return Err(GraphError::TooManyNodes { nodes: raw.len() });
        }
        let mut nodes = raw
            .iter()
            .enumerate()
            .map(|(index, raw)| Node::parse(raw).map_err(|problem| GraphError::Node { node: index, problem }))
            .collect::<Result<Vec<Node>, GraphError>>()?;
        link(&raw, &mut nodes)?;
        measure(&mut nodes)?;
        let starts_children =
            nodes.iter().any(|node| matches!(node.kind, Kind::Call { .. } | Kind::Step { .. }));
        Ok(Graph { nodes, raw: if starts_children { raw } else { Vec::new() } })
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes: only in the default graph, which no instance can run.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node with this index, which must come from the graph itself or from a checked state.
    pub(crate) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    /// The same, for indices from elsewhere.
    pub(crate) fn get(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize)
    }

    /// The part from `root` down as a graph of its own, in JSON: what an instance of it is started with.
    pub(crate) fn part(&self, root: u32) -> String {
        let range = root as usize..self.node(root).end as usize;
        let moved: Vec<RawNode> = self.raw[range]
            .iter()
            .map(|raw| RawNode {
                kind: raw.kind.clone(),
                query: raw.query.clone(),
                params: raw.params.clone(),
                name: raw.name.clone(),
                left: raw.left.map(|child| child - root),
                right: raw.right.map(|child| child - root),
                condition: raw.condition.map(|child| child - root),
                extra: raw.extra.iter().map(|child| child - root).collect(),
            })
            .collect();
        serde_json::to_string(&moved).expect("a node has text keys only")
    }
}

impl Node {
    fn parse(raw: &RawNode) -> Result<Node, String> {
        Ok(Node {
            kind: Kind::parse(raw)?,
            name: raw.name.clone(),
            parent: None,
            slot: Slot::Root,
            end: 0,
            scope: 0,
            enclosing_loop: None,
            items: 0,
            maps_below: false,
        })
    }
}

/// Tells each node its parent, and checks that the whole is a tree in pre-order: then a subtree is a range.
fn link(raw: &[RawNode], nodes: &mut [Node]) -> Result<(), GraphError> {
    let refused = |node: usize, problem: String| Err(GraphError::Node { node, problem });
    for (index, node) in raw.iter().enumerate() {
        for (slot, child) in node.children() {
            let Some(below) = nodes.get_mut(child as usize) else {
                return refused(index, format!("its child {child} does not exist"));
            };
            if child as usize <= index {
                return refused(index, format!("its child {child} does not come after it"));
            }
            if let Some(parent) = below.parent {
                return refused(index, format!("its child {child} belongs to node {parent} already"));
            }
            below.parent = Some(index as u32);
            below.slot = slot;
        }
    }
    if let Some(lost) = (1..nodes.len()).find(|&index| nodes[index].parent.is_none()) {
        return refused(lost, "it is the child of no node".to_owned());
    }
    // With every child behind its parent, the ends can be told from the back; the subtrees are ranges if the sizes
    // add up to the ends.
    let mut sizes = vec![1_u32; nodes.len()];
    for index in (0..nodes.len()).rev() {
        nodes[index].end = nodes[index].end.max(index as u32 + 1);
        if nodes[index].end != index as u32 + sizes[index] {
            return refused(index, "the nodes below it do not follow it without a gap".to_owned());
        }
        if let Some(parent) = nodes[index].parent {
            let end = nodes[index].end;
            sizes[parent as usize] += sizes[index];
            let above = &mut nodes[parent as usize];
            above.end = above.end.max(end);
        }
    }
    Ok(())
}

/// Fills in what a node knows from those above it.
fn measure(nodes: &mut [Node]) -> Result<(), GraphError> {
    let mut depths = vec![0_u32; nodes.len()];
    for index in 1..nodes.len() {
        let parent = nodes[index].parent.unwrap_or(0) as usize;
        depths[index] = depths[parent] + 1;
        if depths[index] > MAX_DEPTH {
            return Err(GraphError::TooDeep { node: index });
        }
        let above = &nodes[parent];
        let body_of_map = matches!(above.kind, Kind::Map { .. }) && nodes[index].slot == Slot::Left;
        let branch = matches!(above.kind, Kind::Join { .. } | Kind::Race { .. }) || body_of_map;
        let scope = if branch { index as u32 } else { above.scope };
        let enclosing_loop = match above.kind {
            Kind::Loop { .. } => Some(parent as u32),
            // What is below a CALL runs as an instance of its own, as does what undoes a STEP.
            Kind::Call { .. } => None,
            Kind::Step { .. } if nodes[index].slot == Slot::Right => None,
            _ => above.enclosing_loop,
        };
        let items = above.items + u32::from(body_of_map);
        let node = &mut nodes[index];
        (node.scope, node.enclosing_loop, node.items) = (scope, enclosing_loop, items);
    }
    for index in (1..nodes.len()).rev() {
        let parent = nodes[index].parent.unwrap_or(0) as usize;
        nodes[parent].maps_below |= nodes[index].maps_below || matches!(nodes[parent].kind, Kind::Map { .. });
    }
    Ok(())
}
