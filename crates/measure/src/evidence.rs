//! Evidence documents: what was run, where, what came out, and whether that is what was claimed.
//!
//! The format is JSON under the name [`SCHEMA_ID`]; [`SCHEMA`] is its JSON Schema. Every field is always present.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::histogram::LatencyHistogram;
use crate::host::Host;
use duramen_base::clock;
use duramen_base::file;

/// What the field `schema` of every evidence document says.
pub const SCHEMA_ID: &str = "duramen.evidence/1";

/// The JSON Schema (draft 2020-12) of evidence documents.
pub const SCHEMA: &str = include_str!("../schema/duramen.evidence-1.schema.json");

/// Settings that differ from run to run without making the runs unlike, or that hold data.
pub const PASSING_SETTINGS: [&str; 11] = [
    "seed",
    "samples",
    "intervals",
    "timelines",
    "scenarios",
    "stalls",
    "dir",
    "home",
    "json",
    "html",
    "port",
];

/// The setting that holds the blocks behind figures, by their names: a list for each repeat. In documents of every version,
/// so those of before are compared by blocks too.
pub const SAMPLES: &str = "samples";

/// The setting that holds the intervals of figures, by their names.
pub const INTERVALS: &str = "intervals";

/// What the name of a check begins with that says whether what a part of the run is to measure did happen.
const MECHANISM: &str = "mechanism/";

/// What can go wrong with an evidence document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// The file could not be read or written.
    #[error("cannot {action} the evidence {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file is not an evidence document.
    #[error("{} is not an evidence document: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The file is a document of another schema, perhaps of a later version.
    #[error("{} is a document of the schema {found}; this version reads {SCHEMA_ID}", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema that it names, as JSON, or `none`.
        found: String,
    },
    /// A figure is infinite or not a number, which JSON cannot hold.
    #[error("the figure {name:?} is {value}, which is not a finite number")]
    NotFinite {
        /// The measurement or finding.
        name: String,
        /// Its value.
        value: f64,
    },
    /// The verdict says that a run passed in which a check failed.
    #[error("the verdict is pass although the check {check:?} failed; call Evidence::decide before writing")]
    Undecided {
        /// The failed check.
        check: String,
    },
}

/// An evidence document.
///
/// ```
/// use duramen_measure::evidence::{Evidence, Measurement, Verdict};
/// use duramen_measure::host::Host;
///
/// let dir = std::env::temp_dir();
/// let mut evidence = Evidence::new("example", Host::fingerprint(&dir)?);
/// evidence.measurements.push(Measurement::scalar("syncs_per_commit", "syncs", 1.0));
/// evidence.check("one sync per commit", true, "1 of 1");
/// assert_eq!(evidence.finish(), Verdict::Pass);
///
/// let path = dir.join(format!("{}.json", duramen_base::entropy::token(12)));
/// evidence.write(&path)?;
/// assert_eq!(Evidence::read(&path)?, evidence);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The document's format: [`SCHEMA_ID`].
    pub schema: String,
    /// Which suite of measurements was run.
    pub suite: String,
    /// When the run began, UTC.
    pub started_at: Timestamp,
    /// When the run ended, UTC.
    pub finished_at: Timestamp,
    /// The command with its arguments, as given.
    pub command: Vec<String>,
    /// The version of Duramen that was measured.
    pub version: String,
    /// The machine.
    pub host: Host,
    /// Everything that was set for the run, the seed and the server's version included.
    pub config: Map<String, Value>,
    /// The figures.
    pub measurements: Vec<Measurement>,
    /// What was claimed, and whether it held.
    pub checks: Vec<Check>,
    /// What a reader should know beside the figures.
    pub findings: Vec<Finding>,
    /// The outcome.
    pub verdict: Verdict,
}

/// One figure with its distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// What was measured.
    pub name: String,
    /// The unit of all values, for example `ms`.
    pub unit: String,
    /// How many values there were.
    pub count: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The least value.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest value.
    pub max: f64,
    /// The whole distribution where it was kept: an HDR histogram of nanoseconds, V2, base64. Must be present even
    /// when it is null, hence the explicit reader.
    #[serde(deserialize_with = "present")]
    pub histogram: Option<String>,
}

/// Something that was claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The claim.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// What was seen, in words and figures.
    pub detail: String,
}

/// Something that was noticed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The rule that noticed it.
    pub rule: String,
    /// How much it matters.
    pub severity: Severity,
    /// The number it is about, if there is one; `text` says its unit.
    #[serde(deserialize_with = "present")]
    pub figure: Option<f64>,
    /// What it means and what to do.
    pub text: String,
}

impl Finding {
    /// What a rule noticed.
    pub fn new(
        rule: impl Into<String>,
        severity: Severity,
        figure: Option<f64>,
        text: impl Into<String>,
    ) -> Self {
        Self { rule: rule.into(), severity, figure, text: text.into() }
    }
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Could be better, or could mislead.
    Warning,
    /// Wrong.
    Problem,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every check held.
    Pass,
    /// A check did not hold.
    Fail,
    /// The mechanism under test did not happen, so the figures say nothing: better no number than a wrong one.
    Invalid,
}

impl Evidence {
    /// A document that begins now, of this command, with no figures yet and the verdict that has nothing against
    /// it: [`Verdict::Pass`].
    pub fn new(suite: impl Into<String>, host: Host) -> Self {
        let now = clock::utc_now();
        Self {
            schema: SCHEMA_ID.to_owned(),
            suite: suite.into(),
            started_at: now,
            finished_at: now,
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host,
            config: Map::new(),
            measurements: Vec::new(),
            checks: Vec::new(),
            findings: Vec::new(),
            verdict: Verdict::Pass,
        }
    }

    /// Adds a setting of the run.
    pub fn configure(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.config.insert(name.into(), value.into());
    }

    /// Adds a check.
    pub fn check(&mut self, name: impl Into<String>, passed: bool, detail: impl Into<String>) {
        self.checks.push(Check { name: name.into(), passed, detail: detail.into() });
    }

    /// Adds a finding.
    pub fn find(
        &mut self,
        rule: impl Into<String>,
        severity: Severity,
        figure: Option<f64>,
        text: impl Into<String>,
    ) {
        self.findings.push(Finding::new(rule, severity, figure, text));
    }

    /// Keeps the blocks behind a figure, a list for each repeat: values that were taken apart from each other, each of
    /// a stretch of load. Lists without values are left out, and so is a figure of a single block, which its median tells.
    ///
    /// ```
    /// # use duramen_measure::{evidence::Evidence, host::Host};
    /// let mut evidence = Evidence::new("example", Host::fingerprint(&std::env::temp_dir())?);
    /// evidence.keep_blocks("put_ms", vec![vec![4.0, 5.0], vec![6.0]]);
    /// assert_eq!(evidence.blocks("put_ms"), Some(vec![vec![4.0, 5.0], vec![6.0]]));
    /// # Ok::<(), duramen_measure::host::HostError>(())
    /// ```
    pub fn keep_blocks(&mut self, figure: &str, repeats: Vec<Vec<f64>>) {
        let repeats: Vec<Vec<f64>> = repeats.into_iter().filter(|blocks| !blocks.is_empty()).collect();
        if repeats.iter().map(Vec::len).sum::<usize>() < 2 {
            return;
        }
        let samples = self.config.entry(SAMPLES).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(samples) = samples {
            samples.insert(figure.to_owned(), repeats.into());
        }
    }

    /// The blocks behind a figure, a list for each repeat, where the suite kept them.
    pub fn blocks(&self, figure: &str) -> Option<Vec<Vec<f64>>> {
        let repeats = self.config.get(SAMPLES)?.get(figure)?.as_array()?;
        let of_repeat = |blocks: &Value| blocks.as_array()?.iter().map(Value::as_f64).collect();
        repeats.iter().map(of_repeat).collect()
    }

    /// Keeps the interval of a figure, with its confidence (0.95 for 95 %).
    pub fn keep_interval(&mut self, figure: &str, [low, high]: [f64; 2], confidence: f64) {
        let intervals = self.config.entry(INTERVALS).or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(intervals), true) = (intervals, low.is_finite() && high.is_finite()) {
            let interval = serde_json::json!({ "low": low, "high": high, "confidence": confidence });
            intervals.insert(figure.to_owned(), interval);
        }
    }

    /// The interval of a figure, where the suite kept it.
    pub fn interval(&self, figure: &str) -> Option<[f64; 2]> {
        let interval = self.config.get(INTERVALS)?.get(figure)?;
        Some([interval.get("low")?.as_f64()?, interval.get("high")?.as_f64()?])
    }

    /// The measurement of a name.
    pub fn measurement(&self, name: &str) -> Option<&Measurement> {
        self.measurements.iter().find(|measurement| measurement.name == name)
    }

    /// The median of a measurement that has values.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.measurement(name).filter(|measurement| measurement.count > 0).map(|found| found.p50)
    }

    /// A setting that is a whole number.
    pub fn count_set(&self, name: &str) -> Option<u64> {
        self.config.get(name).and_then(Value::as_u64)
    }

    /// A setting that is a text.
    pub fn text_set(&self, name: &str) -> Option<&str> {
        self.config.get(name).and_then(Value::as_str)
    }

    /// Whether the measuring program was built with optimisation. A document that does not say is of one that was.
    pub fn is_optimised(&self) -> bool {
        self.config.get("optimised").and_then(Value::as_bool).unwrap_or(true)
    }

    /// Declares the run invalid: adds a finding of the rule `invalid`, and no check changes the verdict any more.
    pub fn invalidate(&mut self, reason: impl Into<String>) {
        self.find("invalid", Severity::Problem, None, reason);
        self.verdict = Verdict::Invalid;
    }

    /// Sets the verdict from the checks: fail if one failed, else pass; unless the run is invalid, which stays.
    pub fn decide(&mut self) -> Verdict {
        if self.verdict != Verdict::Invalid {
            let passed = self.checks.iter().all(|check| check.passed);
            self.verdict = if passed { Verdict::Pass } else { Verdict::Fail };
        }
        self.verdict
    }

    /// Notes that the run ends now, and decides.
    pub fn finish(&mut self) -> Verdict {
        self.finished_at = clock::utc_now();
        self.decide()
    }

    /// The document as indented JSON with a newline at its end.
    ///
    /// # Errors
    /// When a figure is not finite, or the verdict contradicts the checks.
    pub fn to_json(&self) -> Result<String, EvidenceError> {
        self.verify()?;
        let mut text =
            serde_json::to_string_pretty(self).expect("strings, numbers and lists are always JSON");
        text.push('\n');
        Ok(text)
    }

    /// Writes the document so that a crash leaves either the old file or the new one, whole and durable: under
    /// another name in the same folder, synced, renamed, and the folder synced.
    ///
    /// # Errors
    /// When a figure is not finite, the verdict contradicts the checks, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), EvidenceError> {
        let text = self.to_json()?;
        file::replace(path, text.as_bytes(), 0o644).map_err(|source| EvidenceError::Io {
            action: "write",
            path: path.to_owned(),
            source,
        })
    }

    /// Writes the document like [`write`](Self::write), but never over a file that is there.
    ///
    /// # Errors
    /// Those of [`write`](Self::write), and [`EvidenceError::Io`] of the kind `AlreadyExists`.
    pub fn write_new(&self, path: &Path) -> Result<(), EvidenceError> {
        let text = self.to_json()?;
        file::create(path, text.as_bytes(), 0o644).map_err(|source| EvidenceError::Io {
            action: "write",
            path: path.to_owned(),
            source,
        })
    }

    /// The parts of the run whose mechanism was not seen: `S2` for the failed check `mechanism/S2`. A document that is
    /// [`Verdict::Invalid`] and names none is invalid as a whole.
    pub fn unseen_parts(&self) -> impl Iterator<Item = &str> {
        self.checks
            .iter()
            .filter(|check| !check.passed)
            .filter_map(|check| check.name.strip_prefix(MECHANISM))
    }

    /// Whether a figure says something: neither the run as a whole nor the part that the figure is of is invalid.
    ///
    /// ```
    /// # use duramen_measure::{evidence::Evidence, host::Host};
    /// let mut evidence = Evidence::new("example", Host::fingerprint(&std::env::temp_dir())?);
    /// evidence.check("mechanism/S2", false, "no stall was seen");
    /// assert!(evidence.is_sound("latency_ms/S5/on") && !evidence.is_sound("latency_ms/S2/on"));
    /// # Ok::<(), duramen_measure::host::HostError>(())
    /// ```
    pub fn is_sound(&self, figure: &str) -> bool {
        let is_part = |part: &str| figure.split('/').any(|word| word == part);
        if self.verdict == Verdict::Invalid && self.unseen_parts().next().is_none() {
            return false;
        }
        !self.unseen_parts().any(is_part)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When the file cannot be read, is of another schema (also a later version of this one), or lacks a field,
    /// has an unknown one, or one of another type.
    pub fn read(path: &Path) -> Result<Self, EvidenceError> {
        let text = fs::read(path).map_err(|source| EvidenceError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads a document from its text. `path` is what errors call it.
    ///
    /// # Errors
    /// When the text is of another schema (also a later version of this one), or lacks a field, has an unknown one, or
    /// one of another type.
    ///
    /// ```
    /// use duramen_measure::evidence::{Evidence, EvidenceError};
    ///
    /// let later = Evidence::parse(br#"{"schema": "duramen.evidence/2"}"#, "run.json".as_ref());
    /// assert!(matches!(later, Err(EvidenceError::Schema { .. })));
    /// ```
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, EvidenceError> {
        let malformed = |source| EvidenceError::Malformed { path: path.to_owned(), source };
        // The schema's name is looked at first: to a reader of another version, "unknown field" would explain less.
        let value: Value = serde_json::from_slice(text).map_err(malformed)?;
        match value.get("schema") {
            Some(Value::String(name)) if name == SCHEMA_ID => {
                serde_json::from_value(value).map_err(malformed)
            }
            other => Err(EvidenceError::Schema {
                path: path.to_owned(),
                found: other.map_or_else(|| "none".to_owned(), Value::to_string),
            }),
        }
    }

    fn verify(&self) -> Result<(), EvidenceError> {
        let findings = self.findings.iter().filter_map(|finding| Some((&finding.rule, finding.figure?)));
        let host = ["load_average", "load_average", "load_average"].into_iter().zip(self.host.load_average);
        let host = host.chain([("fsync_floor_us", self.host.fsync_floor_us)]);
        let figures = self
            .measurements
            .iter()
            .flat_map(|m| [m.mean, m.min, m.p50, m.p90, m.p95, m.p99, m.max].map(|value| (&m.name, value)))
            .chain(findings)
            .map(|(name, value)| (name.as_str(), value))
            .chain(host);
        for (name, value) in figures {
            if !value.is_finite() {
                return Err(EvidenceError::NotFinite { name: name.to_owned(), value });
            }
        }
        match self.checks.iter().find(|check| !check.passed) {
            Some(failed) if self.verdict == Verdict::Pass => {
                Err(EvidenceError::Undecided { check: failed.name.clone() })
            }
            _ => Ok(()),
        }
    }
}

impl Measurement {
    /// The figures of a latency histogram in milliseconds, with the histogram itself.
    pub fn from_histogram(name: impl Into<String>, latencies: &LatencyHistogram) -> Self {
        let figures = latencies.summary_ms();
        Self {
            name: name.into(),
            unit: "ms".to_owned(),
            count: figures.count,
            mean: figures.mean,
            min: figures.min,
            p50: figures.p50,
            p90: figures.p90,
            p95: figures.p95,
            p99: figures.p99,
            max: figures.max,
            histogram: Some(latencies.to_base64_v2()),
        }
    }

    /// The figures of a latency histogram in microseconds, with the histogram itself.
    pub fn from_histogram_us(name: impl Into<String>, latencies: &LatencyHistogram) -> Self {
        // From nanoseconds, not from milliseconds: no figure gets a rounding error of its own.
        let at = |q| us(latencies.quantile(q));
        Self {
            name: name.into(),
            unit: "us".to_owned(),
            count: latencies.count(),
            mean: us(latencies.mean()),
            min: us(latencies.min()),
            p50: at(0.50),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
            max: us(latencies.max()),
            histogram: Some(latencies.to_base64_v2()),
        }
    }

    /// A single value: its count is 1 and each of its percentiles is the value.
    pub fn scalar(name: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        Self::from_values(name, unit, &[value])
    }

    /// The figures of some values. A percentile is the least value that at least that share of the values does not
    /// exceed (nearest rank), so it is always one of them. Without values, the count and all figures are 0.
    ///
    /// ```
    /// let m = duramen_measure::evidence::Measurement::from_values("restart", "s", &[4.0, 1.0, 2.0, 3.0]);
    /// assert_eq!((m.count, m.min, m.p50, m.mean, m.max), (4, 1.0, 2.0, 2.5, 4.0));
    /// ```
    pub fn from_values(name: impl Into<String>, unit: impl Into<String>, values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let percentile = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().unwrap_or(0.0)
        };
        let mean = match sorted.as_slice() {
            [] => 0.0,
            // Not the sum divided: a scalar is exactly its mean.
            [only] => *only,
            several => several.iter().sum::<f64>() / several.len() as f64,
        };
        Self {
            name: name.into(),
            unit: unit.into(),
            count: sorted.len() as u64,
            mean,
            min: percentile(0),
            p50: percentile(50),
            p90: percentile(90),
            p95: percentile(95),
            p99: percentile(99),
            max: percentile(100),
            histogram: None,
        }
    }
}

fn us(duration: std::time::Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

impl Verdict {
    /// The verdict's word, as the document has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "invalid",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Severity {
    /// The severity's word, as the document has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Reads an optional value whose field must be there: without it, serde takes a missing field for null.
fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Option::deserialize(deserializer)
}
