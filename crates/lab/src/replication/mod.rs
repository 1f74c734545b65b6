//! The suite "replication": what each level of `synchronous_commit` costs, when commits stop, and whether the reason is
//! the one that is named.

pub mod advice;
pub mod bars;
pub mod checks;
pub mod error;
pub mod expect;
pub mod figures;
pub mod findings;
pub mod level;
pub mod options;
pub mod outcome;
pub mod pair;
pub mod pass;
pub mod plan;
mod report;
pub mod restore;
pub mod scenario;
pub mod suite;
pub mod summary;
pub mod table;
mod timeline;

use duramen_measure::evidence::{Evidence, Finding};

use crate::text;

pub use error::ReplicationError;
pub use level::Level;
pub use options::Options;
pub use report::page;
pub use table::print_table;

/// The name of the suite in its evidence.
pub const SUITE: &str = "replication";

/// Runs the suite and writes the documents that `options` names. `say` is told what is being done, if
/// `options.progress`. Everything that was changed is put back and everything that was started is stopped when it
/// returns, also when it is interrupted.
///
/// ```no_run
/// use duramen_lab::replication::{run, Options};
///
/// let options = Options { quick: true, ..Options::new("out", "target/release/duramen") };
/// let evidence = run(&options, &|doing| eprintln!("{doing}"))?;
/// println!("{}", evidence.verdict);
/// # Ok::<(), duramen_lab::replication::ReplicationError>(())
/// ```
///
/// # Errors
/// As [`run_to_end`], and when something could not be put back (the documents are written then, with the check
/// `settings_restored` failed).
pub fn run(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Evidence, ReplicationError> {
    let Ran { evidence, unrestored } = run_to_end(options, say)?;
    unrestored.map_or(Ok(evidence), Err)
}

/// What a run has brought back.
#[derive(Debug)]
pub struct Ran {
    /// The evidence, which was written where `options` say.
    pub evidence: Evidence,
    /// Why not everything could be put back, or be seen to be: the run has failed then, but not for nothing.
    pub unrestored: Option<ReplicationError>,
}

/// As [`run`], for who has something to do with the evidence also when not everything could be put back.
///
/// # Errors
/// When the options make no sense, the servers are not what is needed, the run is interrupted, or a document cannot be
/// written. A scenario that fails is no error: it is told, and fails a check.
pub fn run_to_end(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Ran, ReplicationError> {
    let quiet = |_: &str| {};
    let say: &(dyn Fn(&str) + Sync) = if options.progress { say } else { &quiet };
    std::fs::create_dir_all(&options.dir).map_err(|source| ReplicationError::Folder {
        doing: "make",
        path: options.dir.clone(),
        source,
    })?;
    // A thread of its own: the caller may be within a runtime, and one thread is all that the load is to take.
    let ran = std::thread::scope(|scope| {
        let thread = scope.spawn(|| suite::run(options, say));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let (json, html) = (options.json.as_deref(), options.html.as_deref());
    text::write::<ReplicationError>(&ran.evidence, json, html, || report::page(&ran.evidence))?;
    Ok(ran)
}

/// Applies the rules to a document of this suite, whatever findings it has itself.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    [findings::invalid(&summary::Summary::of(evidence)), findings::of_document(evidence)].concat()
}
