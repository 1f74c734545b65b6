//! Quads in which the machine changed its pace, as the sentinels show.
//!
//! A neighbour on the same core can make everything take twice as long for some seconds. Where that begins or
//! ends within a quad, it counts as an effect, ten times that of a change that is worth keeping. A sentinel is
//! work that no change touches, done in the same run: if two runs of the **same** commit in one quad differ in
//! it by more than its tolerance, then it was the machine, and the quad is taken again.
//!
//! What is taken again follows from the sentinels alone, never from the figure that decides, and from how runs
//! of one side differ, never from how the sides do: it cannot be used to repeat what did not come out well.

use crate::event::{Sample, Side};
use crate::schedule::PLACES;
use crate::spec::Spec;
use std::collections::BTreeMap;

/// A quad is taken so many times at most. If it was disturbed each time, the last one counts.
pub const TAKES_MAX: u32 = 4;

/// The quad of the plan that a quad stands for: the number is that of the plan, and so many quads more for
/// each time that it is taken again.
#[must_use]
pub fn slot(spec: &Spec, quad: u32) -> u32 {
    quad % spec.measure.quads.max(1)
}

/// The takes of all quads, to be looked up.
pub struct Takes<'a> {
    spec: &'a Spec,
    quads: BTreeMap<(&'a str, u32), Vec<&'a Sample>>,
}

impl<'a> Takes<'a> {
    /// Sorts samples of one purpose.
    #[must_use]
    pub fn of(spec: &'a Spec, samples: &'a [Sample]) -> Self {
        let mut quads: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for sample in samples {
            quads.entry((sample.scale.as_str(), sample.quad)).or_default().push(sample);
        }
        Self { spec, quads }
    }

    /// The number under which a quad of the plan is to be taken again, or under which that has been begun.
    /// `None` when a take of it was not disturbed, there were [`TAKES_MAX`], or it was not taken yet.
    #[must_use]
    pub fn next(&self, scale: &'a str, quad: u32) -> Option<u32> {
        let take = self.numbers(quad).find(|take| !self.is_whole(scale, *take))?;
        let before = take.checked_sub(self.step()).filter(|_| take != quad)?;
        self.is_disturbed(scale, before).then_some(take)
    }

    /// The take of a quad that counts: the first that was not disturbed, or else the last one that is whole.
    fn counting(&self, scale: &'a str, quad: u32) -> Option<u32> {
        let whole: Vec<u32> = self.numbers(quad).take_while(|take| self.is_whole(scale, *take)).collect();
        whole.iter().find(|take| !self.is_disturbed(scale, **take)).or(whole.last()).copied()
    }

    fn runs(&self, scale: &'a str, quad: u32) -> &[&'a Sample] {
        self.quads.get(&(scale, quad)).map_or(&[], Vec::as_slice)
    }

    fn is_disturbed(&self, scale: &'a str, quad: u32) -> bool {
        shown(self.spec, self.runs(scale, quad)).is_some()
    }

    fn is_whole(&self, scale: &'a str, quad: u32) -> bool {
        let runs = self.runs(scale, quad);
        let has = |place| runs.iter().any(|sample| sample.place == place && sample.has_figures());
        (0..PLACES).all(has)
    }

    fn step(&self) -> u32 {
        self.spec.measure.quads.max(1)
    }

    /// The numbers under which a quad of the plan may be taken.
    fn numbers(&self, quad: u32) -> impl Iterator<Item = u32> {
        let step = self.step();
        (0..TAKES_MAX).map(move |take| quad + take * step)
    }
}

/// The samples that count, under the numbers of the plan.
#[must_use]
pub fn counted(spec: &Spec, samples: &[Sample]) -> Vec<Sample> {
    let takes = Takes::of(spec, samples);
    let counts = |sample: &&Sample| {
        let quad = slot(spec, sample.quad);
        // A quad that is not whole is left out later on, with its reason.
        takes.counting(&sample.scale, quad).map_or(sample.quad == quad, |take| take == sample.quad)
    };
    let renumbered = |sample: &Sample| Sample { quad: slot(spec, sample.quad), ..sample.clone() };
    samples.iter().filter(counts).map(renumbered).collect()
}

/// Which sentinel shows that a quad was disturbed, and by how much it differs between two runs of one side: a
/// share.
#[must_use]
pub fn shown<'s>(spec: &'s Spec, runs: &[&Sample]) -> Option<(&'s str, f64)> {
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
