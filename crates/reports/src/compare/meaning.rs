//! What figures and documents mean: which direction is better, what depends on the machine, what makes runs unlike.

use duramen_measure::evidence::{Evidence, PASSING_SETTINGS};
use serde::Serialize;

/// Which direction of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither: it describes the machine, the method, or a trade.
    Neither,
}

/// Units of what is counted and does not depend on how fast the machine is.
const COUNTS: [&str; 8] = [
    "appends",
    "syncs",
    "commits",
    "statements",
    "instances",
    "effects",
    "instances and effects",
    "round trips",
];

/// Parts of names of figures about the machine or the method, of which none is better.
const CONDITIONS: [&str; 6] =
    ["fsync_floor", "timer", "blocker_s", "noise_s", "stall_error_s", "calibration"];

/// Whether a figure is a count that does not depend on the machine. (With several threads, how many commits share a
/// sync does.)
#[must_use]
pub fn is_counted(name: &str, unit: &str) -> bool {
    let is_count = COUNTS.contains(&unit) || (unit == "bytes" && name.contains("_per_"));
    is_count && !name.contains("thread") && !is_timed_count(name)
}

/// Whether a count depends on how much there was time for: what is written beside the load, and by checkpoints, is shared
/// by as many commits as the machine could do meanwhile.
fn is_timed_count(name: &str) -> bool {
    name.starts_with("wal_bytes_per_commit")
}

/// Figures that are differences of two times, and the level whose latency is the larger of them.
const DIFFERENCES: [(&str, &str); 3] =
    [("added_ms/", "remote_apply"), ("flush_ms/", "on"), ("replay_ms/", "remote_apply")];

/// Whether a figure is a difference of two times, which may be next to nothing, or negative.
pub(super) fn is_difference(name: &str) -> bool {
    DIFFERENCES.iter().any(|(prefix, _)| name.starts_with(prefix))
}

/// The larger one of the times that a figure is the difference of: `latency_ms/S1/remote_apply/c=8` for
/// `added_ms/S1/c=8`.
pub(super) fn underlying(name: &str) -> Option<String> {
    let (rest, level) =
        DIFFERENCES.iter().find_map(|(prefix, level)| Some((name.strip_prefix(prefix)?, level)))?;
    let (scenario, conditions) = rest
        .split_once('/')
        .map_or((rest, String::new()), |(scenario, conditions)| (scenario, format!("/{conditions}")));
    Some(format!("latency_ms/{scenario}/{level}{conditions}"))
}

pub(super) fn is_time(unit: &str) -> bool {
    matches!(unit, "ns" | "us" | "ms" | "s")
}

pub(super) fn is_machine_bound(name: &str, unit: &str) -> bool {
    is_time(unit) || unit.ends_with("/s") || unit == "cores" || is_timed_count(name)
}

/// Which direction of a figure is better, by its name and its unit.
#[must_use]
pub fn better(name: &str, unit: &str) -> Better {
    if CONDITIONS.iter().any(|part| name.contains(part)) {
        return Better::Neither;
    }
    let is_cost = is_time(unit)
        || COUNTS.contains(&unit)
        || matches!(unit, "bytes" | "cores")
        || name.contains("stale")
        || name.contains("idle");
    match unit {
        _ if is_cost => Better::Lower,
        "steps at once" => Better::Higher,
        unit if unit.ends_with("/s") => Better::Higher,
        _ => Better::Neither,
    }
}

/// Whether all documents are of one machine, as far as they tell.
pub(super) fn is_same_machine(a: &[Evidence], b: &[Evidence]) -> bool {
    let machine = |document: &Evidence| {
        let host = &document.host;
        (host.cpu.clone(), host.cores, host.memory_bytes, host.file_system.clone())
    };
    let mut machines = a.iter().chain(b).map(machine);
    let first = machines.next();
    machines.all(|other| Some(other) == first)
}

/// What differs beside the figures, in words.
pub(super) fn warnings(a: &[Evidence], b: &[Evidence]) -> Vec<String> {
    let mut warnings = Vec::new();
    let (Some(first_a), Some(first_b)) = (a.first(), b.first()) else { return warnings };
    if !is_same_machine(a, b) {
        warnings.push(format!(
            "The machines differ ({}, {} cores, {}; {}, {} cores, {}): times and rates are not compared.",
            first_a.host.cpu,
            first_a.host.cores,
            first_a.host.file_system,
            first_b.host.cpu,
            first_b.host.cores,
            first_b.host.file_system
        ));
    }
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            warnings.push(format!("{what} differs: {a} in A, {b} in B."));
        }
    };
    differ("The kernel", &first_a.host.kernel, &first_b.host.kernel);
    differ("The version of Duramen", &first_a.version, &first_b.version);
    let mut names: Vec<&String> = first_a.config.keys().chain(first_b.config.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| !PASSING_SETTINGS.contains(&name.as_str())) {
        let shown = |document: &Evidence| {
            document.config.get(name).map_or_else(|| "not set".to_owned(), ToString::to_string)
        };
        differ(&format!("The setting {name}"), &shown(first_a), &shown(first_b));
    }
    for (side, documents) in [("A", a), ("B", b)] {
        for document in documents {
            let unlike =
                document.config.iter().filter(|(name, _)| !PASSING_SETTINGS.contains(&name.as_str()));
            let first = &documents[0].config;
            if unlike.into_iter().any(|(name, value)| first.get(name) != Some(value)) {
                warnings.push(format!("The runs of {side} were set differently among themselves."));
                break;
            }
        }
        let load = documents.iter().map(|document| document.host.load_average[0]).fold(0.0, f64::max);
        if load > documents[0].host.cores as f64 {
            warnings
                .push(format!("The machine was busy when a run of {side} began: load average {load:.1}."));
        }
    }
    let floor = |documents: &[Evidence]| {
        documents.iter().map(|document| document.host.fsync_floor_us).sum::<f64>() / documents.len() as f64
    };
    let (floor_a, floor_b) = (floor(a), floor(b));
    if floor_a.max(floor_b) > 2.0 * floor_a.min(floor_b) {
        warnings.push(format!(
            "One fsync took {floor_a:.0} us in A and {floor_b:.0} us in B: what waits for the disk differs for that."
        ));
    }
    warnings
}
