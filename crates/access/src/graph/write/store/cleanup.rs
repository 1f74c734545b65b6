//! Dropping syncs that are no longer needed.

use super::GraphStore;
use crate::graph::error::GraphError;
use crate::graph::model::{Sync, SyncKind};

impl GraphStore {
    /// Drops syncs that are no longer needed: of finished full ones all but the latest `keep` (at least one), and what was
    /// begun before the oldest of those that stay. Returns the ids of those dropped. A sync that was open is
    /// [suspended](Self::suspend). With fewer finished full syncs than `keep`, all stay.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn cleanup(&mut self, keep: usize) -> Result<Vec<String>, GraphError> {
        self.usable()?;
        self.suspend()?;
        let Some(pack) = &self.pack else { return Ok(Vec::new()) };
        let is_full = |sync: &Sync| sync.kind == SyncKind::Full && sync.ended_at.is_some();
        let mut full: Vec<&Sync> = pack.syncs().filter(|sync| is_full(sync)).collect();
        full.sort_by_key(|sync| (sync.ended_at, &sync.id));
        let Some(first) = full.len().checked_sub(keep.max(1)) else { return Ok(Vec::new()) };
        let stay = full.get(first..).unwrap_or_default();
        let Some(oldest) = stay.iter().map(|sync| sync.started_at).min() else { return Ok(Vec::new()) };
        let goes = |sync: &Sync| match is_full(sync) {
            true => stay.iter().all(|kept| kept.id != sync.id),
            false => sync.started_at < oldest,
        };
        let dropped: Vec<String> =
            pack.syncs().filter(|sync| goes(sync)).map(|sync| sync.id.clone()).collect();
        if !dropped.is_empty() {
            self.rewrite(None, |sync| !dropped.contains(&sync.id))?;
        }
        Ok(dropped)
    }

    /// Drops syncs that are in the file.
    pub(crate) fn drop_syncs(&mut self, syncs: &[Sync]) -> Result<(), GraphError> {
        self.usable()?;
        self.rewrite(None, |sync| syncs.iter().all(|dropped| dropped.id != sync.id))
    }
}
