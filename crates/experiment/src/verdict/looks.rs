//! Judging after each block, so that what is clear ends early.
//!
//! A look is a function of the blocks that are there, and not to be retaken any more: whoever judges again from the log
//! takes the same looks and comes to the same end. The rules, and how often they err, are in
//! `docs/design/experiments.md`.

mod agreement;
mod futility;
mod guards;
mod pair;
mod seen;

use super::effects::names;
use super::{bad_samples, spending, unmeasured, words, Noise, ERROR_RATE};
use crate::disturbance;
use crate::event::{Extent, Judgement, Sample, Verdict};
use crate::spec::{Scale, Spec};
use seen::{See, Seen};

/// What is known before a try begins: how far runs of the same commit lie apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// The noise floor over all deciding scales, as a share.
    floor: f64,
    /// The samples of the A/A run that count.
    samples: Vec<Sample>,
}

impl Known {
    /// From a noise floor and the samples of the A/A run that it was found from.
    #[must_use]
    pub fn new(spec: &Spec, noise: &Noise, samples: &[Sample]) -> Self {
        Self { floor: noise.floor, samples: disturbance::counted(spec, samples) }
    }
}

/// What a look comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Look {
    /// More blocks are to be taken.
    More,
    /// It is clear, or all blocks are there.
    Ended(Box<Judgement>),
}

impl Look {
    /// The judgement, if it came to one.
    #[must_use]
    pub fn ended(self) -> Option<Judgement> {
        match self {
            Look::More => None,
            Look::Ended(judgement) => Some(*judgement),
        }
    }
}

/// What is to become of a try, from its samples at the deciding scales so far. [`Verdict::Keep`] is provisional until
/// [`confirm`]ed.
#[must_use]
pub fn judge(spec: &Spec, known: &Known, samples: &[Sample]) -> Look {
    let rule = Rule { alpha: super::alpha(spec), floor: known.floor, is_confirmation: false };
    walk(spec, known, samples, &rule)
}

/// What is to become of a try that was to be kept, from new samples at all scales so far. What the held-out scales of
/// `spec` stand for must have been [drawn](Spec::with_values).
///
/// The effects are those of the new samples: the first were chosen for being good, and ended early for being very good.
#[must_use]
pub fn confirm(spec: &Spec, known: &Known, first: &Judgement, samples: &[Sample]) -> Look {
    if first.verdict != Verdict::Keep {
        return Look::Ended(Box::new(first.clone()));
    }
    let rule = Rule { alpha: ERROR_RATE, floor: 0.0, is_confirmation: true };
    let Look::Ended(mut second) = walk(spec, known, samples, &rule) else { return Look::More };
    super::of_confirmation(first, &mut second);
    Look::Ended(second)
}

/// What is asked of the samples.
struct Rule {
    /// Of all looks together.
    alpha: f64,
    floor: f64,
    is_confirmation: bool,
}

fn walk(spec: &Spec, known: &Known, samples: &[Sample], rule: &Rule) -> Look {
    let mut scales: Vec<Scale> = spec.deciding().collect();
    if rule.is_confirmation {
        scales.extend(spec.held_out());
    }
    let settled = disturbance::settled(spec, &scales, samples);
    let counted = disturbance::counted(spec, samples);
    let at = |blocks: u32| -> Vec<Sample> {
        counted.iter().filter(|sample| sample.quad < blocks).cloned().collect()
    };
    let ended = |judgement: Judgement| Look::Ended(Box::new(judgement));
    if let Some((verdict, reason)) = bad_samples(spec, samples, &known.samples, &scales) {
        let all = Blocks { spec, known, scales: &scales, samples: at(settled), count: settled };
        return ended(Judgement { verdict, reason, ..all.judgement(rule, &all.see()) });
    }
    if !rule.is_confirmation {
        if let Some(judgement) = pair::look(spec, known, rule, &scales, samples) {
            return ended(judgement);
        }
    }
    for count in 1..=settled {
        let blocks = Blocks { spec, known, scales: &scales, samples: at(count), count };
        if let Some(judgement) = blocks.look(rule) {
            return ended(judgement);
        }
    }
    Look::More
}

/// The first blocks of a try.
struct Blocks<'a> {
    spec: &'a Spec,
    known: &'a Known,
    /// All that are run.
    scales: &'a [Scale],
    samples: Vec<Sample>,
    count: u32,
}

/// All that a look sees.
struct View {
    primary: Option<Seen>,
    /// The primary figure at each deciding scale.
    scales: Vec<Seen>,
    /// The primary figure at each held-out scale.
    held_out: Vec<Seen>,
    /// Secondaries and sentinels.
    guards: Vec<Seen>,
}

impl Blocks<'_> {
    fn see(&self) -> View {
        let (held_out, deciding): (Vec<Scale>, Vec<Scale>) =
            self.scales.iter().cloned().partition(|it| it.held_out);
        let (all, held_out, deciding) = (names(self.scales), names(&held_out), names(&deciding));
        let see = See { known: &self.known.samples, samples: &self.samples, deciding: &deciding };
        let (metric, direction) = (self.spec.primary.metric.as_str(), self.spec.primary.direction);
        let guards = self.spec.secondaries.iter().map(|it| (it.metric.as_str(), it.direction));
        let guards = guards.chain(self.spec.sentinels.iter().map(|it| (it.metric.as_str(), it.direction)));
        let guards = guards.flat_map(|(metric, direction)| {
            let single = if all.len() > 1 { see.at_each(metric, direction, &all) } else { Vec::new() };
            see.over(metric, direction, &deciding).into_iter().chain(single)
        });
        View {
            primary: see.over(metric, direction, &deciding),
            scales: see.at_each(metric, direction, &deciding),
            held_out: see.at_each(metric, direction, &held_out),
            guards: guards.collect(),
        }
    }

    /// A judgement without a verdict yet.
    fn judgement(&self, rule: &Rule, view: &View) -> Judgement {
        let mut judgement = unmeasured(self.spec, Verdict::Inconclusive, "");
        let effect = |seen: &Seen| seen.compared.effect;
        judgement.alpha = self.level(rule, view.primary.as_ref());
        judgement.effect = view.primary.as_ref().map(effect);
        let scales = view.scales.iter().chain(&view.held_out);
        judgement.scales =
            scales.filter_map(|seen| Some((seen.compared.scale.clone()?, effect(seen)))).collect();
        let pooled = view.guards.iter().filter(|seen| seen.compared.scale.is_none());
        judgement.others = pooled.map(|seen| (seen.compared.metric.clone(), effect(seen))).collect();
        judgement.extent = Some(Extent { quads: self.count, of: self.most(), detectable: None });
        judgement
    }

    fn most(&self) -> u32 {
        self.spec.measure.quads
    }

    fn is_last(&self) -> bool {
        self.count >= self.most()
    }

    /// What the p-value is held against. Figures that never vary come in any order with the same probability: their
    /// p-value is that of all orders of all blocks so far, and only the first look at which that is low enough can err.
    fn level(&self, rule: &Rule, primary: Option<&Seen>) -> f64 {
        match primary {
            Some(seen) if seen.variance.is_nothing() => rule.alpha,
            _ => rule.alpha * spending::share(self.count, self.most()),
        }
    }

    fn look(&self, rule: &Rule) -> Option<Judgement> {
        let view = self.see();
        let mut judgement = self.judgement(rule, &view);
        let (verdict, reason) = match &view.primary {
            Some(primary) => self.decide(rule, primary, &view, &mut judgement)?,
            None if self.is_last() => (Verdict::Inconclusive, words::too_few(self.count, self.most())),
            None => return None,
        };
        judgement.verdict = verdict;
        judgement.reason = reason;
        Some(judgement)
    }

    fn decide(
        &self,
        rule: &Rule,
        primary: &Seen,
        view: &View,
        judgement: &mut Judgement,
    ) -> Option<(Verdict, String)> {
        let spec = self.spec;
        let extent = words::extent(self.count, self.most());
        if let Some((verdict, reason)) = guards::harm(spec, view, self.is_last()) {
            return Some((verdict, format!("{reason}, {extent}")));
        }
        let disagrees =
            agreement::disagreeing(spec, view, self.known, self.scales, &self.samples, self.is_last());
        if let Some(reason) = disagrees.beyond_doubt {
            return Some((Verdict::Suspicious, format!("{reason}, {extent}")));
        }
        let least = spec.primary.min_effect_percent / 100.0;
        let effect = &primary.compared.effect;
        let level = judgement.alpha;
        let summary = words::seen(&primary.compared, level, self.count, self.most());
        let is_better = self.count >= spending::FEWEST.min(self.most())
            && effect.p_value <= level
            && effect.share < 0.0
            && -effect.share >= least;
        let agree = view.scales.len() >= 2 && view.scales.iter().all(|it| it.compared.effect.share < 0.0);
        let floor = words::percent(rule.floor);
        if is_better && (-effect.share > rule.floor || agree) {
            let unshown = guards::unshown(spec, view, self.count);
            let summary = if -effect.share > rule.floor {
                summary
            } else {
                format!(
                    "{summary}; below the noise floor of {floor}, but all {} scales agree",
                    view.scales.len()
                )
            };
            return match (unshown, disagrees.undecided) {
                (None, None) => Some((Verdict::Keep, summary)),
                (unshown, _) if !self.is_last() && !unshown.as_ref().is_some_and(|it| it.is_hopeless) => None,
                (Some(it), _) => Some((Verdict::Inconclusive, format!("{summary}; but {}", it.reason))),
                (None, Some(undecided)) => {
                    let verdict =
                        if undecided.is_below { Verdict::Suspicious } else { Verdict::Inconclusive };
                    Some((verdict, format!("{summary}; but {}", undecided.reason)))
                }
            };
        }
        let (stop, detectable) = futility::look(spec, rule, primary, self.count);
        let told = |text: String| format!("{summary}: {text}; {}", words::detectable(detectable));
        let decided = if effect.low >= -least {
            Some((Verdict::Discard, told(format!("no gain of {} or more", words::percent(least)))))
        } else if self.is_last() {
            let text = if is_better {
                format!("{summary}, but below the noise floor of {floor}, and not all of at least two scales agree")
            } else {
                told("the samples do not tell".to_owned())
            };
            Some((Verdict::Inconclusive, text))
        } else {
            stop.filter(|_| !is_better).map(|(verdict, text)| (verdict, told(text)))
        };
        if decided.is_some() {
            judgement.extent = judgement.extent.map(|it| Extent { detectable: Some(detectable), ..it });
        }
        decided
    }
}
