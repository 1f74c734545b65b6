//! The suite `packs`: `duramen lab run packs`.

use super::Documents;
use crate::{
    context::{Context, Outcome},
    output,
};
use clap::Args;
use duramen_lab::packs::{self, Options, Part};
use std::{path::PathBuf, process::ExitCode};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab run packs --json out/packs.json --html out/packs.html
  duramen lab run packs --grants 1000,100000 --rounds 1

Every engine runs in a separate process for every size, so that its memory can be measured.

Exit status: 1 when a check failed, 3 when the mechanism under test did not happen";

#[derive(Debug, Args)]
pub(crate) struct Packs {
    /// How many grants, one size after another
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "100,1000,10000,100000,1000000")]
    grants: Vec<usize>,
    /// How often each engine runs at each size
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Where files are made, and removed at the end [default: the folder lab of the home]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    documents: Documents,
    /// Run one engine at one size in this process, and print its figures
    #[arg(long, value_name = "ENGINE:N", hide = true)]
    part: Option<Part>,
}

pub(super) fn run(context: &Context, suite: Packs) -> Outcome {
    let Packs { grants, rounds, dir, documents, part } = suite;
    let dir = dir.unwrap_or_else(|| context.home.join("lab"));
    if let Some(part) = part {
        output::json(&packs::run_part(part, &dir)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options =
        Options { grants, rounds, output: documents.output(), ..Options::new(dir, super::own_program()?) };
    super::measure(context, options)
}
