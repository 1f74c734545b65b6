//! What the evidence of this suite says beside its figures: what the scenarios were, what was seen in them, and the time
//! lines. Written by `figures`, read by everything that tells.

use std::collections::BTreeMap;

use duramen_measure::evidence::Evidence;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::level::Level;
use super::outcome::Conditions;
use super::scenario::Wait;

/// The setting of the evidence that holds the scenarios.
pub const SCENARIOS: &str = "scenarios";
/// The setting that holds the time lines, by `S2/remote_apply`.
pub const TIMELINES: &str = "timelines";
pub use duramen_measure::evidence::{INTERVALS, SAMPLES};
/// The confidence of the intervals.
pub const CONFIDENCE: f64 = 0.95;

/// A scenario as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioSummary {
    /// `S2`.
    pub id: String,
    /// In words.
    pub name: String,
    /// What it shows.
    pub text: String,
    /// `latency`, `saturation`, `stall`, `statement`, `calibration` or `cancelled wait`.
    pub kind: String,
    /// What to do about it.
    pub advice: String,
    /// The scenario that it is the control of: `S12`.
    #[serde(default)]
    pub control_of: Option<String>,
    /// Why it was not run, or not to its end.
    pub skipped: Option<String>,
    /// What was seen, by conditions.
    pub seen: Vec<Seen>,
}

/// What was seen under certain conditions, over all passes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// What is added to the names of measurements: ``, `/feedback`, `/rtt=20`.
    pub suffix: String,
    /// `hot_standby_feedback`.
    pub feedback: bool,
    /// The added round trip.
    pub rtt_ms: u32,
    /// Whether these are the control: what the scenario breaks was left whole.
    #[serde(default)]
    pub control: bool,
    /// How many passes.
    pub passes: u32,
    /// Which expectations were not met, in words. Empty: the figures are valid.
    pub unmet: Vec<String>,
    /// By level.
    pub levels: Vec<AtLevel>,
    /// How long the startup process waited, by `Type:Event`, in seconds, all passes together.
    pub startup_s: BTreeMap<String, f64>,
    /// For how long the WAL was stuck before the replay, by stage, in seconds, all passes together.
    #[serde(default)]
    pub stuck_s: BTreeMap<String, f64>,
    /// Commits (or statements) that ended, all passes together.
    pub committed: u64,
    /// WAL written, all passes together.
    pub wal_bytes: u64,
    /// Bytes of full-page images in it.
    pub image_bytes: u64,
    /// The largest kinds of WAL records: name, count, bytes without images.
    pub records: Vec<(String, u64, u64)>,
    /// At which kinds of WAL records readers held up the replay, and in how many samples, all passes together.
    #[serde(default)]
    pub held_up_at: BTreeMap<String, u64>,
    /// The most that the standby had to replay when a timed statement began.
    pub backlog_bytes: Option<u64>,
    /// The most files of relations that went away on the standby in a pass.
    pub files_removed: Option<u64>,
    /// The most files of logical mappings that the replay wrote in a pass.
    #[serde(default)]
    pub mapping_files: Option<u64>,
    /// Queries of the standby that were cancelled.
    pub cancelled: u64,
    /// Operations that failed, and what the first one said.
    pub failed: Option<(u64, String)>,
}

/// What was seen at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtLevel {
    /// Its name.
    pub level: String,
    /// The longest stall of any pass, in seconds; zero for none.
    pub stall_s: f64,
    /// What it waited for.
    pub cause: Option<String>,
    /// The longest gap in which the standby was replaying what it had received, in seconds.
    #[serde(default)]
    pub replaying_s: f64,
    /// The longest gap without evidence, in seconds.
    pub noise_s: f64,
}

/// What happened in a pass, step by step. A value is null where there was no load, or no sample.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of a step.
    pub step_ms: u64,
    /// Commits that were acknowledged in the step.
    pub commits: Vec<Option<u64>>,
    /// What the standby had not replayed.
    pub lag_bytes: Vec<Option<u64>>,
    /// How old the oldest of that was.
    pub lag_ms: Vec<Option<u64>>,
    /// Where the WAL was stuck, or what the startup process waited for.
    pub wait: Vec<Option<String>>,
    /// How much WAL the primary wrote, in bytes a second.
    #[serde(default)]
    pub written_bytes_per_s: Vec<Option<u64>>,
    /// How much of it the standby replayed, in bytes a second.
    #[serde(default)]
    pub replayed_bytes_per_s: Vec<Option<u64>>,
    /// The most sessions of the load that waited for the standby.
    #[serde(default)]
    pub waiting_sessions: Vec<Option<u64>>,
    /// Times of a second and more without commits.
    pub gaps: Vec<TimelineGap>,
}

/// A time without commits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimelineGap {
    /// From the beginning of the pass.
    pub begin_s: f64,
    /// Its length.
    pub length_s: f64,
    /// What it waited for; null: there is no evidence of a wait.
    pub cause: Option<String>,
}

/// The interval of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AddedInterval {
    /// The mean of the values.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// 0.95.
    pub confidence: f64,
    /// Of how many independent values; 0 in documents of before.
    #[serde(default)]
    pub values: u64,
}

/// A document of this suite, read.
#[derive(Debug)]
pub struct Summary<'a> {
    evidence: &'a Evidence,
    /// The scenarios, in the order of their numbers.
    pub scenarios: Vec<ScenarioSummary>,
}

impl<'a> Summary<'a> {
    /// Reads a document; one without scenarios gives an empty list.
    #[must_use]
    pub fn from_evidence(evidence: &'a Evidence) -> Self {
        let scenarios = evidence.config.get(SCENARIOS).cloned().unwrap_or(Value::Null);
        Self { evidence, scenarios: serde_json::from_value(scenarios).unwrap_or_default() }
    }

    /// The document.
    #[must_use]
    pub fn evidence(&self) -> &'a Evidence {
        self.evidence
    }

    /// The median of a measurement.
    #[must_use]
    pub fn p50(&self, name: &str) -> Option<f64> {
        self.evidence.measurement(name).filter(|figure| figure.count > 0).map(|figure| figure.p50)
    }

    /// The interval of a measurement.
    #[must_use]
    pub fn interval(&self, name: &str) -> Option<AddedInterval> {
        let interval = self.evidence.config.get(INTERVALS)?.get(name)?;
        serde_json::from_value(interval.clone()).ok()
    }

    /// A time line.
    #[must_use]
    pub fn timeline(&self, name: &str) -> Option<Timeline> {
        let timeline = self.evidence.config.get(TIMELINES)?.get(name)?;
        serde_json::from_value(timeline.clone()).ok()
    }

    /// All scenarios with what was seen under each of their conditions.
    pub fn seen(&self) -> impl Iterator<Item = (&ScenarioSummary, &Seen)> {
        self.scenarios.iter().flat_map(|entry| entry.seen.iter().map(move |seen| (entry, seen)))
    }

    /// The same without those that are invalid.
    pub fn valid(&self) -> impl Iterator<Item = (&ScenarioSummary, &Seen)> {
        self.seen().filter(|(_, seen)| seen.unmet.is_empty())
    }
}

impl ScenarioSummary {
    /// `S2 snapshot conflict by VACUUM`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.id, self.name)
    }

    /// Whether what was to be measured was not seen to happen.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.seen.iter().any(|seen| !seen.unmet.is_empty())
    }

    /// What was seen with the servers as near to each other as they were, with feedback or without.
    #[must_use]
    pub fn nearest(&self, feedback: bool) -> Option<&Seen> {
        let real = || self.seen.iter().filter(|seen| !seen.control);
        let nearest = real().map(|seen| seen.rtt_ms).min()?;
        real().find(|seen| seen.feedback == feedback && seen.rtt_ms == nearest)
    }

    /// What was seen under the plainest conditions.
    #[must_use]
    pub fn plain(&self) -> Option<&Seen> {
        self.seen.first()
    }
}

impl Seen {
    /// The name of a measurement of a scenario under these conditions: `stall_s/S2/remote_apply/feedback`.
    #[must_use]
    pub fn name(&self, figure: &str, entry: &ScenarioSummary, level: Option<&str>) -> String {
        let level = level.map_or_else(String::new, |level| format!("/{level}"));
        format!("{figure}/{}{level}{}", entry.id, self.suffix)
    }

    /// The conditions in words, empty for the plain ones.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.feedback {
            words.push("feedback on".to_owned());
        }
        if self.rtt_ms > 0 {
            words.push(format!("round trip +{} ms", self.rtt_ms));
        }
        if self.control {
            words.push("control".to_owned());
        }
        words.join(", ")
    }

    /// What was seen at a level.
    #[must_use]
    pub fn at(&self, level: Level) -> Option<&AtLevel> {
        self.levels.iter().find(|at| at.level == level.name())
    }
}

/// What conditions add to the names of measurements.
#[must_use]
pub fn suffix(conditions: Conditions) -> String {
    let feedback = if conditions.feedback { "/feedback" } else { "" };
    let control = if conditions.control { "/control" } else { "" };
    match conditions.rtt_ms {
        0 => format!("{feedback}{control}"),
        rtt => format!("{feedback}/rtt={rtt}{control}"),
    }
}

/// The cause of a stall, as it is told.
#[must_use]
pub fn cause(wait: Wait) -> &'static str {
    match wait {
        Wait::Snapshot => "snapshot",
        Wait::Lock => "relation lock",
        Wait::BufferPin => "buffer pin",
        Wait::ApplyDelay => "apply delay",
        Wait::Absent => "no standby",
        Wait::Unreceived => "not received",
        Wait::Unflushed => "not flushed",
        Wait::Replaying => "replaying",
    }
}
