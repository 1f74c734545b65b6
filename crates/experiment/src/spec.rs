//! What is measured, what may be changed, and when to stop: `experiment.toml`.

use serde::{Deserialize, Serialize};

/// A spec. Unknown fields are errors; every limit has a default that `init` writes down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The name of the series: letters, digits, `-` and `_`.
    pub name: String,
    /// How figures come about.
    pub measure: Measure,
    /// The figure that decides.
    pub primary: Primary,
    /// Figures that may not get much worse.
    #[serde(default, rename = "secondary")]
    pub secondaries: Vec<Secondary>,
    /// Figures that no change should move: if one does, the machine or the benchmark changed.
    #[serde(default, rename = "sentinel")]
    pub sentinels: Vec<Sentinel>,
    /// The sizes and workloads to run at; none is one scale of the name `default`.
    #[serde(default, rename = "scale")]
    pub scales: Vec<Scale>,
    /// Commands that must succeed before a try is kept.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
    /// What must hold of the figures of every run, such as `rows == n`.
    #[serde(default, rename = "invariant")]
    pub invariants: Vec<Invariant>,
    /// What may be changed.
    #[serde(default)]
    pub scope: Scope,
    /// How much may be spent.
    #[serde(default)]
    pub budget: Budget,
    /// When an autonomous run ends early.
    #[serde(default)]
    pub stop: Stop,
}

/// How figures come about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Run by `sh -c` in a worktree once for each commit, before it is measured.
    #[serde(default)]
    pub build: Option<String>,
    /// Run by `sh -c` in a worktree; prints figures. `{scale}` is replaced by the scale's value, which is also in the
    /// environment as `SCALE`.
    pub command: String,
    /// How its figures are read.
    #[serde(default)]
    pub reader: Reader,
    /// Read the figures from this file of the worktree, and not from what is printed.
    #[serde(default)]
    pub file: Option<String>,
    /// Quads of ABBA a try and scale.
    #[serde(default = "Measure::quads")]
    pub quads: u32,
    /// Runs of each side before the first quad that are thrown away.
    #[serde(default = "Measure::warmups")]
    pub warmups: u32,
    /// Pin the command to one CPU, where the machine has several.
    #[serde(default)]
    pub pin: bool,
    /// After this a run has failed.
    #[serde(default = "Measure::timeout_s")]
    pub timeout_s: f64,
    /// After this a build has failed.
    #[serde(default = "Measure::build_timeout_s")]
    pub build_timeout_s: f64,
}

impl Measure {
    fn quads() -> u32 {
        8
    }
    fn warmups() -> u32 {
        1
    }
    fn timeout_s() -> f64 {
        120.0
    }
    fn build_timeout_s() -> f64 {
        1_800.0
    }
}

/// How figures are read from what a command prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reader {
    /// Lines `METRIC name=value`; the last of a name counts.
    #[default]
    Metric,
    /// What criterion prints, `NAME  time: [low estimate high]`, in seconds.
    Criterion,
    /// What `go test -bench` prints; figures are `NAME/UNIT`.
    Go,
    /// hyperfine's `--export-json`; figures are `COMMAND/mean`, `/median`, ... in seconds.
    Hyperfine,
    /// A document of the schema `duramen.evidence/1`; figures are the means, under their names.
    Evidence,
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// The figure that decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Primary {
    /// Its name.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
    /// An improvement below this is not worth keeping.
    #[serde(default = "Primary::min_effect_percent")]
    pub min_effect_percent: f64,
    /// No scale may get worse by more than this.
    #[serde(default = "Primary::max_regression_percent")]
    pub max_regression_percent: f64,
}

impl Primary {
    fn min_effect_percent() -> f64 {
        1.0
    }
    fn max_regression_percent() -> f64 {
        2.0
    }
}

/// A figure that may not get much worse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secondary {
    /// Its name.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
    /// How much worse it may get.
    pub max_regression_percent: f64,
}

/// A figure that no change should move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sentinel {
    /// Its name.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
    /// How far it may move.
    pub tolerance_percent: f64,
}

/// A size or workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Its name.
    pub name: String,
    /// What `{scale}` stands for.
    pub value: String,
    /// Run at confirmation only.
    #[serde(default)]
    pub held_out: bool,
}

/// A command that must succeed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Run by `sh -c` in the candidate's worktree.
    pub command: String,
    /// After this it has failed.
    #[serde(default = "Check::timeout_s")]
    pub timeout_s: f64,
}

impl Check {
    fn timeout_s() -> f64 {
        600.0
    }
}

/// What must hold of the figures of every run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invariant {
    /// Two operands with `==`, `!=`, `<`, `<=`, `>` or `>=` between them; each a figure's name, `scale` or a number.
    pub holds: String,
}

/// What may be changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Globs of files that may be changed; none means all.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Globs of files that may not. The series' own folder never may.
    #[serde(default)]
    pub off_limits: Vec<String>,
}

/// How much may be spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Tries of a segment. The error rate of 5 % is divided by it.
    pub tries: u32,
    /// Hours of a run.
    pub hours: f64,
    /// How long the proposer may take.
    pub proposer_timeout_s: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { tries: 40, hours: 8.0, proposer_timeout_s: 1_800.0 }
    }
}

/// When an autonomous run ends early.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// So many tries in a row without a keep.
    pub plateau: u32,
    /// So many crashes, failed checks or invalid tries in a row for the same reason.
    pub same_failure: u32,
    /// The noise floor is found anew after so many keeps.
    pub rebaseline_keeps: u32,
}

impl Default for Stop {
    fn default() -> Self {
        Self { plateau: 20, same_failure: 3, rebaseline_keeps: 3 }
    }
}
