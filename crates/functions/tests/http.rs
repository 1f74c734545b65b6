//! HTTP steps against a server on the loopback interface: the envelope, the failures, and the refusals.
//!
//! No test leaves this machine.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "http/answers.rs"]
mod answers;
#[path = "http/failures.rs"]
mod failures;
#[path = "http/refusals.rs"]
mod refusals;
#[path = "http/requests.rs"]
mod requests;
#[path = "http/server.rs"]
mod server;
