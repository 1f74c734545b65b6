//! The suite "lineage": branches of branches, in the shapes of BranchBench: a spine, a bushy tree, and many children of one
//! branch; and a child of a branch that has just been written to, while it is written to.
//!
//! Latencies are taken at the client, through the daemon's socket: from the request for a child to the answer to its first
//! query. The shapes are those of BranchBench (arXiv 2604.17180); its workloads are not.

mod fresh;
mod measure;
mod options;
mod shapes;
mod targets;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::{self, quantity, Standing};
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{self, Headline, Lead, Measured, Output, Plan, Say, Suite, SuiteError};
use duramen_reports::text;

pub use options::Options;

/// The suite.
#[derive(Debug)]
pub struct Lineage;

const LEADS: &[Lead] = &[
    Lead::p95("fresh_ms", "from a busy branch to a child's first answer, p95"),
    Lead::p95("parent_gap_ms", "without a commit in the parent, p95"),
    Lead::p50("fan_out_ms", "to a child's first answer, many children of one branch"),
];

impl Suite for Lineage {
    fn name(&self) -> &'static str {
        "lineage"
    }

    fn about(&self) -> &'static str {
        "Branches of branches: of a busy one, a spine, a bushy tree, many of one"
    }

    fn targets(&self, evidence: &Evidence) -> Vec<Standing> {
        targets::standings(evidence)
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        target::missed(&self.targets(evidence))
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let fresh = evidence.measurement("fresh_ms").filter(|figure| figure.count > 0)?;
        let figure = format!("a child of a busy branch answers after {} ms (p95)", number(fresh.p95));
        Some(Headline::new(figure, "1,350 ms, the best published of a service"))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        suite::tiles(evidence, LEADS, &self.targets(evidence))
    }

    fn table(&self, evidence: &Evidence) -> String {
        let figures = evidence.measurements.iter().map(|figure| {
            let show = |value: f64| quantity(value, &figure.unit);
            vec![
                figure.name.clone(),
                figure.count.to_string(),
                show(figure.p50),
                show(figure.p95),
                show(figure.max),
            ]
        });
        let mut table =
            String::from("Branches of branches, from the request to the answer of the first query.\n\n");
        table.push_str(
            &text::table(&["figure", "count", "p50", "p95", "most"], figures.collect()).to_string(),
        );
        table.push_str("\n\n");
        table.push_str(&text::targets(&self.targets(evidence)));
        table.push_str(&text::outcome(evidence));
        table
    }

    fn page(&self, evidence: &Evidence) -> Report {
        let note = "Spine: each branch is made of the one before it, after rows were written to that. Bushy: every branch has \
                    three children. Fan-out: all are made of one branch. A shape does not cost more as it grows if the \
                    last branches of it cost what the first ones did.";
        suite::page(self, "Branches of branches", evidence, note, &self.targets(evidence))
    }
}

impl Plan for Options {
    fn suite(&self) -> &'static dyn Suite {
        &Lineage
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
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| SuiteError::Failed(format!("cannot start the runtime: {error}")))?;
        runtime.block_on(measure::run(self, say)).map(Measured::from)
    }
}
