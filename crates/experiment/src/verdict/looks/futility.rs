//! Ending what is not likely to be kept. It may only lower the error rate: nothing is kept for it.

use super::super::spread::Variance;
use super::super::{spending, words};
use super::{Rule, Seen};
use crate::event::Verdict;
use crate::spec::Spec;
use duramen_measure::statistics::Estimate;

/// A try whose chance to be kept is less than this ends.
const CHANCE: f64 = 0.05;
/// What nine of ten are below, in standard deviations of the normal distribution.
pub(super) const NINE_OF_TEN: f64 = 1.2816;
/// The confidence with which a gain is excluded.
const CONFIDENCE: f64 = 0.95;

/// Whether a try ends after so many blocks, and the least gain, as a share, that would have been seen in nine of ten cases.
pub(super) fn look(
    spec: &Spec,
    rule: &Rule,
    primary: &Seen,
    blocks: u32,
) -> (Option<(Verdict, String)>, f64) {
    let blocks = f64::from(blocks);
    let error = primary.variance.deviation() / blocks.sqrt();
    let most = f64::from(spec.measure.quads);
    if blocks >= most {
        let level = rule.alpha * spending::share(spec.measure.quads, spec.measure.quads);
        let seen = (primary.variance.quantile(level) + NINE_OF_TEN) * error;
        return (None, gain_of(primary, seen));
    }
    let enough = enough(spec, rule, &primary.variance);
    let (is_excluded, goes_on) = against_aim(spec, primary, error, enough);
    let detectable = gain_of(primary, goes_on.max(0.0) + NINE_OF_TEN * error);
    if rule.is_confirmation {
        return (None, detectable);
    }
    let aim = words::percent(aim(spec));
    if is_excluded {
        return (Some((Verdict::Discard, format!("no sign of the {aim} that are looked for"))), detectable);
    }
    let chance = chance(spec, rule, primary, blocks);
    let stop = (chance < CHANCE).then(|| {
        let text = format!("its chance to be kept is below {}", words::percent(CHANCE));
        (Verdict::Inconclusive, text)
    });
    (stop, detectable)
}

/// Whether the gain that is looked for is excluded, with no sign of another one that would be kept; and from which gain on
/// that is not so.
pub(super) fn against_aim(spec: &Spec, primary: &Seen, error: f64, enough: f64) -> (bool, f64) {
    let reach = primary.variance.quantile(1.0 - CONFIDENCE) * error;
    let goes_on = (primary.gain(aim(spec)) - reach).min(enough);
    let gain = -primary.centre;
    (gain < goes_on || (gain <= 0.0 && reach == 0.0), goes_on)
}

/// A gain that would be kept with half of all blocks, if it stays as it is.
pub(super) fn enough(spec: &Spec, rule: &Rule, variance: &Variance) -> f64 {
    let level = rule.alpha * spending::share(spec.measure.quads, spec.measure.quads);
    let half = f64::from(spec.measure.quads) / 2.0;
    variance.after(spec.measure.quads).quantile(level) * variance.deviation() / half.sqrt()
}

/// The gain that is looked for, as a share.
pub(super) fn aim(spec: &Spec) -> f64 {
    spec.primary.aim_percent.max(spec.primary.min_effect_percent).min(99.0) / 100.0
}

/// A gain as a share.
pub(super) fn gain_of(primary: &Seen, value: f64) -> f64 {
    -primary.share(-value)
}

/// The chance to be kept when all blocks are there, if from here on it gains what is looked for, or as much as so far.
fn chance(spec: &Spec, rule: &Rule, primary: &Seen, blocks: f64) -> f64 {
    let most = f64::from(spec.measure.quads);
    let (left, deviation) = (most - blocks, primary.variance.deviation());
    let level = rule.alpha * spending::share(spec.measure.quads, spec.measure.quads);
    let needed = primary.variance.after(spec.measure.quads).quantile(level) * deviation / most.sqrt();
    let needed = needed.max(primary.gain(spec.primary.min_effect_percent / 100.0));
    let gain = -primary.centre;
    let expected = blocks * gain + left * primary.gain(aim(spec)).max(gain);
    probability((expected - most * needed) / (deviation * left.sqrt()), &primary.variance)
}

/// The chance that it is shown, when all blocks are there, that a figure got worse by no more than the limit, if it does not get
/// worse from here on, or gets better as it did so far.
fn chance_to_be_shown(spec: &Spec, seen: &Seen, limit: f64, blocks: u32) -> f64 {
    let (blocks, most) = (f64::from(blocks), f64::from(spec.measure.quads));
    let (left, deviation) = (most - blocks, seen.variance.deviation());
    let reach = seen.variance.after(spec.measure.quads).quantile(1.0 - CONFIDENCE) * deviation / most.sqrt();
    let expected = blocks * seen.centre + left * seen.centre.min(0.0);
    probability((most * (seen.value(limit) - reach) - expected) / (deviation * left.sqrt()), &seen.variance)
}

/// Whether it will hardly be shown that a figure got worse by no more than the limit, so that a try cannot be kept.
pub(super) fn is_hopeless(spec: &Spec, seen: &Seen, limit: f64, blocks: u32) -> bool {
    blocks < spec.measure.quads && chance_to_be_shown(spec, seen, limit, blocks) < CHANCE
}

/// The probability that what is to be expected so far above what is enough, in standard deviations, is enough in the end. A
/// deviation of which little is known is not taken for the true one.
fn probability(distance: f64, variance: &Variance) -> f64 {
    if !distance.is_finite() {
        return 1.0;
    }
    let tails = Estimate::of_known(distance, 1.0, variance.freedom).map_or(1.0, |it| it.p_value());
    if distance > 0.0 {
        1.0 - tails / 2.0
    } else {
        tails / 2.0
    }
}
