//! What may be said of a try besides its hypothesis: fields with names of one's own, such as `notes` or `profile`.
//!
//! Nothing is computed from them. They are shown as text, never as anything else.

use super::SeriesError;
use std::collections::BTreeMap;

/// So many fields a try.
pub const FIELDS_MAX: usize = 20;
/// The longest name of a field, in characters.
pub const NAME_MAX: usize = 40;
/// The longest text of a field, in bytes.
pub const TEXT_MAX: usize = 4 << 10;

/// Whether these are such fields.
///
/// # Errors
/// [`SeriesError::Claim`], with what is wrong.
pub fn check(notes: &BTreeMap<String, String>) -> Result<(), SeriesError> {
    match wrong(notes) {
        None => Ok(()),
        Some((wrong, advice)) => Err(SeriesError::Claim { what: "a note", wrong, advice }),
    }
}

/// What is wrong with them, and what to do.
pub(super) fn wrong(notes: &BTreeMap<String, String>) -> Option<(&'static str, &'static str)> {
    if notes.len() > FIELDS_MAX {
        return Some(("one too many", "a try has 20 of them at most"));
    }
    for (name, text) in notes {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) {
            return Some((
                "wrongly named",
                "a name has 1 to 40 letters (a-z), digits and `.`, `-` and `_`, as in `--note profile=TEXT`",
            ));
        }
        if text.len() > TEXT_MAX {
            return Some(("longer than 4 KiB", "say it shorter"));
        }
    }
    None
}
