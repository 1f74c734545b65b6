//! What the lab measured: a directory of evidence documents and logs of experiments, which is only read.
//!
//! Whoever can write there may have put anything into it. What is read is bounded (files, sizes, depth, time), a file that is no evidence
//! is left out, one that is damaged is named, and no symbolic link is followed. What was read once is known for as long as the file is
//! the same. Figures are judged by [`duramen_reports`] and [`duramen_experiment`]: here nothing is computed anew.

mod budget;
mod comparison;
mod document;
mod experiments;
mod folder;
mod history;
mod index;
mod outline;
mod report;
mod suites;
mod words;

use duramen_api::attachments::lab::{
    LabComparison, LabDamaged, LabExperiments, LabHistory, LabReport, LabRuns, LabSuite,
};
use index::{Index, View};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use words::path as path_words;

pub use budget::{READ_LIMIT, READ_MAX};
pub use comparison::SIDE_MAX;
pub use document::{DOCUMENT_MAX, FIGURES_MAX};
pub use experiments::LOG_MAX;
pub use folder::{DEPTH_MAX, ENTRIES_MAX, FILES_MAX};
pub use suites::Suites;

/// How many runs are told, the newest.
pub const RUNS_TOLD: usize = 1_000;
/// How many damaged files are named.
pub const DAMAGED_TOLD: usize = 100;
/// Of how many directories it is remembered what is in them. One with as many documents as are looked at takes some ten megabytes.
const INDICES_MAX: usize = 8;

/// Why something of a directory is not told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The directory cannot be looked into.
    #[error("cannot look into {}: {source}; attach the directory by which it is there now", path.display())]
    Folder {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no such run, or none any more.
    #[error("there is no run {0:?} in the directory; ask for the list of runs again")]
    UnknownRun(String),
    /// A document cannot be used.
    #[error("{file} cannot be shown: {why}")]
    Damaged {
        /// Where it lies in the directory.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Runs cannot be compared.
    #[error("{0}")]
    NotComparable(String),
}

/// What is known of attached directories. Each question reads what is new in the directory, and so may take seconds: it is for threads
/// that may block.
#[derive(Debug, Default)]
pub struct Lab {
    suites: Suites,
    /// By the directory, the one that was asked for last at the end.
    indices: Mutex<Vec<(PathBuf, Arc<Mutex<Index>>)>>,
}

impl Lab {
    /// Nothing is known yet. `suites` say which targets figures have.
    ///
    /// # Examples
    /// ```
    /// use duramen_attachments::lab::{Lab, LabError, Suites};
    /// use duramen_measure::{evidence::{Evidence, Measurement}, host::Host};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let mut evidence = Evidence::new("example", Host::fingerprint(folder.path())?);
    /// evidence.measurements.push(Measurement::scalar("put_us", "us", 1.5));
    /// evidence.write(&folder.path().join("run.json"))?;
    ///
    /// let lab = Lab::new(Suites::default());
    /// let runs = lab.runs(folder.path(), None)?;
    /// assert_eq!((runs.runs[0].suite.as_str(), runs.runs[0].figures), ("example", 1));
    /// let report = lab.run(folder.path(), &runs.runs[0].id)?;
    /// assert_eq!(report.measurements[0].p50, 1.5);
    /// assert!(matches!(lab.run(folder.path(), "../secret"), Err(LabError::UnknownRun(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(suites: Suites) -> Lab {
        Lab { suites, indices: Mutex::default() }
    }

    /// The runs of which there are documents in a directory, of one suite or of all.
    ///
    /// # Errors
    /// [`LabError::Folder`].
    pub fn runs(&self, at: &Path, suite: Option<&str>) -> Result<LabRuns, LabError> {
        let view = self.look(at)?.1;
        let mut suites: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, run) in &view.runs {
            *suites.entry(&run.suite).or_default() += 1;
        }
        let suites = suites.into_iter().map(|(name, runs)| LabSuite {
            name: name.to_owned(),
            about: self.suites.about(name),
            runs,
        });
        let wanted: Vec<_> =
            view.runs.iter().filter(|(_, run)| suite.is_none_or(|suite| run.suite == suite)).collect();
        let told = wanted.len().min(RUNS_TOLD);
        let damaged = view.damaged.iter().take(DAMAGED_TOLD);
        Ok(LabRuns {
            runs: wanted[..told].iter().map(|(_, run)| run.as_ref().clone()).collect(),
            older: words::count(wanted.len() - told),
            suites: suites.collect(),
            others: view.others,
            repeated: view.repeated,
            damaged: damaged
                .map(|(path, why)| LabDamaged { file: path_words(path), why: why.clone() })
                .collect(),
            damaged_count: words::count(view.damaged.len()),
            unread: view.unread,
            is_partial: view.found.is_partial,
            logs: words::count(view.found.logs.len()),
        })
    }

    /// One run, by its id in [`Lab::runs`].
    ///
    /// # Errors
    /// [`LabError`].
    pub fn run(&self, at: &Path, id: &str) -> Result<LabReport, LabError> {
        let view = self.look(at)?.1;
        let (path, _) = view.run(id)?;
        Ok(report::of(path, &document::run(&view.folder, path)?, self.suites))
    }

    /// The figures of a suite over its runs that are alike, or one of them. What changed is found among all of them.
    ///
    /// # Errors
    /// [`LabError::Folder`]. Of a suite of which there are no runs there are no series.
    pub fn series(&self, at: &Path, suite: &str, measurement: Option<&str>) -> Result<LabHistory, LabError> {
        let (index, view) = self.look(at)?;
        Ok(history::of(&mut lock(&index), &view, suite, measurement, self.suites))
    }

    /// Runs of two variants compared, by their ids.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn comparison(&self, at: &Path, a: &[&str], b: &[&str]) -> Result<LabComparison, LabError> {
        let view = self.look(at)?.1;
        comparison::of(&view, a, b)
    }

    /// The series of tries of which there are logs in a directory.
    ///
    /// # Errors
    /// [`LabError::Folder`].
    pub fn experiments(&self, at: &Path) -> Result<LabExperiments, LabError> {
        let (index, view) = self.look(at)?;
        Ok(experiments::of(&mut lock(&index), &view))
    }

    /// The directory as it is now. Two that look at the same one do so after each other.
    fn look(&self, at: &Path) -> Result<(Arc<Mutex<Index>>, View), LabError> {
        let index = {
            let mut indices = lock(&self.indices);
            let index = match indices.iter().position(|(path, _)| path == at) {
                Some(place) => indices.remove(place).1,
                None => Arc::default(),
            };
            if indices.len() >= INDICES_MAX {
                indices.remove(0);
            }
            indices.push((at.to_owned(), Arc::clone(&index)));
            index
        };
        let view = lock(&index).look(at)?;
        Ok((index, view))
    }
}

/// A panic meanwhile leaves what is known as it was, or a part of it, which is read again.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ids in a parameter.
///
/// # Examples
/// ```
/// assert_eq!(duramen_attachments::lab::ids("a, b,,"), ["a", "b"]);
/// ```
#[must_use]
pub fn ids(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|id| !id.is_empty()).collect()
}
