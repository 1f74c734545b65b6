//! One slice of a run: one operation at one level, for a while.

use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_store::{Branch, Counters, Durability, Scope, StoreError};

use super::level::Level;
use super::ops::{Kind, Operation};
use super::options::Sabotage;
use super::sample::Sample;

/// What an operation works with.
pub(crate) struct Slice<'s> {
    pub(crate) level: &'s mut Level,
    pub(crate) budget: Duration,
    /// How many operations are timed at most.
    pub(crate) most: u64,
    pub(crate) sample: &'s mut Sample,
    begun: Option<Instant>,
    done: u64,
    before: Counters,
    kind: Kind,
    spoiler: Option<Spoiler>,
}

impl<'s> Slice<'s> {
    pub(crate) fn new(
        level: &'s mut Level,
        operation: &'s Operation,
        budget: Duration,
        most: u64,
        sample: &'s mut Sample,
    ) -> Self {
        let spoiler = Spoiler::new(level, operation);
        let before = Counters::default();
        Self { level, budget, most, sample, begun: None, done: 0, before, kind: operation.kind, spoiler }
    }

    /// Ends the preparations.
    pub(crate) fn begin(&mut self) -> Result<(), StoreError> {
        self.level.quiesce(self.kind)?;
        self.before = self.level.store().counters();
        self.begun = Some(clock::now());
        Ok(())
    }

    /// Whether there is time for another operation.
    pub(crate) fn more(&self) -> bool {
        self.done < self.most
            && self.begun.is_some_and(|begun| self.done == 0 || begun.elapsed() < self.budget)
    }

    /// Times one operation.
    pub(crate) fn time<R>(&mut self, work: impl FnOnce() -> Result<R, StoreError>) -> Result<R, StoreError> {
        let begin = clock::now();
        let result = work();
        if let Some(spoiler) = &self.spoiler {
            spoiler.spoil(self.done)?;
        }
        let took = begin.elapsed();
        let result = result?;
        self.done += 1;
        self.sample.ops += 1;
        self.sample.latencies.record(took);
        self.sample.busy += took;
        Ok(result)
    }

    /// Counts what the operations cost the log since the preparations ended.
    pub(crate) fn end(&mut self) {
        let after = self.level.store().counters();
        self.sample.count(&self.before, &after);
        self.begun = None;
    }

    /// As [`time`](Self::time), counting what this operation costs alone: for those that others have to be prepared
    /// or undone between.
    pub(crate) fn time_alone<R>(
        &mut self,
        work: impl FnOnce() -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let before = self.level.store().counters();
        let result = self.time(work)?;
        let after = self.level.store().counters();
        self.sample.count(&before, &after);
        Ok(result)
    }

    /// Notes that something is not as it should be.
    pub(crate) fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.sample.wrong.len() < 10 {
            self.sample.wrong.push(what());
        }
    }
}

/// Spoils operations where a test asked for it, in the same place and with the same means that a store would have.
struct Spoiler {
    sabotage: Sabotage,
    branch: Branch,
}

impl Spoiler {
    fn new(level: &Level, operation: &Operation) -> Option<Self> {
        let is_for = match level.sabotage {
            Sabotage::NotedReads => operation.kind == Kind::Read,
            Sabotage::TwoCommits | Sabotage::TwoModes => operation.kind == Kind::Write,
            Sabotage::SlowCells => operation.name == "state.set",
            // The others are at work elsewhere.
            _ => false,
        };
        is_for.then(|| Self { sabotage: level.sabotage, branch: level.main() })
    }

    fn spoil(&self, number: u64) -> Result<(), StoreError> {
        match self.sabotage {
            Sabotage::NotedReads | Sabotage::TwoCommits => {
                self.branch.with_durability(Durability::Strict).state().set("sabotage", number as i64)?;
            }
            Sabotage::TwoModes if number.is_multiple_of(8) => count_all(&self.branch)?,
            Sabotage::SlowCells => count_all(&self.branch)?,
            _ => {}
        }
        Ok(())
    }
}

/// Reads every pair.
fn count_all(branch: &Branch) -> Result<(), StoreError> {
    let mut bytes = 0;
    branch.kv().scan(.., |key, _| {
        bytes += std::hint::black_box(key).len();
        std::ops::ControlFlow::Continue(())
    })
}
