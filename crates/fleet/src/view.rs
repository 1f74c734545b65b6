//! What a node has seen of the fleet by its watch, and what follows from it.
//!
//! It says where to look first. No name is given or freed because of it: those are transactions.

use crate::record::{DrainRecord, Key, MemberRecord, NameRecord, NodeRecord, SourceRecord};
use duramen_base::clock;
use jiff::Timestamp;
use serde::{de::DeserializeOwned, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It is registered.
    Ready,
    /// It is registered, and gives no more names.
    Draining,
    /// Its registration ended, less than the grace ago.
    Unreachable,
    /// Its registration ended longer ago: its names are there for others.
    Lost,
}

impl std::fmt::Display for NodeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NodeState::Ready => "ready",
            NodeState::Draining => "draining",
            NodeState::Unreachable => "unreachable",
            NodeState::Lost => "lost",
        })
    }
}

/// A node as it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: NodeState,
    /// Its registration, if there is one.
    pub record: Option<NodeRecord>,
    /// How long its names are still kept for it, if it is unreachable.
    pub kept_for: Option<Duration>,
    /// How many names it has.
    pub names: usize,
    /// When it was registered last, by its own clock.
    pub registered_at: Option<Timestamp>,
    /// Since when it drains, if it does.
    pub drains_since: Option<Timestamp>,
    /// For how long it has been seen without a registration, if it has none.
    pub gone_for: Option<Duration>,
}

/// A name as it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameView {
    /// Its claim.
    pub record: NameRecord,
    /// The revision of the claim.
    pub revision: i64,
}

/// The definition of a source as it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSeen {
    /// The definition; none if this version cannot read it.
    pub record: Option<SourceRecord>,
    /// The revision of its last change.
    pub revision: i64,
}

#[derive(Debug, Default)]
struct Node {
    registration: Option<NodeRecord>,
    member: Option<(MemberRecord, i64)>,
    drain: Option<DrainRecord>,
    /// Since when it has been seen without a registration.
    gone: Option<Instant>,
}

/// What was seen of the fleet.
#[derive(Debug)]
pub struct View {
    grace: Duration,
    nodes: BTreeMap<String, Node>,
    names: HashMap<String, NameView>,
    /// Tokens by name, as they stand in etcd, with their revisions.
    tokens: BTreeMap<String, (Vec<u8>, i64)>,
    /// Definitions of sources by name.
    sources: BTreeMap<String, SourceSeen>,
    /// Up to which revision of etcd everything was seen.
    revision: i64,
    /// Values that this version cannot read, by key.
    unread: usize,
    /// When the watch said something last.
    heard: Option<Instant>,
}

/// A change of a key.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// It has this value, since this revision.
    Put(&'a [u8], i64),
    /// It is gone.
    Gone,
}

impl View {
    /// One that has seen nothing, of a fleet in which names are kept for `grace`.
    #[must_use]
    pub fn new(grace: Duration) -> View {
        View {
            grace,
            nodes: BTreeMap::new(),
            names: HashMap::new(),
            tokens: BTreeMap::new(),
            sources: BTreeMap::new(),
            revision: 0,
            unread: 0,
            heard: None,
        }
    }

    /// Begins anew with all that etcd has. Since when a node is gone is remembered.
    pub fn load<'a>(&mut self, all: impl IntoIterator<Item = (Key<'a>, &'a [u8], i64)>) {
        let before = std::mem::take(&mut self.nodes);
        self.names.clear();
        self.tokens.clear();
        self.sources.clear();
        self.unread = 0;
        // An etcd that was put back to an earlier day counts from there.
        self.revision = 0;
        for (key, value, revision) in all {
            self.apply(key, Change::Put(value, revision));
        }
        for (name, node) in &mut self.nodes {
            if node.registration.is_none() {
                let gone = before.get(name).filter(|was| {
                    // It may have registered and gone again meanwhile, and then its grace began anew.
                    let number = |member: &Option<(MemberRecord, i64)>| member.as_ref().map(|(_, it)| *it);
                    number(&was.member) == number(&node.member)
                });
                node.gone = gone.and_then(|was| was.gone).or_else(|| Some(clock::now()));
            }
        }
    }

    /// Takes note of a change.
    pub fn apply(&mut self, key: Key<'_>, change: Change<'_>) {
        self.heard = Some(clock::now());
        match key {
            Key::Node(name) => {
                let registration = self.value(change).map(|(record, _)| record);
                let node = self.nodes.entry(name.to_owned()).or_default();
                node.gone = match &registration {
                    Some(_) => None,
                    None => node.gone.or_else(|| Some(clock::now())),
                };
                node.registration = registration;
            }
            Key::Member(name) => {
                let member = self.value(change);
                let node = self.nodes.entry(name.to_owned()).or_default();
                node.member = member;
                if node.registration.is_none() {
                    // It was registered: what was counted before counts no more.
                    node.gone = Some(clock::now());
                    if node.member.is_none() && node.drain.is_none() {
                        self.nodes.remove(name);
                    }
                }
            }
            Key::Drain(name) => {
                let drain = self.value(change).map(|(record, _)| record);
                if drain.is_some() || self.nodes.contains_key(name) {
                    self.nodes.entry(name.to_owned()).or_default().drain = drain;
                }
            }
            Key::Name(name) => match self.value(change) {
                Some((record, revision)) => {
                    drop(self.names.insert(name.to_owned(), NameView { record, revision }))
                }
                None => drop(self.names.remove(name)),
            },
            Key::Token(name) => match change {
                Change::Put(value, revision) => {
                    self.tokens.insert(name.to_owned(), (value.to_vec(), revision));
                }
                Change::Gone => drop(self.tokens.remove(name)),
            },
            Key::Source(name) => match change {
                Change::Put(_, revision) => {
                    let record = self.value(change).map(|(record, _)| record);
                    self.sources.insert(name.to_owned(), SourceSeen { record, revision });
                }
                Change::Gone => drop(self.sources.remove(name)),
            },
        }
    }

    fn value<T: DeserializeOwned>(&mut self, change: Change<'_>) -> Option<(T, i64)> {
        let Change::Put(value, revision) = change else { return None };
        match serde_json::from_slice(value) {
            Ok(value) => Some((value, revision)),
            Err(_) => {
                self.unread += 1;
                None
            }
        }
    }

    /// Takes note that everything up to this revision of etcd was seen.
    pub fn reach(&mut self, revision: i64) {
        self.revision = self.revision.max(revision);
    }

    /// Up to which revision of etcd everything was seen.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Takes note that the watch is alive.
    pub fn hear(&mut self) {
        self.heard = Some(clock::now());
    }

    /// How old what is seen may be; nothing, if nothing was seen yet.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.heard.map(|heard| heard.elapsed())
    }

    /// How many values could not be read.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// All nodes, by name.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeView> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for name in self.names.values() {
            *counts.entry(name.record.node.as_str()).or_default() += 1;
        }
        let view = |(name, node): (&String, &Node)| NodeView {
            name: name.clone(),
            state: self.state_of(node),
            record: node.registration.clone(),
            kept_for: node
                .gone
                .map(|gone| self.grace.saturating_sub(gone.elapsed()))
                .filter(|left| !left.is_zero()),
            names: counts.get(name.as_str()).copied().unwrap_or(0),
            registered_at: node.member.as_ref().map(|(member, _)| member.registered_at),
            drains_since: node.drain.as_ref().map(|drain| drain.since),
            gone_for: node.gone.map(|gone| gone.elapsed()),
        };
        self.nodes.iter().map(view).collect()
    }

    /// One node. One that nobody knows anything of, but that has names, is lost when `forget` took it away.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<NodeView> {
        self.nodes().into_iter().find(|node| node.name == name)
    }

    /// How a node is; lost, if nothing is known of it, and unreachable before anything is known.
    #[must_use]
    pub fn state(&self, node: &str) -> NodeState {
        match self.nodes.get(node) {
            Some(node) => self.state_of(node),
            None if self.heard.is_some() => NodeState::Lost,
            None => NodeState::Unreachable,
        }
    }

    /// Whether a name is that of a node which was registered and not forgotten.
    #[must_use]
    pub fn is_member(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.member.is_some())
    }

    /// Where a registered node is reached.
    #[must_use]
    pub fn address(&self, node: &str) -> Option<String> {
        self.registration(node).map(|record| record.address.clone())
    }

    /// What a registered node says of itself.
    #[must_use]
    pub fn registration(&self, node: &str) -> Option<&NodeRecord> {
        self.nodes.get(node)?.registration.as_ref()
    }

    /// Whether a node is registered.
    #[must_use]
    pub fn is_registered(&self, node: &str) -> bool {
        self.registration(node).is_some()
    }

    fn state_of(&self, node: &Node) -> NodeState {
        match (&node.registration, &node.drain, node.gone) {
            (Some(_), None, _) => NodeState::Ready,
            (Some(_), Some(_), _) => NodeState::Draining,
            (None, _, Some(gone)) if gone.elapsed() >= self.grace => NodeState::Lost,
            (None, _, _) => NodeState::Unreachable,
        }
    }

    /// All tokens, by name, as they stand in etcd.
    #[must_use]
    pub fn tokens(&self) -> Vec<(String, Vec<u8>)> {
        self.tokens.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect()
    }

    /// All definitions of sources, by name.
    #[must_use]
    pub fn sources(&self) -> &BTreeMap<String, SourceSeen> {
        &self.sources
    }

    /// The claim of a name.
    #[must_use]
    pub fn name(&self, name: &str) -> Option<&NameView> {
        self.names.get(name)
    }

    /// How many names the holder of a token has, on all nodes.
    #[must_use]
    pub fn held_by(&self, holder: &str) -> usize {
        self.names.values().filter(|name| name.record.holder.as_deref() == Some(holder)).count()
    }

    /// The names that a node has, with the ids of their branches.
    #[must_use]
    pub fn names_of(&self, node: &str) -> Vec<(String, String)> {
        let own = self.names.iter().filter(|(_, name)| name.record.node == node);
        own.map(|(name, view)| (name.clone(), view.record.id.clone())).collect()
    }

    /// Names of nodes that were forgotten, or never there, in order: at most `most`, and how many there are.
    #[must_use]
    pub fn orphans(&self, most: usize) -> (Vec<String>, usize) {
        let is_orphan = |(_, name): &(&String, &NameView)| !self.nodes.contains_key(&name.record.node);
        let mut all: Vec<&String> = self.names.iter().filter(is_orphan).map(|(name, _)| name).collect();
        all.sort_unstable();
        (all.iter().take(most).map(|name| (*name).clone()).collect(), all.len())
    }

    /// The revision of a node's member key, if its grace is over (FL-5): what a takeover compares. Zero stands for a node that was
    /// forgotten.
    #[must_use]
    pub fn lost(&self, node: &str) -> Option<i64> {
        match self.nodes.get(node) {
            None => self.heard.map(|_| 0),
            Some(found) if self.state_of(found) == NodeState::Lost => {
                Some(found.member.as_ref().map_or(0, |(_, revision)| *revision))
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(50);
    const NODE: &[u8] = br#"{"address":"a:1","version":"0","capacity":{"memory_free":1,"disk_free":1,"leases":0,"places":1}}"#;
    const MEMBER: &[u8] = br#"{"home":"h-1","registered_at":"2026-01-02T03:04:05Z"}"#;

    fn registered() -> View {
        let mut view = View::new(GRACE);
        view.apply(Key::Member("a"), Change::Put(MEMBER, 7));
        view.apply(Key::Node("a"), Change::Put(NODE, 7));
        view
    }

    /// FL-5.
    #[test]
    fn a_node_is_lost_only_after_its_grace_and_never_while_it_is_registered() {
        let mut view = registered();
        assert_eq!((view.state("a"), view.lost("a")), (NodeState::Ready, None));
        view.apply(Key::Node("a"), Change::Gone);
        assert_eq!((view.state("a"), view.lost("a")), (NodeState::Unreachable, None));
        std::thread::sleep(GRACE);
        assert_eq!((view.state("a"), view.lost("a")), (NodeState::Lost, Some(7)));
        view.apply(Key::Member("a"), Change::Put(MEMBER, 9));
        view.apply(Key::Node("a"), Change::Put(NODE, 9));
        assert_eq!(view.lost("a"), None);
    }

    /// FL-5: what was missed while the watch was not there counts.
    #[test]
    fn a_registration_that_was_missed_begins_the_grace_anew() {
        let mut view = registered();
        view.apply(Key::Node("a"), Change::Gone);
        std::thread::sleep(GRACE);
        view.load([(Key::Member("a"), MEMBER, 7)]);
        assert_eq!(view.lost("a"), Some(7), "nothing was missed");
        view.load([(Key::Member("a"), MEMBER, 8)]);
        assert_eq!((view.state("a"), view.lost("a")), (NodeState::Unreachable, None));
    }

    #[test]
    fn what_cannot_be_read_is_counted_and_breaks_nothing() {
        let mut view = registered();
        view.apply(Key::Name("x"), Change::Put(b"\xff{", 1));
        view.apply(Key::Node("b"), Change::Put(b"[]", 1));
        assert_eq!((view.unread(), view.name("x")), (2, None));
        assert_eq!(view.state("b"), NodeState::Unreachable);
    }

    #[test]
    fn a_node_that_drains_says_so() {
        let mut view = registered();
        view.apply(Key::Drain("a"), Change::Put(br#"{"since":"2026-01-02T03:04:05Z"}"#, 8));
        assert_eq!(view.state("a"), NodeState::Draining);
        view.apply(Key::Drain("a"), Change::Gone);
        assert_eq!(view.state("a"), NodeState::Ready);
    }

    /// FL-14, FL-15: a definition that cannot be read is one all the same: its name is given.
    #[test]
    fn definitions_are_seen_also_those_that_cannot_be_read() {
        let mut view = registered();
        let source = br#"{"id":"s-1","keeper":"a","origin":"script","settings":{},"replicas":2,"places":["a"],"defined_at":"2026-01-02T03:04:05Z"}"#;
        view.apply(Key::Source("x"), Change::Put(source, 8));
        view.apply(Key::Source("y"), Change::Put(b"{", 9));
        let record = view.sources()["x"].record.as_ref().expect("it is read");
        assert_eq!(
            (record.places.as_slice(), &record.generation, view.sources()["x"].revision),
            (&["a".to_owned()][..], &None, 8)
        );
        assert_eq!((view.sources()["y"].record.as_ref(), view.unread()), (None, 1));
        view.apply(Key::Source("x"), Change::Gone);
        assert!(!view.sources().contains_key("x"));
        view.load([]);
        assert!(view.sources().is_empty());
    }

    /// FL-13: an etcd that was put back to an earlier day counts from there.
    #[test]
    fn a_load_counts_revisions_anew_and_members_are_known() {
        let mut view = registered();
        view.reach(1000);
        assert!(view.is_member("a"));
        view.load([]);
        view.reach(10);
        assert_eq!((view.revision(), view.is_member("a")), (10, false));
    }
}
