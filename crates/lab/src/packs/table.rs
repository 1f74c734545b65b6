//! The outcome as text for a terminal.

use std::fmt::Write as _;

use duramen_measure::evidence::Evidence;

use super::bars::{compare, quantity};
use crate::text::{outcome, table};

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
    text.push_str(&outcome(evidence));
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
