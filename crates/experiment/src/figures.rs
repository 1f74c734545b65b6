//! How figures are read from what a command prints, and when they are believed.
//!
//! A reader gives finite numbers only. What was printed as `NaN`, `inf` or no number at all is left out, and
//! takes an earlier figure of the same name with it: [`sane`] then finds it missing.

mod criterion;
mod evidence;
mod go;
mod hyperfine;
mod metric;
mod sane;

pub use sane::{sane, Insane, FIGURE_MAX};

use crate::event::Metrics;
use crate::spec::{Reader, NAME_CHARS_MAX};
use serde_json::Value;
use std::collections::BTreeSet;

/// The figure for the time that the whole command took, in seconds, where it printed none of that name.
pub const WALL: &str = "wall_s";

/// The figure for the CPU time of the whole command, in seconds, where it printed none of that name.
pub const CPU: &str = "cpu_s";

/// The most figures of a run.
pub const FIGURES_MAX: usize = 1_000;

/// In so many places of a text a JSON document is looked for.
const OBJECTS_TRIED: usize = 100;

/// Names that mean something else to those who read our documents as JavaScript objects.
const DENIED: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// Why no figures could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There was none.
    #[error("no figure was found by the reader `{}`, which looks for {looks_for}", reader.as_str())]
    Nothing {
        /// The reader.
        reader: Reader,
        /// What it reads.
        looks_for: &'static str,
    },
    /// What was printed says that something failed.
    #[error("the output says that it failed: {what}")]
    Failed {
        /// Where it says so.
        what: String,
    },
    /// The output is not what the reader reads.
    #[error("the reader `{}` does not understand the output: {what}", reader.as_str())]
    Malformed {
        /// The reader.
        reader: Reader,
        /// What is wrong.
        what: String,
    },
    /// Two different things have the same name.
    #[error(
        "there are two results of the name `{name}`: run one of them only, or give them names of their own"
    )]
    Duplicate {
        /// The name.
        name: String,
    },
    /// There are more figures than [`FIGURES_MAX`].
    #[error(
        "there are more than {FIGURES_MAX} figures: print those that the spec names, or run fewer benchmarks"
    )]
    TooMany,
}

/// Reads the figures of one run.
///
/// # Errors
/// [`ReadError::Nothing`] when there is no figure, which is as it should be where a spec names [`WALL`] and [`CPU`]
/// only. After any other error the run counts for nothing, these two included: the output says that something
/// failed, is not of the reader's format, has two results of the same name, or too many.
pub fn read(reader: Reader, text: &str) -> Result<Metrics, ReadError> {
    let mut figures = Figures::default();
    let looks_for = match reader {
        Reader::Metric => {
            metric::read(text, &mut figures)?;
            "lines `METRIC name=value`"
        }
        Reader::Criterion => {
            criterion::read(text, &mut figures)?;
            "lines `NAME time: [low estimate high]`"
        }
        Reader::Go => {
            go::read(text, &mut figures)?;
            "lines `BenchmarkNAME COUNT VALUE UNIT ...`; did `-bench` match any?"
        }
        Reader::Hyperfine => {
            hyperfine::read(text, &mut figures)?;
            "the JSON of `--export-json`"
        }
        Reader::Evidence => {
            evidence::read(text, &mut figures)?;
            "a document of the schema duramen.evidence/1 with measurements"
        }
    };
    if figures.metrics.is_empty() {
        return Err(ReadError::Nothing { reader, looks_for });
    }
    Ok(figures.metrics)
}

/// Whether a figure may have this name.
pub(crate) fn is_name(name: &str) -> bool {
    !name.trim().is_empty()
        && !name.chars().any(char::is_control)
        && !DENIED.contains(&name)
        && name.chars().count() <= NAME_CHARS_MAX
}

/// The figures found so far.
#[derive(Default)]
struct Figures {
    metrics: Metrics,
    seen: BTreeSet<String>,
}

impl Figures {
    /// Takes the first of a name, and fails at the second.
    fn put_new(&mut self, name: &str, value: Option<f64>) -> Result<(), ReadError> {
        if !self.seen.insert(name.to_owned()) {
            return Err(ReadError::Duplicate { name: name.to_owned() });
        }
        self.put(name, value)
    }

    /// Takes the last of a name; one that is no finite number removes it. What has no fit name is passed
    /// over.
    fn put(&mut self, name: &str, value: Option<f64>) -> Result<(), ReadError> {
        if !is_name(name) {
            return Ok(());
        }
        match value.filter(|value| value.is_finite()) {
            Some(value) => {
                self.metrics.insert(name.to_owned(), value);
            }
            None => {
                self.metrics.remove(name);
            }
        }
        if self.metrics.len() > FIGURES_MAX {
            return Err(ReadError::TooMany);
        }
        Ok(())
    }
}

/// The first JSON object in a text that has this key and begins a line; other lines may stand before and
/// after it.
fn object(reader: Reader, key: &str, text: &str) -> Result<Value, ReadError> {
    let mut wrong = format!("there is no JSON object with `{key}` in it");
    let mut from = 0;
    for _ in 0..OBJECTS_TRIED {
        let Some(start) = object_start(text, from) else { break };
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) if value.get(key).is_some() => return Ok(value),
            Some(Ok(_)) => from = start + values.byte_offset(),
            Some(Err(error)) => {
                wrong = error.to_string();
                from = start + 1;
            }
            None => break,
        }
    }
    Err(ReadError::Malformed { reader, what: wrong })
}

/// The place of the first `{` from `from` on that has only spaces before it in its line.
fn object_start(text: &str, from: usize) -> Option<usize> {
    let is_first = |at: &usize| {
        text[..*at].bytes().rev().take_while(|byte| *byte != b'\n').all(|byte| byte.is_ascii_whitespace())
    };
    text[from..].match_indices('{').map(|(at, _)| from + at).find(is_first)
}
