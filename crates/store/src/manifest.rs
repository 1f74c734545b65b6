//! The manifest: which trees count, and from where the log goes on. The only thing that a checkpoint replaces.
//!
//! ```text
//! "DuramenS", format u32, body (postcard), XXH3-64 of all before it
//! ```

use std::collections::BTreeMap;

use duramen_tree::{Checksum, NodeId, StoredRoot};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::history::{Keep, PointRecord, Points};
use crate::slot::Slot;

const MAGIC: &[u8; 8] = b"DuramenS";

/// The format that is written. Later ones are refused, earlier ones are read for ever.
pub(crate) const FORMAT: u32 = 3;

/// The last format without retained states.
const FORMAT_WITHOUT_HISTORY: u32 = 2;

/// The last format that does not name the segment of the log, nor the floors of branches.
const FORMAT_WITHOUT_SEGMENT: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RootRecord {
    id: NodeId,
    sum: [u8; 16],
    count: u64,
    bytes: u64,
}

impl From<StoredRoot> for RootRecord {
    fn from(root: StoredRoot) -> Self {
        Self { id: root.id, sum: root.sum.0, count: root.count, bytes: root.bytes }
    }
}

impl From<RootRecord> for StoredRoot {
    fn from(record: RootRecord) -> Self {
        Self { id: record.id, sum: Checksum(record.sum), count: record.count, bytes: record.bytes }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BranchRecord {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) root: RootRecord,
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) protected: bool,
    pub(crate) parent: Option<u64>,
    pub(crate) fork_mark: NodeId,
    pub(crate) origin_mark: NodeId,
    pub(crate) parent_mark: NodeId,
    pub(crate) base: Option<RootRecord>,
    pub(crate) base_mark: NodeId,
    pub(crate) merge_base: Option<RootRecord>,
}

/// What format 2 says of a branch beyond that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BranchMore {
    /// No cell of the branch has a version below this.
    pub(crate) floor: u64,
}

/// What format 2 says beyond format 1, behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct More {
    /// The segment in which the log goes on.
    pub(crate) segment: u64,
    /// As many as there are branches, in their order.
    pub(crate) branches: Vec<BranchMore>,
    /// Of branches of which states are retained, or will be. Behind the rest, from format 3 on.
    #[serde(skip)]
    pub(crate) histories: Vec<BranchHistory>,
}

/// What is retained of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BranchHistory {
    pub(crate) branch: u64,
    pub(crate) keep: Option<Keep>,
    pub(crate) points: Vec<(PointRecord, RootRecord)>,
    pub(crate) tags: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The last version that the trees hold: the log goes on after it.
    pub(crate) version: u64,
    /// Nodes with this id and above do not count.
    pub(crate) next_node: NodeId,
    pub(crate) next_branch: u64,
    pub(crate) created_ms: i64,
    pub(crate) branches: Vec<BranchRecord>,
    /// Nodes that nobody needs and that are not deleted yet.
    pub(crate) free: Vec<NodeId>,
    /// Nodes that perhaps nobody needs.
    pub(crate) candidates: Vec<NodeId>,
}

impl BranchHistory {
    pub(crate) fn to_points(&self) -> Points {
        let points = self.points.iter();
        let points = points.map(|(record, root)| record.clone().into_point(Slot::Stored((*root).into())));
        Points::new(self.keep, points.collect(), self.tags.clone())
    }

    /// Where the points are.
    pub(crate) fn roots(&mut self) -> impl Iterator<Item = &mut RootRecord> {
        self.points.iter_mut().map(|(_, root)| root)
    }
}

impl Manifest {
    pub(crate) fn encode(&self, more: &More) -> Result<Vec<u8>, StoreError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        let bytes = postcard::to_extend(self, bytes);
        let bytes = bytes.and_then(|bytes| postcard::to_extend(more, bytes));
        let bytes = bytes.and_then(|bytes| postcard::to_extend(&more.histories, bytes));
        let mut bytes =
            bytes.map_err(|error| StoreError::Damaged(format!("the manifest cannot be written: {error}")))?;
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Ok(bytes)
    }

    /// Reads a manifest, and what it says beyond format 1 if it is of a later one.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Option<More>), StoreError> {
        let damaged = |reason: &str| StoreError::Damaged(format!("its manifest {reason}"));
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("does not begin as one"))?;
        let (format, _) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("is cut off"))?;
        let format = u32::from_le_bytes(*format);
        if format > FORMAT {
            let (found, known) = (u64::from(format), u64::from(FORMAT));
            return Err(StoreError::FromTheFuture { what: "the store", found, known });
        }
        let (before, sum) = bytes.split_last_chunk::<8>().ok_or_else(|| damaged("is cut off"))?;
        if xxhash_rust::xxh3::xxh3_64(before) != u64::from_le_bytes(*sum) {
            return Err(damaged("has a wrong checksum"));
        }
        let body = before.get(MAGIC.len() + 4..).ok_or_else(|| damaged("is cut off"))?;
        let unreadable = |error| damaged(&format!("cannot be read: {error}"));
        let (manifest, rest): (Self, _) = postcard::take_from_bytes(body).map_err(unreadable)?;
        if format <= FORMAT_WITHOUT_SEGMENT {
            return Ok((manifest, None));
        }
        let (mut more, rest): (More, _) = postcard::take_from_bytes(rest).map_err(unreadable)?;
        if format > FORMAT_WITHOUT_HISTORY {
            more.histories = postcard::from_bytes(rest).map_err(unreadable)?;
        }
        if more.branches.len() != manifest.branches.len() {
            return Err(damaged("describes more branches or fewer than it names"));
        }
        Ok((manifest, Some(more)))
    }
}
