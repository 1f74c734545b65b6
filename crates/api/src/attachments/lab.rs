//! What the lab measured: runs of suites in a directory, figures over runs, two variants compared, and logs of experiments.
//!
//! Texts are those of the documents, cut where they are very long. How figures are judged is in `crates/reports` and `crates/experiment`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabVerdict {
    /// Every check held.
    Pass,
    /// A check did not hold.
    Fail,
    /// What was to be measured did not happen.
    Invalid,
}

/// Which direction of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabBetter {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither.
    Neither,
}

/// A run, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabRun {
    /// What it is asked for by: a digest of where its document lies in the directory.
    pub id: String,
    /// Where its document lies in the directory.
    pub file: String,
    /// The suite.
    pub suite: String,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// The version of Duramen that was measured.
    pub version: String,
    /// The machine, by processor, cores and memory: runs with the same one may be compared.
    pub machine: String,
    /// The processor.
    pub cpu: String,
    /// How many threads could run at once.
    pub cores: u64,
    /// The configuration: runs with the same one were set alike.
    pub config: String,
    /// What came out.
    pub verdict: LabVerdict,
    /// Checks that held.
    pub checks_met: u32,
    /// Checks that did not.
    pub checks_missed: u32,
    /// Findings that say that something is wrong.
    pub problems: u32,
    /// Findings that say that something could mislead.
    pub warnings: u32,
    /// How many figures it has.
    pub figures: u32,
    /// Whether the machine had more to do than it has cores when it began.
    pub was_busy: bool,
}

/// A suite of which there are runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabSuite {
    /// Its name.
    pub name: String,
    /// What it measures, in a line; absent if this program does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// How many runs there are.
    pub runs: u32,
}

/// A file that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabDamaged {
    /// Where it lies in the directory.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

/// `GET /v1/attachments/{name}/runs`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabRuns {
    /// The runs, the newest first.
    pub runs: Vec<LabRun>,
    /// How many older ones are not among them.
    pub older: u32,
    /// The suites of which there are runs, by name, whichever was asked for.
    pub suites: Vec<LabSuite>,
    /// Files that are JSON, and no evidence.
    pub others: u32,
    /// Files that hold a run which another file holds, too.
    pub repeated: u32,
    /// Evidence that cannot be read: the first of them.
    pub damaged: Vec<LabDamaged>,
    /// How many there are.
    pub damaged_count: u32,
    /// Files that were not read yet, because that would have taken too long. Who asks again is told more.
    pub unread: u32,
    /// Whether there is more in the directory than is looked at, or more deeply.
    pub is_partial: bool,
    /// Logs of experiments.
    pub logs: u32,
}

/// A machine as a document describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabHost {
    /// The memory, in bytes.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: String,
    /// The file system of the measured directory.
    pub file_system: String,
    /// The load average over 1, 5 and 15 minutes when it began.
    pub load_average: Vec<f64>,
    /// What one durable append takes at least, in microseconds.
    pub fsync_floor_us: f64,
}

/// A setting of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabSetting {
    /// Its name.
    pub name: String,
    /// Its value, as JSON or as text.
    pub value: String,
}

/// How a figure stands to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabOutcome {
    /// It reaches it.
    Met,
    /// It does not.
    Missed,
    /// It was taken under another load than the target is for.
    OtherLoad,
    /// It was taken with another amount of data than the target is for.
    OtherSize,
    /// There is no figure.
    NotMeasured,
}

/// A target with the figure of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabTarget {
    /// The measurement that the figure is of; empty if it is of none, or of several.
    pub name: String,
    /// What it is about.
    pub what: String,
    /// The figure.
    pub measured: Option<f64>,
    /// What it must reach.
    pub limit: f64,
    /// The unit of all of them.
    pub unit: String,
    /// Whether more is better.
    pub at_least: bool,
    /// How the figure stands.
    pub outcome: LabOutcome,
    /// The figure in words; empty if there is none.
    pub measured_words: String,
    /// The limit in words.
    pub limit_words: String,
    /// What the disk alone takes of it, in words; empty where it does not wait for the disk.
    pub floor_words: String,
    /// The best that another project published, in words; may be empty.
    pub reference_words: String,
}

/// A figure with its distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabMeasurement {
    /// Its name.
    pub name: String,
    /// The unit of all values.
    pub unit: String,
    /// How many values there were.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
    /// Which direction is better.
    pub better: LabBetter,
    /// Whether it says something: what was to be measured happened.
    pub is_sound: bool,
}

/// A claim, and whether it held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabCheck {
    /// The claim.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// What was seen.
    pub detail: String,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabSeverity {
    /// Good to know.
    Info,
    /// Could be better, or could mislead.
    Warning,
    /// Wrong.
    Problem,
}

/// Something that a rule noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabFinding {
    /// The rule.
    pub rule: String,
    /// How much it matters.
    pub severity: LabSeverity,
    /// What it means, and what to do.
    pub text: String,
}

/// One figure in large.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabTile {
    /// The figure with its unit.
    pub figure: String,
    /// What it is.
    pub what: String,
    /// What it is to be held against; may be empty.
    pub beside: String,
}

/// `GET /v1/attachments/{name}/run`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabReport {
    /// The run.
    pub run: LabRun,
    /// What its suite measures, in a line; absent if this program does not know it: then there are no targets, and no tiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The seed by which it can be run again, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    /// The machine.
    pub host: LabHost,
    /// What was set.
    pub settings: Vec<LabSetting>,
    /// The figures that matter most.
    pub tiles: Vec<LabTile>,
    /// The targets that it has figures for.
    pub targets: Vec<LabTarget>,
    /// The figures.
    pub measurements: Vec<LabMeasurement>,
    /// What was claimed, what did not hold first.
    pub checks: Vec<LabCheck>,
    /// What was noticed, the worst first.
    pub findings: Vec<LabFinding>,
    /// How many settings, figures, checks and findings are left out because there are too many, or their names are too long.
    pub left_out: u32,
}

/// A run in a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabPoint {
    /// The run.
    pub id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// What came out.
    pub verdict: LabVerdict,
    /// Whether the machine had more to do than it has cores when it began.
    pub was_busy: bool,
    /// Whether it failed, or is invalid as a whole: it has no values then, and is in no median and no band.
    #[serde(default)]
    pub is_mark: bool,
}

/// A mean of runs with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabBand {
    /// The mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The confidence of the interval.
    pub confidence: f64,
}

/// What came of a figure over runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabTrend {
    /// It got worse.
    Worse,
    /// It changed, and neither direction is better.
    Changed,
    /// It got better.
    Better,
    /// No change that the values show.
    NoChange,
    /// There are too few values.
    TooFew,
}

/// A target as a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabLimit {
    /// What it is about.
    pub what: String,
    /// The limit, in the figure's unit.
    pub limit: f64,
    /// Whether more is better.
    pub at_least: bool,
    /// The limit in words.
    pub words: String,
}

/// A figure over the runs of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabCourse {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: LabBetter,
    /// Its median in each run; none where it was not measured, or says nothing.
    pub values: Vec<Option<f64>>,
    /// How many of the values, the first, are those before.
    pub before_count: u32,
    /// How many, the last, are held against them.
    pub last_count: u32,
    /// The median of the ones before.
    pub before: Option<f64>,
    /// The median of the last ones.
    pub last: Option<f64>,
    /// The mean of the ones before, with its interval; absent for fewer than two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_band: Option<LabBand>,
    /// Where the mean of the last ones lies: the mean of the ones before and the difference, with the interval of the difference. Absent
    /// while there are too few values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_band: Option<LabBand>,
    /// The difference in percent of the mean of the ones before, where that is above zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// What came out.
    pub trend: LabTrend,
    /// The same in words.
    pub words: String,
    /// What it was to reach in the newest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<LabLimit>,
}

/// Runs of one suite that are alike: of one machine with one kernel and file system, one version and one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabSeries {
    /// The machine.
    pub machine: String,
    /// The processor.
    pub cpu: String,
    /// How many threads could run at once.
    pub cores: u64,
    /// The version of Duramen.
    pub version: String,
    /// The configuration.
    pub config: String,
    /// What sets it apart from the series with the newest run, in words: its kernel, its cluster, its settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// The runs, the oldest first.
    pub runs: Vec<LabPoint>,
    /// How many figures were tested for a change; of the changes told at most 5 % are chance.
    pub comparisons: u32,
    /// How many of them changed.
    pub changed: u32,
    /// What makes the series doubtful, in words.
    pub doubts: Vec<String>,
    /// The figures: those that changed first, then in the order of the newest run.
    pub figures: Vec<LabCourse>,
    /// How many figures are left out.
    pub figures_left_out: u32,
}

/// `GET /v1/attachments/{name}/series`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabHistory {
    /// The suite.
    pub suite: String,
    /// The series, the one with the newest run first.
    pub series: Vec<LabSeries>,
    /// How many runs of the suite are in none of them, because there are too many.
    pub runs_left_out: u32,
    /// From so many values on a change is told.
    pub least_runs: u32,
    /// Files of the directory that were not read yet. Who asks again is told more.
    pub unread: u32,
}

/// What came of a figure of two variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabDifference {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B is different, and neither is better.
    Different,
    /// None that the values show.
    NoDifference,
    /// There are too few values to tell.
    Undecidable,
    /// Not measured on both sides alike.
    NotComparable,
}

/// A figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabCompared {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The mean of the values of A.
    pub a: Option<f64>,
    /// The mean of the values of B.
    pub b: Option<f64>,
    /// How many values A has.
    pub a_count: u32,
    /// How many values B has.
    pub b_count: u32,
    /// B minus A.
    pub effect: Option<f64>,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end of its interval.
    pub high: Option<f64>,
    /// The confidence of the interval.
    pub confidence: Option<f64>,
    /// The effect in percent of A, where A is above zero.
    pub percent: Option<f64>,
    /// B over A, where both are above zero: what was judged then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The lower end of its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_low: Option<f64>,
    /// The upper end of its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_high: Option<f64>,
    /// How many percent more would have been told in 80 of 100 such comparisons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
    /// Which direction is better.
    pub better: LabBetter,
    /// What came out.
    pub difference: LabDifference,
    /// The same in words.
    pub words: String,
}

/// `GET /v1/attachments/{name}/comparison`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabComparison {
    /// The runs of the first variant.
    pub a: Vec<LabRun>,
    /// Those of the second.
    pub b: Vec<LabRun>,
    /// The suite.
    pub suite: String,
    /// What differs beside the figures, in words.
    pub warnings: Vec<String>,
    /// How it was compared, and what came out, in words.
    pub method: String,
    /// Whether any figure could be compared.
    pub is_comparable: bool,
    /// The figures: what is worse, different and better first.
    pub figures: Vec<LabCompared>,
}

/// How a figure changed, in percent of it, with the interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabChange {
    /// The estimate.
    pub percent: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A try of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabTry {
    /// Its number.
    pub number: u32,
    /// The segment: the tries since one baseline.
    pub segment: u32,
    /// When it began.
    pub at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// What holds: `keep`, `discard`, `crash`, `checks failed`, `invalid`, `suspicious` or `inconclusive`; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Why, in words.
    pub reason: String,
    /// Why somebody decided otherwise than was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<String>,
    /// How the primary figure changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<LabChange>,
    /// How probable the samples would be if nothing had changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// What it was judged at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Whether new samples agreed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<bool>,
    /// The primary figure at each scale.
    pub scales: BTreeMap<String, LabChange>,
    /// Other figures.
    pub others: BTreeMap<String, LabChange>,
    /// What should become better.
    pub hypothesis: String,
    /// By which mechanism.
    pub mechanism: String,
    /// The line of thought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axis: Option<String>,
    /// The commit that was tried.
    pub candidate: String,
    /// The files that it changes: the first of them.
    pub files: Vec<String>,
    /// How many samples there are.
    pub samples: u32,
}

/// A series of tries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabExperiment {
    /// Where its log lies in the directory.
    pub file: String,
    /// Its name.
    pub name: String,
    /// The primary figure.
    pub metric: String,
    /// Which direction of it is better.
    pub better: LabBetter,
    /// The number of the current segment; 0 before the first baseline.
    pub segment: u32,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// The commit that it began with.
    pub start: String,
    /// Start and kept tries.
    pub head: String,
    /// How many tries the current segment may have.
    pub budget: u32,
    /// How many tries of the current segment came to which verdict.
    pub verdicts: BTreeMap<String, u32>,
    /// How the primary figure changed from start to head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<LabChange>,
    /// Whether that was measured by a replay of this head, or is the product of what the tries did one by one.
    pub is_replayed: bool,
    /// What is above the noise, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_percent: Option<f64>,
    /// The tries of all segments, in their order.
    pub tries: Vec<LabTry>,
    /// How many earlier ones are not among them.
    pub earlier: u32,
    /// What does not fit together in the log, in words.
    pub oddities: Vec<String>,
}

/// `GET /v1/attachments/{name}/experiments`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabExperiments {
    /// The series of tries, by where their logs lie.
    pub experiments: Vec<LabExperiment>,
    /// Logs that cannot be read.
    pub damaged: Vec<LabDamaged>,
    /// Logs that were not read: there are too many. Who asks again is told more of those for which there was no time.
    pub unread: u32,
    /// Whether there is more in the directory than is looked at, or more deeply.
    pub is_partial: bool,
}
