//! What the suites tell alike: tables, checks and findings for a terminal, and their documents.

use std::fmt::Write as _;
use std::path::Path;

use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use duramen_measure::evidence::{Evidence, EvidenceError, Finding};
use duramen_measure::report::{Report, ReportError};

/// A table whose columns are as wide as they must be, numbers on the right.
pub(crate) fn table<H: AsRef<str>>(headers: &[H], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headers.iter().map(AsRef::as_ref));
    for row in rows {
        table.add_row(row);
    }
    for column in 1..headers.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Findings as lines, the worst first.
pub(crate) fn findings(findings: &[Finding]) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let line = |finding: &&Finding| format!("{} {}: {}\n", finding.severity, finding.rule, finding.text);
    sorted.iter().map(line).collect()
}

/// The checks, the findings and the verdict.
pub(crate) fn outcome(evidence: &Evidence) -> String {
    let mut text = String::new();
    for check in &evidence.checks {
        let word = if check.passed { "pass" } else { "FAIL" };
        writeln!(text, "{word}  {}: {}", check.name, check.detail).ok();
    }
    if !evidence.findings.is_empty() {
        text.push('\n');
    }
    text.push_str(&findings(&evidence.findings));
    writeln!(text, "\nverdict: {}", evidence.verdict).ok();
    text
}

/// Writes the documents of a run that are asked for.
pub(crate) fn write<E: From<EvidenceError> + From<ReportError>>(
    evidence: &Evidence,
    json: Option<&Path>,
    html: Option<&Path>,
    page: impl FnOnce() -> Report,
) -> Result<(), E> {
    if let Some(path) = json {
        evidence.write(path)?;
    }
    if let Some(path) = html {
        page().write(path)?;
    }
    Ok(())
}
