//! What is measured, what may be changed, and when to stop: `experiment.toml`.

mod asking;
mod check;
mod draw;
mod error;
mod found;
mod guarded;
mod read;
mod template;
pub(crate) mod values;

pub use asking::{ProfileSpec, ProposerSpec, Span};
pub(crate) use check::NAME_CHARS_MAX;
pub use draw::Draw;
pub use error::SpecError;
pub use found::{benchmarks, Found};
pub use guarded::OFF_LIMITS;
pub use read::BYTES_MAX;
pub use values::ValuesError;

use duramen_api::model::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of a spec's file within the folder of its series.
pub const FILE: &str = "experiment.toml";

/// The name of the scale that there is when the spec names none.
pub const DEFAULT_SCALE: &str = "default";

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
    /// Who proposes changes.
    #[serde(default)]
    pub proposer: ProposerSpec,
    /// What tells where the time goes.
    #[serde(default)]
    pub profile: Option<ProfileSpec>,
}

impl Spec {
    /// The scales of the spec; if it names none, the one that is called [`DEFAULT_SCALE`] and has an empty
    /// value.
    pub fn scales_or_default(&self) -> Vec<Scale> {
        if self.scales.is_empty() {
            vec![Scale {
                name: DEFAULT_SCALE.to_owned(),
                value: String::new(),
                held_out: false,
                draw: None,
                values: None,
            }]
        } else {
            self.scales.clone()
        }
    }

    /// The scales that every try is run at. A checked spec has one at least.
    pub fn deciding(&self) -> impl Iterator<Item = Scale> {
        self.scales_or_default().into_iter().filter(|scale| !scale.held_out)
    }

    /// The same spec with these values of scales, by name: those that were drawn.
    #[must_use]
    pub fn with_values(&self, values: &BTreeMap<String, String>) -> Self {
        let mut spec = self.clone();
        for scale in &mut spec.scales {
            if let Some(value) = values.get(&scale.name) {
                scale.value.clone_from(value);
            }
        }
        spec
    }

    /// Draws what scales stand for that name no value, by their names. `lists` are those that files hold, by scale.
    pub fn draw(
        &self,
        lists: &BTreeMap<String, Vec<String>>,
        rng: &mut fastrand::Rng,
    ) -> BTreeMap<String, String> {
        let mut taken: Vec<String> =
            self.scales.iter().filter(|scale| !scale.is_drawn()).map(|scale| scale.value.clone()).collect();
        let mut drawn = BTreeMap::new();
        for scale in &self.scales {
            let of_file = lists.get(&scale.name).map(|values| Draw::OneOf(values.clone()));
            if let Some(draw) = scale.draw.as_ref().or(of_file.as_ref()) {
                let value = draw.value(&taken, rng);
                taken.push(value.clone());
                drawn.insert(scale.name.clone(), value);
            }
        }
        drawn
    }

    /// The same spec as far as a verdict can depend on it: a segment goes on when anything else changes.
    #[must_use]
    pub fn judged_by(&self) -> Self {
        let mut spec = self.clone();
        spec.proposer = ProposerSpec::default();
        spec.profile = None;
        spec.budget = Budget { tries: self.budget.tries, ..Budget::default() };
        spec
    }

    /// The scales that are run at confirmation only.
    pub fn held_out(&self) -> impl Iterator<Item = Scale> {
        self.scales_or_default().into_iter().filter(|scale| scale.held_out)
    }
}

/// How figures come about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Run by `sh -c` in a worktree once for each commit, before it is measured.
    #[serde(default)]
    pub build: Option<String>,
    /// Run by `sh -c` in a worktree; prints figures. `{scale}` is replaced by the scale's value, which is
    /// also in the environment as `SCALE`.
    pub command: String,
    /// How its figures are read.
    #[serde(default)]
    pub reader: Reader,
    /// Read the figures from this file of the worktree, and not from what is printed.
    #[serde(default)]
    pub file: Option<String>,
    /// `source:NAME`: each run has a fresh branch of that source, of one and the same data in all of a segment, and finds it
    /// in its environment (`DATABASE_URL`, `PGHOST`, ...). How many rows of which table it changes must agree between the
    /// sides.
    #[serde(default)]
    pub database: Option<String>,
    /// What a run may do in its branch; `read-write` where nothing is said.
    #[serde(default)]
    pub policy: Option<Policy>,
    /// Globs of files of the worktree that runs may change, such as a database that the build makes and every run writes
    /// to. Runs may add files anywhere; what was there after the build may change only here.
    #[serde(default)]
    pub scratch: Vec<String>,
    /// Whether runs have the network. Those with a database have it in any case, builds and checks too.
    #[serde(default)]
    pub network: bool,
    /// Folders outside of the worktree that builds may write to, such as caches of what was downloaded. `~/` is the home.
    #[serde(default)]
    pub build_writes: Vec<String>,
    /// What a run computes: it must be the same on both sides at each scale, and from run to run.
    #[serde(default)]
    pub equal: Option<Equal>,
    /// Whether the command runs for a given time, whatever it does: what it prints is not held against how long it takes.
    #[serde(default)]
    pub fixed_time: bool,
    /// The most blocks of ABBA a try and scale.
    #[serde(default = "Measure::quads")]
    pub quads: u32,
    /// The blocks of the run that finds the noise floor; as many as `quads` where nothing is said.
    #[serde(default)]
    pub noise_quads: Option<u32>,
    /// Runs of each side before the first block that are thrown away.
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
        12
    }
    /// The blocks of the run that finds the noise floor.
    #[must_use]
    pub fn noise_quads(&self) -> u32 {
        self.noise_quads.unwrap_or(self.quads)
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

/// What a run computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "give \"stdout\", a list of files, or { command = \"...\" } that prints a digest"
)]
pub enum Equal {
    /// All that it prints but the lines of figures.
    Stdout(StdoutWord),
    /// Files of the worktree that it writes.
    Files(Vec<String>),
    /// What a command prints after it, run by `sh -c` in its worktree.
    Command {
        /// The command.
        command: String,
    },
}

/// The word for what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdoutWord {
    /// Standard output.
    #[serde(rename = "stdout")]
    Stdout,
}

/// How figures are read from what a command prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reader {
    /// Lines `METRIC name=value`, one of each name.
    #[default]
    Metric,
    /// What criterion prints, `NAME  time: [low estimate high]`: the estimate in seconds under `NAME`, and
    /// where there is a throughput, elements or bytes a second under `NAME/thrpt`.
    Criterion,
    /// What `go test -bench` prints; figures are `NAME/UNIT`, with and without the `-N` that Go adds for
    /// `GOMAXPROCS`. As many lines of a benchmark as the command asks for (`-count N`) are averaged.
    Go,
    /// hyperfine's `--export-json`; figures are `COMMAND/mean`, `/median`, `/min`, `/max`, `/stddev`, `/user`
    /// and `/system` in seconds, and just `mean` and so on if there is one command only.
    Hyperfine,
    /// pytest-benchmark's `--benchmark-json`; figures are `NAME/mean`, `/median`, `/min`, `/max` and `/stddev` in seconds, and
    /// just `mean` and so on if there is one benchmark only.
    PytestBenchmark,
    /// A document of the schema `duramen.evidence/1`; figures are the means under their names, and
    /// `NAME/min`, `/p50`, `/p90`, `/p95`, `/p99` and `/max` where there was more than one value.
    Evidence,
}

impl Reader {
    /// The reader's word, as the spec has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::Criterion => "criterion",
            Self::Go => "go",
            Self::Hyperfine => "hyperfine",
            Self::PytestBenchmark => "pytest_benchmark",
            Self::Evidence => "evidence",
        }
    }
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

impl Direction {
    /// The direction's word, as the spec has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
        }
    }
}

/// The figure that decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Primary {
    /// Its name.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
    /// Its unit, for those who read; where nothing is said, what its name ends in.
    #[serde(default)]
    pub unit: Option<String>,
    /// An improvement below this is not worth keeping.
    #[serde(default = "Primary::min_effect_percent")]
    pub min_effect_percent: f64,
    /// No scale may get worse by more than this.
    #[serde(default = "Primary::max_regression_percent")]
    pub max_regression_percent: f64,
    /// Gains of this size are looked for: a try that shows no sign of one ends early.
    #[serde(default = "Primary::aim_percent")]
    pub aim_percent: f64,
    /// Which share of the gain at the other scales a held-out scale must have. With 0 it need not gain.
    #[serde(default = "Primary::held_out_share")]
    pub held_out_share: f64,
}

impl Primary {
    fn min_effect_percent() -> f64 {
        1.0
    }
    fn max_regression_percent() -> f64 {
        2.0
    }
    fn aim_percent() -> f64 {
        5.0
    }
    fn held_out_share() -> f64 {
        0.5
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
#[serde(try_from = "draw::Written")]
pub struct Scale {
    /// Its name.
    pub name: String,
    /// What `{scale}` stands for. Empty where that is yet to be drawn.
    pub value: String,
    /// Run at confirmation only.
    #[serde(default)]
    pub held_out: bool,
    /// What its value is drawn from, anew for each confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<Draw>,
    /// A file outside of the repository with a value a line, one of which is drawn. `~/` is the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
}

impl Scale {
    /// Whether what it stands for is drawn when it is needed.
    #[must_use]
    pub fn is_drawn(&self) -> bool {
        self.draw.is_some() || self.values.is_some()
    }
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
    /// Two operands with `==`, `!=`, `<`, `<=`, `>` or `>=` between them; each a figure's name, `scale` or a
    /// number. A name with spaces or other signs stands in backquotes: see [`crate::invariant`].
    pub holds: String,
}

/// What may be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Globs of files that may be changed; none means all. What they match is in [`crate::scope`].
    #[serde(default)]
    pub allow: Vec<String>,
    /// Globs of files that may not, allowed or not. The series' own folder never may. Where the spec does not say, they
    /// are [`OFF_LIMITS`] and the scripts that its commands name.
    #[serde(default = "Scope::off_limits")]
    pub off_limits: Vec<String>,
}

impl Scope {
    fn off_limits() -> Vec<String> {
        OFF_LIMITS.iter().map(|(_, glob)| (*glob).to_owned()).collect()
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self { allow: Vec::new(), off_limits: Self::off_limits() }
    }
}

/// How much may be spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Tries of a segment. The error rate of 5 % is divided by it.
    pub tries: u32,
    /// How long a run may last.
    pub time: Span,
    /// The same in hours, as it was said before there was `time`. Where it is given it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<f64>,
    /// How long the proposer may take.
    pub proposer_timeout_s: f64,
}

impl Default for Budget {
    fn default() -> Self {
        let time = Span(std::time::Duration::from_secs(8 * 3600));
        Self { tries: 40, time, hours: None, proposer_timeout_s: 1_800.0 }
    }
}

impl Budget {
    /// How long a run may last.
    #[must_use]
    pub fn limit(&self) -> std::time::Duration {
        let hours = self.hours.and_then(|hours| std::time::Duration::try_from_secs_f64(hours * 3600.0).ok());
        hours.unwrap_or(self.time.0)
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
