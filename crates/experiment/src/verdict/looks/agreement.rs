//! What is held out must agree: a change that knows the sizes it is measured at gains nothing at another one.

use super::super::effects::{names, Row};
use super::super::spread::{mean, Variance};
use super::super::words;
use super::seen::See;
use super::{Known, View};
use crate::event::Sample;
use crate::spec::{Scale, Spec};

/// The confidence with which a scale agrees, or does not, before all blocks are there.
const EARLY: f64 = 0.99;
/// The same when they are.
const LAST: f64 = 0.95;

/// Where held-out scales do not agree.
#[derive(Default)]
pub(super) struct Disagreement {
    /// With certainty.
    pub(super) beyond_doubt: Option<String>,
    /// Where the samples do not tell.
    pub(super) undecided: Option<Undecided>,
}

/// A scale of which it is not shown that it agrees.
pub(super) struct Undecided {
    pub(super) reason: String,
    /// Whether the estimate is less than the share that it must have.
    pub(super) is_below: bool,
}

/// Judges the contrast of each block: the effect at the held-out scale less its share of the effect at the others.
pub(super) fn disagreeing(
    spec: &Spec,
    view: &View,
    known: &Known,
    scales: &[Scale],
    samples: &[Sample],
    is_last: bool,
) -> Disagreement {
    let confidence = if is_last { LAST } else { EARLY };
    let share = spec.primary.held_out_share;
    let mut found = Disagreement::default();
    if share <= 0.0 {
        return found;
    }
    let Some(primary) = &view.primary else { return found };
    let deciding: Vec<Scale> = scales.iter().filter(|scale| !scale.held_out).cloned().collect();
    let deciding = names(&deciding);
    let (metric, direction) = (spec.primary.metric.as_str(), spec.primary.direction);
    let see = See { known: &known.samples, samples, deciding: &deciding };
    let visible = Row::new(samples, metric, direction, &deciding);
    let visible_spread = see.spread(metric, direction, &deciding);
    for held_out in &view.held_out {
        let Some(name) = held_out.compared.scale.as_deref() else { continue };
        let row = Row::new(samples, metric, direction, &[name]);
        let contrast = contrast(&row, &visible, share);
        let spread = see.spread(metric, direction, &[name]);
        let spread = spread.zip(visible_spread).map(|(one, other)| one.plus(other, share * share));
        let words = |verb| words::disagreeing(&held_out.compared, &primary.compared, share, verb);
        let centre = mean(&contrast.values);
        let estimate = Variance::new(spread.as_ref(), &contrast)
            .and_then(|variance| variance.of_mean(centre, f64::from(contrast.count())));
        let Some(estimate) = estimate else {
            found.undecided = Some(Undecided { reason: words("may be"), is_below: centre > 0.0 });
            continue;
        };
        if estimate.interval(confidence).low > 0.0 {
            found.beyond_doubt = Some(words("is"));
            return found;
        }
        if estimate.interval(confidence).high > 0.0 && !found.undecided.as_ref().is_some_and(|it| it.is_below)
        {
            found.undecided = Some(Undecided { reason: words("may be"), is_below: centre > 0.0 });
        }
    }
    found
}

fn contrast(held_out: &Row, visible: &Row, share: f64) -> Row {
    let both = held_out.values.iter().zip(&visible.values);
    let within = held_out.within.iter().zip(&visible.within);
    Row {
        values: both.map(|(one, other)| one - share * other).collect(),
        within: within.map(|(one, other)| one + share * share * other).collect(),
        scales: 1,
        ..*held_out
    }
}
