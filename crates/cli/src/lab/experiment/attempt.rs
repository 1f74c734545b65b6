//! `try`, `run` and `resume`.

use super::{
    begin,
    handle::{self, Handle},
};
use crate::{
    context::Outcome,
    failure::{Failure, FAILED},
};
use clap::Args;
use duramen_experiment::{
    agents::Agent,
    event::Verdict,
    report,
    series::{Change, Claim, Ended, Limits, Proposer, Resumed, SeriesError, Stopped},
    state::State,
};
use serde_json::json;
use std::{fmt::Write as _, path::PathBuf, process::ExitCode, time::Duration};

pub(super) const TRY_EXAMPLES: &str = "\
Examples:
  duramen lab experiment try --hypothesis 'one buffer for all rows' --mechanism 'no malloc in the loop'
  duramen lab experiment try --branch unrolled --hypothesis 'unroll by 4' --mechanism 'fewer branches' --axis loop
  duramen lab experiment try --patch simd.patch --hypothesis 'sum by 8' --mechanism 'SIMD' --idea 3
  duramen lab experiment try --hypothesis 'a smaller table' --mechanism 'it fits' --note profile='60 % in lookup'

Without --branch and --patch the change is the difference between the working tree and the head, committed or not. The
working tree stays as it is: bring it to the head yourself if the change was kept (`git merge` with the printed commit),
or discard it.

Exit status: 0 kept, 1 not kept, 3 the figures say nothing";
pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  duramen lab experiment run --propose './propose.sh'
  duramen lab experiment run --agent claude --for 16h
  duramen lab experiment run --agent codex --max-tries 10 -- --model MODEL

For each try the agent or the command is run in a copy of the head, edits the files there, and leaves
{\"hypothesis\": \"...\", \"mechanism\": \"...\"} in the file that it is told, or prints it; {\"stop\": true} ends the run. A command
is run by `sh -c`, with the state as JSON on its standard input. It sees neither what is held out, nor other tries, nor the
rest of your home: what else it needs stands in the spec (`[proposer]`). The rules of the spec also end a run: tries, time, a
plateau, a repeated failure.

Exit status: 0 something was kept, 1 nothing was";
pub(super) const RESUME_EXAMPLES: &str = "\
Examples:
  duramen lab experiment resume

Samples in the log are not taken again. Every command that measures does this first.

Exit status: 0 kept, or nothing was open; 1 not kept, 3 the figures say nothing";

#[derive(Debug, Args)]
pub(super) struct Try {
    /// What should become better, and why
    #[arg(long, value_name = "TEXT")]
    hypothesis: String,
    /// The mechanism
    #[arg(long, value_name = "TEXT")]
    mechanism: String,
    /// The line of thought to which it belongs
    #[arg(long, value_name = "NAME")]
    axis: Option<String>,
    /// The idea that it carries out
    #[arg(long, value_name = "N")]
    idea: Option<u32>,
    /// Try a branch, tag or commit
    #[arg(long, value_name = "REVISION", conflicts_with = "patch")]
    branch: Option<String>,
    /// Try a patch against the head
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
    /// The commit that it is a change of [default: the start or what was kept of it, where only one can be meant]
    #[arg(long, value_name = "COMMIT")]
    base: Option<String>,
    /// Try it although its line of thought is closed
    #[arg(long)]
    although_closed: bool,
    /// What else is to be said of it, shown beside it; several can be given
    #[arg(long = "note", value_name = "FIELD=TEXT", value_parser = note)]
    notes: Vec<(String, String)>,
}

fn note(text: &str) -> Result<(String, String), String> {
    let (name, text) = text.split_once('=').ok_or("write it like profile='half of the time is in malloc'")?;
    Ok((name.trim().to_owned(), text.trim().to_owned()))
}

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The command that proposes a change [default: who the spec names]
    #[arg(long, value_name = "COMMAND", conflicts_with = "agent")]
    propose: Option<String>,
    /// The coding agent that proposes a change; `agents` lists them
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// End after so many tries, even if the spec has more
    #[arg(long, value_name = "N")]
    max_tries: Option<u32>,
    /// End after this, such as 16h; no try begins that would probably not end in it [default: `budget.time`]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::parse::span)]
    time: Option<Duration>,
    /// Further arguments of the agent
    #[arg(last = true, value_name = "ARGUMENT", requires = "agent")]
    arguments: Vec<String>,
}

pub(super) fn attempt(handle: &Handle<'_>, attempt: Try) -> Outcome {
    let Try { hypothesis, mechanism, axis, idea, branch, patch, base, although_closed, notes } = attempt;
    let change = match (branch, patch) {
        (Some(branch), _) => Change::Branch(branch),
        (None, Some(patch)) => Change::Patch(patch),
        (None, None) => Change::WorkingTree,
    };
    let claim =
        Claim { hypothesis, mechanism, axis, idea, although_closed, notes: notes.into_iter().collect() };
    let (ended, text) = handle.work("trying", |series| {
        let ended = series.attempt_from(&change, base.as_deref(), &claim)?;
        let text = in_words(series.state(), &ended);
        Ok((ended, text))
    })?;
    handle.report(&ended, || text)?;
    Ok(handle::code(ended.judgement.verdict))
}

fn in_words(state: &State, ended: &Ended) -> String {
    let mut text = report::one(state, ended.number).unwrap_or_default();
    if ended.judgement.verdict == Verdict::Keep {
        writeln!(text, "the head is {} now", ended.head).ok();
    }
    writeln!(text, "{} left", tries(ended.left)).ok();
    text
}

pub(super) fn tries(count: u32) -> String {
    format!("{count} {}", if count == 1 { "try" } else { "tries" })
}

pub(super) fn run(handle: &Handle<'_>, run: &Run) -> Outcome {
    let proposer = match (&run.agent, &run.propose) {
        (Some(name), _) => {
            Some(Proposer::Agent(Agent::find(name).map_err(SeriesError::from)?, run.arguments.clone()))
        }
        (None, Some(command)) => Some(Proposer::Command(command.clone())),
        (None, None) => None,
    };
    let limits = Limits { tries: run.max_tries, time: run.time };
    let (stopped, text) = handle.work("running", |series| {
        let stopped = series.propose(proposer, limits)?;
        let text = run_in_words(series.state(), &stopped);
        Ok((stopped, text))
    })?;
    handle.report(&stopped, || text)?;
    let is_kept = stopped.tries.iter().any(|ended| ended.judgement.verdict == Verdict::Keep);
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn run_in_words(state: &State, stopped: &Stopped) -> String {
    let rows = report::rows(state);
    let mut text = String::new();
    for ended in &stopped.tries {
        let change = rows.iter().find(|row| row.number == ended.number).and_then(|row| row.change);
        let change = change.map(|change| format!(" {change}")).unwrap_or_default();
        let verdict = report::verdict(ended.judgement.verdict);
        let Ended { number, hypothesis, .. } = ended;
        writeln!(text, "try {number}: {verdict}{change}: {}", report::one_line(hypothesis)).ok();
    }
    writeln!(text, "ended by the rule `{}`: {}", stopped.rule, stopped.words).ok();
    text
}

pub(super) fn resume(handle: &Handle<'_>) -> Outcome {
    let (resumed, text) = handle.work("resuming", |series| {
        let resumed = series.resume()?;
        let text = match &resumed {
            Resumed::Nothing => "nothing was broken off".to_owned(),
            Resumed::Baseline(baseline) => begin::in_words(baseline),
            Resumed::Try(ended) => in_words(series.state(), ended),
        };
        Ok((resumed, text))
    })?;
    let (document, code) = match &resumed {
        Resumed::Nothing => (json!({ "resumed": null }), ExitCode::SUCCESS),
        Resumed::Baseline(baseline) => {
            (json!({ "resumed": "baseline", "baseline": baseline }), ExitCode::SUCCESS)
        }
        Resumed::Try(ended) => {
            (json!({ "resumed": "try", "try": ended }), handle::code(ended.judgement.verdict))
        }
    };
    handle.report(&document, || text)?;
    Ok::<_, Failure>(code)
}
