//! What a run does.

use duramen_base::entropy;
use duramen_replication::outcome::Conditions;
use duramen_replication::pass::text::Names;
use duramen_replication::pass::{is_one_level_a_pass, Unit};
use duramen_replication::plan::{guess, has_time, units, LIMIT};
use duramen_replication::scenario::{catalog, Expect, Kind, Scenario};
use duramen_replication::{Level, Options};
use std::time::Duration;

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::new("nowhere", "duramen");
    change(&mut options);
    options
}

fn scenario(number: u32) -> &'static Scenario {
    catalog().iter().find(|scenario| scenario.number == number).expect("it is there")
}

fn planned(number: u32, options: &Options, seed: u64) -> Vec<Unit> {
    units(scenario(number), options, 0, &mut entropy::rng(seed))
}

fn count(units: &[Unit], wanted: impl Fn(&Unit) -> bool) -> usize {
    units.iter().filter(|unit| wanted(unit)).count()
}

#[test]
fn stalls_take_a_pass_a_level_and_feedback_is_tried_where_commits_stop() {
    let units = planned(2, &options(|_| {}), 1);
    for level in [Level::RemoteWrite, Level::On, Level::RemoteApply] {
        assert_eq!(count(&units, |unit| unit.level == level && !unit.conditions.feedback), 1, "{level}");
    }
    let fed: Vec<Level> =
        units.iter().filter(|unit| unit.conditions.feedback).map(|unit| unit.level).collect();
    assert_eq!(fed, [Level::RemoteApply]);
}

#[test]
fn feedback_that_is_asked_for_is_tried_at_all_levels() {
    let options = options(|options| options.feedback = Some(vec![true]));
    let units = planned(2, &options, 1);
    assert_eq!(units.len(), 3);
    assert!(units.iter().all(|unit| unit.conditions.feedback));
}

/// Its text says that they go on; by default only levels were measured that stop.
#[test]
fn without_a_standby_the_levels_that_go_on_are_measured_too() {
    for quick in [false, true] {
        let units = planned(19, &options(|options| options.quick = quick), 1);
        for level in [Level::Off, Level::Local, Level::RemoteApply] {
            assert_eq!(count(&units, |unit| unit.level == level), 1, "{level}");
        }
        let others = planned(2, &options(|options| options.quick = quick), 1);
        assert_eq!(count(&others, |unit| unit.level < Level::RemoteWrite), 0, "remote_write goes on there");
    }
    let asked = options(|options| options.levels = Some(vec![Level::RemoteApply]));
    assert_eq!(planned(19, &asked, 1).len(), 1, "what is asked for is what is measured");
}

#[test]
fn no_repeat_begins_that_would_end_too_late_not_even_the_first() {
    let (s, minutes) = (Duration::from_secs, |minutes: u64| Duration::from_secs(minutes * 60));
    assert!(LIMIT < minutes(60));
    assert!(has_time(minutes(10), None, s(30)) && has_time(minutes(10), Some(s(30)), s(10_000)));
    assert!(!has_time(LIMIT - s(1), None, s(30)), "a first repeat is guessed");
    assert!(!has_time(minutes(50), Some(minutes(8)), s(1)), "another one takes as long as the last");
}

#[test]
fn a_quick_run_does_without_feedback() {
    let units = planned(2, &options(|options| options.quick = true), 1);
    assert_eq!(units.len(), 2);
    assert!(units
        .iter()
        .all(|unit| unit.conditions == Conditions { feedback: false, rtt_ms: 0, control: false }));
}

#[test]
fn levels_that_are_interleaved_take_one_pass_each_distance() {
    let options = options(|options| options.rtt_ms = vec![0, 20]);
    let units = planned(1, &options, 1);
    let distances: std::collections::BTreeSet<u32> =
        units.iter().map(|unit| unit.conditions.rtt_ms).collect();
    assert_eq!((units.len(), distances.len()), (2, 2));
}

#[test]
fn the_order_is_random_and_the_same_for_the_same_seed() {
    let options = options(|_| {});
    let orders: std::collections::BTreeSet<String> =
        (0..50).map(|seed| format!("{:?}", planned(2, &options, seed))).collect();
    assert!(orders.len() > 10, "{} orders", orders.len());
    assert_eq!(planned(2, &options, 7), planned(2, &options, 7));
}

#[test]
fn every_scenario_is_planned_under_every_kind_of_run() {
    for quick in [false, true] {
        let options = options(|options| options.quick = quick);
        for scenario in catalog() {
            let units = units(scenario, &options, 0, &mut entropy::rng(1));
            assert!(!units.is_empty(), "S{}", scenario.number);
            assert!(!guess(scenario, &options).is_zero());
            let mut passes = if is_one_level_a_pass(scenario.kind) { options.levels().len() } else { 1 };
            // Those that go on without a standby; where something is broken, one of them, and a control.
            passes += match scenario.kind {
                Kind::Stall if scenario.number == 19 => 2,
                Kind::Stall if scenario.breaks().is_some() => {
                    if quick {
                        1
                    } else {
                        2
                    }
                }
                _ => usize::from(scenario.breaks().is_some()),
            };
            assert_eq!(count(&units, |unit| !unit.conditions.feedback), passes, "S{}", scenario.number);
            let controls = count(&units, |unit| unit.conditions.control);
            assert_eq!(controls, usize::from(scenario.breaks().is_some()), "S{}", scenario.number);
            let matters = |expect: &Expect| matches!(expect, Expect::FeedbackHelps(_));
            if !quick && scenario.kind == Kind::Stall && scenario.expect.iter().any(matters) {
                assert!(count(&units, |unit| unit.conditions.feedback) > 0, "S{}", scenario.number);
            }
        }
    }
}

#[test]
fn the_guessed_times_fit_into_what_a_run_may_take() {
    for (quick, limit_s) in [(false, 60 * 60), (true, 180)] {
        let options = options(|options| options.quick = quick);
        let of = |scenario: &Scenario| {
            let units = units(scenario, &options, 0, &mut entropy::rng(1)).len();
            guess(scenario, &options).as_secs_f64() * units as f64 * f64::from(options.repeats())
        };
        let all: f64 = catalog().iter().filter(|scenario| !scenario.on_demand).map(of).sum();
        assert!(all < f64::from(limit_s), "quick: {quick}: {all} s");
    }
}

#[test]
fn names_become_numbers_and_other_braces_stay() {
    let scenario = Scenario { sizes: &[("rows", 500, 5), ("dead", 20, 2)], ..*scenario(2) };
    let sql = "SELECT '{a,b}'::text[], '{\"rows\": 1}'::jsonb, {rows} - {dead}, {session}";
    let expected = "SELECT '{a,b}'::text[], '{\"rows\": 1}'::jsonb, 500 - 20, {session}";
    assert_eq!(Names::new(&scenario, false).fill(sql), expected);
    assert_eq!(Names::new(&scenario, true).fill("{rows}/{dead}"), "5/2");
    assert_eq!(Names::new(&scenario, false).fill_for_session("{session}: {rows}", 3), "3: 500");
}

/// What is left of a name after filling would be sent to the server.
#[test]
fn no_statement_keeps_a_name() {
    for scenario in catalog() {
        let names = Names::new(scenario, true);
        let load = scenario.probe.statements.iter().map(|(_, sql)| *sql);
        for sql in scenario.setup.iter().chain(scenario.reset).chain(scenario.teardown).copied().chain(load) {
            let filled = names.fill(sql);
            for (at, _) in filled.match_indices('{') {
                let word: String = filled[at + 1..].chars().take_while(|c| c.is_ascii_lowercase()).collect();
                let is_name = !word.is_empty() && filled[at + 1 + word.len()..].starts_with('}');
                assert!(!is_name, "S{}: {{{word}}} in {filled}", scenario.number);
            }
        }
    }
}
