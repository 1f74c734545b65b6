//! The outcome as a page.

use duramen_base::words::number;
use duramen_measure::evidence::Evidence;
use duramen_measure::histogram::LatencyHistogram;
use duramen_reports::page::{Chart, Report};
use duramen_reports::suite;

use super::targets::{counted_at, fsync_ms, standings};
use super::Functions;

/// The page of a run.
pub(crate) fn page(evidence: &Evidence) -> Report {
    let floor = fsync_ms(evidence);
    let note = format!(
        "A trivial instance is df.start('SELECT 1') through public SQL, the notification of its end, and its result read \
         with df.results. PostgreSQL, one worker and the load generator share this machine. synchronous_commit is on; one \
         fsync of this disk takes {} ms, and what is durable cannot take less.",
        number(floor)
    );
    let rows = standings(evidence);
    let mut report = suite::page(&Functions, "Durable functions", evidence, note, &rows);
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
        if let Some(row) = rows.iter().find(|row| row.name.starts_with("completed_per_s")) {
            chart = chart.with_target(format!("target at concurrency {}", counted_at(floor)), row.limit);
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

/// The single figures whose names begin so, as groups of one target.
fn scalars(evidence: &Evidence, prefix: &str) -> Vec<(String, Vec<(&'static str, f64)>)> {
    let found = evidence.measurements.iter().filter_map(|figure| {
        Some((figure.name.strip_prefix(prefix)?.to_owned(), vec![("instances", figure.p50)]))
    });
    found.collect()
}
