//! The daemon: one process that owns a home directory and serves it over HTTP on a unix socket, and to holders of tokens.
//!
//! | module | what it is for |
//! | --- | --- |
//! | `console` | the browser console: its page, and who is signed in |
//! | [`daemon`] | locking the home, opening the engine, serving until told to stop |
//! | [`http_door`] | the same interface over TCP, for holders of tokens |
//! | [`listener`] | HTTP/1.1 over a unix socket: connections, limits, draining |
//! | [`process`] | the daemon as a child process |
//! | [`lock`] | one daemon a home |
//! | [`doors`] | the doors of a home: its tokens, and what listens for their holders |
//! | [`reply`] | what replies are made of |
//! | [`router`] | one port over which PostgreSQL clients enter branches |
//! | [`tokens`] | who may enter by the doors |
//!
//! What is asked and replied, by whom, is `duramen_api`. A client that closes its connection ends what its request was doing.
#![deny(rustdoc::broken_intra_doc_links)]
// What a request goes through is one future, whose layers the compiler follows.
#![recursion_limit = "256"]

pub mod daemon;
mod data_diff;
pub mod doors;
pub mod http_door;
pub mod listener;
pub mod lock;
pub mod process;
pub mod reply;
pub mod router;

mod tls;

pub mod tokens;

mod api;
mod attachments;
mod caller;
mod certificate;
mod console;
mod door;
mod events;
mod export;
pub mod fleet;
mod holders;
mod idempotency;
mod import;
mod mcp_door;
mod metrics;
mod order;
mod page;
mod pair;
mod replace;
mod traces;
