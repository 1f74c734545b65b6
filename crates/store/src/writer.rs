//! What only the holder of the writer's lock has.

use crate::batch::Batch;
use crate::garbage::Garbage;
use crate::record;

/// The state of whoever writes. A reference to it proves that the writer's lock is held.
pub(crate) struct Writer {
    batch: Batch,
    version: u64,
    garbage: Garbage,
}

impl Writer {
    pub(crate) fn new(version: u64, garbage: Garbage) -> Self {
        Self { batch: Batch::default(), version, garbage }
    }

    /// The version of the last write.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Moves on to the version of a record that was logged, or found in the log.
    #[inline]
    pub(crate) fn advance_to(&mut self, version: u64) {
        self.version = version;
    }

    /// The commit that is being put together.
    #[inline]
    pub(crate) fn batch(&self) -> &Batch {
        &self.batch
    }

    #[inline]
    pub(crate) fn batch_mut(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Begins a commit of writes to a branch.
    #[inline]
    pub(crate) fn begin_writes(&mut self, branch: u64) {
        self.batch.begin(|header| record::writes_header(header, branch));
    }

    /// Takes over a commit that was put together elsewhere.
    pub(crate) fn take_batch(&mut self, batch: Batch) {
        self.batch = batch;
    }

    pub(crate) fn garbage_mut(&mut self) -> &mut Garbage {
        &mut self.garbage
    }
}
