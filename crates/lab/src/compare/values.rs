//! The independent values of a side.

use duramen_measure::evidence::{Evidence, Verdict};
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
        Ok(Self { documents, basis })
    }

    /// The names of all figures, in the order of the documents.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let mut names: Vec<&str> = Vec::new();
        for figure in self.documents.iter().flat_map(|document| &document.measurements) {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        names.into_iter()
    }

    pub(super) fn unit(&self, name: &str) -> Option<&'a str> {
        let figure = self.documents.iter().find_map(|document| document.measurement(name))?;
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
        let documents = self.documents.iter();
        match self.basis {
            Basis::Runs => documents.filter_map(|document| of_run(document, name)).collect(),
            Basis::Repeats => documents
                .flat_map(|document| {
                    of_repeats(document, name).unwrap_or_else(|| of_run(document, name).into_iter().collect())
                })
                .collect(),
        }
    }
}

/// One value for a run: the mean of its independent values, or the median of what it measured.
fn of_run(document: &Evidence, name: &str) -> Option<f64> {
    let figure = document.measurement(name).filter(|figure| figure.count > 0)?;
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
