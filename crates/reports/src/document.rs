//! A document with where it was found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use duramen_measure::evidence::{Evidence, EvidenceError, Verdict};
use serde_json::Value;

use crate::settings::is_chosen;

/// An evidence document and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Where it was read.
    pub file: PathBuf,
    /// What it says.
    pub evidence: Evidence,
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// Those of [`Evidence::read`].
    pub fn read(file: &Path) -> Result<Self, EvidenceError> {
        Ok(Self { file: file.to_owned(), evidence: Evidence::read(file)? })
    }

    /// The document without its distributions and what else is data: enough for trends, and small.
    #[must_use]
    pub fn slim(mut self) -> Self {
        for measurement in &mut self.evidence.measurements {
            measurement.histogram = None;
        }
        // What was chosen stays, whatever it is: it tells which runs are alike.
        let is_large = |value: &Value| value.is_array() || value.is_object();
        self.evidence.config.retain(|name, value| is_chosen(name) || !is_large(value));
        self
    }

    /// What makes it the same run, wherever its file lies.
    pub(crate) fn key(&self) -> (String, i128, String) {
        let evidence = &self.evidence;
        (
            evidence.suite.clone(),
            evidence.started_at.as_nanosecond(),
            crate::machine_id(&evidence.host.machine()),
        )
    }

    /// Whether its figures are points of a course: those of a run that failed, or that is invalid as a whole, are not.
    pub(crate) fn is_point(&self) -> bool {
        match self.evidence.verdict {
            Verdict::Pass => true,
            Verdict::Fail => false,
            Verdict::Invalid => self.evidence.unseen_parts().next().is_some(),
        }
    }

    /// The medians of its figures that say something, by name and unit; none of a run that failed.
    pub(crate) fn medians(&self) -> BTreeMap<(&str, &str), f64> {
        let evidence = &self.evidence;
        let mut medians = BTreeMap::new();
        if !self.is_point() {
            return medians;
        }
        for figure in evidence.measurements.iter().filter(|figure| figure.count > 0) {
            if evidence.is_sound(&figure.name) {
                medians.entry((figure.name.as_str(), figure.unit.as_str())).or_insert(figure.p50);
            }
        }
        medians
    }

    /// `2026-01-31 12:00`, UTC.
    pub(crate) fn when(&self) -> String {
        self.evidence.started_at.strftime("%Y-%m-%d %H:%M").to_string()
    }
}

/// The documents in the order of their time, each run once.
pub(crate) fn in_order(documents: impl IntoIterator<Item = Document>) -> Vec<Document> {
    let mut known = BTreeSet::new();
    let mut all: Vec<Document> =
        documents.into_iter().filter(|document| known.insert(document.key())).collect();
    all.sort_by_key(|document| document.evidence.started_at);
    all
}
