//! Figures over the runs of a suite as a heat map.

use crate::page::{Heat, Report};
use duramen_base::words::counted;

use crate::{machine_id, Document};

/// How many runs are compared, the newest.
const MOST_RUNS: usize = 8;
/// How many figures, those that differ most.
const MOST_ROWS: usize = 40;
/// How much the greatest value of a row must be above the least, as a share, for it to be shown.
const LEAST_SPREAD: f64 = 1.05;

/// Adds the figures that differ most between runs.
pub(super) fn add(report: Report, runs: &[Document]) -> Report {
    let runs = &runs[runs.len().saturating_sub(MOST_RUNS)..];
    if runs.len() < 2 {
        return report;
    }
    let medians: Vec<_> = runs.iter().map(Document::medians).collect();
    let mut names: Vec<(&str, &str)> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for measurement in runs.iter().rev().flat_map(|run| &run.evidence.measurements) {
        if known.insert((measurement.name.as_str(), measurement.unit.as_str())) {
            names.push((&measurement.name, &measurement.unit));
        }
    }
    let mut rows: Vec<(f64, &str, &str, Vec<Option<f64>>)> = names
        .into_iter()
        .map(|(name, unit)| {
            let values: Vec<Option<f64>> =
                medians.iter().map(|medians| medians.get(&(name, unit)).copied()).collect();
            (spread(&values), name, unit, values)
        })
        .filter(|(spread, ..)| *spread >= LEAST_SPREAD)
        .collect();
    if rows.is_empty() {
        return report;
    }
    rows.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    let differ = rows.len();
    rows.truncate(MOST_ROWS);
    let columns = runs.iter().map(|run| column(run, runs));
    let title = format!("What differs most between {}, oldest first", counted(runs.len(), "run"));
    let mut heat = Heat::new(title, "figure", columns);
    for (_, name, unit, values) in rows {
        heat = heat.row(name, unit, values);
    }
    let inside = Report::new("").heat(heat).note(
        "Medians of single runs. What differs from run to run by itself is in them: a change is told by trends, and by \
         duramen lab compare.",
    );
    report.folded(format!("Figures that differ between the last runs ({differ})"), inside)
}

/// How many times the least value the greatest is; infinite where the least is zero and not all are.
fn spread(values: &[Option<f64>]) -> f64 {
    let known = || values.iter().flatten().copied();
    let (low, high) = known().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if known().count() < 2 || high <= 0.0 || low < 0.0 {
        1.0
    } else {
        high / low
    }
}

/// The time, and what else tells a run from the others.
fn column(run: &Document, runs: &[Document]) -> String {
    let machine = machine_id(&run.evidence.host.machine());
    let mut text = run.evidence.started_at.strftime("%m-%d %H:%M:%S").to_string();
    if runs.iter().any(|other| machine_id(&other.evidence.host.machine()) != machine) {
        text = format!("{text}, machine {}", &machine[..4]);
    }
    if runs.iter().any(|other| other.evidence.version != run.evidence.version) {
        text = format!("{text}, version {}", run.evidence.version);
    }
    let config = crate::config_digest(&run.evidence);
    if runs.iter().any(|other| crate::config_digest(&other.evidence) != config) {
        text = format!("{text}, config {}", &config[..4]);
    }
    text
}
