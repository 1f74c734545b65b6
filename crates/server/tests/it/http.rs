//! Listener and client, over a real socket.

mod client_answers;
mod common;
mod disconnects;
