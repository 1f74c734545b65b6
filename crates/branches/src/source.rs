//! Sources: where branches' data come from, and the snapshots made of them.

pub(crate) mod address;
mod base_backup;
pub(crate) mod cage;
pub(crate) mod connection;
pub(crate) mod contents;
mod data_directory;
mod definitions;
pub(crate) mod digest;
mod draft;
mod dump;
pub(crate) mod fingerprint;
pub(crate) mod flights;
pub(crate) mod follow;
pub(crate) mod import;
mod inventory;
pub(crate) mod manifest;
pub(crate) mod masking;
pub(crate) mod origin_server;
pub(crate) mod origin_wal;
pub(crate) mod own_role;
pub(crate) mod refusal;
pub(crate) mod sanitise;
pub(crate) mod snapshot;
pub(crate) mod stall;
pub(crate) mod standby;
mod tablespaces;
mod warm_up;
