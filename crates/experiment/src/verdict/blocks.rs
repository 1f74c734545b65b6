//! Samples put together to blocks.

use crate::event::{Sample, Side};
use std::collections::{BTreeMap, BTreeSet};

/// The runs of each side in a block.
const RUNS: usize = 2;

/// The figures of one whole block at one scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) base: [f64; RUNS],
    pub(super) candidate: [f64; RUNS],
}

/// The whole blocks of a figure at one scale by their number.
///
/// A block with a run or a figure missing is left out: in what is left of it, the sides' mean places differ,
/// and what the machine did meanwhile would count as an effect. Of two samples of the same place the first
/// counts, so that nobody can repeat a run until it comes out well.
pub(super) fn whole(samples: &[Sample], metric: &str, scale: &str) -> BTreeMap<u32, Block> {
    let mut taken = BTreeSet::new();
    let mut sides: BTreeMap<u32, [Vec<f64>; 2]> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.scale == scale && sample.has_figures()) {
        if !taken.insert((sample.quad, sample.place)) {
            continue;
        }
        if let Some(value) = sample.metrics.get(metric).filter(|value| value.is_finite()) {
            let side = usize::from(sample.side == Side::Candidate);
            sides.entry(sample.quad).or_default()[side].push(*value);
        }
    }
    let block = |[base, candidate]: [Vec<f64>; 2]| {
        Some(Block { base: base.try_into().ok()?, candidate: candidate.try_into().ok()? })
    };
    sides.into_iter().filter_map(|(number, both)| Some((number, block(both)?))).collect()
}

/// The mean of two, without an overflow in between.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().map(|value| value / values.len() as f64).sum()
}
