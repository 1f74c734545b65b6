//! How figures are read from what a command prints, and when they are believed.
//!
//! A reader gives finite numbers only. What was printed as `NaN`, `inf` or no number at all is left out: [`sane`] then
//! finds it missing. A figure has one value in a run: two, whichever comes last, are none (X5).

mod criterion;
mod evidence;
mod go;
mod hyperfine;
mod json;
mod metric;
mod pytest_benchmark;
mod sane;

pub(crate) use json::strict;

pub use sane::{sane, Insane, FIGURE_MAX};

use crate::event::Metrics;
use crate::spec::{Reader, NAME_CHARS_MAX};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The figure for the time that the whole command took, in seconds, where it printed none of that name.
pub const WALL: &str = "wall_s";

/// The figure for the CPU time of the whole command, in seconds, where it printed none of that name.
pub const CPU: &str = "cpu_s";

/// The most figures of a run.
pub const FIGURES_MAX: usize = 1_000;

/// So many places of a text may look like the beginning of a JSON document and be none.
const NO_OBJECTS_MAX: usize = 100;

/// How many characters of a value an error shows.
const QUOTED_CHARS: usize = 40;

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
    /// A figure has two values: the run could choose, and so could what is measured.
    #[error(
        "there are two values of the figure `{name}`, {first} and {second}: a run has one value of each; print it \
         once, or give different things different names"
    )]
    Duplicate {
        /// The name.
        name: String,
        /// The value that came first, as it was printed.
        first: String,
        /// The one that came after it.
        second: String,
    },
    /// Go printed more or fewer lines of a benchmark than it was asked for.
    #[error(
        "there are {found} values of the figure `{name}` ({values}), where `measure.command` asks for {wanted} with \
         `-count`: a run has one value of each, or the mean of as many as the command asks for; write `-count N` into \
         `measure.command` itself"
    )]
    Count {
        /// The name.
        name: String,
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
        /// The first of them.
        values: String,
    },
    /// There are more figures than [`FIGURES_MAX`].
    #[error(
        "there are more than {FIGURES_MAX} figures: print those that the spec names, or run fewer benchmarks"
    )]
    TooMany,
}

/// Reads the figures of one run.
///
/// `command` is what printed it: how often Go was to run each benchmark is said there (`-count`).
///
/// # Errors
/// [`ReadError::Nothing`] when there is no figure, which is as it should be where a spec names [`WALL`] and [`CPU`]
/// only. After any other error the run counts for nothing, these two included: the output says that something
/// failed, is not of the reader's format, has two values of a figure, or too many figures.
pub fn read(reader: Reader, command: &str, text: &str) -> Result<Metrics, ReadError> {
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
            go::read(command, text, &mut figures)?;
            "lines `BenchmarkNAME COUNT VALUE UNIT ...`; did `-bench` match any?"
        }
        Reader::Hyperfine => {
            hyperfine::read(text, &mut figures)?;
            "the JSON of `--export-json`"
        }
        Reader::PytestBenchmark => {
            pytest_benchmark::read(text, &mut figures)?;
            "the JSON of `--benchmark-json`"
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
    /// As they were printed: also those that are not a finite number.
    seen: BTreeMap<String, String>,
}

impl Figures {
    /// Takes a figure, as which `text` was printed. What has no fit name is passed over; one that is not a finite number is
    /// left out.
    fn put(&mut self, name: &str, value: Option<f64>, text: impl fmt::Display) -> Result<(), ReadError> {
        if !is_name(name) {
            return Ok(());
        }
        let second: String = text.to_string().chars().take(QUOTED_CHARS).collect();
        if let Some(first) = self.seen.get(name).cloned() {
            return Err(ReadError::Duplicate { name: name.to_owned(), first, second });
        }
        self.seen.insert(name.to_owned(), second);
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.metrics.insert(name.to_owned(), value);
        }
        if self.seen.len() > FIGURES_MAX {
            return Err(ReadError::TooMany);
        }
        Ok(())
    }

    /// Takes a number.
    fn put_number(&mut self, name: &str, value: Option<f64>) -> Result<(), ReadError> {
        match value {
            Some(number) => self.put(name, value, number),
            None => self.put(name, None, "none"),
        }
    }
}

/// All JSON objects in a text that have this key and begin a line; other lines may stand between them.
fn objects(reader: Reader, key: &str, text: &str) -> Result<Vec<Value>, ReadError> {
    let mut wrong = format!("there is no JSON object with `{key}` in it");
    let (mut found, mut from, mut failed) = (Vec::new(), 0, 0);
    while let Some(start) = object_start(text, from) {
        let (value, length) = strict(&text[start..]);
        match value {
            Ok(value) => {
                from = start + length;
                if value.get(key).is_some() {
                    found.push(value);
                }
            }
            // A key that stands twice: what comes after it makes that no better.
            Err(error) if error.is_data() => {
                return Err(ReadError::Malformed { reader, what: error.to_string() });
            }
            Err(error) => {
                wrong = error.to_string();
                from = start + 1;
                failed += 1;
                if failed > NO_OBJECTS_MAX {
                    // What comes after might be another document, with other figures.
                    let what = format!(
                        "more than {NO_OBJECTS_MAX} lines begin as a JSON object and are none: {wrong}"
                    );
                    return Err(ReadError::Malformed { reader, what });
                }
            }
        }
    }
    if found.is_empty() {
        return Err(ReadError::Malformed { reader, what: wrong });
    }
    Ok(found)
}

/// The place of the first `{` from `from` on that has only spaces before it in its line.
fn object_start(text: &str, from: usize) -> Option<usize> {
    let is_first = |at: &usize| {
        text[..*at].bytes().rev().take_while(|byte| *byte != b'\n').all(|byte| byte.is_ascii_whitespace())
    };
    text[from..].match_indices('{').map(|(at, _)| from + at).find(is_first)
}
