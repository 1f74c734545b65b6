//! Which entitlements follow from which: a graph whose cycles are collapsed, in an order in which sources come first.

use std::collections::{BTreeMap, HashMap};

/// What an expandable grant says of the holders that it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    /// Only those who hold the source by a grant of their own.
    pub(super) shallow: bool,
    /// The numbers of their types, sorted; none means all.
    types: Vec<u32>,
}

impl Filter {
    pub(super) fn new(shallow: bool, mut types: Vec<u32>) -> Filter {
        types.sort_unstable();
        types.dedup();
        Filter { shallow, types }
    }

    /// Takes in what another grant of the same two entitlements says: each admits what it admits by itself.
    fn widen(&mut self, other: &Filter) {
        self.shallow &= other.shallow;
        if self.types.is_empty() || other.types.is_empty() {
            self.types.clear();
        } else {
            *self = Filter::new(self.shallow, [self.types.as_slice(), &other.types].concat());
        }
    }

    pub(super) fn admits(&self, principal_type: u32, is_direct: bool) -> bool {
        (is_direct || !self.shallow)
            && (self.types.is_empty() || self.types.binary_search(&principal_type).is_ok())
    }
}

/// A grant that makes one entitlement follow from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) source: u32,
    pub(super) destination: u32,
    /// The place of the grant.
    pub(super) place: u32,
}

/// What leads into a node.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) source: u32,
    pub(super) filter: Filter,
    /// The first grant that says so, of any of the entitlements of the two nodes.
    pub(super) cause: Cause,
}

/// Entitlements that follow from each other, or one by itself.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) entitlements: Vec<u32>,
    pub(super) incoming: Vec<Incoming>,
    /// In how many nodes it is a source.
    pub(super) outgoing: u32,
}

/// The graph. Entitlements that nothing follows from, and that follow from nothing, are in no node.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// Sources before what follows from them.
    nodes: Vec<Node>,
    of_entitlement: HashMap<u32, u32>,
    /// The first grant that makes one entitlement follow from another.
    causes: HashMap<(u32, u32), u32>,
}

impl Edges {
    /// The graph of causes, which come in the order of their places.
    pub(super) fn new(said: &[(Cause, Filter)]) -> Edges {
        let mut causes = HashMap::new();
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        for (cause, _) in said {
            causes.entry((cause.source, cause.destination)).or_insert(cause.place);
            numbers.extend([(cause.source, 0), (cause.destination, 0)]);
        }
        let entitlements: Vec<u32> = numbers.keys().copied().collect();
        numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        let mut following: Vec<Vec<u32>> = vec![Vec::new(); entitlements.len()];
        for (source, destination) in causes.keys() {
            following[numbers[source] as usize].push(numbers[destination]);
        }
        following.iter_mut().for_each(|list| list.sort_unstable());
        let (component, count) = components(&following);
        let mut nodes: Vec<Node> = (0..count).map(|_| Node::default()).collect();
        for (entitlement, component) in entitlements.iter().zip(&component) {
            nodes[*component as usize].entitlements.push(*entitlement);
        }
        let of_entitlement: HashMap<u32, u32> = entitlements.iter().copied().zip(component).collect();
        let mut incoming: BTreeMap<(u32, u32), Incoming> = BTreeMap::new();
        for (cause, filter) in said {
            let (source, destination) = (of_entitlement[&cause.source], of_entitlement[&cause.destination]);
            // What lies within a cycle says nothing, as in the ecosystem's tools.
            if source != destination {
                incoming
                    .entry((destination, source))
                    .and_modify(|known| known.filter.widen(filter))
                    .or_insert_with(|| Incoming { source, filter: filter.clone(), cause: *cause });
            }
        }
        for ((destination, source), each) in incoming {
            nodes[source as usize].outgoing += 1;
            nodes[destination as usize].incoming.push(each);
        }
        Edges { nodes, of_entitlement, causes }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn node_of(&self, entitlement: u32) -> Option<u32> {
        self.of_entitlement.get(&entitlement).copied()
    }

    /// What makes an entitlement follow from another one, both in nodes: a grant of just these, or one of others in their
    /// cycles.
    pub(super) fn cause(&self, source: u32, destination: u32) -> Option<(Cause, &Filter)> {
        let (from, to) = (self.node_of(source)?, self.node_of(destination)?);
        let incoming = self.nodes[to as usize].incoming.iter().find(|each| each.source == from)?;
        let own = self.causes.get(&(source, destination));
        let cause = own.map_or(incoming.cause, |place| Cause { source, destination, place: *place });
        Some((cause, &incoming.filter))
    }
}

/// The strongly connected components of a graph, numbered so that each comes before those that it leads to; and how
/// many there are. (Tarjan's algorithm, with a stack of its own: chains may be long.)
fn components(following: &[Vec<u32>]) -> (Vec<u32>, u32) {
    const NONE: u32 = u32::MAX;
    let count = following.len();
    let (mut index, mut low, mut component) = (vec![NONE; count], vec![0; count], vec![NONE; count]);
    let (mut next, mut found) = (0, 0);
    let (mut path, mut stack): (Vec<(u32, usize)>, Vec<u32>) = (Vec::new(), Vec::new());
    for start in 0..count as u32 {
        if index[start as usize] != NONE {
            continue;
        }
        path.push((start, 0));
        while let Some((at, step)) = path.last_mut() {
            let node = *at as usize;
            if *step == 0 {
                index[node] = next;
                low[node] = next;
                next += 1;
                stack.push(*at);
            }
            if let Some(to) = following[node].get(*step) {
                *step += 1;
                if index[*to as usize] == NONE {
                    path.push((*to, 0));
                } else if component[*to as usize] == NONE {
                    low[node] = low[node].min(index[*to as usize]);
                }
                continue;
            }
            if low[node] == index[node] {
                while let Some(member) = stack.pop() {
                    component[member as usize] = found;
                    if member as usize == node {
                        break;
                    }
                }
                found += 1;
            }
            path.pop();
            if let Some((before, _)) = path.last() {
                low[*before as usize] = low[*before as usize].min(low[node]);
            }
        }
    }
    // They are found from the end.
    component.iter_mut().for_each(|number| *number = found - 1 - *number);
    (component, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(u32, u32)]) -> Edges {
        let said = pairs.iter().zip(0..).map(|(&(source, destination), place)| {
            (Cause { source, destination, place }, Filter::new(false, Vec::new()))
        });
        Edges::new(&said.collect::<Vec<_>>())
    }

    #[test]
    fn sources_come_first_and_cycles_are_one() {
        // 1 <-> 2 -> 3 -> 4, 5 -> 5, 9 -> 1
        let graph = edges(&[(3, 4), (1, 2), (2, 1), (2, 3), (5, 5), (9, 1), (9, 4)]);
        let mut members: Vec<Vec<u32>> = graph.nodes().iter().map(|node| node.entitlements.clone()).collect();
        for (number, node) in (0..).zip(graph.nodes()) {
            assert!(node.incoming.iter().all(|each| each.source < number));
        }
        members.sort();
        assert_eq!(members, [vec![1, 2], vec![3], vec![4], vec![5], vec![9]]);
        // What leads into the cycle leads to all of it; what is in it, to none of it.
        assert_eq!(graph.cause(9, 2).map(|(cause, _)| (cause.source, cause.destination)), Some((9, 1)));
        assert!(graph.cause(1, 2).is_none() && graph.cause(5, 5).is_none());
    }

    #[test]
    fn a_long_chain_and_a_long_cycle_need_no_deep_stack() {
        let chain: Vec<(u32, u32)> = (0..200_000).map(|number| (number, number + 1)).collect();
        assert_eq!(edges(&chain).nodes().len(), 200_001);
        let cycle: Vec<(u32, u32)> = (0..200_000).map(|number| (number, (number + 1) % 200_000)).collect();
        assert_eq!(edges(&cycle).nodes().len(), 1);
    }

    #[test]
    fn what_several_grants_say_is_the_widest() {
        let filter = |shallow, types: &[u32]| Filter::new(shallow, types.to_vec());
        for (one, other, both) in [
            (filter(true, &[1]), filter(true, &[2]), filter(true, &[1, 2])),
            (filter(true, &[1]), filter(false, &[1]), filter(false, &[1])),
            (filter(true, &[]), filter(true, &[1]), filter(true, &[])),
        ] {
            for (mut one, other) in [(one.clone(), other.clone()), (other, one)] {
                one.widen(&other);
                assert_eq!(one, both);
            }
        }
        assert!(!filter(true, &[]).admits(1, false) && filter(true, &[]).admits(1, true));
        assert!(!filter(false, &[1]).admits(2, true) && filter(false, &[1]).admits(1, false));
    }
}
