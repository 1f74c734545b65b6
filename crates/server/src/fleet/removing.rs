//! Sources that are removed: everywhere by their keeper, and by whoever is left once that was forgotten.

use super::{
    places,
    sources::{busy, silent, told, unread, Seen, TRIES},
    Peers,
};
use duramen_base::file;
use duramen_branches::{EngineError, Kind, LocalSource};
use duramen_fleet::{
    record::{GenerationRecord, SourceRecord},
    sources::{ChangeError, Was},
    view::{NodeState, NodeView, SourceSeen},
};
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::sleep;

/// So many ids of removed sources are kept, the latest.
const REMOVED_MAX: usize = 4096;
/// How long copies that were not dropped at once are asked for again, at first and at most, and how often.
const DROP_PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5 * 60));
const DROP_TRIES: u32 = 300;
/// So many removals wait for that at a time.
pub(super) const DROPS_MAX: usize = 64;

/// The ids of sources that were removed here, in `HOME/fleet/removed.json`: a definition of one that an etcd which was put back to an earlier
/// day has again is ended, and not followed.
#[derive(Debug)]
pub(super) struct Removed {
    path: PathBuf,
    ids: Mutex<Vec<String>>,
}

impl Removed {
    pub(super) fn open(dir: &Path) -> Removed {
        let path = dir.join("removed.json");
        let ids = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let ids = ids.unwrap_or_else(|error| {
            tracing::warn!(%error, "{} cannot be read: it is begun anew", path.display());
            Vec::new()
        });
        Removed { path, ids: Mutex::new(ids) }
    }

    fn has(&self, id: &str) -> bool {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|known| known == id)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut ids);
        let excess = ids.len().saturating_sub(REMOVED_MAX);
        ids.drain(..excess);
        let written = serde_json::to_vec(&*ids).map_err(io::Error::from);
        if let Err(error) = written.and_then(|text| file::replace(&self.path, &text, 0o600)) {
            tracing::warn!(%error, "{} is not written: an etcd that is put back to an earlier day may bring a removed source back", self.path.display());
        }
    }
}

impl Peers {
    /// Removes a source: everywhere, if this node keeps it, or if the node that kept it was forgotten; else what this node has of it and
    /// has no place for.
    pub(crate) async fn remove_source(self: &Arc<Self>, name: &str) -> Result<(), EngineError> {
        let Some(_removing) = self.changing.begin(name) else { return Err(busy(name)) };
        let Some(local) = self.local(name) else { return self.remove_definition(name).await };
        let Some(of) = local.fleet else { return self.engine.remove_source(name).await };
        if of.is_kept_here {
            self.engine.check_unused(name)?;
            let ended = self.end_definition(name, &of.id, false).await?;
            self.removed.change(|ids| ids.push(of.id.clone()));
            if let Err(error) = self.engine.remove_source(name).await {
                // It is here still, and defined again by the next look.
                self.removed.change(|ids| ids.retain(|id| *id != of.id));
                return Err(error);
            }
            self.have_all_dropped(name, &of.id, ended).await;
            return Ok(());
        }
        let defined = self.fleet.source(name).await.map_err(silent)?;
        let record = defined.and_then(|it| it.record).filter(|record| record.id == of.id);
        if let Some(record) = record {
            if !self.fleet.view().is_member(&record.keeper) {
                self.engine.check_unused(name)?;
                self.end_definition(name, &of.id, true).await?;
            } else if record.places.iter().any(|node| node == self.node()) {
                let message = format!(
                    "the fleet has a place for {name} on this node; remove it on {}, which keeps it, or have it on fewer nodes there: duramen source \
                     settings {name} --replicas {}",
                    record.keeper,
                    record.replicas.saturating_sub(1).max(1)
                );
                return Err(EngineError::new(Kind::Conflict, "source_is_a_copy", message));
            }
        }
        self.engine.remove_source(name).await
    }

    /// Ends the definition of a source of which this node has nothing: one that it kept in a home that was lost, or whose keeper was
    /// forgotten.
    async fn remove_definition(self: &Arc<Self>, name: &str) -> Result<(), EngineError> {
        let Some(found) = self.fleet.source(name).await.map_err(silent)? else {
            return self.engine.remove_source(name).await;
        };
        let Some(record) = found.record else { return Err(unread(name)) };
        let is_kept_here = record.keeper == self.node();
        if !is_kept_here && self.fleet.view().is_member(&record.keeper) {
            return self.engine.remove_source(name).await;
        }
        let ended = self.end_definition(name, &record.id, !is_kept_here).await?;
        if is_kept_here {
            self.removed.change(|ids| ids.push(record.id.clone()));
            self.have_all_dropped(name, &record.id, ended).await;
        }
        Ok(())
    }

    /// Ends a definition; what it was, if it was there. That of a keeper that was forgotten is ended unless that is a node of the fleet
    /// again.
    async fn end_definition(
        &self,
        name: &str,
        id: &str,
        is_forgotten: bool,
    ) -> Result<Option<SourceRecord>, EngineError> {
        for _ in 0..TRIES {
            let Some(found) = self.fleet.source(name).await.map_err(silent)? else { return Ok(None) };
            let Some(record) = found.record else { return Err(unread(name)) };
            if record.id != id {
                return Ok(None);
            }
            let was = match is_forgotten {
                true => Was::Lost(found.revision, &record.keeper, 0),
                false => Was::Revision(found.revision),
            };
            match self.fleet.change_source(name, was, None).await {
                Ok(_) => return Ok(Some(record)),
                Err(ChangeError::Changed { .. }) => {}
                Err(error) => return Err(told(error)),
            }
        }
        Err(super::sources::moves(name))
    }

    /// Has the copies of a source dropped that is removed; by those that cannot be asked now, later.
    async fn have_all_dropped(self: &Arc<Self>, name: &str, id: &str, ended: Option<SourceRecord>) {
        let has = |node: &NodeView| {
            let copies = node.record.iter().flat_map(|record| &record.capacity.copies);
            copies.into_iter().any(|copy| copy.source == name && copy.id.as_deref() == Some(id))
        };
        let seen = self.seen();
        let with_it = seen.nodes.iter().filter(|node| has(node)).map(|node| node.name.clone());
        let placed = ended.into_iter().flat_map(|record| record.places);
        let mut nodes: HashSet<String> = with_it.chain(placed).filter(|node| node != self.node()).collect();
        self.have_dropped_by(&mut nodes, name, id).await;
        if nodes.is_empty() {
            return;
        }
        let Ok(place) = Arc::clone(&self.drops).try_acquire_owned() else {
            tracing::warn!(
                name,
                ?nodes,
                "copies of a removed source are left: end them there by `duramen source remove`"
            );
            return;
        };
        let (peers, name, id) = (Arc::clone(self), name.to_owned(), id.to_owned());
        tokio::spawn(async move {
            let mut pause = DROP_PAUSE.0;
            for _ in 0..DROP_TRIES {
                sleep(pause).await;
                pause = pause.saturating_mul(2).min(DROP_PAUSE.1);
                peers.have_dropped_by(&mut nodes, &name, &id).await;
                if nodes.is_empty() {
                    break;
                }
            }
            drop(place);
        });
    }

    /// Asks these nodes; those that have it still are left.
    async fn have_dropped_by(&self, nodes: &mut HashSet<String>, name: &str, id: &str) {
        for node in nodes.clone() {
            match self.have_dropped(&node, name, id).await {
                Ok(()) => drop(nodes.remove(&node)),
                Err(why) => {
                    tracing::info!(
                        node,
                        name,
                        why,
                        "a copy of a removed source is left for now: it serves nothing"
                    );
                }
            }
        }
    }

    /// Ends the definition of a source that was removed here: etcd was put back to an earlier day. Tells whether it was one.
    pub(super) async fn end_removed(self: &Arc<Self>, name: &str, found: &SourceSeen) -> bool {
        let Some(record) = &found.record else { return false };
        if record.keeper != self.node() || !self.removed.has(&record.id) || self.changing.has(name) {
            return false;
        }
        if self.local(name).is_some_and(|local| local.fleet.is_some_and(|of| of.id == record.id)) {
            return false;
        }
        match self.fleet.change_source(name, Was::Revision(found.revision), None).await {
            Ok(_) => {
                tracing::warn!(
                    name,
                    "the definition of a source that was removed here had come back, and is ended"
                );
                self.have_all_dropped(name, &record.id, Some(record.clone())).await;
            }
            Err(error) => tracing::debug!(%error, name, "the definition of a removed source is ended later"),
        }
        true
    }

    /// Has the fleet go on with what there is of a source whose keeper was forgotten before anybody had its latest generation.
    pub(super) async fn settle_for(&self, name: &str, found: &SourceSeen, here: &LocalSource, seen: &Seen) {
        let Some(record) = &found.record else { return };
        let Some(wanted) = &record.generation else { return };
        let is_its = here.fleet.as_ref().is_some_and(|of| of.id == record.id);
        if !is_its || here.digest.is_empty() || here.generation >= wanted.number {
            return;
        }
        if self.fleet.view().is_member(&record.keeper)
            || !places::senders(name, record, &seen.nodes, self.node()).is_empty()
        {
            return;
        }
        let is_newer = |node: &NodeView| {
            let copies = node.record.iter().flat_map(|record| &record.capacity.copies);
            matches!(node.state, NodeState::Ready | NodeState::Draining)
                && copies.into_iter().any(|copy| {
                    copy.source == name
                        && copy.id.as_deref() == Some(&record.id)
                        && copy.generation > here.generation
                })
        };
        if seen.nodes.iter().any(is_newer) {
            return;
        }
        let latest = GenerationRecord {
            number: here.generation,
            digest: here.digest.clone(),
            bytes: here.bytes,
            manifest: here.manifest.clone(),
        };
        let changed = SourceRecord { generation: Some(latest), ..record.clone() };
        let was = Was::Lost(found.revision, &record.keeper, 0);
        match self.fleet.change_source(name, was, Some(&changed)).await {
            Ok(_) => tracing::warn!(
                name,
                generation = here.generation,
                "the latest generation of a source went with its keeper: an earlier one counts"
            ),
            Err(error) => tracing::debug!(%error, name, "an earlier generation counts later"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_sources_are_remembered_and_only_so_many() {
        let dir = tempfile::tempdir().expect("a directory");
        let removed = Removed::open(dir.path());
        removed.change(|ids| ids.extend((0..=REMOVED_MAX).map(|number| format!("s-{number}"))));
        let removed = Removed::open(dir.path());
        assert!(!removed.has("s-0") && removed.has("s-1") && removed.has(&format!("s-{REMOVED_MAX}")));
        removed.change(|ids| ids.retain(|id| id != "s-1"));
        assert!(!Removed::open(dir.path()).has("s-1"));
        // What cannot be read costs nothing but what it said.
        fs::write(dir.path().join("removed.json"), "{").expect("a file");
        assert!(!Removed::open(dir.path()).has("s-2"));
    }
}
