//! What every other crate stands on: the one place for each thing that all of them need.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`clock`] | the monotonic clock and the wall clock |
//! | [`entropy`] | random bytes and names, and seeded generators |
//! | [`home`] | where data of this machine lies unless somebody says otherwise |
//! | [`mod@file`] | replacing a file durably |
//! | [`lock`] | files that one process at a time may write |
//! | [`varint`] | numbers in groups of seven bits |
//! | [`suggest`] | the name that was probably meant |
//! | [`system`] | what differs from one operating system to another |
//! | [`words`] | figures for people |
//!
//! It knows no other crate of this workspace, has no asynchronous runtime, and few dependencies: it is in every program
//! that embeds the store.

pub mod clock;
pub mod entropy;
pub mod file;
pub mod home;
pub mod lock;
pub mod suggest;
pub mod system;
pub mod varint;
pub mod words;
