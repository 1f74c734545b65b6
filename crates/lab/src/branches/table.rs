//! The outcome as a table for a terminal.

use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use duramen_measure::evidence::{Evidence, Measurement};
use serde_json::Value;

use super::bars::{compare, number, quantity, Outcome, Row};
use crate::text::outcome;

const HEADERS: [&str; 9] =
    ["measurement", "count", "p50", "p95", "p99", "max", "bar", "reference", "verdict"];

/// The measurements with their bars, what was missed, the checks and the findings, as text for a terminal.
#[must_use]
pub fn print_table(evidence: &Evidence) -> String {
    let rows = compare(evidence);
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(HEADERS);
    for measurement in &evidence.measurements {
        let row = rows.iter().find(|row| row.bar.measurement == measurement.name);
        table.add_row(cells(measurement, row, is_unflushed(evidence, &measurement.name)));
    }
    for row in rows.iter().filter(|row| row.outcome == Outcome::NotMeasured) {
        let mut cells = vec![row.bar.measurement.to_owned(), "0".to_owned()];
        cells.resize(6, String::new());
        cells.extend(bar_cells(Some(row)));
        table.add_row(cells);
    }
    for column in 1..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n\n{}", outcome(evidence))
}

/// Whether a figure is of writes that were not flushed, which is said beside it.
fn is_unflushed(evidence: &Evidence, name: &str) -> bool {
    let off = evidence.findings.iter().any(|finding| finding.rule == "fsync_off");
    let writes = evidence.config.get("write").and_then(Value::as_str).is_some_and(|write| write != "none");
    off && writes && (name == "write_ms" || name == "write_server_ms")
}

fn cells(measurement: &Measurement, row: Option<&Row>, unflushed: bool) -> Vec<String> {
    let Measurement { name, unit, count, p50, p95, p99, max, .. } = measurement;
    let label = if unflushed { format!("{name} (fsync=off)") } else { name.clone() };
    let value = |value: f64| if unit == "ms" { number(value) } else { quantity(value, unit) };
    let mut cells = vec![label, count.to_string()];
    cells.extend([*p50, *p95, *p99, *max].map(value));
    cells.extend(bar_cells(row));
    cells
}

/// Bar, reference, verdict.
pub(crate) fn bar_cells(row: Option<&Row>) -> [String; 3] {
    let Some(row) = row else { return ["", "", ""].map(str::to_owned) };
    let bar = format!("{} {}", row.bar.percentile.name(), quantity(row.bar.limit, row.bar.unit));
    let reference = row.bar.reference.map_or_else(String::new, |value| quantity(value, row.bar.unit));
    [bar, reference, row.outcome.word().to_owned()]
}
