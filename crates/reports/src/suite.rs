//! What the suites have in common: a suite measures something, and knows how to judge, tell and draw its evidence.
//!
//! A suite is a [`Suite`], its options are a [`Plan`], and [`run()`] takes those from the first option to the documents.
//! Whoever has something to say about any document is given the list of the suites.

mod error;
mod part;
mod run;
mod tiles;

use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::{self, Standing};

pub use error::{Cause, SuiteError};
pub use part::{Block, Part};
pub use run::{begin, conclude, run, run_to_end, write, Measured, Output, Plan, Say};
pub use tiles::{in_words, tiles, Lead};

use crate::page::{Report, Tile};

/// One line about a run: the figure that matters most to somebody who sees it for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// What was measured, in words.
    pub figure: String,
    /// What it stands beside: the best published figure, another engine in the same run, or the disk alone.
    pub beside: String,
}

impl Headline {
    /// A figure beside another.
    pub fn new(figure: impl Into<String>, beside: impl Into<String>) -> Self {
        Self { figure: figure.into(), beside: beside.into() }
    }
}

/// A part of a suite that can be run alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// What it is asked for by.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What is done in it, in a line.
    pub what: String,
}

/// A suite. Everything that it says of a document follows from the document alone.
pub trait Suite: Sync {
    /// Its name in evidence and on the command line.
    fn name(&self) -> &'static str;

    /// What it measures, in a line.
    fn about(&self) -> &'static str;

    /// Its parts, where they can be run alone.
    fn scenarios(&self) -> Vec<Scenario> {
        Vec::new()
    }

    /// The targets that a document has figures for, with how those stand.
    fn targets(&self, evidence: &Evidence) -> Vec<Standing>;

    /// What its rules find in a document, whatever findings that has itself.
    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding>;

    /// The one figure of a document that matters most, if it has that.
    fn headline(&self, evidence: &Evidence) -> Option<Headline>;

    /// The figures that its page shows in large.
    fn tiles(&self, evidence: &Evidence) -> Vec<Tile>;

    /// What it has to show of a document beside its targets, where figures of all documents are published.
    fn beside(&self, _evidence: &Evidence) -> Vec<Part> {
        Vec::new()
    }

    /// A document as text for a terminal.
    fn table(&self, evidence: &Evidence) -> String;

    /// A document as a page.
    fn page(&self, evidence: &Evidence) -> Report;
}

/// The suite of a name.
#[must_use]
pub fn find<'a>(suites: &[&'a dyn Suite], name: &str) -> Option<&'a dyn Suite> {
    suites.iter().find(|suite| suite.name() == name).copied()
}

/// The beginning of a suite's page: the evidence with its tiles, what was done, and what was to be reached.
#[must_use]
pub fn page(
    suite: &dyn Suite,
    title: &str,
    evidence: &Evidence,
    note: impl Into<String>,
    standings: &[Standing],
) -> Report {
    let (headers, rows) = target::table(standings);
    let report = Report::new(title)
        .evidence(evidence)
        .tiles(suite.tiles(evidence))
        .note(note)
        .heading("Targets")
        .table("Measured and target", headers, rows);
    let missed: Vec<String> =
        standings.iter().filter(|standing| standing.is_missed()).map(Standing::sentence).collect();
    if missed.is_empty() {
        report
    } else {
        report.note(missed.join("\n\n"))
    }
}
