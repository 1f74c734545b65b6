//! The outcome as a table for a terminal.

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::target::{quantity, Outcome, Standing};
use duramen_reports::text::{self, outcome};

use super::targets::standings;

const HEADERS: [&str; 9] =
    ["measurement", "count", "p50", "p95", "p99", "max", "target", "reference", "verdict"];

/// The measurements with their targets, what was missed, the checks and the findings, as text for a terminal.
pub(crate) fn print_table(evidence: &Evidence) -> String {
    let rows = standings(evidence);
    let row_of = |name: &str| rows.iter().find(|row| row.name == name);
    let measured = evidence.measurements.iter().map(|measurement| {
        let unflushed = is_unflushed(evidence, &measurement.name);
        cells(measurement, row_of(&measurement.name), unflushed)
    });
    let missing = rows.iter().filter(|row| row.outcome == Outcome::NotMeasured).map(|row| {
        let mut cells = vec![row.name.clone(), "0".to_owned()];
        cells.resize(6, String::new());
        cells.extend(target_cells(Some(row)));
        cells
    });
    format!("{}\n\n{}", text::table(&HEADERS, measured.chain(missing).collect()), outcome(evidence))
}

/// The measurements beside what the best published reference reached, and the checks: what somebody wants to see who
/// does not judge this program by its own targets.
#[must_use]
pub fn print_figures(evidence: &Evidence) -> String {
    let rows = standings(evidence);
    let cell = |measurement: &Measurement| {
        let Measurement { name, unit, count, p50, p95, max, .. } = measurement;
        let value = |value: f64| if unit == "ms" { number(value) } else { quantity(value, unit) };
        let row = rows.iter().find(|row| row.name == *name);
        let reference = row.and_then(|row| row.reference);
        let mut cells = vec![name.clone(), count.to_string()];
        cells.extend([*p50, *p95, *max].map(value));
        cells.push(reference.map_or_else(String::new, |reached| quantity(reached, unit)));
        cells
    };
    let headers = ["measurement", "count", "p50", "p95", "max", "best published"];
    let table = text::table(&headers, evidence.measurements.iter().map(cell).collect());
    format!("{table}\n\n{}", text::checks(evidence))
}

/// Whether a figure is of writes that were not flushed, which is said beside it.
fn is_unflushed(evidence: &Evidence, name: &str) -> bool {
    let off = evidence.findings.iter().any(|finding| finding.rule == "fsync_off");
    let writes = evidence.text_set("write").is_some_and(|write| write != "none");
    off && writes && (name.ends_with("write_ms") || name == "write_server_ms")
}

fn cells(measurement: &Measurement, row: Option<&Standing>, unflushed: bool) -> Vec<String> {
    let Measurement { name, unit, count, p50, p95, p99, max, .. } = measurement;
    let label = if unflushed { format!("{name} (fsync=off)") } else { name.clone() };
    let value = |value: f64| if unit == "ms" { number(value) } else { quantity(value, unit) };
    let mut cells = vec![label, count.to_string()];
    cells.extend([*p50, *p95, *p99, *max].map(value));
    cells.extend(target_cells(row));
    cells
}

/// Target, reference, verdict.
fn target_cells(row: Option<&Standing>) -> [String; 3] {
    let Some(row) = row else { return ["", "", ""].map(str::to_owned) };
    let percentile = row.what.rsplit(", ").next().unwrap_or_default();
    let target = format!("{percentile} {}", quantity(row.limit, row.unit));
    [target, row.reference_in_words(), row.outcome_in_words()]
}
