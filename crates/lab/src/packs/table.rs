//! The outcome as text for a terminal.

use std::fmt::Write as _;

use duramen_measure::evidence::Evidence;

use super::targets::standings;
use duramen_measure::target::quantity;
use duramen_reports::text::{outcome, table, targets};

/// The figures, the targets, the checks and the findings, as text for a terminal.
pub(crate) fn print_table(evidence: &Evidence) -> String {
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
    text.push_str(&targets(&standings(evidence)));
    text.push_str(&outcome(evidence));
    text
}
