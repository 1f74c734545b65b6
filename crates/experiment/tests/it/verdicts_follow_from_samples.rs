//! The order of the rules, and the samples at their edges.

use crate::bench;
use crate::bench::{also, exact, higher, measure, measure_at, spec, times, FIGURE};
use duramen_experiment::event::{Judgement, Purpose, Sample, Side, Verdict};
use duramen_experiment::spec::{Direction, Spec};
use duramen_experiment::verdict::{self, ablation, confirm, judge, replay, Noise};

const TRY: Purpose = Purpose::Try(1);
const CONFIRM: Purpose = Purpose::Confirm(1);

const QUIET: Noise = Noise { floor: 0.0, scales: std::collections::BTreeMap::new() };

fn noisy(floor: f64) -> Noise {
    Noise { floor, ..Noise::default() }
}

fn is_better(sample: &Sample) -> bool {
    sample.side == Side::Candidate
}

#[track_caller]
fn expect(judgement: &Judgement, verdict: Verdict, words: &str) {
    assert_eq!(judgement.verdict, verdict, "{judgement:#?}");
    assert!(judgement.reason.contains(words), "`{words}` is not in `{}`", judgement.reason);
}

#[test]
fn a_gain_is_kept_with_figures_that_a_person_understands() {
    let spec = spec(8, 40, 1, "");
    let samples = measure(&spec, 1, TRY, &mut times(0.9));
    let judgement = judge(&spec, &noisy(0.02), &samples);
    expect(&judgement, Verdict::Keep, "% less read_s (");
    expect(&judgement, Verdict::Keep, " against 0.00125");
    let exact = judge(&spec, &QUIET, &measure(&spec, 1, TRY, &mut exact(2.0, 1.8)));
    assert_eq!(exact.reason, "10.0 % less read_s (10.0 to 10.0 %), p 1e-6 against 0.00125");
    let effect = judgement.effect.unwrap();
    assert!((effect.share + 0.1).abs() < 0.002 && effect.quads == 8, "{effect:?}");
    assert!((effect.base - 1.0).abs() < 0.01 && (effect.candidate - 0.9).abs() < 0.01, "{effect:?}");
    assert_eq!((judgement.alpha, judgement.confirmed), (0.00125, None));
    assert_eq!(judgement.scales.len(), 1);
}

#[test]
fn more_is_better_when_the_spec_says_so() {
    let spec = higher(spec(8, 40, 1, ""));
    let more = judge(&spec, &QUIET, &measure(&spec, 1, TRY, &mut times(1.25)));
    expect(&more, Verdict::Keep, "25.1 % more read_s (25.0 to 25.2 %)");
    assert!((more.effect.unwrap().share + 0.2).abs() < 0.002);
    let less = judge(&spec, &QUIET, &measure(&spec, 1, TRY, &mut times(0.8)));
    expect(&less, Verdict::Discard, "less read_s");
}

#[test]
fn judging_the_same_samples_again_gives_the_same_to_the_last_bit() {
    let spec = spec(8, 40, 2, "");
    for seed in 0..50 {
        let samples = measure(&spec, seed, TRY, &mut times(0.98));
        let first = judge(&spec, &noisy(0.01), &samples);
        // As they come back from the log.
        let text = serde_json::to_string(&samples).unwrap();
        let read: Vec<Sample> = serde_json::from_str(&text).unwrap();
        assert_eq!(judge(&spec, &noisy(0.01), &read), first);
        let told: Judgement = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
        assert_eq!(told, first, "a judgement survives the log");
    }
}

#[test]
fn figures_of_any_magnitude_are_judged_alike() {
    let spec = spec(8, 40, 1, "");
    let shares: Vec<f64> = [1e-150, 1e-9, 1.0, 1e12, 1e150]
        .into_iter()
        .map(|unit| {
            let mut machine = times(0.9);
            let samples = measure(&spec, 5, TRY, &mut |run, index, rng| unit * machine(run, index, rng));
            let judgement = judge(&spec, &QUIET, &samples);
            expect(&judgement, Verdict::Keep, "less");
            judgement.effect.unwrap().share
        })
        .collect();
    assert!(shares.iter().all(|share| (share - shares[0]).abs() < 1e-9), "{shares:?}");
    // The most that is believed: everything must stay finite, for JSON knows nothing else.
    let judgement = judge(&spec, &QUIET, &measure(&spec, 5, TRY, &mut exact(1e200, 1e-200)));
    expect(&judgement, Verdict::Keep, "100 % less");
    let judgement = judge(&spec, &QUIET, &measure(&spec, 5, TRY, &mut exact(1e-200, 1e200)));
    expect(&judgement, Verdict::Discard, "more");
    assert!(judgement.effect.unwrap().high.is_finite(), "{judgement:?}");
}

#[test]
fn counts_without_any_spread_are_decided() {
    let spec = spec(8, 40, 1, "");
    let judged = |base, candidate| judge(&spec, &QUIET, &measure(&spec, 1, TRY, &mut exact(base, candidate)));
    expect(&judged(1000.0, 950.0), Verdict::Keep, "5.0 % less read_s (5.0 to 5.0 %)");
    expect(&judged(1000.0, 1000.0), Verdict::Discard, "read_s is the same in all runs");
    expect(&judged(1000.0, 995.0), Verdict::Discard, "no gain of 1.0 % or more");
    expect(&judged(1000.0, 1001.0), Verdict::Discard, "more");
    expect(&judged(1000.0, 1200.0), Verdict::Discard, "worse by more than the 5 % allowed");
    assert_eq!(judged(7.0, 7.0).effect.unwrap().p_value, 1.0);
}

#[test]
fn a_few_blocks_cannot_be_sure_however_alike_their_figures() {
    // Two runs of each side come in six orders: 2 / 6^4 is more than 0.05 / 40, 2 / 6^5 is less.
    for (blocks, verdict) in [(2, Verdict::Inconclusive), (4, Verdict::Inconclusive), (5, Verdict::Keep)] {
        let spec = spec(blocks, 40, 1, "");
        let judgement = judge(&spec, &QUIET, &measure(&spec, 1, TRY, &mut exact(1.0, 0.5)));
        assert_eq!(judgement.verdict, verdict, "{judgement:?}");
        let says_so = judgement.reason.contains(&format!("{blocks} quads can never be that sure"));
        assert_eq!(says_so, verdict == Verdict::Inconclusive, "{}", judgement.reason);
    }
    for (tries, least) in [(1, 3), (40, 5), (10_000, 8)] {
        assert_eq!(verdict::least_blocks(&spec(2, tries, 1, "")), least, "{tries} tries");
    }
    let mut one = spec(2, 40, 1, "");
    one.measure.quads = 1;
    let judgement = judge(&one, &QUIET, &measure(&one, 1, TRY, &mut exact(1.0, 0.5)));
    expect(&judgement, Verdict::Inconclusive, "at least two");
    assert_eq!(judgement.effect, None);
}

#[test]
fn a_candidate_that_fails_has_crashed_and_one_whose_base_fails_was_not_measured() {
    let spec = spec(8, 40, 2, "");
    let with = |side: Side, block: u32| {
        let mut samples = measure(&spec, 1, TRY, &mut times(0.5));
        let broken = samples.iter_mut().find(|sample| sample.side == side && sample.quad == block).unwrap();
        broken.failure = Some("it ended with status 3".to_owned());
        broken.metrics.clear();
        judge(&spec, &QUIET, &samples)
    };
    expect(&with(Side::Candidate, 7), Verdict::Crash, "it ended with status 3");
    expect(&with(Side::Base, 7), Verdict::Invalid, "the base fails");
    // Where it was seen first is drawn, and is not part of the reason.
    assert_eq!(with(Side::Candidate, 0).reason, with(Side::Candidate, 5).reason);
    // A crash ends a try at once: what is not there yet does not hide it.
    let mut first = measure(&spec, 1, TRY, &mut times(1.0)).swap_remove(0);
    first.side = Side::Candidate;
    first.failure = Some("it ended with status 3".to_owned());
    expect(&judge(&spec, &QUIET, &[first]), Verdict::Crash, "status 3");
}

#[test]
fn a_figure_that_says_nothing_never_wins() {
    let spec = spec(8, 40, 1, "[[invariant]]\nholds = \"rows == 10\"\n");
    let good = || {
        let mut samples = measure(&spec, 1, TRY, &mut times(0.5));
        also(&mut samples, "rows", |_| 10.0);
        samples
    };
    expect(&judge(&spec, &QUIET, &good()), Verdict::Keep, "less");
    for side in [Side::Base, Side::Candidate] {
        for value in [None, Some(0.0), Some(-1.0), Some(f64::NAN), Some(f64::INFINITY)] {
            let mut samples = good();
            let last = samples.iter_mut().rev().find(|sample| sample.side == side).unwrap();
            last.metrics.remove(FIGURE);
            last.metrics.extend(value.map(|value| (FIGURE.to_owned(), value)));
            expect(&judge(&spec, &QUIET, &samples), Verdict::Invalid, "read_s");
        }
        let mut samples = good();
        let last = samples.iter_mut().rev().find(|sample| sample.side == side).unwrap();
        last.metrics.insert("rows".to_owned(), 0.0);
        expect(&judge(&spec, &QUIET, &samples), Verdict::Invalid, "rows");
    }
}

#[test]
fn what_is_missing_or_uneven_is_never_kept() {
    let spec = spec(8, 40, 1, "");
    let whole = measure(&spec, 1, TRY, &mut times(0.5));
    expect(&judge(&spec, &QUIET, &[]), Verdict::Inconclusive, "0 of 8 quads");
    expect(&judge(&spec, &QUIET, &whole[..31]), Verdict::Inconclusive, "7 of 8 quads");
    expect(&judge(&spec, &QUIET, &whole[..30]), Verdict::Inconclusive, "7 of 8 quads");
    let uneven: Vec<Sample> = whole.iter().filter(|s| s.side == Side::Base || s.quad > 0).cloned().collect();
    let judgement = judge(&spec, &QUIET, &uneven);
    expect(&judgement, Verdict::Inconclusive, "7 of 8 quads");
    assert_eq!(judgement.effect.unwrap().quads, 7, "the whole quads are shown");
    // At the second scale nothing was run.
    let two = self::spec(8, 40, 2, "");
    let half: Vec<Sample> =
        measure(&two, 1, TRY, &mut times(0.5)).into_iter().filter(|sample| sample.scale == "s0").collect();
    expect(&judge(&two, &QUIET, &half), Verdict::Inconclusive, "0 of 8 quads are whole at every scale");
}

#[test]
fn of_two_samples_of_one_place_the_first_counts() {
    let spec = spec(8, 40, 1, "");
    let mut samples = measure(&spec, 1, TRY, &mut exact(1.0, 1.0));
    samples.extend(measure(&spec, 1, TRY, &mut exact(1.0, 0.5)));
    expect(&judge(&spec, &QUIET, &samples), Verdict::Discard, "the same in all runs");
}

#[test]
fn samples_of_held_out_and_unknown_scales_decide_nothing() {
    let spec = spec(8, 40, 1, "[[scale]]\nname = \"secret\"\nvalue = \"9\"\nheld_out = true\n");
    let mut samples = measure_at(&spec, 1, TRY, &spec.scales_or_default(), &mut |run, _, _| {
        if run.side == Side::Candidate && run.scale == "secret" {
            0.1
        } else {
            1.0
        }
    });
    let judgement = judge(&spec, &QUIET, &samples);
    expect(&judgement, Verdict::Discard, "the same in all runs");
    assert_eq!(judgement.scales.keys().collect::<Vec<_>>(), ["s0"]);
    samples.iter_mut().filter(|sample| sample.scale == "secret").for_each(|s| s.scale = "typo".to_owned());
    assert_eq!(judge(&spec, &QUIET, &samples), judgement);
}

#[test]
fn below_the_noise_floor_all_of_at_least_two_scales_must_agree() {
    let judged = |scales: u32, floor: f64, at_last: f64| {
        let spec = spec(8, 40, scales, "");
        let last = format!("s{}", scales - 1);
        let (mut most, mut other) = (times(0.97), times(at_last));
        let samples = measure(&spec, 1, TRY, &mut |run, index, rng| {
            if run.scale == last {
                other(run, index, rng)
            } else {
                most(run, index, rng)
            }
        });
        judge(&spec, &noisy(floor), &samples)
    };
    expect(&judged(1, 0.02, 0.97), Verdict::Keep, "less");
    expect(&judged(1, 0.05, 0.97), Verdict::Inconclusive, "below the noise floor of 5.0 %");
    expect(&judged(2, 0.05, 0.97), Verdict::Keep, "all 2 scales agree");
    expect(&judged(3, 0.05, 0.97), Verdict::Keep, "all 3 scales agree");
    expect(&judged(3, 0.05, 1.01), Verdict::Inconclusive, "not all of at least two scales agree");
    expect(&judged(3, 0.01, 1.01), Verdict::Keep, "less");
    expect(&judged(3, 0.0, 1.10), Verdict::Discard, "more read_s at scale s2 (");
}

#[test]
fn a_gain_too_small_to_be_worth_it_is_discarded_and_a_doubtful_one_is_not() {
    let spec = spec(8, 40, 1, "");
    let noisy_times = |candidate: f64, spread: f64| {
        measure(&spec, 3, TRY, &mut |run, _, rng| {
            let side = if run.side == Side::Candidate { candidate } else { 1.0 };
            side * (spread * bench::normal(rng)).exp()
        })
    };
    expect(&judge(&spec, &QUIET, &noisy_times(0.995, 0.0005)), Verdict::Discard, "no gain of 1.0 % or more");
    expect(&judge(&spec, &QUIET, &noisy_times(0.99, 0.1)), Verdict::Inconclusive, "the samples do not tell");
}

#[test]
fn a_sentinel_that_moves_makes_a_try_invalid_or_discarded() {
    let sentinel = "[[sentinel]]\nmetric = \"other_s\"\ndirection = \"lower\"\ntolerance_percent = 5.0\n";
    let spec = spec(8, 40, 2, sentinel);
    let judged = |factor: f64| {
        let mut samples = measure(&spec, 1, TRY, &mut times(0.8));
        also(&mut samples, "other_s", |sample| if is_better(sample) { factor } else { 1.0 });
        judge(&spec, &QUIET, &samples)
    };
    expect(&judged(0.9), Verdict::Invalid, "10.0 % less other_s (10.0 to 10.0 %)");
    expect(&judged(1.1), Verdict::Discard, "10.0 % more other_s");
    expect(&judged(1.04), Verdict::Keep, "less read_s");
    assert!((judged(1.04).others["other_s"].share - 0.04).abs() < 1e-9);
    // At one scale alone, and gone the other way at the other.
    let mut samples = measure(&spec, 1, TRY, &mut times(0.8));
    also(&mut samples, "other_s", |sample| match (is_better(sample), sample.scale.as_str()) {
        (true, "s0") => 1.1,
        (true, _) => 0.91,
        (false, _) => 1.0,
    });
    expect(&judge(&spec, &QUIET, &samples), Verdict::Discard, "at scale s0");
}

#[test]
fn a_secondary_that_gets_worse_beyond_doubt_outweighs_a_gain() {
    let spec = |direction: &str| {
        let more = format!(
            "[[secondary]]\nmetric = \"bytes\"\ndirection = \"{direction}\"\nmax_regression_percent = 2.0\n"
        );
        spec(8, 40, 1, &more)
    };
    let judged = |spec: &Spec, candidate: &dyn Fn(&Sample) -> f64| {
        let mut samples = measure(spec, 1, TRY, &mut times(0.8));
        also(&mut samples, "bytes", |sample| if is_better(sample) { candidate(sample) } else { 100.0 });
        judge(spec, &QUIET, &samples)
    };
    let (lower, higher) = (spec("lower"), spec("higher"));
    expect(&judged(&lower, &|_| 103.0), Verdict::Discard, "3.0 % more bytes (3.0 to 3.0 %), which is worse");
    expect(&judged(&lower, &|_| 101.0), Verdict::Keep, "less read_s");
    expect(&judged(&lower, &|_| 50.0), Verdict::Keep, "less read_s");
    expect(&judged(&higher, &|_| 90.0), Verdict::Discard, "10.0 % less bytes");
    expect(&judged(&higher, &|_| 200.0), Verdict::Keep, "less read_s");
    // In doubt: some runs are much worse, most are not.
    expect(&judged(&lower, &|s| if s.quad == 0 { 150.0 } else { 100.0 }), Verdict::Keep, "less read_s");
    // Taken away.
    let mut samples = measure(&lower, 1, TRY, &mut times(0.8));
    also(&mut samples, "bytes", |_| 100.0);
    let last = samples.iter_mut().rev().find(|sample| is_better(sample)).unwrap();
    last.metrics.remove("bytes");
    expect(&judge(&lower, &QUIET, &samples), Verdict::Invalid, "`bytes`");
}

#[test]
fn a_secondary_may_be_zero() {
    let more = "[[secondary]]\nmetric = \"errors\"\ndirection = \"lower\"\nmax_regression_percent = 10.0\n";
    let spec = spec(8, 40, 1, more);
    let judged = |base: f64, candidate: &dyn Fn(&Sample) -> f64| {
        let mut samples = measure(&spec, 1, TRY, &mut times(0.8));
        also(&mut samples, "errors", |sample| if is_better(sample) { candidate(sample) } else { base });
        judge(&spec, &QUIET, &samples)
    };
    let none = judged(0.0, &|_| 0.0);
    expect(&none, Verdict::Keep, "less read_s");
    let effect = none.others["errors"];
    assert_eq!((effect.share, effect.low, effect.high, effect.p_value), (0.0, 0.0, 0.0, 1.0));
    // From nothing to something is as much worse as the candidate's mean.
    let some = judged(0.0, &|_| 3.0);
    expect(&some, Verdict::Discard, "errors");
    assert_eq!((some.others["errors"].share, some.others["errors"].candidate), (1.0, 3.0));
    expect(&judged(3.0, &|_| 0.0), Verdict::Keep, "less read_s");
    assert_eq!(judged(3.0, &|_| 0.0).others["errors"].share, -1.0);
    // One error in one of eight blocks may have happened to either side.
    expect(&judged(0.0, &|s| f64::from(u32::from(s.quad == 0))), Verdict::Keep, "less read_s");
    // One zero among many does not make a ratio of the others impossible.
    let mixed = judged(4.0, &|s| if s.quad == 0 { 0.0 } else { 8.0 });
    expect(&mixed, Verdict::Discard, "errors");
    assert_eq!(mixed.others["errors"].share, 0.75);
}

const SECRET: &str = "[[scale]]\nname = \"secret\"\nvalue = \"9\"\nheld_out = true\n";

fn confirmed(spec: &Spec, deciding: f64, held_out: f64) -> Judgement {
    let first = judge(spec, &QUIET, &measure(spec, 1, TRY, &mut times(0.9)));
    assert_eq!(first.verdict, Verdict::Keep);
    let (mut seen, mut unseen) = (times(deciding), times(held_out));
    let samples = measure_at(spec, 1, CONFIRM, &spec.scales_or_default(), &mut |run, index, rng| {
        if run.scale == "secret" {
            unseen(run, index, rng)
        } else {
            seen(run, index, rng)
        }
    });
    confirm(spec, &first, &samples)
}

#[test]
fn a_keep_needs_new_samples_that_agree_and_held_out_scales_that_are_no_worse() {
    let spec = spec(8, 40, 2, SECRET);
    let kept = confirmed(&spec, 0.93, 1.0);
    expect(&kept, Verdict::Keep, "new samples agree: 7.");
    assert!((kept.effect.unwrap().share + 0.07).abs() < 0.003, "the effect is that of the new samples");
    assert_eq!((kept.confirmed, kept.alpha), (Some(true), 0.00125));
    assert_eq!(kept.scales.keys().collect::<Vec<_>>(), ["s0", "s1", "secret"]);

    let gone = confirmed(&spec, 1.0, 1.0);
    expect(&gone, Verdict::Discard, "new samples do not confirm it");
    assert_eq!(gone.confirmed, Some(false));
    expect(&confirmed(&spec, 0.9, 1.03), Verdict::Discard, "at scale secret");
    // Beyond doubt, but less than what would count as a gain.
    expect(&confirmed(&spec, 0.9, 1.004), Verdict::Keep, "agree");
    expect(&confirmed(&spec, 0.9, 0.5), Verdict::Keep, "agree");
}

#[test]
fn a_confirmation_is_held_to_all_rules() {
    let spec = spec(8, 40, 1, SECRET);
    let first = judge(&spec, &QUIET, &measure(&spec, 1, TRY, &mut times(0.9)));
    let samples = measure_at(&spec, 1, CONFIRM, &spec.scales_or_default(), &mut times(0.9));
    let with = |change: &dyn Fn(&mut Sample)| {
        let mut samples = samples.clone();
        change(samples.iter_mut().rev().find(|s| is_better(s) && s.scale == "secret").unwrap());
        let judgement = confirm(&spec, &first, &samples);
        assert_eq!(judgement.confirmed, Some(judgement.verdict == Verdict::Keep));
        judgement
    };
    expect(&with(&|_| ()), Verdict::Keep, "agree");
    expect(&with(&|s| s.failure = Some("status 1".to_owned())), Verdict::Crash, "to be confirmed: status 1");
    expect(&with(&|s| s.metrics.clear()), Verdict::Invalid, FIGURE);
    let none = samples.iter().filter(|sample| sample.scale != "secret").cloned().collect::<Vec<_>>();
    expect(&confirm(&spec, &first, &none), Verdict::Inconclusive, "0 of 8 quads are whole at every scale");
    // What was not to be kept cannot become a keep here.
    let discarded = judge(&spec, &QUIET, &measure(&spec, 1, TRY, &mut exact(1.0, 1.0)));
    assert_eq!(confirm(&spec, &discarded, &samples), discarded);
}

#[test]
fn the_noise_floor_is_what_an_a_a_run_does_not_exclude() {
    let spec = spec(8, 40, 2, SECRET);
    let samples = measure(&spec, 1, Purpose::Noise(0), &mut |_, _, rng| 1.0 + 0.03 * bench::normal(rng));
    let noise = verdict::noise(&spec, &samples).unwrap();
    assert!((0.005..0.04).contains(&noise.floor), "{noise:?}");
    assert_eq!(noise.scales.keys().collect::<Vec<_>>(), ["s0", "s1"]);
    let quiet = measure(&spec, 1, Purpose::Noise(0), &mut exact(5.0, 5.0));
    assert_eq!(verdict::noise(&spec, &quiet).unwrap().floor, 0.0);
    // A bias of the machine between the sides is part of the floor.
    let biased = measure(&spec, 1, Purpose::Noise(0), &mut exact(1.0, 1.05));
    assert!((verdict::noise(&spec, &biased).unwrap().floor - 0.05).abs() < 1e-9);
    let why = verdict::noise(&spec, &samples[..40]).unwrap_err();
    assert!(why.reason.contains("of 8 quads"), "{}", why.reason);
    let mut failed = samples;
    failed[3].failure = Some("status 2".to_owned());
    assert!(verdict::noise(&spec, &failed).unwrap_err().reason.contains("status 2"));
}

#[test]
fn replays_and_ablations_say_what_the_stack_does() {
    let spec = spec(8, 40, 1, SECRET);
    let all =
        |factor| measure_at(&spec, 1, Purpose::Replay(1), &spec.scales_or_default(), &mut times(factor));
    let kept = replay(&spec, &all(0.7));
    expect(&kept, Verdict::Keep, "30.0 % less read_s");
    assert_eq!((kept.alpha, kept.scales.len()), (0.05, 2));
    expect(&replay(&spec, &all(1.0)), Verdict::Discard, "no gain");
    let without = |factor| ablation(&spec, &measure(&spec, 1, Purpose::Ablate(1), &mut times(factor)));
    assert_eq!(without(1.05).1, "it still helps");
    assert_eq!(without(0.95).1, "does harm");
    let mut failed = measure(&spec, 1, Purpose::Ablate(1), &mut exact(1.0, 1.0));
    assert_eq!(ablation(&spec, &failed).1, "does not help any more");
    failed.iter_mut().filter(|sample| is_better(sample)).for_each(|s| s.failure = Some("no".to_owned()));
    assert_eq!(ablation(&spec, &failed).1, "cannot be left out");
    assert_eq!(ablation(&spec, &[]).1, "the samples do not tell");
}

#[test]
fn the_effect_on_any_figure_can_be_asked_for() {
    let spec = spec(8, 40, 2, "");
    let mut samples = measure(&spec, 1, TRY, &mut times(0.9));
    // Printed at one scale only, and less than zero.
    for sample in samples.iter_mut().filter(|sample| sample.scale == "s1") {
        let value = if sample.side == Side::Candidate { -3.0 } else { -2.0 };
        sample.metrics.insert("balance".to_owned(), value);
    }
    let effect = verdict::effect(&spec, "balance", Direction::Lower, &samples).unwrap();
    assert_eq!((effect.share, effect.base, effect.candidate, effect.quads), (-0.5, -2.0, -3.0, 8));
    assert_eq!(verdict::effect(&spec, "balance", Direction::Higher, &samples).unwrap().share, 0.5);
    assert_eq!(verdict::effect(&spec, "nothing", Direction::Lower, &samples), None);
}
