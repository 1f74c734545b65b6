//! The outcome as text for a terminal.

use std::fmt::Write as _;

use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use duramen_measure::evidence::Evidence;

use super::bars::{compare, quantity};

pub(crate) const BAR_HEADERS: [&str; 5] = ["bar", "measured", "limit", "reference", "outcome"];

/// The figures, the bars, the checks and the findings, as text for a terminal.
#[must_use]
pub fn print_table(evidence: &Evidence) -> String {
    let mut text = String::from("Access graphs, workload unique; every engine in a process of its own.\n\n");
    let figures = evidence.measurements.iter().map(|figure| {
        let show = |value: f64| quantity(value, &figure.unit);
        vec![
            figure.name.clone(),
            figure.count.to_string(),
            show(figure.p50),
            show(figure.min),
            show(figure.max),
        ]
    });
    writeln!(text, "{}\n", table(&["figure", "count", "p50", "least", "most"], figures.collect())).ok();
    let rows = bars(evidence);
    if !rows.is_empty() {
        writeln!(text, "{}\n", table(&BAR_HEADERS, rows)).ok();
    }
    for check in &evidence.checks {
        let word = if check.passed { "pass" } else { "FAIL" };
        writeln!(text, "{word}  {}: {}", check.name, check.detail).ok();
    }
    for finding in &evidence.findings {
        writeln!(text, "{} {}: {}", finding.severity, finding.rule, finding.text).ok();
    }
    writeln!(text, "\nverdict: {}", evidence.verdict).ok();
    text
}

pub(crate) fn bars(evidence: &Evidence) -> Vec<Vec<String>> {
    let row = |row: &super::bars::Row| {
        vec![
            row.bar.what.to_owned(),
            quantity(row.measured, row.bar.unit),
            row.limit(),
            row.bar.reference.map_or_else(String::new, |reached| quantity(reached, row.bar.unit)),
            if row.is_met() { "met" } else { "missed" }.to_owned(),
        ]
    };
    compare(evidence).iter().map(row).collect()
}

fn table(headers: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headers);
    for row in rows {
        table.add_row(row);
    }
    for column in 1..headers.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
