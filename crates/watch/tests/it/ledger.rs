//! W6 to W9: waits and stalls, as they are added up.

use crate::support::{at, standby};
use duramen_watch::{
    attribution::Stage,
    ledger::{Change, Ledger, BLIND, REASONS_MAX, STALL},
    metrics,
    observation::{Observation, Standby},
    watch::State,
};
use std::time::Duration;

fn late() -> Vec<Standby> {
    vec![standby("a", [100, 100, 100, 10])]
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn add_all(seen: impl IntoIterator<Item = Observation>) -> (Ledger, Vec<Change>) {
    let mut ledger = Ledger::default();
    let changes = seen.into_iter().filter_map(|seen| ledger.add(&seen)).collect();
    (ledger, changes)
}

#[test]
fn w6_a_stall_begins_with_its_first_wait_and_ends_with_the_last_look_at_it() {
    let waiting = |ms| at(ms, &[7], late());
    let looks = (1..=9).map(|look| waiting(look * 100)).chain([at(1_000, &[], late())]);
    let (ledger, changes) = add_all([at(0, &[], late())].into_iter().chain(looks));
    assert_eq!(changes.len(), 2, "{changes:?}");
    let stall = ledger.stalls().next().expect("a stall");
    assert_eq!((stall.begin, stall.length, stall.sessions), (ms(0), ms(900), 1));
    assert_eq!(stall.reason().map(|reason| reason.stage), Some(Stage::Replay));
    assert_eq!(stall.shares.values().sum::<Duration>(), ms(900));
    let total = ledger.totals().values().next().expect("a total");
    assert_eq!((total.waited, total.stalled, total.stalls), (ms(900), ms(900), 1));
}

#[test]
fn w6_what_is_shorter_is_no_stall_and_counts_as_waiting() {
    let (ledger, changes) =
        add_all([at(0, &[], late()), at(100, &[7], late()), at(200, &[7], late()), at(300, &[], late())]);
    assert_eq!(changes, []);
    assert_eq!(ledger.totals().values().map(|total| total.waited).sum::<Duration>(), ms(200));
    assert!(ms(200) < STALL);
}

#[test]
fn w6_many_short_waits_of_one_session_are_no_stall() {
    let mut looks = vec![at(0, &[], late())];
    for look in 1..20_u64 {
        let mut seen = at(look * 100, &[7], late());
        seen.waiters[0].commit.transaction = look;
        seen.waiters[0].running = ms(30);
        looks.push(seen);
    }
    let (ledger, changes) = add_all(looks);
    assert_eq!(changes, []);
    assert_eq!(ledger.totals().values().map(|total| total.waited).sum::<Duration>(), ms(19 * 30));
}

#[test]
fn w7_a_stall_is_told_by_what_it_waited_for_most() {
    let unsent = || vec![standby("a", [10; 4])];
    let looks = [at(0, &[], late()), at(100, &[7], unsent())]
        .into_iter()
        .chain((2..=8).map(|look| at(look * 100, &[7, 8], late())))
        .chain([at(900, &[], late())]);
    let (ledger, _) = add_all(looks);
    let stall = ledger.stalls().next().expect("a stall");
    assert_eq!(stall.reason().map(|reason| reason.stage), Some(Stage::Replay));
    assert_eq!(stall.shares.len(), 2);
    assert_eq!(stall.sessions, 2);
}

#[test]
fn w8_of_a_long_gap_between_two_looks_nothing_is_said() {
    let gap = BLIND + ms(1);
    let after = 300 + u64::try_from(gap.as_millis()).unwrap();
    let (ledger, changes) = add_all([
        at(0, &[7], late()),
        at(100, &[7], late()),
        at(200, &[7], late()),
        at(300, &[7], late()),
        at(after, &[7], late()),
        at(after + 100, &[7], late()),
    ]);
    assert_eq!(ledger.blind(), gap);
    assert_eq!(ledger.totals().values().map(|total| total.waited).sum::<Duration>(), ms(400));
    let lengths: Vec<Duration> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Ended(stall) => Some(stall.length),
            _ => None,
        })
        .collect();
    assert_eq!(lengths, [ms(300)]);
}

#[test]
fn w9_figures_only_grow_and_labels_are_escaped() {
    let mut state = State::default();
    let odd = || vec![standby("a\"b\\", [100, 100, 100, 10])];
    for look in 0..=5 {
        let seen = at(look * 100, &[7], odd());
        state.ledger.add(&seen);
        state.last = Some(seen);
    }
    let text = metrics::text(&state);
    let line = r#"duramen_commit_wait_seconds_total{stage="replay",cause="unknown",standby="a\"b\\"} 0.5"#;
    assert!(text.lines().any(|it| it == line), "{text}");
    assert!(
        text.contains("duramen_standby_lag_bytes{standby=\"a\\\"b\\\\\",position=\"replayed\"} 90"),
        "{text}"
    );
    assert!(text.contains("duramen_commit_stalled_seconds 0.5"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn w9_standbys_that_call_themselves_ever_new_names_do_not_fill_the_memory() {
    let names = (0..2 * REASONS_MAX as u64)
        .map(|look| at(look * 100, &[7], vec![standby(&format!("s{look}"), [100, 100, 100, 10])]));
    let (ledger, _) = add_all(names);
    assert!(ledger.totals().len() <= REASONS_MAX + Stage::ALL.len(), "{}", ledger.totals().len());
    let waited: Duration = ledger.totals().values().map(|total| total.waited).sum();
    assert_eq!(waited, ms((2 * REASONS_MAX as u64 - 1) * 100), "all of it is counted");
}
