//! Documents as Markdown.

use std::fmt::Write;

use crate::page::reason;
use duramen_base::words::{bytes, counted, number};
use duramen_measure::evidence::{Evidence, Finding, Severity, Verdict};

use super::write::{block, code, folded, join, table, text};
use crate::shell;
use crate::trends::Series;
use crate::Document;

/// How many failed checks, and how many findings, are listed.
const MOST_LISTED: usize = 20;
/// How many runs have a row.
const MOST_ROWS: usize = 30;
/// How many changes of trends are listed.
const MOST_CHANGES: usize = 30;

/// Documents in short: the verdict, what did not hold, findings, changes, environment. Of several runs of a suite the
/// newest tells its checks and findings.
#[must_use]
pub fn summary(documents: &[Document], trends: &[Series]) -> String {
    let mut all: Vec<&Evidence> = documents.iter().map(|document| &document.evidence).collect();
    all.sort_by_key(|evidence| std::cmp::Reverse(evidence.started_at));
    let mut newest: Vec<&Evidence> = Vec::new();
    for evidence in &all {
        if !newest.iter().any(|known| known.suite == evidence.suite) {
            newest.push(evidence);
        }
    }
    join(&[
        head(&all),
        overview(&all),
        failed(&newest),
        findings("Findings", &newest.iter().flat_map(|evidence| shown(evidence)).collect::<Vec<_>>()),
        changes(trends),
        environment(&all),
        reproduce(&newest),
    ])
}

fn head(all: &[&Evidence]) -> String {
    let count = |verdict| all.iter().filter(|evidence| evidence.verdict == verdict).count();
    let (failed, invalid) = (count(Verdict::Fail), count(Verdict::Invalid));
    let runs = counted(all.len(), "run");
    match (failed, invalid) {
        (0, 0) => format!("## PASS: {runs}, every check held\n"),
        (0, invalid) => format!("## INVALID: {invalid} of {runs} say nothing\n"),
        (failed, 0) => format!("## FAIL: a check did not hold in {failed} of {runs}\n"),
        (failed, invalid) => {
            format!("## FAIL: a check did not hold in {failed} of {runs}, {invalid} say nothing\n")
        }
    }
}

fn overview(all: &[&Evidence]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|evidence| {
            let count = |severity| {
                evidence.findings.iter().filter(|finding| finding.severity == severity).count().to_string()
            };
            vec![
                code(&evidence.suite),
                format!("**{}**", evidence.verdict.as_str().to_uppercase()),
                text(&reason(evidence)),
                count(Severity::Problem),
                count(Severity::Warning),
                evidence.measurements.len().to_string(),
                text(&evidence.started_at.strftime("%Y-%m-%d %H:%M UTC").to_string()),
            ]
        })
        .collect();
    let headers = ["suite", "verdict", "checks", "problems", "warnings", "figures", "started"];
    let mut markdown = table(&headers, &rows[..rows.len().min(MOST_ROWS)]);
    if rows.len() > MOST_ROWS {
        writeln!(markdown, "\nand {} earlier runs", rows.len() - MOST_ROWS).ok();
    }
    markdown
}

fn failed(all: &[&Evidence]) -> String {
    let failed: Vec<String> = all
        .iter()
        .flat_map(|evidence| {
            let failed = evidence.checks.iter().filter(|check| !check.passed);
            failed.map(|check| {
                format!("- {} {}: {}", code(&evidence.suite), code(&check.name), text(&check.detail))
            })
        })
        .collect();
    listed("Did not hold", &failed)
}

/// What is worth a reader's time.
fn shown(evidence: &Evidence) -> Vec<(&str, &Finding)> {
    let findings = evidence.findings.iter().filter(|finding| finding.severity != Severity::Info);
    findings.map(|finding| (evidence.suite.as_str(), finding)).collect()
}

pub(super) fn findings(title: &str, found: &[(&str, &Finding)]) -> String {
    let mut found = found.to_vec();
    found.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
    let lines: Vec<String> = found
        .iter()
        .map(|(suite, finding)| {
            let figure = finding.figure.map_or_else(String::new, |figure| format!(" ({})", number(figure)));
            format!(
                "- **{}** {} {}{figure}: {}",
                finding.severity,
                code(suite),
                code(&finding.rule),
                text(&finding.text)
            )
        })
        .collect();
    listed(title, &lines)
}

fn listed(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut markdown = format!("### {title}\n\n{}\n", lines[..lines.len().min(MOST_LISTED)].join("\n"));
    if lines.len() > MOST_LISTED {
        writeln!(markdown, "- and {} more", lines.len() - MOST_LISTED).ok();
    }
    markdown
}

fn changes(trends: &[Series]) -> String {
    let claims =
        trends.iter().flat_map(|series| series.claims().into_iter().map(move |figure| (series, figure)));
    let rows: Vec<Vec<String>> = claims
        .take(MOST_CHANGES)
        .map(|(series, figure)| {
            let change = figure.change.map_or_else(String::new, |change| {
                format!("{} \\[{}, {}\\]", number(change.estimate), number(change.low), number(change.high))
            });
            vec![
                code(&series.suite),
                code(&figure.name),
                format!("{change} {}", text(&figure.unit)),
                format!("**{}**: {}", figure.outcome.word(), text(&figure.words)),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = table(&["suite", "figure", "last runs - before, with interval", "outcome"], &rows);
    format!("### Changed over the last runs\n\n{table}")
}

pub(super) fn environment(all: &[&Evidence]) -> String {
    // What tells machines apart, and what was seen on each.
    let mut machines: Vec<(Vec<String>, Vec<&Evidence>)> = Vec::new();
    for evidence in all {
        let host = &evidence.host;
        let key = vec![
            text(&format!("{}, {}", host.cpu, counted(host.cores, "core"))),
            text(&bytes(host.memory_bytes)),
            text(&host.kernel),
            text(&host.file_system),
            text(&evidence.version),
        ];
        match machines.iter_mut().find(|(known, _)| *known == key) {
            Some((_, runs)) => runs.push(evidence),
            None => machines.push((key, vec![evidence])),
        }
    }
    let rows: Vec<Vec<String>> = machines
        .into_iter()
        .take(MOST_ROWS)
        .map(|(mut row, runs)| {
            row.push(format!("{} us", span(runs.iter().map(|evidence| evidence.host.fsync_floor_us))));
            row.push(span(runs.iter().map(|evidence| evidence.host.load_average[0])));
            row.push(runs.len().to_string());
            row
        })
        .collect();
    let headers = ["processor", "memory", "kernel", "file system", "Duramen", "one fsync", "load", "runs"];
    folded("Environment", &table(&headers, &rows))
}

fn span(values: impl Iterator<Item = f64>) -> String {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if low < high {
        format!("{} to {}", number(low), number(high))
    } else {
        number(high)
    }
}

pub(super) fn reproduce(all: &[&Evidence]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for evidence in all {
        let line = shell::reproduce(evidence);
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    folded("Run again", &block(&lines))
}
