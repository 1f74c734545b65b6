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
    let row = Row::new(samples, metric, direction, scales);
    let estimate = Estimate::of_balanced(&row.values)?;
    let least = least_p_value(row.count());
    let effect = row.effect(&estimate, estimate.p_value().max(least));
    Some(Compared { metric: metric.to_owned(), scale: None, direction, effect, is_ratio: row.is_ratio })
}

/// What the blocks of a figure say, a value each.
pub(super) struct Row {
    /// `ln(candidate / base)` of each block, or the difference as a share; less than zero is better.
    pub(super) values: Vec<f64>,
    /// How far runs of the same side lie apart in each block: what it would make of the variance of its value if nothing
    /// but chance were between them.
    pub(super) within: Vec<f64>,
    /// Whether the values are of ratios.
    pub(super) is_ratio: bool,
    /// How many scales they are from.
    pub(super) scales: usize,
    pub(super) base: f64,
    pub(super) candidate: f64,
}

impl Row {
    /// Over those of `scales` that have the figure, from the blocks that are whole at all of these.
    pub(super) fn new(samples: &[Sample], metric: &str, direction: Direction, scales: &[&str]) -> Self {
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
        let is_ratio = tables
            .iter()
            .flatten()
            .flat_map(|block| block.base.iter().chain(&block.candidate))
            .all(|v| *v > 0.0);
        let by_scale: Vec<Vec<f64>> =
            tables.iter().map(|blocks| if is_ratio { ratios(blocks) } else { differences(blocks) }).collect();
        let apart: Vec<Vec<f64>> = tables.iter().map(|blocks| within(blocks, is_ratio)).collect();
        let sign = match direction {
            Direction::Lower => 1.0,
            Direction::Higher => -1.0,
        };
        let at =
            |of: &[Vec<f64>], index: usize| mean(&of.iter().map(|values| values[index]).collect::<Vec<_>>());
        let count = tables.len().max(1) as f64;
        let side = |figure: fn(&Block) -> f64| {
            mean(
                &tables
                    .iter()
                    .map(|blocks| mean(&blocks.iter().map(figure).collect::<Vec<_>>()))
                    .collect::<Vec<_>>(),
            )
        };
        Self {
            values: (0..numbers.len()).map(|index| sign * at(&by_scale, index)).collect(),
            within: (0..numbers.len()).map(|index| at(&apart, index) / count).collect(),
            is_ratio,
            scales: tables.len(),
            base: side(|block| mean(&block.base)),
            candidate: side(|block| mean(&block.candidate)),
        }
    }

    /// The effect of one pair of runs.
    pub(super) fn of_pair(value: f64, base: f64, candidate: f64) -> Self {
        Self { values: vec![value], within: vec![0.0], is_ratio: true, scales: 1, base, candidate }
    }

    pub(super) fn count(&self) -> u32 {
        self.values.len() as u32
    }

    /// A value as a share.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = if self.is_ratio { value.exp_m1() } else { value };
        share.clamp(-f64::MAX, f64::MAX)
    }

    /// The effect, where this is what is known of the mean of the values.
    pub(super) fn effect(&self, estimate: &Estimate, p_value: f64) -> Effect {
        let interval = estimate.interval(CONFIDENCE);
        Effect {
            share: self.share(interval.estimate),
            low: self.share(interval.low),
            high: self.share(interval.high),
            p_value,
            base: self.base,
            candidate: self.candidate,
            quads: self.count(),
        }
    }
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
    let unit = unit(blocks);
    blocks.iter().map(|block| (mean(&block.candidate) - mean(&block.base)) / unit).collect()
}

fn unit(blocks: &[Block]) -> f64 {
    let mean_of = |figure: fn(&Block) -> f64| mean(&blocks.iter().map(figure).collect::<Vec<_>>()).abs();
    let (base, candidate) = (mean_of(|block| mean(&block.base)), mean_of(|block| mean(&block.candidate)));
    let unit = if base > 0.0 { base } else { candidate };
    if unit > 0.0 {
        unit
    } else {
        1.0
    }
}

/// Of each block at one scale: see [`Row::within`]. With a variance of `v` a run, the mean of two has `v / 2`, the value
/// of the block `v`, and the difference of two runs squared is `2 v` on average, of which there are two.
fn within(blocks: &[Block], is_ratio: bool) -> Vec<f64> {
    let unit = if is_ratio { 1.0 } else { unit(blocks) };
    let apart = |[one, other]: [f64; 2]| {
        let apart = if is_ratio { one.ln() - other.ln() } else { (one - other) / unit };
        apart * apart
    };
    blocks.iter().map(|block| (apart(block.base) + apart(block.candidate)) / 4.0).collect()
}
