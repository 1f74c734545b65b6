//! A pack, and the packs that it is based on, as a place where nodes lie.

use std::sync::Arc;

use duramen_tree::{NodeId, NodeStore, NodeStoreError, NodeStoreStats};
use parking_lot::Mutex;

use crate::branch::blocks::{decode, key, Content};
use crate::container::Section;
use crate::error::PackError;

/// Blocks that are kept decompressed: what is read next is often in one of them.
const KEPT_BLOCKS: usize = 16;

/// The nodes of one pack.
pub(crate) struct PackNodes {
    file: String,
    section: Option<Section>,
    first: u64,
    size: u64,
    kept: Mutex<Vec<Arc<Kept>>>,
    base: Option<Arc<PackNodes>>,
}

/// A decompressed block.
struct Kept {
    block: usize,
    bytes: Vec<u8>,
    content: Content,
}

/// A block whose digest is right and whose content is not: whoever wrote it wrote it so.
pub(crate) fn wrong_block(file: &str, section: &Section, block: usize, wrong: &str) -> PackError {
    PackError::damaged(file, section.range(block), format!("block {block} of section \"nodes\" {wrong}"))
}

impl PackNodes {
    /// The nodes of a section, from the number `first` on; those before it lie in the base.
    pub(crate) fn new(
        file: &str,
        section: Option<Section>,
        first: u64,
        size: u64,
        base: Option<Arc<PackNodes>>,
    ) -> Self {
        Self { file: file.to_owned(), section, first, size, kept: Mutex::new(Vec::new()), base }
    }

    /// Reads a block, or finds it among those that were read last.
    fn block(&self, section: &Section, block: usize) -> Result<Arc<Kept>, PackError> {
        let found = {
            let mut kept = self.kept.lock();
            kept.iter().position(|kept| kept.block == block).map(|at| {
                let found = kept.remove(at);
                kept.push(found.clone());
                found
            })
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let mut bytes = Vec::new();
        section.read(block, &mut bytes)?;
        let content = decode(&bytes).map_err(|wrong| wrong_block(&self.file, section, block, wrong))?;
        let read = Arc::new(Kept { block, bytes, content });
        if matches!(read.content, Content::Many { .. }) {
            let mut kept = self.kept.lock();
            if kept.len() == KEPT_BLOCKS {
                kept.remove(0);
            }
            kept.push(read.clone());
        }
        Ok(read)
    }

    fn read(&self, node: NodeId) -> Result<Option<Vec<u8>>, PackError> {
        if node < self.first {
            return self.base.as_ref().map_or(Ok(None), |base| base.read(node));
        }
        let Some(section) = &self.section else { return Ok(None) };
        let Some(block) = section.find(&key(node)) else { return Ok(None) };
        let read = self.block(section, block)?;
        match &read.content {
            Content::Many { first, ranges } => {
                let place = node.checked_sub(*first).and_then(|at| ranges.get(usize::try_from(at).ok()?));
                Ok(place.and_then(|range| read.bytes.get(range.clone())).map(<[u8]>::to_vec))
            }
            Content::Piece { node: found, len, .. } => {
                if *found != node {
                    return Ok(None);
                }
                self.pieces(section, block, node, *len).map(Some)
            }
        }
    }

    /// A node in pieces, of which the first is in `block`. Memory grows with what is really there.
    fn pieces(&self, section: &Section, mut block: usize, node: u64, len: u64) -> Result<Vec<u8>, PackError> {
        let mut whole = Vec::new();
        loop {
            let read = self.block(section, block)?;
            match &read.content {
                Content::Piece { node: found, len: stated, at, range }
                    if *found == node && *stated == len && *at == whole.len() as u64 && !range.is_empty() =>
                {
                    whole.extend_from_slice(read.bytes.get(range.clone()).unwrap_or_default());
                }
                _ => {
                    return Err(wrong_block(&self.file, section, block, "is not the next piece of its node"))
                }
            }
            if whole.len() as u64 == len {
                return Ok(whole);
            }
            block += 1;
            if block == section.blocks() {
                return Err(wrong_block(&self.file, section, block - 1, "is not the last piece of its node"));
            }
        }
    }
}

/// What a pack refuses to do, as a node store says it.
fn read_only() -> NodeStoreError {
    std::io::Error::new(std::io::ErrorKind::ReadOnlyFilesystem, "a pack is never written again").into()
}

impl NodeStore for PackNodes {
    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        self.read(id).map_err(|error| match error {
            PackError::Io { source, .. } => NodeStoreError::Io(source),
            other => NodeStoreError::Damaged(other.to_string()),
        })
    }

    fn put(&self, _nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        Err(read_only())
    }

    fn commit(&self, _manifest: &[u8], _deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        Err(read_only())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(None)
    }

    fn delete_from(&self, _first: NodeId) -> Result<u64, NodeStoreError> {
        Err(read_only())
    }

    fn stats(&self) -> NodeStoreStats {
        let base = self.base.as_ref().map_or(0, |base| base.stats().bytes);
        NodeStoreStats { bytes: self.size + base }
    }
}
