//! A commit: put together over the branch as it is, applied, logged, and waited for.

use crate::access::Edit;
use crate::blob;
use crate::branch_state::BranchState;
use crate::durability::Durability;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::expiry::Now;
use crate::overlay::Draft;
use crate::record;
use crate::writer::Writer;

impl Engine {
    /// A commit on a branch: `write` puts it together over the branch as it is, then it is applied, logged, and
    /// waited for as `durability` asks.
    #[inline]
    pub(crate) fn commit<R>(
        &self,
        branch: &BranchState,
        durability: Durability,
        write: impl FnOnce(&mut dyn Edit) -> Result<R, StoreError>,
    ) -> Result<(R, u64), StoreError> {
        self.check_writable()?;
        self.throttle()?;
        let mut writer = self.lock_writer();
        branch.check_alive()?;
        writer.begin_writes(branch.id());
        let result = {
            let tree = branch.tree(self.forest())?;
            let floor = tree.floor();
            let (forest, now, batch) = (self.forest(), Now::default(), writer.batch_mut());
            write(&mut Draft { forest, tree: &tree, floor, now, batch })?
        };
        let version = self.apply_batch(&mut writer, branch)?;
        let logged = writer.version();
        drop(writer);
        self.wait_durable(logged, durability)?;
        Ok((result, version))
    }

    /// Applies and logs the batch of the writer, and retains what the branch is then if each commit is. Returns the version
    /// of its last operation; what was logged goes as far as the writer's.
    pub(crate) fn apply_batch(&self, writer: &mut Writer, branch: &BranchState) -> Result<u64, StoreError> {
        self.check_poison()?;
        if writer.batch().is_empty() {
            return Ok(writer.version());
        }
        if branch.due().concern(writer.batch()) {
            let tree = branch.tree(self.forest())?;
            branch.due().maintain(self.forest(), &tree, writer.batch_mut())?;
        }
        self.apply_prepared(writer, branch)
    }

    /// As [`apply_batch`](Self::apply_batch), of a batch that has the entries of pairs that end.
    pub(crate) fn apply_prepared(
        &self,
        writer: &mut Writer,
        branch: &BranchState,
    ) -> Result<u64, StoreError> {
        self.check_poison()?;
        if writer.batch().has_blobs() {
            let tree = branch.tree(self.forest())?;
            blob::maintain(self.forest(), &tree, writer.batch_mut())?;
            branch.marks().expect();
        }
        if branch.indexes().concern(writer.batch()) {
            // The writer's lock keeps the tree as it is, and others go on reading it.
            let tree = branch.tree(self.forest())?;
            branch.indexes().maintain(self.forest(), &tree, writer.batch_mut())?;
        }
        let count = writer.batch().len();
        // Parts that come before the record take one version each.
        let first = writer.version() + 1 + record::parts_before(writer.batch().body().len());
        let mut slot = branch.slot_for_commit(writer);
        let tree = slot.tree(self.forest())?;
        // A single operation leaves the tree as it was when it fails; several need their nodes at hand first.
        let single = count == 1;
        if !single {
            for op in writer.batch().iter() {
                tree.prepare(self.forest(), op.key())?;
            }
        }
        if let Err(error) = record::apply(tree, self.forest(), first, writer.batch().operations()) {
            return Err(if single { error } else { self.poison(error) });
        }
        let last = self.append_batch(writer, count as u32)?;
        debug_assert_eq!(last, first + count as u64 - 1);
        drop(slot);
        self.retain_if_each(writer, branch)?;
        Ok(last)
    }

    /// Logs a batch that has no operation.
    pub(crate) fn log_empty(&self, writer: &mut Writer) -> Result<u64, StoreError> {
        self.check_poison()?;
        self.append_batch(writer, 1)
    }
}
