//! The outcome as a page.

use duramen_measure::evidence::Evidence;
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::report::{Chart, Report};

use super::bars::{compare, counted_at, fsync_ms, number, Outcome, Row};
use super::table::{bars, BAR_HEADERS};

/// The page of a run.
#[must_use]
pub fn page(evidence: &Evidence) -> Report {
    let floor = fsync_ms(evidence);
    let mut report = Report::new("Durable functions")
        .evidence(evidence)
        .note(format!(
            "A trivial instance is df.start('SELECT 1') through public SQL, the notification of its end, and its \
             result read with df.result. PostgreSQL, one worker and the load generator share this machine. \
             synchronous_commit is on; one fsync of this disk takes {} ms, and what is durable cannot take less.",
            number(floor)
        ))
        .heading("Bars")
        .table("Measured, bar and reference", BAR_HEADERS, bars(evidence));
    let rows = compare(evidence);
    let missed: Vec<String> =
        rows.iter().filter(|row| row.outcome == Outcome::Missed).map(Row::sentence).collect();
    if !missed.is_empty() {
        report = report.note(missed.join("\n\n"));
    }
    let latencies = distributions(evidence, "end_to_end_ms/c=");
    let rates = scalars(evidence, "completed_per_s/c=");
    if !latencies.is_empty() {
        report = report.heading("Throughput").chart(Chart::cdf(
            "End to end by concurrency: start, notification, result",
            "ms",
            latencies,
        ));
    }
    if !rates.is_empty() {
        let mut chart = Chart::bars("Trivial instances completed per second by concurrency", "1/s", rates);
        if let Some(row) = rows.iter().find(|row| row.concurrency.is_some()) {
            chart = chart.with_bar(format!("bar at concurrency {}", counted_at(floor)), row.limit);
        }
        report = report.chart(chart);
    }
    for (heading, prefix, title) in [
        ("Kinds of instances", "mixed_ms/", "End to end by kind, all kinds at once"),
        ("Soak", "soak_ms/", "Trivial instances by quarter of the soak"),
    ] {
        let drawn = distributions(evidence, prefix);
        if !drawn.is_empty() {
            report = report.heading(heading).chart(Chart::cdf(title, "ms", drawn));
        }
    }
    let quarters = scalars(evidence, "soak_completed_per_s/");
    if !quarters.is_empty() {
        report = report.chart(Chart::bars("Instances per second by quarter of the soak", "1/s", quarters));
    }
    report
}

/// The distributions whose names begin so, under the rest of their names.
fn distributions(evidence: &Evidence, prefix: &str) -> Vec<(String, LatencyHistogram)> {
    let drawn = evidence.measurements.iter().filter_map(|figure| {
        let name = figure.name.strip_prefix(prefix)?;
        let histogram = figure.histogram.as_ref().filter(|_| figure.count > 0)?;
        Some((name.to_owned(), LatencyHistogram::from_base64_v2(histogram).ok()?))
    });
    drawn.collect()
}

/// The single figures whose names begin so, as groups of one bar.
fn scalars(evidence: &Evidence, prefix: &str) -> Vec<(String, Vec<(&'static str, f64)>)> {
    let found = evidence.measurements.iter().filter_map(|figure| {
        Some((figure.name.strip_prefix(prefix)?.to_owned(), vec![("instances", figure.p50)]))
    });
    found.collect()
}
