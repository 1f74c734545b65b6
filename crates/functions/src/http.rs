//! HTTP steps: what one asks for, what an operator allows, and the one request that is made.
//!
//! A step is written by anybody who may submit functions, and it runs on the worker's host, behind whatever
//! firewall that host sits. So nothing is reachable until an operator says so ([`HttpPolicy`]), a name is judged by
//! the addresses that it resolves to and the connection goes to one of these very addresses, redirects are results
//! rather than orders, and every size and time has a bound.

mod address;
mod call;
mod error;
mod multipart;
mod perform;
mod policy;
mod request;
mod resolve;

#[cfg(test)]
mod tests;

pub use call::{HttpCall, Part};
pub(crate) use perform::Envelope;
pub use perform::{perform, MAX_RESPONSE_BYTES};
pub use policy::{HttpPolicy, PolicyError};
pub use request::{MAX_HEADERS, MAX_HEADER_BYTES, MAX_REQUEST_BYTES, MAX_TIMEOUT_S, MAX_URL_BYTES};
