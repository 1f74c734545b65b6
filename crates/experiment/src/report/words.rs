//! Figures and names as they are written.

use super::view::Change;
use crate::{
    event::{Extent, Verdict},
    plain,
    spec::Direction,
};

/// Of a segment that has no walls between its sides.
pub(super) const UNISOLATED: &str =
    "Measured without walls between the sides: each could read and change what belongs to the other.";

/// So many digits of a commit are enough for people.
const COMMIT_DIGITS: usize = 10;

/// A verdict in words.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Keep => "keep",
        Verdict::Discard => "discard",
        Verdict::Crash => "crash",
        Verdict::ChecksFailed => "checks failed",
        Verdict::Invalid => "invalid",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Suspicious => "suspicious",
    }
}

/// A direction in words.
pub(super) fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Lower => "lower is better",
        Direction::Higher => "higher is better",
    }
}

/// `-10.2 %`.
pub(super) fn percent(value: f64) -> String {
    if !value.is_finite() {
        return "no number".to_owned();
    }
    // A change that rounds to nothing has no sign.
    let rounded = (value * 10.0).round() / 10.0;
    if rounded == 0.0 {
        "0.0 %".to_owned()
    } else {
        format!("{rounded:+.1} %")
    }
}

/// `-10.2 % [-12.0, -8.3]`.
pub(super) fn change(change: &Change) -> String {
    let number_only = |value: f64| percent(value).trim_end_matches(" %").to_owned();
    format!("{} [{}, {}]", percent(change.percent), number_only(change.low), number_only(change.high))
}

/// `2 of 12 quads; a gain of 3.2 % or more would have been seen`.
pub(super) fn extent(extent: &Extent) -> String {
    let quads = match extent.quads {
        0 => "a single pair of runs".to_owned(),
        quads => format!("{quads} of {} quads", extent.of),
    };
    let seen = extent
        .detectable
        .map(|share| format!("; a gain of {:.1} % or more would have been seen", share * 100.0));
    quads + &seen.unwrap_or_default()
}

/// The beginning of a commit id.
pub(super) fn commit(id: &str) -> String {
    id.chars().take(COMMIT_DIGITS).collect()
}

/// A text from elsewhere in one line, such that a terminal only shows it.
pub fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().map(|c| if plain::is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// The same for several lines.
pub(super) fn lines(text: &str) -> String {
    let visible = |c: char| if plain::is_hidden(c) && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

/// `1 try`, `2 tries`.
pub(super) fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}
