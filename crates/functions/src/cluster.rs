//! Several databases that run durable functions together: shards.
//!
//! Each shard is a database of its own, on any PostgreSQL, made highly available by whatever its operator uses. An instance lives on
//! one shard with all that belongs to it, and its id says on which. Each shard keeps the same list of all of them; shard 0 decides
//! what the next version of the list is. No statement for an instance goes to another shard than its own.
//!
//! - [`Cluster`] reads the list and changes it.
//! - [`Clients`] starts instances on any shard, and asks for them by their ids.
//! - [`Lister`] lists the instances of all shards.
//! - [`ClusterWorker`] runs a worker for each shard.

mod clients;
mod copy;
mod health;
mod list;
mod listing;
mod member;
mod metrics;
mod worker;

pub use clients::Clients;
pub use copy::{ListRestored, ShardList};
pub use health::{Health, Replication, Says, Standby, HEALTH_WITHIN};
pub use list::{Cluster, Counts, Shard, ShardState, Standing};
pub use listing::{AllPage, Found, Group, Lister, Wanted, PAGE_MAX};
pub use worker::{ClusterMonitor, ClusterWorker};

use crate::client::ClientError;
use crate::schema::SchemaError;
use crate::worker::WorkerError;
use duramen_postgres::connection::ConnectError;

/// The number of shards that a cluster can ever have, removed ones included: an id has 10 bits for it.
pub const SHARDS_MAX: usize = 1024;

/// Why something of a cluster cannot be read or done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The database has no durable functions, or none that this program can work on.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The database belongs to no cluster.
    #[error("{target} belongs to no cluster: `duramen fn cluster create URL URL ...` makes one")]
    None {
        /// Host and database.
        target: String,
    },
    /// The database was made ready for a list that has not come.
    #[error("{target} was made ready to be shard {number} of a cluster whose list it has not been given: run the same `duramen fn cluster create` or `add` again, or `duramen fn cluster leave` on it")]
    Unlisted {
        /// Host and database.
        target: String,
        /// What it is ready to be.
        number: u16,
    },
    /// There is a cluster already.
    #[error("{target} belongs to a cluster already: `duramen fn cluster add URL` adds a database to it")]
    Already {
        /// Host and database.
        target: String,
    },
    /// Where a shard should be is something else.
    #[error("{target} is not shard {number} of this cluster, though its list leads there: does the name lead to the same machine from everywhere?")]
    Elsewhere {
        /// The shard that was looked for.
        number: u16,
        /// Host and database.
        target: String,
    },
    /// Another shard has a newer list than shard 0, which decides what the list is.
    #[error("shard {number} has version {version} of the list, and shard 0, which decides on it, has version {known}: if shard 0 was restored, `duramen fn cluster believe {number}` puts in force what that shard has; if somebody has written what is not so, `duramen fn cluster believe 0` does with what shard 0 has")]
    Ahead {
        /// The shard.
        number: u16,
        /// What it has.
        version: i64,
        /// What shard 0 has.
        known: i64,
    },
    /// There is nothing to be believed.
    #[error("shard {number} has version {version} of the list, which is not newer than that of shard 0, or by more changes than there can have been: there is nothing to put in force")]
    NotAhead {
        /// The shard.
        number: u16,
        /// What it has.
        version: i64,
    },
    /// Two lists have one version.
    #[error("shard {number} has another list of version {version} than shard 0, which has gone back, or somebody has written what is not so: compare df._shard on both; `duramen fn cluster believe 0` puts in force what shard 0 has")]
    Split {
        /// The shard.
        number: u16,
        /// The version.
        version: i64,
    },
    /// A list that was kept is another cluster's.
    #[error("the list is of the cluster {of}, and this is {cluster}")]
    Foreign {
        /// Whose it is.
        of: String,
        /// The cluster that was asked.
        cluster: String,
    },
    /// The same database was named twice.
    #[error("{first} and {second} are the same database: a shard is a database of its own")]
    Same {
        /// Host and database.
        first: String,
        /// Host and database, as the other is written.
        second: String,
    },
    /// There is no shard of this number.
    #[error("there is no shard {number} in version {version} of the list")]
    NoShard {
        /// The number that was asked for.
        number: u16,
        /// The list's version.
        version: i64,
    },
    /// No number is left for another shard.
    #[error("the cluster has had {SHARDS_MAX} shards, and ids have room for no more")]
    Full,
    /// No shard takes new instances.
    #[error("every shard of the cluster is draining or removed: open one with `duramen fn cluster open N`, or add one")]
    NoneOpen,
    /// Shard 0 decides what the list is.
    #[error("shard 0 keeps the list of the cluster, and cannot be removed; it can be drained")]
    Decider,
    /// Only a shard that takes no starts and has ended what it had can be removed.
    #[error("shard {number} is {state} and has {left} instances that have not ended: drain it, and wait until there are none")]
    NotEmpty {
        /// Its number.
        number: u16,
        /// Its state.
        state: ShardState,
        /// How many instances have not ended.
        left: i64,
    },
    /// A state that a shard cannot get from the one it has.
    #[error("shard {number} was removed, and its number is not used again: add the database as a new shard, if it is empty")]
    Removed {
        /// Its number.
        number: u16,
    },
    /// A server did not answer in time.
    #[error("{target} did not answer within {after_s} s; is the server up?")]
    Late {
        /// Host and database.
        target: String,
        /// How long was waited, in seconds.
        after_s: u64,
    },
    /// The server refused a statement.
    #[error("{target}: {cause}")]
    Server {
        /// Host and database.
        target: String,
        /// The server's words.
        cause: String,
    },
    /// A worker could not begin on any shard.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// An instance could not be started or asked for.
    #[error(transparent)]
    Client(#[from] ClientError),
}
