//! Sources: where branches' data come from, and the snapshots made of them.

pub(crate) mod cage;
pub(crate) mod connection;
pub(crate) mod contents;
mod definitions;
pub(crate) mod digest;
mod dump;
pub(crate) mod fingerprint;
pub(crate) mod flights;
pub(crate) mod import;
pub(crate) mod manifest;
pub(crate) mod origin_server;
pub(crate) mod refusal;
pub(crate) mod sanitise;
pub(crate) mod snapshot;
