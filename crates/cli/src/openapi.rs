//! `duramen openapi`: the daemon's HTTP interface as OpenAPI.

use crate::{context::Outcome, output};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen openapi > openapi.json
  duramen openapi | jq '.paths | keys'";

/// Prints the document, which needs no daemon.
pub(crate) fn run() -> Outcome {
    output::json(&duramen_api::openapi::document())?;
    Ok(ExitCode::SUCCESS)
}
