//! Names of sources and branches.

use crate::error::{EngineError, Kind};
use duramen_api::names;

/// [`names::check`], as the engine refuses what fails it.
///
/// # Errors
/// `bad_name`, which says what names look like.
pub fn check(what: &str, name: &str) -> Result<(), EngineError> {
    names::check(what, name).map_err(|error| EngineError::new(Kind::Invalid, "bad_name", error.to_string()))
}
