//! The outcome as a page.

use duramen_base::words::number;
use duramen_measure::evidence::Evidence;
use duramen_measure::histogram::LatencyHistogram;
use duramen_reports::page::{Chart, Report};
use duramen_reports::suite::{self, Suite as _};
use duramen_store::Durability;

use super::matrix::Matrix;
use super::table::{costs, latencies};
use super::targets::standings;
use super::Store;

/// The operations whose distributions are drawn at each level.
const DRAWN: [&str; 6] =
    ["kv.put.100B", "kv.get.100B", "state.set", "event.append", "json.set_path", "branch.fork"];

/// The page of a run.
pub(crate) fn page(evidence: &Evidence) -> Report {
    let matrix = Matrix::from_evidence(evidence);
    let (latency_headers, latency_rows) = latencies(&matrix);
    let (cost_headers, cost_rows) = costs(&matrix);
    let note = format!(
        "Every operation at every level of durability, in slices that alternate between the levels in a random order. \
         Memory promises nothing, buffered survives a killed process, strict a power cut. One sync of this disk takes {} us, \
         reading the clock {} us, which every latency includes.",
        number(matrix.sync_floor_us),
        number(evidence.measurement("timer").map_or(0.0, |timer| timer.p50))
    );
    let mut report = suite::page(&Store, "The embedded store", evidence, note, &standings(evidence));
    report = report
        .heading("Operations")
        .table("Latency in us: p50 / p95 / p99", latency_headers, latency_rows)
        .table("Costs", cost_headers, cost_rows);
    for part in Store.beside(evidence) {
        report = part.show(report);
    }
    report = report.heading("Distributions");
    for level in matrix.levels() {
        let drawn = distributions(&matrix, level);
        if !drawn.is_empty() {
            report = report.chart(Chart::cdf(format!("Latencies, {level}"), "us", drawn));
        }
    }
    let groups: Vec<(String, Vec<(&str, f64)>)> = matrix
        .cells
        .iter()
        .filter(|cell| cell.level == Durability::Strict && cell.op == "kv.put.100B")
        .filter_map(|cell| Some((format!("{} threads", cell.threads?), vec![("puts", cell.ops_per_s()?)])))
        .collect();
    if !groups.is_empty() {
        report = report.chart(Chart::bars("Durable puts per second by threads", "1/s", groups));
    }
    report
}

fn distributions(matrix: &Matrix<'_>, level: Durability) -> Vec<(String, LatencyHistogram)> {
    let drawn = DRAWN.iter().filter_map(|op| {
        let histogram = matrix.cell(op, level)?.figure.histogram.as_ref()?;
        Some(((*op).to_owned(), LatencyHistogram::from_base64_v2(histogram).ok()?))
    });
    drawn.collect()
}
