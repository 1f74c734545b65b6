//! Trends as a part of a page.

use crate::page::{Chart, Report};
use duramen_base::words::counted;

use super::text::{course, interval, short, side};
use super::{Figure, Run, Series, LEAST_RUNS};
use crate::in_words;

/// How many figures of a series are drawn, at most.
const MOST_DRAWN: usize = 3;
/// How many figures of a series stand in its table, at most.
const MOST_ROWS: usize = 400;
/// The columns of [`rows`].
pub const HEADERS: [&str; 7] =
    ["Figure", "course", "before (median)", "last (median)", "change with interval", "outcome", "in words"];

/// The trends of some series: under a heading each what changed, and folded away what did not.
#[must_use]
pub fn page(series: &[Series]) -> Report {
    let mut report = Report::new("Trends");
    for one in series.iter().filter(|one| one.runs.len() > 1) {
        let title =
            format!("Trends of {}, version {}, config {}", one.suite, one.version, short(&one.config));
        let mut text = counted(one.runs.len(), "run");
        for doubt in one.doubts() {
            text = format!("{text}; {doubt}");
        }
        if !one.differs.is_empty() {
            text = format!("Kept apart from the newest series: {}. {text}", in_words(&one.differs));
        }
        let claims = one.claims();
        text = if one.comparisons == 0 {
            format!("{text}. A change is told from {LEAST_RUNS} runs on.")
        } else {
            format!(
                "{text}. {} compared, the last runs with the ones before; {} changed. Of the \
                 changes told at most 5 % are chance. The runs were not interleaved: what else changed on the \
                 machine between them is in the changes too.",
                counted(one.comparisons, "figure"),
                if claims.is_empty() { "none".to_owned() } else { claims.len().to_string() },
            )
        };
        report = report.subheading(&title).note(text);
        if !claims.is_empty() {
            report = report.table_of(format!("{title}: changes"), HEADERS, rows(&claims, &one.runs));
        }
        for figure in claims.iter().take(MOST_DRAWN) {
            report = report.chart(chart(figure, &one.runs));
        }
        let others: Vec<&Figure> = one.figures.iter().filter(|figure| !figure.outcome.is_claim()).collect();
        if !others.is_empty() {
            let shown = &others[..others.len().min(MOST_ROWS)];
            let mut folded =
                Report::new("").table_of(format!("{title}: no change told"), HEADERS, rows(shown, &one.runs));
            if others.len() > MOST_ROWS {
                folded = folded.note(format!(
                    "{} more are in what `duramen lab history {} --json` prints.",
                    others.len() - MOST_ROWS,
                    one.suite
                ));
            }
            report = report
                .folded(format!("{} without a change that is told", counted(others.len(), "figure")), folded);
        }
    }
    report
}

/// Figures of a series with these runs as rows of a table.
#[must_use]
pub fn rows(figures: &[&Figure], runs: &[Run]) -> Vec<[String; 7]> {
    let row = |figure: &&Figure| {
        [
            figure.name.clone(),
            course(figure, runs, usize::MAX),
            side(figure.before, figure.before_count, &figure.unit),
            side(figure.last, figure.last_count, &figure.unit),
            interval(figure),
            figure.outcome.word().to_owned(),
            figure.words.clone(),
        ]
    };
    figures.iter().map(row).collect()
}

fn chart(figure: &Figure, runs: &[Run]) -> Chart {
    if runs.iter().any(|run| !run.is_point) {
        return marked(figure, runs);
    }
    let points = figure.values.iter().enumerate();
    let points: Vec<(f64, f64)> =
        points.filter_map(|(run, value)| Some(((run + 1) as f64, (*value)?))).collect();
    Chart::line(
        format!("{}: {}", figure.name, figure.words),
        "run, oldest first",
        figure.unit.clone(),
        [("median of each run", points)],
    )
}

/// With runs that failed or are invalid, which are marks and no points.
fn marked(figure: &Figure, runs: &[Run]) -> Chart {
    let marks = runs.iter().enumerate().filter(|(_, run)| !run.is_point).map(|(at, run)| {
        let at = (at + 1) as f64;
        (at - 0.4, at + 0.4, format!("{}, no point", run.verdict))
    });
    Chart::timeline(
        format!("{}: {}", figure.name, figure.words),
        "run, oldest first",
        (1..=figure.values.len()).map(|run| run as f64).collect(),
        [(figure.unit.clone(), vec![("median of each run", figure.values.clone())])],
        marks,
    )
}
