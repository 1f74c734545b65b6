//! One run, in full.

use super::{
    outline,
    suites::Suites,
    words::{count, cut, NAME_MAX},
};
use duramen_api::attachments::lab::{
    LabBetter, LabCheck, LabFinding, LabHost, LabMeasurement, LabReport, LabSetting, LabSeverity,
};
use duramen_measure::evidence::{Check, Evidence, Finding, Measurement, Severity};
use duramen_reports::compare::{better as better_of, Better};
use serde_json::Value;
use std::path::Path;

/// The most checks, findings and settings that are told, of each.
const MOST: usize = 1_000;
/// The most words of a command.
const WORDS_MAX: usize = 200;
/// Settings that hold data.
const DATA: [&str; 3] = ["samples", "intervals", "timelines"];

/// All that is told of a run.
pub(super) fn of(path: &Path, evidence: &Evidence, suites: Suites) -> LabReport {
    let has_name = |name: &str| name.len() <= NAME_MAX;
    let figures = evidence.measurements.iter().filter(|figure| has_name(&figure.name));
    let measurements: Vec<LabMeasurement> = figures.map(|figure| measurement(evidence, figure)).collect();
    let chosen = evidence.config.iter().filter(|(name, _)| !DATA.contains(&name.as_str()));
    let (named, unnamed): (Vec<_>, Vec<_>) = chosen.partition(|(name, _)| has_name(name));
    let settings: Vec<LabSetting> =
        named.iter().take(MOST).map(|(name, value)| setting(name, value)).collect();
    let mut checks: Vec<&Check> = evidence.checks.iter().collect();
    checks.sort_by_key(|check| check.passed);
    let mut findings: Vec<&Finding> = evidence.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let beyond = |all: usize| all.saturating_sub(MOST);
    let left_out = (evidence.measurements.len() - measurements.len())
        + unnamed.len()
        + beyond(named.len())
        + beyond(checks.len())
        + beyond(findings.len());
    let host = &evidence.host;
    LabReport {
        run: outline::of(path, evidence),
        about: suites.about(&evidence.suite),
        command: evidence.command.iter().take(WORDS_MAX).map(|word| cut(word)).collect(),
        seed: evidence.config.get("seed").map(|seed| cut(&plain(seed))),
        host: LabHost {
            memory_bytes: host.memory_bytes,
            kernel: cut(&host.kernel),
            file_system: cut(&host.file_system),
            load_average: host.load_average.to_vec(),
            fsync_floor_us: host.fsync_floor_us,
        },
        settings,
        tiles: suites.tiles(evidence),
        targets: suites.targets(evidence),
        measurements,
        checks: checks.iter().take(MOST).map(|check| of_check(check)).collect(),
        findings: findings.iter().take(MOST).map(|finding| of_finding(finding)).collect(),
        left_out: count(left_out),
    }
}

/// Which direction of a figure is better.
pub(super) fn better(name: &str, unit: &str) -> LabBetter {
    of_better(better_of(name, unit))
}

pub(super) fn of_better(better: Better) -> LabBetter {
    match better {
        Better::Lower => LabBetter::Lower,
        Better::Higher => LabBetter::Higher,
        Better::Neither => LabBetter::Neither,
    }
}

fn measurement(evidence: &Evidence, figure: &Measurement) -> LabMeasurement {
    let Measurement { name, unit, count, mean, min, p50, p90, p95, p99, max, histogram: _ } = figure;
    LabMeasurement {
        name: name.clone(),
        unit: cut(unit),
        count: *count,
        mean: *mean,
        min: *min,
        p50: *p50,
        p90: *p90,
        p95: *p95,
        p99: *p99,
        max: *max,
        better: better(name, unit),
        is_sound: evidence.is_sound(name),
    }
}

fn setting(name: &str, value: &Value) -> LabSetting {
    LabSetting { name: name.to_owned(), value: cut(&plain(value)) }
}

/// A text without quotes, else JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn of_check(check: &Check) -> LabCheck {
    LabCheck { name: cut(&check.name), passed: check.passed, detail: cut(&check.detail) }
}

fn of_finding(finding: &Finding) -> LabFinding {
    LabFinding {
        rule: cut(&finding.rule),
        severity: match finding.severity {
            Severity::Info => LabSeverity::Info,
            Severity::Warning => LabSeverity::Warning,
            Severity::Problem => LabSeverity::Problem,
        },
        text: cut(&finding.text),
    }
}
