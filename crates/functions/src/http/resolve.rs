//! Names become addresses here and nowhere else, so that the address that was judged is the one that is called.
//!
//! The HTTP client asks this resolver when it opens a connection and connects to what the answer holds: there is no
//! second look-up in which a name could point elsewhere.

use std::io;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;

use super::address::{scope, Scope};
use super::policy::Reach;

/// A resolver that gives addresses within a reach only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolver {
    /// The reach.
    pub(super) reach: Reach,
}

/// Why a name gives no address to connect to.
#[derive(Debug, Error)]
pub(super) enum ResolveError {
    /// The name service gave none.
    #[error("host {host} cannot be resolved: {error}")]
    Unknown {
        /// The name.
        host: String,
        /// What the name service said.
        error: io::Error,
    },
    /// It gave one that must not be called. The text has the kind of the address and not the address, because the
    /// names of an internal network are not the submitter's to explore.
    #[error(
        "host {host} resolves to a {kind} address, which is not in the allowed ranges: a host with private addresses \
         needs df.http_allow_private = 'on' and an entry of its own (not *) in df.http_allowed_hosts"
    )]
    Private {
        /// The name.
        host: String,
        /// The kind of the address.
        kind: &'static str,
    },
    /// It gave one that no server can have.
    #[error("host {host} resolves to a {kind} address, which no server can have")]
    Never {
        /// The name.
        host: String,
        /// The kind of the address.
        kind: &'static str,
    },
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.reach;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            // Port 0 is replaced by that of the URL.
            let found = tokio::net::lookup_host((host.as_str(), 0)).await;
            let found = found.map_err(|error| ResolveError::Unknown { host: host.clone(), error })?.collect();
            Ok(Box::new(screen(&host, found, reach)?.into_iter()) as Addrs)
        })
    }
}

/// The addresses of a name, if every one of them is within reach. One address beyond it spoils the answer: a name
/// that mixes public and private addresses is a mistake or an attack.
pub(super) fn screen(
    host: &str,
    addresses: Vec<SocketAddr>,
    reach: Reach,
) -> Result<Vec<SocketAddr>, ResolveError> {
    if addresses.is_empty() {
        let error = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        return Err(ResolveError::Unknown { host: host.to_owned(), error });
    }
    for address in &addresses {
        match scope(address.ip()) {
            Scope::Public => {}
            Scope::Private(_) if reach == Reach::Private => {}
            Scope::Private(kind) => return Err(ResolveError::Private { host: host.to_owned(), kind }),
            Scope::Never(kind) => return Err(ResolveError::Never { host: host.to_owned(), kind }),
        }
    }
    Ok(addresses)
}
