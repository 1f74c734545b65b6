//! Figures over runs that are alike, as `duramen lab history` tells them.

use super::{
    budget::Budget,
    document,
    index::{Index, View},
    outline,
    report::better,
    suites::Suites,
    words::{count, cut, finite, NAME_MAX},
};
use duramen_api::attachments::lab::{
    LabBand, LabCourse, LabHistory, LabLimit, LabPoint, LabRun, LabSeries, LabTarget, LabTrend,
};
use duramen_base::entropy;
use duramen_measure::{evidence::Evidence, statistics};
use duramen_reports::{
    compare::better as judge,
    config_digest, differences, in_words,
    trends::{self, Figure, Outcome, Series, LEAST_RUNS},
    Difference, Document,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How many runs of a series count, the newest.
const RUNS_MAX: usize = 50;
/// How many series of a suite are told of.
const SERIES_MAX: usize = 12;
/// How many values all figures may have in all runs: each is drawn 4,000 times for its interval.
const VALUES_MAX: usize = 100_000;
/// How many figures of a series are told of, where none is chosen.
const FIGURES_TOLD: usize = 400;
/// How many differences between series are told of.
const DIFFERENCES_TOLD: usize = 100;
/// How sure the interval of the mean of earlier runs is.
const CONFIDENCE: f64 = 0.95;

/// The figures of a suite over its runs, or one of them.
pub(super) fn of(
    index: &mut Index,
    view: &View,
    suite: &str,
    measurement: Option<&str>,
    suites: Suites,
) -> LabHistory {
    let all: Vec<(PathBuf, Arc<LabRun>)> =
        view.runs.iter().filter(|(_, run)| run.suite == suite).cloned().collect();
    let chosen = choose(&all);
    let by_path: HashMap<&Path, &LabRun> =
        chosen.iter().map(|(path, run)| (path.as_path(), run.as_ref())).collect();
    let known = fingerprint(view, suite, &chosen);
    let series = match &index.trends {
        Some((of, series)) if *of == known => Arc::clone(series),
        _ => {
            let series = Arc::new(trends::series(&documents(view, &chosen), RUNS_MAX, &judge));
            index.trends = Some((known, Arc::clone(&series)));
            series
        }
    };
    let mut told = 0;
    let mut newest_of_all: Option<Evidence> = None;
    let series: Vec<LabSeries> = series
        .iter()
        .filter_map(|one| {
            told += one.runs.len();
            let newest = one.runs.last()?;
            let run = by_path.get(newest.file.as_path())?;
            let read = document::run(&view.folder, &newest.file).ok();
            let targets = read.as_ref().map(|it| suites.targets(it)).unwrap_or_default();
            // The first series is the one with the newest run.
            let differs = match (&read, &newest_of_all) {
                (Some(here), Some(there)) => differences(here, there),
                _ => Vec::new(),
            };
            newest_of_all = newest_of_all.take().or(read);
            Some(of_series(one, run, measurement, &targets, &differs))
        })
        .filter(|one| measurement.is_none() || !one.figures.is_empty())
        .collect();
    LabHistory {
        suite: suite.to_owned(),
        series,
        runs_left_out: count(all.len().saturating_sub(told)),
        least_runs: count(LEAST_RUNS),
        unread: view.unread,
    }
}

/// What the runs measured, as far as there is time to read it, the newest first.
fn documents(view: &View, chosen: &[(PathBuf, Arc<LabRun>)]) -> Vec<Document> {
    let mut budget = Budget::new();
    let mut documents = Vec::new();
    for (path, run) in chosen {
        if !budget.takes(view.bytes(path)) {
            break;
        }
        // One that was changed since is in the next answer.
        let Ok(mut evidence) = document::run(&view.folder, path) else { continue };
        if cut(&evidence.suite) != run.suite {
            continue;
        }
        // Of what was set it matters only whether it is the same, and of many runs the rest would take much memory.
        let config = config_digest(&evidence);
        evidence.config.clear();
        evidence.configure("config", config);
        evidence.findings.clear();
        for figure in &mut evidence.measurements {
            figure.histogram = None;
        }
        documents.push(Document { file: path.clone(), evidence });
    }
    documents
}

/// Of each series the newest runs, of the series those with the newest run, as far as the values are not too many.
fn choose(all: &[(PathBuf, Arc<LabRun>)]) -> Vec<(PathBuf, Arc<LabRun>)> {
    let mut groups: Vec<(&LabRun, usize)> = Vec::new();
    let mut values = 0;
    let mut chosen = Vec::new();
    for (path, run) in all {
        let is_alike = |other: &LabRun| {
            (&other.machine, &other.version, &other.config) == (&run.machine, &run.version, &run.config)
        };
        let at = match groups.iter().position(|(other, _)| is_alike(other)) {
            Some(at) => at,
            None if groups.len() < SERIES_MAX => {
                groups.push((run, 0));
                groups.len() - 1
            }
            None => continue,
        };
        let figures = run.figures as usize;
        if groups[at].1 >= RUNS_MAX || values + figures > VALUES_MAX {
            continue;
        }
        groups[at].1 += 1;
        values += figures;
        chosen.push((path.clone(), Arc::clone(run)));
    }
    chosen
}

/// What tells that a series would come out as it did.
fn fingerprint(view: &View, suite: &str, chosen: &[(PathBuf, Arc<LabRun>)]) -> blake3::Hash {
    let stamps: HashMap<&PathBuf, String> =
        view.found.documents.iter().map(|entry| (&entry.path, format!("{:?}", entry.stamp))).collect();
    let mut hasher = blake3::Hasher::new();
    hasher.update(suite.as_bytes());
    for (path, run) in chosen {
        hasher.update(run.id.as_bytes());
        hasher.update(stamps.get(path).map_or("", String::as_str).as_bytes());
    }
    hasher.finalize()
}

fn of_series(
    series: &Series,
    newest: &LabRun,
    measurement: Option<&str>,
    targets: &[LabTarget],
    differs: &[Difference],
) -> LabSeries {
    let claims = series.claims();
    let changed = count(claims.len());
    let others = series.figures.iter().filter(|figure| !figure.outcome.is_claim());
    let wanted = |figure: &&Figure| match measurement {
        Some(name) => figure.name == name,
        None => figure.name.len() <= NAME_MAX,
    };
    let all: Vec<&Figure> = claims.into_iter().chain(others).filter(wanted).collect();
    let told = &all[..all.len().min(FIGURES_TOLD)];
    LabSeries {
        machine: series.machine.clone(),
        cpu: newest.cpu.clone(),
        cores: newest.cores,
        version: cut(&series.version),
        config: newest.config.clone(),
        differs: differs.chunks(1).take(DIFFERENCES_TOLD).map(|one| cut(&in_words(one))).collect(),
        runs: series.runs.iter().map(point).collect(),
        comparisons: count(series.comparisons),
        changed,
        doubts: series.doubts(),
        figures: told.iter().map(|figure| course(figure, targets)).collect(),
        figures_left_out: count(all.len() - told.len()),
    }
}

fn point(run: &trends::Run) -> LabPoint {
    LabPoint {
        id: outline::id(&run.file),
        started_at: run.started_at,
        verdict: outline::verdict(run.verdict),
        was_busy: run.was_busy,
        is_mark: !run.is_point,
    }
}

fn course(figure: &Figure, targets: &[LabTarget]) -> LabCourse {
    let known: Vec<f64> = figure.values.iter().flatten().copied().collect();
    let before = &known[..figure.before_count.min(known.len())];
    let mean = before.iter().sum::<f64>() / before.len().max(1) as f64;
    // The same runs give the same outcome.
    let before_band = statistics::mean(before, CONFIDENCE, &mut entropy::rng(1));
    let before_band = before_band.and_then(|it| band(it.estimate, it.low, it.high, CONFIDENCE));
    let last_band = figure.change.as_ref().and_then(|change| {
        band(mean + change.estimate, mean + change.low, mean + change.high, change.confidence)
    });
    let target = targets.iter().find(|target| target.name == figure.name && target.unit == figure.unit);
    LabCourse {
        name: figure.name.clone(),
        unit: cut(&figure.unit),
        better: better(&figure.name, &figure.unit),
        values: figure.values.clone(),
        before_count: count(figure.before_count),
        last_count: count(figure.last_count),
        before: finite(figure.before),
        last: finite(figure.last),
        before_band,
        last_band,
        percent: figure.change.as_ref().and_then(|change| finite(change.percent)),
        trend: match figure.outcome {
            Outcome::Worse => LabTrend::Worse,
            Outcome::Changed => LabTrend::Changed,
            Outcome::Better => LabTrend::Better,
            Outcome::NoChange => LabTrend::NoChange,
            Outcome::TooFew => LabTrend::TooFew,
        },
        words: cut(&figure.words),
        target: target.map(|target| LabLimit {
            what: target.what.clone(),
            limit: target.limit,
            at_least: target.at_least,
            words: target.limit_words.clone(),
        }),
    }
}

fn band(mean: f64, low: f64, high: f64, confidence: f64) -> Option<LabBand> {
    let is_finite = mean.is_finite() && low.is_finite() && high.is_finite();
    is_finite.then_some(LabBand { mean, low, high, confidence })
}
