//! What can keep a series from going on.

use crate::{
    agents::AgentError,
    database::DatabaseError,
    git::GitError,
    import::ImportError,
    log::LogError,
    spec::{SpecError, ValuesError},
};
use duramen_measure::host::HostError;
use std::{io, path::PathBuf};

/// How many files of a list a message names.
const NAMED: usize = 8;

/// Why a command on a series did not do what it was told. A try that turned out badly is none of these: it is
/// a verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// The spec is wrong, or cannot be read.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Git refused.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The machine cannot be described.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A run has no branch.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Another tool's log cannot be taken in.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The agent that was to propose cannot.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// What held-out scales stand for is not there.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// Nobody proposes.
    #[error(
        "nobody is named who proposes changes: give --agent NAME or --propose COMMAND, or say it in the spec (`[proposer]`)"
    )]
    NoProposer,
    /// The system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is a spec already.
    #[error("there is a series already: {}; edit it, or begin the new one in another folder", path.display())]
    Exists {
        /// The spec.
        path: PathBuf,
    },
    /// The folder is not where its repository is.
    #[error(
        "{} does not lie in the repository {}; open the series by the path that it has there",
        folder.display(),
        top.display()
    )]
    Elsewhere {
        /// The folder of the series.
        folder: PathBuf,
        /// The top of the repository.
        top: PathBuf,
    },
    /// Another series uses the same refs.
    #[error(
        "the refs refs/duramen/experiments/{name}/* of this repository belong to another series of that \
         name; give this one another `name` in its spec, or delete them with `git update-ref -d` if that \
         series is gone"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Nobody said what to measure, and nothing was found.
    #[error(
        "no benchmark was found in {}: say what is to be measured (`--command`). Looked for: a target `bench` in the \
         Makefile, benchmarks of cargo, Go and pytest-benchmark, a script `bench` in package.json",
        root.display()
    )]
    NoBenchmark {
        /// The repository.
        root: PathBuf,
    },
    /// Nothing was measured yet.
    #[error("the series has no baseline; run `baseline` first")]
    NoBaseline,
    /// The first measurement was broken off.
    #[error("the baseline of segment {segment} did not come to its end; run `baseline` again")]
    BaselineUnfinished {
        /// The segment.
        segment: u32,
    },
    /// The spec is another one than the segment's.
    #[error(
        "{} was changed since the baseline of segment {segment}; run `baseline` to begin a new segment with \
         it, or change it back",
        path.display()
    )]
    SpecChanged {
        /// The spec.
        path: PathBuf,
        /// The segment.
        segment: u32,
    },
    /// Git is in the middle of something.
    #[error("a {what} is in progress in {}; finish or abort it first", path.display())]
    Busy {
        /// What: a merge, a rebase, ...
        what: String,
        /// The repository.
        path: PathBuf,
    },
    /// The baseline is that of a commit, and there are changes that are in none.
    #[error(
        "these files have changes that are not committed: {}; commit or stash them before `baseline`",
        named(files)
    )]
    Dirty {
        /// The files.
        files: Vec<String>,
    },
    /// What is to be improved does not build itself.
    #[error("the {what} {commit} does not build: {detail}")]
    Build {
        /// What it is: start, base.
        what: &'static str,
        /// The commit.
        commit: String,
        /// How the build ended.
        detail: String,
    },
    /// What is to be improved fails itself.
    #[error(
        "the command fails at the {what} {commit} (scale {scale}): {detail}; it runs in a worktree of that \
         commit, where files that are not committed or are ignored do not exist"
    )]
    Command {
        /// What it is: start, base.
        what: &'static str,
        /// The commit.
        commit: String,
        /// The scale.
        scale: String,
        /// How it failed.
        detail: String,
    },
    /// A check of the project fails before anything was changed.
    #[error("the check `{check}` fails at the start {commit} itself, so no try could be kept: {detail}")]
    Check {
        /// The check.
        check: String,
        /// The start.
        commit: String,
        /// How it failed.
        detail: String,
    },
    /// The samples of an A/A run say nothing.
    #[error("no noise floor can be found from the samples of {commit}: {detail}")]
    Noise {
        /// The commit.
        commit: String,
        /// Why.
        detail: String,
    },
    /// The budget of the segment is spent (X7).
    #[error(
        "segment {segment} has had its {tries} tries (`budget.tries`), so its promise of at most 5 % false \
         keeps is spent; run `baseline` to begin a new segment"
    )]
    Spent {
        /// The segment.
        segment: u32,
        /// How many tries it had.
        tries: u32,
    },
    /// The tree holds nothing that the head does not.
    #[error(
        "nothing is changed: {source_of_change} holds nothing that the head {head} does not; edit something \
         first"
    )]
    Unchanged {
        /// Where the change should have come from.
        source_of_change: String,
        /// The head.
        head: String,
    },
    /// Nobody said what a tree is a change of.
    #[error(
        "what {of} is a change of cannot be told: its history has neither the start of the segment nor anything that was \
         kept; name the commit that you began with (`--base COMMIT`)"
    )]
    NoBase {
        /// The tree, or the branch.
        of: String,
    },
    /// The change does not fit on the head.
    #[error(
        "the change conflicts with tries that were kept, in {}; get the head with `git merge {head}`, \
         resolve that, and try again; or name the commit that it is a change of (`--base COMMIT`)",
        named(files)
    )]
    Conflict {
        /// The files.
        files: Vec<String>,
        /// The head.
        head: String,
    },
    /// The line of thought is closed.
    #[error(
        "the axis `{axis}` is closed: {mechanism}; open it again if there is a new mechanism, or say that \
         it is tried although closed"
    )]
    AxisClosed {
        /// The axis.
        axis: String,
        /// Why.
        mechanism: String,
    },
    /// A text that must be there is empty, or too long.
    #[error("{what} is {wrong}; {advice}")]
    Claim {
        /// Which one.
        what: &'static str,
        /// Empty, or too long.
        wrong: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// There is no idea of that number.
    #[error("there is no idea {number}; `ideas` lists them")]
    NoIdea {
        /// The number.
        number: u32,
    },
    /// There is no try of that number in the segment.
    #[error("there is no try {number} in segment {segment}; `log` lists them")]
    NoTry {
        /// The number.
        number: u32,
        /// The segment.
        segment: u32,
    },
    /// A verdict by hand that must not be (X5), or cannot be.
    #[error("try {number} cannot be decided so by hand: {why}")]
    Undecidable {
        /// The try.
        number: u32,
        /// Why.
        why: String,
    },
    /// Nothing was kept, so there is nothing to do with the stack.
    #[error("no try of segment {segment} is kept, so there is nothing to {doing}")]
    NothingKept {
        /// The segment.
        segment: u32,
        /// What was asked for.
        doing: &'static str,
    },
    /// A branch of that name exists.
    #[error("the branch {name} exists already; choose another prefix, or delete it")]
    BranchExists {
        /// Its name.
        name: String,
    },
    /// A commit that the log names is gone from the repository.
    #[error(
        "the commit {commit} of try {number} is not in this repository any more: its ref below \
         refs/duramen/ was deleted and git removed it; give the try up by hand (`override {number} \
         discard`)"
    )]
    Lost {
        /// The commit.
        commit: String,
        /// The try.
        number: u32,
    },
    /// The sides cannot be kept apart here (X20).
    #[error(
        "the sides cannot be kept apart: {source}; or give --allow-unisolated, to measure although each side can read \
         and change what belongs to the other"
    )]
    NoCage {
        /// Why there is no cage.
        source: duramen_cage::Unavailable,
    },
    /// The segment has no walls, and the caller wants some.
    #[error(
        "segment {segment} was begun without walls between the sides; run `baseline` to begin a new one, or give \
         --allow-unisolated to go on without them"
    )]
    Open {
        /// The segment.
        segment: u32,
    },
    /// The segment has walls, and the caller wants none.
    #[error("segment {segment} was begun with walls between the sides; run `baseline` to begin one without")]
    Walled {
        /// The segment.
        segment: u32,
    },
    /// The caller asked to end. What was under way goes on with the next command that measures.
    #[error("interrupted; the next command goes on from here")]
    Cancelled,
}

/// The first names of a list, and how many there are besides.
pub(super) fn named(files: &[String]) -> String {
    let mut text = files.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if files.len() > NAMED {
        text.push_str(&format!(" and {} more", files.len() - NAMED));
    }
    text
}

/// Turns an error of the system into one of a series.
pub(super) fn fail(doing: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> SeriesError {
    let path = path.to_owned();
    move |source| SeriesError::Io { doing, path, source }
}
