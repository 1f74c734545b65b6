//! A report for a terminal.

use crate::{parts, report::Report};
use duramen_reports::text::{narrow_table, wrapped};
use std::fmt::Write as _;

/// Lines of the command's output that are shown when it failed.
const OUTPUT_MAX: usize = 15;

/// The report as text, for a terminal.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    writeln!(text, "{}: {}\n", report.outcome.name().to_uppercase(), report.sentence()).ok();
    for finding in &report.findings {
        let line = format!("{}: {}", finding.severity, finding.text);
        writeln!(text, "{}", wrapped(&line, 2)).ok();
    }
    text.push('\n');
    for (name, value) in parts::facts(report) {
        writeln!(text, "{name:<16} {}", wrapped(&value, 17)).ok();
    }
    for part in parts::of(report) {
        writeln!(text, "\n{}\n{}", part.title, narrow_table(&part.headers, part.rows)).ok();
        if !part.note.is_empty() {
            writeln!(text, "{}", wrapped(&part.note, 0)).ok();
        }
    }
    if report.outcome.exit_code() != 0 && !report.migration.output.is_empty() {
        let output = &report.migration.output;
        writeln!(text, "\nThe end of what the command printed").ok();
        for line in &output[output.len().saturating_sub(OUTPUT_MAX)..] {
            writeln!(text, "  {line}").ok();
        }
    }
    printable(&text)
}

/// Names, statements and output may hold what a terminal would obey.
fn printable(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter.to_string(),
        letter if letter.is_control() => letter.escape_default().to_string(),
        letter => letter.to_string(),
    };
    text.chars().map(shown).collect()
}
