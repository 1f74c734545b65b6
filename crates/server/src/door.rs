//! What both doors have in common, the router and the HTTP door: how they listen, and what keeps one client from taking what
//! others need. Invariants R3, H6 and H8 in `docs/design/doors.md`.

mod failures;
mod places;
mod share;
mod strangers;

pub(crate) use failures::Failures;
pub(crate) use places::{Place, Places};
pub(crate) use share::Share;
pub(crate) use strangers::{Stranger, Strangers};

use rustix::net::sockopt;
use std::{io, net::SocketAddr, time::Duration};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections that wait to be accepted. The kernel lowers it to `net.core.somaxconn`.
const BACKLOG: u32 = 4096;
/// A client that says nothing for so long is asked by the kernel whether it is there; so often, and so many times before it counts
/// as gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EACH: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMES: u32 = 6;

/// What is counted over both doors.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The connections of tokens and branches.
    pub(crate) places: Places,
    /// Wrong secrets.
    pub(crate) failures: Failures,
}

/// Listens at an address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of an earlier daemon may linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Prepares a connection: what is written is not held back for more to come, and a client whose machine or network is gone is
/// noticed within two minutes.
pub(crate) fn prepare(stream: &TcpStream) {
    let prepared = stream.set_nodelay(true).and_then(|()| {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(stream, KEEPALIVE_EACH)?;
        sockopt::set_tcp_keepcnt(stream, KEEPALIVE_TIMES)?;
        Ok(())
    });
    // It serves as well without.
    if let Err(error) = prepared {
        tracing::debug!(%error, "a connection cannot be prepared");
    }
}
