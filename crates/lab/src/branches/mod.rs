//! The suite "branches": rounds of many branches at once, each of which is created, queried twice, written to
//! and destroyed by a client of its own.
//!
//! Latencies are taken at the client, through the daemon's socket, from the request being sent to its reply
//! being read. All clients of a round are released by one barrier. The load generator shares the machine with
//! the daemon and the branches' servers, so whatever can be prepared before the barrier is.
//!
//! The order of a run: reach or start a daemon (`daemon`), have the source and size the pool (`source`), wait
//! until it is full (`settle`), fingerprint the live source, draw the work (`workload`, `probe`), run the
//! rounds (`rounds`, `client`), the extra burst over the wire (`wire`), branches without the pool (`cold`),
//! two sizes of the source (`scale`), fingerprint again and check (`checks`), hold the figures against the
//! bars (`bars`), and tell (`report`, `table`).

pub mod bars;
pub mod checks;
mod client;
mod cold;
mod control;
mod daemon;
mod error;
mod figures;
mod findings;
mod options;
mod probe;
mod reply;
mod report;
mod rounds;
pub mod scale;
pub mod settle;
mod source;
mod suite;
mod table;
mod wire;
pub mod workload;

use duramen_measure::evidence::{Evidence, Finding};

use crate::text;

pub use error::LabError;
pub use options::{parse_count, Options, Runner, Write};
pub use report::page;
pub use rounds::RoundFigures;
pub use table::print_table;

/// The name of the suite in its evidence.
pub const SUITE: &str = "branches";

/// Runs the suite and writes the documents that `options` names.
///
/// A daemon that answers for the home directory is used; otherwise one is started there and stopped at the
/// end. The source's own pool and settings are put back afterwards. `say` is told what is being done, if
/// `options.progress`.
///
/// # Errors When the options make no sense, no daemon can be reached or started, the source is unknown or
/// cannot take the writes, or a document cannot be written. Branches that fail are no error: they are
/// counted, and fail a check.
pub async fn run(options: Options, say: &dyn Fn(&str)) -> Result<Evidence, LabError> {
    options.validate()?;
    let quiet = |_: &str| {};
    let say: &dyn Fn(&str) = if options.progress { say } else { &quiet };
    wire::raise_file_limit(options.concurrency);
    let mut daemon = daemon::reach(&options, say).await?;
    let measured = suite::measure(&options, &mut daemon, say).await;
    let owned = daemon.is_owned();
    let stopped = daemon.stop(say).await;
    // The suite's own failure is told rather than that of stopping the daemon, which may follow from it.
    let mut measured = measured?;
    stopped?;
    if owned {
        measured.leftovers.add(checks::left_in_home(&options.home));
    }
    let (evidence, rounds) = measured.conclude();
    let (json, html) = (options.json.as_deref(), options.html.as_deref());
    text::write::<LabError>(&evidence, json, html, || report::page(&evidence, &rounds))?;
    Ok(evidence)
}

/// Applies the rules to a document of this suite, whatever findings it has itself.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    findings::of(evidence)
}
