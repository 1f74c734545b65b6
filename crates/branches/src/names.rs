//! Names of sources and branches.

use crate::error::{EngineError, Kind};

/// The longest name, in bytes: names become file names and parts of URLs.
pub(crate) const NAME_MAX: usize = 63;

/// Checks a name given by a caller: lower-case letters, digits, `-`, `_` and `.`, not starting with a mark.
///
/// # Errors
/// `bad_name`, which says what names look like.
///
/// # Examples
/// ```
/// assert!(duramen_branches::check_name("token", "ci-2").is_ok());
/// assert!(duramen_branches::check_name("token", "../ci").is_err());
/// ```
pub fn check(what: &str, name: &str) -> Result<(), EngineError> {
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
