//! Which activation of which node: the key of a cell.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use crate::graph::{Graph, Node};

/// A node, and for every body of a MAP around it the number of the item, outermost first.
///
/// The items come first in the order, so that the nodes of one activation lie side by side.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) items: Vec<u32>,
    pub(crate) node: u32,
}

impl Key {
    /// The root's key. It also stands for the root's scope.
    pub(crate) const ROOT: Key = Key { items: Vec::new(), node: 0 };

    /// Reads `7` or `7@3.1`.
    pub(crate) fn parse(text: &str) -> Option<Key> {
        let (node, items) = match text.split_once('@') {
            Some((node, items)) => (node, items.split('.').map(number).collect::<Option<Vec<u32>>>()?),
            None => (text, Vec::new()),
        };
        Some(Key { items, node: number(node)? })
    }

    /// The key of a node above this one, or of a scope's.
    pub(crate) fn above(&self, graph: &Graph, node: u32) -> Key {
        let items = graph.node(node).items as usize;
        Key { items: self.items[..items.min(self.items.len())].to_vec(), node }
    }

    pub(crate) fn parent(&self, graph: &Graph) -> Option<Key> {
        graph.node(self.node).parent.map(|parent| self.above(graph, parent))
    }

    /// The key of a child in the same activation.
    pub(crate) fn child(&self, node: u32) -> Key {
        Key { items: self.items.clone(), node }
    }

    /// The key of a MAP's body for one item.
    pub(crate) fn item(&self, body: u32, item: u32) -> Key {
        let mut items = Vec::with_capacity(self.items.len() + 1);
        items.extend_from_slice(&self.items);
        items.push(item);
        Key { items, node: body }
    }

    /// The key of the scope that this activation names its results in.
    pub(crate) fn scope(&self, graph: &Graph) -> Key {
        self.above(graph, graph.node(self.node).scope)
    }

    /// Whether `other` is this activation or one below it; `node` is this key's.
    pub(crate) fn covers(&self, node: &Node, other: &Key) -> bool {
        (self.node..node.end).contains(&other.node) && other.items.starts_with(&self.items)
    }

    /// The keys of `map` that this one covers, in their order.
    pub(crate) fn covered<V>(&self, node: &Node, map: &BTreeMap<Key, V>) -> Vec<Key> {
        let same = self.clone()..self.child(node.end);
        let mut keys: Vec<Key> = map.range(same).map(|(key, _)| key.clone()).collect();
        if node.maps_below {
            // Longer item numbers with this beginning come right after all nodes of this activation.
            let first = Bound::Excluded(self.child(u32::MAX));
            let longer = map.range((first, Bound::Unbounded)).map(|(key, _)| key);
            let longer = longer.take_while(|key| key.items.starts_with(&self.items));
            keys.extend(longer.filter(|key| self.covers(node, key)).cloned());
        }
        keys
    }
}

fn number(text: &str) -> Option<u32> {
    // One text for one number: "07" is not a number here.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok())?
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.node)?;
        for (index, item) in self.items.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { '@' } else { '.' })?;
        }
        Ok(())
    }
}
