//! What the daemon shows beside its branches: databases with durable functions, stores, packs and measurements, each attached by a name
//! by somebody on the machine.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`registry`] | which there are, and where |
#![deny(rustdoc::broken_intra_doc_links)]

pub mod registry;
