//! The suite "functions": durable functions under load, against kills, and over time.
//!
//! It starts a PostgreSQL server of its own, puts the schema into it, and runs the worker as a process of its own;
//! its clients know nothing but the public SQL surface. A *trivial instance* is `df.start('SELECT 1')`, the
//! notification of its end, and its result read with `df.results`.
//!
//! The server, the worker and a scratch folder make a bench (`bench`, `server`, `worker`). The phases run
//! on it (`calibration` with `counters` and `idle`, `throughput`, `saturation` with `listing`, `queues`, `mixed`, `restart` with
//! `ledger`, `soak`), the load is that of `load`. What comes out is held against targets (`targets`), checked (`checks`),
//! explained (`findings`) and told (`table`, `report`).

mod bench;
mod calibration;
mod checks;
mod counters;
mod error;
mod findings;
mod floor;
mod idle;
mod lanes;
mod ledger;
mod listing;
mod load;
mod measure;
mod mixed;
mod options;
mod queues;
mod report;
mod restart;
mod saturation;
mod server;
mod shards;
mod soak;
mod statements;
mod steadiness;
mod table;
mod targets;
mod throughput;
mod waits;
mod worker;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::{quantity, Standing};
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{self, Headline, Lead, Measured, Output, Plan, Say, Suite, SuiteError};

pub use options::{Options, Phase, FULL_SECONDS};

/// The suite. Everything that a run has started is stopped when it returns, also when it is interrupted.
///
/// ```no_run
/// use duramen_lab::functions::{Functions, Options, Phase};
/// use duramen_reports::suite::{run, Suite};
///
/// let options = Options { phase: Phase::Calibration, ..Options::new("out", "target/release/duramen") };
/// let evidence = run(&options, &|doing| eprintln!("{doing}"))?;
/// println!("{}", Functions.table(&evidence));
/// # Ok::<(), duramen_reports::suite::SuiteError>(())
/// ```
#[derive(Debug)]
pub struct Functions;

/// The figures that its page shows in large.
const LEADS: &[Lead] = &[
    Lead::p50("completed_per_s/c=32", "instances completed, 32 clients"),
    Lead::p50("end_to_end_ms/c=1", "for one alone, start to result"),
    Lead::p50("start_ms/c=1", "to start one"),
    Lead::p50("lost", "lost under kills"),
    Lead::p50("done_twice", "effects doubled under kills"),
];

impl Suite for Functions {
    fn name(&self) -> &'static str {
        "functions"
    }

    fn about(&self) -> &'static str {
        "Durable functions: what one costs, how many a second, under kills, over time"
    }

    fn targets(&self, evidence: &Evidence) -> Vec<Standing> {
        targets::standings(evidence)
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        findings::find(evidence)
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let rate = evidence.median("completed_per_s/c=32")?;
        let kills = |name: &str| evidence.count_set(name).unwrap_or(0);
        let killed = match (evidence.median("lost"), evidence.median("done_twice")) {
            (Some(lost), Some(twice)) => format!(
                "; {} lost, {} doubled under {} kills",
                number(lost),
                number(twice),
                kills("worker_kills") + kills("postgres_kills")
            ),
            _ => String::new(),
        };
        let reference = targets::completed_by_reference()?;
        Some(Headline::new(
            format!("{} instances a second{killed}", number(rate)),
            format!("{}, the in-database extension", quantity(reference, "1/s")),
        ))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        suite::tiles(evidence, LEADS, &self.targets(evidence))
    }

    fn table(&self, evidence: &Evidence) -> String {
        table::print_table(evidence)
    }

    fn page(&self, evidence: &Evidence) -> Report {
        report::page(evidence)
    }
}

impl Plan for Options {
    fn suite(&self) -> &'static dyn Suite {
        &Functions
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
        measure::run(self, say).map(Measured::from)
    }
}

#[cfg(test)]
#[path = "../tests/unit/functions/suite.rs"]
mod tests;
