//! The runs of a side, and their blocks.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use duramen_measure::evidence::{Evidence, Measurement, Verdict};
use duramen_measure::statistics::{median, RunValue};

use super::CompareError;

/// From so many repeats on, the blocks of a run are those: within a repeat they share its data and its minutes.
const FEW_REPEATS: usize = 3;

/// The documents of a variant.
#[derive(Debug)]
pub(super) struct Side<'a> {
    documents: &'a [Evidence],
    /// The figures of each document by name: a document may have thousands, and each is asked for several times.
    figures: Vec<HashMap<&'a str, &'a Measurement>>,
    /// The blocks of each run by figure, once they were asked for.
    runs: RefCell<HashMap<&'a str, Vec<Vec<f64>>>>,
}

impl<'a> Side<'a> {
    /// # Errors
    /// When a document is invalid as a whole, and not because of scenarios that it names.
    pub(super) fn new(name: &'static str, documents: &'a [Evidence]) -> Result<Self, CompareError> {
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
        let figures = documents.iter().map(by_name).collect();
        Ok(Self { documents, figures, runs: RefCell::default() })
    }

    /// How many runs there are.
    pub(super) fn count(&self) -> usize {
        self.documents.len()
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

    /// The mean of the medians of the runs.
    pub(super) fn mean(&self, name: &'a str) -> Option<f64> {
        let medians: Vec<f64> = self.blocks(name).iter().filter_map(|blocks| median(blocks)).collect();
        (!medians.is_empty()).then(|| medians.iter().sum::<f64>() / medians.len() as f64)
    }

    /// Whether the figure belongs to a scenario whose mechanism was not seen.
    pub(super) fn is_invalid(&self, name: &str) -> bool {
        self.documents.iter().any(|document| !document.is_sound(name))
    }

    /// Of each run that has the figure its blocks; one that kept none has the median of what it measured.
    pub(super) fn blocks(&self, name: &'a str) -> Vec<Vec<f64>> {
        let read = || {
            let documents = self.documents.iter().zip(&self.figures);
            documents
                .filter_map(|(document, figures)| {
                    let figure = figures.get(name).filter(|figure| figure.count > 0)?;
                    Some(of_run(document, name).unwrap_or_else(|| vec![figure.p50]))
                })
                .collect()
        };
        self.runs.borrow_mut().entry(name).or_insert_with(read).clone()
    }

    /// What each run says of a figure, its blocks as `scaled`.
    pub(super) fn values(&self, name: &'a str, scaled: impl Fn(f64) -> f64 + Copy) -> Vec<RunValue> {
        let of_run = |blocks: &Vec<f64>| {
            RunValue::of_blocks(&blocks.iter().map(|block| scaled(*block)).collect::<Vec<f64>>())
        };
        self.blocks(name).iter().filter_map(of_run).collect()
    }
}

/// The blocks of a run: the medians of its repeats, or all blocks where there are few of those.
fn of_run(document: &Evidence, name: &str) -> Option<Vec<f64>> {
    let repeats: Vec<Vec<f64>> = document.blocks(name)?;
    let repeats: Vec<Vec<f64>> = repeats.into_iter().filter(|blocks| !blocks.is_empty()).collect();
    let blocks: Vec<f64> = if repeats.len() < FEW_REPEATS {
        repeats.concat()
    } else {
        repeats.iter().filter_map(|blocks| median(blocks)).collect()
    };
    let is_sound = !blocks.is_empty() && blocks.iter().all(|block| block.is_finite());
    is_sound.then_some(blocks)
}
