//! Figures, checks, time lines and findings from outcomes whose truth is known.

use std::time::Duration;

use duramen_base::entropy;
use duramen_measure::evidence::{Check, Evidence, Severity, Verdict};
use duramen_measure::statistics;
use duramen_measure::target::{Outcome as Met, Standing};
use duramen_replication::figures::add;
use duramen_replication::outcome::{Block, Gap, Outcome};
use duramen_replication::scenario::Wait;
use duramen_replication::summary::{Summary, SAMPLES};
use duramen_replication::targets::standings;
use duramen_replication::{checks, findings};
use duramen_replication::{Level, Options, Replication};
use duramen_reports::suite::Suite as _;

use super::synthetic::{
    closed, evidence, evidence_on, evidence_with, host, latency, ms, open, outcome, pass, saturation, stall,
    stall_pass, whole, CONTROL, PLAIN,
};

fn check<'a>(evidence: &'a Evidence, name: &str) -> &'a Check {
    evidence.checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no check {name}"))
}

fn p50(evidence: &Evidence, name: &str) -> f64 {
    evidence.measurement(name).unwrap_or_else(|| panic!("no {name}")).p50
}

fn rules(evidence: &Evidence) -> Vec<(String, Severity)> {
    let found = findings::find(&Summary::from_evidence(evidence));
    found.into_iter().map(|finding| (finding.rule, finding.severity)).collect()
}

fn has(evidence: &Evidence, rule: &str) -> bool {
    rules(evidence).iter().any(|(found, _)| found == rule)
}

#[test]
fn what_a_level_adds_is_found_although_the_machine_gets_slower() {
    let evidence = evidence(&[latency(1, 3.0, 2.0)]);
    let summary = Summary::from_evidence(&evidence);
    for (name, truth) in [("flush_ms/S1", 3.0), ("replay_ms/S1", 2.0), ("added_ms/S1", 5.0)] {
        let interval = summary.interval(name).unwrap_or_else(|| panic!("no interval of {name}"));
        assert!(interval.low <= truth && truth <= interval.high, "{name}: {interval:?}");
        assert!(interval.high - interval.low < 0.4, "{name}: {interval:?}");
        assert_eq!(interval.values, 3, "one for each repeat");
        assert_eq!(evidence.measurement(name).unwrap().count, 24, "one value for each pair of blocks");
    }
}

/// Eight blocks that agree with each other are not eight values if the next repeat says something else.
#[test]
fn repeats_that_contradict_each_other_prove_nothing() {
    let added = |repeats: &[f64]| {
        let pass_of = |(repeat, added): (usize, &f64)| {
            let turn = |turn: u32| {
                let noise = f64::from(turn) * 0.01;
                [open(Level::RemoteWrite, 10.0), open(Level::RemoteApply, 10.0 + added + noise)]
            };
            pass(PLAIN, u32::try_from(repeat).unwrap(), (0..8).flat_map(turn).collect())
        };
        let evidence = evidence(&[outcome(1, repeats.iter().enumerate().map(pass_of).collect())]);
        Summary::from_evidence(&evidence).interval("added_ms/S1").unwrap()
    };
    let contradicting = added(&[4.0, -1.0, 2.0]);
    assert!(contradicting.low < 0.0 && contradicting.high > 0.0, "{contradicting:?}");
    assert!(added(&[2.0, 2.1, 1.9]).low > 0.0);
    let few = added(&[2.0, 2.1]);
    assert_eq!(few.values, 16, "of two repeats the blocks are all there is");
}

#[test]
fn a_reader_can_compute_the_interval_anew() {
    let evidence = evidence(&[latency(1, 3.0, 2.0)]);
    let entry = Summary::from_evidence(&evidence).interval("added_ms/S1").unwrap();
    let samples: Vec<Vec<f64>> =
        serde_json::from_value(evidence.config[SAMPLES]["added_ms/S1"].clone()).unwrap();
    assert_eq!(samples.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 8], "by repeat");
    let means: Vec<f64> = samples.iter().map(|values| values.iter().sum::<f64>() / 8.0).collect();
    let again = statistics::mean(&means, entry.confidence, &mut entropy::rng(1)).unwrap();
    assert!((again.estimate - entry.estimate).abs() < 1e-9);
    assert!((again.low - entry.low).abs() < 0.02 && (again.high - entry.high).abs() < 0.02);
}

#[test]
fn a_negative_difference_is_kept() {
    let blocks = vec![open(Level::RemoteWrite, 4.0), open(Level::RemoteApply, 3.0)];
    let evidence = evidence(&[outcome(1, vec![pass(PLAIN, 0, blocks)])]);
    assert!((p50(&evidence, "added_ms/S1") + 1.0).abs() < 0.01);
    assert_eq!(Summary::from_evidence(&evidence).interval("added_ms/S1"), None, "one value has no interval");
}

#[test]
fn open_loops_tell_responses_and_closed_ones_throughput() {
    let blocks = vec![
        closed(Level::RemoteWrite, 1.0),
        open(Level::RemoteWrite, 10.0),
        closed(Level::RemoteApply, 2.0),
        open(Level::RemoteApply, 30.0),
    ];
    let evidence = evidence(&[outcome(1, vec![pass(PLAIN, 0, blocks)])]);
    assert!((p50(&evidence, "latency_ms/S1/remote_apply") - 30.0).abs() < 0.1);
    assert!((p50(&evidence, "service_ms/S1/remote_apply") - 2.0).abs() < 0.1);
    assert_eq!(p50(&evidence, "throughput_per_s/S1/remote_apply"), 3.0);
    assert!((p50(&evidence, "added_ms/S1") - 20.0).abs() < 0.1, "of open loops, where there are some");
}

#[test]
fn statements_are_paired_across_the_passes_of_a_repeat() {
    let passes = (0..3).flat_map(|repeat| {
        let slower = f64::from(repeat) * 100.0;
        // Their order changes from repeat to repeat.
        let mut passes = vec![
            pass(PLAIN, repeat, vec![closed(Level::RemoteWrite, 50.0 + slower)]),
            pass(PLAIN, repeat, vec![closed(Level::RemoteApply, 57.0 + slower)]),
        ];
        if repeat % 2 == 1 {
            passes.reverse();
        }
        passes
    });
    let evidence = evidence(&[outcome(11, passes.collect())]);
    let added = evidence.measurement("added_ms/S11").unwrap();
    assert_eq!(added.count, 3);
    assert!(added.min > 6.5 && added.max < 7.5, "{added:?}");
}

#[test]
fn conditions_are_told_apart_by_their_names() {
    let evidence = evidence(&[stall(2, Wait::Snapshot, 6.0, 0.0)]);
    assert!((p50(&evidence, "stall_s/S2/remote_apply") - 6.0).abs() < 0.05);
    assert_eq!(p50(&evidence, "stall_s/S2/remote_apply/feedback"), 0.0);
    assert_eq!(p50(&evidence, "stall_s/S2/remote_write"), 0.0);
    assert!((p50(&evidence, "stall_total_s/S2/remote_apply") - 6.0).abs() < 0.05);
    assert_eq!(evidence.measurement("stall_s/S2/remote_apply").unwrap().count, 3);
    let far = Outcome { passes: vec![pass(super::synthetic::PLAIN, 0, vec![])], ..outcome(1, vec![]) };
    let conditions = duramen_replication::outcome::Conditions { feedback: false, rtt_ms: 20, control: false };
    let passes = vec![pass(conditions, 0, vec![closed(Level::RemoteWrite, 25.0)])];
    let evidence = evidence_on(18, &[Outcome { passes, ..far }], &[]);
    assert!(p50(&evidence, "latency_ms/S1/remote_write/rtt=20") > 24.0);
}

#[test]
fn a_stall_is_held_against_the_true_length_of_what_caused_it() {
    let evidence = evidence(&[stall(2, Wait::Snapshot, 5.9, 0.0)]);
    assert_eq!(p50(&evidence, "blocker_s/S2"), 6.0);
    assert!((p50(&evidence, "stall_error_s/S2") + 0.09).abs() < 0.02);
    let rows = standings(&evidence);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows.iter().all(|row| row.outcome == Met::Met), "{rows:?}");
    let evidence = super::synthetic::evidence(&[stall(2, Wait::Snapshot, 5.7, 0.0)]);
    assert!(standings(&evidence).iter().any(|row| row.outcome == Met::Missed));
}

#[test]
fn a_gap_without_evidence_is_noise_and_not_a_stall() {
    let mut outcome = stall(2, Wait::Snapshot, 6.0, 0.0);
    for gap in &mut outcome.passes[1].blocks[0].gaps {
        gap.cause = None;
    }
    let evidence = evidence(&[outcome]);
    let stalls = evidence.measurement("stall_s/S2/remote_apply").unwrap();
    assert_eq!(stalls.min, 0.0, "the first repeat had none");
    assert!(evidence.measurement("noise_s/S2/remote_apply").unwrap().max > 5.9);
    assert!(has(&evidence, "host_noise"));
    assert!(!check(&evidence, "direction/S2").passed);
}

/// What is slow is not an obstacle, and no noise of the machine either.
#[test]
fn a_gap_in_which_the_standby_was_replaying_is_told_as_that() {
    let mut outcome = stall(2, Wait::Snapshot, 6.0, 0.0);
    let slow = Gap { begin: Duration::ZERO, length: ms(1_500.0), cause: Some(Wait::Replaying) };
    outcome.passes.iter_mut().for_each(|pass| {
        if pass.blocks[0].level == Level::RemoteApply {
            pass.blocks[0].gaps.insert(0, slow);
        }
    });
    let evidence = evidence(&[outcome]);
    assert_eq!(p50(&evidence, "replaying_s/S2/remote_apply"), 1.5);
    assert_eq!(p50(&evidence, "noise_s/S2/remote_apply"), 0.0);
    assert!((p50(&evidence, "stall_total_s/S2/remote_apply") - 6.0).abs() < 0.05);
    assert_eq!(p50(&evidence, "stall_s/S2/remote_apply/feedback"), 0.0);
    assert!(check(&evidence, "direction/S2").passed, "{:?}", check(&evidence, "direction/S2"));
    assert!(has(&evidence, "replay_behind") && !has(&evidence, "host_noise"));
    assert!(!has(&super::synthetic::evidence(&[stall(2, Wait::Snapshot, 6.0, 0.0)]), "replay_behind"));
}

#[test]
fn who_stalls_and_why_is_checked() {
    let good = evidence(&[stall(2, Wait::Snapshot, 6.0, 0.0), stall(8, Wait::Lock, 6.0, 6.0)]);
    for name in ["direction/S2", "direction/S8", "mechanism/S2", "mechanism/S8"] {
        assert!(check(&good, name).passed, "{:?}", check(&good, name));
    }
    let cause = evidence(&[stall(2, Wait::Lock, 6.0, 0.0)]);
    let failed = check(&cause, "direction/S2");
    assert!(!failed.passed && failed.detail.contains("expected: a stall (snapshot)"), "{failed:?}");
    let feedback = evidence(&[stall(2, Wait::Snapshot, 6.0, 6.0)]);
    assert!(check(&feedback, "direction/S2").detail.contains("with feedback"), "{feedback:?}");
    let mut weak = stall(2, Wait::Snapshot, 6.0, 0.0);
    weak.passes.push(stall_pass(PLAIN, 3, Level::RemoteWrite, Some((Wait::Snapshot, 6.0))));
    assert!(!check(&evidence(&[weak]), "direction/S2").passed);
}

#[test]
fn what_depends_on_the_version_is_expected_by_version() {
    let with = stall(9, Wait::BufferPin, 6.0, 6.0);
    let without = stall(9, Wait::BufferPin, 0.0, 0.0);
    let passed = |major, outcome: &Outcome| {
        let evidence = evidence_on(major, std::slice::from_ref(outcome), &[]);
        check(&evidence, "direction/S9").passed
    };
    assert_eq!([passed(18, &with), passed(15, &without)], [true, true]);
    let mechanism = |major, outcome: &Outcome| {
        let evidence = evidence_on(major, std::slice::from_ref(outcome), &[]);
        check(&evidence, "mechanism/S9").detail.clone()
    };
    assert!(mechanism(18, &with).contains("seen in all 12 passes"), "{}", mechanism(18, &with));
    let absent = mechanism(15, &without);
    assert!(absent.contains("absent in all 12 passes") && !absent.contains("seen"), "{absent}");
    assert_eq!([passed(18, &without), passed(15, &with)], [false, false]);
}

#[test]
fn a_scenario_whose_mechanism_was_not_seen_makes_the_run_invalid() {
    let mut outcome = stall(2, Wait::Snapshot, 6.0, 0.0);
    outcome.passes[3].unmet.push("the replay never waited".to_owned());
    let mut evidence = evidence(&[outcome, latency(1, 1.0, 1.0)]);
    assert_eq!(evidence.finish(), Verdict::Invalid);
    assert!(!check(&evidence, "mechanism/S2").passed && check(&evidence, "mechanism/S1").passed);
    let invalid = evidence.findings.iter().find(|finding| finding.rule == "invalid").unwrap();
    assert!(invalid.text.contains("S2") && invalid.text.contains("the replay never waited"), "{invalid:?}");
    assert!(evidence.measurement("stall_s/S2/remote_apply").is_some(), "its figures are told all the same");
}

#[test]
fn a_scenario_that_failed_fails_a_check_and_one_that_was_skipped_does_not() {
    let failed = Outcome { failed: Some("the connection was lost".to_owned()), ..outcome(1, Vec::new()) };
    let skipped = Outcome { skipped: Some("pg_trgm is not there".to_owned()), ..outcome(3, Vec::new()) };
    let mut evidence = evidence(&[failed, skipped]);
    let failed = check(&evidence, "measured/S1");
    assert!(!failed.passed && failed.detail.contains("the connection was lost"), "{failed:?}");
    assert!(evidence.findings.iter().any(|found| found.rule == "skipped" && found.text.contains("pg_trgm")));
    assert_eq!(evidence.finish(), Verdict::Fail);
}

#[test]
fn a_known_delay_is_what_the_tool_measures_itself_against() {
    let passes = (0..3).map(|repeat| {
        let blocks = (0..6).map(|turn| {
            let delay = if turn % 2 == 0 { 0.0 } else { 50.0 };
            let block = open(Level::RemoteApply, 3.0 + delay * 1.02 + f64::from(repeat) * 0.1);
            Block { apply_delay: ms(delay), ..block }
        });
        pass(PLAIN, repeat, blocks.collect())
    });
    let evidence = evidence(&[outcome(18, passes.collect())]);
    assert!((p50(&evidence, "added_ms/S18") - 51.0).abs() < 0.2);
    assert!((p50(&evidence, "calibration_beyond_ms") - 4.1).abs() < 0.2);
    // A millisecond more than the delay and all of a commit's time.
    assert!((p50(&evidence, "calibration_error_ms") - 1.0).abs() < 0.2);
    assert_eq!(evidence.measurement("calibration_error_ms").unwrap().count, 9);
}

#[test]
fn what_runs_inside_a_known_delay_is_no_error_and_one_bad_block_is() {
    let calibrated = |responses: &[f64]| {
        let pairs = responses.iter().flat_map(|response| [(0.0, 8.0), (50.0, *response)]);
        let blocks = pairs
            .map(|(delay, response)| Block { apply_delay: ms(delay), ..open(Level::RemoteApply, response) });
        let evidence = evidence(&[outcome(18, vec![pass(PLAIN, 0, blocks.collect())])]);
        let row = standings(&evidence).into_iter().find(|row| row.name == "calibration_error_ms").unwrap();
        (row.measured.unwrap(), row.outcome)
    };
    // Six of the eight milliseconds that a commit takes without the delay were over before the replay.
    let (error, outcome) = calibrated(&[52.0, 51.0, 52.0, 55.0]);
    assert_eq!((error, outcome), (0.0, Met::Met));
    // Errors of both signs must not make up for each other.
    let (error, outcome) = calibrated(&[40.0, 68.0, 52.0]);
    assert!((9.5..11.0).contains(&error), "{error}");
    assert_eq!(outcome, Met::Missed);
}

/// C11 of docs/design/comparison.md: a delay that was met is not told to have added nothing, however few values there are.
#[test]
fn a_target_that_is_met_stands_beside_no_word_of_no_difference() {
    let pairs = [(0.0, 8.0), (50.0, 52.0), (0.0, 8.0), (50.0, 60.0)];
    let blocks =
        pairs.map(|(delay, response)| Block { apply_delay: ms(delay), ..open(Level::RemoteApply, response) });
    let evidence = evidence(&[outcome(18, vec![pass(PLAIN, 0, blocks.into())])]);
    let row = standings(&evidence).into_iter().find(|row| row.name == "calibration_error_ms").unwrap();
    assert_eq!(row.outcome, Met::Met);
    let [low, high] = evidence.interval("added_ms/S18").unwrap();
    assert!(low < 0.0 && high > 0.0, "two values leave an interval that holds zero: {low}, {high}");
    let text = duramen_replication::table::print_table(&evidence);
    assert!(!text.contains("no detectable difference"), "{text}");
    assert!(!has(&evidence, "no_detectable_difference"));
}

#[test]
fn a_block_without_load_does_not_shift_the_pairs_of_the_others() {
    let mut blocks = Vec::new();
    for drift in [0.0, 10.0, 20.0, 30.0] {
        blocks.extend([open(Level::RemoteWrite, 2.0 + drift), open(Level::RemoteApply, 5.0 + drift)]);
    }
    let nothing = duramen_measure::histogram::LatencyHistogram::new;
    blocks[2] = Block { response: nothing(), service: nothing(), committed: 0, ..blocks[2].clone() };
    let evidence = evidence(&[outcome(1, vec![pass(PLAIN, 0, blocks)])]);
    let added = evidence.measurement("added_ms/S1").unwrap();
    assert_eq!(added.count, 3);
    assert!(added.min > 2.8 && added.max < 3.2, "{added:?}");
}

#[test]
fn saturation_is_told_by_the_number_of_clients() {
    let evidence = evidence(&[saturation(14)]);
    assert_eq!(p50(&evidence, "throughput_per_s/S14/remote_write/c=64"), 301.0);
    assert_eq!(p50(&evidence, "throughput_per_s/S14/remote_apply/c=64"), 151.0);
    assert!(evidence.measurement("latency_ms/S14/remote_apply/c=8").is_some());
    assert!(p50(&evidence, "added_ms/S14/c=64") > 100.0);
    assert!(p50(&evidence, "added_ms/S14").abs() < 1.0, "with one client nothing queues");
    assert!(has(&evidence, "apply_bound"));
}

#[test]
fn a_time_line_shows_commits_and_the_age_of_what_is_not_replayed() {
    let evidence = evidence(&[stall(2, Wait::Snapshot, 6.0, 0.0)]);
    let summary = Summary::from_evidence(&evidence);
    let line = summary.timeline("S2/remote_apply").unwrap();
    assert_eq!((line.step_ms, line.commits.len()), (100, 100));
    assert_eq!((line.commits[10], line.commits[50], line.commits[95]), (Some(10), Some(0), Some(10)));
    assert_eq!(line.wait[50].as_deref(), Some("IPC:RecoveryConflictSnapshot"));
    let lag = line.lag_ms[80].unwrap();
    assert!((4_800..=5_000).contains(&lag), "five seconds after it began: {lag}");
    assert_eq!(line.lag_ms[20], Some(0));
    // The samples write 10 kB a second; the replay stands still, and then makes up for it.
    assert_eq!((line.written_bytes_per_s[20], line.written_bytes_per_s[50]), (Some(10_000), Some(10_000)));
    assert_eq!((line.replayed_bytes_per_s[20], line.replayed_bytes_per_s[50]), (Some(10_000), Some(0)));
    assert!(line.replayed_bytes_per_s[90..92].iter().flatten().any(|rate| *rate > 100_000), "{line:?}");
    assert_eq!(line.waiting_sessions[50], Some(0));
    assert_eq!(line.gaps.len(), 1);
    assert_eq!(line.gaps[0].cause.as_deref(), Some("snapshot"));
    assert!(summary.timeline("S2/remote_write").unwrap().gaps.is_empty());
}

#[test]
fn a_long_pass_has_a_time_line_of_longer_steps() {
    let commits = (0..2_000).map(|second| Duration::from_millis(second * 100)).collect();
    let block = Block { commits, elapsed: Duration::from_secs(200), ..open(Level::RemoteApply, 1.0) };
    let evidence = evidence(&[outcome(1, vec![pass(PLAIN, 0, vec![block])])]);
    let line = Summary::from_evidence(&evidence).timeline("S1/remote_apply").unwrap();
    assert!(line.commits.len() <= 600 && line.step_ms.is_multiple_of(100), "{} ms", line.step_ms);
    assert_eq!(line.commits.iter().flatten().sum::<u64>(), 2_000);
}

#[test]
fn findings_follow_what_was_seen_and_not_the_name_of_a_scenario() {
    // The same wait in another scenario has the same advice.
    for number in [2, 8] {
        let evidence = evidence(&[stall(number, Wait::BufferPin, 6.0, 6.0)]);
        assert!(has(&evidence, "stall_by_buffer_pin"), "S{number}");
        assert!(!has(&evidence, "stall_by_snapshot") && !has(&evidence, "stall_by_lock"));
        assert!(has(&evidence, "feedback_does_not_help"));
    }
    let evidence = evidence(&[stall(8, Wait::Snapshot, 6.0, 0.0)]);
    assert!(has(&evidence, "stall_by_snapshot") && has(&evidence, "feedback_prevents_stall"));
}

#[test]
fn a_run_without_stalls_has_no_finding_about_stalls() {
    let evidence = evidence(&[stall(2, Wait::Snapshot, 0.0, 0.0), latency(1, 0.0, 0.0)]);
    let rules = rules(&evidence);
    assert!(
        rules.iter().all(|(rule, _)| !rule.starts_with("stall") && !rule.starts_with("feedback")),
        "{rules:?}"
    );
    assert!(has(&evidence, "no_detectable_difference"));
}

#[test]
fn the_share_of_the_flush_is_found() {
    assert!(has(&evidence(&[latency(1, 3.0, 2.0)]), "flush_not_replay"));
    assert!(!has(&evidence(&[latency(1, 0.5, 5.0)]), "flush_not_replay"));
}

#[test]
fn what_the_replay_had_to_do_is_found() {
    let mut outcome = latency(10, 0.0, 5.0);
    assert!(!has(&evidence(std::slice::from_ref(&outcome)), "waits_for_backlog"));
    outcome.passes[0].backlog_bytes = Some(30_000_000);
    outcome.passes[1].files_removed = Some(200);
    let with = evidence(std::slice::from_ref(&outcome));
    assert!(has(&with, "waits_for_backlog") && has(&with, "removes_files"));
    outcome.passes[2].cancelled = 3;
    assert!(has(&evidence(&[outcome]), "queries_cancelled"));
    assert!(has(&evidence(&[latency(1, 1.0, 1.0)]), "index_maintenance"));
}

#[test]
fn a_scenario_is_held_against_its_control() {
    let (mut with, without) = (latency(12, 0.0, 5.0), latency(21, 0.0, 2.0));
    assert!(!has(&evidence(std::slice::from_ref(&with)), "held_against_control"), "there is no control");
    with.passes.iter_mut().for_each(|pass| pass.mapping_files = Some(3));
    let found = findings::find(&Summary::from_evidence(&evidence(&[with.clone(), without.clone()])));
    let entry = found.iter().find(|found| found.rule == "held_against_control").expect("both were measured");
    assert!(
        entry.text.contains("S12") && entry.text.contains("S21") && entry.text.contains("3 files"),
        "{entry:?}"
    );
    assert!((2.5..3.5).contains(&entry.figure.unwrap()), "{entry:?}");
    with.passes[0].unmet.push("nothing was mapped".to_owned());
    assert!(!has(&evidence(&[with, without]), "held_against_control"), "it means nothing then");
}

#[test]
fn every_finding_has_a_text_that_ends() {
    let evidence = whole();
    assert!(evidence.findings.len() > 8);
    for finding in &evidence.findings {
        assert!(finding.text.len() > 40 && !finding.text.contains("  "), "{finding:?}");
    }
    assert!(has(&evidence, "stale_reads"));
    assert!(evidence.findings.iter().any(|finding| finding.rule == "skipped"));
    let found = Replication.diagnose(&evidence);
    assert!(found.iter().any(|finding| finding.rule == "invalid" && finding.text.starts_with("S13 ")));
}

#[test]
fn a_weaker_level_that_does_not_go_on_is_wrong_whatever_it_is_told_as() {
    let mut outcome = stall(2, Wait::Snapshot, 6.0, 0.0);
    let (written, applied) = (0, 1);
    // The replay is held up at every level alike.
    outcome.passes[written].samples = outcome.passes[applied].samples.clone();
    assert!(check(&evidence(&[outcome.clone()]), "direction/S2").passed);
    let gap =
        Gap { cause: None, length: Duration::from_secs(4), ..outcome.passes[applied].blocks[0].gaps[0] };
    outcome.passes[written].blocks[0].gaps = vec![gap];
    let evidence = evidence(&[outcome.clone()]);
    let direction = check(&evidence, "direction/S2");
    assert!(!direction.passed);
    assert!(direction.detail.contains("no commits for 4.00 s while the replay was held up"), "{direction:?}");
    let missed = |row: &Standing| row.outcome == Met::Missed;
    assert!(standings(&evidence).iter().filter(|row| missed(row)).any(|row| row.name.starts_with("noise_s")));
    // A shorter one, or one while nothing held up the replay, is the machine's.
    outcome.passes[written].blocks[0].gaps[0].length = Duration::from_secs(2);
    assert!(check(&super::synthetic::evidence(&[outcome.clone()]), "direction/S2").passed);
    outcome.passes[written].blocks[0].gaps[0].length = Duration::from_secs(4);
    outcome.passes[written].samples.iter_mut().for_each(|sample| sample.wait = None);
    assert!(check(&super::synthetic::evidence(&[outcome]), "direction/S2").passed);
}

#[test]
fn a_reader_that_the_standby_ends_stops_commits_for_as_long_as_it_is_let() {
    let is_right = |delay_ms, stall_s| {
        let options = Options { max_standby_delay_ms: delay_ms, ..Options::new("unused", "unused") };
        let evidence = evidence_with(18, &[stall(8, Wait::Lock, stall_s, stall_s)], &[], &options);
        check(&evidence, "direction/S8").passed
    };
    for (delay_ms, stall_s, expected) in [
        (0, 0.0, true),
        (0, 2.0, false),
        (700, 0.0, true),
        (700, 1.1, true),
        (3_000, 3.05, true),
        (3_000, 0.0, false),
        (3_000, 5.9, false),
        // Nobody is ended before the blocker's time is over.
        (30_000, 5.9, true),
        (30_000, 0.0, false),
        (-1, 5.9, true),
        (-1, 0.0, false),
    ] {
        assert_eq!(is_right(delay_ms, stall_s), expected, "{delay_ms} ms, {stall_s} s");
    }
}

#[test]
fn what_is_invalid_means_nothing() {
    let mut outcomes = [stall(2, Wait::Snapshot, 6.0, 0.0), saturation(14), latency(1, 9.0, 1.0)];
    let before = rules(&evidence(&outcomes));
    for rule in ["feedback_prevents_stall", "apply_bound", "flush_not_replay"] {
        assert!(before.iter().any(|(found, _)| found == rule), "no {rule}: {before:?}");
    }
    for pass in outcomes.iter_mut().flat_map(|outcome| &mut outcome.passes) {
        pass.unmet.push("it did not happen".to_owned());
    }
    assert_eq!(rules(&evidence(&outcomes)), []);
}

#[test]
fn what_feedback_does_is_told_also_when_the_servers_are_never_near() {
    let mut outcome = stall(2, Wait::Snapshot, 6.0, 0.0);
    outcome.passes.iter_mut().for_each(|pass| pass.conditions.rtt_ms = 5);
    assert!(has(&evidence(&[outcome]), "feedback_prevents_stall"));
}

/// What is broken in the passes of S22; in its control nothing is.
fn broken(control_stalls: bool) -> Outcome {
    let stuck = |conditions, level, stall| {
        let mut pass = stall_pass(conditions, 0, level, stall);
        for sample in &mut pass.samples {
            (sample.stuck, sample.wait) = (sample.wait.take(), None);
            sample.waiting_sessions = 1;
        }
        pass
    };
    let stall = Some((Wait::Unreceived, 6.0));
    let passes = vec![
        stuck(CONTROL, Level::RemoteApply, stall.filter(|_| control_stalls)),
        stuck(PLAIN, Level::Local, None),
        stuck(PLAIN, Level::RemoteWrite, stall),
        stuck(PLAIN, Level::RemoteApply, stall),
    ];
    outcome(22, passes)
}

#[test]
fn a_control_stands_apart_and_must_not_stall() {
    let evidence = evidence(&[broken(false)]);
    let direction = check(&evidence, "direction/S22");
    assert!(direction.passed, "{direction:?}");
    assert!(direction.detail.contains("remote_apply in the control did not stall"), "{direction:?}");
    let mechanism = check(&evidence, "mechanism/S22");
    assert!(mechanism.detail.contains("seen in 3 passes, and absent in the 1"), "{mechanism:?}");
    let longest = |name: &str| evidence.measurement(name).map(|figure| figure.max);
    assert_eq!(longest("stall_s/S22/remote_apply"), Some(6.0));
    assert_eq!(longest("stall_s/S22/remote_apply/control"), Some(0.0));
    let summary = Summary::from_evidence(&evidence);
    let seen = &summary.scenarios[0].seen;
    assert_eq!(seen.iter().map(|seen| seen.control).collect::<Vec<_>>(), [false, true]);
    assert!(seen[0].stuck_s["not received"] > 10.0 && seen[1].stuck_s.is_empty(), "{seen:?}");
    let found = findings::find(&summary);
    let stall = found.iter().find(|found| found.rule == "stall_not_received").expect("it is told");
    assert!(stall.text.contains("while the standby was connected and did not write"), "{stall:?}");
    assert!(stall.text.contains("wal_sender_timeout"), "{stall:?}");

    assert!(!check(&self::evidence(&[broken(true)]), "direction/S22").passed);
}

#[test]
fn where_others_may_acknowledge_commits_they_need_not_stop() {
    for (stall_s, is_optional, expected) in [(0.0, true, true), (6.0, true, true), (0.0, false, false)] {
        let outcome = stall(2, Wait::Snapshot, stall_s, 0.0);
        let mut evidence = Evidence::new("replication", host());
        evidence.configure(checks::OPTIONAL, is_optional);
        let options = Options::new("unused", "unused");
        add(&[outcome], &[], &options, &mut entropy::rng(7), &mut evidence);
        assert_eq!(check(&evidence, "direction/S2").passed, expected, "{stall_s} {is_optional}");
        let found = findings::of_document(&evidence);
        assert_eq!(found.iter().any(|found| found.rule == "others_acknowledge"), is_optional);
    }
}

/// Two blocks with a delay of 50 ms and two without, as in a quick run: the interval of two values that differ holds zero.
#[test]
fn a_delay_that_was_measured_is_not_called_undetectable() {
    let block =
        |delay_ms, median_ms| Block { apply_delay: ms(delay_ms), ..open(Level::RemoteApply, median_ms) };
    let blocks = vec![block(50.0, 51.0), block(0.0, 1.0), block(0.0, 45.0), block(50.0, 75.0)];
    let evidence = evidence(&[outcome(18, vec![pass(PLAIN, 0, blocks)])]);
    let summary = Summary::from_evidence(&evidence);
    let interval = summary.interval("added_ms/S18").expect("two values have one");
    assert!(interval.low < 0.0 && interval.high > 50.0, "{interval:?}");
    let standing = standings(&evidence).into_iter().find(|standing| standing.name == "calibration_error_ms");
    assert_eq!(standing.expect("it has a target").outcome, Met::Met);
    let text = duramen_replication::table::print_table(&evidence);
    assert!(!text.contains("no detectable difference"), "{text}");
    assert!(findings::find(&summary).iter().all(|found| found.rule != "no_detectable_difference"));
}
