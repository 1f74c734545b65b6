//! Figures against targets.

use crate::functions::targets::{counted_at, standings, TARGETS};
use duramen_measure::evidence::Evidence;
use duramen_measure::target::{missed, quantity, Outcome, Standing};

use super::{evidence, set};

fn row(evidence: &Evidence, what: &str) -> Option<Standing> {
    standings(evidence).into_iter().find(|row| row.what.starts_with(what))
}

fn outcome(evidence: &Evidence, what: &str) -> Option<Outcome> {
    row(evidence, what).map(|row| row.outcome)
}

#[test]
fn a_figure_on_its_target_meets_it_and_one_beyond_misses_it() {
    let cases = [
        ("completed_per_s/c=32", "trivial instances completed", 5_000.0, 4_999.0),
        ("started_per_s", "starts, one call each", 10_000.0, 9_999.0),
        ("bulk_started_per_s", "starts in bulk", 50_000.0, 49_999.0),
        ("commits_per_instance", "commits", 2.0, 2.01),
        ("wal_bytes_per_instance", "WAL", 4_096.0, 4_097.0),
        ("effective_parallelism", "effective parallelism", 9.5, 9.49),
        ("end_to_end_ms/c=128", "end to end, concurrency 128", 60.0, 60.1),
        ("completed_128_over_32", "completed at concurrency 128", 1.0, 0.99),
        ("hot_bytes_under_snapshot", "hot tables", 1.1, 1.11),
        ("queue_rate_share", "rate through a queue", 0.9, 0.89),
        ("beside_a_backlog", "p50 beside a backlog", 1.5, 1.51),
        ("idle_queries_per_s", "queries of an idle worker", 0.2, 0.21),
        ("lost", "lost", 0.0, 1.0),
        ("done_twice", "SQL effects twice", 0.0, 1.0),
    ];
    for (name, what, good, bad) in cases {
        let mut met = evidence(0.1);
        assert_eq!(outcome(&met, what), None, "{name} was not measured");
        set(&mut met, name, "", good);
        assert_eq!(outcome(&met, what), Some(Outcome::Met), "{name} = {good}");
        let mut missed = evidence(0.1);
        set(&mut missed, name, "", bad);
        assert_eq!(outcome(&missed, what), Some(Outcome::Missed), "{name} = {bad}");
    }
}

#[test]
fn what_waits_for_the_disk_is_given_what_the_disk_takes() {
    let at = |fsync_ms: f64, end_to_end: f64, start: f64| {
        let mut evidence = evidence(fsync_ms);
        set(&mut evidence, "end_to_end_ms/c=1", "ms", end_to_end);
        set(&mut evidence, "start_ms", "ms", start);
        [outcome(&evidence, "end to end"), outcome(&evidence, "df.start")].map(Option::unwrap)
    };
    assert_eq!(at(0.1, 5.0, 1.09), [Outcome::Met, Outcome::Met]);
    assert_eq!(at(0.1, 5.1, 1.11), [Outcome::Missed, Outcome::Missed]);
    assert_eq!(at(4.0, 11.0, 4.99), [Outcome::Met, Outcome::Met]);
    assert_eq!(at(4.0, 11.1, 5.01), [Outcome::Missed, Outcome::Missed]);
    let mut slow = evidence(4.0);
    set(&mut slow, "end_to_end_ms/c=1", "ms", 10.0);
    let row = row(&slow, "end to end").unwrap();
    assert_eq!(row.limit_in_words(), "<= 11 ms (2 fsync + 3 ms)");
    assert_eq!((row.floor_in_words().as_str(), row.reference_in_words().as_str()), ("4 ms", "626 ms"));
}

#[test]
fn on_a_slow_disk_completions_are_counted_at_a_higher_concurrency() {
    assert_eq!((counted_at(1.0), counted_at(1.01)), (32, 128));
    let mut slow = evidence(1.5);
    set(&mut slow, "completed_per_s/c=32", "1/s", 3_000.0);
    assert_eq!(outcome(&slow, "trivial"), None);
    set(&mut slow, "completed_per_s/c=128", "1/s", 6_000.0);
    let row = row(&slow, "trivial").unwrap();
    assert_eq!((row.outcome, row.measured), (Outcome::Met, Some(6_000.0)));
    assert_eq!(row.what, "trivial instances completed, concurrency 128");
    assert_eq!(row.limit_in_words(), ">= 5,000/s, better 8,000");
}

#[test]
fn a_few_kills_can_miss_the_target_and_cannot_meet_it() {
    let mut few = evidence(0.1);
    few.configure("worker_kills", 49);
    set(&mut few, "lost", "", 0.0);
    set(&mut few, "done_twice", "", 1.0);
    assert_eq!(outcome(&few, "lost"), Some(Outcome::OtherLoad));
    assert_eq!(outcome(&few, "SQL effects twice"), Some(Outcome::Missed));
}

#[test]
fn parallelism_is_held_against_the_connections_of_the_run() {
    let mut evidence = evidence(0.1);
    evidence.configure("connections", 40);
    set(&mut evidence, "effective_parallelism", "", 37.9);
    let row = row(&evidence, "effective parallelism").unwrap();
    assert_eq!((row.outcome, row.limit), (Outcome::Missed, 38.0));
}

#[test]
fn missed_targets_are_told_with_what_the_reference_reached() {
    let mut evidence = evidence(0.1);
    set(&mut evidence, "completed_per_s/c=32", "1/s", 2_500.0);
    set(&mut evidence, "wal_bytes_per_instance", "bytes", 6_144.0);
    set(&mut evidence, "lost", "", 3.0);
    evidence.findings = missed(&standings(&evidence));
    let missed: Vec<&str> = evidence.findings.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(
        missed,
        [
            "trivial instances completed, concurrency 32: 2,500/s, 50 % below the target of 5,000/s. The reference \
             reached 22.9/s.",
            "WAL per trivial instance: 6.144 kB, 50 % above the target of 4.096 kB. The reference reached 36.86 kB.",
            "lost under kills: 3 instances and effects, above the target of 0 instances and effects.",
        ]
    );
}

#[test]
fn every_target_is_found_by_its_words() {
    let mut words: Vec<&str> = TARGETS.iter().map(|target| target.what).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), TARGETS.len());
    assert_eq!(quantity(12_000.0, "bytes"), "12 kB");
    assert_eq!(quantity(0.2, "1/s"), "0.2/s");
}
