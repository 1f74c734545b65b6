//! What the daemon shows beside its branches: databases with durable functions, stores, packs and measurements, each attached by a name
//! by somebody on the machine.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`registry`] | which there are, and where |
//! | [`functions`] | durable functions of an attached database |
//! | [`lab`] | what the lab measured: runs, figures over runs, variants compared, experiments |
//! | [`shelf`] | which stores and packs are open |
//! | [`store`] | what a store holds, a page at a time |
//! | [`pack`], [`graph`] | the branch, or the access graph, in a pack or a `.c1z` file |
//! | [`text`] | foreign bytes as text |
//! | [`limits`], [`error`] | what is spent on it at most, and why something is not shown |
#![deny(rustdoc::broken_intra_doc_links)]

pub mod error;
pub mod functions;
pub mod graph;
pub mod lab;
pub mod limits;
mod look;
pub mod pack;
pub mod registry;
pub mod shelf;
pub mod store;
pub mod text;
