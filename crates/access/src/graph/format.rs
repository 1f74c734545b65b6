//! The bytes of a graph: blocks, keys, records and what the manifest says of them.

pub(crate) mod bytes;
pub(crate) mod details;
pub(crate) mod key;
pub(crate) mod ksuid;
pub(crate) mod manifest;
pub(crate) mod payload;
pub(crate) mod records;
pub(crate) mod rows;
pub(crate) mod segment;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod terms;
pub(crate) mod token;
