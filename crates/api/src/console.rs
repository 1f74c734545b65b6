//! The browser console: how somebody is signed in, and what a session is told of itself.

use crate::token::Token;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The header that each request of a session but a GET has: no form, and no page of another site, can send it.
pub const CONSOLE_HEADER: &str = "x-duramen-console";

/// `POST /v1/console/links`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MakeConsoleLink {
    /// The name of the token that the browser is to have. `None`: one is made, of an administrator for all sources, that ends after
    /// 12 hours.
    pub token: Option<String>,
}

/// The reply to `POST /v1/console/links`: the only one that shows the link.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct NewConsoleLink {
    /// What stands after `#link=` in the address. It signs somebody in once.
    pub link: String,
    /// When it is no longer good.
    pub expires_at: Timestamp,
    /// The token that the browser will have.
    pub token: Token,
}

impl std::fmt::Debug for NewConsoleLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewConsoleLink")
            .field("expires_at", &self.expires_at)
            .field("token", &self.token.name)
            .finish_non_exhaustive()
    }
}

/// `POST /v1/session`: a link, or the name and the secret of a token.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SignIn {
    /// The link.
    pub link: Option<String>,
    /// The token's name.
    pub name: Option<String>,
    /// Its secret.
    pub secret: Option<String>,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The reply to `GET /v1/session`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// The token: its role, its sources, its limits.
    pub token: Token,
    /// When the session began. `None`: each request shows the token itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_in_at: Option<Timestamp>,
    /// When it ends unless it is used. `None`: when the token is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// Whether data that is not masked is shown where the holder is.
    pub sees_unmasked: bool,
    /// The requests that it may make, by their names in the OpenAPI document.
    pub operations: Vec<String>,
    /// The daemon's version.
    pub version: String,
}
