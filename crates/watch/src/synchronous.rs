//! How many standbys a commit waits for: what `synchronous_standby_names` says.

pub use duramen_replication::topology::quorum::Quorum;
