//! X12: a block in which the machine changed its pace does not count, if another take of it was calm.

use crate::bench::{normal, sample, spec, FIGURE};
use duramen_base::entropy;
use duramen_experiment::disturbance::{counted, disturbing_sentinel, slot, TAKES_MAX};
use duramen_experiment::event::RUNS_PER_BLOCK;
use duramen_experiment::event::{Metrics, Purpose, Sample, Side, Verdict};
use duramen_experiment::schedule::{plan, remaining, Run};
use duramen_experiment::spec::{Scale, Spec};
use duramen_experiment::verdict::{self, Noise};

const TRY: Purpose = Purpose::Try(1);
const SENTINEL: &str = "sentinel_s";

fn watched(blocks: u32, scales: u32) -> Spec {
    let more =
        format!("[[sentinel]]\nmetric = \"{SENTINEL}\"\ndirection = \"lower\"\ntolerance_percent = 10.0\n");
    spec(blocks, 40, scales, &more)
}

fn sample_with(run: &Run, figure: f64, sentinel: f64) -> Sample {
    let metrics = [(FIGURE.to_owned(), figure), (SENTINEL.to_owned(), sentinel)];
    sample(TRY, run, Metrics::from(metrics))
}

/// Measures until nothing is left to be taken.
fn measure(spec: &Spec, seed: u64, mut machine: impl FnMut(&Run) -> (f64, f64)) -> Vec<Sample> {
    let scales: Vec<Scale> = spec.deciding().collect();
    let plan = plan(spec, seed, TRY, &scales);
    let mut samples = Vec::new();
    loop {
        let missing = remaining(spec, &plan, &samples);
        if missing.is_empty() {
            return samples;
        }
        for run in &missing {
            let (figure, sentinel) = machine(run);
            samples.push(sample_with(run, figure, sentinel));
        }
    }
}

#[test]
fn a_calm_machine_takes_each_block_once() {
    let spec = watched(4, 2);
    // Within the tolerance from run to run.
    let mut turn = 0;
    let samples = measure(&spec, 3, |_| {
        turn += 1;
        (1.0, 1.0 + 0.09 * f64::from(turn % 2))
    });
    assert_eq!(samples.len(), 32);
    assert_eq!(counted(&spec, &samples), samples);
}

#[test]
fn a_disturbed_block_is_retaken_and_the_calm_take_counts() {
    let spec = watched(4, 2);
    // In the second block of one scale, the second half of each of the first two takes is slow.
    let is_slow =
        |run: &Run| run.scale == "s1" && slot(&spec, run.quad) == 1 && run.quad < 8 && run.place >= 2;
    let samples = measure(&spec, 3, |run| if is_slow(run) { (2.0, 2.0) } else { (1.0, 1.0) });
    let again: Vec<u32> = samples[32..].iter().map(|sample| sample.quad).collect();
    assert_eq!(again, [5, 5, 5, 5, 9, 9, 9, 9], "behind all others, under numbers of their own");
    assert!(samples[32..].iter().all(|sample| sample.scale == "s1"));
    let starts = |block| samples.iter().find(|it| it.scale == "s1" && it.quad == block).map(|it| it.side);
    assert_eq!(starts(9), starts(1), "each take has the order that was drawn");
    let counted = counted(&spec, &samples);
    assert_eq!(counted.len(), 32);
    assert!(counted.iter().all(|sample| sample.quad < 4 && sample.metrics[FIGURE] == 1.0));
}

#[test]
fn what_never_gets_calm_ends_and_its_last_take_counts() {
    let spec = watched(2, 1);
    let mut turn = 0.0;
    let samples = measure(&spec, 3, |_| {
        turn += 1.0;
        (turn, turn * turn)
    });
    assert_eq!(samples.len() as u32, 2 * RUNS_PER_BLOCK * TAKES_MAX);
    let counted = counted(&spec, &samples);
    assert_eq!(counted.len(), 8);
    assert!(counted
        .iter()
        .all(|sample| sample.metrics[FIGURE] > f64::from(2 * RUNS_PER_BLOCK * (TAKES_MAX - 1))));
}

#[test]
fn whatever_was_killed_goes_on_with_the_take_that_was_begun() {
    let spec = watched(3, 2);
    let scales: Vec<Scale> = spec.deciding().collect();
    let plan = plan(&spec, 9, TRY, &scales);
    let whole =
        measure(&spec, 9, |run| if run.quad == 1 && run.place == 3 { (1.0, 9.0) } else { (1.0, 1.0) });
    assert_eq!(whole.len() as u32, 3 * 2 * RUNS_PER_BLOCK + 2 * RUNS_PER_BLOCK);
    let place = |sample: &Sample| (sample.scale.clone(), sample.quad, sample.place);
    for taken in 0..whole.len() {
        let next = remaining(&spec, &plan, &whole[..taken]);
        let run = &next[0];
        assert_eq!((run.scale.clone(), run.quad, run.place), place(&whole[taken]), "after {taken}");
    }
    assert!(remaining(&spec, &plan, &whole).is_empty());
}

/// Otherwise a candidate that slows the sentinel could not be told any more.
#[test]
fn sides_that_differ_are_no_disturbance_and_are_judged() {
    let spec = watched(8, 1);
    let samples = measure(&spec, 3, |run| match run.side {
        Side::Base => (1.0, 1.0),
        Side::Candidate => (0.5, 2.0),
    });
    assert_eq!(samples.len(), 32);
    let judgement = verdict::judge(&spec, &Noise::default(), &samples);
    assert_eq!(judgement.verdict, Verdict::Discard, "{judgement:?}");
    assert!(judgement.reason.contains(SENTINEL), "{}", judgement.reason);
}

#[test]
fn sentinels_of_nothing_are_calm_and_from_nothing_to_something_they_are_not() {
    let spec = watched(2, 1);
    let scales: Vec<Scale> = spec.deciding().collect();
    let runs = plan(&spec, 1, TRY, &scales);
    let block = |sentinels: [f64; 4]| -> Option<f64> {
        let samples: Vec<Sample> =
            runs.iter().zip(sentinels).map(|(run, it)| sample_with(run, 1.0, it)).collect();
        disturbing_sentinel(&spec, &samples.iter().collect::<Vec<_>>()).map(|(_, share)| share)
    };
    assert_eq!(block([0.0; 4]), None);
    assert_eq!(block([0.0, 0.0, 1.0, 0.0]), Some(f64::INFINITY));
    assert_eq!(block([1.0, 5.0, 5.0, 1.0]), None, "the sides differ, and each is calm");
    assert_eq!(block([1.0, 1.0, 1.0, 1.5]), Some(0.5));
}

/// A failure is a failure, also in a take that would not have counted.
#[test]
fn a_run_that_fails_in_any_take_decides() {
    let spec = watched(4, 1);
    let mut samples = measure(&spec, 3, |run| match (run.quad, run.place) {
        (0, 3) => (1.0, 2.0),
        _ => (if run.side == Side::Base { 1.0 } else { 0.5 }, 1.0),
    });
    assert_eq!(samples.len(), 20);
    let failed = samples.iter_mut().find(|sample| sample.quad == 0 && sample.side == Side::Candidate);
    failed.unwrap().metrics.insert(FIGURE.to_owned(), 0.0);
    assert_eq!(verdict::judge(&spec, &Noise::default(), &samples).verdict, Verdict::Invalid);
}

/// A machine that is at one of two paces, and changes that once in twenty runs; a run has 1.5 % of noise.
fn two_paces(rng: &mut fastrand::Rng, candidate: f64) -> impl FnMut(&Run) -> (f64, f64) + '_ {
    let mut pace = 1.0;
    move |run| {
        if rng.f64() < 0.05 {
            pace = if pace == 1.0 { 2.0 } else { 1.0 };
        }
        let effect = if run.side == Side::Base { 1.0 } else { candidate };
        (pace * effect * (1.0 + 0.015 * normal(rng)), pace * (1.0 + 0.005 * normal(rng)))
    }
}

/// The share of segments in which the test is positive at `alpha`.
fn positive(spec: &Spec, candidate: f64, alpha: f64) -> f64 {
    const ROUNDS: u32 = 1_000;
    let hits = (0..u64::from(ROUNDS)).filter(|seed| {
        let mut rng = entropy::rng(!seed);
        let samples = measure(spec, *seed, two_paces(&mut rng, candidate));
        let judgement = verdict::judge(spec, &Noise::default(), &samples);
        judgement.effect.is_some_and(|effect| effect.p_value <= alpha)
    });
    hits.count() as f64 / f64::from(ROUNDS)
}

/// The rates that `docs/design/experiments.md` states.
#[test]
fn a_machine_of_two_paces_finds_small_gains_and_none_among_equals() {
    let (with, without) = (watched(12, 1), spec(12, 40, 1, ""));
    let rates = [positive(&with, 1.0, 0.05), positive(&without, 1.0, 0.05)];
    println!("equals, with and without a sentinel: {rates:?}");
    assert!(rates[0] <= 0.065 && rates[1] <= 0.065, "{rates:?}");
    let alpha = verdict::alpha(&with);
    let rates = [positive(&with, 0.95, alpha), positive(&without, 0.95, alpha)];
    println!("a gain of 5 %, with and without a sentinel: {rates:?}");
    assert!(rates[0] >= 0.9 && rates[1] <= 0.3, "{rates:?}");
}
