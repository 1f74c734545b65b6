//! The look after the first two runs, one of each side: most changes that do nothing, or harm, need no more.
//!
//! It only ends tries. Nothing is kept here, and what the order of two runs adds is in the pairs of the A/A run too.

use super::super::effects::Row;
use super::super::spread::{Spread, Variance};
use super::super::{unmeasured, words};
use super::seen::seen;
use super::{futility, Known, Rule, See};
use crate::disturbance;
use crate::event::{Extent, Judgement, Sample, Side, Verdict};
use crate::spec::{Scale, Spec};

/// What the first pair comes to: only where there is one scale, so that nothing else is to be waited for.
pub(super) fn look(
    spec: &Spec,
    known: &Known,
    rule: &Rule,
    scales: &[Scale],
    samples: &[Sample],
) -> Option<Judgement> {
    let [scale] = scales else { return None };
    let (metric, direction) = (spec.primary.metric.as_str(), spec.primary.direction);
    let runs: Vec<&Sample> = samples.iter().filter(|it| it.scale == scale.name && it.quad == 0).collect();
    let at = |place: u32| runs.iter().copied().find(|sample| sample.place == place);
    let (first, second) = (at(0)?, at(1)?);
    if disturbance::is_apart(spec, first, second) {
        return None;
    }
    let (value, base, candidate) = value(first, second, metric)?;
    let see = See { known: &known.samples, samples, deciding: &[&scale.name] };
    let sign = if direction == crate::spec::Direction::Lower { 1.0 } else { -1.0 };
    let row = Row::of_pair(sign * value, base, candidate);
    let pairs = Spread::of_pairs(&pairs(&known.samples, &scale.name, metric))?;
    let mut pair = seen(metric, direction, &row, Some(&pairs))?;
    pair.compared.effect.quads = 0;
    // How much is needed in the end is a matter of blocks.
    let of_block = see.spread(metric, direction, &[&scale.name])?;
    let whole = Variance::of_known(&of_block);
    let enough = futility::enough(spec, rule, &whole);
    let (is_excluded, goes_on) = futility::against_aim(spec, &pair, pair.variance.deviation(), enough);
    if !is_excluded {
        return None;
    }
    let detectable =
        futility::gain_of(&pair, goes_on.max(0.0) + futility::NINE_OF_TEN * pair.variance.deviation());
    let of = spec.measure.quads;
    let mut judgement = unmeasured(spec, Verdict::Discard, "");
    judgement.alpha = rule.alpha;
    judgement.reason = format!(
        "{}: no sign of the {} that are looked for; {}",
        words::seen(&pair.compared, rule.alpha, 0, of),
        words::percent(futility::aim(spec)),
        words::detectable(detectable)
    );
    judgement.effect = Some(pair.compared.effect);
    judgement.extent = Some(Extent { quads: 0, of, detectable: Some(detectable) });
    Some(judgement)
}

/// The effect of a pair, and the figures of both sides.
fn value(one: &Sample, other: &Sample, metric: &str) -> Option<(f64, f64, f64)> {
    let (base, candidate) = if one.side == Side::Base { (one, other) } else { (other, one) };
    if base.side == candidate.side || !base.has_figures() || !candidate.has_figures() {
        return None;
    }
    let (base, candidate) = (*base.metrics.get(metric)?, *candidate.metrics.get(metric)?);
    (base > 0.0 && candidate > 0.0).then(|| (candidate.ln() - base.ln(), base, candidate))
}

/// The effects of all pairs of an A/A run at one scale.
fn pairs(samples: &[Sample], scale: &str, metric: &str) -> Vec<f64> {
    let of_scale: Vec<&Sample> = samples.iter().filter(|sample| sample.scale == scale).collect();
    let partner = |first: &&&Sample| {
        let is_it = |it: &&&Sample| it.quad == first.quad && it.place == first.place + 1;
        of_scale.iter().find(is_it).and_then(|second| value(first, second, metric))
    };
    of_scale.iter().filter(|sample| sample.place % 2 == 0).filter_map(|it| Some(partner(&it)?.0)).collect()
}
