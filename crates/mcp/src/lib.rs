//! The door for agents: the daemon's interface as tools of the Model Context Protocol, over the standard streams of a program that
//! an agent starts ([`serve_stdio`]), or at `/mcp` of the HTTP door, which is in the daemon ([`Here`]).
//!
//! Each tool is one or two requests of the interface, made as any other client makes them; so nothing is allowed here that is not
//! allowed there. The invariants M1 to M6 that comments and tests name are in `docs/design/doors.md`.
//!
//! Source: the specification of the protocol, revisions up to 2026-07-28, <https://modelcontextprotocol.io/specification>.

mod arguments;
mod interface;
mod prompts;
mod renewals;
mod resources;
mod rows;
mod schema;
mod server;
mod summary;
mod tools;

use duramen_client::{Client, ClientError};
use interface::Way;
use rmcp::{transport::stdio, ServiceExt};

pub use interface::{Answered, Asker, Here};
pub use server::Server;

/// Why agents were not served, or not to the end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// There is no daemon to work on.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The other side does not speak the protocol.
    #[error("the standard streams do not speak the Model Context Protocol: {0}; an agent starts this command by itself")]
    Protocol(String),
}

/// Serves an agent on the standard input and output until the input ends. A daemon that ends meanwhile makes tools fail, and they
/// work again with the next one.
///
/// # Errors
/// [`McpError::Client`] when there is no daemon now or its token is wrong, [`McpError::Protocol`] when the other side begins with something else.
///
/// # Examples
/// ```no_run
/// use duramen_client::Client;
/// ///
/// # async fn example() -> Result<(), duramen_mcp::McpError> {
/// duramen_mcp::serve_stdio(Client::new("/var/lib/duramen".as_ref())).await?;
/// # Ok(())
/// # }
/// ```
pub async fn serve_stdio(client: Client) -> Result<(), McpError> {
    // Who set this up wrongly learns of it at once, and not in the middle of a conversation.
    let mut connection = client.connect().await?;
    connection.branches().await?;
    let server = Server::new(Way::of_client(client, connection));
    let running = server.serve(stdio()).await.map_err(|error| McpError::Protocol(error.to_string()))?;
    running.waiting().await.map(drop).map_err(|error| McpError::Protocol(error.to_string()))
}
