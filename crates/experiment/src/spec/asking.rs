//! Who proposes changes, what it is shown, and how long a run may last. Nothing of it has a part in a verdict: a segment
//! goes on when it changes.

use serde::{de::Error as _, Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// Who proposes changes in a run that names nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProposerSpec {
    /// A command for `sh -c`.
    pub command: Option<String>,
    /// A coding agent: see [`AGENTS`](crate::agents::AGENTS).
    pub agent: Option<String>,
    /// Further arguments of the agent, such as a model.
    pub arguments: Vec<String>,
    /// Variables of the environment that it gets within its walls, besides those of its row.
    pub env: Vec<String>,
    /// Files and folders that it sees besides, read-only. `~/` is the home.
    pub reads: Vec<String>,
    /// Files and folders that it may write to besides.
    pub writes: Vec<String>,
    /// Whether it has the network.
    pub network: bool,
}

impl Default for ProposerSpec {
    fn default() -> Self {
        Self {
            command: None,
            agent: None,
            arguments: Vec::new(),
            env: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            network: true,
        }
    }
}

/// A command that tells where the time of a base goes. What it prints is shown to whoever proposes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    /// Run by `sh -c` in a worktree of the base that was just built. `{scale}` is the first scale that is not held out.
    pub command: String,
    /// After this it has failed.
    #[serde(default = "ProfileSpec::timeout_s")]
    pub timeout_s: f64,
}

impl ProfileSpec {
    fn timeout_s() -> f64 {
        300.0
    }
}

/// A length of time, as it is written: `16h`, `1h30m`, `2d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// Units of a span, in seconds.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
/// The longest span: a year.
const LONGEST_S: u64 = 366 * 86_400;

impl Span {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Span, String> {
        let wrong = || format!("{text:?} is not a length of time; write it like 16h, 90m, 1h30m or 2d");
        let (mut seconds, mut digits) = (0_u64, String::new());
        for c in text.chars().filter(|c| *c != ' ') {
            if c.is_ascii_digit() {
                digits.push(c);
                continue;
            }
            let (_, unit) = UNITS.iter().find(|(sign, _)| *sign == c).ok_or_else(wrong)?;
            let count: u64 = digits.parse().map_err(|_| wrong())?;
            seconds =
                count.checked_mul(*unit).and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
            digits.clear();
        }
        if !digits.is_empty() || seconds == 0 || seconds > LONGEST_S {
            return Err(wrong());
        }
        Ok(Span(Duration::from_secs(seconds)))
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut left = self.0.as_secs();
        if left == 0 {
            return f.write_str("0s");
        }
        for (sign, unit) in UNITS {
            if left >= unit {
                write!(f, "{}{sign}", left / unit)?;
                left %= unit;
            }
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Span::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
