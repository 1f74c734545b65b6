//! `comment`: a try as a comment of a pull request.

use super::handle::Handle;
use crate::{
    context::Outcome,
    failure::{Failure, FAILED, INVALID},
};
use clap::{Args, ValueEnum};
use duramen_experiment::report::{self, Standing};
use std::process::ExitCode;

pub(super) const COMMENT_EXAMPLES: &str = "\
Examples:
  duramen lab experiment comment 1
  duramen lab experiment comment 1 --require gain

What others wrote stands in code spans, where no forge makes a link or a mention of it.

Exit status: 0 better, or not worse; 1 worse, or it does not build, run or pass its checks; 3 the figures say nothing";

#[derive(Debug, Args)]
pub(super) struct Comment {
    /// The try
    #[arg(value_name = "TRY")]
    number: u32,
    /// What the exit status 0 asks for
    #[arg(long, value_enum, default_value = "no-loss")]
    require: Require,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Require {
    /// That nothing got worse beyond doubt
    NoLoss,
    /// That it is better, and would be kept
    Gain,
}

pub(super) fn comment(handle: &Handle<'_>, asked: &Comment) -> Outcome {
    let found = report::comment(&handle.read()?, asked.number);
    let Some(found) = found else {
        let number = asked.number;
        return Err(Failure::Other(format!("there is no try {number} that has ended; `log` lists them")));
    };
    handle.report(&found, || found.body.clone())?;
    Ok(match (found.standing, asked.require) {
        (Standing::Better, _) | (Standing::Unchanged, Require::NoLoss) => ExitCode::SUCCESS,
        (Standing::Invalid, _) => ExitCode::from(INVALID),
        _ => ExitCode::from(FAILED),
    })
}
