//! The fleet that a daemon is in: requests about branches of other nodes are passed on to them, and new branches go where there is
//! most room. See `docs/design/fleet.md`, where the invariants FL-1 to FL-20 are. Without the feature `fleet` there are never
//! `Peers`, and the compiler knows it.

#[cfg(feature = "fleet")]
mod agreeing;
#[cfg(feature = "fleet")]
mod cluster;
#[cfg(feature = "fleet")]
mod connections;
#[cfg(feature = "fleet")]
mod copying;
#[cfg(feature = "fleet")]
mod list;
#[cfg(feature = "fleet")]
mod metrics;
#[cfg(feature = "fleet")]
mod nodes;
#[cfg(not(feature = "fleet"))]
mod off;
#[cfg(feature = "fleet")]
mod offers;
#[cfg(feature = "fleet")]
mod passing;
#[cfg(feature = "fleet")]
mod peers;
#[cfg(feature = "fleet")]
mod places;
#[cfg(feature = "fleet")]
mod placing;
#[cfg(feature = "fleet")]
mod protocol;
#[cfg(feature = "fleet")]
mod removing;
#[cfg(feature = "fleet")]
mod serving;
#[cfg(feature = "fleet")]
mod silence;
#[cfg(feature = "fleet")]
mod sources;
#[cfg(feature = "fleet")]
mod stall;
#[cfg(feature = "fleet")]
mod tokens;
#[cfg(feature = "fleet")]
mod who;

#[cfg(feature = "fleet")]
pub(crate) use connections::Said;
#[cfg(not(feature = "fleet"))]
pub(crate) use off::Peers;
#[cfg(feature = "fleet")]
pub(crate) use peers::Peers;
#[cfg(feature = "fleet")]
pub use peers::{FleetError, FleetOptions};

use crate::{api::Answer, reply::Refusal};
use axum::body::Body;
use bytes::Bytes;
use duramen_api::route::Op;
use hyper::StatusCode;

/// The code of a refusal of a create whose name another node has: it is asked then.
pub(crate) const NAME_ELSEWHERE: &str = "name_elsewhere";

/// That a request came from another node, which is in its extensions.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "fleet"), allow(dead_code, reason = "without a fleet there is none"))]
pub(crate) struct Hop {
    /// The node.
    pub(crate) from: String,
}

/// Where a request is answered.
#[cfg_attr(not(feature = "fleet"), allow(dead_code, reason = "without a fleet nobody is asked where"))]
pub(crate) enum Way {
    /// Here. With its body once more, if it creates a branch whose name may turn out to be elsewhere.
    Here(Body, Option<Bytes>),
    /// It has been, elsewhere.
    Answered(Answer),
}

/// Whether a request may come from another node: those about branches, but for the way in by a socket of the machine, and what a node
/// says of itself.
pub(crate) fn may_hop(op: Op) -> bool {
    is_of_a_branch(op) || matches!(op, Op::CreateBranch | Op::Branches | Op::NodeReport)
}

/// Whether a request is about the branch that it names.
pub(crate) fn is_of_a_branch(op: Op) -> bool {
    op.endpoint().path.starts_with("/v1/branches/{name}") && op != Op::AdministratorUrl
}

/// FL-7, and what the machine keeps to itself.
pub(crate) fn not_passed_on(op: Op, hop: &Hop) -> Refusal {
    let endpoint = op.endpoint();
    let message = format!(
        "{} {} is not answered to another node ({}); ask this one itself",
        endpoint.method, endpoint.path, hop.from
    );
    Refusal::new(StatusCode::FORBIDDEN, "not_passed_on", message)
}

/// The refusal of what only a daemon in a fleet can do.
pub(crate) fn no_fleet() -> Refusal {
    let message =
        "this daemon is in no fleet; start it with `duramen serve --fleet etcd://...`, see docs/fleet.md";
    Refusal::new(StatusCode::CONFLICT, "no_fleet", message)
}
