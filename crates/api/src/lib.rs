//! The daemon's HTTP interface as data: what is asked and replied, which requests there are, and to whom each is open. The daemon and its
//! clients share it.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`model`] | what callers ask for and are told |
//! | [`token`], [`doors`] | who may enter from elsewhere, and where |
//! | [`route`] | all requests, in one list |
//! | [`access`] | to whom each of them is open |
//! | [`problem`] | refusals |
//! | [`openapi`] | all of it as OpenAPI 3.1 |
#![deny(rustdoc::broken_intra_doc_links)]

pub mod access;
pub mod doors;
pub mod model;
pub mod openapi;
pub mod policy;
pub mod problem;
pub mod request;
pub mod route;
pub mod segment;
mod shape;
pub mod token;

pub use shape::EVENTS;
