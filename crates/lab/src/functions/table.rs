//! The outcome as text for a terminal.

use std::fmt::Write as _;

use duramen_measure::evidence::{Evidence, Measurement};

use super::targets::{fsync_ms, standings};
use duramen_base::words::number;
use duramen_measure::target::quantity;
use duramen_reports::text::{outcome, table, targets};

/// The figures, the targets with what the reference reached, the checks and the findings, as text for a terminal.
pub(crate) fn print_table(evidence: &Evidence) -> String {
    let mut text = String::new();
    let floor = number(fsync_ms(evidence));
    writeln!(
        text,
        "Durable functions, phase {}; PostgreSQL {}. One fsync of this disk takes {floor} ms: what is durable cannot \
         take less.\n",
        word(evidence, "phase"),
        word(evidence, "server_version")
    )
    .ok();
    writeln!(text, "{}\n", table(&FIGURE_HEADERS, figures(evidence))).ok();
    text.push_str(&targets(&standings(evidence)));
    text.push_str(&outcome(evidence));
    text
}

const FIGURE_HEADERS: [&str; 7] = ["figure", "count", "p50", "p95", "p99", "max", "fsync"];
fn word(evidence: &Evidence, name: &str) -> String {
    evidence.text_set(name).unwrap_or("unknown").to_owned()
}

/// Whether a figure is a time that contains a commit.
fn is_durable(figure: &Measurement) -> bool {
    figure.unit == "ms"
        && ["start_ms", "end_to_end_ms", "mixed_ms", "soak_ms", "beside_slow_ms"]
            .iter()
            .any(|name| figure.name.starts_with(name))
}

fn figures(evidence: &Evidence) -> Vec<Vec<String>> {
    let floor = format!("{} ms", number(fsync_ms(evidence)));
    let row = |figure: &Measurement| {
        let mut cells = vec![figure.name.clone(), figure.count.to_string()];
        let show = |value: f64| quantity(value, &figure.unit);
        cells.push(show(figure.p50));
        if figure.count == 1 {
            cells.extend(["", "", ""].map(str::to_owned));
        } else {
            cells.extend([figure.p95, figure.p99, figure.max].map(show));
        }
        cells.push(if is_durable(figure) { floor.clone() } else { String::new() });
        cells
    };
    evidence.measurements.iter().map(row).collect()
}
