//! The suite "packs": access graphs written, read and changed, against SQLite on the same rows.
//!
//! Every engine runs in a process of its own for every size, so that its peak memory is its own: the suite starts the
//! `duramen` program again (`--part`). Engines take turns; every figure of a size is taken several times.

pub mod alloc;
pub mod bars;
mod c1z3;
pub mod engine;
mod error;
mod options;
mod pack;
mod part;
mod report;
mod sqlite;
mod suite;
mod table;
pub mod workload;

use duramen_measure::evidence::{Evidence, Finding};

use crate::text;

pub use alloc::Counting;
pub use engine::EngineName;
pub use error::PacksLabError;
pub use options::Options;
pub use part::{run_part, Figures, Part};
pub use report::page;
pub use table::print_table;

/// The name of the suite in its evidence.
pub const SUITE: &str = "packs";

/// Runs the suite and writes the documents that `options` names. `say` is told what is being done.
///
/// # Errors
/// When the options make no sense, a process of the suite fails, or a document cannot be written.
pub fn run(options: &Options, say: &dyn Fn(&str)) -> Result<Evidence, PacksLabError> {
    options.validate()?;
    let evidence = suite::run(options, say)?;
    let (json, html) = (options.json.as_deref(), options.html.as_deref());
    text::write::<PacksLabError>(&evidence, json, html, || report::page(&evidence))?;
    Ok(evidence)
}

/// Applies the rules to a document of this suite, whatever findings it has itself: the bars that were missed.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    bars::missed(evidence)
}
