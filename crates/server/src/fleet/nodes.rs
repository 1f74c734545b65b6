//! What is asked and told of nodes.

use super::Peers;
use crate::reply::Refusal;
use duramen_api::fleet::{FleetCopy, FleetNode, FleetSource, FleetView};
use duramen_fleet::{
    member::{Fleet, Standing},
    view::{NodeState, NodeView, SourceSeen, View},
};
use hyper::StatusCode;
use std::time::Duration;

/// How long a drain may take to be seen.
const SEEN_LIMIT: Duration = Duration::from_secs(5);

impl Peers {
    /// The fleet as this node sees it.
    pub(crate) fn view(&self) -> FleetView {
        let (standing, problem) = standing(&self.fleet);
        let view = self.fleet.view();
        FleetView {
            fleet: self.fleet.name().to_owned(),
            node: self.fleet.node().to_owned(),
            standing: standing.to_owned(),
            problem,
            age_ms: view.age().map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            to_free: u32::try_from(self.fleet.to_free()).unwrap_or(u32::MAX),
            writes: self.fleet.writes(),
            nodes: view.nodes().into_iter().map(node).collect(),
            sources: view.sources().iter().filter_map(|(name, seen)| source(name, seen, &view)).collect(),
        }
    }

    /// Where a source of the fleet is, as this node sees it.
    pub(crate) fn fleet_source(&self, name: &str) -> Option<FleetSource> {
        let view = self.fleet.view();
        source(name, view.sources().get(name)?, &view)
    }

    /// Has a node take no new branches, or ends that (FL-11).
    pub(crate) async fn drain(&self, node: &str, drains: bool) -> Result<(), Refusal> {
        self.known(node)?;
        let revision = self.fleet.drain(node, drains).await.map_err(silent)?;
        // Who looks at what this node sees then finds every name that was given there before.
        if drains && !self.fleet.seen(revision, SEEN_LIMIT).await {
            let message =
                format!("the node {node} drains; what it has is not seen yet, because etcd does not answer");
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "fleet_silent", message));
        }
        Ok(())
    }

    /// Forgets a node that is not there.
    pub(crate) async fn forget(&self, node: &str) -> Result<(), Refusal> {
        self.known(node)?;
        match self.fleet.forget(node).await.map_err(silent)? {
            true => Ok(()),
            false => {
                let message = format!("the node {node} is there; stop its daemon first");
                Err(Refusal::new(StatusCode::CONFLICT, "node_is_there", message))
            }
        }
    }

    fn known(&self, node: &str) -> Result<NodeView, Refusal> {
        self.fleet.node_view(node).ok_or_else(|| {
            let message = format!("there is no node {node:?} in the fleet; `duramen node list` shows all");
            Refusal::new(StatusCode::NOT_FOUND, "unknown_node", message)
        })
    }
}

/// Whether a node gives names, in one word, and why not.
pub(super) fn standing(fleet: &Fleet) -> (&'static str, Option<String>) {
    match fleet.standing() {
        Standing::Member(_) => ("member", None),
        Standing::Joining(why) => ("joining", Some(why)),
        Standing::Refused(why) => ("refused", Some(why)),
    }
}

fn silent(error: duramen_fleet::etcd::EtcdError) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "fleet_silent", error.to_string())
}

fn node(node: NodeView) -> FleetNode {
    let NodeView { name, state, record, kept_for, names, registered_at, drains_since, gone_for } = node;
    let capacity = record.as_ref().map(|record| &record.capacity);
    FleetNode {
        name,
        state: state.to_string(),
        kept_for_s: kept_for.map(|left| left.as_secs()),
        names: u32::try_from(names).unwrap_or(u32::MAX),
        registered_at,
        drains_since,
        gone_for_s: gone_for.map(|gone| gone.as_secs()),
        memory_free: capacity.map(|capacity| capacity.memory_free),
        disk_free: capacity.map(|capacity| capacity.disk_free),
        leases: capacity.map(|capacity| capacity.leases),
        hot: capacity
            .map(|capacity| capacity.pools.iter().fold(0, |sum: u32, pool| sum.saturating_add(pool.hot))),
        sources: capacity.map(|capacity| capacity.sources.clone()).unwrap_or_default(),
        address: record.as_ref().map(|record| record.address.clone()),
        version: record.map(|record| record.version),
    }
}

/// A source and its copies: those that have a place, and what others have under its name.
fn source(name: &str, seen: &SourceSeen, view: &View) -> Option<FleetSource> {
    let record = seen.record.as_ref()?;
    let nodes = view.nodes();
    let current = record.generation.as_ref();
    let copy = |node: &NodeView| {
        let has_place = record.places.contains(&node.name);
        let capacity = node.record.as_ref().map(|record| &record.capacity);
        let has = capacity.and_then(|it| it.copies.iter().find(|copy| copy.source == name));
        let comes = capacity.and_then(|it| it.bringing.iter().find(|record| record.source == name));
        if !has_place && has.is_none() {
            return None;
        }
        let is_its = has.is_some_and(|copy| copy.id.as_deref() == Some(&record.id));
        let is_current = has.is_some_and(|copy| {
            // What its keeper has is on its way to be the current one.
            node.name == record.keeper
                || current.is_none_or(|it| (it.number, &it.digest) == (copy.generation, &copy.digest))
        });
        let state = match node.state {
            NodeState::Unreachable | NodeState::Lost => node.state.to_string(),
            _ if has.is_none() => "wanted".to_owned(),
            _ if !is_its => "other".to_owned(),
            _ if !has_place => "extra".to_owned(),
            _ if is_current => "held".to_owned(),
            _ => "behind".to_owned(),
        };
        Some(FleetCopy {
            node: node.name.clone(),
            state,
            generation: has.map(|copy| copy.generation),
            done: comes.filter(|it| it.problem.is_none()).map(|it| it.done),
            problem: comes.and_then(|it| it.problem.clone()),
        })
    };
    let mut copies: Vec<FleetCopy> = nodes.iter().filter_map(copy).collect();
    let unknown = record.places.iter().filter(|place| !nodes.iter().any(|node| node.name == **place));
    copies.extend(unknown.map(|node| FleetCopy {
        node: node.clone(),
        state: "lost".to_owned(),
        generation: None,
        done: None,
        problem: None,
    }));
    let missing = (record.replicas as usize).saturating_sub(record.places.len());
    let why = nodes.iter().filter_map(|node| {
        let capacity = &node.record.as_ref()?.capacity;
        let problem = capacity.bringing.iter().find(|it| it.source == name)?.problem.as_ref()?;
        (!record.places.contains(&node.name)).then(|| format!("{}: {problem}", node.name))
    });
    let why: Vec<String> = why.collect();
    let problem = (missing > 0 && current.is_some()).then(|| match why.is_empty() {
        true => format!("{missing} more nodes are to have it, and none has taken that on yet"),
        false => format!("{missing} more nodes are to have it; {}", why.join("; ")),
    });
    Some(FleetSource {
        name: name.to_owned(),
        id: record.id.clone(),
        keeper: record.keeper.clone(),
        origin: record.origin.clone(),
        replicas: record.replicas,
        generation: current.map(|it| it.number),
        digest: current.map(|it| it.digest.clone()),
        bytes: current.map(|it| it.bytes),
        copies,
        problem,
    })
}
