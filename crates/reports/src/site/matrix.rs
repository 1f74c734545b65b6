//! Figures under several conditions as heat maps, by what their names say.
//!
//! `put/memory` and `put/strict` are a row, as are `put/memory.ops_per_s` and `put/strict.ops_per_s` of another map, and
//! `latency_ms/S2/on` and `latency_ms/S2/off` of the map `latency_ms`.

use crate::page::{Heat, Report};
use duramen_measure::evidence::Measurement;

use crate::Document;

/// How many conditions a map shows.
const MOST_COLUMNS: usize = 12;
/// How many rows.
const MOST_ROWS: usize = 150;
/// How many maps stand in the open.
const MOST_OPEN: usize = 2;
/// How many there are in all.
const MOST_MAPS: usize = 24;

/// How many figures are looked at.
const MOST_FIGURES: usize = 4_000;

/// Where a figure stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    /// What the map is of; empty where the rows say it.
    pub(super) metric: &'a str,
    /// The row.
    pub(super) row: String,
    /// The column.
    pub(super) column: &'a str,
}

/// The place that a name stands for.
pub(super) fn place(name: &str) -> Option<Place<'_>> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [figure, condition] if !figure.is_empty() && !condition.is_empty() => {
            let (column, metric) = match condition.split_once('.') {
                Some((column, metric)) if metric.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                    (column, metric)
                }
                _ => (*condition, ""),
            };
            Some(Place { metric, row: (*figure).to_owned(), column })
        }
        [metric, scenario, column, rest @ ..] if is_scenario(scenario) && !column.contains('=') => {
            let row = std::iter::once(scenario).chain(rest).copied().collect::<Vec<_>>().join("/");
            Some(Place { metric, row, column })
        }
        _ => None,
    }
}

fn is_scenario(part: &str) -> bool {
    let digits = part.strip_prefix('S').unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

/// Figures that share conditions.
struct Map<'a> {
    metric: &'a str,
    columns: Vec<&'a str>,
    rows: Vec<(String, Vec<(&'a str, &'a Measurement)>)>,
}

/// Adds the maps of a document.
pub(super) fn add(mut report: Report, document: &Document) -> Report {
    let mut maps = maps(&document.evidence.measurements);
    let left_out = maps.len().saturating_sub(MOST_MAPS);
    maps.truncate(MOST_MAPS);
    let closed = maps.split_off(maps.len().min(MOST_OPEN));
    for map in &maps {
        report = drawn(report, map);
    }
    if closed.is_empty() {
        return report;
    }
    let mut folded = closed.iter().fold(Report::new(""), drawn);
    if left_out > 0 {
        folded = folded.note(format!("{left_out} more are left to the document."));
    }
    report.folded(format!("More figures by condition ({})", closed.len()), folded)
}

fn maps(measurements: &[Measurement]) -> Vec<Map<'_>> {
    let mut maps: Vec<Map<'_>> = Vec::new();
    for measurement in measurements.iter().take(MOST_FIGURES).filter(|measurement| measurement.count > 0) {
        let Some(Place { metric, row, column }) = place(&measurement.name) else { continue };
        let is_scenario = is_scenario(column);
        // Figures of other conditions are another map.
        let known = maps.iter_mut().find(|map| {
            map.metric == metric
                && (map.columns.contains(&column)
                    || map.rows.iter().any(|(name, _)| *name == row) && is_scenario == map.is_of_scenarios())
        });
        let map = match known {
            Some(map) => map,
            None => {
                maps.push(Map { metric, columns: Vec::new(), rows: Vec::new() });
                maps.last_mut().expect("one was added")
            }
        };
        if !map.columns.contains(&column) {
            map.columns.push(column);
        }
        match map.rows.iter_mut().find(|(name, _)| *name == row) {
            Some((_, cells)) => cells.push((column, measurement)),
            None => map.rows.push((row, vec![(column, measurement)])),
        }
    }
    // One value has nothing beside it.
    maps.retain(|map| map.columns.len() > 1 && map.rows.iter().any(|(_, cells)| cells.len() > 1));
    maps
}

impl Map<'_> {
    fn is_of_scenarios(&self) -> bool {
        self.columns.iter().all(|column| is_scenario(column))
    }
}

fn drawn(report: Report, map: &Map<'_>) -> Report {
    let columns = &map.columns[..map.columns.len().min(MOST_COLUMNS)];
    let what = if map.metric.is_empty() { "Figures (medians)" } else { map.metric };
    let mut heat = Heat::new(format!("{what} at {}", in_words(columns)), "figure", columns.iter().copied());
    if columns.iter().all(|column| column.bytes().all(|byte| byte.is_ascii_digit())) {
        heat = heat.uncompared();
    }
    for (name, cells) in map.rows.iter().take(MOST_ROWS) {
        let of =
            |column: &&str| cells.iter().find(|(at, _)| at == column).map(|(_, measurement)| measurement.p50);
        let unit = cells.first().map_or("", |(_, measurement)| measurement.unit.as_str());
        heat = heat.row(name.clone(), unit, columns.iter().map(of));
    }
    let (rows, columns) =
        (map.rows.len().saturating_sub(MOST_ROWS), map.columns.len().saturating_sub(MOST_COLUMNS));
    let report = report.heat(heat);
    if rows + columns == 0 {
        return report;
    }
    report.note(format!("{rows} more rows and {columns} more columns are left to the document."))
}

fn in_words(columns: &[&str]) -> String {
    match columns {
        [first, second, third, rest @ ..] if rest.len() > 1 => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        all => all.join(", "),
    }
}
