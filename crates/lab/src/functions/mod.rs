//! The suite "functions": durable functions under load, against kills, and over time.
//!
//! It starts a PostgreSQL server of its own, puts the schema into it, and runs the worker as a process of its own;
//! its clients know nothing but the public SQL surface. A *trivial instance* is `df.start('SELECT 1')`, the
//! notification of its end, and its result read with `df.result`.
//!
//! The server, the worker and a scratch folder make a bench (`bench`, `server`, `worker`). The phases run
//! on it (`calibration` with `counters` and `idle`, `throughput`, `saturation` with `listing`, `mixed`, `restart` with
//! `ledger`, `soak`), the load is that of `load`. What comes out is held against bars (`bars`), checked (`checks`),
//! explained (`findings`) and told (`table`, `report`).

pub mod bars;
mod bench;
mod calibration;
pub mod checks;
mod counters;
mod error;
mod findings;
mod floor;
mod idle;
pub mod ledger;
mod listing;
mod load;
mod mixed;
mod options;
mod report;
mod restart;
mod saturation;
mod server;
mod soak;
mod statements;
mod suite;
mod table;
mod throughput;
mod waits;
mod worker;

use duramen_measure::evidence::{Evidence, Finding};

use crate::text;

pub use error::FunctionsLabError;
pub use options::{Options, Phase, Sizes, FULL_SECONDS, SOAK_MINUTES};
pub use report::page;
pub use statements::{count_statements, Statements};
pub use table::print_table;

/// The name of the suite in its evidence.
pub const SUITE: &str = "functions";

/// Runs the suite and writes the documents that `options` names. `say` is told what is being done, if
/// `options.progress`. Everything that it has started is stopped when it returns, also when it is interrupted.
///
/// ```no_run
/// use duramen_lab::functions::{print_table, run, Options, Phase};
///
/// let options = Options { phase: Phase::Calibration, ..Options::new("out", "target/release/duramen") };
/// let evidence = run(&options, &|doing| eprintln!("{doing}"))?;
/// println!("{}", print_table(&evidence));
/// # Ok::<(), duramen_lab::functions::FunctionsLabError>(())
/// ```
///
/// # Errors
/// When the options make no sense, the server or the worker does not start, the run is interrupted, or a document
/// cannot be written. An instance that fails is no error: it is told, and fails a check.
pub fn run(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Evidence, FunctionsLabError> {
    options.validate()?;
    let quiet = |_: &str| {};
    let say: &(dyn Fn(&str) + Sync) = if options.progress { say } else { &quiet };
    // A thread of its own: the caller may be within a runtime, and one thread is all that the load is to take.
    let evidence = std::thread::scope(|scope| {
        let thread = scope.spawn(|| suite::run(options, say));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let (json, html) = (options.json.as_deref(), options.html.as_deref());
    text::write::<FunctionsLabError>(&evidence, json, html, || report::page(&evidence))?;
    Ok(evidence)
}

/// Applies the rules to a document of this suite, whatever findings it has itself.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    findings::of(evidence)
}
