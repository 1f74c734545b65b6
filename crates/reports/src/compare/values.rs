//! The independent values of a side.

use std::collections::{HashMap, HashSet};

use duramen_measure::evidence::{Evidence, Measurement, Verdict};
use serde_json::Value;

use super::CompareError;

/// The setting of an evidence document that holds the independent values behind a figure, by its name: a list for each
/// repeat.
const SAMPLES: &str = "samples";

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// One for each run.
    Runs,
    /// One for each repeat within the runs.
    Repeats,
}

impl Basis {
    pub(super) fn new(a: &[Evidence], b: &[Evidence]) -> Self {
        if a.len() >= 2 && b.len() >= 2 {
            Basis::Runs
        } else {
            Basis::Repeats
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Basis::Runs => "runs",
            Basis::Repeats => "repeats",
        }
    }

    pub(super) fn warning(self) -> Option<String> {
        (self == Basis::Repeats).then(|| {
            format!(
                "There is only one run on a side: what differs from run to run is not in the intervals, so times and \
                 rates that differ by less than {:.0} % are not told to differ. Give several runs of each variant, taken \
                 in turns (A1.json,A2.json,A3.json B1.json,B2.json,B3.json).",
                super::RUN_NOISE * 100.0
            )
        })
    }
}

/// The documents of a variant.
#[derive(Debug)]
pub(super) struct Side<'a> {
    documents: &'a [Evidence],
    /// The figures of each document by name: a document may have thousands, and each is asked for several times.
    figures: Vec<HashMap<&'a str, &'a Measurement>>,
    basis: Basis,
}

impl<'a> Side<'a> {
    /// # Errors
    /// When a document is invalid as a whole, and not because of scenarios that it names.
    pub(super) fn new(
        name: &'static str,
        documents: &'a [Evidence],
        basis: Basis,
    ) -> Result<Self, CompareError> {
        for document in documents.iter().filter(|document| document.verdict == Verdict::Invalid) {
            if document.unseen_parts().next().is_none() {
                let reason = document.findings.iter().find(|finding| finding.rule == "invalid");
                let reason =
                    reason.map_or_else(|| "no reason is given".to_owned(), |found| found.text.clone());
                return Err(CompareError::Invalid(name, reason));
            }
        }
        let by_name = |document: &'a Evidence| {
            let mut figures = HashMap::new();
            for figure in &document.measurements {
                figures.entry(figure.name.as_str()).or_insert(figure);
            }
            figures
        };
        Ok(Self { documents, figures: documents.iter().map(by_name).collect(), basis })
    }

    /// The names of all figures, in the order of the documents.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let mut known = HashSet::new();
        let figures = self.documents.iter().flat_map(|document| &document.measurements);
        figures.map(|figure| figure.name.as_str()).filter(move |name| known.insert(*name))
    }

    pub(super) fn unit(&self, name: &str) -> Option<&'a str> {
        let figure = self.figures.iter().find_map(|figures| figures.get(name))?;
        Some(figure.unit.as_str())
    }

    /// The mean of the independent values of a figure.
    pub(super) fn mean(&self, name: &str) -> Option<f64> {
        Some(self.values(name)).filter(|values| !values.is_empty()).map(|values| mean(&values))
    }

    /// Whether the figure belongs to a scenario whose mechanism was not seen.
    pub(super) fn is_invalid(&self, name: &str) -> bool {
        self.documents.iter().any(|document| !document.is_sound(name))
    }

    /// The independent values of a figure.
    pub(super) fn values(&self, name: &str) -> Vec<f64> {
        let of_run = |(document, figures): (&Evidence, &HashMap<&str, &Measurement>)| {
            of_run(document, figures.get(name).copied(), name)
        };
        let documents = self.documents.iter().zip(&self.figures);
        match self.basis {
            Basis::Runs => documents.filter_map(of_run).collect(),
            Basis::Repeats => documents
                .flat_map(|of| of_repeats(of.0, name).unwrap_or_else(|| of_run(of).into_iter().collect()))
                .collect(),
        }
    }
}

/// One value for a run: the mean of its independent values, or the median of what it measured.
fn of_run(document: &Evidence, figure: Option<&Measurement>, name: &str) -> Option<f64> {
    let figure = figure.filter(|figure| figure.count > 0)?;
    let values: Vec<f64> = samples(document, name).into_iter().flatten().flatten().collect();
    Some(if values.is_empty() { figure.p50 } else { mean(&values) })
}

/// One value for each repeat of a run.
fn of_repeats(document: &Evidence, name: &str) -> Option<Vec<f64>> {
    let repeats = samples(document, name)?;
    Some(repeats.iter().filter(|values| !values.is_empty()).map(|values| mean(values)).collect())
}

fn samples(document: &Evidence, name: &str) -> Option<Vec<Vec<f64>>> {
    let samples = document.config.get(SAMPLES)?.get(name)?;
    serde_json::from_value::<Vec<Vec<f64>>>(Value::clone(samples)).ok()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
