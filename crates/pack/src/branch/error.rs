//! What can go wrong with a branch in a pack.

use duramen_store::StoreError;
use duramen_tree::{DecodeError, TreeError};

use crate::error::PackError;

/// Why a branch cannot be packed or read from a pack.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BranchPackError {
    /// The file.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The store that is exported, imported to, or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The pack holds only what its base has not.
    #[error(
        "{file} holds only what changed since {base}, which is not beside it; name that file with --base \
         (root digest {digest})"
    )]
    NeedsBase {
        /// Which file.
        file: String,
        /// The name that the base had when the pack was written.
        base: String,
        /// The root digest of the base.
        digest: String,
    },
    /// The base is not the one that the pack was written against.
    #[error("{file} was written against a base with the root digest {wanted}, and {base} has {found}; name the right one")]
    WrongBase {
        /// Which file.
        file: String,
        /// What was given as its base.
        base: String,
        /// The root digest that the pack names.
        wanted: String,
        /// The root digest of what was given.
        found: String,
    },
    /// A base was given for a pack that has none.
    #[error("{file} holds all of its branch; leave the base out")]
    NoBase {
        /// Which file.
        file: String,
    },
    /// The manifest is not that of a branch.
    #[error("{file} has a manifest that cannot be read: {reason}; read it with the version that wrote it")]
    Manifest {
        /// Which file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A node in the pack is none, although every digest is right.
    #[error("node {node} in {file} is none: {reason}; export the branch again")]
    Node {
        /// Which file.
        file: String,
        /// Which node.
        node: u64,
        /// What is wrong with it.
        reason: DecodeError,
    },
}

impl From<TreeError> for BranchPackError {
    fn from(error: TreeError) -> Self {
        Self::Store(error.into())
    }
}
