//! One page over any number of documents: what did not hold first, then the figures suite by suite, then what was found
//! and where it ran.
//!
//! The page is one file without scripts that fetches nothing. Its size is bounded by the limits here and in the modules
//! below, whatever the documents hold.

mod environment;
mod figures;
mod matrix;
mod overview;
mod runs;
mod timelines;

use duramen_base::words::counted;
use duramen_measure::evidence::Verdict;

use crate::document::in_order;
use crate::page::{Report, Tile};
use crate::suite::{self, Suite};
use crate::trends::{self, Judge};
use crate::Document;

/// How many of the last runs of a series trends are told of.
pub const MOST_RUNS: usize = 50;
/// How many suites have a part of their own.
const MOST_SUITES: usize = 30;

/// The page. `documents` are what it is about; `history` holds further runs, for trends. `notes` are what the reader
/// should know of how the documents were found; `suites` know which figures are shown in large.
#[must_use]
pub fn page(
    documents: &[Document],
    history: &[Document],
    notes: &[String],
    judge: Judge<'_>,
    known: &[&dyn Suite],
) -> Report {
    let documents = in_order(documents.iter().cloned());
    let all = in_order(documents.iter().chain(history).cloned());
    let mut report = Report::new("Duramen: what was measured").with_contents();
    report = report.part("Overview", overview::part(&documents, notes, known));
    let has_failed = documents.iter().any(|document| document.evidence.verdict == Verdict::Fail);
    if has_failed {
        report = report.part("Checks", overview::checks(&documents));
    }
    let suites = suites(&documents);
    for suite in suites.iter().take(MOST_SUITES) {
        report = report.part(format!("Suite {suite}"), suite_part(suite, &documents, &all, judge, known));
    }
    if suites.len() > MOST_SUITES {
        report = report.note(format!("{} more suites have no part here.", suites.len() - MOST_SUITES));
    }
    if !has_failed {
        report = report.part("Checks", overview::checks(&documents));
    }
    report = report.part("Findings", overview::findings(&documents));
    report = report.part("Environment", environment::part(&documents));
    report = report.part("Run again", environment::reproduce(&documents));
    report.with_footer(format!(
        "Made by Duramen {} from {}. Nothing on this page is fetched, and nothing runs.",
        env!("CARGO_PKG_VERSION"),
        counted(documents.len(), "evidence document")
    ))
}

fn suites(documents: &[Document]) -> Vec<&str> {
    let mut suites: Vec<&str> = documents.iter().map(|document| document.evidence.suite.as_str()).collect();
    suites.sort_unstable();
    suites.dedup();
    suites
}

fn suite_part(
    suite: &str,
    documents: &[Document],
    all: &[Document],
    judge: Judge<'_>,
    known: &[&dyn Suite],
) -> Report {
    let of_suite = |document: &&Document| document.evidence.suite == suite;
    let Some(newest) = documents.iter().rfind(of_suite) else { return Report::new(suite) };
    let runs: Vec<Document> = all.iter().filter(of_suite).cloned().collect();
    let mut report = Report::new(suite);
    if runs.len() > 1 {
        report = report.note(format!(
            "What follows is of the newest run, {} UTC, unless it says otherwise.",
            newest.when()
        ));
    }
    if !newest.evidence.is_sound("") {
        report = report
            .note("This run is invalid: what was to be measured did not happen, so its figures say nothing.");
    }
    report = report.tiles(tiles(newest, known));
    report = matrix::add(report, newest);
    report = runs::add(report, &runs);
    report = figures::distributions(report, newest);
    report = timelines::add(report, newest);
    let trends = trends::page(&trends::series(&runs, MOST_RUNS, judge));
    report = report.append(trends);
    figures::tables(report, newest)
}

/// The figures of a document that are shown in large.
fn tiles(document: &Document, known: &[&dyn Suite]) -> Vec<Tile> {
    let suite = suite::find(known, &document.evidence.suite);
    suite.map(|suite| suite.tiles(&document.evidence)).unwrap_or_default()
}

/// What tells a document from the others.
fn label(document: &Document, documents: &[Document]) -> String {
    let suite = &document.evidence.suite;
    let is_only = documents.iter().filter(|other| other.evidence.suite == *suite).count() <= 1;
    if is_only {
        suite.clone()
    } else {
        format!("{suite} {}", document.evidence.started_at.strftime("%Y-%m-%d %H:%M:%S"))
    }
}
