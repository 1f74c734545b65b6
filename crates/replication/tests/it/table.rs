//! What a terminal shows.

use duramen_replication::scenario::Wait;
use duramen_replication::table::print_table;

use super::synthetic::{evidence, latency, stall, whole};

fn line<'a>(text: &'a str, begin: &str) -> &'a str {
    let found = text.lines().find(|line| line.trim_start_matches('|').trim_start().starts_with(begin));
    found.unwrap_or_else(|| panic!("no line {begin}:\n{text}"))
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let text = print_table(&whole());
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "{}: {line}", line.chars().count());
    }
}

#[test]
fn a_scenario_tells_its_cost_its_interval_and_where_it_stops() {
    let text = print_table(&evidence(&[latency(1, 3.0, 2.0), stall(2, Wait::Snapshot, 6.0, 0.0)]));
    let first = line(&text, "S1 ");
    assert!(first.contains(" [4.9") || first.contains(" [5.0"), "{first}");
    assert!(
        text.contains("remote_apply 6.02 s: snapshot") || text.contains("remote_apply 6.02 s:"),
        "{text}"
    );
    assert!(text.contains("Does hot_standby_feedback fix it?"));
}

#[test]
fn what_cannot_be_told_apart_is_said_in_words() {
    let text = print_table(&evidence(&[latency(3, 0.0, 0.0)]));
    assert!(text.contains("no detectable"), "{text}");
}

#[test]
fn feedback_fixes_what_it_fixes() {
    let text = print_table(&evidence(&[stall(2, Wait::Snapshot, 6.0, 0.0), stall(8, Wait::Lock, 6.0, 6.0)]));
    let table = text.split("Does hot_standby_feedback fix it?").nth(1).unwrap();
    assert!(line(table, "S2 ").trim_end().ends_with("yes   |"), "{table}");
    assert!(line(table, "S8 ").trim_end().ends_with("no    |"), "{table}");
}

#[test]
fn what_is_invalid_or_was_not_run_is_marked() {
    let text = print_table(&whole());
    assert!(text.contains("INVALID") && text.contains("verdict: invalid"));
    assert!(text.contains("not run: wal_level is replica") || text.contains("not run:"), "{text}");
}

#[test]
fn every_kind_of_figure_has_its_table() {
    let text = print_table(&whole());
    for title in [
        "Response time of a commit",
        "Where it comes from",
        "by the number of clients",
        "How stale a read of the standby is",
        "What the suite itself must reach",
    ] {
        assert!(text.contains(title), "no {title}:\n{text}");
    }
}

#[test]
fn a_scenario_that_stops_commits_tells_for_how_long_and_no_latencies() {
    let text = print_table(&evidence(&[stall(2, Wait::Snapshot, 6.0, 0.0)]));
    let row = line(&text, "S2 ");
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[2..6], ["", "", "", ""], "{row}");
    assert!(cells[6].starts_with("remote_apply 6.0"), "{row}");
}
