//! What the samples say of a try: a pure function of them, the spec and the noise floor.
//!
//! Nothing is drawn by chance here, so that judging again from the log gives the same to the last bit.
//!
//! The functions here judge once, when all blocks are there: a noise floor, a replay, an ablation, and the tries of segments
//! of logs from before there were [`looks`].
//!
//! Every function takes the samples of **one** purpose, in the order of the log, and looks at those of scales
//! that it knows. What a sample adds up to is in `blocks.rs`; the order of the rules is that of
//! `docs/design/experiments.md`.

mod blocks;
mod effects;
pub mod looks;
mod outputs;
mod own_time;
mod rows;
mod spending;
mod spread;
mod words;

use crate::disturbance;
use crate::event::{Effect, Judgement, Sample, Side, Verdict};
use crate::figures::sane;
use crate::spec::{Direction, Scale, Spec};
use effects::{Compared, Effects};
use std::collections::BTreeMap;

/// The probability with which a whole segment may keep something although nothing helps.
pub(crate) const ERROR_RATE: f64 = 0.05;

/// The confidence of the intervals, and of what is "beyond doubt".
const CONFIDENCE: f64 = 0.95;

/// With so many blocks, every budget of tries that a spec may have can be met.
const BLOCKS_ENOUGH: u32 = 20;

/// Of an ablation whose samples say nothing.
const UNTOLD: &str = "the samples do not tell";

/// How far apart measurements of the same commit lie, as shares (0.02 for 2 %).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Noise {
    /// Over all deciding scales.
    pub floor: f64,
    /// At each deciding scale alone.
    pub scales: BTreeMap<String, f64>,
}

/// The error rate that each try of a segment is judged at.
#[must_use]
pub fn alpha(spec: &Spec) -> f64 {
    ERROR_RATE / f64::from(spec.budget.tries.max(1))
}

/// The fewest blocks with which a try can ever be kept, however alike its figures: see the tries of the budget.
#[must_use]
pub fn least_blocks(spec: &Spec) -> u32 {
    let is_enough = |blocks: &u32| effects::least_p_value(*blocks) <= alpha(spec);
    (1..BLOCKS_ENOUGH).find(is_enough).unwrap_or(BLOCKS_ENOUGH)
}

/// The noise floor, from an A/A run: the greatest effect that its interval of 95 % holds.
///
/// # Errors
/// A judgement that says why there is none: the command fails, prints no figure, or there are too few blocks.
pub fn noise(spec: &Spec, samples: &[Sample]) -> Result<Noise, Box<Judgement>> {
    let blocks = spec.measure.noise_quads();
    let found = weigh(
        spec,
        samples,
        &Rule { blocks, alpha: alpha(spec), floor: 0.0, held_out: false, guards: false },
    );
    let is_sound = !matches!(found.verdict, Verdict::Crash | Verdict::Invalid);
    match found.effect {
        Some(effect) if is_sound && effect.quads >= blocks => Ok(Noise {
            floor: reach(&effect),
            scales: found.scales.iter().map(|(name, effect)| (name.clone(), reach(effect))).collect(),
        }),
        _ => Err(Box::new(found)),
    }
}

/// What is to become of a try, from its samples at the deciding scales. [`Verdict::Keep`] is provisional
/// until [`confirm`]ed.
#[must_use]
pub fn judge(spec: &Spec, noise: &Noise, samples: &[Sample]) -> Judgement {
    weigh(
        spec,
        samples,
        &Rule {
            blocks: spec.measure.quads,
            alpha: alpha(spec),
            floor: noise.floor,
            held_out: false,
            guards: true,
        },
    )
}

/// What is to become of a try that was to be kept, from new samples at all scales, held-out ones included.
///
/// The effects are those of the new samples: the first were chosen for being good. A `first` that is not a keep
/// is returned as it is.
#[must_use]
pub fn confirm(spec: &Spec, first: &Judgement, samples: &[Sample]) -> Judgement {
    if first.verdict != Verdict::Keep {
        return first.clone();
    }
    let rule =
        Rule { blocks: spec.measure.quads, alpha: ERROR_RATE, floor: 0.0, held_out: true, guards: true };
    let mut second = weigh(spec, samples, &rule);
    of_confirmation(first, &mut second);
    second
}

/// Makes a judgement of new samples that of the try.
fn of_confirmation(first: &Judgement, second: &mut Judgement) {
    let agrees = second.verdict == Verdict::Keep;
    second.confirmed = Some(agrees);
    second.alpha = first.alpha;
    second.reason = match second.verdict {
        Verdict::Crash | Verdict::Invalid => format!("when it was to be confirmed: {}", second.reason),
        Verdict::Keep => format!("{}; new samples agree: {}", first.reason, second.reason),
        _ => format!("{}; new samples do not confirm it: {}", first.reason, second.reason),
    };
}

/// How the kept stack (candidate) compares to the start (base), from samples at all scales: a single
/// comparison, so it is judged at 0.05.
#[must_use]
pub fn replay(spec: &Spec, samples: &[Sample]) -> Judgement {
    weigh(
        spec,
        samples,
        &Rule { blocks: spec.measure.quads, alpha: ERROR_RATE, floor: 0.0, held_out: true, guards: true },
    )
}

/// What leaving out one kept try does: base is the head, candidate the head without it. With it the words for
/// [`Ablated`](crate::event::Event::Ablated).
#[must_use]
pub fn ablation(spec: &Spec, samples: &[Sample]) -> (Judgement, &'static str) {
    let judgement = weigh(
        spec,
        samples,
        &Rule { blocks: spec.measure.quads, alpha: ERROR_RATE, floor: 0.0, held_out: false, guards: true },
    );
    let words = match judgement.effect {
        _ if judgement.verdict == Verdict::Crash => "cannot be left out",
        _ if judgement.verdict == Verdict::Invalid => UNTOLD,
        Some(effect) if effect.low > 0.0 => "it still helps",
        Some(effect) if effect.high < 0.0 => "does harm",
        Some(_) => "does not help any more",
        None => UNTOLD,
    };
    (judgement, words)
}

/// The verdict on what was not measured: out of scope, does not build, a check fails.
#[must_use]
pub(crate) fn unmeasured(spec: &Spec, verdict: Verdict, reason: impl Into<String>) -> Judgement {
    Judgement {
        verdict,
        reason: reason.into(),
        effect: None,
        scales: BTreeMap::new(),
        others: BTreeMap::new(),
        alpha: alpha(spec),
        confirmed: None,
        extent: None,
    }
}

/// The effect on any figure over all deciding scales that have it. `None` with fewer than two whole blocks.
#[must_use]
pub fn effect(spec: &Spec, metric: &str, direction: Direction, samples: &[Sample]) -> Option<Effect> {
    let deciding: Vec<Scale> = spec.deciding().collect();
    let counted = disturbance::counted(spec, samples);
    Some(effects::compare(&counted, metric, direction, &effects::names(&deciding))?.effect)
}

/// The farthest from zero that the interval goes.
fn reach(effect: &Effect) -> f64 {
    effect.low.abs().max(effect.high.abs())
}

/// What is asked of the samples.
struct Rule {
    /// How many blocks there must be.
    blocks: u32,
    alpha: f64,
    /// The noise floor, as a share.
    floor: f64,
    /// Whether held-out scales must be there and must not be worse.
    held_out: bool,
    /// Whether sentinels, secondaries and scales are held to their limits.
    guards: bool,
}

fn weigh(spec: &Spec, samples: &[Sample], rule: &Rule) -> Judgement {
    let mut judgement = unmeasured(spec, Verdict::Inconclusive, "");
    judgement.alpha = rule.alpha;
    let mut scales: Vec<Scale> = spec.deciding().collect();
    if rule.held_out {
        scales.extend(spec.held_out());
    }
    let ended = |mut judgement: Judgement, (verdict, reason): (Verdict, String)| {
        judgement.verdict = verdict;
        judgement.reason = reason;
        judgement
    };
    // What failed or is impossible counts in every take.
    let found = Effects::estimate(spec, &disturbance::counted(spec, samples), &scales);
    judgement.effect = found.primary.as_ref().map(|compared| compared.effect);
    judgement.scales = found.at_scales().collect();
    judgement.others = found.others();
    if let Some(bad) = bad_samples(spec, samples, &[], &scales) {
        return ended(judgement, bad);
    }
    let Some(primary) = found.primary.as_ref().filter(|_| found.whole >= rule.blocks) else {
        let reason = words::too_few(found.whole, rule.blocks);
        return ended(judgement, (Verdict::Inconclusive, reason));
    };
    if let Some(harm) = rule.guards.then(|| harm(spec, &found)).flatten() {
        return ended(judgement, harm);
    }
    let held_out = rule.held_out.then(|| harm_held_out(spec, &found)).flatten();
    let verdict = held_out.unwrap_or_else(|| decide(spec, rule, primary, &found));
    ended(judgement, verdict)
}

/// X5: what can never be kept, whatever the figures. The reason does not say where in the plan it was seen
/// first, which is drawn: the same failure of two tries reads the same.
fn bad_samples(
    spec: &Spec,
    samples: &[Sample],
    known: &[Sample],
    scales: &[Scale],
) -> Option<(Verdict, String)> {
    let of = |side: Side| {
        let with_scale = samples.iter().filter(move |sample| sample.side == side);
        with_scale.filter_map(|s| Some((s, scales.iter().find(|scale| scale.name == s.scale)?)))
    };
    let failure = |side| of(side).find_map(|(sample, _)| sample.failure.as_deref());
    let invalid = |side| of(side).find_map(|(sample, _)| sample.invalid.as_deref());
    let insane = |side| of(side).find_map(|(s, scale)| sane(spec, &scale.value, &s.metrics).err());
    if let Some(why) = failure(Side::Base) {
        return Some((Verdict::Invalid, format!("the base fails, so the candidate cannot be judged: {why}")));
    }
    if let Some(why) = failure(Side::Candidate) {
        return Some((Verdict::Crash, why.to_owned()));
    }
    if let Some(why) = invalid(Side::Candidate) {
        return Some((Verdict::Invalid, format!("of a run of the candidate: {why}")));
    }
    if let Some(why) = invalid(Side::Base) {
        return Some((Verdict::Invalid, format!("of a run of the base: {why}")));
    }
    if let Some(why) = insane(Side::Candidate) {
        return Some((Verdict::Invalid, why.to_string()));
    }
    if let Some(why) = insane(Side::Base) {
        return Some((Verdict::Invalid, format!("of the base's figures: {why}")));
    }
    let differ = || outputs::differ(samples, scales).or_else(|| rows::differ(samples, known, scales));
    differ().map(|why| (Verdict::Invalid, why)).or_else(|| own_time::unbacked(spec, samples, scales))
}

/// Sentinels, secondaries and scales against their limits.
fn harm(spec: &Spec, found: &Effects) -> Option<(Verdict, String)> {
    for sentinel in &spec.sentinels {
        let limit = sentinel.tolerance_percent / 100.0;
        for compared in found.all_of(&sentinel.metric) {
            if compared.effect.high < -limit {
                return Some((Verdict::Invalid, words::sentinel(compared, sentinel.tolerance_percent)));
            }
            if compared.effect.low > limit {
                return Some((Verdict::Discard, words::sentinel(compared, sentinel.tolerance_percent)));
            }
        }
    }
    for secondary in &spec.secondaries {
        let limit = secondary.max_regression_percent;
        let worse = found.all_of(&secondary.metric).find(|it| it.effect.low > limit / 100.0);
        if let Some(compared) = worse {
            return Some((Verdict::Discard, words::worse(compared, limit)));
        }
    }
    let limit = spec.primary.max_regression_percent;
    let worse = found.scales.iter().find(|it| it.effect.low > limit / 100.0);
    worse.map(|compared| (Verdict::Discard, words::worse(compared, limit)))
}

/// Held-out scales: worse beyond doubt, by no less than what would count as a gain.
fn harm_held_out(spec: &Spec, found: &Effects) -> Option<(Verdict, String)> {
    let least = spec.primary.min_effect_percent / 100.0;
    let worse = found.held_out.iter().find(|it| it.effect.low > 0.0 && it.effect.share >= least);
    worse.map(|compared| (Verdict::Discard, words::held_out(compared)))
}

fn decide(spec: &Spec, rule: &Rule, primary: &Compared, found: &Effects) -> (Verdict, String) {
    let effect = &primary.effect;
    let least = spec.primary.min_effect_percent / 100.0;
    let summary = words::summary(primary, rule.alpha);
    let is_better = effect.p_value <= rule.alpha && effect.share < 0.0 && -effect.share >= least;
    if is_better && -effect.share > rule.floor {
        return (Verdict::Keep, summary);
    }
    let noise = words::percent(rule.floor);
    if is_better && found.scales.len() >= 2 && found.scales.iter().all(|it| it.effect.share < 0.0) {
        let count = found.scales.len();
        let reason = format!("{summary}; below the noise floor of {noise}, but all {count} scales agree");
        return (Verdict::Keep, reason);
    }
    if effect.low >= -least {
        let reason = format!("{summary}: no gain of {} or more", words::percent(least));
        return (Verdict::Discard, reason);
    }
    let reason = if is_better {
        format!("{summary}, but below the noise floor of {noise}, and not all of at least two scales agree")
    } else {
        format!("{summary}: the samples do not tell")
    };
    (Verdict::Inconclusive, reason)
}
