//! Access graphs: who effectively has what, and why. One sync of a file is in memory, within limits; the file is not open any more.

mod answers;
mod bounded;
mod directory;

pub use answers::{AccessAsked, WhyAsked};

use self::{bounded::Bounded, directory::Directory};
use crate::{
    error::ReadError,
    limits::{GRAPH_DECODED_BYTES_MAX, GRAPH_FILE_BYTES_MAX, NAME_BYTES_MAX},
    text::named,
};
use duramen_access::{
    c1z::ReadOptions,
    expand::{Effective, ExpandError},
    file::GraphFile,
    graph::{GraphSource, Timestamp as GraphTime},
};
use duramen_api::attachments::pack::AccessGraph;
use jiff::Timestamp;
use std::path::Path;

/// What could not be expanded is told in so many lines.
const LOSSES_MAX: usize = 20;

/// A sync of an access graph.
#[derive(Debug)]
pub struct Graph {
    view: AccessGraph,
    effective: Effective,
    directory: Directory,
    bytes: u64,
}

impl Graph {
    /// Reads the sync of a file that is read by default: the latest full one that has ended.
    ///
    /// # Errors
    /// [`ReadError::TooLarge`] when it is more than a daemon reads, [`ReadError::Graph`] when it is damaged or no such file.
    ///
    /// # Examples
    /// ```
    /// use duramen_access::graph::{GraphStore, SyncKind};
    /// use duramen_attachments::graph::Graph;
    /// # let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("access.dpack");
    /// let mut store = GraphStore::open(&path)?;
    /// let sync = store.start_sync(SyncKind::Full, None)?;
    /// store.end_sync()?;
    /// assert_eq!(Graph::open(&path)?.view().sync, sync);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path) -> Result<Graph, ReadError> {
        let at = path.display().to_string();
        let length =
            std::fs::metadata(path).map_err(|source| ReadError::Gone { at: at.clone(), source })?.len();
        if length > GRAPH_FILE_BYTES_MAX {
            return Err(ReadError::TooLarge {
                at,
                what: "bytes",
                found: length,
                limit: GRAPH_FILE_BYTES_MAX,
            });
        }
        let options =
            ReadOptions { decompressed_bytes_max: Some(GRAPH_DECODED_BYTES_MAX), ..ReadOptions::default() };
        let file = GraphFile::open(path, &options)?;
        let syncs = file.syncs()?.len() as u64;
        let sync = file.sync(None)?;
        let source = Bounded::new(&file, at);
        let directory = Directory::read(&source, &sync.id)?;
        source.begin_again(&directory);
        let effective = Effective::load(&source, &sync.id).map_err(|error| match error {
            ExpandError::Read(error) => error,
            other => ReadError::Invalid(other.to_string()),
        })?;
        let left_out = effective.left_out().iter().take(LOSSES_MAX).map(|loss| {
            let (what, example) = (&loss.what, named(&loss.example, NAME_BYTES_MAX));
            format!("{what}, of {} {} rows, such as {example}", loss.rows, loss.row)
        });
        let view = AccessGraph {
            sync: named(&sync.id, NAME_BYTES_MAX),
            kind: named(sync.kind_name(), NAME_BYTES_MAX),
            ended_at: sync.ended_at.and_then(time),
            syncs,
            types: directory.types(),
            resources: directory.resources() as u64,
            entitlements: directory.entitlements() as u64,
            grants: effective.grants() as u64,
            left_out: left_out.collect(),
            circles: effective.circles().len() as u64,
        };
        let bytes = source.bytes();
        Ok(Graph { view, effective, directory, bytes })
    }

    /// What is known of it.
    #[must_use]
    pub fn view(&self) -> &AccessGraph {
        &self.view
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn time(time: GraphTime) -> Option<Timestamp> {
    Timestamp::new(time.seconds, time.nanos).ok()
}
