//! What listens for holders of tokens.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use utoipa::ToSchema;

/// The reply to `GET /v1/doors`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoorsView {
    /// The router, if it listens.
    #[serde(default)]
    pub postgres: Option<RouterView>,
    /// The HTTP door, if it is open.
    #[serde(default)]
    pub http: Option<HttpView>,
    /// What keeps doors closed that should be open.
    #[serde(default)]
    pub problem: Option<String>,
}

/// What a router tells of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterView {
    /// Where it listens.
    #[schema(value_type = String)]
    pub address: SocketAddr,
    /// SHA-256 of its certificate.
    pub fingerprint: String,
    /// How many sessions it has.
    pub sessions: usize,
}

/// What the HTTP door tells of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HttpView {
    /// Where it listens.
    #[schema(value_type = String)]
    pub address: SocketAddr,
    /// SHA-256 of its certificate.
    pub fingerprint: String,
}
