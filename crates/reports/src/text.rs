//! Evidence for a terminal: tables, targets, checks and findings.

use std::fmt::Write as _;

use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::target::{self, Standing};

/// How wide text is at most where it is broken.
pub const WIDTH: u16 = 120;

/// A table whose columns are as wide as they must be, numbers on the right.
#[must_use]
pub fn table<H: AsRef<str>>(headers: &[H], rows: Vec<Vec<String>>) -> Table {
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
#[must_use]
pub fn findings(findings: &[Finding]) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let line = |finding: &&Finding| format!("{} {}: {}\n", finding.severity, finding.rule, finding.text);
    sorted.iter().map(line).collect()
}

/// The checks as lines: what was claimed, whether it held, and what was seen.
#[must_use]
pub fn checks(evidence: &Evidence) -> String {
    let mut text = String::new();
    for check in &evidence.checks {
        let word = if check.passed { "pass" } else { "FAIL" };
        writeln!(text, "{word}  {}: {}", check.name, check.detail).ok();
    }
    text
}

/// The checks, the findings and the verdict.
#[must_use]
pub fn outcome(evidence: &Evidence) -> String {
    let mut text = checks(evidence);
    if !evidence.findings.is_empty() {
        text.push('\n');
    }
    text.push_str(&findings(&evidence.findings));
    writeln!(text, "\nverdict: {}", evidence.verdict).ok();
    text
}

/// The targets with how their figures stand, and an empty line; nothing where there are none.
#[must_use]
pub fn targets(standings: &[Standing]) -> String {
    let (headers, rows) = target::table(standings);
    if rows.is_empty() {
        String::new()
    } else {
        format!("{}\n\n", table(&headers, rows))
    }
}

/// A table that is no wider than the terminal: long cells are broken.
#[must_use]
pub fn narrow_table<H: AsRef<str>>(
    headers: &[H],
    rows: impl IntoIterator<Item: IntoIterator<Item = String>>,
) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(headers.iter().map(AsRef::as_ref));
    for row in rows {
        table.add_row(row);
    }
    table
}

/// Breaks a text between words, so that no line is wider than the terminal unless a word is.
#[must_use]
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > usize::from(WIDTH) {
            write!(lines, "\n{}", " ".repeat(indent)).ok();
            width = indent;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
    }
    lines
}

/// Three significant digits, which is what intervals leave.
#[must_use]
pub fn short(value: f64) -> String {
    let digits = match value.abs() {
        magnitude if magnitude < 0.000_5 => return "0".to_owned(),
        magnitude if magnitude >= 100.0 => 0,
        magnitude if magnitude >= 10.0 => 1,
        magnitude if magnitude >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
