//! Trends as text for a terminal.

use std::fmt::Write;

use crate::page::sparkline;
use comfy_table::{presets, ContentArrangement, Table};
use duramen_base::words::{counted, number};

use super::{Figure, Outcome, Run, Series, LEAST_RUNS};
use crate::in_words;
use crate::text::wrapped;

/// How wide a table is at most, in characters.
const WIDTH: u16 = 120;
/// How many digits of a digest tell configurations apart for people.
const SHORT: usize = 8;
/// How many of the last values a course shows.
const COURSE: usize = 20;

/// One line for each series.
#[must_use]
pub fn print_series(series: &[Series]) -> String {
    let mut table = table(&["suite", "version", "config", "runs", "last run", "verdict", "changes"]);
    for one in series {
        let Some(last) = one.runs.last() else { continue };
        let changes = match one.claims().len() {
            0 if one.comparisons == 0 => format!("told from {LEAST_RUNS} runs on"),
            0 => format!("none in {}", counted(one.comparisons, "figure")),
            count => format!("{count} of {}", counted(one.comparisons, "figure")),
        };
        table.add_row([
            one.suite.clone(),
            one.version.clone(),
            short(&one.config).to_owned(),
            one.runs.len().to_string(),
            last.started_at.strftime("%Y-%m-%d %H:%M").to_string(),
            last.verdict.to_string(),
            changes,
        ]);
    }
    let mut text = format!("{table}\n");
    for one in series.iter().filter(|one| !one.differs.is_empty()) {
        let (suite, config) = (&one.suite, short(&one.config));
        let apart = format!("{suite}, version {}, config {config}: {}.", one.version, in_words(&one.differs));
        writeln!(text, "kept apart: {}", wrapped(&apart, 2)).ok();
    }
    text
}

/// The figures of a series: those that changed first, at most `most` of them.
#[must_use]
pub fn print_figures(series: &Series, most: usize) -> String {
    let mut text = String::new();
    let (first, last) = (series.runs.first(), series.runs.last());
    let day = |run: Option<&super::Run>| {
        run.map(|run| run.started_at.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
    };
    write!(
        text,
        "{}, version {}, config {}: {}, {} to {}",
        series.suite,
        series.version,
        short(&series.config),
        counted(series.runs.len(), "run"),
        day(first),
        day(last)
    )
    .ok();
    for doubt in series.doubts() {
        write!(text, "; {doubt}").ok();
    }
    text.push('\n');
    if !series.differs.is_empty() {
        let apart = format!("Kept apart from the newest series: {}.", in_words(&series.differs));
        writeln!(text, "{}", wrapped(&apart, 2)).ok();
    }
    let mut figures = series.claims();
    figures.extend(series.figures.iter().filter(|figure| !figure.outcome.is_claim()));
    let mut table = table(&["figure", "course", "before", "last", "change with interval", ""]);
    for figure in figures.iter().take(most) {
        table.add_row(cells(figure, &series.runs));
    }
    writeln!(text, "{table}").ok();
    if figures.len() > most {
        writeln!(text, "{} more figures; --figure GLOB chooses among them", figures.len() - most).ok();
    }
    writeln!(text, "{}", method(series)).ok();
    text
}

fn method(series: &Series) -> String {
    if series.comparisons == 0 {
        return format!("A change is told from {LEAST_RUNS} runs on.");
    }
    format!(
        "{} compared, the last runs with the ones before; of the changes told at most 5 % are chance.\nThe runs were not \
         interleaved: what else changed on the machine between them is in the changes too.",
        counted(series.comparisons, "figure")
    )
}

fn cells(figure: &Figure, runs: &[Run]) -> [String; 6] {
    [
        figure.name.clone(),
        course(figure, runs, COURSE),
        side(figure.before, figure.before_count, &figure.unit),
        side(figure.last, figure.last_count, &figure.unit),
        interval(figure),
        match figure.outcome {
            Outcome::Worse => format!("WORSE: {}", figure.words),
            Outcome::Better => format!("better: {}", figure.words),
            _ => figure.words.clone(),
        },
    ]
}

/// The course of a figure over the last runs: blocks as high as its values, x where a run failed or is invalid, nothing where
/// the figure was not measured.
pub(super) fn course(figure: &Figure, runs: &[Run], most: usize) -> String {
    let from = figure.values.len().saturating_sub(most);
    let blocks = sparkline(&figure.values[from..]);
    let marked = blocks.chars().zip(runs.iter().skip(from));
    marked.map(|(block, run)| if run.is_point { block } else { 'x' }).collect()
}

/// The median of some runs.
pub(super) fn side(median: Option<f64>, count: usize, unit: &str) -> String {
    match median {
        Some(value) if count > 1 => format!("{} {unit} (n={count})", number(value)),
        Some(value) => format!("{} {unit}", number(value)),
        None => "-".to_owned(),
    }
}

/// The change with its interval.
pub(super) fn interval(figure: &Figure) -> String {
    let Some(change) = figure.change else { return "-".to_owned() };
    let sign = if change.estimate > 0.0 { "+" } else { "" };
    format!(
        "{sign}{} [{}, {}] {}",
        number(change.estimate),
        number(change.low),
        number(change.high),
        figure.unit
    )
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(head);
    table
}

/// The first digits of a digest.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}
