//! The suites that this program knows: what they say of a document beside what stands in it.

use super::words::{cut, finite};
use duramen_api::attachments::lab::{LabOutcome, LabTarget, LabTile};
use duramen_measure::{
    evidence::Evidence,
    target::{Outcome, Standing},
};
use duramen_reports::suite::{find, Suite};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The most targets and tiles of a document that are told.
const MOST: usize = 500;

/// Suites, which know targets and the figures that matter most.
#[derive(Clone, Copy, Default)]
pub struct Suites(&'static [&'static dyn Suite]);

impl std::fmt::Debug for Suites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|suite| suite.name())).finish()
    }
}

impl Suites {
    /// Those that are given. Of a suite that is not among them documents are shown, without targets.
    #[must_use]
    pub const fn new(suites: &'static [&'static dyn Suite]) -> Suites {
        Suites(suites)
    }

    pub(super) fn about(self, suite: &str) -> Option<String> {
        find(self.0, suite).map(|suite| suite.about().to_owned())
    }

    pub(super) fn targets(self, evidence: &Evidence) -> Vec<LabTarget> {
        let mut standings = self.of(evidence, |suite, evidence| suite.targets(evidence));
        standings.truncate(MOST);
        standings.iter().filter_map(target).collect()
    }

    pub(super) fn tiles(self, evidence: &Evidence) -> Vec<LabTile> {
        let tiles = self.of(evidence, |suite, evidence| suite.tiles(evidence));
        let tile = |tile: &duramen_reports::page::Tile| LabTile {
            figure: cut(&tile.figure),
            what: cut(&tile.what),
            beside: cut(&tile.beside),
        };
        tiles.iter().take(MOST).map(tile).collect()
    }

    /// What the suite of a document says of it. Suites are written for documents of theirs, and anybody may have written this one: what a
    /// suite trips over, it has nothing to say of.
    fn of<T>(self, evidence: &Evidence, say: impl Fn(&dyn Suite, &Evidence) -> Vec<T>) -> Vec<T> {
        let Some(suite) = find(self.0, &evidence.suite) else { return Vec::new() };
        catch_unwind(AssertUnwindSafe(|| say(suite, evidence))).unwrap_or_default()
    }
}

fn target(standing: &Standing) -> Option<LabTarget> {
    Some(LabTarget {
        name: cut(&standing.name),
        what: cut(&standing.what),
        measured: finite(standing.measured),
        limit: finite(Some(standing.limit))?,
        unit: standing.unit.to_owned(),
        at_least: standing.at_least,
        outcome: match standing.outcome {
            Outcome::Met => LabOutcome::Met,
            Outcome::Missed => LabOutcome::Missed,
            Outcome::OtherLoad => LabOutcome::OtherLoad,
            Outcome::OtherSize => LabOutcome::OtherSize,
            Outcome::NotMeasured => LabOutcome::NotMeasured,
        },
        measured_words: standing.measured_in_words(),
        limit_words: standing.limit_in_words(),
        floor_words: standing.floor_in_words(),
        reference_words: standing.reference_in_words(),
    })
}
