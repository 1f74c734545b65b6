//! The figures of a fleet, as a node has them.

use super::Peers;
use duramen_api::route::Op;
use duramen_fleet::view::NodeState;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{counter::Counter, family::Family, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use std::{
    fmt,
    sync::{Arc, Weak},
};

type Labels = [(&'static str, &'static str); 2];

/// What is counted of requests to other nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hops(Family<Labels, Counter>);

impl Hops {
    /// A request that another node answered, or did not.
    pub(super) fn passed(&self, op: Op, answered: bool) {
        self.count(op.name(), answered);
    }

    /// A session of a PostgreSQL client that was passed on, or could not be.
    pub(super) fn session(&self, answered: bool) {
        self.count("session", answered);
    }

    fn count(&self, kind: &'static str, answered: bool) {
        let outcome = if answered { "answered" } else { "failed" };
        self.0.get_or_create(&[("operation", kind), ("outcome", outcome)]).inc();
    }
}

impl Peers {
    /// Has the figures of the fleet told with the daemon's others.
    pub(crate) fn register_metrics(self: &Arc<Peers>, registry: &mut Registry) {
        self.fleet.register_metrics(registry);
        let hops = self.hops.0.clone();
        registry.register("fleet_hops", "Requests and sessions that were passed on to other nodes", hops);
        registry.register_collector(Box::new(Seen(Arc::downgrade(self))));
    }
}

/// What is seen of the fleet when it is asked.
#[derive(Debug)]
struct Seen(Weak<Peers>);

impl Collector for Seen {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(peers) = self.0.upgrade() else { return Ok(()) };
        let fleet = &peers.fleet;
        let encoder = &mut encoder;
        let (nodes, age) = {
            let view = fleet.view();
            (view.nodes(), view.age())
        };
        let alone: [(&str, &str); 0] = [];
        let left = fleet.fence_left().unwrap_or_default().as_secs_f64();
        let about =
            "How long this node may surely give names, unless its registration is renewed: 0 if it may not";
        gauges(encoder, ("fleet_fence_left", about, Some(&Unit::Seconds)), [(alone, left)])?;
        if let Some(age) = age {
            let about = "How old what this node knows of the others may be";
            gauges(encoder, ("fleet_view_age", about, Some(&Unit::Seconds)), [(alone, age.as_secs_f64())])?;
        }
        let states = [NodeState::Ready, NodeState::Draining, NodeState::Unreachable, NodeState::Lost];
        let counts = states.map(|state| {
            let count = nodes.iter().filter(|node| node.state == state).count();
            ([("state", state.to_string())], count as f64)
        });
        gauges(encoder, ("fleet_nodes", "Nodes of the fleet by state, as this one sees them", None), counts)?;
        let own = nodes.iter().find(|node| node.name == fleet.node());
        let names = own.map_or(0, |node| node.names) as f64;
        gauges(encoder, ("fleet_names", "Names that this node has", None), [(alone, names)])?;
        let waiting = fleet.to_free() as f64;
        let about = "Names of branches that have ended which etcd has not freed yet";
        gauges(encoder, ("fleet_names_to_free", about, None), [(alone, waiting)])
    }
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): (&str, &str, Option<&Unit>),
    values: impl IntoIterator<Item = (L, f64)>,
) -> fmt::Result {
    let mut family =
        encoder.encode_descriptor(name, help, unit, ConstGauge::<f64>::new(0.0).metric_type())?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
