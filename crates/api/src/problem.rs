//! Refusals, as they are sent.

use crate::model::ErrorBody;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of refusals.
pub const PROBLEM: &str = "application/problem+json";

/// The JSON of a refusal: problem details (RFC 9457), with a word for programs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank`: what kind of problem it is, is said by `code`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// What the status means.
    #[serde(default)]
    pub title: String,
    /// The status of the reply.
    #[serde(default)]
    pub status: u16,
    /// What happened, where, and what to do next.
    #[serde(default)]
    pub detail: String,
    /// A stable word for programs: `not_found`, `name_clash`, `no_branch_ready`, `sql_error`, ...
    #[serde(default)]
    pub code: String,
    /// The SQLSTATE of an `sql_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
    /// Where in the statement it is, counted in characters from 1; of several statements, in the one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// The same as earlier versions said it.
    pub error: ErrorBody,
}
