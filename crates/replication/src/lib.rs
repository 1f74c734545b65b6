//! The suite "replication": what each level of `synchronous_commit` costs, when commits stop, and whether the reason is
//! the one that is named.

pub mod advice;
pub mod checks;
mod error;
pub mod expect;
pub mod figures;
pub mod findings;
pub mod level;
pub mod measure;
pub mod options;
pub mod outcome;
pub mod pair;
pub mod pass;
pub mod plan;
mod report;
pub mod restore;
pub mod scenario;
pub mod summary;
pub mod table;
pub mod targets;
mod timeline;
pub mod topology;
pub mod workload;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::Standing;
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{
    self, Headline, Lead, Measured, Output, Plan, Say, Scenario, Suite, SuiteError,
};

pub use level::Level;
pub use options::Options;

/// The suite. Everything that a run has changed is put back and everything that it has started is stopped when it
/// returns, also when it is interrupted. What could not be put back fails the check `settings_restored`.
///
/// ```no_run
/// use duramen_replication::Options;
/// use duramen_reports::suite::run;
///
/// let options = Options { quick: true, ..Options::new("out", "target/release/duramen") };
/// let evidence = run(&options, &|doing| eprintln!("{doing}"))?;
/// println!("{}", evidence.verdict);
/// # Ok::<(), duramen_reports::suite::SuiteError>(())
/// ```
#[derive(Debug)]
pub struct Replication;

/// The figures that its page shows in large.
const LEADS: &[Lead] = &[
    Lead::p50("pair_ready_s", "to a synchronous pair"),
    Lead::p50("stall_s/S2/remote_apply", "without a commit in S2, remote_apply"),
    Lead::p50("blocker_s/S2", "that the reader in S2 held its snapshot"),
    Lead::p50("stall_s/S8/remote_apply", "without a commit in S8, remote_apply"),
];

impl Suite for Replication {
    fn name(&self) -> &'static str {
        "replication"
    }

    fn about(&self) -> &'static str {
        "Synchronous replication: what each commit level costs, when commits stop, and why"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let line = |of: &scenario::Scenario| Scenario {
            id: format!("S{}", of.number),
            name: of.name.to_owned(),
            what: match of.on_demand {
                true => format!("{} Only run if it is named.", of.text),
                false => of.text.to_owned(),
            },
        };
        scenario::catalog().iter().map(line).collect()
    }

    fn targets(&self, evidence: &Evidence) -> Vec<Standing> {
        targets::standings(evidence)
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        [findings::invalid(&summary::Summary::from_evidence(evidence)), findings::of_document(evidence)]
            .concat()
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let stalls = evidence.measurements.iter().filter(|figure| {
            figure.name.starts_with("stall_s/") && figure.name.ends_with("/remote_apply") && figure.count > 0
        });
        let sound = stalls.filter(|figure| evidence.is_sound(&figure.name));
        let stall = sound.max_by(|a, b| a.p50.total_cmp(&b.p50))?;
        let scenario = stall.name.split('/').nth(1)?;
        let blocker = evidence.median(&format!("blocker_s/{scenario}"))?;
        Some(Headline::new(
            format!("commits stopped for {} s at remote_apply, and why ({scenario})", number(stall.p50)),
            format!("{} s, as long as the blocker was there", number(blocker)),
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
        &Replication
    }

    fn output(&self) -> &Output {
        &self.output
    }

    fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    fn validate(&self) -> Result<(), SuiteError> {
        measure::chosen(self).map(drop)
    }

    fn measure(&self, say: Say<'_>) -> Result<Measured, SuiteError> {
        std::fs::create_dir_all(&self.dir).map_err(SuiteError::file("make", &self.dir))?;
        measure::run(self, say)
    }
}
