use crate::branches::targets::{standings, Percentile, TARGETS};
use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::target::{missed, quantity, Outcome};

use super::evidence;

fn outcome(evidence: &Evidence, name: &str) -> Option<Outcome> {
    standings(evidence).into_iter().find(|row| row.name == name).map(|row| row.outcome)
}

fn with(mut evidence: Evidence, name: &str, unit: &str, values: &[f64]) -> Evidence {
    evidence.measurements.push(Measurement::from_values(name, unit, values));
    evidence
}

#[test]
fn a_figure_at_its_target_meets_it_and_one_above_misses_it() {
    let run = || evidence("events", "session", 100, 100);
    assert_eq!(outcome(&with(run(), "lease_ms", "ms", &[4.0]), "lease_ms"), Some(Outcome::Met));
    assert_eq!(outcome(&with(run(), "lease_ms", "ms", &[4.01]), "lease_ms"), Some(Outcome::Missed));
}

#[test]
fn the_percentile_of_the_target_is_what_counts() {
    let mut values = vec![1.0; 90];
    values.extend([100.0; 10]);
    let run = with(evidence("events", "session", 100, 100), "cold_branch_ms", "ms", &values);
    assert_eq!(outcome(&run, "cold_branch_ms"), Some(Outcome::Met), "the median is 1 ms");
    let run = with(evidence("events", "session", 100, 100), "lease_ms", "ms", &values);
    assert_eq!(outcome(&run, "lease_ms"), Some(Outcome::Missed), "the 95th percentile is 100 ms");
}

#[test]
fn each_write_has_its_own_targets() {
    let limit = |write: &str, name: &str| {
        let run = with(evidence(write, "session", 100, 100), name, "ms", &[1.0]);
        standings(&run).into_iter().find(|row| row.name == name).map(|row| row.limit)
    };
    assert_eq!(limit("events", "write_ms"), Some(20.0));
    assert_eq!(limit("ddl", "write_ms"), Some(120.0));
    assert_eq!(limit("none", "write_ms"), None);
    assert_eq!(limit("events", "refill_ms"), Some(1_500.0));
    assert_eq!(limit("ddl", "refill_ms"), Some(2_000.0));
    assert_eq!(limit("events", "wall_ms"), Some(150.0));
    assert_eq!(limit("ddl", "wall_ms"), None);
    assert_eq!(limit("none", "destroy_ms"), Some(10.0));
}

#[test]
fn a_figure_of_another_load_is_neither_met_nor_missed() {
    let run = with(evidence("events", "session", 10, 10), "lease_ms", "ms", &[1.0]);
    assert_eq!(outcome(&run, "lease_ms"), Some(Outcome::OtherLoad));
    let run = with(evidence("events", "wire", 100, 100), "first_query_ms", "ms", &[1.0]);
    assert_eq!(outcome(&run, "first_query_ms"), Some(Outcome::OtherLoad));
}

#[test]
fn other_clients_are_held_against_no_target_of_the_sessions() {
    for runner in ["psql", "node-pg"] {
        let run = with(evidence("events", runner, 100, 100), "wall_ms", "ms", &[1.0]);
        let run = with(run, "lease_ms", "ms", &[1.0]);
        assert_eq!(outcome(&run, "wall_ms"), Some(Outcome::OtherLoad));
        assert_eq!(outcome(&run, "lease_ms"), Some(Outcome::OtherLoad));
        assert_eq!(outcome(&run, "first_query_ms"), None, "{runner} has figures of its own");
    }
}

#[test]
fn the_targets_of_a_thousand_are_only_for_such_pools() {
    let run = |pool| with(evidence("events", "session", 100, pool), "pool_warm_ms", "ms", &[31_000.0]);
    assert_eq!(outcome(&run(100), "pool_warm_ms"), Some(Outcome::OtherLoad));
    assert_eq!(outcome(&run(1_000), "pool_warm_ms"), Some(Outcome::Missed));
    assert_eq!(outcome(&evidence("events", "session", 100, 100), "pool_pss_bytes"), None);
}

#[test]
fn a_target_without_a_figure_is_shown_as_not_measured() {
    let run = evidence("events", "session", 100, 100);
    assert_eq!(outcome(&run, "refill_ms"), Some(Outcome::NotMeasured));
    assert_eq!(outcome(&run, "lease_ms"), Some(Outcome::NotMeasured));
}

#[test]
fn the_targets_of_two_sizes_are_only_for_runs_that_compare_them() {
    let mut run = evidence("events", "session", 100, 100);
    assert_eq!(outcome(&run, "scale_lease_p50_ratio"), None);
    run.configure("scale", vec![10, 100]);
    assert_eq!(outcome(&run, "scale_lease_p50_ratio"), Some(Outcome::NotMeasured));
    let run = with(run, "scale_first_query_p95_ratio", "ratio", &[1.3]);
    assert_eq!(outcome(&run, "scale_first_query_p95_ratio"), Some(Outcome::Missed));
}

#[test]
fn every_missed_target_becomes_a_finding_that_says_by_how_much() {
    let mut run = evidence("ddl", "session", 100, 100);
    run.measurements.push(Measurement::from_values("write_ms", "ms", &[330.0]));
    run.measurements.push(Measurement::from_values("destroy_ms", "ms", &[11.0]));
    run.measurements.push(Measurement::from_values("lease_ms", "ms", &[2.0]));
    run.findings = missed(&standings(&run));
    let texts: Vec<&str> = run.findings.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "write_ms, p95: 330 ms, 175 % above the target of 120 ms. That is worse than the reference, which reached 297 ms.",
            "destroy_ms, p95: 11 ms, 10 % above the target of 10 ms. The reference reached 177 ms.",
        ]
    );
}

#[test]
fn bars_are_in_the_units_of_their_measurements() {
    for target in TARGETS {
        let unit = match target.what.rsplit_once('_') {
            Some((_, "ms")) => "ms",
            Some((_, "bytes")) => "bytes",
            _ => "ratio",
        };
        assert_eq!(target.unit, unit, "{}", target.what);
        assert!(target.limit > 0.0);
    }
    assert_eq!(Percentile::P95.name(), "p95");
}

#[test]
fn quantities_are_written_for_people() {
    assert_eq!(quantity(6_300_000.0, "bytes"), "6.3 MB");
    assert_eq!(quantity(3.7e9, "bytes"), "3.7 GB");
    assert_eq!(quantity(1.5, "ratio"), "1.5 x");
    assert_eq!(quantity(28.7, "ms"), "28.7 ms");
    assert_eq!(number(1_234.5), "1,235");
    assert_eq!(number(100.0), "100");
    assert_eq!(number(0.01234), "0.01234");
    assert_eq!(number(0.0), "0");
}
