//! The effect on a figure, from its blocks.

use super::blocks::{self, mean, Block};
use super::CONFIDENCE;
use crate::event::{Effect, Sample};
use crate::spec::{Direction, Scale, Spec};
use duramen_measure::statistics::Estimate;
use std::collections::BTreeMap;

/// In how many orders two runs of each of two sides can come. Runs that are alike all through come in any of
/// them with the same probability, so no number of blocks can be more telling than all of their orders are
/// many.
const ORDERS: f64 = 6.0;

/// An effect with what is needed to speak of it.
#[derive(Debug, Clone)]
pub(super) struct Compared {
    pub(super) metric: String,
    /// `None` is all deciding scales.
    pub(super) scale: Option<String>,
    pub(super) direction: Direction,
    pub(super) effect: Effect,
    /// Whether the shares are ratios, or differences because a figure is zero or less.
    pub(super) is_ratio: bool,
}

/// All effects that a verdict looks at.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Over all deciding scales.
    pub(super) primary: Option<Compared>,
    /// The primary figure at each deciding scale.
    pub(super) scales: Vec<Compared>,
    /// The primary figure at each held-out scale.
    pub(super) held_out: Vec<Compared>,
    /// Secondaries and sentinels over all deciding scales and, if there are several scales, at each.
    guards: Vec<Compared>,
    /// The number of blocks that are whole at every scale that was to be run.
    pub(super) whole: u32,
}

impl Effects {
    /// `scales` are all that were to be run.
    pub(super) fn estimate(spec: &Spec, samples: &[Sample], scales: &[Scale]) -> Self {
        let all = names(scales);
        let (held_out, deciding): (Vec<Scale>, Vec<Scale>) =
            scales.iter().cloned().partition(|it| it.held_out);
        let (held_out, deciding) = (names(&held_out), names(&deciding));
        let (metric, direction) = (spec.primary.metric.as_str(), spec.primary.direction);
        let at_each = |metric: &str, direction, scales: &[&str]| -> Vec<Compared> {
            let at = |name: &&str| {
                let compared = compare(samples, metric, direction, &[name])?;
                Some(Compared { scale: Some((*name).to_owned()), ..compared })
            };
            scales.iter().filter_map(at).collect()
        };
        let guards = spec.secondaries.iter().map(|s| (s.metric.as_str(), s.direction));
        let guards = guards.chain(spec.sentinels.iter().map(|s| (s.metric.as_str(), s.direction)));
        let guards = guards.flat_map(|(metric, direction)| {
            let pooled = compare(samples, metric, direction, &deciding);
            let single = if all.len() > 1 { at_each(metric, direction, &all) } else { Vec::new() };
            pooled.into_iter().chain(single)
        });
        let blocks: Vec<_> = all.iter().map(|name| blocks::whole(samples, metric, name)).collect();
        Self {
            primary: compare(samples, metric, direction, &deciding),
            scales: at_each(metric, direction, &deciding),
            held_out: at_each(metric, direction, &held_out),
            guards: guards.collect(),
            whole: in_all(&blocks).len() as u32,
        }
    }

    pub(super) fn at_scales(&self) -> impl Iterator<Item = (String, Effect)> + '_ {
        let both = self.scales.iter().chain(&self.held_out);
        both.filter_map(|compared| Some((compared.scale.clone()?, compared.effect)))
    }

    /// Those on secondaries and sentinels over all deciding scales.
    pub(super) fn others(&self) -> BTreeMap<String, Effect> {
        let pooled = self.guards.iter().filter(|compared| compared.scale.is_none());
        pooled.map(|compared| (compared.metric.clone(), compared.effect)).collect()
    }

    pub(super) fn all_of<'a>(&'a self, metric: &'a str) -> impl Iterator<Item = &'a Compared> {
        self.guards.iter().filter(move |compared| compared.metric == metric)
    }
}

pub(super) fn names(scales: &[Scale]) -> Vec<&str> {
    scales.iter().map(|scale| scale.name.as_str()).collect()
}

/// The effect on a figure over those of `scales` that have it. `None` with fewer than two blocks that are
/// whole at all of these.
pub(super) fn compare(
    samples: &[Sample],
    metric: &str,
    direction: Direction,
    scales: &[&str],
) -> Option<Compared> {
    let has = |scale: &&&str| {
        let mut of_scale = samples.iter().filter(|sample| sample.scale == ***scale);
        of_scale.any(|sample| sample.metrics.contains_key(metric))
    };
    let tables: Vec<BTreeMap<u32, Block>> =
        scales.iter().filter(has).map(|scale| blocks::whole(samples, metric, scale)).collect();
    let numbers = in_all(&tables);
    let tables: Vec<Vec<Block>> = tables
        .iter()
        .map(|table| numbers.iter().filter_map(|number| table.get(number).copied()).collect())
        .collect();
    let is_ratio =
        tables.iter().flatten().flat_map(|block| block.base.iter().chain(&block.candidate)).all(|v| *v > 0.0);
    let by_scale: Vec<Vec<f64>> =
        tables.iter().map(|blocks| if is_ratio { ratios(blocks) } else { differences(blocks) }).collect();
    let sign = match direction {
        Direction::Lower => 1.0,
        Direction::Higher => -1.0,
    };
    let values: Vec<f64> = (0..numbers.len())
        .map(|index| sign * mean(&by_scale.iter().map(|values| values[index]).collect::<Vec<_>>()))
        .collect();
    let estimate = Estimate::of_balanced(&values)?;
    let interval = estimate.interval(CONFIDENCE);
    let share = |value: f64| {
        let share = if is_ratio { value.exp_m1() } else { value };
        share.clamp(-f64::MAX, f64::MAX)
    };
    let count = numbers.len() as u32;
    let side = |figure: fn(&Block) -> f64| {
        mean(
            &tables
                .iter()
                .map(|blocks| mean(&blocks.iter().map(figure).collect::<Vec<_>>()))
                .collect::<Vec<_>>(),
        )
    };
    let effect = Effect {
        share: share(interval.estimate),
        low: share(interval.low),
        high: share(interval.high),
        p_value: estimate.p_value().max(least_p_value(count)),
        base: side(|block| mean(&block.base)),
        candidate: side(|block| mean(&block.candidate)),
        quads: count,
    };
    Some(Compared { metric: metric.to_owned(), scale: None, direction, effect, is_ratio })
}

/// The least p-value that so many blocks can have.
pub(super) fn least_p_value(blocks: u32) -> f64 {
    (2.0 / ORDERS.powf(f64::from(blocks))).min(1.0)
}

fn in_all(tables: &[BTreeMap<u32, Block>]) -> Vec<u32> {
    let Some((first, rest)) = tables.split_first() else { return Vec::new() };
    first.keys().copied().filter(|number| rest.iter().all(|table| table.contains_key(number))).collect()
}

fn ratios(blocks: &[Block]) -> Vec<f64> {
    blocks.iter().map(|block| mean(&block.candidate).ln() - mean(&block.base).ln()).collect()
}

/// As shares of the base's mean, or where that is zero, of the candidate's.
fn differences(blocks: &[Block]) -> Vec<f64> {
    let mean_of = |figure: fn(&Block) -> f64| mean(&blocks.iter().map(figure).collect::<Vec<_>>()).abs();
    let (base, candidate) = (mean_of(|block| mean(&block.base)), mean_of(|block| mean(&block.candidate)));
    let unit = if base > 0.0 { base } else { candidate };
    let unit = if unit > 0.0 { unit } else { 1.0 };
    blocks.iter().map(|block| (mean(&block.candidate) - mean(&block.base)) / unit).collect()
}
