//! Trends: the course of every figure over runs that are alike.
//!
//! Runs of one machine with one kernel and file system, one suite, one version of Duramen and one configuration are a
//! series; nothing is compared across series, and each says what sets it apart from the newest of its suite ([`differences`]).
//! Each run gives one value: the median of what it measured. A run that failed or is invalid gives none: it is a mark, and
//! in no median or band. The last runs are held against the ones
//! before them, and a change is told only from [`LEAST_RUNS`] values on, and only where
//! [`discoveries`] finds one among all figures of the series: of the changes
//! that are told at most 5 % are chance. The runs were not interleaved, so what else changed on the machine
//! between them is in a change too.

mod page;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use duramen_base::entropy;
use duramen_base::words::number;
use duramen_measure::evidence::Verdict;
use duramen_measure::statistics::{discoveries, Estimate};
use jiff::Timestamp;
use serde::Serialize;

use crate::document::in_order;
use crate::settings::host_digest;
use crate::{config_digest, differences, machine_id, Difference, Document};

pub use crate::compare::Better;
pub use page::{page, rows, HEADERS};
pub use text::{print_figures, print_series};

/// From so many values on a change is told.
pub const LEAST_RUNS: usize = 6;
/// How many of the last runs are held against the ones before, at most; at fewer than twice as many it is the last half.
pub const MOST_RECENT: usize = 5;
/// The share of the changes told that may be chance.
pub const RATE: f64 = 0.05;

/// Tells which direction of a figure is better, by its name and unit.
pub type Judge<'a> = &'a dyn Fn(&str, &str) -> Better;

/// Runs that are alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The machine, see [`machine_id`].
    pub machine: String,
    /// The suite.
    pub suite: String,
    /// The version of Duramen.
    pub version: String,
    /// The configuration, see [`config_digest`].
    pub config: String,
    /// What sets it apart from the newest series of its suite: `here` is this one, `there` the newest.
    pub differs: Vec<Difference>,
    /// The runs, oldest first.
    pub runs: Vec<Run>,
    /// How many figures were tested for a change.
    pub comparisons: usize,
    /// The figures, in the order of the newest run.
    pub figures: Vec<Figure>,
}

/// A run of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// When it began.
    pub started_at: Timestamp,
    /// What came out.
    pub verdict: Verdict,
    /// Whether its figures are points, and not marks only: it did not fail, and is not invalid as a whole.
    pub is_point: bool,
    /// Whether the machine had more to do than it has cores when it began.
    pub was_busy: bool,
    /// Its document.
    pub file: PathBuf,
}

/// The course of a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Its median in each run; none where it was not measured, or says nothing.
    pub values: Vec<Option<f64>>,
    /// The median of the last runs.
    pub last: Option<f64>,
    /// How many these are.
    pub last_count: usize,
    /// The median of the ones before.
    pub before: Option<f64>,
    /// How many these are.
    pub before_count: usize,
    /// The last ones minus the ones before, where there are enough.
    pub change: Option<Change>,
    /// What came out.
    pub outcome: Outcome,
    /// The same in words.
    pub words: String,
}

/// A difference of means with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The best guess.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The confidence of the interval.
    pub confidence: f64,
    /// The guess in percent of the mean of the ones before, where that is above zero.
    pub percent: Option<f64>,
}

/// What came of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It got worse.
    Worse,
    /// It changed, and neither direction is better.
    Changed,
    /// It got better.
    Better,
    /// No change that the values show.
    NoChange,
    /// There are too few values.
    TooFew,
}

impl Outcome {
    /// Whether a change is told.
    #[must_use]
    pub fn is_claim(self) -> bool {
        matches!(self, Outcome::Worse | Outcome::Changed | Outcome::Better)
    }

    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Worse => "worse",
            Outcome::Changed => "changed",
            Outcome::Better => "better",
            Outcome::NoChange => "no change seen",
            Outcome::TooFew => "too few runs",
        }
    }
}

impl Series {
    /// The figures of which a change is told, the worse ones first.
    #[must_use]
    pub fn claims(&self) -> Vec<&Figure> {
        let mut claims: Vec<&Figure> =
            self.figures.iter().filter(|figure| figure.outcome.is_claim()).collect();
        let size = |figure: &Figure| figure.change.and_then(|change| change.percent).unwrap_or(0.0).abs();
        claims.sort_by(|a, b| {
            let rank = |figure: &Figure| figure.outcome as u8;
            rank(a).cmp(&rank(b)).then_with(|| size(b).total_cmp(&size(a)))
        });
        claims
    }

    /// Keeps the figures whose names are wanted. What was found among all of them stays as it is.
    pub fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.figures.retain(|figure| is_wanted(&figure.name));
    }

    /// How many of its runs say nothing as a whole, or began on a busy machine.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let count = |is: fn(&Run) -> bool| self.runs.iter().filter(|run| is(run)).count();
        let mut doubts = Vec::new();
        let failed = count(|run| run.verdict == Verdict::Fail);
        if failed > 0 {
            doubts.push(format!("{failed} of them failed: marked with x, and in no median"));
        }
        let invalid = count(|run| run.verdict == Verdict::Invalid);
        if invalid > 0 {
            doubts.push(format!("{invalid} of them invalid: what was not seen to happen gives no values"));
        }
        let busy = count(|run| run.was_busy);
        if busy > 0 {
            doubts.push(format!("the machine was busy when {busy} of them began"));
        }
        doubts
    }
}

/// The series of some documents, in the order of suite, and of each suite the one with the newest run first. Of each
/// series the last `last` runs count.
#[must_use]
pub fn series(documents: &[Document], last: usize, judge: Judge<'_>) -> Vec<Series> {
    let documents = in_order(documents.iter().cloned());
    let mut groups: Vec<([String; 5], Vec<&Document>)> = Vec::new();
    for document in &documents {
        let evidence = &document.evidence;
        let machine = machine_id(&evidence.host.machine());
        let host = host_digest(evidence);
        let key = [evidence.suite.clone(), machine, evidence.version.clone(), config_digest(evidence), host];
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(document),
            None => groups.push((key, vec![document])),
        }
    }
    let newest = |group: &[&Document]| group.last().map(|document| document.evidence.started_at);
    groups.sort_by(|(a, of_a), (b, of_b)| a[0].cmp(&b[0]).then_with(|| newest(of_b).cmp(&newest(of_a))));
    let mut newest_of: Option<&Document> = None;
    groups
        .into_iter()
        .map(|([suite, machine, version, config, _], group)| {
            // The first of a suite is the one with its newest run.
            let newest = newest_of.filter(|newest| newest.evidence.suite == suite);
            let of_this = group.last().copied();
            newest_of = newest.or(of_this);
            let differs = match (of_this, newest) {
                (Some(here), Some(there)) => differences(&here.evidence, &there.evidence),
                _ => Vec::new(),
            };
            let group = &group[group.len().saturating_sub(last.max(1))..];
            let mut series = Series {
                machine,
                suite,
                version,
                config,
                differs,
                runs: group.iter().map(|document| run(document)).collect(),
                comparisons: 0,
                figures: figures(group),
            };
            decide(&mut series, judge);
            series
        })
        .collect()
}

fn run(document: &Document) -> Run {
    let evidence = &document.evidence;
    Run {
        started_at: evidence.started_at,
        verdict: evidence.verdict,
        is_point: document.is_point(),
        was_busy: evidence.host.load_average[0] > evidence.host.cores as f64,
        file: document.file.clone(),
    }
}

/// The values of all figures, newest names first.
fn figures(group: &[&Document]) -> Vec<Figure> {
    let medians: Vec<BTreeMap<(&str, &str), f64>> = group.iter().map(|document| document.medians()).collect();
    let mut known = BTreeSet::new();
    let mut figures = Vec::new();
    for document in group.iter().rev() {
        for measurement in &document.evidence.measurements {
            let key = (measurement.name.as_str(), measurement.unit.as_str());
            if known.insert(key) {
                let values = medians.iter().map(|medians| medians.get(&key).copied()).collect();
                figures.push(figure(key.0, key.1, values));
            }
        }
    }
    figures
}

fn figure(name: &str, unit: &str, values: Vec<Option<f64>>) -> Figure {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let (before, last) = halves(&known);
    Figure {
        name: name.to_owned(),
        unit: unit.to_owned(),
        last: median(last),
        last_count: last.len(),
        before: median(before),
        before_count: before.len(),
        values,
        change: None,
        outcome: Outcome::TooFew,
        words: format!("too few: {} of {LEAST_RUNS}", known.len()),
    }
}

/// The ones before, and the last ones.
fn halves(values: &[f64]) -> (&[f64], &[f64]) {
    values.split_at(values.len() - (values.len() / 2).clamp(1, MOST_RECENT).min(values.len()))
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn decide(series: &mut Series, judge: Judge<'_>) {
    // The same runs give the same outcome.
    let mut rng = entropy::rng(1);
    let tested: Vec<(usize, Estimate, f64)> = series
        .figures
        .iter()
        .enumerate()
        .filter_map(|(index, figure)| {
            let known: Vec<f64> = figure.values.iter().flatten().copied().collect();
            let (before, last) = halves(&known);
            let estimate = (known.len() >= LEAST_RUNS)
                .then(|| Estimate::of_difference(before, last, &mut rng))
                .flatten()?;
            Some((index, estimate, before.iter().sum::<f64>() / before.len() as f64))
        })
        .collect();
    let p_values: Vec<f64> = tested.iter().map(|(_, estimate, _)| estimate.p_value()).collect();
    let found = discoveries(&p_values, RATE);
    // Intervals of what was chosen among many are widened, as those of comparisons are.
    let share = found.iter().filter(|found| **found).count().max(1) as f64 / p_values.len().max(1) as f64;
    series.comparisons = p_values.len();
    for ((index, estimate, before), is_found) in tested.into_iter().zip(found) {
        let confidence = if is_found { 1.0 - RATE * share } else { 1.0 - RATE };
        let interval = estimate.interval(confidence);
        let figure = &mut series.figures[index];
        figure.change = Some(Change {
            estimate: interval.estimate,
            low: interval.low,
            high: interval.high,
            confidence,
            percent: (before > 0.0).then(|| interval.estimate / before * 100.0),
        });
        conclude(figure, is_found && interval.estimate != 0.0, judge);
    }
}

fn conclude(figure: &mut Figure, is_found: bool, judge: Judge<'_>) {
    let Some(change) = figure.change.filter(|_| is_found) else {
        figure.outcome = Outcome::NoChange;
        figure.words = "no change seen".to_owned();
        return;
    };
    let rose = change.estimate > 0.0;
    figure.outcome = match judge(&figure.name, &figure.unit) {
        Better::Lower if rose => Outcome::Worse,
        Better::Higher if !rose => Outcome::Worse,
        Better::Neither => Outcome::Changed,
        _ => Outcome::Better,
    };
    let is_time = matches!(figure.unit.as_str(), "ns" | "us" | "ms" | "s");
    let word = match (is_time, rose) {
        (true, true) => "slower",
        (true, false) => "faster",
        (false, true) => "more",
        (false, false) => "less",
    };
    let by = match change.percent {
        Some(percent) => format!("{} %", number((percent.abs() * 10.0).round() / 10.0)),
        None => format!("{} {}", number(change.estimate.abs()), figure.unit),
    };
    figure.words = format!("{word} by {by}");
}
