//! Which generations go, and which stay.

use crate::{
    error::{EngineError, GenerationError},
    generation::Generation,
    retention::{self, Dated},
    shared::Shared,
    source::{
        manifest::{self, Manifest, SourceRecord},
        snapshot::snapshot_path,
    },
};
use duramen_api::keep::Period;
use duramen_base::suggest;
use jiff::Timestamp;
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex, MutexGuard, PoisonError,
    },
};

/// What is remembered of generations, so that they are not removed while somebody begins to need one.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    state: Mutex<State>,
    /// Whether something may have become unneeded.
    is_due: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Sources and numbers of those that are held, as often as they are.
    held: Vec<(String, u32)>,
    /// When each was made. It does not change.
    made_at: BTreeMap<(String, u32), Timestamp>,
}

impl Keeping {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it looked at soon what is not needed any more.
    pub(crate) fn look_soon(&self) {
        self.is_due.store(true, Ordering::Release);
    }

    /// Forgets a source: another one may have its name.
    pub(crate) fn forget(&self, source: &str) {
        self.state().made_at.retain(|(name, _), _| name != source);
    }
}

/// A generation that is not removed as long as this lives.
#[derive(Debug)]
pub(crate) struct HeldGeneration<'a> {
    keeping: &'a Keeping,
    source: String,
    pub(crate) number: u32,
}

impl Drop for HeldGeneration<'_> {
    fn drop(&mut self) {
        let mut state = self.keeping.state();
        let is_it = |(source, number): &(String, u32)| *source == self.source && *number == self.number;
        if let Some(index) = state.held.iter().position(is_it) {
            state.held.swap_remove(index);
        }
        self.keeping.look_soon();
    }
}

impl Shared {
    /// Finds a generation by its number or its label, and keeps it from being removed.
    pub(crate) fn hold_generation(
        &self,
        record: &SourceRecord,
        wanted: &str,
    ) -> Result<HeldGeneration<'_>, EngineError> {
        let mut state = self.keeping.state();
        let numbers = manifest::generations(&self.environment.home, &record.name);
        let found = wanted.parse().ok().or_else(|| record.labels.get(wanted).copied());
        let found = found.filter(|number| *number <= record.generation && numbers.contains(number));
        let found = found.or_else(|| self.moment_of(record, wanted));
        let number = found.ok_or_else(|| {
            let closest = suggest::closest(wanted, record.labels.keys().map(String::as_str));
            let (source_name, wanted) = (record.name.clone(), wanted.to_owned());
            GenerationError::Unknown { source_name, wanted, closest: closest.map(str::to_owned) }
        })?;
        state.held.push((record.name.clone(), number));
        Ok(HeldGeneration { keeping: &self.keeping, source: record.name.clone(), number })
    }

    /// The number of a moment, by that or a label.
    fn moment_of(&self, record: &SourceRecord, wanted: &str) -> Option<u32> {
        let number: u32 = wanted.parse().ok().or_else(|| record.labels.get(wanted).copied())?;
        manifest::moments(&self.environment.home, &record.name).contains(&number).then_some(number)
    }

    /// Keeps a generation from being removed that may not be there yet.
    pub(crate) fn hold_number(&self, source: &str, number: u32) -> HeldGeneration<'_> {
        self.keeping.state().held.push((source.to_owned(), number));
        HeldGeneration { keeping: &self.keeping, source: source.to_owned(), number }
    }

    /// Looks for a generation and keeps it from being removed, in one step: what is being removed meanwhile is found before that, or not at all.
    /// `find` gives its number.
    pub(crate) fn hold_found<T>(
        &self,
        source: &str,
        find: impl FnOnce() -> (u32, T),
    ) -> (HeldGeneration<'_>, T) {
        let mut state = self.keeping.state();
        let (number, found) = find();
        state.held.push((source.to_owned(), number));
        (HeldGeneration { keeping: &self.keeping, source: source.to_owned(), number }, found)
    }

    /// A generation that is held, to make branches of.
    pub(crate) fn open_generation(
        &self,
        record: &SourceRecord,
        held: &HeldGeneration<'_>,
    ) -> Result<Generation, EngineError> {
        let environment = &self.environment;
        let (home, store) = (&environment.home, &environment.store);
        let generation = Generation::open(home, store, &record.name, held.number, &record.settings)?;
        generation.check(store)?;
        Ok(generation)
    }

    /// The generations of a source that its rule keeps.
    pub(crate) fn kept_by_rule(&self, record: &SourceRecord) -> BTreeMap<u32, Vec<Period>> {
        self.kept_of(&mut self.keeping.state(), record)
    }

    fn kept_of(&self, state: &mut State, record: &SourceRecord) -> BTreeMap<u32, Vec<Period>> {
        if record.settings.keep.is_empty() {
            return BTreeMap::new();
        }
        let home = &self.environment.home;
        let numbers = manifest::generations(home, &record.name);
        // One above the current one is not served yet, and pushes out nothing.
        let numbers = numbers.into_iter().filter(|number| *number <= record.generation);
        let dated: Vec<Dated> = numbers
            .filter_map(|number| {
                let key = (record.name.clone(), number);
                if let Some(made_at) = state.made_at.get(&key) {
                    return Some((number, *made_at));
                }
                // Of one that cannot be read nobody knows; it goes when no branch needs it.
                let made_at = Manifest::load(home, &record.name, number).ok()?.imported_at;
                state.made_at.insert(key, made_at);
                Some((number, made_at))
            })
            .collect();
        retention::kept(&record.settings.keep, &dated)
    }

    /// Looks after the generations if something may have become unneeded, or there is little room.
    pub(crate) fn look_after_generations(&self) {
        if self.keeping.is_due.swap(false, Ordering::AcqRel) {
            self.remove_unused_generations();
        }
        // What was removed takes its room until the file system has freed it.
        let store = &self.environment.store;
        if !store.volumes.reclaiming(&store.root) && self.is_short_of_room() {
            self.make_room();
        }
    }

    /// Deletes the snapshots that no branch is made of, or was, and that nothing keeps.
    pub(crate) fn remove_unused_generations(&self) {
        let mut state = self.keeping.state();
        for record in self.registry.sources() {
            let unneeded = self.unneeded(&state, &record);
            if unneeded.is_empty() {
                continue;
            }
            let kept = self.kept_of(&mut state, &record);
            for number in unneeded {
                if !kept.contains_key(&number) && self.remove_generation(&mut state, &record.name, number) {
                    tracing::info!(source = record.name, generation = number, "removed an unused generation");
                }
            }
        }
    }

    /// Those that neither a branch nor a label nor anybody needs; a rule may keep them.
    fn unneeded(&self, state: &State, record: &SourceRecord) -> Vec<u32> {
        let mut numbers = manifest::generations(&self.environment.home, &record.name);
        // A number above the current one is being imported.
        numbers.retain(|number| *number < record.generation);
        numbers.extend(manifest::moments(&self.environment.home, &record.name));
        if numbers.is_empty() {
            return numbers;
        }
        let in_use = self.registry.generations_in_use();
        numbers.retain(|number| {
            let key = (record.name.clone(), *number);
            !in_use.contains(&key)
                && !state.held.contains(&key)
                && !record.labels.values().any(|labelled| labelled == number)
        });
        numbers
    }

    /// G9: removes the earliest generation that only a rule keeps, of all sources.
    fn make_room(&self) {
        let mut state = self.keeping.state();
        let mut earliest: Option<(Timestamp, String, u32)> = None;
        for record in self.registry.sources() {
            for number in self.unneeded(&state, &record) {
                let known = state.made_at.get(&(record.name.clone(), number)).copied();
                let made_at = known.unwrap_or(Timestamp::MIN);
                if earliest.as_ref().is_none_or(|(other, ..)| made_at < *other) {
                    earliest = Some((made_at, record.name.clone(), number));
                }
            }
        }
        let Some((_, source, number)) = earliest else { return };
        if !self.remove_generation(&mut state, &source, number) {
            return;
        }
        drop(state);
        tracing::warn!(
            source,
            generation = number,
            "little room: a generation that was to be kept is removed"
        );
        let details =
            json!({ "source": source, "generation": number, "reason": "the volume store has little room" });
        if let Err(error) = self.audit("generation_dropped", details) {
            tracing::error!(%error, "that a generation was removed could not be written down");
        }
        let store = &self.environment.store;
        store.volumes.reclaim(&store.root);
    }

    fn remove_generation(&self, state: &mut State, source: &str, number: u32) -> bool {
        let environment = &self.environment;
        let snapshot = snapshot_path(&environment.store, source, number);
        if let Err(error) = environment.store.volumes.delete(&snapshot) {
            tracing::warn!(%error, "an unused generation could not be deleted");
            return false;
        }
        // One that stays is found here again, and its snapshot gone.
        let _ = fs::remove_file(manifest::manifest_path(&environment.home, source, number));
        state.made_at.remove(&(source.to_owned(), number));
        true
    }
}
