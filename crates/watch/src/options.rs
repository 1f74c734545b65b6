//! What is watched.

/// Which servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The connection string of the primary.
    pub primary: String,
    /// Those of standbys, which say why their replay is behind. Without one, the stage is known, and not the cause.
    pub standbys: Vec<String>,
}
