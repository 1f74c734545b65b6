//! Rules over documents of every suite: what a reader must know whatever was measured. They look at the document alone,
//! so that they say the same when a run ends and when its document is read again.

use duramen_base::words::number;

use crate::evidence::{Check, Evidence, Finding, Severity, Verdict};

/// An fsync that is cheaper than this, in microseconds, reaches no disk.
pub const REAL_SYNC_US: f64 = 20.0;
/// What was repeated less often than this says nothing of how it differs from one time to the next.
pub const REPEATS: u64 = 3;
/// Rules of suites that tell what was seen while they ran, which no figure of the document holds.
const OBSERVED: [&str; 7] = [
    "not_measured",
    "skipped",
    "branch_failed",
    "branches_failed",
    "refill_failed",
    "worker_gave_up",
    "not_settled",
];

/// Under which conditions the figures were taken. Suites add these to their documents.
#[must_use]
pub fn conditions(evidence: &Evidence) -> Vec<Finding> {
    [optimised(evidence), busy(evidence), floor(evidence)].into_iter().flatten().collect()
}

/// What is wrong with a document, and what makes its figures worth less; `found` is what its suite has found already.
#[must_use]
pub fn general(evidence: &Evidence, found: &[Finding]) -> Vec<Finding> {
    let mut general: Vec<Finding> =
        evidence.checks.iter().filter(|check| !check.passed).map(failed).collect();
    let is_told = |rule: &str| found.iter().any(|finding| finding.rule == rule);
    if evidence.verdict == Verdict::Invalid && !is_told("invalid") {
        general.extend(evidence.findings.iter().filter(|finding| finding.rule == "invalid").cloned());
    }
    let observed = |finding: &&Finding| OBSERVED.contains(&finding.rule.as_str()) && !is_told(&finding.rule);
    general.extend(evidence.findings.iter().filter(observed).cloned());
    general.extend(conditions(evidence));
    general.extend(repeats(evidence));
    general
}

fn failed(check: &Check) -> Finding {
    let text = format!("The check {} failed: {}", check.name, check.detail);
    Finding::new("failed_check", Severity::Problem, None, text)
}

fn optimised(evidence: &Evidence) -> Option<Finding> {
    let text = "This program was built without optimisation: its times say nothing, its counts do.";
    (!evidence.is_optimised()).then(|| Finding::new("not_optimised", Severity::Warning, None, text))
}

fn busy(evidence: &Evidence) -> Option<Finding> {
    let (load, cores) = (evidence.host.load_average[0], evidence.host.cores);
    (load > cores as f64).then(|| {
        let text = format!(
            "The load average was {load:.1} on {cores} cores when the run began: other work took part of the machine."
        );
        Finding::new("busy_machine", Severity::Warning, Some(load), text)
    })
}

/// What one fsync takes on the disk of a run, in microseconds.
fn fsync_us(evidence: &Evidence) -> f64 {
    let measured = evidence.measurement("fsync_floor").filter(|floor| floor.count > 0 && floor.unit == "us");
    measured.map_or(evidence.host.fsync_floor_us, |floor| floor.p50)
}

fn floor(evidence: &Evidence) -> Option<Finding> {
    let us = fsync_us(evidence);
    (us < REAL_SYNC_US).then(|| {
        let text = format!(
            "One fsync takes {} us: no disk is that fast, so a cache answers. Durable figures will be larger elsewhere.",
            number(us)
        );
        Finding::new("fast_sync", Severity::Warning, Some(us), text)
    })
}

fn repeats(evidence: &Evidence) -> Option<Finding> {
    let set = evidence.count_set("repeats").or_else(|| evidence.count_set("rounds"));
    let count = set.filter(|count| *count < REPEATS)?;
    let text = format!(
        "Everything was measured {} only: what differs from one time to the next is not in the figures. From {REPEATS} \
         repeats on it is.",
        if count == 1 { "once" } else { "twice" }
    );
    Some(Finding::new("few_repeats", Severity::Info, Some(count as f64), text))
}
