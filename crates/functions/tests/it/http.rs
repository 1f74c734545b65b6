//! HTTP steps against a server on the loopback interface: the envelope, the failures, and the refusals.
//!
//! No test leaves this machine.

mod answers;
mod failures;
mod refusals;
mod requests;
mod server;
