//! The HTTP door, from outside: what holders of tokens can do through it, and what nobody can. The invariants H1 to H10 are in
//! `docs/design/doors.md`.

mod agents;
mod attached_lab;
mod attached_stores;
mod attachments;
mod certificates;
mod client;
mod console;
mod functions;
mod hostile_requests;
mod pull_requests;
mod repeats;
mod roles;
mod schema;
mod watching;
mod who_is_let_in;

pub(crate) use client::Site;
