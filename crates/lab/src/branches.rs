//! The suite "branches": rounds of many branches at once, each of which is created, queried twice, written to
//! and destroyed by a client of its own.
//!
//! Latencies are taken at the client, through the daemon's socket, from the request being sent to its reply
//! being read. All clients of a round are released by one barrier. The load generator shares the machine with
//! the daemon and the branches' servers, so whatever can be prepared before the barrier is.
//!
//! The order of a run: reach or start a daemon (`daemon`), have the source and size the pool (`source`), wait
//! until it is full (`pool`), fingerprint the live source, draw the work (`workload`, `probe`), run the
//! rounds (`rounds`, `client`) by the clients of the runner (`clients`: `wire`, `psql`, `node`), the extra burst over
//! the wire (`wire`), branches without the pool (`cold`), sources of two sizes (`scale`), fingerprint again and check
//! (`checks`), hold the figures against the targets (`targets`), and tell (`report`, `table`).

pub(crate) mod checks;
mod client;
mod clients;
mod cold;
pub(crate) mod control;
pub(crate) mod daemon;
pub(crate) mod figures;
mod findings;
mod measure;
mod node;
mod options;
pub(crate) mod pool;
mod probe;
mod program;
mod psql;
mod reply;
mod report;
mod rounds;
mod router;
pub(crate) mod scale;
pub(crate) mod source;
mod statement;
mod sweep;
mod table;
mod targets;
mod wire;
mod workload;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::Standing;
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{self, Headline, Lead, Measured, Output, Plan, Say, Suite, SuiteError};
use tokio::runtime::Builder;

pub use options::{Options, Runner, Write};
pub use table::print_figures;

/// The suite.
#[derive(Debug)]
pub struct Branches;

/// The figures that its page shows in large.
const LEADS: &[Lead] = &[
    Lead::p95("lease_ms", "to lease a branch, p95"),
    Lead::p95("first_query_ms", "to the first query's answer, p95"),
    Lead::p50("wall_ms", "for all of a round, from create to destroy"),
    Lead::p50("cold_branch_ms", "to a branch without a pool"),
    Lead::p50("refill_ms", "to refill the pool"),
    Lead::p50("idle_branch_pss_bytes", "of memory for an idle branch"),
];

impl Suite for Branches {
    fn name(&self) -> &'static str {
        "branches"
    }

    fn about(&self) -> &'static str {
        "Rounds of many branches at once: create, query, write, destroy"
    }

    fn targets(&self, evidence: &Evidence) -> Vec<Standing> {
        targets::standings(evidence)
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        findings::find(evidence)
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let lease = evidence.measurement("lease_ms").filter(|figure| figure.count > 0)?;
        let figure = format!(
            "a branch in {} ms (p95, {} clients at once, {} leases)",
            number(lease.p95),
            evidence.count_set("concurrency").unwrap_or(0),
            lease.count
        );
        let reference = targets::reference("lease_ms")?;
        Some(Headline::new(figure, format!("{} ms, the best published", number(reference))))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        suite::tiles(evidence, LEADS, &self.targets(evidence))
    }

    fn table(&self, evidence: &Evidence) -> String {
        table::print_table(evidence)
    }

    fn page(&self, evidence: &Evidence) -> Report {
        report::page(evidence, &[])
    }
}

impl Plan for Options {
    fn suite(&self) -> &'static dyn Suite {
        &Branches
    }

    fn output(&self) -> &Output {
        &self.output
    }

    fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    fn validate(&self) -> Result<(), SuiteError> {
        self.check()
    }

    fn measure(&self, say: Say<'_>) -> Result<Measured, SuiteError> {
        let runtime = Builder::new_multi_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| SuiteError::Failed(format!("cannot start the runtime: {error}")))?;
        runtime.block_on(run(self, say))
    }
}

/// Measures with the daemon that answers for the home directory, or with one that is started there and stopped at the
/// end. The source's own pool and settings are put back afterwards. Branches that fail are counted, and fail a check.
///
/// # Errors
/// When no daemon can be reached or started, or the source is unknown or cannot take the writes.
pub async fn run(options: &Options, say: Say<'_>) -> Result<Measured, SuiteError> {
    options.check()?;
    wire::raise_file_limit(options);
    let place = daemon::Place {
        home: &options.home,
        exe: &options.exe,
        volumes: options.volumes,
        volume_size: options.volume_size,
    };
    let mut daemon = daemon::reach(&place, say).await?;
    let measured = measure::measure(options, &mut daemon, say).await;
    let owned = daemon.is_owned();
    let stopped = daemon.stop(say).await;
    // The suite's own failure is told rather than that of stopping the daemon, which may follow from it.
    let mut measured = measured?;
    stopped?;
    if owned {
        measured.leftovers.add(checks::left_in_home(&options.home));
    }
    let (evidence, rounds) = measured.conclude();
    let page = options.output.html.is_some().then(|| report::page(&evidence, &rounds));
    Ok(Measured { page, ..evidence.into() })
}

#[cfg(test)]
#[path = "../tests/unit/branches/suite.rs"]
mod tests;
