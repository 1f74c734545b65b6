//! The lab: suites that measure Duramen from the outside, as its users meet it.
//!
//! Every suite ends in an [`Evidence`](duramen_measure::evidence::Evidence) document: figures with their
//! distributions, checks that the measured thing really happened, and findings in words. A figure that misses its
//! target is said to miss it; a run in which the mechanism under test did not happen is invalid.
//!
//! | module | what it measures |
//! | --- | --- |
//! | [`branches`] | PostgreSQL branches out of the prepared pool, a hundred at once |
//! | [`functions`] | durable functions under load, against kills, and over time |
//! | [`lineage`] | branches of branches, in the shapes of BranchBench |
//! | [`packs`] | access graphs in one file, against SQLite |
//! | [`store`] | every operation of the embedded store at every level of durability |

pub mod branches;
pub mod functions;
pub mod lineage;
pub mod packs;
pub mod store;

use duramen_reports::suite::Suite;

/// The suites of this crate.
pub const SUITES: [&dyn Suite; 5] =
    [&branches::Branches, &store::Store, &functions::Functions, &packs::Packs, &lineage::Lineage];
