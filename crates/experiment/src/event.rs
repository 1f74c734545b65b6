//! What the log of a series holds: the events, in the order in which they happened.
//!
//! All of a series' state follows from them. Fields are added, never renamed: logs of every version are read for ever.

use duramen_measure::host::Host;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the log, which the first event of each segment names.
pub const SCHEMA: &str = "duramen.experiment/1";

/// Figures by name.
pub type Metrics = BTreeMap<String, f64>;

/// Something that happened in a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A baseline was asked for: a new spec, start and correction for many tries.
    Segment {
        /// [`SCHEMA`].
        schema: String,
        /// Its number, from 1.
        segment: u32,
        /// The commit that it starts with.
        start: String,
        /// The text of the spec.
        spec: String,
        /// What the order of runs and the resamples are drawn from.
        seed: u64,
        /// The machine.
        host: Box<Host>,
        /// When its tries are looked at. Logs of before there was a choice do not say.
        #[serde(default, skip_serializing_if = "Design::is_fixed")]
        design: Design,
        /// Whether the sides are walled off from each other (X20).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        isolated: bool,
    },
    /// One run of the command.
    Sample(Sample),
    /// How far apart runs of the same commit lie.
    Noise {
        /// The commit that was measured against itself.
        commit: String,
        /// The least effect (as a share: 0.02 for 2 %) that is above the noise.
        floor: f64,
        /// The same for each scale alone.
        scales: BTreeMap<String, f64>,
    },
    /// A try began.
    TryBegun {
        /// Its number within the series, from 1.
        number: u32,
        /// Where the change came from, in words: `working tree`, `branch NAME`, `patch FILE`, `proposed`.
        source: String,
        /// The head that it was made on.
        base: String,
        /// The candidate.
        candidate: String,
        /// What should become better, and why.
        hypothesis: String,
        /// By which mechanism.
        mechanism: String,
        /// The line of thought that it belongs to.
        axis: Option<String>,
        /// The idea that it carries out.
        idea: Option<u32>,
        /// The files that it changes.
        files: Vec<String>,
        /// What else was said of it, by the name of the field.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        notes: BTreeMap<String, String>,
        /// How long whoever proposed it took, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_s: Option<f64>,
    },
    /// The profile of a base was taken.
    Profiled {
        /// The commit.
        commit: String,
        /// The end of what the command printed, without control characters.
        text: String,
        /// Why there is none, if the command failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
    /// A check of the project was run on a candidate.
    Checked {
        /// The try.
        number: u32,
        /// The name of the check.
        check: String,
        /// Whether it held.
        passed: bool,
        /// The end of what it printed.
        detail: String,
    },
    /// What held-out scales stand for in one confirmation or replay was drawn, after that began.
    Drawn {
        /// What it is for.
        purpose: Purpose,
        /// The values by the name of the scale.
        values: BTreeMap<String, String>,
        /// The digests (BLAKE3) of the files that values were drawn from, by the name of the scale.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        digests: BTreeMap<String, String>,
    },
    /// A try ended.
    TryEnded {
        /// Its number.
        number: u32,
        /// What was computed.
        judgement: Judgement,
        /// The head from now on.
        head: String,
    },
    /// Somebody decided otherwise.
    Overridden {
        /// The try.
        number: u32,
        /// What holds instead.
        verdict: Verdict,
        /// Why.
        reason: String,
        /// The head from now on.
        head: String,
    },
    /// An idea for later. The same number again replaces it.
    Idea {
        /// Its number, from 1.
        idea: u32,
        /// The greater, the sooner.
        rank: f64,
        /// What to do.
        text: String,
        /// Why it should help.
        mechanism: String,
        /// Whether it is done with.
        done: bool,
    },
    /// A line of thought that is not to be followed any more, or is again.
    Axis {
        /// Its name.
        axis: String,
        /// Whether it is closed.
        closed: bool,
        /// By which mechanism it failed, or why it is open again.
        mechanism: String,
        /// The try that showed it.
        number: Option<u32>,
    },
    /// The kept stack was measured against the start, in fresh folders.
    Replayed {
        /// The start.
        start: String,
        /// The head.
        head: String,
        /// What came out.
        judgement: Judgement,
    },
    /// The kept stack was measured without one of its tries.
    Ablated {
        /// The try that was left out.
        number: u32,
        /// The head.
        head: String,
        /// What leaving it out does, or nothing if the stack does not hold together without it.
        judgement: Option<Judgement>,
        /// In words: it still helps, does not help any more, does harm, cannot be left out.
        words: String,
    },
    /// A row of another tool's log.
    Imported {
        /// The file's name.
        file: String,
        /// Its number there.
        run: u64,
        /// The commit, as given there.
        commit: String,
        /// The primary figure's name.
        metric: String,
        /// The figures.
        metrics: Metrics,
        /// The status there, which was given by hand.
        status: String,
        /// What was tried.
        description: String,
        /// When: RFC 3339 where it is a number of milliseconds there, else as given.
        timestamp: String,
    },
    /// An autonomous run ended.
    Stopped {
        /// The rule that ended it: `tries`, `time`, `plateau`, `same_failure`, `proposer`, `proposer_failed`, `interrupted`.
        rule: String,
        /// In words.
        words: String,
    },
}

/// How many runs an ABBA block has: two of each side.
pub const RUNS_PER_BLOCK: u32 = 4;

/// One run of the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What it belongs to.
    pub purpose: Purpose,
    /// The name of the scale.
    pub scale: String,
    /// The block, from 0.
    pub quad: u32,
    /// The place within the block, from 0 to 3.
    pub place: u32,
    /// Which side was run.
    pub side: Side,
    /// What it printed, and `wall_s`, `cpu_s` of the whole process.
    pub metrics: Metrics,
    /// The load average of the last minute when it began.
    pub load: f64,
    /// The share of the machine's time that was stolen while it ran.
    pub steal: f64,
    /// The CPUs that it was pinned to.
    pub pinned: Option<Vec<usize>>,
    /// Why there are no figures: how the command failed.
    pub failure: Option<String>,
    /// Why it counts for nothing although the command succeeded: a figure had two values, or what was built was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// The branch that it ran on, where the spec asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// The digest of what it computed, where the spec names that (`measure.equal`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// What a run had of a database, and did there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// The digest of the source's data as the branch began with it.
    pub digest: String,
    /// How long it took to get the branch, in seconds. It does not count towards the time of the run.
    pub lease_s: f64,
    /// Rows inserted, updated and deleted by the server's own count, a table that was changed each; those that were rolled
    /// back are among them.
    pub rows: BTreeMap<String, [u64; 3]>,
}

impl Sample {
    /// Whether there is anything to compare: the command succeeded, and what it printed counts.
    pub fn has_figures(&self) -> bool {
        self.failure.is_none() && self.invalid.is_none()
    }
}

/// What a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "of", content = "number")]
pub enum Purpose {
    /// The noise floor after so many kept tries.
    Noise(u32),
    /// A try.
    Try(u32),
    /// The confirmation of a try.
    Confirm(u32),
    /// The replay with this number.
    Replay(u32),
    /// The stack without this try.
    Ablate(u32),
}

/// One of the two that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// What is.
    Base,
    /// What is tried.
    Candidate,
}

/// What is to become of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It is better, and part of the head from now on.
    Keep,
    /// It is no better, or something else got worse.
    Discard,
    /// It does not build, or the command fails.
    Crash,
    /// A check of the project fails.
    ChecksFailed,
    /// Its figures say nothing: missing, impossible, or taken where nothing may be changed.
    Invalid,
    /// The samples do not tell.
    Inconclusive,
    /// Its figures look better than what we measured ourselves, or not where it was held out.
    Suspicious,
}

/// When the tries of a segment are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Design {
    /// Once, when all blocks are there.
    #[default]
    Fixed,
    /// After each block, until it is clear. See [`looks`](crate::verdict::looks).
    Looks,
}

impl Design {
    /// What logs that do not say it have.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_fixed(&self) -> bool {
        *self == Self::Fixed
    }
}

/// A computed verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What came out.
    pub verdict: Verdict,
    /// Why, in words.
    pub reason: String,
    /// The effect on the primary figure over all deciding scales.
    pub effect: Option<Effect>,
    /// The same at each scale.
    pub scales: BTreeMap<String, Effect>,
    /// The effects on secondary figures and sentinels.
    pub others: BTreeMap<String, Effect>,
    /// The error rate that it was judged at.
    pub alpha: f64,
    /// Whether new samples at all scales, held-out ones included, agreed. Absent if it did not come to that.
    pub confirmed: Option<bool>,
    /// How far it was measured, where it may end before all blocks are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<Extent>,
}

/// How far something was measured before it was judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// How many blocks it took. None is a single pair of runs.
    pub quads: u32,
    /// How many it might have taken.
    pub of: u32,
    /// The least gain, as a share, that would have been seen in nine of ten cases. Absent where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
}

/// A relative change with its interval. Less than zero is better, whichever direction the figure has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The change as a share: -0.1 is a tenth less time (or a tenth more throughput, as `1 / 0.9`).
    pub share: f64,
    /// The lower end of the interval of 95 %.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How probable the samples would be if nothing had changed.
    pub p_value: f64,
    /// The mean of the base in the figure's unit.
    pub base: f64,
    /// The mean of the candidate.
    pub candidate: f64,
    /// How many blocks it is from.
    pub quads: u32,
}
