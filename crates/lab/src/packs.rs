//! The suite "packs": access graphs written, read and changed, against SQLite on the same rows.
//!
//! Every engine runs in a process of its own for every size, so that its peak memory is its own: the suite starts the
//! `duramen` program again (`--part`). Engines take turns; every figure of a size is taken several times. Allocations are
//! counted by another program, [`ALLOCATION_COUNTER`], so that nothing that is timed has an allocator that counts.

mod c1z3;
mod engine;
mod measure;
mod options;
mod pack;
mod part;
mod report;
mod sqlite;
mod table;
mod targets;
mod workload;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::{self, Standing};
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{Headline, Measured, Output, Plan, Say, Suite, SuiteError};

pub use options::Options;
pub use part::{count_allocations, run_part, Part};

/// The suite.
#[derive(Debug)]
pub struct Packs;

/// The program that counts allocations. It has to lie beside the program that runs the suite; without it the figures
/// `allocs/N` are left out.
pub const ALLOCATION_COUNTER: &str = "duramen-count-allocations";

/// The largest number of grants of a run.
fn largest(evidence: &Evidence) -> Option<u64> {
    evidence.config.get("grants")?.as_array()?.iter().filter_map(serde_json::Value::as_u64).max()
}

impl Suite for Packs {
    fn name(&self) -> &'static str {
        "packs"
    }

    fn about(&self) -> &'static str {
        "Access graphs written, read and changed, against SQLite on the same rows"
    }

    fn targets(&self, evidence: &Evidence) -> Vec<Standing> {
        targets::standings(evidence)
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        target::missed(&self.targets(evidence))
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let grants = largest(evidence)?;
        let own = evidence.median(&format!("write_cpu_ms/{grants}"))?;
        let other = evidence.median(&format!("sqlite.write_cpu_ms/{grants}"))?;
        Some(Headline::new(
            format!("{grants} grants written in {} ms of processor time", number(own)),
            format!("{} ms, SQLite in the same run", number(other)),
        ))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        report::tiles(evidence)
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
        &Packs
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
#[path = "../tests/unit/packs/suite.rs"]
mod tests;
