//! `duramen lab diagnose`: the rules of the suites over evidence of earlier runs.

use crate::{
    context::{Context, Outcome},
    failure::FAILED,
    output,
};
use clap::Args;
use duramen_measure::evidence::Evidence;
use duramen_reports::diagnosis::{print_table, Diagnosis};
use std::{path::PathBuf, process::ExitCode};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab diagnose out/store.json
  duramen lab diagnose out/*.json
  duramen lab diagnose out/replication.json --json

The rules use only the document, and ignore its own findings. There are rules for its suite (odd costs, stalls, missed
targets) and rules for all suites (failed checks, a busy machine, an fsync that reaches no disk, few repeats). For an
unknown suite only the latter apply.

Exit status: 1 when a problem is found, or a file cannot be read";

#[derive(Debug, Args)]
pub(crate) struct Diagnose {
    /// Evidence documents, of any suites
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub(super) fn run(context: &Context, diagnose: &Diagnose) -> Outcome {
    let mut diagnoses = Vec::new();
    let mut unread = Vec::new();
    for file in &diagnose.files {
        match Evidence::read(file) {
            Ok(evidence) => {
                diagnoses.push(Diagnosis::new(file.display().to_string(), &evidence, &super::SUITES))
            }
            // One that cannot be read keeps no other from being looked at.
            Err(error) => unread.push(error),
        }
    }
    if context.json {
        output::json(&diagnoses)?;
    } else if !diagnoses.is_empty() {
        output::line(print_table(&diagnoses).trim_end());
    }
    for error in &unread {
        output::error(error);
    }
    let is_wrong = !unread.is_empty() || diagnoses.iter().any(Diagnosis::has_problem);
    Ok(if is_wrong { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
