//! The outcome as a page.

use duramen_measure::evidence::Evidence;
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::target::{quantity, Outcome, Standing};
use duramen_reports::page::{Chart, Report};
use duramen_reports::suite;
use serde_json::Value;

use super::rounds::RoundFigures;
use super::sweep;
use super::targets::standings;
use super::Branches;

/// The steps whose distributions are drawn, with their names for readers.
const STEPS: [(&str, &str); 16] = [
    ("lease_ms", "lease"),
    ("first_query_ms", "first query"),
    ("second_query_ms", "second query"),
    ("write_ms", "write"),
    ("destroy_ms", "destroy"),
    ("wire_first_query_ms", "connect and first query"),
    ("router_connect_ms", "router: connect, which creates the branch"),
    ("router_first_query_ms", "router: connect and first query"),
    ("psql_first_query_ms", "psql: first query, a process"),
    ("psql_second_process_ms", "psql: second query, a process"),
    ("psql_second_query_ms", "psql: second query, held open"),
    ("psql_write_ms", "psql: write, a process"),
    ("node_pg_connect_ms", "node-pg: connect"),
    ("node_pg_first_query_ms", "node-pg: connect and first query"),
    ("node_pg_second_query_ms", "node-pg: second query"),
    ("node_pg_write_ms", "node-pg: write"),
];

/// The page of a run. `rounds` are the figures of its rounds, which the evidence holds only as percentiles.
pub(crate) fn page(evidence: &Evidence, rounds: &[RoundFigures]) -> Report {
    let config = |name: &str| evidence.config.get(name).map_or_else(String::new, plain);
    let unflushed = evidence.findings.iter().any(|finding| finding.rule == "fsync_off");
    let mut rows = standings(evidence);
    let mut note = format!(
        "{} rounds of {} clients, released at once; each creates a branch of {}, queries it twice, writes to it ({}) and \
         destroys it. Latencies are taken at the client, from the request being sent to its answer being read, on the \
         machine that also runs the branches. Branches are {}; PostgreSQL {}.",
        config("rounds"),
        config("concurrency"),
        config("source"),
        config("write"),
        config("volumes"),
        config("server_version"),
    );
    if unflushed {
        note.push_str("\n\nWrites were taken with fsync=off: they are not flushed to disk.");
        let writes = rows.iter_mut().filter(|row| row.name == "write_ms");
        writes.for_each(|row| row.what.push_str(" (fsync=off)"));
    }
    let mut report = suite::page(&Branches, "PostgreSQL branches", evidence, note, &rows);
    let latencies: Vec<(String, LatencyHistogram)> = STEPS
        .iter()
        .filter_map(|(name, label)| {
            let histogram = evidence.measurement(name)?.histogram.as_ref()?;
            let is_write = name.ends_with("write_ms");
            let label =
                if unflushed && is_write { format!("{label} (fsync=off)") } else { (*label).to_owned() };
            Some((label, LatencyHistogram::from_base64_v2(histogram).ok()?))
        })
        .collect();
    if !latencies.is_empty() {
        report = report.heading("Latencies").chart(Chart::cdf("Steps of a branch's life", "ms", latencies));
    }
    if rounds.is_empty() {
        return report;
    }
    let swept = sweep::series(evidence);
    if swept.iter().any(|(_, points)| !points.is_empty()) {
        let title = format!("A refill of {} branches, by how many are made at a time", config("pool"));
        report = report.heading("Refills").chart(Chart::line(title, "at a time", "ms, median", swept));
    }
    let label = |index: usize| format!("round {}", index + 1);
    let walls = rounds.iter().enumerate().map(|(index, round)| (label(index), vec![("wall", round.wall_ms)]));
    let walls = Chart::bars("A round, from the barrier to the last destroy", "ms", walls);
    let refills = rounds.iter().enumerate();
    let refills =
        refills.filter_map(|(index, round)| Some((label(index), vec![("refill", round.refill_ms?)])));
    let refills = Chart::bars("Refill of the pool after the last destroy", "ms", refills);
    let phases = rounds.iter().enumerate().map(|(index, round)| (label(index), phases(round)));
    report
        .heading("Rounds")
        .chart(with_target(walls, &rows, "wall_ms"))
        .chart(with_target(refills, &rows, "refill_ms"))
        .chart(Chart::stacked("The phases of a refill", "ms", phases))
}

fn phases(round: &RoundFigures) -> Vec<(&'static str, f64)> {
    let all = [("clones", round.clone_ms), ("starts", round.start_ms), ("sessions", round.connect_ms)];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn with_target(chart: Chart, rows: &[Standing], measurement: &str) -> Chart {
    let comparable = |row: &&Standing| row.name == measurement && row.outcome != Outcome::OtherLoad;
    match rows.iter().find(comparable) {
        Some(row) => chart.with_target(format!("target: {}", quantity(row.limit, row.unit)), row.limit),
        None => chart,
    }
}

/// A text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
