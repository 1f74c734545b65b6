//! What whoever operates several machines asks: what is wrong, what to do next, and a backup of what the machines agree on.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`finding`] | a finding: how bad, what, and what to do |
//! | [`fleet`] | those of a fleet of daemons and its etcd |
//! | `shards` | those of databases that run durable functions together (feature `functions`) |
//! | `backup` | what they agree on as one file (feature `fleet`) |
//!
//! It looks at what was asked already, and asks nobody: what is asked, and with which limits, is `GET /v1/cluster` of a daemon, and
//! `Cluster::health` of the functions. The invariants OP-1 to OP-7 that comments and tests name are in `docs/design/operating.md`.
//!
//! # Examples
//! ```
//! use duramen_operate::finding::{Finding, Kind, Severity};
//! let found = Finding::new(Kind::EtcdSingle, "etcd", "it has one member", "add two more");
//! assert_eq!((found.severity, found.kind.name()), (Severity::Warning, "etcd-single"));
//! ```
#![deny(rustdoc::broken_intra_doc_links)]

#[cfg(feature = "fleet")]
pub mod backup;
pub mod finding;
pub mod fleet;
#[cfg(feature = "functions")]
pub mod shards;
