//! How many connections a door may hold: the daemon needs descriptors for its branches, and for those who come by its socket,
//! whatever strangers do.

use rustix::process::{getrlimit, Resource};

/// Strangers that a door may have, if descriptors allow as many connections as it takes.
const STRANGERS_MAX: u32 = 1024;
/// A door has at least so many connections.
const CONNECTIONS_MIN: u32 = 8;

/// A door's share of the daemon's descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Open connections at one time; more wait in the socket's queue.
    pub(crate) connections: u32,
    /// Those of them that have shown nothing. Fewer than all, so that these never keep others out.
    pub(crate) strangers: usize,
}

impl Share {
    /// Of a door that takes one part in `part` of the daemon's descriptors for its clients, and serves `most` connections.
    pub(crate) fn of(part: u64, most: u32) -> Share {
        Share::within(getrlimit(Resource::Nofile).current, part, most)
    }

    fn within(descriptors: Option<u64>, part: u64, most: u32) -> Share {
        let allowed = descriptors.and_then(|all| u32::try_from(all / part).ok()).unwrap_or(most);
        let connections = allowed.min(most).max(CONNECTIONS_MIN);
        Share { connections, strangers: STRANGERS_MAX.min(connections / 2) as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R3, H8.
    #[test]
    fn a_door_leaves_descriptors_to_the_daemon_and_places_to_those_who_are_known() {
        let share = |descriptors, most| Share::within(descriptors, 4, most);
        assert_eq!(share(None, 10_000), Share { connections: 10_000, strangers: 1024 });
        assert_eq!(share(Some(1 << 20), 10_000), Share { connections: 10_000, strangers: 1024 });
        assert_eq!(share(Some(1024), 10_000), Share { connections: 256, strangers: 128 });
        assert_eq!(share(Some(16), 10_000), Share { connections: 8, strangers: 4 });
    }
}
