//! Distributions as curves, and all figures as tables.

use crate::page::{Chart, Report};
use duramen_measure::evidence::Measurement;
use duramen_measure::histogram::LatencyHistogram;

use super::matrix::place;
use crate::Document;

/// How many charts of distributions a suite has.
const MOST_CHARTS: usize = 6;
/// How many curves a chart has: as many as there are colours.
const MOST_CURVES: usize = 6;
/// How many figures stand in the tables of a suite.
const MOST_FIGURES: usize = 2_000;

/// Figures that are drawn together: one operation under all its conditions, or several that have none.
struct Group<'a> {
    title: String,
    unit: &'a str,
    curves: Vec<(String, &'a Measurement)>,
}

/// Adds the distributions of some figures: of each kind the first one, then the second, as far as there is room.
pub(super) fn distributions(mut report: Report, document: &Document) -> Report {
    let groups = groups(&document.evidence.measurements);
    let count = groups.len();
    for group in chosen(groups) {
        let curves: Vec<(String, LatencyHistogram)> = group
            .curves
            .iter()
            .filter_map(|(name, measurement)| {
                let histogram = LatencyHistogram::from_base64_v2(measurement.histogram.as_ref()?).ok()?;
                (!histogram.is_empty()).then(|| (name.clone(), histogram))
            })
            .take(MOST_CURVES)
            .collect();
        if !curves.is_empty() {
            report = report.chart(Chart::cdf(group.title, group.unit, curves));
        }
    }
    if count > MOST_CHARTS {
        report = report.note(format!(
            "{} more distributions are in the document; their percentiles stand in the tables below.",
            count - MOST_CHARTS
        ));
    }
    report
}

fn groups(measurements: &[Measurement]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let is_latency = |measurement: &&Measurement| {
        measurement.histogram.is_some() && matches!(measurement.unit.as_str(), "ns" | "us" | "ms" | "s")
    };
    for measurement in measurements.iter().filter(is_latency) {
        let unit = measurement.unit.as_str();
        let (title, curve) = match place(&measurement.name) {
            Some(place) if place.metric.is_empty() => (place.row.clone(), place.column.to_owned()),
            Some(place) => (format!("{} {}", place.metric, place.row), place.column.to_owned()),
            None => (format!("Latencies ({unit})"), measurement.name.clone()),
        };
        match groups.iter_mut().find(|group| group.title == title && group.unit == unit) {
            Some(group) => group.curves.push((curve, measurement)),
            None => groups.push(Group { title, unit, curves: vec![(curve, measurement)] }),
        }
    }
    groups
}

/// Those of different kinds first: `kv.put` and `kv.get` are of one kind.
fn chosen(groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let kind = |title: &str| title.split(['.', ' ']).next().unwrap_or_default().to_owned();
    let mut seen: Vec<(String, usize)> = Vec::new();
    let mut ranked: Vec<(usize, Group<'_>)> = Vec::new();
    for group in groups {
        let kind = kind(&group.title);
        let rank = match seen.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                seen.push((kind, 0));
                0
            }
        };
        ranked.push((rank, group));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(MOST_CHARTS).map(|(_, group)| group).collect()
}

/// Adds all figures, folded away.
pub(super) fn tables(report: Report, document: &Document) -> Report {
    let measurements = &document.evidence.measurements;
    if measurements.is_empty() {
        return report;
    }
    let shown = &measurements[..measurements.len().min(MOST_FIGURES)];
    let mut inside = Report::new("").measurements(shown);
    if measurements.len() > shown.len() {
        inside = inside.note(format!("{} more are in the document.", measurements.len() - shown.len()));
    }
    report.folded(format!("All figures ({})", measurements.len()), inside)
}
