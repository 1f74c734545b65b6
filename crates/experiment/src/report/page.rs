//! The report as Markdown, and as a page that needs nothing else.

use super::{
    parts::{parts, Part},
    words,
};
use crate::state::State;
use duramen_reports::page::Report;
use std::fmt::Write as _;

/// The report as Markdown, for a pull request or a repository.
pub fn markdown(state: &State) -> String {
    let (title, parts) = parts(state);
    let mut text = format!("# {}\n", plain(&title));
    for part in parts {
        match part {
            Part::Heading(heading) => write!(text, "\n## {}\n", plain(&heading)).ok(),
            Part::Note(note) => write!(text, "\n{}\n", plain(&note)).ok(),
            Part::Table { title, headers, rows } => {
                let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
                write!(text, "\n### {}\n\n", plain(&title)).ok();
                text.push_str(&line(headers.iter().map(|header| (*header).to_owned()).collect()));
                text.push_str(&line(headers.iter().map(|_| "---".to_owned()).collect()));
                for row in rows {
                    text.push_str(&line(row.iter().map(|cell| plain(cell)).collect()));
                }
                Some(())
            }
            // The table of tries has the same figures.
            Part::Chart(_) => Some(()),
            Part::Verbatim { title, text: verbatim } => {
                let fence = fence(&verbatim);
                let lines = words::lines(verbatim.trim_end());
                write!(text, "\n`{title}`:\n\n{fence}toml\n{lines}\n{fence}\n").ok()
            }
        };
    }
    text
}

/// The report as a page without scripts that loads nothing.
pub fn html(state: &State) -> String {
    let (title, parts) = parts(state);
    let mut report = Report::new(title);
    for part in parts {
        report = match part {
            Part::Heading(heading) => report.heading(heading),
            Part::Note(note) => report.note(note),
            Part::Table { title, headers, rows } => report.table(title, headers, rows),
            Part::Chart(chart) => report.chart(chart),
            Part::Verbatim { title, text } => {
                let rows: Vec<[String; 2]> = numbered(&text);
                report.table(title, ["Line", title], rows)
            }
        };
    }
    report.render()
}

fn numbered(text: &str) -> Vec<[String; 2]> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| [(index + 1).to_string(), line.to_owned()]).collect()
}

/// A text in which Markdown sees neither a table's bar nor a tag.
fn plain(text: &str) -> String {
    words::line(text).replace('|', "\\|").replace('<', "&lt;")
}

/// A fence longer than any run of backquotes within.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}
