//! The daemon's socket on this machine, where the system has such sockets.

use crate::{wire::Wire, Client, ClientError};
use std::path::Path;

/// Connects to a socket, and waits as long as the daemon's queue of new connections is full.
#[cfg(unix)]
pub(crate) async fn connect(client: &Client, socket: &Path) -> Result<Wire, ClientError> {
    use duramen_base::clock;
    use std::{io, time::Duration};
    use tokio::{net::UnixStream, time::sleep};

    /// The pause before another attempt.
    const QUEUE_PAUSE: Duration = Duration::from_millis(2);
    let begin = clock::now();
    loop {
        let source = match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(Wire::Unix(stream)),
            Err(error) => error,
        };
        match source.kind() {
            // A unix socket whose queue is full refuses at once instead of waiting.
            io::ErrorKind::WouldBlock if begin.elapsed() < client.deadline => sleep(QUEUE_PAUSE).await,
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                return Err(ClientError::NotRunning { home: client.place.to_string() });
            }
            _ => return Err(ClientError::Connect { socket: socket.display().to_string(), source }),
        }
    }
}

#[cfg(not(unix))]
pub(crate) async fn connect(client: &Client, _: &Path) -> Result<Wire, ClientError> {
    Err(ClientError::NotRunning { home: client.place.to_string() })
}
