//! Names of sources and branches.

use crate::error::{EngineError, Kind};

/// The longest name, in bytes: names become file names and parts of URLs.
pub(crate) const NAME_MAX: usize = 63;

/// Checks a name given by a caller: lower-case letters, digits, `-`, `_` and `.`, not starting with a mark.
pub(crate) fn check(what: &str, name: &str) -> Result<(), EngineError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if starts_well && name.len() <= NAME_MAX && name.chars().all(allowed) {
        return Ok(());
    }
    Err(EngineError::new(
        Kind::Invalid,
        "bad_name",
        format!("{name:?} cannot name a {what}: use 1 to {NAME_MAX} of a-z 0-9 - _ . and start with a letter or digit"),
    ))
}

/// The known name that is most like a mistyped one, for "did you mean".
pub(crate) fn closest<'a>(typed: &str, known: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    known
        .map(|name| (edit_distance(typed, name), name))
        .filter(|(distance, name)| *distance <= 2.min(name.len() / 2))
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein's distance between two short names.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[path = "../tests/unit/names.rs"]
mod tests;
