//! Blocks in which the machine changed its pace, as the sentinels show.
//!
//! A neighbour on the same core can make everything take twice as long for some seconds. Where that begins or
//! ends within a block, it counts as an effect, ten times that of a change that is worth keeping. A sentinel is
//! work that no change touches, done in the same run: if two runs of the **same** commit in one block differ in
//! it by more than its tolerance, then it was the machine, and the block is retaken.
//!
//! What is retaken follows from the sentinels alone, never from the figure that decides, and from how runs
//! of one side differ, never from how the sides do: it cannot be used to repeat what did not come out well.

use crate::event::{Sample, Side, RUNS_PER_BLOCK};
use crate::spec::{Scale, Spec};
use std::collections::BTreeMap;

/// A block is taken so many times at most. If it was disturbed each time, the last one counts.
pub const TAKES_MAX: u32 = 4;

/// The block of the plan that a block stands for: the number is that of the plan, and so many blocks more for
/// each time that it is retaken.
#[must_use]
pub fn slot(spec: &Spec, block: u32) -> u32 {
    block % spec.measure.quads.max(1)
}

/// The takes of all blocks, to be looked up.
pub(crate) struct Takes<'a> {
    spec: &'a Spec,
    blocks: BTreeMap<(&'a str, u32), Vec<&'a Sample>>,
}

impl<'a> Takes<'a> {
    /// Sorts samples of one purpose.
    #[must_use]
    pub(crate) fn new(spec: &'a Spec, samples: &'a [Sample]) -> Self {
        let mut blocks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for sample in samples {
            blocks.entry((sample.scale.as_str(), sample.quad)).or_default().push(sample);
        }
        Self { spec, blocks }
    }

    /// The number under which a block of the plan is to be retaken, or under which that has been begun.
    /// `None` when a take of it was not disturbed, there were [`TAKES_MAX`], or it was not taken yet.
    #[must_use]
    pub(crate) fn next(&self, scale: &'a str, block: u32) -> Option<u32> {
        let take = self.numbers(block).find(|take| !self.is_whole(scale, *take))?;
        let before = take.checked_sub(self.step()).filter(|_| take != block)?;
        self.is_disturbed(scale, before).then_some(take)
    }

    /// The take of a block that counts: the first that was not disturbed, or else the last one that is whole.
    fn counting(&self, scale: &'a str, block: u32) -> Option<u32> {
        let whole: Vec<u32> = self.numbers(block).take_while(|take| self.is_whole(scale, *take)).collect();
        whole.iter().find(|take| !self.is_disturbed(scale, **take)).or(whole.last()).copied()
    }

    /// Whether a block of the plan is there, and is not to be retaken any more.
    #[must_use]
    pub(crate) fn is_settled(&self, scale: &'a str, block: u32) -> bool {
        self.counting(scale, block).is_some() && self.next(scale, block).is_none()
    }

    fn runs(&self, scale: &'a str, block: u32) -> &[&'a Sample] {
        self.blocks.get(&(scale, block)).map_or(&[], Vec::as_slice)
    }

    fn is_disturbed(&self, scale: &'a str, block: u32) -> bool {
        disturbing_sentinel(self.spec, self.runs(scale, block)).is_some()
    }

    fn is_whole(&self, scale: &'a str, block: u32) -> bool {
        let runs = self.runs(scale, block);
        let has = |place| runs.iter().any(|sample| sample.place == place && sample.has_figures());
        (0..RUNS_PER_BLOCK).all(has)
    }

    fn step(&self) -> u32 {
        self.spec.measure.quads.max(1)
    }

    /// The numbers under which a block of the plan may be taken.
    fn numbers(&self, block: u32) -> impl Iterator<Item = u32> {
        let step = self.step();
        (0..TAKES_MAX).map(move |take| block + take * step)
    }
}

/// How many blocks of the plan, from the first on, are there at each of these scales and not to be retaken any more.
#[must_use]
pub(crate) fn settled(spec: &Spec, scales: &[Scale], samples: &[Sample]) -> u32 {
    let takes = Takes::new(spec, samples);
    let blocks = 0..spec.measure.quads;
    blocks.take_while(|block| scales.iter().all(|scale| takes.is_settled(&scale.name, *block))).count() as u32
}

/// The samples that count, under the numbers of the plan.
#[must_use]
pub fn counted(spec: &Spec, samples: &[Sample]) -> Vec<Sample> {
    let takes = Takes::new(spec, samples);
    let counts = |sample: &&Sample| {
        let block = slot(spec, sample.quad);
        // A block that is not whole is left out later on, with its reason.
        takes.counting(&sample.scale, block).map_or(sample.quad == block, |take| take == sample.quad)
    };
    let renumbered = |sample: &Sample| Sample { quad: slot(spec, sample.quad), ..sample.clone() };
    samples.iter().filter(counts).map(renumbered).collect()
}

/// Whether two runs, one of each side, differ in a sentinel by more than its tolerance.
pub(crate) fn is_apart(spec: &Spec, one: &Sample, other: &Sample) -> bool {
    let figure = |sample: &Sample, metric: &str| sample.metrics.get(metric).copied();
    spec.sentinels.iter().any(|sentinel| {
        match (figure(one, &sentinel.metric), figure(other, &sentinel.metric)) {
            (Some(one), Some(other)) => {
                (one - other).abs() > one.min(other).abs() * sentinel.tolerance_percent / 100.0
            }
            _ => false,
        }
    })
}

/// Which sentinel shows that a block was disturbed, and by how much it differs between two runs of one side: a
/// share.
#[must_use]
pub fn disturbing_sentinel<'s>(spec: &'s Spec, runs: &[&Sample]) -> Option<(&'s str, f64)> {
    let both = [Side::Base, Side::Candidate];
    spec.sentinels.iter().find_map(|sentinel| {
        both.iter().find_map(|side| {
            let of_side = runs.iter().filter(|sample| sample.side == *side);
            let figures: Vec<f64> =
                of_side.filter_map(|sample| sample.metrics.get(&sentinel.metric).copied()).collect();
            let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
            let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let apart = most - least;
            let is_apart = apart > least.abs() * sentinel.tolerance_percent / 100.0;
            is_apart.then(|| (sentinel.metric.as_str(), apart / least.abs()))
        })
    })
}
