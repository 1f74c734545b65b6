//! The suite "store": every operation of the embedded database at every level of durability.
//!
//! There is one store on disk for each level. Each operation is taken up at each level in short slices that are
//! interleaved in a random order, so that what else the machine does meets all levels alike. What an operation
//! costs the log is counted beside its latency: appends, syncs and bytes do not depend on the machine.
//!
//! A run fills the stores (`level`), runs the operations (`ops`, `slice`), notes what was taken (`sample`), reads
//! it back as a matrix (`matrix`), checks and diagnoses it (`checks`, `findings`), holds it against the bars
//! (`bars`), and tells (`table`, `report`). [`diagnose`] applies the rules to a document of an earlier run.

pub mod bars;
pub mod checks;
mod data;
mod error;
pub mod findings;
mod floor;
mod level;
pub mod matrix;
mod names;
pub mod ops;
mod options;
mod priority;
mod report;
mod sample;
mod slice;
mod suite;
mod table;

use duramen_measure::evidence::{Evidence, Finding};

use crate::text;

pub use error::StoreLabError;
pub use names::matches;
pub use options::{Options, Sabotage, ROWS, ROWS_MIN, VECTORS};
pub use report::page;
pub use table::print_table;

/// The name of the suite in its evidence.
pub const SUITE: &str = "store";

/// Runs the suite and writes the documents that `options` names. `say` is told what is being done, if
/// `options.progress`.
///
/// ```no_run
/// use duramen_lab::store::{print_table, run, Options};
///
/// let options = Options { ops: "kv.*".to_owned(), rows: 20_000, seconds: 0.2, ..Options::new("out") };
/// let evidence = run(&options, &|doing| eprintln!("{doing}"))?;
/// println!("{}", print_table(&evidence));
/// # Ok::<(), duramen_lab::store::StoreLabError>(())
/// ```
///
/// # Errors
/// When the options make no sense, the stores cannot be made and filled, or a document cannot be written. An
/// operation that fails is no error: it is told, and fails a check.
pub fn run(options: &Options, say: &dyn Fn(&str)) -> Result<Evidence, StoreLabError> {
    options.validate()?;
    let quiet = |_: &str| {};
    let say: &dyn Fn(&str) = if options.progress { say } else { &quiet };
    let evidence = suite::measure(options, say)?;
    let (json, html) = (options.json.as_deref(), options.html.as_deref());
    text::write::<StoreLabError>(&evidence, json, html, || report::page(&evidence))?;
    Ok(evidence)
}

/// Applies the rules to a document of this suite, whatever findings it has itself.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    findings::of_document(evidence)
}
