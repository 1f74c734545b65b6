//! The outcome as a page.

use duramen_measure::evidence::Evidence;
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::report::{Chart, Report};
use serde_json::Value;

use super::bars::{compare, quantity, Outcome, Row};
use super::rounds::RoundFigures;
use super::table::bar_cells;

/// The steps whose distributions are drawn, with their names for readers.
const STEPS: [(&str, &str); 6] = [
    ("lease_ms", "lease"),
    ("first_query_ms", "first query"),
    ("second_query_ms", "second query"),
    ("write_ms", "write"),
    ("destroy_ms", "destroy"),
    ("wire_first_query_ms", "connect and first query"),
];

/// The page of a run. `rounds` are the figures of its rounds, which the evidence holds only as percentiles.
#[must_use]
pub fn page(evidence: &Evidence, rounds: &[RoundFigures]) -> Report {
    let rows = compare(evidence);
    let config = |name: &str| evidence.config.get(name).map_or_else(String::new, plain);
    let unflushed = evidence.findings.iter().any(|finding| finding.rule == "fsync_off");
    let mut report = Report::new("PostgreSQL branches")
        .evidence(evidence)
        .note(format!(
            "{} rounds of {} clients, released at once; each creates a branch of {}, queries it twice, writes to it \
             ({}) and destroys it. Latencies are taken at the client, from the request being sent to its answer being \
             read, on the machine that also runs the branches. Branches are {}; PostgreSQL {}.",
            config("rounds"),
            config("concurrency"),
            config("source"),
            config("write"),
            config("volumes"),
            config("server_version"),
        ))
        .heading("Bars");
    if unflushed {
        report = report.note("Writes were taken with fsync=off: they are not flushed to disk.");
    }
    report = report.table(
        "Measured and bar",
        ["Figure", "Measured", "Bar", "Reference", "Outcome"],
        rows.iter().map(|row| bar_row(row, unflushed)),
    );
    let missed: Vec<String> =
        rows.iter().filter(|row| row.outcome == Outcome::Missed).map(Row::sentence).collect();
    if !missed.is_empty() {
        report = report.note(missed.join("\n\n"));
    }
    let latencies: Vec<(String, LatencyHistogram)> = STEPS
        .iter()
        .filter_map(|(name, label)| {
            let histogram = evidence.measurement(name)?.histogram.as_ref()?;
            let label = if unflushed && *name == "write_ms" { "write (fsync=off)" } else { label };
            Some((label.to_owned(), LatencyHistogram::from_base64_v2(histogram).ok()?))
        })
        .collect();
    if !latencies.is_empty() {
        report = report.heading("Latencies").chart(Chart::cdf("Steps of a branch's life", "ms", latencies));
    }
    if rounds.is_empty() {
        return report;
    }
    let label = |index: usize| format!("round {}", index + 1);
    let walls = rounds.iter().enumerate().map(|(index, round)| (label(index), vec![("wall", round.wall_ms)]));
    let walls = Chart::bars("A round, from the barrier to the last destroy", "ms", walls);
    let refills = rounds.iter().enumerate().map(|(index, round)| (label(index), phases(round)));
    let refills = Chart::bars("Refill of the pool by phase", "ms", refills);
    report.heading("Rounds").chart(with_bar(walls, &rows, "wall_ms")).chart(with_bar(
        refills,
        &rows,
        "refill_ms",
    ))
}

fn phases(round: &RoundFigures) -> Vec<(&'static str, f64)> {
    let all = [
        ("clones", round.clone_ms),
        ("starts", round.start_ms),
        ("sessions", round.connect_ms),
        ("refill after the last destroy", round.refill_ms),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn with_bar(chart: Chart, rows: &[Row], measurement: &str) -> Chart {
    let comparable = |row: &&Row| row.bar.measurement == measurement && row.outcome != Outcome::Unlike;
    match rows.iter().find(comparable) {
        Some(row) => chart.with_bar(format!("bar: {}", quantity(row.bar.limit, row.bar.unit)), row.bar.limit),
        None => chart,
    }
}

fn bar_row(row: &Row, unflushed: bool) -> Vec<String> {
    let note = if unflushed && row.bar.measurement == "write_ms" { " (fsync=off)" } else { "" };
    let measured = row.measured.map_or_else(String::new, |value| quantity(value, row.bar.unit));
    let [bar, reference, outcome] = bar_cells(Some(row));
    vec![format!("{}{note}", row.bar.measurement), measured, bar, reference, outcome]
}

/// A text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
