//! What a branch pack says of itself: JSON, so that anything can read it.

use duramen_store::StoredBranch;
use duramen_tree::{Checksum, StoredRoot};
use serde::{Deserialize, Serialize};

use crate::branch::error::BranchPackError;
use crate::container::hex;

/// The format of the manifest that is written. Later ones are refused.
const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    pub(crate) branch: String,
    pub(crate) exported_ms: i64,
    /// The last version of the store at that time.
    pub(crate) version: u64,
    pub(crate) root: Root,
    pub(crate) nodes: Nodes,
    pub(crate) base: Option<Base>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Root {
    pub(crate) node: u64,
    pub(crate) sum: String,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// The nodes that this pack holds: so many from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nodes {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    pub(crate) root_digest: String,
    /// The name of its file, where it is looked for.
    pub(crate) file: String,
}

fn checksum(text: &str) -> Option<Checksum> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(|number| Checksum(number.to_be_bytes()))
}

impl Manifest {
    pub(crate) fn new(branch: &str, exported_ms: i64, version: u64, root: StoredRoot, nodes: Nodes) -> Self {
        let StoredRoot { id: node, sum, count: entries, bytes } = root;
        let root = Root { node, sum: hex(&sum.0), entries, bytes };
        Self { format: FORMAT, branch: branch.to_owned(), exported_ms, version, root, nodes, base: None }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8], file: &str) -> Result<Self, BranchPackError> {
        let wrong = |reason: String| BranchPackError::Manifest { file: file.to_owned(), reason };
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if format > FORMAT {
            return Err(wrong(format!("its format is {format}, and this version knows up to {FORMAT}")));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        let (nodes, root) = (manifest.nodes, &manifest.root);
        let end =
            nodes.first.checked_add(nodes.count).ok_or_else(|| wrong("it has too many nodes".into()))?;
        if nodes.first == 0 || root.node == 0 || root.node >= end {
            return Err(wrong("its root is not among its nodes".into()));
        }
        if checksum(&root.sum).is_none() {
            return Err(wrong("the checksum of its root is none".into()));
        }
        Ok(manifest)
    }

    /// The first number after those of its nodes.
    pub(crate) fn next_node(&self) -> u64 {
        self.nodes.first + self.nodes.count
    }

    pub(crate) fn stored_branch(&self, name: &str) -> StoredBranch {
        let Root { node, sum, entries, bytes } = &self.root;
        let sum = checksum(sum).unwrap_or(Checksum([0; 16]));
        StoredBranch {
            name: name.to_owned(),
            root: StoredRoot { id: *node, sum, count: *entries, bytes: *bytes },
            next_node: self.next_node(),
            version: self.version,
            created_ms: self.exported_ms,
        }
    }
}
