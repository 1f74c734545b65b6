//! Tries that are looked at after each block: what they cost, what they find and how often they err, in simulations whose
//! truth is known. The rates are in `docs/design/experiments.md`; every seed is fixed and printed.

use crate::bench::{look, measure_at, normal, sample, spec, FIGURE};
use crate::segments_of_equals_keep_nothing::Weather;
use duramen_experiment::event::{Judgement, Metrics, Purpose, Sample, Side, Verdict};
use duramen_experiment::schedule::{next, plan_of_looks, Run};
use duramen_experiment::spec::{Scale, Spec};
use duramen_experiment::verdict::looks::{confirm, judge, Known, Look};
use duramen_experiment::verdict::noise;

/// A try as it came out.
struct Came {
    first: Judgement,
    last: Judgement,
    /// Of the try and its confirmation.
    runs: usize,
}

impl Came {
    fn is_kept(&self) -> bool {
        self.last.verdict == Verdict::Keep
    }
}

/// What a machine makes of a run of the purpose: it has the side, the scale and the place.
type Truth<'a> = dyn Fn(Purpose, &Run, usize, &mut fastrand::Rng) -> f64 + 'a;

/// The A/A run of a segment.
fn known(spec: &Spec, seed: u64, truth: &Truth<'_>) -> Known {
    let purpose = Purpose::Noise(0);
    let scales: Vec<Scale> = spec.deciding().collect();
    let mut samples =
        measure_at(spec, seed, purpose, &scales, &mut |run, index, rng| truth(purpose, run, index, rng));
    samples.retain(|sample| sample.quad < spec.measure.noise_quads());
    Known::new(spec, &noise(spec, &samples).expect("an A/A run is whole"), &samples)
}

/// One try, and its confirmation if it comes to that.
fn attempt(spec: &Spec, known: &Known, seed: u64, number: u32, truth: &Truth<'_>) -> Came {
    let scales: Vec<Scale> = spec.deciding().collect();
    let taken = |purpose, scales: &[Scale], judge: &dyn Fn(&[Sample]) -> _| {
        look(spec, seed, purpose, scales, &mut |run, index, rng| truth(purpose, run, index, rng), judge)
    };
    let (first, samples) = taken(Purpose::Try(number), &scales, &|samples| judge(spec, known, samples));
    if first.verdict != Verdict::Keep {
        return Came { last: first.clone(), first, runs: samples.len() };
    }
    let all = spec.scales_or_default();
    let (last, again) =
        taken(Purpose::Confirm(number), &all, &|samples| confirm(spec, known, &first, samples));
    Came { first, last, runs: samples.len() + again.len() }
}

/// A machine with this noise of a run, and a candidate that takes so many times as long.
fn steady(noise: f64, candidate: f64) -> impl Fn(Purpose, &Run, usize, &mut fastrand::Rng) -> f64 {
    move |purpose, run, _, rng| {
        let is_changed = run.side == Side::Candidate && !matches!(purpose, Purpose::Noise(_));
        (1.0 + noise * normal(rng)) * if is_changed { candidate } else { 1.0 }
    }
}

/// The mean number of runs of a try, the share that is kept, and the share that would be kept but for its confirmation.
fn rates(spec: &Spec, segments: u64, tries: u32, seed: u64, truth: &Truth<'_>) -> (f64, f64, f64) {
    let (mut runs, mut kept, mut first) = (0, 0, 0);
    for segment in 0..segments {
        let seed = seed + 1_000 * segment;
        let known = known(spec, seed, truth);
        for number in 1..=tries {
            let came = attempt(spec, &known, seed, number, truth);
            runs += came.runs;
            kept += u32::from(came.is_kept());
            first += u32::from(came.first.verdict == Verdict::Keep);
        }
    }
    let of = segments as f64 * f64::from(tries);
    (runs as f64 / of, f64::from(kept) / of, f64::from(first) / of)
}

/// The benchmark that takes 190 s: no warm-ups, one scale, 48 tries, and a noise floor from eight quads.
fn slow() -> Spec {
    let mut spec = spec(12, 48, 1, "");
    spec.measure.noise_quads = Some(8);
    spec
}

const SECONDS: f64 = 190.0;

#[test]
fn a_change_three_times_slower_ends_after_one_pair_and_within_three_blocks_at_two_scales() {
    for (seed, noise) in (0..).zip([0.01, 0.015, 0.03]) {
        for scales in [1, 2] {
            let spec = spec(12, 40, scales, "");
            let truth = steady(noise, 3.0);
            let known = known(&spec, seed, &truth);
            for number in 1..=40 {
                let came = attempt(&spec, &known, seed, number, &truth);
                assert_eq!(came.last.verdict, Verdict::Discard, "{:?}", came.last);
                assert!(came.runs <= 3 * 4 * scales as usize, "{} runs", came.runs);
                assert!(scales > 1 || came.runs == 2, "{} runs", came.runs);
            }
        }
    }
}

#[test]
fn forty_eight_tries_of_a_slow_benchmark_take_less_than_sixteen_hours() {
    const SEGMENTS: u64 = 12;
    let spec = slow();
    let gains = [0.95, 0.93, 0.91, 0.89, 0.87, 0.85, 0.83, 0.8];
    for (seed, noise) in (7_000..).step_by(100).zip([0.01, 0.0125, 0.015]) {
        let (mut runs, mut kept, mut wrong) = (0, 0, 0);
        for segment in 0..SEGMENTS {
            let seed = seed + segment;
            let known = known(&spec, seed, &steady(noise, 1.0));
            for number in 1..=48_u32 {
                let gain = gains.get((number as usize - 1) / 6).filter(|_| number % 6 == 0);
                let came = attempt(&spec, &known, seed, number, &steady(noise, gain.copied().unwrap_or(1.0)));
                runs += came.runs;
                kept += u32::from(gain.is_some() && came.is_kept());
                wrong += u32::from(gain.is_none() && came.is_kept());
            }
        }
        let mean = runs as f64 / (48.0 * SEGMENTS as f64);
        let hours = mean * 48.0 * SECONDS / 3600.0;
        let with_noise = hours + 32.0 * SECONDS / 3600.0;
        println!(
            "seed {seed}, noise {noise}: {mean:.2} runs a try, {hours:.1} h, with the noise floor {with_noise:.1} h; kept {kept} \
             of {}, wrongly {wrong}",
            8 * SEGMENTS
        );
        assert!(hours <= 16.0, "noise {noise}: {hours} h");
        assert!(f64::from(kept) >= 0.9 * 8.0 * SEGMENTS as f64, "noise {noise}: {kept} kept");
        assert_eq!(wrong, 0);
    }
}

/// The table of docs/design/experiments.md.
#[test]
fn what_a_try_takes_and_finds_is_what_the_docs_say() {
    // The noise of a run and the quads of the noise floor, with the most runs of equals and the least share of gains of 5 % that
    // is kept. Of 240 at 95 %, two standard errors are 3 %.
    for (noise, noise_quads, most, least) in
        [(0.01, 12, 3.0, 0.95), (0.0125, 8, 4.0, 0.93), (0.015, 12, 4.0, 0.92), (0.03, 12, 14.0, 0.67)]
    {
        let mut spec = slow();
        spec.measure.noise_quads = Some(noise_quads);
        for candidate in [1.0, 3.0, 0.98, 0.97, 0.95, 0.9, 0.8] {
            let (runs, kept, first) = rates(&spec, 60, 4, 2_000_000, &steady(noise, candidate));
            println!("noise {noise}, floor of {noise_quads}, x{candidate}: {runs:.1} runs, kept {kept:.3}, at first {first:.3}");
            match candidate {
                1.0 => assert!(runs <= most && kept == 0.0, "noise {noise}: {runs} runs, {kept} kept"),
                3.0 => assert!(runs <= 2.01 && kept == 0.0, "noise {noise}: {runs} runs, {kept} kept"),
                0.95 => assert!(kept >= least, "noise {noise}: {kept} kept"),
                // A clear keep takes a third of the 96 runs of a try and a confirmation that are not looked at.
                0.9 | 0.8 => assert!(runs <= 32.0 && kept >= 0.97, "noise {noise}: {runs} runs, {kept} kept"),
                _ => {}
            }
        }
    }
}

/// The shares of segments of equals that keep something at first, and in the end.
fn of_segments(spec: &Spec, segments: u64, seed: u64, truth: &Truth<'_>) -> (f64, f64) {
    let (mut first, mut kept) = (0, 0);
    for segment in 0..segments {
        let seed = seed + segment;
        let known = known(spec, seed, truth);
        let all: Vec<Came> =
            (1..=spec.budget.tries).map(|number| attempt(spec, &known, seed, number, truth)).collect();
        first += u32::from(all.iter().any(|it| it.first.verdict == Verdict::Keep));
        kept += u32::from(all.iter().any(Came::is_kept));
    }
    (f64::from(first) / segments as f64, f64::from(kept) / segments as f64)
}

fn equals(segments: u64) {
    let mut in_all = 0.0;
    for (index, weather) in (0_u64..).zip(Weather::ALL) {
        let spec = spec(12, 40, 1 + (index % 2) as u32, "");
        let seed = 5_000_000 + 100_000 * index;
        let truth = |_: Purpose, run: &Run, at: usize, rng: &mut fastrand::Rng| weather.figure(run, at, rng);
        let (first, kept) = of_segments(&spec, segments, seed, &truth);
        println!(
            "seeds from {seed}, {weather:?}: {first} of segments keep something at first, {kept} in the end"
        );
        in_all += kept / Weather::ALL.len() as f64;
        assert!(kept <= 0.05, "{weather:?}: {kept}");
    }
    println!("{in_all} of all segments keep something");
    assert!(in_all <= 0.02, "{in_all}");
}

#[test]
fn of_segments_of_equals_that_end_early_at_most_one_of_twenty_keeps_anything() {
    equals(25);
}

/// What a machine does that is calm while the noise floor is found, and three times as noisy afterwards.
#[test]
fn a_machine_that_gets_noisier_after_its_noise_floor_keeps_no_equals() {
    let spec = slow();
    let truth = |purpose: Purpose, _: &Run, _: usize, rng: &mut fastrand::Rng| {
        let noise = if matches!(purpose, Purpose::Noise(_)) { 0.01 } else { 0.03 };
        1.0 + noise * normal(rng)
    };
    let (first, kept) = of_segments(&spec, 100, 6_500_000, &truth);
    println!("three times as noisy: {first} of segments keep something at first, {kept} in the end");
    assert!(kept <= 0.05, "{kept}");
}

/// Figures besides the one that decides, from the same runs.
fn with_others(
    spec: &Spec,
    seed: u64,
    number: u32,
    gain: f64,
    other: f64,
    noise: f64,
) -> (Judgement, Judgement, usize) {
    let scales: Vec<Scale> = spec.deciding().collect();
    let mut chance = duramen_base::entropy::rng(seed ^ (u64::from(number) << 32));
    let figures = |purpose: Purpose, samples: &[Sample], chance: &mut fastrand::Rng| -> Vec<Sample> {
        let mut samples = samples.to_vec();
        for sample in &mut samples {
            let is_changed = sample.side == Side::Candidate && !matches!(purpose, Purpose::Noise(_));
            let figure = (1.0 + noise * normal(chance)) * if is_changed { other } else { 1.0 };
            sample.metrics.insert("other".to_owned(), figure);
        }
        samples
    };
    let noise_samples =
        measure_at(spec, seed, Purpose::Noise(0), &scales, &mut |_, _, rng| 1.0 + 0.01 * normal(rng));
    let noise_samples = figures(Purpose::Noise(0), &noise_samples, &mut chance);
    let known =
        Known::new(spec, &duramen_experiment::verdict::noise(spec, &noise_samples).unwrap(), &noise_samples);
    let mut run = |purpose: Purpose, judge: &dyn Fn(&[Sample]) -> Look| {
        let plan = plan_of_looks(spec, seed, purpose, &scales);
        let mut samples: Vec<Sample> = Vec::new();
        loop {
            if let Look::Ended(judgement) = judge(&samples) {
                return (*judgement, samples.len());
            }
            for run in next(spec, &plan, &samples, matches!(purpose, Purpose::Try(_))) {
                let figure =
                    (1.0 + 0.01 * normal(&mut chance)) * if run.side == Side::Candidate { gain } else { 1.0 };
                let one = sample(purpose, &run, Metrics::from([(FIGURE.to_owned(), figure)]));
                samples.extend(figures(purpose, &[one], &mut chance));
            }
        }
    };
    let (first, runs) = run(Purpose::Try(number), &|samples| judge(spec, &known, samples));
    if first.verdict != Verdict::Keep {
        return (first.clone(), first, runs);
    }
    let (last, more) = run(Purpose::Confirm(number), &|samples| confirm(spec, &known, &first, samples));
    (first, last, runs + more)
}

const OTHER: &str =
    "[[secondary]]\nmetric = \"other\"\ndirection = \"lower\"\nmax_regression_percent = 2.0\n";

/// X15: of changes that make a secondary figure worse by exactly its limit, at most one of twenty is kept.
#[test]
fn what_gets_worse_by_exactly_its_limit_is_kept_in_one_of_twenty_cases_at_most() {
    const TRIES: u32 = 400;
    let spec = spec(12, 40, 1, OTHER);
    for (noise, worse, most) in [(0.01, 1.02, 0.05), (0.03, 1.02, 0.05), (0.01, 1.04, 0.0)] {
        let (mut first, mut kept) = (0, 0);
        for number in 1..=TRIES {
            let (one, last, _) = with_others(&spec, 90_000 + u64::from(number), number, 0.9, worse, noise);
            first += u32::from(one.verdict == Verdict::Keep);
            kept += u32::from(last.verdict == Verdict::Keep);
        }
        let [first, kept] = [first, kept].map(|count| f64::from(count) / f64::from(TRIES));
        println!("noise {noise}, x{worse}: {first} kept at first, {kept} in the end");
        assert!(kept <= most, "noise {noise}, x{worse}: {kept}");
    }
}

/// What it costs that a try ends as soon as it will hardly be shown that another figure is no worse: few of those that would
/// be kept, with a figure that is as noisy as its limit is wide.
#[test]
fn a_guard_that_can_be_shown_is_waited_for() {
    const TRIES: u32 = 400;
    let spec = spec(12, 40, 1, OTHER);
    let (mut kept, mut runs) = (0, 0);
    for number in 1..=TRIES {
        let (one, _, taken) = with_others(&spec, 190_000 + u64::from(number), number, 0.9, 1.0, 0.02);
        kept += u32::from(one.verdict == Verdict::Keep);
        runs += taken;
    }
    println!("{kept} of {TRIES} kept at first, {runs} runs");
    assert!(f64::from(kept) / f64::from(TRIES) >= 0.85, "{kept}");
}

/// X15: what cannot be shown is said, with what it would have taken.
#[test]
fn a_figure_too_noisy_for_its_limit_makes_a_try_inconclusive_in_words() {
    let spec = spec(6, 40, 1, OTHER);
    let (mut told, mut ended, mut all) = (0, 0, 0);
    for seed in 0..20 {
        let (first, _, runs) = with_others(&spec, 170 + seed, 1, 0.8, 1.0, 0.08);
        if first.verdict == Verdict::Discard {
            continue;
        }
        assert_eq!(first.verdict, Verdict::Inconclusive, "{}", first.reason);
        (ended, all) = (ended + u32::from(runs < 24), all + 1);
        let words = "it is not shown that other got worse by no more than 2 %: ";
        assert!(first.reason.contains("less read_s") && first.reason.contains(words), "{}", first.reason);
        // Where it is worse than the limit so far, more of the same would not show the contrary.
        let needed =
            first.reason.contains("that would take about ") && first.reason.contains("`measure.quads` is 6");
        assert!(needed || first.reason.contains("no number of quads would show it"), "{}", first.reason);
        told += u32::from(needed);
    }
    assert!(told >= 8, "{told} of 20 say how many quads it would take");
    assert!(
        3 * ended >= 2 * all,
        "{ended} of {all} end before all quads are there, since it will hardly be shown"
    );
    // And one that does not vary much is shown at once.
    let (_, last, runs) = with_others(&spec, 17, 1, 0.8, 1.0, 0.002);
    assert_eq!((last.verdict, runs), (Verdict::Keep, 16), "{}", last.reason);
}

const HELD_OUT: &str = "[[scale]]\nname = \"held\"\ndraw = \"10000..40000\"\nheld_out = true\n";

/// How often a gain of a tenth at the visible scales, and so much at the held-out one, is kept, and how often suspicious.
fn held_out(gain: f64, tries: u32) -> (f64, f64) {
    let spec = spec(12, 40, 2, HELD_OUT);
    let spec =
        spec.with_values(&spec.draw(&std::collections::BTreeMap::new(), &mut duramen_base::entropy::rng(5)));
    let truth = move |purpose: Purpose, run: &Run, _: usize, rng: &mut fastrand::Rng| {
        let is_changed = run.side == Side::Candidate && !matches!(purpose, Purpose::Noise(_));
        let factor = if run.scale == "held" { 1.0 - gain } else { 0.9 };
        (1.0 + 0.0125 * normal(rng)) * if is_changed { factor } else { 1.0 }
    };
    let known = known(&spec, 77, &truth);
    let all: Vec<Verdict> =
        (1..=tries).map(|number| attempt(&spec, &known, 77, number, &truth).last.verdict).collect();
    let of = |verdict| all.iter().filter(|it| **it == verdict).count() as f64 / f64::from(tries);
    (of(Verdict::Keep), of(Verdict::Suspicious))
}

/// X16.
#[test]
fn a_change_that_knows_the_visible_sizes_is_suspicious_and_one_that_does_not_is_kept() {
    for (gain, least_kept, most_kept) in
        [(0.0, 0.0, 0.0), (0.02, 0.0, 0.0), (0.05, 0.0, 0.1), (0.1, 0.95, 1.0), (0.2, 0.95, 1.0)]
    {
        let (kept, suspicious) = held_out(gain, 100);
        println!("a gain of 10 %, and of {gain} where it is held out: kept {kept}, suspicious {suspicious}");
        assert!((least_kept..=most_kept).contains(&kept), "{gain}: {kept} kept");
        assert!(gain > 0.02 || suspicious >= 0.95, "{gain}: {suspicious} suspicious");
    }
}

/// X17: whatever was killed looks again at what it has, and comes to the same.
#[test]
fn any_beginning_of_the_samples_goes_on_to_the_same_end() {
    for (seed, candidate) in [(1, 0.9), (2, 0.96), (3, 1.0), (4, 3.0)] {
        for scales in [1, 2] {
            let spec = spec(6, 40, scales, "");
            let truth = steady(0.015, candidate);
            let known = known(&spec, seed, &truth);
            let purpose = Purpose::Try(1);
            let all: Vec<Scale> = spec.deciding().collect();
            let (ended, samples) = look(
                &spec,
                seed,
                purpose,
                &all,
                &mut |run, at, rng| truth(purpose, run, at, rng),
                &|samples| judge(&spec, &known, samples),
            );
            let plan = plan_of_looks(&spec, seed, purpose, &all);
            for taken in 0..samples.len() {
                assert_eq!(judge(&spec, &known, &samples[..taken]), Look::More, "after {taken}");
                let next = next(&spec, &plan, &samples[..taken], scales == 1);
                let (sample, run) = (&samples[taken], &next[0]);
                assert_eq!((&run.scale, run.quad, run.place), (&sample.scale, sample.quad, sample.place));
            }
            assert_eq!(judge(&spec, &known, &samples), Look::Ended(Box::new(ended)));
        }
    }
}

/// X17: of every two blocks of a scale, each side begins one.
#[test]
fn any_number_of_the_first_blocks_is_balanced() {
    let spec = spec(7, 40, 3, "");
    let scales: Vec<Scale> = spec.deciding().collect();
    for seed in 0..50 {
        let plan = plan_of_looks(&spec, seed, Purpose::Try(1), &scales);
        for scale in &scales {
            let starts: Vec<Side> = plan
                .iter()
                .filter(|run| run.scale == scale.name && run.place == 0)
                .map(|run| run.side)
                .collect();
            assert_eq!(starts.len(), 7);
            assert!(starts.chunks_exact(2).all(|two| two[0] != two[1]), "{starts:?}");
        }
    }
}

/// Counts without any spread need as many blocks as make so few orders improbable, and are kept then.
#[test]
fn counts_without_spread_are_decided_by_their_orders() {
    let spec = spec(12, 40, 1, "");
    for (candidate, verdict, runs) in
        [(0.95, Verdict::Keep, 5 * 4 + 3 * 4), (1.0, Verdict::Discard, 2), (1.2, Verdict::Discard, 2)]
    {
        let truth = |purpose: Purpose, run: &Run, _: usize, _: &mut fastrand::Rng| {
            let is_changed = run.side == Side::Candidate && !matches!(purpose, Purpose::Noise(_));
            if is_changed {
                1000.0 * candidate
            } else {
                1000.0
            }
        };
        let came = attempt(&spec, &known(&spec, 1, &truth), 1, 1, &truth);
        assert_eq!((came.last.verdict, came.runs), (verdict, runs), "x{candidate}: {}", came.last.reason);
    }
}

#[test]
fn judgements_say_how_far_they_were_measured_and_what_would_have_been_seen() {
    let spec = slow();
    let of = |candidate: f64| {
        let truth = steady(0.0125, candidate);
        attempt(&spec, &known(&spec, 3, &truth), 3, 1, &truth).last
    };
    let kept = of(0.8);
    let extent = kept.extent.expect("an extent");
    assert_eq!((kept.verdict, extent.of, extent.detectable), (Verdict::Keep, 12, None), "{}", kept.reason);
    assert!(kept.reason.contains(&format!("after {} of 12 quads", extent.quads)), "{}", kept.reason);
    let equal = of(1.01);
    assert_eq!(
        (equal.verdict, equal.extent.map(|it| it.quads)),
        (Verdict::Discard, Some(0)),
        "{}",
        equal.reason
    );
    let seen = equal.extent.and_then(|it| it.detectable).expect("what would have been seen");
    assert!((0.005..0.05).contains(&seen), "{seen}");
    assert!(equal.reason.contains("after a single pair of runs"), "{}", equal.reason);
    assert!(equal.reason.contains("no sign of the 5.0 % that are looked for"), "{}", equal.reason);
    assert!(equal.reason.contains("or more would have been seen"), "{}", equal.reason);
    // As it comes back from the log.
    let text = serde_json::to_string(&equal).unwrap();
    assert_eq!(serde_json::from_str::<Judgement>(&text).unwrap(), equal);
}

/// The long form of the simulations above.
mod long {
    #[test]
    fn segments_of_equals_many_times() {
        super::equals(200);
    }
}
