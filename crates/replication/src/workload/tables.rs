//! What a workload brought back, as tables: from the evidence alone.

use duramen_measure::evidence::Evidence;
use duramen_reports::text::short;
use serde_json::Value;

use super::super::table::Grid;
use super::figures::WORKLOAD;

/// The tables that there is something in.
pub(crate) fn grids(evidence: &Evidence) -> Vec<Grid> {
    let Some(workload) = evidence.config.get(WORKLOAD) else { return Vec::new() };
    let list = |name: &str| workload.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    vec![costs(evidence, &list("counts")), errors(&list("counts")), fresh(evidence, &list("fresh"))]
}

fn text<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(entry: &Value, name: &str) -> u64 {
    entry.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn grid<const N: usize>(title: &str, headers: [&str; N], rows: Vec<Vec<String>>) -> Grid {
    Grid { title: title.to_owned(), headers: headers.map(str::to_owned).into(), rows }
}

fn costs(evidence: &Evidence, counts: &[Value]) -> Grid {
    let rows = counts.iter().map(|entry| {
        let (kind, level) = (text(entry, "kind"), text(entry, "level"));
        let figure = |name: &str| evidence.measurement(&format!("{name}/W/{kind}/{level}"));
        let cell = |value: Option<f64>| value.map_or_else(String::new, short);
        let (latency, rate) = (figure("latency_ms"), figure("throughput_per_s"));
        let wait = match evidence.interval(&format!("wait_ms/W/{kind}/{level}")) {
            Some([low, high]) => {
                format!("{} [{}, {}]", cell(figure("wait_ms").map(|wait| wait.p50)), short(low), short(high))
            }
            None => cell(figure("wait_ms").map(|wait| wait.p50)),
        };
        vec![
            kind.to_owned(),
            level.to_owned(),
            number(entry, "committed").to_string(),
            cell(rate.map(|rate| rate.p50)),
            cell(latency.map(|latency| latency.p50)),
            cell(latency.map(|latency| latency.p99)),
            cell(figure("work_ms").map(|work| work.p50)),
            wait,
        ]
    });
    grid(
        "The workload: commits of each kind; how many a second as fast as it goes; response times at 60 % of the slowest \
         level's rate; work before the commit; and how much longer a commit takes than at local, with its 95 % interval: \
         what is waited for the standby. Times in ms.",
        ["transaction", "level", "commits", "1/s", "p50", "p99", "work", "wait"],
        rows.collect(),
    )
}

fn errors(counts: &[Value]) -> Grid {
    let mut rows = Vec::new();
    for entry in counts {
        let head = |code: &str| {
            vec![text(entry, "kind").to_owned(), text(entry, "level").to_owned(), code.to_owned()]
        };
        let each = |name: &str| entry.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        for (code, count) in each("retries") {
            let said = format!("tried again, in {} transactions", number(entry, "retried"));
            rows.push([head(&code), vec![count.to_string(), said]].concat());
        }
        for (code, failures) in each("errors") {
            let said = text(&failures, "first").to_owned();
            rows.push([head(&code), vec![number(&failures, "count").to_string(), said]].concat());
        }
    }
    grid(
        "What failed in the workload, and what was tried again",
        ["transaction", "level", "code", "count", "what"],
        rows,
    )
}

fn fresh(evidence: &Evidence, fresh: &[Value]) -> Grid {
    let rows = fresh.iter().map(|entry| {
        let (kind, level) = (text(entry, "kind"), text(entry, "level"));
        let stale = evidence.measurement(&format!("stale_ms/W/{kind}/{level}"));
        let percent = evidence.median(&format!("stale_percent/W/{kind}/{level}"));
        let cell = |value: Option<f64>| value.map_or_else(String::new, short);
        vec![
            kind.to_owned(),
            level.to_owned(),
            number(entry, "asked").to_string(),
            cell(percent),
            cell(stale.map(|stale| stale.p50)),
            cell(stale.map(|stale| stale.p99)),
            number(entry, "never").to_string(),
        ]
    });
    grid(
        "Read your writes: right after a commit the standby was asked for it. The share that it did not show at once, and \
         for how long those were stale (ms).",
        ["transaction", "level", "commits", "stale %", "p50", "p99", "not within 10 s"],
        rows.collect(),
    )
}
