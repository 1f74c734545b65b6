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

impl HttpView {
    /// The address of the console for who is on the machine of the door, where TLS is not needed and a certificate of its own would
    /// be a warning.
    ///
    /// # Examples
    /// ```
    /// use duramen_api::doors::HttpView;
    /// let of = |address: &str| HttpView { address: address.parse().unwrap(), fingerprint: String::new() }.address_here();
    /// assert_eq!(of("127.0.0.1:6433"), "http://127.0.0.1:6433/");
    /// assert_eq!(of("[::1]:6433"), "http://[::1]:6433/");
    /// assert_eq!(of("0.0.0.0:6433"), "http://localhost:6433/");
    /// assert_eq!(of("192.0.2.7:6433"), "https://192.0.2.7:6433/");
    /// ```
    #[must_use]
    pub fn address_here(&self) -> String {
        let (address, port) = (self.address, self.address.port());
        match address.ip() {
            ip if ip.is_unspecified() => format!("http://localhost:{port}/"),
            ip if ip.is_loopback() => format!("http://{address}/"),
            _ => format!("https://{address}/"),
        }
    }
}
