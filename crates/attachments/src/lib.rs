//! What the daemon shows beside its branches: databases with durable functions, stores, packs and measurements, each attached by a name
//! by somebody on the machine.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`registry`] | which there are, and where |
//! | [`lab`] | what the lab measured: runs, figures over runs, variants compared, experiments |
#![deny(rustdoc::broken_intra_doc_links)]

pub mod lab;
pub mod registry;
