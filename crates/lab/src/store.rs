//! The suite "store": every operation of the embedded database at every level of durability.
//!
//! There is one store on disk for each level. Each operation is taken up at each level in short slices that are
//! interleaved in a random order, so that what else the machine does meets all levels alike. What an operation
//! costs the log is counted beside its latency: appends, syncs and bytes do not depend on the machine.
//!
//! A run fills the stores (`level`), runs the operations (`ops`, `slice`), notes what was taken (`sample`), reads
//! it back as a matrix (`matrix`), checks and diagnoses it (`checks`, `findings`), holds it against the targets
//! (`targets`) and against what another database published (`published`, `beside`), and tells (`table`, `report`).

mod beside;
mod checks;
mod data;
mod findings;
mod floor;
mod level;
mod matrix;
mod measure;
mod names;
mod ops;
mod options;
mod priority;
mod published;
mod report;
mod sample;
mod slice;
mod table;
mod targets;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::Standing;
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{self, Headline, Lead, Measured, Output, Part, Plan, Say, Suite, SuiteError};

pub use names::matches;
pub use options::Options;
#[doc(hidden)]
pub use options::Sabotage;

/// The suite.
#[derive(Debug)]
pub struct Store;

/// The figures that its page shows in large.
const LEADS: &[Lead] = &[
    Lead::p50("branch.fork/memory", "to fork a branch"),
    Lead::p50("kv.put.100B/memory", "for a put in memory"),
    Lead::p50("kv.put.100B/strict", "for a durable put"),
    Lead::p50("kv.get.100B/memory", "for a get"),
    Lead::p50("branch.diff.1000of1M/memory", "to diff 1,000 changes"),
    Lead::p50("branch.merge.1000of1M/memory", "to merge 1,000 changes"),
];

impl Suite for Store {
    fn name(&self) -> &'static str {
        "store"
    }

    fn about(&self) -> &'static str {
        "Every operation of the embedded store at every level of durability"
    }

    fn targets(&self, evidence: &Evidence) -> Vec<Standing> {
        targets::standings(evidence)
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        findings::of_document(evidence)
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let fork = evidence.median("branch.fork/memory")?;
        let put = evidence.median("kv.put.100B/strict")?;
        let floor = evidence.median("kv.put.100B/strict.fsync_floor_us");
        let floor = floor.or_else(|| evidence.median("fsync_floor"))?;
        let rows = evidence.count_set("rows")?;
        Some(Headline::new(
            format!("a fork of {rows} pairs in {} us; a durable put in {} us", number(fork), number(put)),
            format!("{} us, one fdatasync of this disk", number(floor)),
        ))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        suite::tiles(evidence, LEADS, &self.targets(evidence))
    }

    fn beside(&self, evidence: &Evidence) -> Vec<Part> {
        beside::part(evidence).into_iter().collect()
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
        &Store
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
        measure::measure(self, say).map(Measured::from)
    }
}

#[cfg(test)]
#[path = "../tests/unit/store/suite.rs"]
mod tests;
