//! Names of sources, branches, snapshots, tokens and attachments.

/// The longest name, in bytes: names become file names and parts of URLs.
pub const NAME_MAX: usize = 63;

/// What cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} cannot name a {what}: use 1 to {NAME_MAX} of a-z 0-9 - _ . and start with a letter or digit"
)]
pub struct BadName {
    /// What it was to name.
    pub what: String,
    /// The text.
    pub name: String,
}

/// Checks a name given by a caller: lower-case letters, digits, `-`, `_` and `.`, not starting with a mark.
///
/// # Errors
/// [`BadName`], which says what names look like.
///
/// # Examples
/// ```
/// assert!(duramen_api::names::check("token", "ci-2").is_ok());
/// assert!(duramen_api::names::check("token", "../ci").is_err());
/// ```
pub fn check(what: &str, name: &str) -> Result<(), BadName> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if starts_well && name.len() <= NAME_MAX && name.chars().all(allowed) {
        return Ok(());
    }
    Err(BadName { what: what.to_owned(), name: name.to_owned() })
}
