//! What can go wrong with watching.

use duramen_postgres::connection::ConnectError;

/// Why a pair cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// A connection string is wrong, or the server cannot be reached.
    #[error("the {node}: {source}; check --{node}")]
    Connect {
        /// `primary` or `standby`.
        node: &'static str,
        /// Why.
        source: ConnectError,
    },
    /// The server refused a question, or did not answer in time.
    #[error("the {node} {described}: {reason}")]
    Refused {
        /// `primary` or `standby`.
        node: &'static str,
        /// Which server.
        described: String,
        /// What it said.
        reason: String,
    },
    /// The role does not see what others wait for.
    #[error(
        "the role {role} does not see what other sessions wait for on the {node} {described}; run there, or on its \
         primary: GRANT pg_monitor TO {quoted};"
    )]
    Rights {
        /// `primary` or `standby`.
        node: &'static str,
        /// Which server.
        described: String,
        /// Who we are there.
        role: String,
        /// The same as SQL.
        quoted: String,
    },
    /// The server is not what it was named as.
    #[error("{described} is {is}; {advice}")]
    Role {
        /// Which server.
        described: String,
        /// What it is.
        is: &'static str,
        /// What to name instead.
        advice: &'static str,
    },
    /// A standby that does not stream from the primary.
    #[error("{described} is a standby of another cluster than {primary}; name a standby of that primary")]
    Stranger {
        /// The standby.
        described: String,
        /// The primary.
        primary: String,
    },
}
