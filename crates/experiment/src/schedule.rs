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
    let mut rng = entropy::rng(seed_of(seed, purpose));
    let blocks = spec.measure.quads;
    let starts: Vec<Vec<Side>> = scales.iter().map(|_| drawn_starts(blocks, &mut rng)).collect();
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

fn other(side: Side) -> Side {
    match side {
        Side::Base => Side::Candidate,
        Side::Candidate => Side::Base,
    }
}
