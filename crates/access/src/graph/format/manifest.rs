//! The manifest of a graph: which syncs the file holds, and where.

use super::bytes::{put_u32, put_u64, Reader};
use super::details;
use super::stats::SyncStats;
use crate::graph::error::GraphError;
use crate::graph::model::Sync;

const FORMAT: u64 = 1;
/// The most syncs in one file. Each takes twelve sections.
pub const MAX_SYNCS: usize = 300;

/// One sync of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) sync: Sync,
    pub(crate) stats: SyncStats,
    /// The number that its sections begin with.
    pub(crate) number: u32,
    /// See [`super::segment::Segment::ambiguous`].
    pub(crate) ambiguous: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) syncs: Vec<Kept>,
    /// The journal whose content is in this file.
    pub(crate) journal: [u8; 16],
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u64(&mut out, FORMAT);
        out.extend_from_slice(&self.journal);
        put_u64(&mut out, self.syncs.len() as u64);
        for kept in &self.syncs {
            put_u32(&mut out, kept.number);
            out.push(u8::from(kept.ambiguous));
            details::put_sync(&mut out, &kept.sync);
            kept.stats.encode(&mut out);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, GraphError> {
        let mut reader = Reader::new(bytes, "the manifest of a graph");
        let format = reader.u64()?;
        if format > FORMAT {
            return Err(GraphError::Newer { found: format, known: FORMAT });
        }
        let mut manifest = Manifest::default();
        manifest.journal.copy_from_slice(reader.take(16)?);
        for _ in 0..reader.count(1)? {
            let number = reader.u32()?;
            let ambiguous = reader.u8()? != 0;
            let sync = details::sync(&mut reader)?;
            let stats = SyncStats::decode(&mut reader)?;
            manifest.syncs.push(Kept { sync, stats, number, ambiguous });
        }
        reader.end()?;
        Ok(manifest)
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Kept> {
        self.syncs.iter().find(|kept| kept.sync.id == id)
    }

    /// The sync that is read when none is named: see [`Sync::to_read`].
    pub(crate) fn to_read(&self) -> Option<&Kept> {
        let sync = Sync::to_read(self.syncs.iter().map(|kept| &kept.sync))?;
        self.find(&sync.id)
    }
}
