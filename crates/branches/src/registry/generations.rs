//! Leases of generations that are not the current one, and what is made of them.

use super::{Given, Registry, Retired, State, Wanted};
use crate::{
    branch::Branch,
    doors::Holder,
    error::{EngineError, GenerationError, LeaseError, SourceError},
    journal::LeaseRecord,
    model::{BranchView, Policy, SnapshotKind, SnapshotView},
    source::manifest::SourceRecord,
};
use std::sync::Arc;

impl Registry {
    /// The records of all sources.
    pub(crate) fn sources(&self) -> Vec<SourceRecord> {
        self.state().sources.values().cloned().collect()
    }

    /// The record of the source that is meant: the one of that name, or the only one.
    ///
    /// # Errors
    /// There is none, or it is not clear which.
    pub(crate) fn picked_source(&self, wanted: Option<&str>) -> Result<SourceRecord, EngineError> {
        let state = self.state();
        let name = state.pick_source(wanted)?;
        Ok(state.sources.get(&name).cloned().ok_or(SourceError::NoGeneration { name })?)
    }

    /// The branch that has the name of a create already, if it is of the generation that is asked for.
    ///
    /// # Errors
    /// It is another one; or more leases than there may be.
    pub(crate) fn existing_of_generation(
        &self,
        wanted: &Wanted,
        source: &str,
        number: u32,
    ) -> Result<Option<BranchView>, EngineError> {
        let state = self.state();
        if let Some(view) = state.existing_of(wanted, source, number)? {
            return Ok(Some(view));
        }
        state.has_place(wanted)?;
        wanted.capacity.shortage.map_or(Ok(None), |shortage| Err(LeaseError::NoRoom(shortage).into()))
    }

    /// Takes a ready branch of the current generation, if that is the one that is asked for.
    pub(crate) fn take_ready_of(&self, source: &str, policy: Policy, number: u32) -> Option<Arc<Branch>> {
        let mut state = self.state();
        let current = state.pools.generations.get(source)?;
        if current.manifest.generation != number {
            return None;
        }
        let branch = state.pools.take(source, policy)?;
        if branch.is_fit() == Some(true) {
            return Some(branch);
        }
        state.pools.retired.push_back(Retired::whole(branch));
        None
    }

    /// Leases a branch of any generation, unless another create took the name, or the last place, meanwhile.
    ///
    /// # Errors
    /// As for a lease out of the pool. The branch is retired then.
    pub(crate) fn lease_of_generation(
        &self,
        branch: &Arc<Branch>,
        wanted: &Wanted,
        is_closing: bool,
    ) -> Result<Given, EngineError> {
        let mut state = self.state();
        let (source, number) = (branch.generation.source.clone(), branch.generation.manifest.generation);
        let refused = match state.existing_of(wanted, &source, number) {
            Ok(Some(view)) => Ok(Given::Existing(view)),
            Err(error) => Err(error),
            Ok(None) => match state.has_place(wanted) {
                Err(error) => Err(error),
                Ok(())
                    if is_closing
                        || branch.losses != state.pools.losses
                        || !state.sources.contains_key(&source) =>
                {
                    Err(LeaseError::SourceChanged { name: source }.into())
                }
                Ok(()) => {
                    let record = LeaseRecord::of(branch, wanted, wanted.id());
                    match self.write_lease(&mut state, branch, wanted, record) {
                        Ok(record) => return Ok(Given::Leased(record)),
                        Err(error) => Err(error),
                    }
                }
            },
        };
        state.pools.retired.push_back(Retired::whole(Arc::clone(branch)));
        refused
    }

    /// The snapshots of branches of a source that can be used, with the names and generations of the branches.
    pub(crate) fn snapshots_of_source(
        &self,
        source: &str,
        by: Option<&Holder>,
    ) -> Vec<(String, u32, SnapshotView)> {
        let state = self.state();
        let leases = state.leases.values().filter(|lease| lease.record.source == source && lease.is_for(by));
        leases
            .flat_map(|lease| {
                let own = state.snapshots.values().filter(|it| it.lease == lease.record.id);
                own.filter(|it| it.kind != SnapshotKind::Base && it.problem.is_none())
                    .map(|it| (lease.record.name.clone(), it.generation, SnapshotView::from(it)))
            })
            .collect()
    }
}

impl State {
    fn existing_of(
        &self,
        wanted: &Wanted,
        source: &str,
        number: u32,
    ) -> Result<Option<BranchView>, EngineError> {
        let Some(view) = self.existing(wanted, source)? else { return Ok(None) };
        if view.generation == number && view.parent.is_none() {
            return Ok(Some(view));
        }
        let (name, is) = (view.name, view.generation);
        Err(GenerationError::NameClash { name, is, wanted: number }.into())
    }
}
