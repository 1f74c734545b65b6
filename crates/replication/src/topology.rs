//! Several standbys: how far and how late each is, for which of them commits wait, and what one costs that is slow, hangs or
//! dies. See `docs/design/topologies.md`.

pub mod arrangement;
pub mod decide;
pub mod document;
mod load;
mod measure;
pub mod options;
pub mod quorum;
mod run;
pub mod sample;
mod servers;

pub use arrangement::{Arrangement, Expected, Fault};
pub use document::Topologies;
pub use options::Options;
