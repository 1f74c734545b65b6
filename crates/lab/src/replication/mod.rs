//! The suite "replication": what each level of `synchronous_commit` costs, when commits stop, and whether the reason is
//! the one that is named.

pub mod advice;
pub mod bars;
pub mod checks;
pub mod error;
pub mod figures;
pub mod findings;
pub mod level;
pub mod options;
pub mod outcome;
pub mod pair;
pub mod pass;
mod report;
pub mod scenario;
pub mod summary;
pub mod table;
mod timeline;

pub use error::ReplicationError;
pub use level::Level;
pub use options::Options;
pub use report::page;
pub use table::{print_findings, print_table};

/// The name of the suite in its evidence.
pub const SUITE: &str = "replication";
