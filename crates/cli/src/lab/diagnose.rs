//! `duramen lab diagnose`: the rules of a suite over evidence of an earlier run.

use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output,
};
use clap::Args;
use duramen_lab::{replication, store};
use duramen_measure::evidence::{Evidence, Severity};
use std::{path::PathBuf, process::ExitCode};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab diagnose out/store.json
  duramen lab diagnose out/replication.json --json

Exit status: 1 when a problem is found";

#[derive(Debug, Args)]
pub(crate) struct Diagnose {
    /// An evidence document of the suite `store` or `replication`
    file: PathBuf,
}

pub(super) fn run(context: &Context, diagnose: &Diagnose) -> Outcome {
    let read = |error| Failure::StoreLab(store::StoreLabError::Evidence(error));
    let evidence = Evidence::read(&diagnose.file).map_err(read)?;
    let (found, text) = if evidence.suite == replication::SUITE {
        let found = replication::diagnose(&evidence);
        let text = replication::print_findings(&found);
        (found, text)
    } else {
        let found = store::diagnose(&evidence)?;
        let text = store::print_findings(&found);
        (found, text)
    };
    if context.json {
        output::json(&found)?;
    } else if found.is_empty() {
        output::line("nothing was found");
    } else {
        output::line(text.trim_end());
    }
    let is_problem = found.iter().any(|finding| finding.severity == Severity::Problem);
    Ok(if is_problem { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
