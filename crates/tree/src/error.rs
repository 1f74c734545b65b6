//! What can go wrong in a tree.

use crate::node_store::{NodeId, NodeStoreError};

/// Why an operation on a tree failed. The tree is as it was before the operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The node store failed.
    #[error(transparent)]
    Store(#[from] NodeStoreError),
    /// A node is not what its parent says that it is.
    #[error("node {id} is damaged: {reason}; restore the store from a copy")]
    Damaged {
        /// Which node.
        id: NodeId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A key is longer than a record can hold.
    #[error("a key of {len} bytes is longer than {max}; use a shorter key")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// A value is longer than a record can hold.
    #[error("a value of {len} bytes is longer than {max}; cut it into several")]
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// Input for a bulk build is not sorted.
    #[error(
        "row {row} of the input is not above the one before it; sort the input by key, without duplicates"
    )]
    NotSorted {
        /// The first row that is out of order, from 0.
        row: u64,
    },
}

/// Why bytes are not a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub &'static str);
