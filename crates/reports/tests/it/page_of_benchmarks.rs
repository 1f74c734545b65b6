//! The page of all published figures: made of documents, but for what was written by hand.

use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::Standing;
use duramen_reports::markdown::benchmarks;
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{Block, Headline, Part, Suite};

use crate::support::{fixture, run, HOSTILE};

/// A suite that has something to show beside its targets.
struct Beside;

impl Suite for Beside {
    fn name(&self) -> &'static str {
        "store"
    }

    fn about(&self) -> &'static str {
        "nothing"
    }

    fn targets(&self, _: &Evidence) -> Vec<Standing> {
        Vec::new()
    }

    fn diagnose(&self, _: &Evidence) -> Vec<Finding> {
        Vec::new()
    }

    fn headline(&self, _: &Evidence) -> Option<Headline> {
        None
    }

    fn tiles(&self, _: &Evidence) -> Vec<Tile> {
        Vec::new()
    }

    fn beside(&self, evidence: &Evidence) -> Vec<Part> {
        let put = evidence.measurement("put/strict").map_or(0.0, |put| put.p50);
        let headers = ["operation", "here"].map(str::to_owned).to_vec();
        let rows = vec![vec![HOSTILE.to_owned(), format!("{put} us")]];
        let blocks = vec![Block::Text("Both of them.".to_owned()), Block::Table { headers, rows }];
        vec![Part { title: "Beside others".to_owned(), blocks }]
    }

    fn table(&self, _: &Evidence) -> String {
        String::new()
    }

    fn page(&self, _: &Evidence) -> Report {
        Report::new("")
    }
}

fn headings(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("## ")).collect()
}

#[test]
fn a_suite_shows_what_it_has_beside_its_targets() {
    let page = benchmarks(&[run(1, 5.0, 1.0), fixture("packs")], &[&Beside], "");
    assert_eq!(headings(&page), ["The store", "Beside others", "Packs"]);
    assert!(page.contains("Both of them.\n\n| operation | here |\n"), "{page}");
    assert!(page.contains("| 5 us |") && !page.contains("<script"), "{page}");
}

#[test]
fn what_no_document_makes_stays_where_it_is() {
    let earlier =
        "# Benchmarks\n\nAn old beginning.\n\n## Packs\n\nold packs\n\n## By hand\n\nHow it was *done*.\n\n\
                   ### Below\n\n| a |\n| --- |\n\n## The store\n\nold store\n";
    let page = benchmarks(&[run(1, 5.0, 1.0)], &[&Beside], earlier);
    assert_eq!(headings(&page), ["Packs", "By hand", "The store", "Beside others"]);
    assert!(page.contains("\nold packs\n") && !page.contains("old store"), "{page}");
    assert!(page.contains("\nHow it was *done*.\n\n### Below\n\n| a |\n| --- |\n"), "{page}");
    assert!(!page.contains("An old beginning"), "{page}");
    let again = benchmarks(&[run(1, 5.0, 1.0)], &[&Beside], &page);
    assert_eq!(again, page, "made again of the same, it is the same");
    let later = benchmarks(&[run(2, 7.0, 1.0)], &[&Beside], &page);
    assert!(later.contains("| 7 us |") && !later.contains("| 5 us |"), "{later}");
}
