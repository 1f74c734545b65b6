//! Which branch was made of which, and what each of them holds.

use crate::{branch::Branch, doors::Holder, engine::Engine, model::TreeNode, registry::Placed};
use std::os::unix::fs::MetadataExt;

/// Bytes in a block of `stat`.
const BLOCK: u64 = 512;

impl Engine {
    /// All leased branches with what they were made of, by name. Reads the sizes of all their files, and so blocks.
    #[must_use]
    pub fn tree(&self) -> Vec<TreeNode> {
        self.tree_by(None)
    }

    pub(crate) fn tree_by(&self, by: Option<&Holder>) -> Vec<TreeNode> {
        let placed = self.shared.registry.placed(by);
        placed
            .into_iter()
            .map(|Placed { node, branch }| {
                let own_bytes = branch.disk_use().map(|(used, _)| used);
                let shared_bytes = own_bytes.map(|own| size(&branch).saturating_sub(own));
                TreeNode { own_bytes, shared_bytes, ..node }
            })
            .collect()
    }
}

/// The bytes of a branch's files, whoever else has them too. What goes away meanwhile does not count.
fn size(branch: &Branch) -> u64 {
    let files = walkdir::WalkDir::new(branch.data_dir()).into_iter().flatten();
    files.filter_map(|entry| entry.metadata().ok()).map(|it| it.blocks() * BLOCK).sum()
}
