//! The suite "store": what it measures, what its rules notice, and what they let pass.

mod beside;
mod diagnosis;
mod options;
mod rules;
mod run;
mod targets;

use crate::store::options::{ROWS, VECTORS};
use crate::store::{Options, Sabotage};
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::host::Host;
use duramen_reports::suite::run as run_suite;
use std::time::Duration;

/// A run that is small enough for a test.
fn small(dir: &std::path::Path, ops: &str, sabotage: Sabotage) -> Options {
    Options { ops: ops.to_owned(), rows: 2_000, seconds: 0.03, sabotage, ..Options::new(dir) }
}

/// Runs the suite over a store that is spoilt in one way.
fn spoilt(ops: &str, sabotage: Sabotage) -> Evidence {
    let dir = tempfile::tempdir().expect("a folder");
    let evidence = run_suite(&small(dir.path(), ops, sabotage), &|_| {}).expect("the suite runs");
    assert_eq!(
        std::fs::read_dir(dir.path()).expect("the folder is there").count(),
        0,
        "something is left of the stores"
    );
    evidence
}

/// Which operations a rule noticed, as the beginnings of its texts.
fn noticed(evidence: &Evidence, rule: &str) -> Vec<String> {
    let found = evidence.findings.iter().filter(|finding| finding.rule == rule);
    found.map(|finding| finding.text.split(' ').next().expect("a text has a first word").to_owned()).collect()
}

fn check<'e>(evidence: &'e Evidence, name: &str) -> &'e duramen_measure::evidence::Check {
    evidence.checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no check {name}"))
}

/// A document without figures.
fn evidence() -> Evidence {
    let host = Host {
        cpu: "a processor".to_owned(),
        cores: 2,
        memory_bytes: 1 << 34,
        kernel: "Linux 6".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.5; 3],
        fsync_floor_us: 900.0,
    };
    let mut evidence = Evidence::new("store", host);
    evidence.configure("rows", ROWS);
    evidence.configure("vectors", VECTORS);
    evidence.configure("optimised", true);
    evidence
}

/// Adds an operation whose latencies are all alike.
fn add(evidence: &mut Evidence, name: &str, us: f64, appends: f64, syncs: f64) {
    add_two(evidence, name, (us, us), appends, syncs);
}

/// Adds an operation of which every tenth takes as long as the second figure says.
fn add_two(evidence: &mut Evidence, name: &str, (us, slow): (f64, f64), appends: f64, syncs: f64) {
    let mut latencies = LatencyHistogram::fine();
    let of = |us: f64| Duration::from_nanos((us * 1e3) as u64);
    latencies.extend((0..1_000).map(|number| if number % 10 == 0 { of(slow) } else { of(us) }));
    evidence.measurements.push(Measurement::from_histogram_us(name, &latencies));
    let figures = [("ops_per_s", 1e6 / us), ("appends_per_op", appends), ("syncs_per_op", syncs)];
    for (figure, value) in figures {
        evidence.measurements.push(Measurement::scalar(format!("{name}.{figure}"), "", value));
    }
}
