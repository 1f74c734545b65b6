//! PostgreSQL clusters as values.
//!
//! This crate finds server binaries ([`Installation`]), runs servers as an unprivileged user
//! ([`ServerUser`], [`Cluster`], [`Postmaster`]), speaks to them ([`Session`]) and clones their data
//! directories ([`volume`]). What it starts ends with its process ([`Guardian`], [`Scratch`]). With the feature `connections`
//! it connects to servers of others by URL (`connection`). It knows nothing of branches, leases or policies.
//!
//! ```no_run
//! use duramen_postgres::{Cluster, Installation, ServerUser, Settings};
//! use std::{path::Path, time::Duration};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let home = Path::new("/var/lib/duramen");
//! let installation = Installation::choose(home, None)?;
//! let cluster = Cluster::new(installation, "/var/lib/duramen/demo", ServerUser::current()?);
//! cluster.init("postgres", true)?;
//! let mut server = cluster.start(Path::new("/var/lib/duramen/s"), &Settings::minimal(18), Duration::from_secs(10))?;
//! server.stop(duramen_postgres::StopMode::Fast, Duration::from_secs(10))?;
//! # Ok(())
//! # }
//! ```

pub mod account;
mod cluster;
mod collect;
#[cfg(feature = "connections")]
pub mod connection;
mod control_group;
mod conversation;
mod entry;
mod frames;
mod guardian;
mod hold;
mod installation;
mod json;
mod page;
mod passage;
mod postmaster;
pub mod scram;
mod scratch;
mod secret;
mod session;
mod settings;
mod shut;
mod standby;
mod user;
pub mod volume;

pub use cluster::{Cluster, ClusterError};
pub use control_group::{memory_available, memory_total, ControlGroup, ControlGroups, GroupLimits};
pub use conversation::Conversation;
pub use entry::{log_in, Entry, EntryError};
pub use guardian::Guardian;
pub use hold::Hold;
pub use installation::{find_packages, Features, Installation, InstallationError, Version, PACKAGES_DIR};
pub use page::{open_file, StoredText};
pub use postmaster::{
    can_run, end_processes, is_stopped, processes_below, LogFile, Postmaster, StartError, StopError, StopMode,
};
pub use scratch::{Scratch, ScratchError};
pub use secret::Secret;
pub use session::{Canceller, Column, Guard, Outcome, ServerError, Session, SessionError, Statement};
pub use settings::{quote_identifier, quote_literal, quote_parameter, Settings};
pub use shut::Shut;
pub use user::{ServerUser, UserError, GROUP, SERVERS};

/// The port number that names the unix socket of every cluster (`.s.PGSQL.5432`). No TCP port is opened.
pub const SOCKET_PORT: u16 = 5432;

/// The longest path of a socket directory: Linux allows 107 bytes for the whole socket name.
pub const SOCKET_DIR_MAX: usize = 107 - "/.s.PGSQL.5432.lock".len();
