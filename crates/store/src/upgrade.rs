//! Stores of version 0.1, whose nodes lie in an engine of somebody else's, are brought to the present format.
//!
//! The nodes are put into segments in the same folder. They count from the moment at which the file goes by which the
//! old engine's folder is known; until then the store is as it was, and whatever was begun is begun again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duramen_tree::{NodeCopy, NodeId, NodeRef, NodeStore, NodeStoreError, TreeError};

use crate::error::StoreError;
use crate::folder::{self, FolderLock, Found};
use crate::manifest::Manifest;
use crate::nodes::{segment_number, SegmentNodeStore};
use crate::options::Options;
use crate::recovery;

/// Nodes are put in batches of about this many bytes.
const BATCH_BYTES: usize = 16 << 20;

/// A store of version 0.1 that nobody else has open.
///
/// The old nodes are read by `duramen-store-legacy`, which is the way to use this.
pub struct Upgrade {
    path: PathBuf,
    nodes: PathBuf,
    _lock: FolderLock,
}

/// What was carried over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// How many nodes.
    pub nodes: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Upgrade {
    /// Locks a store of version 0.1. None if the folder has a store of the present format.
    ///
    /// # Errors
    /// [`StoreError::StoreNotFound`] and [`StoreError::Foreign`] when the folder has none, [`StoreError::Locked`] when
    /// somebody has it open.
    pub fn begin(path: &Path) -> Result<Option<Self>, StoreError> {
        let look = || folder::look(path).map_err(StoreError::io("look into", path));
        match look()? {
            Found::Legacy => {}
            Found::Store => {
                // What an upgrade left that came to its end.
                let lock = FolderLock::take(path, Duration::ZERO)?;
                let nodes = path.join(folder::NODES_FOLDER);
                if look()? == Found::Store && nodes.is_dir() {
                    remove_old(&nodes)?;
                }
                drop(lock);
                return Ok(None);
            }
            Found::Nothing => return Err(StoreError::StoreNotFound { path: path.to_owned() }),
            Found::Foreign(found) => return Err(StoreError::Foreign { path: path.to_owned(), found }),
        }
        let lock = FolderLock::take(path, Duration::ZERO)?;
        Ok(Some(Self { path: path.to_owned(), nodes: path.join(folder::NODES_FOLDER), _lock: lock }))
    }

    /// The folder of the old engine.
    pub fn nodes_folder(&self) -> &Path {
        &self.nodes
    }

    /// Puts the old nodes, in the order of their ids, and the old manifest into segments, sees that every node which
    /// the manifest reaches is there and as it was written, and removes the old files.
    ///
    /// # Errors
    /// What `old` returned, [`StoreError::Damaged`] when a node is missing or changed, and what the file system said.
    /// The store is then as it was before.
    pub fn carry(
        self,
        manifest: Option<Vec<u8>>,
        old: impl Iterator<Item = Result<(NodeId, Vec<u8>), NodeStoreError>>,
    ) -> Result<Carried, StoreError> {
        for number in segments(&self.nodes)? {
            let begun = self.nodes.join(number);
            std::fs::remove_file(&begun).map_err(StoreError::io("remove", begun.clone()))?;
        }
        let mut carried = Carried::default();
        if let Some(manifest) = manifest {
            let end = Manifest::decode(&manifest)?.0.next_node;
            let new: Arc<dyn NodeStore> = Arc::new(SegmentNodeStore::open(&self.nodes, false)?);
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for node in old {
                let (id, node) = node?;
                // What comes behind is left over from a checkpoint that did not come to its end.
                if id >= end {
                    break;
                }
                carried.nodes += 1;
                carried.bytes += node.len() as u64;
                bytes += node.len();
                batch.push((id, node));
                if bytes >= BATCH_BYTES {
                    new.put(&batch)?;
                    batch.clear();
                    bytes = 0;
                }
            }
            new.put(&batch)?;
            verify(&new, &manifest)?;
            new.commit(&manifest, &[])?;
        }
        // From here on the segments count.
        let failed = || StoreError::io("remove the old nodes of", &self.path);
        std::fs::remove_file(self.nodes.join(folder::LEGACY_MARKER)).map_err(failed())?;
        folder::sync(&self.nodes).map_err(failed())?;
        remove_old(&self.nodes)?;
        Ok(carried)
    }
}

fn segments(nodes: &Path) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let failed = || StoreError::io("read the folder", nodes);
    for entry in std::fs::read_dir(nodes).map_err(failed())? {
        let name = entry.map_err(failed())?.file_name().to_string_lossy().into_owned();
        found.extend(segment_number(&name).map(|_| name));
    }
    Ok(found)
}

/// Removes what the old engine left.
fn remove_old(nodes: &Path) -> Result<(), StoreError> {
    let failed = || StoreError::io("remove the old nodes in", nodes);
    for entry in std::fs::read_dir(nodes).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let name = entry.file_name();
        let is_old = folder::LEGACY_NAMES.contains(&&*name.to_string_lossy())
            || Path::new(&name).extension().is_some_and(|extension| extension == "jnl");
        if !is_old {
            continue;
        }
        let removed = if entry.file_type().map_err(failed())?.is_dir() {
            std::fs::remove_dir_all(entry.path())
        } else {
            std::fs::remove_file(entry.path())
        };
        removed.map_err(failed())?;
    }
    folder::sync(nodes).map_err(failed())
}

/// Reads every node that a manifest reaches.
fn verify(nodes: &Arc<dyn NodeStore>, manifest: &[u8]) -> Result<(), StoreError> {
    let options = Options { read_only: true, ..Options::default() };
    let (forest, start) = recovery::from_bytes(nodes.clone(), manifest, &options)?;
    let mut seen = Seen::default();
    for branch in start.registry.iter() {
        branch.tree(&forest)?.copy_nodes(&forest, &mut seen)?;
        let mut meta = branch.meta();
        let meta = &mut *meta;
        for slot in [meta.base.as_mut(), meta.merge_base.as_mut()].into_iter().flatten() {
            slot.tree(&forest)?.copy_nodes(&forest, &mut seen)?;
        }
    }
    Ok(())
}

/// The nodes that were read: a copy that keeps nothing.
#[derive(Default)]
struct Seen(HashSet<NodeId>);

impl NodeCopy for Seen {
    type Error = TreeError;

    fn known(&mut self, origin: NodeRef) -> Result<Option<NodeRef>, TreeError> {
        Ok(self.0.contains(&origin.0).then_some(origin))
    }

    fn keep(&mut self, origin: NodeRef, _level: u8, _bytes: &[u8]) -> Result<NodeId, TreeError> {
        self.0.insert(origin.0);
        Ok(origin.0)
    }
}
