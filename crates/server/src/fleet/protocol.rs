//! The protocol that nodes speak with one another. Its number is in ALPN, so that two nodes that do not understand each other
//! exchange no request, and in a node's registration, so that it is told which of them is to be upgraded.

use super::Peers;
use crate::reply::Refusal;
use duramen_fleet::record::PROTOCOL;
use hyper::StatusCode;
use std::io;

/// What ALPN calls requests between nodes. The number is [`PROTOCOL`].
pub(super) const ALPN: &[u8] = b"duramen-node/1";
/// And sessions of PostgreSQL clients.
pub(super) const ALPN_SESSIONS: &[u8] = b"duramen-session/1";
/// And generations of sources.
pub(super) const ALPN_COPIES: &[u8] = b"duramen-copy/1";

/// Whether a handshake failed because the other side speaks none of our protocols.
pub(super) fn is_other(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)))
}

/// The refusal of what would be passed on to a node that does not understand it.
pub(super) fn other(node: &str, theirs: &str) -> Refusal {
    let message = format!(
        "the node {node} speaks {theirs} with other nodes, and this one ({}) protocol {PROTOCOL}: upgrade the older of them \
         (`duramen node list` shows their versions)",
        env!("CARGO_PKG_VERSION")
    );
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "other_protocol", message)
}

impl Peers {
    /// Where a node is reached that is registered and speaks this one's protocol.
    pub(super) fn reached(&self, node: &str) -> Result<String, Refusal> {
        let view = self.fleet.view();
        match view.registration(node) {
            Some(record) if record.protocol != PROTOCOL => {
                Err(other(node, &format!("protocol {} (version {})", record.protocol, record.version)))
            }
            Some(record) => Ok(record.address.clone()),
            None => {
                Err(super::connections::unreachable(node, "not registered", "its registration has ended"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_that_of_the_registration() {
        for name in [ALPN, ALPN_SESSIONS, ALPN_COPIES] {
            assert!(name.ends_with(format!("/{PROTOCOL}").as_bytes()));
        }
    }
}
