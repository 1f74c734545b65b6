//! Listener and client, over a real socket.

#[path = "http/client_answers.rs"]
mod client_answers;
#[path = "http/common.rs"]
mod common;
#[path = "http/disconnects.rs"]
mod disconnects;
