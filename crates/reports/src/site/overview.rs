//! What came out: verdicts, findings, checks.

use crate::page::{Item, Report, Tile, Tone};
use duramen_base::words::counted;
use duramen_measure::evidence::{Evidence, Severity, Verdict};

use super::{environment, label, tiles};
use crate::suite::Suite;
use crate::Document;

/// How many findings or checks are listed in the open, and how many folded away.
const MOST_LISTED: usize = 300;

/// The verdicts, and of each suite the figure that leads.
pub(super) fn part(documents: &[Document], notes: &[String], known: &[&dyn Suite]) -> Report {
    let count = |verdict| documents.iter().filter(|document| document.evidence.verdict == verdict).count();
    let (failed, invalid) = (count(Verdict::Fail), count(Verdict::Invalid));
    let runs = counted(documents.len(), "run");
    let (tone, word, text) = match (failed, invalid) {
        (0, 0) => (Tone::Good, "PASS", format!("Every check held in {runs}.")),
        (0, invalid) => {
            (Tone::Doubt, "INVALID", format!("{invalid} of {runs} say nothing of what they measure."))
        }
        (failed, 0) => (Tone::Bad, "FAIL", format!("A check did not hold in {failed} of {runs}.")),
        (failed, invalid) => (
            Tone::Bad,
            "FAIL",
            format!(
                "A check did not hold in {failed} of {runs}; {invalid} say nothing of what they measure."
            ),
        ),
    };
    let mut report = Report::new("").banner(tone, word, text);
    for note in notes {
        report = report.note(note.clone());
    }
    let (newest, _) = by_age(documents);
    let leading = newest.iter().rev().filter_map(|document| {
        let tile = tiles(document, known).into_iter().next()?;
        Some(Tile { what: format!("{}: {}", document.evidence.suite, tile.what), ..tile })
    });
    report = report.tiles(leading);
    let machines = environment::machines(documents);
    let headers = ["Suite", "verdict", "checks held", "problems", "warnings", "started (UTC)", "machine"];
    let rows = documents.iter().rev().map(|document| {
        let evidence = &document.evidence;
        let of = |severity| {
            evidence.findings.iter().filter(|finding| finding.severity == severity).count().to_string()
        };
        [
            evidence.suite.clone(),
            evidence.verdict.as_str().to_owned(),
            held(evidence),
            of(Severity::Problem),
            of(Severity::Warning),
            document.when(),
            environment::letter(&machines, document),
        ]
    });
    report.table_of("The runs with their verdicts, newest first", headers, rows)
}

/// How many checks held.
fn held(evidence: &Evidence) -> String {
    let held = evidence.checks.iter().filter(|check| check.passed).count();
    match evidence.checks.len() {
        0 => "none".to_owned(),
        all => format!("{held} of {all}"),
    }
}

/// Findings of the newest run of each suite, the most severe first. What is only good to know, and what earlier runs
/// have, is folded away.
pub(super) fn findings(documents: &[Document]) -> Report {
    let found = |documents: &[&Document], is: fn(Severity) -> bool, label: &dyn Fn(&Document) -> String| {
        let mut items: Vec<(Severity, Item)> = Vec::new();
        for document in documents {
            let findings = document.evidence.findings.iter().filter(|finding| is(finding.severity));
            let name = label(document);
            items
                .extend(findings.map(|finding| (finding.severity, Item::of_finding(finding).in_part(&name))));
        }
        items.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
        items.into_iter().map(|(_, item)| item).collect::<Vec<_>>()
    };
    let (newest, earlier) = by_age(documents);
    let suite = |document: &Document| document.evidence.suite.clone();
    let open = found(&newest, |severity| severity != Severity::Info, &suite);
    let info = found(&newest, |severity| severity == Severity::Info, &suite);
    let earlier = found(&earlier, |_| true, &|document| label(document, documents));
    let mut report = Report::new("");
    if open.is_empty() && info.len() + earlier.len() > 0 {
        report = report.note("No problem and no warning.");
    }
    report = listed(report, open);
    report = folded(report, "Good to know", info);
    folded(report, "Findings of earlier runs", earlier)
}

/// Checks of the newest run of each suite that did not hold. Those that did, and those of earlier runs, are folded
/// away.
pub(super) fn checks(documents: &[Document]) -> Report {
    let found = |documents: &[&Document], is: fn(bool) -> bool, label: &dyn Fn(&Document) -> String| {
        let mut items = Vec::new();
        for document in documents {
            let checks = document.evidence.checks.iter().filter(|check| is(check.passed));
            let name = label(document);
            items.extend(checks.map(|check| Item::of_check(check).in_part(&name)));
        }
        items
    };
    let (newest, earlier) = by_age(documents);
    let suite = |document: &Document| document.evidence.suite.clone();
    let failed = found(&newest, |passed| !passed, &suite);
    let held = found(&newest, |passed| passed, &suite);
    let mut earlier = found(&earlier, |_| true, &|document| label(document, documents));
    // What did not hold comes first here too.
    earlier.sort_by_key(|item| item.tone == Tone::Good);
    let mut report = Report::new("");
    if failed.is_empty() && held.len() + earlier.len() > 0 {
        report = report.note("Every check of the newest runs held.");
    }
    report = listed(report, failed);
    report = folded(report, "Checks that held", held);
    folded(report, "Checks of earlier runs", earlier)
}

/// The newest run of each suite, and the others, newest first.
fn by_age(documents: &[Document]) -> (Vec<&Document>, Vec<&Document>) {
    let mut suites = Vec::new();
    documents.iter().rev().partition(|document| {
        let suite = &document.evidence.suite;
        let is_first = !suites.contains(suite);
        if is_first {
            suites.push(suite.clone());
        }
        is_first
    })
}

fn folded(report: Report, what: &str, items: Vec<Item>) -> Report {
    if items.is_empty() {
        return report;
    }
    report.folded(format!("{what} ({})", items.len()), listed(Report::new(""), items))
}

fn listed(report: Report, mut items: Vec<Item>) -> Report {
    if items.is_empty() {
        return report;
    }
    let surplus = items.len().saturating_sub(MOST_LISTED);
    items.truncate(MOST_LISTED);
    let report = report.list(items);
    if surplus > 0 {
        report.note(format!("{surplus} more are in the documents."))
    } else {
        report
    }
}
