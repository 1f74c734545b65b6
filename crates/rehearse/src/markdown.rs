//! A report as Markdown, for a comment on a pull request.

use crate::{
    parts::{self, Part},
    report::Report,
};
use duramen_reports::markdown::write::{block, code, folded, join, table, text};

/// Parts that are open; the others are folded away.
const OPEN: [&str; 2] = ["The load", "Locks"];
/// Lines of the command's output.
const OUTPUT_MAX: usize = 40;
const FINDINGS_MAX: usize = 20;

/// The report as Markdown, short enough for a comment. Names, statements and output are text in it, whatever they hold.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let head = format!("## {}: {}\n", report.outcome.name().to_uppercase(), text(&report.sentence()));
    let findings = report.findings.iter().take(FINDINGS_MAX);
    let findings: Vec<String> =
        findings.map(|it| format!("- **{}**: {}", it.severity, text(&it.text))).collect();
    let mut all = vec![head, findings.join("\n")];
    all.extend(parts::of(report).iter().map(part));
    let facts = parts::facts(report);
    let facts = facts.iter().map(|(name, value)| vec![(*name).to_owned(), code(value)]).collect::<Vec<_>>();
    all.push(folded("What was run, and where", &table(&["", ""], &facts)));
    let changed = report.queries.iter().filter(|query| query.is_changed);
    let plans: Vec<String> = changed
        .map(|query| {
            let mut lines = vec!["before:".to_owned()];
            lines.extend(query.before.shape.iter().cloned());
            lines.extend(["after:".to_owned()]);
            lines.extend(query.after.shape.iter().cloned());
            format!("{}\n\n{}", code(&query.sql), block(&lines))
        })
        .collect();
    if !plans.is_empty() {
        all.push(folded("Plans that changed", &plans.join("\n")));
    }
    let output = &report.migration.output;
    if !output.is_empty() {
        let lines = &output[output.len().saturating_sub(OUTPUT_MAX)..];
        all.push(folded("The end of what the command printed", &block(lines)));
    }
    join(&all)
}

fn part(part: &Part) -> String {
    let cell = |(column, cell): (usize, &String)| match cell.as_str() {
        "" => String::new(),
        cell if part.code.contains(&column) => code(cell),
        cell => text(cell),
    };
    let rows: Vec<Vec<String>> =
        part.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect();
    let inside = format!("{}\n{}\n", table(&part.headers, &rows), text(&part.note));
    if OPEN.contains(&part.title) {
        format!("### {}\n\n{inside}", part.title)
    } else {
        folded(&format!("{} ({})", part.title, part.rows.len()), &inside)
    }
}
