//! Figures against targets.

use crate::store::targets::standings;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::target::{missed, quantity, Outcome};

use super::{add, evidence};

fn outcome(evidence: &Evidence, what: &str) -> Option<Outcome> {
    standings(evidence).into_iter().find(|row| row.what == what).map(|row| row.outcome)
}

#[test]
fn a_figure_on_its_target_meets_it_and_one_above_misses_it() {
    let mut evidence = evidence();
    add(&mut evidence, "kv.put.100B/memory", 1.2, 1.0, 0.0);
    add(&mut evidence, "kv.put.100B/buffered", 2.3, 1.0, 0.0);
    assert_eq!(outcome(&evidence, "put, memory, p50"), Some(Outcome::Met));
    assert_eq!(outcome(&evidence, "put, buffered, p50"), Some(Outcome::Missed));
    assert_eq!(outcome(&evidence, "get, p50"), None);
    evidence.findings = missed(&standings(&evidence));
    let missed: Vec<&str> = evidence.findings.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(missed, ["put, buffered, p50: 2.301 us, 28 % above the target of 1.8 us."]);
}

#[test]
fn the_worst_level_counts_where_none_is_named() {
    let mut evidence = evidence();
    add(&mut evidence, "kv.get.100B/memory", 0.9, 0.0, 0.0);
    add(&mut evidence, "kv.get.100B/strict", 1.2, 0.0, 0.0);
    assert_eq!(outcome(&evidence, "get, p50"), Some(Outcome::Missed));
    evidence.measurements.push(Measurement::scalar("kv.scan/memory", "rows/s", 40e6));
    assert_eq!(outcome(&evidence, "scan"), Some(Outcome::Met));
    evidence.measurements.push(Measurement::scalar("kv.scan/buffered", "rows/s", 24e6));
    assert_eq!(outcome(&evidence, "scan"), Some(Outcome::Missed));
}

#[test]
fn ratios_are_taken_within_the_run() {
    let mut evidence = evidence();
    evidence.measurements.push(Measurement::scalar("fsync_floor", "us", 100.0));
    add(&mut evidence, "kv.put.100B/strict", 129.0, 1.0, 1.0);
    assert_eq!(outcome(&evidence, "put, strict, over one fdatasync"), Some(Outcome::Met));
    for (threads, rate) in [(1, 1_000.0), (32, 4_900.0)] {
        let name = format!("kv.put.100B/strict@{threads}");
        evidence.measurements.push(Measurement::scalar(&name, "us", 1.0));
        evidence.measurements.push(Measurement::scalar(format!("{name}.ops_per_s"), "1/s", rate));
    }
    assert_eq!(outcome(&evidence, "puts per second, strict, 32 threads over one"), Some(Outcome::Missed));
    for (threads, rate) in [(1, 1_000.0), (2, 1_900.0), (8, 1_800.0)] {
        let name = format!("kv.get.100B/memory@{threads}");
        evidence.measurements.push(Measurement::scalar(&name, "us", 1.0));
        evidence.measurements.push(Measurement::scalar(format!("{name}.ops_per_s"), "1/s", rate));
    }
    assert_eq!(outcome(&evidence, "gets per second, 2 threads over one"), Some(Outcome::Met));
    assert_eq!(outcome(&evidence, "gets per second, 8 threads over 2"), Some(Outcome::Missed));
    let tail = "put p99.9 during a checkpoint, strict, over the p99.9 of one fdatasync";
    evidence.measurements.push(Measurement::scalar("kv.put.p999_during_checkpoint/strict", "us", 2_000.0));
    assert_eq!(outcome(&evidence, tail), None, "too few syncs");
    evidence.measurements.push(Measurement::scalar("fsync_floor_p999", "us", 1_000.0));
    assert_eq!(outcome(&evidence, tail), Some(Outcome::Met));
    add(&mut evidence, "branch.fork/strict", 100.0, 1.0, 1.0);
    assert_eq!(outcome(&evidence, "log records of a durable fork"), Some(Outcome::Met));
}

#[test]
fn a_run_of_another_size_meets_no_target_that_is_for_a_million() {
    let mut evidence = evidence();
    evidence.configure("rows", 20_000);
    evidence.configure("vectors", 2_000);
    add(&mut evidence, "kv.get.100B/memory", 0.1, 0.0, 0.0);
    add(&mut evidence, "json.get/memory", 1.0, 0.0, 0.0);
    add(&mut evidence, "vector.search.100k128/memory", 10.0, 0.0, 0.0);
    assert_eq!(outcome(&evidence, "get, p50"), Some(Outcome::OtherSize));
    assert_eq!(outcome(&evidence, "json get"), Some(Outcome::Met));
    assert_eq!(outcome(&evidence, "vector search, 100k x 128, changed fork"), Some(Outcome::OtherSize));
}

#[test]
fn quantities_are_read_easily() {
    assert_eq!(quantity(0.13, "us"), "0.13 us");
    assert_eq!(quantity(12_345.0, "us"), "12.35 ms");
    assert_eq!(quantity(31.4e6, "rows/s"), "31.4 M rows/s");
    assert_eq!(quantity(1.07, "ratio"), "1.07 x");
}
