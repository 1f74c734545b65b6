//! A run of a suite, from its options to its documents.

use std::path::{Path, PathBuf};
use std::thread;

use duramen_measure::evidence::{Evidence, Finding};
use duramen_measure::host::Host;
use duramen_measure::rules;

use super::{Suite, SuiteError};
use crate::page::Report;

/// Is told what is being done.
pub type Say<'a> = &'a (dyn Fn(&str) + Sync);

/// What becomes of the evidence of a run.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// Where the evidence goes.
    pub json: Option<PathBuf>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Whether to say what is being done.
    pub progress: bool,
    /// The command with its arguments, for the evidence.
    pub command: Vec<String>,
}

/// What a run is asked to do: the options of a suite.
pub trait Plan: Sync {
    /// The suite.
    fn suite(&self) -> &'static dyn Suite;

    /// What becomes of the evidence.
    fn output(&self) -> &Output;

    /// The same, to be changed.
    fn output_mut(&mut self) -> &mut Output;

    /// Refuses options that cannot be measured with.
    ///
    /// # Errors
    /// [`SuiteError::Options`], with the option and what it may be.
    fn validate(&self) -> Result<(), SuiteError>;

    /// Measures. It runs on a thread of its own, so that it may have a runtime of its own too.
    ///
    /// # Errors
    /// When nothing can be measured. What fails while something is measured is a finding, or fails a check.
    fn measure(&self, say: Say<'_>) -> Result<Measured, SuiteError>;
}

/// What a run has brought back.
#[derive(Debug)]
pub struct Measured {
    /// The evidence.
    pub evidence: Evidence,
    /// The page, where it shows more than the evidence holds.
    pub page: Option<Report>,
    /// Why not everything could be put back, or be seen to be: the run has failed then, but not for nothing.
    pub unrestored: Option<SuiteError>,
}

impl From<Evidence> for Measured {
    fn from(evidence: Evidence) -> Self {
        Self { evidence, page: None, unrestored: None }
    }
}

/// Runs a suite and writes the documents that its options name. `say` is told what is being done, if they want it.
///
/// # Errors
/// As [`run_to_end`], and when something could not be put back; the documents are written then.
pub fn run(plan: &dyn Plan, say: Say<'_>) -> Result<Evidence, SuiteError> {
    let Measured { evidence, unrestored, .. } = run_to_end(plan, say)?;
    unrestored.map_or(Ok(evidence), Err)
}

/// As [`run`], for who has something to do with the evidence also when not everything could be put back.
///
/// # Errors
/// When the options make no sense, what is measured cannot be reached or started, the run is interrupted, or a document
/// cannot be written.
pub fn run_to_end(plan: &dyn Plan, say: Say<'_>) -> Result<Measured, SuiteError> {
    plan.validate()?;
    let say: Say<'_> = if plan.output().progress { say } else { &|_| {} };
    // A thread of its own: the caller may be within a runtime.
    let measured = thread::scope(|scope| {
        let thread = scope.spawn(|| plan.measure(say));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    write(plan, measured)
}

/// Writes the documents that the options name.
///
/// # Errors
/// When one cannot be written.
pub fn write(plan: &dyn Plan, mut measured: Measured) -> Result<Measured, SuiteError> {
    let Output { json, html, .. } = plan.output();
    if let Some(path) = json {
        measured.evidence.write(path)?;
    }
    if let Some(path) = html {
        let page = measured.page.take().unwrap_or_else(|| plan.suite().page(&measured.evidence));
        page.write(path)?;
    }
    Ok(measured)
}

/// An evidence document that describes the machine, with the disk of `dir`, and the program.
///
/// # Errors
/// When the machine cannot be described.
pub fn begin(plan: &dyn Plan, dir: &Path, say: Say<'_>) -> Result<Evidence, SuiteError> {
    say("describing the machine");
    let mut evidence = Evidence::new(plan.suite().name(), Host::fingerprint(dir)?);
    if !plan.output().command.is_empty() {
        evidence.command.clone_from(&plan.output().command);
    }
    evidence.configure("optimised", !cfg!(debug_assertions));
    Ok(evidence)
}

/// Adds what the rules of the suite have found, and the conditions of the run, and comes to the verdict.
pub fn conclude(found: Vec<Finding>, evidence: &mut Evidence) {
    evidence.findings.extend(found);
    let conditions = rules::conditions(evidence);
    evidence.findings.extend(conditions);
    evidence.finish();
}
