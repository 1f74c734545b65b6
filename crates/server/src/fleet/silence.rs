//! When another node is taken to be gone by who waits for its answer.

use duramen_base::clock;
use duramen_fleet::member::{Fleet, Standing};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// A node from which etcd is away does not hear that another one is gone: it waits for so long then.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked whether that is so.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Waits until a node is not registered any more, or nothing has been heard of nodes for [`UNKNOWN_LIMIT`].
pub(super) async fn gone(fleet: &Fleet, node: &str) {
    let mut changes = fleet.changes();
    let mut cut_off: Option<Instant> = None;
    loop {
        let is_there = fleet.view().is_registered(node);
        if !is_there {
            return;
        }
        cut_off = match fleet.standing() {
            Standing::Member(_) => None,
            Standing::Joining(_) | Standing::Refused(_) => Some(cut_off.unwrap_or_else(clock::now)),
        };
        if cut_off.is_some_and(|since| since.elapsed() >= UNKNOWN_LIMIT) {
            return;
        }
        if let Ok(Err(_)) = timeout(LOOK_EVERY, changes.changed()).await {
            return;
        }
    }
}
