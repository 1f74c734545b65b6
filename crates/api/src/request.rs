//! The few bodies that only the interface knows.

use crate::model::Policy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /v1/measure/cold`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasureCold {
    /// The source to make one branch of.
    pub source: String,
    /// What the branch's holder could do.
    #[serde(default)]
    pub policy: Policy,
}

/// The reply to `DELETE /v1/sources/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// The source that is gone.
    pub removed: String,
}

/// The reply to `POST /v1/shutdown` and `POST /v1/handover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopping {
    /// Always true: the daemon has begun to stop.
    pub stopping: bool,
}

/// The reply to `GET /version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// The daemon's version.
    pub version: String,
}
