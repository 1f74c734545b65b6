//! The nodes of version 0.1, in the log-structured engine `fjall`.

use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

use duramen_tree::{NodeId, NodeStoreError};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, LsmError};

use crate::torn;

/// The keyspace of the nodes: the id in eight bytes, big endian, to the encoded node.
const NODES: &str = "nodes";
/// The keyspace of the manifest.
const META: &str = "meta";
const MANIFEST_KEY: &[u8] = b"manifest";
/// Blocks and nodes that the engine keeps in memory. Each is read once.
const CACHE_BYTES: u64 = 8 << 20;

/// A folder of the engine, which is read.
pub(crate) struct OldNodes {
    nodes: Keyspace,
    meta: Keyspace,
    path: PathBuf,
    _db: Database,
}

impl OldNodes {
    /// Opens a folder. The engine takes its lock, cuts the unused end off its journal, and removes files that no version
    /// of it refers to; before that, what a power cut tore is cut off.
    pub(crate) fn open(path: &Path) -> Result<Self, NodeStoreError> {
        cut_torn_journal(path)?;
        // Without a worker nothing is flushed, merged or rewritten.
        let builder = Database::builder(path).cache_size(CACHE_BYTES).max_cached_files(Some(256));
        let db = builder.worker_threads_unchecked(0).open().map_err(|error| convert(path, error))?;
        let keyspace = |name| {
            if !db.keyspace_exists(name) {
                return Err(damaged(path, &format!("it lacks the keyspace '{name}'")));
            }
            db.keyspace(name, KeyspaceCreateOptions::default).map_err(|error| convert(path, error))
        };
        let (nodes, meta) = (keyspace(NODES)?, keyspace(META)?);
        Ok(Self { nodes, meta, path: path.to_owned(), _db: db })
    }

    pub(crate) fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        let manifest = self.meta.get(MANIFEST_KEY).map_err(|error| convert(&self.path, error))?;
        Ok(manifest.map(|manifest| manifest.to_vec()))
    }

    /// All nodes, in the order of their ids.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Result<(NodeId, Vec<u8>), NodeStoreError>> + '_ {
        self.nodes.iter().map(|entry| {
            let (key, node) = entry.into_inner().map_err(|error| convert(&self.path, error))?;
            let id = <[u8; 8]>::try_from(&*key).map_err(|_| damaged(&self.path, "a node has no number"))?;
            Ok((u64::from_be_bytes(id), node.to_vec()))
        })
    }
}

/// Cuts a torn batch off the end of the engine's journal.
fn cut_torn_journal(path: &Path) -> Result<(), NodeStoreError> {
    let cut = torn::cut(path)?.map_err(|damage| {
        let torn::Damage { journal, at, reason } = damage;
        NodeStoreError::Damaged(format!("{} at byte {at}: {reason}", journal.display()))
    })?;
    if cut > 0 {
        log::info!("a commit of nodes had not come to its end; {cut} bytes are cut off the journal");
    }
    Ok(())
}

fn damaged(path: &Path, what: &str) -> NodeStoreError {
    NodeStoreError::Damaged(format!("{}: {what}", path.display()))
}

fn convert(path: &Path, error: fjall::Error) -> NodeStoreError {
    let io = |kind, what: String| IoError::new(kind, format!("{}: {what}", path.display())).into();
    match error {
        fjall::Error::Locked => io(ErrorKind::WouldBlock, "another process has the nodes open".to_string()),
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => match error.kind() {
            // Files of the engine that end early, are gone, or hold nonsense: the disk did as it was asked.
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::NotFound => {
                damaged(path, &error.to_string())
            }
            kind => io(kind, error.to_string()),
        },
        fjall::Error::Poisoned => io(ErrorKind::Other, "an earlier write of the engine failed".to_string()),
        fjall::Error::KeyspaceDeleted => damaged(path, "a keyspace was deleted"),
        other => damaged(path, &other.to_string()),
    }
}
