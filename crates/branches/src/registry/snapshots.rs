//! The snapshots of branches that are kept.

use super::{Registry, State};
use crate::{
    branch::Branch,
    capacity::Capacity,
    doors::Holder,
    error::{EngineError, LeaseError, LineageError},
    journal::{Base, LeaseRecord, SnapshotRecord},
    lineage::{capture::Subject, NAMED_MAX},
    model::{BranchView, SnapshotKind, SnapshotView, TreeNode},
    registry::{leases, Given, Wanted},
};
use duramen_base::suggest;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// A branch of which another one is to be made.
#[derive(Debug)]
pub(crate) struct ParentOf {
    pub(crate) subject: Subject,
    pub(crate) snapshot: Option<SnapshotRecord>,
}

/// A branch whose automatic snapshots have to be looked at.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) subject: Subject,
    /// Seconds between two of them, if some are taken at an interval.
    pub(crate) every_s: Option<u32>,
    /// When the last one was taken.
    pub(crate) last: Option<Timestamp>,
}

/// A lease among those that it was made of.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) node: TreeNode,
    pub(crate) branch: Arc<Branch>,
}

impl Registry {
    /// Takes over the snapshots that an earlier daemon kept; those that nothing needs end.
    ///
    /// # Errors
    /// When an end cannot be journalled.
    pub(crate) fn adopt_snapshots(&self, snapshots: Vec<SnapshotRecord>) -> Result<(), EngineError> {
        let mut state = self.state();
        state.snapshots = snapshots.into_iter().map(|record| (record.id.clone(), record)).collect();
        self.end_unneeded(&mut state)
    }

    /// The branch that another one is made of, and its snapshot, if one is named; or the branch that has the name already.
    ///
    /// # Errors
    /// No such branch or snapshot, one that does not work, or more leases than there may be.
    pub(crate) fn parent(
        &self,
        from: &crate::lineage::From,
        wanted: &Wanted,
    ) -> Result<Result<ParentOf, Box<BranchView>>, EngineError> {
        let mut state = self.state();
        let by = wanted.holder.as_ref();
        let lease = state.find(&from.branch, by)?;
        let (name, id) = (from.branch.clone(), lease.record.id.clone());
        let (source, policy) = (lease.record.source.clone(), lease.record.policy);
        if wanted.source.as_ref().is_some_and(|wanted| *wanted != source) {
            return Err(LineageError::OtherSource { parent: name, source_name: source }.into());
        }
        if wanted.policy != policy {
            return Err(LineageError::OtherPolicy { parent: name, policy }.into());
        }
        let (branch, problem, is_resetting) =
            (Arc::clone(&lease.branch), lease.problem.clone(), lease.resetting);
        if let Some(view) = state.existing_child(wanted, &source, &id, &name)? {
            return Ok(Err(Box::new(view)));
        }
        let snapshot = match &from.snapshot {
            Some(wanted) => Some(state.snapshot(&name, &id, wanted)?.clone()),
            None if is_resetting => return Err(LeaseError::Resetting { name }.into()),
            None => match problem {
                Some(problem) => return Err(LeaseError::Failed { name, problem }.into()),
                None => None,
            },
        };
        state.has_place(wanted)?;
        let Capacity { shortage, .. } = wanted.capacity;
        if let Some(shortage) = shortage {
            return Err(LeaseError::NoRoom(shortage).into());
        }
        Ok(Ok(ParentOf { subject: Subject { name, id, branch }, snapshot }))
    }

    /// Leases a branch that was made of another one, unless another create took the name meanwhile.
    ///
    /// # Errors
    /// As for a lease out of the pool; or the snapshot has ended. The branch is retired then.
    pub(crate) fn lease_child(
        &self,
        branch: &Arc<Branch>,
        wanted: &Wanted,
        base: &Base,
        inherited: &str,
        is_closing: bool,
    ) -> Result<Given, EngineError> {
        let mut state = self.state();
        let source = branch.generation.source.clone();
        let refused = match state.existing_child(wanted, &source, &base.branch, &base.name) {
            Ok(Some(view)) => Ok(Given::Existing(view)),
            Err(error) => Err(error),
            Ok(None) => match state.has_place(wanted) {
                Err(error) => Err(error),
                Ok(()) if is_closing || branch.losses != state.pools.losses => {
                    Err(LeaseError::Interrupted { name: base.name.clone() }.into())
                }
                Ok(()) if !state.snapshots.contains_key(&base.snapshot) => {
                    Err(no_snapshot(&base.name, &base.snapshot, None))
                }
                Ok(()) => {
                    let mut record = LeaseRecord::of(branch, wanted, wanted.id());
                    record.base = Some(base.clone());
                    record.inherited = Some(inherited.to_owned());
                    match self.write_lease(&mut state, branch, wanted, record) {
                        Ok(record) => return Ok(Given::Leased(record)),
                        Err(error) => Err(error),
                    }
                }
            },
        };
        state.pools.retired.push_back(super::Retired::whole(Arc::clone(branch)));
        refused
    }

    /// What the lease `id` was made of, if that is a snapshot of another branch.
    ///
    /// # Errors
    /// When the lease has ended, or the snapshot is gone, or not used any more.
    pub(crate) fn base_of(&self, name: &str, id: &str) -> Result<Option<SnapshotRecord>, EngineError> {
        let mut state = self.state();
        let Some(base) = state.held(name, id)?.record.base.clone() else { return Ok(None) };
        let record = state.snapshots.get(&base.snapshot);
        let record = record.ok_or_else(|| no_snapshot(&base.name, &base.snapshot, None))?;
        usable(&base.name, record)?;
        Ok(Some(record.clone()))
    }

    /// Keeps a snapshot, written down first.
    ///
    /// # Errors
    /// The branch has ended, has one of that name, or has too many; or it cannot be journalled. The volume is the caller's then.
    pub(crate) fn keep_snapshot(&self, name: &str, record: &SnapshotRecord) -> Result<(), EngineError> {
        let mut state = self.state();
        state.held(name, &record.lease)?;
        if record.kind == SnapshotKind::Named {
            let own = || state.snapshots.values().filter(|it| it.lease == record.lease);
            if let Some(wanted) = &record.name {
                if own().any(|it| it.name.as_ref() == Some(wanted)) {
                    let (branch, name) = (name.to_owned(), wanted.clone());
                    return Err(LineageError::SnapshotExists { branch, name }.into());
                }
            }
            if own().filter(|it| it.kind == SnapshotKind::Named).count() >= NAMED_MAX {
                return Err(LineageError::TooMany { branch: name.to_owned(), limit: NAMED_MAX }.into());
            }
        }
        self.journal.put_snapshot(record)?;
        state.snapshots.insert(record.id.clone(), record.clone());
        Ok(())
    }

    /// The snapshots of a branch that it can go back to, the earliest first.
    pub(crate) fn snapshots(
        &self,
        name: &str,
        by: Option<&Holder>,
    ) -> Result<Vec<SnapshotView>, EngineError> {
        let mut state = self.state();
        let id = state.find(name, by)?.record.id.clone();
        Ok(state.views_of(&id))
    }

    /// A snapshot of a branch by its name, its id, or a time, and who the branch is.
    pub(crate) fn find_snapshot(
        &self,
        name: &str,
        by: Option<&Holder>,
        wanted: &str,
    ) -> Result<SnapshotRecord, EngineError> {
        let mut state = self.state();
        let id = state.find(name, by)?.record.id.clone();
        state.snapshot(name, &id, wanted).cloned()
    }

    /// The snapshot that a branch goes back to when what was done last is undone.
    pub(crate) fn snapshot_to_undo(
        &self,
        name: &str,
        by: Option<&Holder>,
    ) -> Result<SnapshotRecord, EngineError> {
        let mut state = self.state();
        let id = state.find(name, by)?.record.id.clone();
        let of_reset = |it: &&SnapshotRecord| {
            it.lease == id && matches!(it.kind, SnapshotKind::BeforeReset | SnapshotKind::BeforeRestore)
        };
        let newest = state.snapshots.values().filter(of_reset).max_by_key(|it| it.taken_at);
        let newest = newest.ok_or_else(|| LineageError::NothingToUndo { branch: name.to_owned() })?;
        usable(name, newest)?;
        Ok(newest.clone())
    }

    /// Ends a snapshot of a branch. What a child was made of stays as long as the child does.
    pub(crate) fn remove_snapshot(
        &self,
        name: &str,
        by: Option<&Holder>,
        wanted: &str,
    ) -> Result<SnapshotView, EngineError> {
        let mut state = self.state();
        let id = state.find(name, by)?.record.id.clone();
        let closest = suggest::closest(wanted, state.snapshot_names(&id)).map(str::to_owned);
        let own = state.snapshots.values().filter(|it| it.lease == id && it.kind != SnapshotKind::Base);
        let found = own.clone().find(|it| it.name.as_deref() == Some(wanted) || it.id == wanted);
        let Some(found) = found else { return Err(no_snapshot(name, wanted, closest)) };
        let view = SnapshotView::from(found);
        self.end_snapshot(&mut state, &view.id)?;
        Ok(view)
    }

    /// Ends those of the automatic snapshots of a branch that are too old, or too many; all, if there is no room for them.
    pub(crate) fn end_old_snapshots(
        &self,
        lease: &str,
        now: Timestamp,
        is_short: bool,
    ) -> Result<(), EngineError> {
        let mut state = self.state();
        let automatic = |it: &&SnapshotRecord| {
            it.lease == lease && !matches!(it.kind, SnapshotKind::Named | SnapshotKind::Base)
        };
        let mut own: Vec<_> = state.snapshots.values().filter(automatic).collect();
        let Some(source) = own.first().map(|it| it.source.clone()) else { return Ok(()) };
        let (keep, keep_s) = state.kept_snapshots(&source);
        let keep = if is_short { 0 } else { keep };
        own.sort_by_key(|it| std::cmp::Reverse(it.taken_at));
        let oldest = now.checked_sub(SignedDuration::from_secs(keep_s.into())).unwrap_or(Timestamp::MIN);
        let over = own.iter().enumerate().filter(|(index, it)| *index >= keep || it.taken_at < oldest);
        let over: Vec<String> = over.map(|(_, it)| it.id.clone()).collect();
        over.iter().try_for_each(|id| self.end_snapshot(&mut state, id))
    }

    /// The branches that have snapshots, or of whose source some are taken at an interval.
    pub(crate) fn watched_snapshots(&self) -> Vec<Watched> {
        let state = self.state();
        let mut last: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for record in state.snapshots.values().filter(|it| it.kind != SnapshotKind::Base) {
            let newest = last.entry(record.lease.as_str()).or_insert(record.taken_at);
            *newest = (*newest).max(record.taken_at);
        }
        let working = state.leases.values().filter(|lease| lease.problem.is_none() && !lease.resetting);
        working
            .filter_map(|lease| {
                let record = &lease.record;
                let source = state.sources.get(&record.source);
                let every_s = source.and_then(|source| source.settings.snapshots.every_s);
                let last = last.get(record.id.as_str()).copied();
                let branch = Arc::clone(&lease.branch);
                let subject = Subject { name: record.name.clone(), id: record.id.clone(), branch };
                (every_s.is_some() || last.is_some()).then_some(Watched { subject, every_s, last })
            })
            .collect()
    }

    /// The leases with what they were made of, by name, and the bytes that their snapshots hold.
    pub(crate) fn placed(&self, by: Option<&Holder>) -> Vec<Placed> {
        let state = self.state();
        let mut placed: Vec<Placed> = state
            .leases
            .values()
            .filter(|lease| lease.is_for(by))
            .map(|lease| {
                let view = leases::view(lease);
                let node = TreeNode {
                    snapshots: state.views_of(&view.id),
                    name: view.name,
                    id: view.id,
                    source: view.source,
                    generation: view.generation,
                    parent: view.parent,
                    created_at: view.created_at,
                    expires_at: view.expires_at,
                    state: view.state,
                    own_bytes: None,
                    shared_bytes: None,
                };
                Placed { node, branch: Arc::clone(&lease.branch) }
            })
            .collect();
        placed.sort_by(|a, b| a.node.name.cmp(&b.node.name));
        placed
    }

    /// How many automatic snapshots are kept of a branch of a source.
    pub(crate) fn keeps_snapshots(&self, source: &str) -> bool {
        self.state().kept_snapshots(source).0 > 0
    }

    fn end_snapshot(&self, state: &mut State, id: &str) -> Result<(), EngineError> {
        let is_base = state.bases().contains(id);
        let Some(record) = state.snapshots.get_mut(id) else { return Ok(()) };
        if is_base {
            let changed = SnapshotRecord { name: None, kind: SnapshotKind::Base, ..record.clone() };
            self.journal.put_snapshot(&changed)?;
            *record = changed;
            return Ok(());
        }
        self.journal.end_snapshot(id)?;
        state.snapshots.remove(id);
        state.pools.retired_volumes.push_back(id.to_owned());
        Ok(())
    }

    /// Ends every snapshot whose branch has ended, or that was only a child's base, and that no child has.
    pub(super) fn end_unneeded(&self, state: &mut State) -> Result<(), EngineError> {
        if state.snapshots.is_empty() {
            return Ok(());
        }
        let bases = state.bases();
        let leases: HashSet<&str> = state.leases.values().map(|lease| lease.record.id.as_str()).collect();
        let is_needed = |it: &SnapshotRecord| {
            bases.contains(&it.id)
                || (it.kind != SnapshotKind::Base && leases.contains(it.lease.as_str()))
                || state.making.contains(&it.id)
        };
        let over: Vec<String> =
            state.snapshots.values().filter(|it| !is_needed(it)).map(|it| it.id.clone()).collect();
        over.iter().try_for_each(|id| self.end_snapshot(state, id))
    }

    /// Notes that no snapshot can lose anything any more with the machine.
    pub(crate) fn note_snapshots_flushed(&self, boot: &str) -> Result<(), EngineError> {
        let mut state = self.state();
        state.snapshots.values_mut().filter(|it| it.boot != boot).try_for_each(|record| {
            boot.clone_into(&mut record.boot);
            self.journal.put_snapshot(record)
        })
    }

    /// Keeps a snapshot of which a child is being made from ending meanwhile.
    pub(crate) fn begin_child(&self, id: &str) {
        self.state().making.push(id.to_owned());
    }

    /// The child is made, or is not.
    pub(crate) fn end_child(&self, id: &str) -> Result<(), EngineError> {
        let mut state = self.state();
        if let Some(index) = state.making.iter().position(|making| making == id) {
            state.making.swap_remove(index);
        }
        self.end_unneeded(&mut state)
    }
}

impl State {
    fn bases(&self) -> HashSet<String> {
        let bases = self.leases.values().filter_map(|lease| lease.record.base.as_ref());
        bases.map(|base| base.snapshot.clone()).collect()
    }

    fn views_of(&self, lease: &str) -> Vec<SnapshotView> {
        let own = self.snapshots.values().filter(|it| it.lease == lease && it.kind != SnapshotKind::Base);
        let mut views: Vec<SnapshotView> = own.map(SnapshotView::from).collect();
        views.sort_by_key(|view| view.taken_at);
        views
    }

    fn snapshot_names<'a>(&'a self, lease: &'a str) -> impl Iterator<Item = &'a str> {
        let own = self.snapshots.values().filter(move |it| it.lease == lease);
        own.filter_map(|it| it.name.as_deref())
    }

    /// A snapshot of a lease that can be used.
    fn snapshot(&self, name: &str, lease: &str, wanted: &str) -> Result<&SnapshotRecord, EngineError> {
        let own = || self.snapshots.values().filter(|it| it.lease == lease && it.kind != SnapshotKind::Base);
        let named =
            own().find(|it| it.name.as_deref() == Some(wanted)).or_else(|| own().find(|it| it.id == wanted));
        let found = match (named, wanted.parse::<Timestamp>()) {
            (Some(found), _) => found,
            (None, Ok(time)) => {
                let newest = own().filter(|it| it.taken_at <= time).max_by_key(|it| it.taken_at);
                newest.ok_or_else(|| LineageError::NoneSoEarly { branch: name.to_owned(), wanted: time })?
            }
            (None, Err(_)) => {
                let closest = suggest::closest(wanted, self.snapshot_names(lease)).map(str::to_owned);
                return Err(no_snapshot(name, wanted, closest));
            }
        };
        usable(name, found)?;
        Ok(found)
    }

    fn kept_snapshots(&self, source: &str) -> (usize, u32) {
        use crate::model::SnapshotSettings;
        let settings = self.sources.get(source).map(|it| it.settings.snapshots).unwrap_or_default();
        let keep = settings.keep.unwrap_or(SnapshotSettings::KEEP);
        (keep as usize, settings.keep_s.unwrap_or(SnapshotSettings::KEEP_S))
    }

    /// The branch that a create with this name gets without making one.
    fn existing_child(
        &self,
        wanted: &Wanted,
        source: &str,
        parent: &str,
        parent_name: &str,
    ) -> Result<Option<BranchView>, EngineError> {
        let Some(view) = self.existing(wanted, source)? else { return Ok(None) };
        if view.parent.as_ref().is_some_and(|it| it.id == parent) {
            return Ok(Some(view));
        }
        Err(LineageError::NameClash { name: view.name, parent: parent_name.to_owned() }.into())
    }
}

/// L8.
fn usable(branch: &str, record: &SnapshotRecord) -> Result<(), EngineError> {
    match &record.problem {
        None => Ok(()),
        Some(problem) => Err(LineageError::Damaged {
            branch: branch.to_owned(),
            id: record.id.clone(),
            problem: problem.clone(),
        }
        .into()),
    }
}

fn no_snapshot(branch: &str, wanted: &str, closest: Option<String>) -> EngineError {
    LineageError::NoSnapshot { branch: branch.to_owned(), wanted: wanted.to_owned(), closest }.into()
}
