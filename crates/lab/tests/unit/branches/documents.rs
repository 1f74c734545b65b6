use std::time::Duration;

use crate::branches::report::page;
use crate::branches::rounds::RoundFigures;
use crate::branches::table::print_table;
use duramen_measure::evidence::{Measurement, Severity};
use duramen_measure::histogram::LatencyHistogram;

use super::evidence;

fn run() -> duramen_measure::evidence::Evidence {
    let mut run = evidence("events", "session", 100, 100);
    let latencies: LatencyHistogram = (1..=500).map(|n| Duration::from_micros(n * 80)).collect();
    run.measurements.push(Measurement::from_histogram("lease_ms", &latencies));
    run.measurements.push(Measurement::from_histogram("write_ms", &latencies));
    run.measurements.push(Measurement::from_values("idle_branch_pss_bytes", "bytes", &[6.2e6, 6.4e6]));
    run.check("all_branches_succeeded", true, "500 of 500");
    run.find("fsync_off", Severity::Warning, None, "Taken with fsync=off.");
    run.finish();
    run
}

fn line<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let line = table.lines().find(|line| line.trim_start_matches(['|', ' ']).starts_with(name));
    let line = line.expect("the table has a line of that name");
    line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn the_table_holds_every_figure_beside_its_target_and_the_reference() {
    let table = print_table(&run());
    assert_eq!(
        line(&table, "lease_ms"),
        ["lease_ms", "500", "20", "38.01", "39.62", "40.01", "p95 4 ms", "91 ms", "missed"]
    );
    assert_eq!(line(&table, "idle_branch")[2..], ["6.2 MB", "6.4 MB", "6.4 MB", "6.4 MB", "p95 7 MB", "met"]);
}

#[test]
fn the_table_says_fsync_off_beside_the_writes() {
    assert_eq!(line(&print_table(&run()), "write_ms")[0], "write_ms (fsync=off)");
}

#[test]
fn the_table_shows_targets_without_figures_checks_findings_and_the_verdict() {
    let table = print_table(&run());
    assert_eq!(*line(&table, "refill_ms").last().unwrap(), "not measured");
    assert!(table.contains("pass  all_branches_succeeded: 500 of 500"));
    assert!(table.contains("warning fsync_off: Taken with fsync=off."));
    assert!(table.ends_with("verdict: pass\n"));
}

#[test]
fn the_page_holds_targets_curves_rounds_and_what_was_missed() {
    let round = RoundFigures {
        wall_ms: 140.0,
        refill_ms: Some(1_700.0),
        clone_ms: Some(200.0),
        start_ms: Some(800.0),
        connect_ms: Some(700.0),
    };
    let html = page(&run(), &[round.clone(), round]).render();
    for wanted in [
        "PASS",
        "lease_ms, p95: 38.01 ms, 850 % above the target of 4 ms",
        "write (fsync=off)",
        "round 2",
        "sessions",
        "target: 150 ms",
        "not measured",
    ] {
        assert!(html.contains(wanted), "the page lacks {wanted:?}");
    }
    assert_eq!(html.matches("<figure").count(), 4);
}

#[test]
fn a_page_without_rounds_has_no_charts_of_them() {
    assert!(!page(&evidence("none", "session", 1, 1), &[]).render().contains("<figure"));
}
