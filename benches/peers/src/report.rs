//! What came out: the table, and the evidence.

use std::collections::BTreeMap;

use duramen_measure::evidence::{Evidence, Measurement, Severity};

use crate::engines::OURS;
use crate::rows::{Better, Metric};

/// All values of a run by metric and engine.
#[derive(Default)]
pub(crate) struct Results {
    values: BTreeMap<(&'static str, &'static str), Vec<f64>>,
    failed: BTreeMap<(&'static str, &'static str), String>,
}

impl Results {
    /// Keeps a value of a repetition.
    pub(crate) fn add(&mut self, metric: &Metric, engine: &'static str, value: f64) {
        self.values.entry((metric.name, engine)).or_default().push(value);
    }

    /// Keeps why a repetition gave no value. The first reason counts, and the values of the others no longer
    /// do.
    pub(crate) fn fail(&mut self, metric: &Metric, engine: &'static str, why: String) {
        self.failed.entry((metric.name, engine)).or_insert(why);
    }

    /// Whether every row of every engine worked.
    pub(crate) fn is_clean(&self) -> bool {
        self.failed.is_empty()
    }

    /// The figures of the repetitions; none if the engine has none or failed.
    fn figures(&self, metric: &Metric, engine: &'static str) -> Option<Measurement> {
        let at = (metric.name, engine);
        let values = self.values.get(&at).filter(|_| !self.failed.contains_key(&at))?;
        let mut figures = Measurement::from_values(format!("{}/{engine}", metric.name), metric.unit, values);
        figures.p50 = median(values);
        Some(figures)
    }

    /// The median of the repetitions; none if the engine has none or failed.
    pub(crate) fn median(&self, metric: &Metric, engine: &'static str) -> Option<f64> {
        self.figures(metric, engine).map(|figures| figures.p50)
    }

    /// How our figure stands to the best of the others.
    fn standing(&self, metric: &Metric, engines: &[&'static str]) -> Option<Standing> {
        let better = |a: f64, b: f64| match metric.better {
            Better::Less => a < b,
            Better::More => a > b,
            Better::Neither => false,
        };
        if metric.better == Better::Neither {
            return None;
        }
        let peers = engines.iter().filter(|engine| **engine != OURS);
        let best = peers.filter_map(|peer| Some((*peer, self.figures(metric, peer)?.p50)));
        let (peer, best) = best.reduce(|a, b| if better(b.1, a.1) { b } else { a })?;
        let ours = self.figures(metric, OURS).map(|figures| figures.p50);
        Some(Standing {
            peer,
            ratio: ours.map(|ours| ours / best),
            lost: ours.is_some_and(|ours| better(best, ours)),
        })
    }

    /// The table: a line per metric, a column per engine, and last how ours stands to the best other.
    pub(crate) fn table(&self, metrics: &[Metric], engines: &[&'static str]) -> String {
        let mut lines = vec![["row", "unit"].map(str::to_owned).to_vec()];
        lines[0].extend(engines.iter().map(|engine| (*engine).to_owned()));
        lines[0].push("ours / best peer".to_owned());
        for metric in metrics.iter().filter(|metric| metric.shown) {
            let mut line = vec![metric.name.to_owned(), metric.unit.to_owned()];
            line.extend(engines.iter().map(|engine| self.cell(metric, engine)));
            line.push(self.standing(metric, engines).map_or_else(String::new, |standing| standing.text()));
            lines.push(line);
        }
        align(&lines)
    }

    fn cell(&self, metric: &Metric, engine: &'static str) -> String {
        if self.failed.contains_key(&(metric.name, engine)) {
            return "FAILED".to_owned();
        }
        match self.figures(metric, engine) {
            None => "-".to_owned(),
            Some(figures) if figures.count == 1 => digits(figures.p50),
            Some(figures) => {
                format!("{} ({}..{})", digits(figures.p50), digits(figures.min), digits(figures.max))
            }
        }
    }

    /// Adds everything to the evidence: the figures, a check for each row of each engine, and what we lost.
    pub(crate) fn tell(&self, evidence: &mut Evidence, metrics: &[Metric], engines: &[&'static str]) {
        for metric in metrics {
            for &engine in engines {
                evidence.measurements.extend(self.figures(metric, engine));
                let name = format!("{} of {engine} worked", metric.name);
                match self.failed.get(&(metric.name, engine)) {
                    Some(why) => evidence.check(name, false, why),
                    None if self.values.contains_key(&(metric.name, engine)) => {
                        evidence.check(name, true, "what was read is what had been written");
                    }
                    None => {}
                }
            }
            if let Some(Standing { peer, ratio: Some(ratio), lost: true }) = self.standing(metric, engines) {
                let text = format!("{}: {OURS} / {peer} in {}", metric.name, metric.unit);
                evidence.find("behind a peer", Severity::Warning, Some(ratio), text);
            }
        }
    }

    /// Why rows failed, a line each.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.failed.iter().map(|((metric, engine), why)| format!("{metric} of {engine}: {why}")).collect()
    }
}

struct Standing {
    peer: &'static str,
    ratio: Option<f64>,
    lost: bool,
}

impl Standing {
    fn text(&self) -> String {
        let ratio = self.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        format!("{ratio} ({}){}", self.peer, if self.lost { " LOST" } else { "" })
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// Three significant digits, as far as they stand behind the point.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn align(lines: &[Vec<String>]) -> String {
    let mut widths = vec![0; lines.first().map_or(0, Vec::len)];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[path = "../tests/unit/report.rs"]
mod tests;
