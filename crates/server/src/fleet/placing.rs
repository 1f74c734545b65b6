//! Where a branch is made: where the pool is fullest, and there are memory and disk.

use duramen_fleet::{
    record::{Capacity, NodeRecord, PROTOCOL},
    view::{NodeState, View},
};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// No branch is sent to a node with less memory than this.
const MEMORY_MIN: u64 = 256 << 20;
/// Nor with less room in its volume store, which a node tells in steps of as much.
const DISK_MIN: u64 = 64 << 20;

/// What was sent to nodes since they said last what they have room for.
#[derive(Debug, Default)]
pub(super) struct Placed {
    sent: Mutex<HashMap<String, (Capacity, u32)>>,
}

impl Placed {
    /// The node on which a branch of a source is made; nothing, if none has the source, or all are full: then this one says why.
    pub(super) fn choose(
        &self,
        view: &View,
        own: &str,
        source: Option<&str>,
        policy: &str,
        for_session: bool,
    ) -> Option<String> {
        let mut placed = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = view.nodes();
        let ready = nodes.iter().filter(|node| node.state == NodeState::Ready);
        let mut fit: Vec<(i64, bool, u64, &str)> = Vec::new();
        for node in ready {
            let Some(NodeRecord { capacity, sessions, protocol, .. }) = &node.record else { continue };
            if (for_session && !sessions) || *protocol != PROTOCOL {
                continue;
            }
            let sent = match placed.get(&node.name) {
                Some((then, sent)) if then == capacity => *sent,
                _ => {
                    placed.insert(node.name.clone(), (capacity.clone(), 0));
                    0
                }
            };
            if let Some(hot) = hot(capacity, sent, source, policy) {
                fit.push((hot - i64::from(sent), node.name == own, capacity.memory_free, &node.name));
            }
        }
        let (.., chosen) = fit.into_iter().max()?;
        if let Some((_, sent)) = placed.get_mut(chosen) {
            *sent += 1;
        }
        Some(chosen.to_owned())
    }
}

/// How many branches are ready on a node; nothing, if it takes none.
fn hot(capacity: &Capacity, sent: u32, source: Option<&str>, policy: &str) -> Option<i64> {
    let has_room = capacity.memory_free >= MEMORY_MIN
        && capacity.disk_free >= DISK_MIN
        && capacity.leases.saturating_add(sent) < capacity.places;
    let source = match source {
        Some(source) => capacity.sources.iter().find(|own| *own == source)?,
        None => capacity.sources.first().filter(|_| capacity.sources.len() == 1)?,
    };
    let pools = capacity.pools.iter().filter(|pool| pool.source == *source && pool.policy == policy);
    has_room.then(|| pools.map(|pool| i64::from(pool.hot)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_fleet::record::{Key, Pool};
    use duramen_fleet::view::Change;
    use std::time::Duration;

    fn view(nodes: &[(&str, u32, u64)]) -> View {
        let mut view = View::new(Duration::from_secs(1));
        for (name, hot, memory_free) in nodes {
            let pool = Pool { source: "s".to_owned(), policy: "read-write".to_owned(), hot: *hot };
            let capacity = Capacity {
                memory_free: *memory_free,
                disk_free: if *name == "full" { DISK_MIN - 1 } else { DISK_MIN },
                places: 100,
                pools: vec![pool],
                sources: vec!["s".to_owned()],
                ..Capacity::default()
            };
            let (address, version) = ("x:1".to_owned(), "0".to_owned());
            let protocol = if *name == "newer" { PROTOCOL + 1 } else { PROTOCOL };
            let record = NodeRecord { address, version, capacity, sessions: *name != "b", protocol };
            view.apply(Key::Node(name), Change::Put(&serde_json::to_vec(&record).unwrap(), 1));
        }
        view
    }

    #[test]
    fn branches_go_where_the_pool_is_fullest_and_spread_before_anybody_says_more() {
        let view = view(&[
            ("a", 3, 1 << 30),
            ("b", 5, 1 << 30),
            ("c", 9, 1 << 20),
            ("full", 9, 1 << 30),
            ("newer", 9, 1 << 30),
        ]);
        let placed = Placed::default();
        let chosen: Vec<String> =
            (0..6).filter_map(|_| placed.choose(&view, "a", Some("s"), "read-write", false)).collect();
        assert_eq!(
            chosen,
            ["b", "b", "a", "b", "a", "b"],
            "c has no memory, full no disk, and newer speaks another protocol"
        );
        assert_eq!(placed.choose(&view, "a", Some("other"), "read-write", false), None);
        let entered = Placed::default().choose(&view, "a", Some("s"), "read-write", true);
        assert_eq!(entered.as_deref(), Some("a"), "b has no router");
        let hostile = self::view(&[("a", u32::MAX, u64::MAX)]);
        assert_eq!(
            Placed::default().choose(&hostile, "a", Some("s"), "read-write", false).as_deref(),
            Some("a")
        );
    }
}
