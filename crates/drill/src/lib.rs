//! Drills: what a cluster does when a machine of it dies, hangs, or loses its network, and what its clients see of it.
//!
//! The engine knows no particular cluster: a [`Network`] is a place for nodes whose cable can be pulled, a [`Program`] is a
//! process in it that can be killed or held, with everything below it, and a [`Ledger`] holds what clients were told and
//! says what became of it. [`etcd`] and [`patroni`] start those two. On top of it is the suite [`Failover`], by which
//! `duramen lab drill failover` measures Patroni, and [`Shards`], by which `duramen lab drill shards` measures durable functions over
//! several databases, some of which fail over.
//!
//! Everything runs in a folder with a guardian: when this process ends, in whatever way, no process, no network and no file is
//! left. See `docs/design/drills.md`.

pub mod disk;
mod error;
pub mod etcd;
pub mod failover;
pub mod http;
pub mod ledger;
pub mod network;
pub mod patroni;
pub mod program;
pub mod shards;
pub mod writer;

pub use error::DrillError;
pub use failover::Failover;
pub use ledger::Ledger;
pub use network::Network;
pub use program::Program;
pub use shards::Shards;
