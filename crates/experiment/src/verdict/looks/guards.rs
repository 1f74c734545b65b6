//! Nothing else worse: beyond doubt worse ends a try, and to be kept it must be shown that nothing is.

use super::super::words;
use super::{Seen, View};
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

/// Of what it is not shown that it got worse by no more than its limit: the upper end of the interval lies above it.
pub(super) fn unshown(spec: &Spec, view: &View, most: u32) -> Option<String> {
    let sentinels = spec.sentinels.iter().map(|it| (it.metric.as_str(), it.tolerance_percent));
    let others = spec.secondaries.iter().map(|it| (it.metric.as_str(), it.max_regression_percent));
    let guards =
        others.chain(sentinels).flat_map(|(metric, limit)| of(view, metric).map(move |seen| (seen, limit)));
    let scales = view.scales.iter().chain(&view.held_out);
    let scales = scales.map(|seen| (seen, spec.primary.max_regression_percent));
    let mut all = guards.chain(scales);
    let (seen, limit) = all.find(|(seen, limit)| seen.compared.effect.high > limit / 100.0)?;
    Some(words::unshown(&seen.compared, limit, needed(seen, limit / 100.0), most))
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
