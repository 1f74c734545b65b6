//! `replay`, `ablate`, `override` and `export`: what is done with the kept stack.

use super::handle::{self, Handle};
use crate::{context::Outcome, output};
use clap::{Args, ValueEnum};
use duramen_experiment::{event::Verdict, report, series::Branch};
use serde_json::json;
use std::process::ExitCode;

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  duramen lab experiment replay

Start and head are built in fresh folders and measured at all scales, including held-out ones. Kept tries look better
than they are, because they were selected for looking good; this measures their combined effect.

Exit status: 0 better, 1 not better, 3 the figures say nothing";
pub(super) const ABLATE_EXAMPLES: &str = "\
Examples:
  duramen lab experiment ablate

What is already known of this head is not measured again.";
pub(super) const OVERRIDE_EXAMPLES: &str = "\
Examples:
  duramen lab experiment override 7 discard --reason 'it leaks a file descriptor'
  duramen lab experiment override 9 keep --reason 'no faster, but the code is half as long'

The computed verdict stays, and both are shown. A try that crashed, failed a check or is invalid cannot be kept.";
pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  duramen lab experiment export --prefix faster

Branches that exist are not overwritten.";

#[derive(Debug, Args)]
pub(super) struct Override {
    /// The try
    #[arg(value_name = "TRY")]
    number: u32,
    /// What holds instead
    #[arg(value_enum)]
    verdict: VerdictName,
    /// Why the computed verdict does not hold
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VerdictName {
    /// It is part of the head from now on
    Keep,
    /// It is not
    Discard,
    /// Its figures say nothing
    Invalid,
    /// It is to be tried again
    Inconclusive,
}

impl From<VerdictName> for Verdict {
    fn from(name: VerdictName) -> Verdict {
        match name {
            VerdictName::Keep => Verdict::Keep,
            VerdictName::Discard => Verdict::Discard,
            VerdictName::Invalid => Verdict::Invalid,
            VerdictName::Inconclusive => Verdict::Inconclusive,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Export {
    /// How the branches' names begin
    #[arg(long, value_name = "PREFIX")]
    prefix: String,
}

pub(super) fn replay(handle: &Handle<'_>) -> Outcome {
    let (replayed, overview) = handle.work("replaying", |series| {
        let replayed = series.replay()?;
        Ok((replayed, report::overview(series.state())))
    })?;
    handle.report(&replayed, || {
        let change = overview.stack.filter(|stack| stack.is_replayed).map(|stack| stack.change);
        let change = change.map(|change| format!(" {} {change}", overview.metric)).unwrap_or_default();
        let verdict = report::verdict(replayed.judgement.verdict);
        format!("{verdict}:{change}\n{}", report::one_line(&replayed.judgement.reason))
    })?;
    Ok(handle::code(replayed.judgement.verdict))
}

pub(super) fn ablate(handle: &Handle<'_>) -> Outcome {
    let ablated = handle.work("leaving out", |series| series.ablate())?;
    handle.report(&ablated, || {
        let row = |ablated: &duramen_experiment::series::Ablated| {
            [
                ablated.number.to_string(),
                report::one_line(&ablated.words),
                report::one_line(&ablated.hypothesis),
            ]
        };
        output::table(["WITHOUT", "OUTCOME", "HYPOTHESIS"], ablated.iter().map(row))
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn decide(handle: &Handle<'_>, by_hand: &Override) -> Outcome {
    let verdict = Verdict::from(by_hand.verdict);
    let head = handle.work("deciding", |series| series.decide(by_hand.number, verdict, &by_hand.reason))?;
    let number = by_hand.number;
    handle.report(&json!({ "number": number, "verdict": verdict, "head": head }), || {
        format!("try {number}: {} (by hand); the head is {head}", report::verdict(verdict))
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(handle: &Handle<'_>, export: &Export) -> Outcome {
    let branches = handle.work("exporting", |series| series.export(&export.prefix))?;
    handle.report(&branches, || {
        let row = |branch: &Branch| {
            let number = branch.number.map_or_else(|| "all".to_owned(), |number| number.to_string());
            [branch.name.clone(), number, branch.commit.clone()]
        };
        output::table(["BRANCH", "TRY", "COMMIT"], branches.iter().map(row))
    })?;
    Ok(ExitCode::SUCCESS)
}
