//! Nothing else worse: beyond doubt worse ends a try, and to be kept it must be shown that nothing is.

use super::super::words;
use super::{futility, Seen, View};
use crate::event::Verdict;
use crate::spec::Spec;

/// The confidence of what ends a try before all blocks are there.
const EARLY: f64 = 0.99;
/// The same when they are.
const LAST: f64 = 0.95;
/// The probability that lies beyond an interval.
const BEYOND: f64 = 0.05;

/// What is worse beyond doubt, or moved for the better although nothing should move it.
pub(super) fn harm(spec: &Spec, view: &View, is_last: bool) -> Option<(Verdict, String)> {
    let confidence = if is_last { LAST } else { EARLY };
    for sentinel in &spec.sentinels {
        let limit = sentinel.tolerance_percent / 100.0;
        for seen in of(view, &sentinel.metric) {
            let (low, high) = seen.interval(confidence);
            let words = || words::sentinel(&seen.compared, sentinel.tolerance_percent);
            if high < -limit {
                return Some((Verdict::Invalid, words()));
            }
            if low > limit {
                return Some((Verdict::Discard, words()));
            }
        }
    }
    let is_worse = |seen: &&Seen, percent: f64| seen.interval(confidence).0 > percent / 100.0;
    for secondary in &spec.secondaries {
        let limit = secondary.max_regression_percent;
        if let Some(seen) = of(view, &secondary.metric).find(|seen| is_worse(seen, limit)) {
            return Some((Verdict::Discard, words::worse(&seen.compared, limit)));
        }
    }
    let limit = spec.primary.max_regression_percent;
    let mut scales = view.scales.iter().chain(&view.held_out);
    let worse = scales.find(|seen| is_worse(seen, limit));
    worse.map(|seen| (Verdict::Discard, words::worse(&seen.compared, limit)))
}

/// What it is not shown of that it got worse by no more than its limit: the upper end of the interval lies above it.
pub(super) struct Unshown {
    pub(super) reason: String,
    /// More blocks would hardly show it.
    pub(super) is_hopeless: bool,
}

/// What is not shown: what is hopeless, if anything is, or else the first.
pub(super) fn unshown(spec: &Spec, view: &View, blocks: u32) -> Option<Unshown> {
    let unshown = |(seen, percent): (&Seen, f64)| {
        let limit = percent / 100.0;
        (seen.compared.effect.high > limit).then(|| {
            let is_hopeless = futility::is_hopeless(spec, seen, limit, blocks);
            let reason = words::unshown(&seen.compared, percent, needed(seen, limit), spec.measure.quads);
            Unshown { reason, is_hopeless }
        })
    };
    let mut all: Vec<Unshown> = limited(spec, view).filter_map(unshown).collect();
    let first = all.iter().position(|it| it.is_hopeless).unwrap_or(0);
    (first < all.len()).then(|| all.swap_remove(first))
}

/// Each figure that has a limit, with the limit in percent.
fn limited<'v>(spec: &'v Spec, view: &'v View) -> impl Iterator<Item = (&'v Seen, f64)> {
    let sentinels = spec.sentinels.iter().map(|it| (it.metric.as_str(), it.tolerance_percent));
    let others = spec.secondaries.iter().map(|it| (it.metric.as_str(), it.max_regression_percent));
    let guards =
        others.chain(sentinels).flat_map(|(metric, limit)| of(view, metric).map(move |seen| (seen, limit)));
    let scales = view.scales.iter().chain(&view.held_out);
    let scales = scales.map(|seen| (seen, spec.primary.max_regression_percent));
    guards.chain(scales)
}

/// With how many blocks it would be shown, if the figure stays as it is.
fn needed(seen: &Seen, limit: f64) -> Option<f64> {
    let room = seen.value(limit) - seen.centre;
    let blocks = (seen.variance.quantile(BEYOND) * seen.variance.deviation() / room).powi(2).ceil();
    (room > 0.0 && blocks.is_finite()).then_some(blocks)
}

fn of<'v>(view: &'v View, metric: &'v str) -> impl Iterator<Item = &'v Seen> {
    view.guards.iter().filter(move |seen| seen.compared.metric == metric)
}
