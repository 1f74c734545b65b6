//! What is run when: ABBA blocks (ABBA or BAAB, base and candidate), drawn from the segment's seed.
//!
//! A plan is a pure function of the seed and of what it is for. Whoever was killed plans again, gets the
//! same, and goes on with what has no sample yet ([`remaining`]).
//!
//! Within a block the sides' mean places are equal, so that a machine that gets slower at a steady pace adds
//! to both the same. What is left (a pace that changes, a first run that is always slow) falls on the base as
//! often as on the candidate: of the blocks of a scale, half begin with the base, in an order that is drawn.
//! The scales take turns block by block, in an order that is drawn too, so that an hour of noise does not hit
//! one scale alone.
//!
//! A block in which the machine was [disturbed](crate::disturbance) is retaken behind all others.

use crate::disturbance::Takes;
use crate::event::{Purpose, Sample, Side, RUNS_PER_BLOCK};
use crate::spec::{Scale, Spec};
use duramen_base::entropy;
use std::collections::BTreeSet;

/// The runs of a pair: one of each side.
const RUNS_PER_PAIR: u32 = 2;

/// A run that is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    /// The name of the scale.
    pub scale: String,
    /// What `{scale}` stands for.
    pub value: String,
    /// The block, from 0; one that is retaken has a number of its own: see [`slot`](crate::disturbance::slot).
    pub quad: u32,
    /// The place within the block, from 0 to 3.
    pub place: u32,
    /// Which side is run.
    pub side: Side,
}

/// All runs of a purpose in the order in which they are to be done: `spec.measure.quads` blocks at each of
/// `scales`.
///
/// The scales are the deciding ones for a try and for the noise floor, and all of them for a confirmation and
/// a replay.
#[must_use]
pub fn plan(spec: &Spec, seed: u64, purpose: Purpose, scales: &[Scale]) -> Vec<Run> {
    drawn(spec.measure.quads, seed, purpose, scales, drawn_starts)
}

/// The same for a segment whose tries are looked at after each block, so that any number of blocks may be all: of every two
/// of a scale, one begins with the base. The noise floor has blocks of its own number.
#[must_use]
pub fn plan_of_looks(spec: &Spec, seed: u64, purpose: Purpose, scales: &[Scale]) -> Vec<Run> {
    let blocks = match purpose {
        Purpose::Noise(_) => spec.measure.noise_quads(),
        _ => spec.measure.quads,
    };
    drawn(blocks, seed, purpose, scales, starts_by_two)
}

fn drawn(
    blocks: u32,
    seed: u64,
    purpose: Purpose,
    scales: &[Scale],
    draw: fn(u32, &mut fastrand::Rng) -> Vec<Side>,
) -> Vec<Run> {
    let mut rng = entropy::rng(seed_of(seed, purpose));
    let starts: Vec<Vec<Side>> = scales.iter().map(|_| draw(blocks, &mut rng)).collect();
    let mut order: Vec<usize> = (0..scales.len()).collect();
    let mut runs = Vec::with_capacity(scales.len() * blocks as usize * RUNS_PER_BLOCK as usize);
    for block in 0..blocks {
        rng.shuffle(&mut order);
        for &index in &order {
            let Scale { name, value, .. } = &scales[index];
            let first = starts[index][block as usize];
            for (place, side) in (0..RUNS_PER_BLOCK).zip([first, other(first), other(first), first]) {
                runs.push(Run { scale: name.clone(), value: value.clone(), quad: block, place, side });
            }
        }
    }
    runs
}

/// What of a plan has no sample yet, in the order of the plan; where nothing is left of it, what of its blocks
/// is to be retaken. All samples must be of the plan's purpose.
#[must_use]
pub fn remaining(spec: &Spec, plan: &[Run], samples: &[Sample]) -> Vec<Run> {
    let taken: BTreeSet<(&str, u32, u32)> =
        samples.iter().map(|sample| (sample.scale.as_str(), sample.quad, sample.place)).collect();
    let is_missing = |run: &Run| !taken.contains(&(run.scale.as_str(), run.quad, run.place));
    let missing: Vec<Run> = plan.iter().filter(|run| is_missing(run)).cloned().collect();
    if !missing.is_empty() {
        return missing;
    }
    let takes = Takes::new(spec, samples);
    let retake = |run: &Run| {
        let block = takes.next(&run.scale, run.quad)?;
        Some(Run { quad: block, ..run.clone() }).filter(is_missing)
    };
    plan.iter().filter_map(retake).collect()
}

/// What comes next of a plan that may end after each block, up to the next look: a block at all scales, then what of it is
/// to be retaken; where `by_pairs`, of the first block a pair first. Empty when all blocks are there. All samples must be of
/// the plan's purpose.
#[must_use]
pub fn next(spec: &Spec, plan: &[Run], samples: &[Sample], by_pairs: bool) -> Vec<Run> {
    let blocks = plan.iter().map(|run| run.quad).max().map_or(0, |last| last + 1);
    let of = |block: u32| plan.iter().filter(move |run| run.quad == block).cloned().collect::<Vec<Run>>();
    let next = (0..blocks).map(|block| remaining(spec, &of(block), samples)).find(|next| !next.is_empty());
    let mut next = next.unwrap_or_default();
    if by_pairs && next.iter().any(|run| run.quad == 0 && run.place < RUNS_PER_PAIR) {
        next.retain(|run| run.place < RUNS_PER_PAIR);
    }
    next
}

/// The seed of what is drawn for one purpose of a segment with this seed.
#[must_use]
pub fn seed_of(segment: u64, purpose: Purpose) -> u64 {
    let (kind, number) = match purpose {
        Purpose::Noise(number) => (1_u64, number),
        Purpose::Try(number) => (2, number),
        Purpose::Confirm(number) => (3, number),
        Purpose::Replay(number) => (4, number),
        Purpose::Ablate(number) => (5, number),
    };
    let mut hash = blake3::Hasher::new();
    for part in [segment, kind, u64::from(number)] {
        hash.update(&part.to_le_bytes());
    }
    let mut first = [0; 8];
    hash.finalize_xof().fill(&mut first);
    u64::from_le_bytes(first)
}

/// Which side each block begins with: each as often as the other, the odd one drawn.
fn drawn_starts(blocks: u32, rng: &mut fastrand::Rng) -> Vec<Side> {
    let odd = u32::from(rng.bool());
    let mut starts: Vec<Side> =
        (0..blocks).map(|block| if (block + odd) % 2 == 0 { Side::Base } else { Side::Candidate }).collect();
    rng.shuffle(&mut starts);
    starts
}

/// The same for any number of the first blocks: of every two, each side begins one.
fn starts_by_two(blocks: u32, rng: &mut fastrand::Rng) -> Vec<Side> {
    let two = |_| {
        let first = if rng.bool() { Side::Base } else { Side::Candidate };
        [first, other(first)]
    };
    let starts: Vec<Side> = (0..blocks.div_ceil(2)).flat_map(two).collect();
    starts.into_iter().take(blocks as usize).collect()
}

fn other(side: Side) -> Side {
    match side {
        Side::Base => Side::Candidate,
        Side::Candidate => Side::Base,
    }
}
