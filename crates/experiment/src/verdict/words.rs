//! Reasons that a person understands.

use super::effects::{least_p_value, Compared};
use crate::spec::Direction;

/// `9.8 % less read_s (7.1 to 12.4 %), p 0.0002 against 0.00125`.
pub(super) fn summary(compared: &Compared, alpha: f64) -> String {
    let (p_value, least) = (compared.effect.p_value, least_p_value(compared.effect.quads));
    let mut text = format!("{}, p {} against {}", change(compared), probability(p_value), probability(alpha));
    if least > alpha {
        text += &format!("; {} quads can never be that sure, take more", compared.effect.quads);
    }
    text
}

/// `9.8 % less read_s (7.1 to 12.4 %), p 0.0002 against 0.00031, after 2 of 12 quads`.
pub(super) fn seen(compared: &Compared, level: f64, quads: u32, of: u32) -> String {
    let p_value = probability(compared.effect.p_value);
    let judged = if level > 0.0 && quads > 0 {
        format!(", p {p_value} against {}", probability(level))
    } else {
        String::new()
    };
    format!("{}{judged}, {}", change(compared), extent(quads, of))
}

/// `after 2 of 12 quads`.
pub(super) fn extent(quads: u32, of: u32) -> String {
    match quads {
        0 => "after a single pair of runs".to_owned(),
        _ => format!("after {quads} of {of} quads"),
    }
}

pub(super) fn detectable(share: f64) -> String {
    format!("a gain of {} or more would have been seen", percent(share))
}

/// Of a figure of which it is not shown that it is no worse than its limit.
pub(super) fn unshown(compared: &Compared, limit: f64, needed: Option<f64>, most: u32) -> String {
    let takes = match needed {
        Some(needed) => format!("that would take about {needed:.0} quads, and `measure.quads` is {most}"),
        None => "no number of quads would show it, if it stays as it is".to_owned(),
    };
    let metric = &compared.metric;
    let at = at(compared);
    format!(
        "it is not shown that {metric}{at} got worse by no more than {limit} %: {}; {takes}",
        change(compared)
    )
}

/// Of a held-out scale whose gain is not the share that it must be.
pub(super) fn disagreeing(held_out: &Compared, visible: &Compared, share: f64, verb: &str) -> String {
    let [here, there] = [held_out, visible].map(change);
    let least = unsuffixed_percent(share);
    format!("{here}, which was held out: that {verb} less than {least} % of the gain at the other scales, {there}")
}

fn at(compared: &Compared) -> String {
    compared.scale.as_ref().map(|scale| format!(" at scale {scale}")).unwrap_or_default()
}

/// `9.8 % less read_s (7.1 to 12.4 %)`.
fn change(compared: &Compared) -> String {
    let effect = &compared.effect;
    // What a figure grows by: of throughput, the share is that of the time.
    let growth = |share: f64| match (compared.direction, compared.is_ratio) {
        (Direction::Lower, _) => share,
        (Direction::Higher, true) => 1.0 / (1.0 + share) - 1.0,
        (Direction::Higher, false) => -share,
    };
    let (centre, one, other) = (growth(effect.share), growth(effect.low), growth(effect.high));
    let at = at(compared);
    let metric = &compared.metric;
    if centre == 0.0 && one == 0.0 && other == 0.0 {
        return format!("{metric}{at} is the same in all runs");
    }
    let (word, sign) = if centre < 0.0 { ("less", -1.0) } else { ("more", 1.0) };
    let (low, high) = ((sign * one).min(sign * other), (sign * one).max(sign * other));
    format!(
        "{} {word} {metric}{at} ({} to {})",
        percent(sign * centre),
        unsuffixed_percent(low),
        percent(high)
    )
}

pub(super) fn too_few(whole: u32, wanted: u32) -> String {
    if wanted < 2 {
        return "a single quad has no spread to judge by: the spec needs at least two".to_owned();
    }
    format!("{whole} of {wanted} quads are whole at every scale, which is too few to judge")
}

pub(super) fn sentinel(compared: &Compared, tolerance: f64) -> String {
    format!(
        "{}, although no change should move it by more than {tolerance} %: \
         the machine or the benchmark changed",
        change(compared)
    )
}

pub(super) fn worse(compared: &Compared, limit: f64) -> String {
    format!("{}, which is worse by more than the {limit} % allowed", change(compared))
}

pub(super) fn held_out(compared: &Compared) -> String {
    format!("{}, which is worse at a scale that was held out", change(compared))
}

/// `2.4 %`; with more digits for small ones, fewer for large ones.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", unsuffixed_percent(share))
}

fn unsuffixed_percent(share: f64) -> String {
    let value = share * 100.0;
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.01 => format!("{value:.1e}"),
        size if size < 1.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        size if size < 1e6 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

/// `0.00125`, `0.023`, `4e-7`.
fn probability(value: f64) -> String {
    if value > 0.0 && value < 1e-4 {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.5}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
