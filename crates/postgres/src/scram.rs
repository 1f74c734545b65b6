//! SCRAM-SHA-256, by which a role proves that it knows its password without showing it: the client's half, for servers of
//! ours, and the server's, for whoever enters through us.
//!
//! Source: RFC 5802, RFC 7677 (SCRAM), RFC 5929 (channel binding); the PostgreSQL documentation, "SASL Authentication".

mod client;
mod server;
mod verifier;

pub use client::{ClientExchange, Refusal};
pub use server::{Binding, Mechanism, ScramError, ServerExchange};
pub use verifier::{Verifier, VerifierError};
