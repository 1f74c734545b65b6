//! Which node takes the place of a copy that is missing. Each node decides that alone, by what it has seen, and in the same way; who is
//! first by etcd has the place (FL-16).

use duramen_branches::room_for_copy;
use duramen_fleet::{
    record::{NodeRecord, SourceRecord},
    view::{NodeState, NodeView, View},
};

/// A node with less memory than this is brought nothing.
const MEMORY_MIN: u64 = 256 << 20;
/// Nodes whose room differs by less are told apart by their names alone, so that all decide alike although each has seen something else.
const ALIKE: u64 = 1 << 30;

/// A place that somebody may take. The keeper's own is nobody else's: a source with one replica does not leave its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Vacancy {
    /// There are fewer places than there are to be.
    More,
    /// This node has one, and is lost; with the revision of its member key.
    Of(String, i64),
    /// The keeper is lost, of a source that is to be on several nodes: one more has it meanwhile.
    Beside(String, i64),
}

/// The place of a source that is to be taken, if one is.
pub(super) fn vacancy(record: &SourceRecord, view: &View) -> Option<Vacancy> {
    record.generation.as_ref()?;
    let wanted = (record.replicas as usize).checked_sub(1).filter(|wanted| *wanted > 0)?;
    let others = || record.places.iter().filter(|node| **node != record.keeper);
    if others().count() < wanted {
        return Some(Vacancy::More);
    }
    let keeper = view.lost(&record.keeper);
    let lost = |node: &String| Some(Vacancy::Of(node.clone(), view.lost(node)?));
    let of_lost = others().take(wanted + usize::from(keeper.is_some())).find_map(lost);
    let beside = keeper.filter(|_| others().count() == wanted);
    of_lost.or_else(|| Some(Vacancy::Beside(record.keeper.clone(), beside?)))
}

/// The places once this node has taken that one.
pub(super) fn taken(record: &SourceRecord, vacancy: &Vacancy, own: &str) -> Vec<String> {
    let mut places = record.places.clone();
    match vacancy {
        Vacancy::More | Vacancy::Beside(..) => places.push(own.to_owned()),
        Vacancy::Of(lost, _) => {
            for node in &mut places {
                if node == lost {
                    own.clone_into(node);
                }
            }
        }
    }
    places
}

/// The nodes that could have a copy, the one that is to take the place first.
pub(super) fn candidates(name: &str, record: &SourceRecord, nodes: &[NodeView]) -> Vec<String> {
    let bytes = record.generation.as_ref().map_or(0, |it| it.bytes);
    let fits = |node: &&NodeView| {
        let Some(NodeRecord { capacity, .. }) = &node.record else { return false };
        let of = capacity.copies.iter().find(|copy| copy.source == name);
        // What is there already needs no room.
        let is_there = of.is_some_and(|copy| copy.id.as_deref() == Some(&record.id));
        let has_room = capacity.disk_free >= room_for_copy(bytes) && capacity.memory_free >= MEMORY_MIN;
        node.state == NodeState::Ready
            && !record.places.contains(&node.name)
            && node.name != record.keeper
            && (is_there || (of.is_none() && has_room))
    };
    let mut fit: Vec<_> = nodes.iter().filter(fits).collect();
    fit.sort_by_key(|node| {
        let capacity = node.record.as_ref().map(|record| &record.capacity);
        let is_there = capacity.is_some_and(|it| it.copies.iter().any(|copy| copy.source == name));
        let disk = capacity.map_or(0, |capacity| capacity.disk_free / ALIKE);
        let memory = capacity.map_or(0, |capacity| capacity.memory_free / ALIKE);
        (!is_there, std::cmp::Reverse((disk, memory)), node.name.clone())
    });
    fit.into_iter().map(|node| node.name.clone()).collect()
}

/// The nodes that have the current generation, and can send it. A copy of another digest is not one of it.
pub(super) fn senders(name: &str, record: &SourceRecord, nodes: &[NodeView], own: &str) -> Vec<String> {
    let Some(wanted) = &record.generation else { return Vec::new() };
    let has = |node: &&NodeView| {
        let Some(NodeRecord { capacity, .. }) = &node.record else { return false };
        matches!(node.state, NodeState::Ready | NodeState::Draining)
            && node.name != own
            && capacity.copies.iter().any(|copy| {
                copy.source == name
                    && copy.id.as_deref() == Some(&record.id)
                    && (copy.generation, &copy.digest) == (wanted.number, &wanted.digest)
            })
    };
    nodes.iter().filter(has).map(|node| node.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_base::clock;
    use duramen_fleet::{
        record::{Capacity, CopyRecord, GenerationRecord, Key, PROTOCOL},
        view::Change,
    };
    use std::time::Duration;

    const GIB: u64 = 1 << 30;

    fn source(places: &[&str], replicas: u32) -> SourceRecord {
        SourceRecord {
            id: "s-1".to_owned(),
            keeper: "a".to_owned(),
            origin: "script".to_owned(),
            settings: serde_json::json!({}),
            replicas,
            generation: Some(GenerationRecord {
                number: 3,
                digest: "d".to_owned(),
                bytes: GIB,
                manifest: "m".to_owned(),
            }),
            places: places.iter().map(|&node| node.to_owned()).collect(),
            defined_at: clock::utc_now(),
        }
    }

    fn copy(id: Option<&str>, generation: u32, digest: &str) -> Vec<CopyRecord> {
        let id = id.map(str::to_owned);
        vec![CopyRecord { source: "s".to_owned(), id, generation, digest: digest.to_owned() }]
    }

    fn view(nodes: &[(&str, u64, Vec<CopyRecord>)]) -> View {
        let mut view = View::new(Duration::from_millis(30));
        for (name, disk_free, copies) in nodes {
            let capacity = Capacity {
                memory_free: GIB,
                disk_free: *disk_free,
                copies: copies.clone(),
                ..Capacity::default()
            };
            let (address, version) = ("x:1".to_owned(), "0".to_owned());
            let record = NodeRecord { address, version, capacity, sessions: true, protocol: PROTOCOL };
            let member = br#"{"home":"h-1","registered_at":"2026-01-02T03:04:05Z"}"#;
            view.apply(Key::Member(name), Change::Put(member, 7));
            view.apply(Key::Node(name), Change::Put(&serde_json::to_vec(&record).unwrap(), 7));
        }
        view
    }

    /// FL-16.
    #[test]
    fn a_place_is_taken_by_who_has_most_room_and_a_lost_nodes_after_its_grace() {
        let mut view = view(&[
            ("a", 9 * GIB, copy(Some("s-1"), 3, "d")),
            ("b", 5 * GIB, vec![]),
            ("c", 7 * GIB, vec![]),
            ("d", GIB, vec![]),
            ("e", 99 * GIB, copy(None, 1, "x")),
            ("f", 2 * GIB, copy(Some("s-1"), 2, "old")),
        ]);
        let record = source(&["a"], 2);
        assert_eq!(vacancy(&record, &view), Some(Vacancy::More));
        // d has no room, e a source of its own of that name, and f has had it.
        assert_eq!(candidates("s", &record, &view.nodes()), ["f", "c", "b"]);
        assert_eq!(taken(&record, &Vacancy::More, "c"), ["a", "c"]);

        let record = source(&["a", "c"], 2);
        assert_eq!(vacancy(&record, &view), None);
        view.apply(Key::Node("c"), Change::Gone);
        assert_eq!(vacancy(&record, &view), None, "its grace is not over");
        std::thread::sleep(Duration::from_millis(40));
        let lost = vacancy(&record, &view).expect("it is lost");
        assert_eq!(lost, Vacancy::Of("c".to_owned(), 7));
        assert_eq!(taken(&record, &lost, "b"), ["a", "b"]);
        assert_eq!(vacancy(&SourceRecord { generation: None, ..source(&["a"], 2) }, &view), None);
        // The keeper's place is its own, whatever is in etcd.
        assert_eq!(vacancy(&source(&["b"], 2), &view), None);
        assert_eq!(candidates("s", &source(&["b"], 2), &view.nodes()), ["f"]);
    }

    /// FL-16: a source that is on its keeper alone is taken by nobody when that is lost; of another one, one node more has it.
    #[test]
    fn a_lost_keepers_place_is_its_own() {
        let mut view = view(&[
            ("a", 9 * GIB, copy(Some("s-1"), 3, "d")),
            ("b", 5 * GIB, copy(Some("s-1"), 3, "d")),
            ("c", 5 * GIB, vec![]),
        ]);
        view.apply(Key::Node("a"), Change::Gone);
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(vacancy(&source(&["a"], 1), &view), None);
        let record = source(&["a", "b"], 2);
        let beside = vacancy(&record, &view).expect("one more");
        assert_eq!(beside, Vacancy::Beside("a".to_owned(), 7));
        assert_eq!(taken(&record, &beside, "c"), ["a", "b", "c"]);
        assert_eq!(vacancy(&source(&["a", "b", "c"], 2), &view), None, "one more, and not two");
        view.apply(Key::Node("c"), Change::Gone);
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(vacancy(&source(&["a", "b", "c"], 2), &view), Some(Vacancy::Of("c".to_owned(), 7)));
        // Forgotten, it is lost all the same.
        view.apply(Key::Member("a"), Change::Gone);
        assert_eq!(vacancy(&record, &view), Some(Vacancy::Beside("a".to_owned(), 0)));
    }

    /// FL-17.
    #[test]
    fn only_who_has_that_generation_with_that_digest_sends_it() {
        let view = view(&[
            ("a", GIB, copy(Some("s-1"), 3, "d")),
            ("b", GIB, copy(Some("s-1"), 3, "other")),
            ("c", GIB, copy(Some("s-1"), 2, "d")),
            ("e", GIB, copy(Some("s-2"), 3, "d")),
            ("f", GIB, copy(Some("s-1"), 3, "d")),
        ]);
        assert_eq!(senders("s", &source(&["a"], 2), &view.nodes(), "f"), ["a"]);
    }
}
