//! How the kept tries add up.

use crate::{
    event::{Effect, Verdict},
    state::Segment,
};

/// A ratio to the start with its interval of 95 %; less than one is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    pub(super) estimate: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Ratio {
    const ONE: Ratio = Ratio { estimate: 1.0, low: 1.0, high: 1.0 };

    pub(super) fn new(effect: &Effect) -> Ratio {
        Ratio { estimate: 1.0 + effect.share, low: 1.0 + effect.low, high: 1.0 + effect.high }
    }

    /// The product of the effects of tries that were measured one by one. Their errors are independent, so that on the
    /// logarithmic scale the squares of the half widths add up.
    fn product<'a>(effects: impl Iterator<Item = &'a Effect>) -> Ratio {
        let mut sum = 0.0;
        let (mut below, mut above) = (0.0, 0.0);
        for ratio in effects.map(Ratio::new) {
            if ratio.low > 0.0 && ratio.high.is_finite() {
                sum += ratio.estimate.ln();
                below += (ratio.estimate / ratio.low).ln().powi(2);
                above += (ratio.high / ratio.estimate).ln().powi(2);
            }
        }
        let at = |offset: f64| (sum + offset).exp();
        Ratio { estimate: at(0.0), low: at(-f64::sqrt(below)), high: at(f64::sqrt(above)) }
    }
}

/// The kept stack as it is now.
pub(super) fn now(segment: &Segment) -> Ratio {
    let is_in = |number: u32| segment.keeps.iter().any(|kept| kept.number == number);
    let kept = segment.tries.iter().filter(|known| is_in(known.number));
    Ratio::product(kept.filter_map(|known| known.effect()))
}

/// The stack after each of the first tries, from none on; what was taken out by hand later counts as never kept.
pub(super) fn over_tries(segment: &Segment) -> Vec<(usize, Ratio)> {
    let mut points = vec![(0, Ratio::ONE)];
    let mut effects: Vec<&Effect> = Vec::new();
    for (index, known) in segment.tries.iter().filter(|known| !known.is_open()).enumerate() {
        if known.verdict() == Some(Verdict::Keep) {
            effects.extend(known.effect());
        }
        points.push((index + 1, Ratio::product(effects.iter().copied())));
    }
    points
}
