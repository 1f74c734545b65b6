//! Texts of documents as they are sent: bounded, and nothing else. What they mean to a browser is the browser's.

use std::path::Path;

/// The longest text, in characters.
pub(super) const TEXT_MAX: usize = 2_000;
/// The longest name of a figure, a setting or a suite, in bytes. One that is longer is left out, for half a name would be another one.
pub(super) const NAME_MAX: usize = 300;

/// The beginning of a text that is too long.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// A path as it is shown.
pub(super) fn path(path: &Path) -> String {
    cut(&path.to_string_lossy())
}

/// A number that JSON can hold.
pub(super) fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// How many, for a reply.
pub(super) fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
