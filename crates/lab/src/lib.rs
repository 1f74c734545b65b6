//! The lab: suites that measure Duramen from the outside, as its users meet it.
//!
//! Every suite ends in an [`Evidence`](duramen_measure::evidence::Evidence) document: figures with their
//! distributions, checks that the measured thing really happened, and findings in words. A figure that misses its
//! bar is said to miss it; a run in which the mechanism under test did not happen is invalid.
//!
//! | module | what it measures |
//! | --- | --- |
//! | [`branches`] | PostgreSQL branches out of the prepared pool, a hundred at once |
//! | [`compare`] | nothing itself: it compares what two variants measured |
//! | [`diagnosis`] | nothing itself: it applies the rules of the suites to their documents |
//! | [`functions`] | durable functions under load, against kills, and over time |
//! | [`packs`] | access graphs in one file, against SQLite |
//! | [`replication`] | what each level of `synchronous_commit` costs, and why |
//! | [`store`] | every operation of the embedded store at every level of durability |

pub mod branches;
pub mod compare;
pub mod diagnosis;
pub mod functions;
pub mod packs;
pub mod replication;
pub mod rules;
mod scratch;
pub mod store;
mod text;
