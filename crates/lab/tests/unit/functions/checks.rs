//! Every check can fail, and for the reason that it is there for.

use std::collections::HashSet;

use crate::functions::checks::{
    every_instance_ended_well, idle_is_silent, listing_complete, no_starvation, nothing_lost, nothing_twice,
};
use crate::functions::ledger::Ledger;
use crate::functions::steadiness::{cliff, drift, starvation, Quarter, DRIFT_BYTES, STARVED_MS};

fn sound() -> Ledger {
    Ledger {
        acknowledged: 900,
        started: 903,
        completed: 903,
        worker_kills: 50,
        postgres_kills: 10,
        ..Ledger::default()
    }
}

#[test]
fn a_sound_ledger_passes_though_clients_were_cut_off() {
    assert!(nothing_lost(&sound()).passed, "{:?}", nothing_lost(&sound()));
    assert!(nothing_twice(&sound()).passed);
    assert_eq!((sound().lost(), sound().doubled()), (0, 0));
}

#[test]
fn what_is_lost_is_noticed_in_each_way_it_can_be_lost() {
    for ledger in [
        Ledger { vanished: 1, ..sound() },
        Ledger { completed: 902, ..sound() },
        Ledger { lost_effects: 1, ..sound() },
    ] {
        assert!(!nothing_lost(&ledger).passed, "{ledger:?}");
        assert!(nothing_twice(&ledger).passed, "{ledger:?}");
        assert_eq!(ledger.lost(), 1, "{ledger:?}");
    }
}

#[test]
fn what_is_done_twice_is_noticed_also_when_nobody_started_it() {
    for ledger in [Ledger { doubled_effects: 1, ..sound() }, Ledger { strays: 1, ..sound() }] {
        assert!(!nothing_twice(&ledger).passed, "{ledger:?}");
        assert!(nothing_lost(&ledger).passed, "{ledger:?}");
        assert_eq!(ledger.doubled(), 1, "{ledger:?}");
    }
}

#[test]
fn without_instances_or_kills_nothing_is_shown() {
    let unkilled = Ledger { worker_kills: 0, postgres_kills: 0, ..sound() };
    for ledger in [Ledger::default(), unkilled] {
        assert!(!nothing_lost(&ledger).passed && !nothing_twice(&ledger).passed, "{ledger:?}");
    }
}

#[test]
fn starvation_shows_only_while_the_queue_is_there_and_a_slow_tail_is_a_finding() {
    assert!(no_starvation(500, 1).passed);
    assert!(!no_starvation(0, 100).passed);
    let over = no_starvation(500, 0);
    assert!(!over.passed && over.detail.contains("says nothing"), "{over:?}");
    assert_eq!(starvation(STARVED_MS), None);
    assert_eq!(starvation(STARVED_MS + 1.0).map(|finding| finding.rule).as_deref(), Some("starvation"));
}

#[test]
fn an_idle_worker_may_ask_once_in_five_seconds() {
    assert!(idle_is_silent(0, 15.0).passed);
    assert!(idle_is_silent(3, 15.0).passed);
    assert!(!idle_is_silent(4, 15.0).passed);
}

#[test]
fn a_list_misses_nothing_repeats_nothing_and_adds_nothing() {
    let ids = |range: std::ops::Range<u32>| range.map(|id| id.to_string());
    let started: HashSet<String> = ids(0..100).collect();
    let listed: Vec<String> = ids(0..100).rev().collect();
    assert!(listing_complete(&started, &listed).passed);
    assert!(!listing_complete(&started, &listed[1..]).passed);
    for extra in ["7", "100"] {
        let mut more = listed.clone();
        more.push(extra.to_owned());
        let check = listing_complete(&started, &more);
        assert!(!check.passed, "{check:?}");
    }
    let mut swapped = listed.clone();
    swapped[0] = swapped[1].clone();
    assert!(!listing_complete(&started, &swapped).passed);
    assert!(!listing_complete(&HashSet::new(), &[]).passed);
}

#[test]
fn a_cliff_is_a_jump_from_one_level_to_the_next_or_from_one_to_32() {
    let levels = [(1, 1.0), (4, 1.2), (8, 1.9), (16, 3.3), (32, 6.0), (128, 18.0)];
    assert_eq!(cliff(&levels), None);
    let mut jump = levels;
    jump[5].1 = 18.1;
    let found = cliff(&jump).unwrap();
    assert!(found.text.contains("from 32 to 128"), "{found:?}");
    // No step is too high, and all together are.
    let creeping = [(1, 1.0), (4, 2.0), (8, 4.0), (16, 8.0), (32, 10.1), (128, 11.0)];
    let found = cliff(&creeping).unwrap();
    assert!(found.text.contains("from 1 to 32"), "{found:?}");
}

#[test]
fn drift_is_less_work_later_answers_or_larger_tables() {
    let first = Quarter { per_s: 4_000.0, p50_ms: 2.0, hot_bytes: 20.0 * DRIFT_BYTES };
    let with = |change: fn(&mut Quarter)| {
        let mut last = first;
        change(&mut last);
        drift(&first, &last)
    };
    assert_eq!(with(|_| {}), None);
    assert_eq!(with(|last| (last.per_s, last.p50_ms, last.hot_bytes) = (9_000.0, 0.5, 0.0)), None);
    assert_eq!(with(|last| (last.per_s, last.p50_ms) = (3_601.0, 2.19)), None);
    for (found, what) in [
        (with(|last| last.per_s = 3_599.0), "%: the rate."),
        (with(|last| last.p50_ms = 2.21), "%: the median."),
        (with(|last| last.hot_bytes *= 1.11), "%: the hot tables."),
    ] {
        let found = found.unwrap();
        assert!(found.text.contains(what), "{found:?}");
    }
    // A table of a few pages may get a few more.
    let small = Quarter { hot_bytes: 8_192.0, ..first };
    assert_eq!(drift(&small, &Quarter { hot_bytes: 8.0 * 8_192.0, ..small }), None);
}

#[test]
fn one_failed_instance_fails_the_run_and_is_shown() {
    assert!(every_instance_ended_well(0, &[]).passed);
    let check = every_instance_ended_well(2, &["1a2b3c4d has no result".to_owned()]);
    assert!(!check.passed && check.detail.contains("1a2b3c4d"), "{check:?}");
}
