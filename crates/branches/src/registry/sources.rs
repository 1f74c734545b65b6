//! The sources that are held.

use super::{Registry, State};
use crate::{
    branch::Branch,
    error::{EngineError, SourceError},
    generation::Generation,
    limits::Applied,
    model::{PoolSize, SourceSettings},
    source::manifest::SourceRecord,
};
use duramen_base::suggest;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

impl Registry {
    /// The record of a source.
    ///
    /// # Errors
    /// `unknown_source`.
    pub(crate) fn source(&self, name: &str) -> Result<SourceRecord, EngineError> {
        let state = self.state();
        let unknown = || SourceError::Unknown { name: name.to_owned(), closest: state.closest_source(name) };
        Ok(state.sources.get(name).cloned().ok_or_else(unknown)?)
    }

    pub(crate) fn has_source(&self, name: &str) -> bool {
        self.state().sources.contains_key(name)
    }

    pub(crate) fn source_names(&self) -> Vec<String> {
        self.state().sources.keys().cloned().collect()
    }

    /// How branches of a source run; as others do when it has no record.
    pub(crate) fn settings(&self, source: &str) -> SourceSettings {
        self.state().sources.get(source).map(|source| source.settings.clone()).unwrap_or_default()
    }

    /// What new branches of a source are made of.
    pub(crate) fn generation(&self, source: &str) -> Option<Arc<Generation>> {
        self.state().pools.generations.get(source).cloned()
    }

    /// Holds a source of which no branch can be made.
    pub(crate) fn put_source(&self, record: SourceRecord) {
        self.state().sources.insert(record.name.clone(), record);
    }

    /// Holds a source, or what it has become: branches are made of this generation from now on, and what is ready of
    /// the earlier one goes.
    pub(crate) fn replace_source(&self, record: SourceRecord, generation: Arc<Generation>, size: PoolSize) {
        let mut state = self.state();
        state.pools.replace_generation(generation, size);
        state.sources.insert(record.name.clone(), record);
    }

    /// Changes how much of a source is kept ready.
    pub(crate) fn resize_source(&self, record: SourceRecord, size: PoolSize) {
        let mut state = self.state();
        state.pools.forget_failures_of(&record.name);
        state.pools.sizes.insert(record.name.clone(), size);
        state.pools.trim();
        state.sources.insert(record.name.clone(), record);
    }

    /// Forgets a source; `delete_record` is called first, and no lease can come between.
    ///
    /// # Errors
    /// `source_in_use` while branches of it are leased, or what `delete_record` says.
    pub(crate) fn remove_source(
        &self,
        name: &str,
        delete_record: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut state = self.state();
        let held = state.leases.values().filter(|lease| lease.record.source == name).count();
        if held > 0 {
            return Err(SourceError::InUse { name: name.to_owned(), leases: held }.into());
        }
        delete_record()?;
        state.sources.remove(name);
        state.pools.remove_source(name);
        Ok(())
    }

    /// Lets each branch of a source take more or less from now on. The branches that are there, and the names of cold
    /// clones.
    pub(crate) fn set_limits(&self, source: &str, limits: Applied) -> (Vec<Arc<Branch>>, Vec<String>) {
        let state = self.state();
        let pools = state.pools.pools.iter().filter(|(key, _)| key.0 == source);
        let leased = state.leases.values().filter(|lease| lease.record.source == source);
        let branches: Vec<Arc<Branch>> = pools
            .flat_map(|(_, pool)| pool.hot.iter().cloned())
            .chain(leased.map(|lease| Arc::clone(&lease.branch)))
            .collect();
        let current = state.pools.generations.get(source).into_iter();
        for generation in current.chain(branches.iter().map(|branch| &branch.generation)) {
            generation.set_limits(limits);
        }
        let cold = state.pools.cold.get(source).into_iter().flatten();
        (branches, cold.map(|clone| clone.volume.clone()).collect())
    }

    /// How many branches there are of each generation of a source, leased or ready.
    pub(crate) fn branches_by_generation(&self, source: &str) -> BTreeMap<u32, u32> {
        let state = self.state();
        let leased = state.leases.values().filter(|l| l.record.source == source).map(|l| l.record.generation);
        let ready = state.pools.ready().filter(|generation| generation.source == source);
        let mut found = BTreeMap::new();
        for generation in leased.chain(ready.map(|generation| generation.manifest.generation)) {
            *found.entry(generation).or_default() += 1;
        }
        found
    }

    /// The generations, by source and number, that branches are or were made of.
    pub(crate) fn generations_in_use(&self) -> HashSet<(String, u32)> {
        let state = self.state();
        let leased = state.leases.values().map(|l| (l.record.source.clone(), l.record.generation));
        let retired = state.pools.retired.iter().map(|retired| &*retired.branch.generation);
        let made = retired
            .chain(state.pools.ready())
            .map(|generation| (generation.source.clone(), generation.manifest.generation));
        let current = state.sources.values().map(|record| (record.name.clone(), record.generation));
        leased.chain(made).chain(current).collect()
    }
}

impl State {
    /// The source that was probably meant.
    pub(super) fn closest_source(&self, name: &str) -> Option<String> {
        suggest::closest(name, self.sources.keys().map(String::as_str)).map(str::to_owned)
    }
}
