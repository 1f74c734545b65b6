//! How figures are read from what a command prints, and when they are believed.
//!
//! A reader gives finite numbers only. What was printed as `NaN`, `inf` or no number at all is left out, and takes an
//! earlier figure of the same name with it: [`sane`] then finds it missing.

mod criterion;
mod evidence;
mod go;
mod hyperfine;
mod metric;
mod sane;

pub use sane::{sane, Insane, FIGURE_MAX};

use crate::event::Metrics;
use crate::spec::{Reader, NAME_CHARS_MAX};

/// The figure for the time that the whole command took, in seconds, where it printed none of that name.
pub const WALL: &str = "wall_s";

/// The figure for the CPU time of the whole command, in seconds, where it printed none of that name.
pub const CPU: &str = "cpu_s";

/// The most figures of a run.
pub const FIGURES_MAX: usize = 1_000;

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
/// When there is no figure, the output says that something failed, is not of the reader's format, has two results of the
/// same name, or too many.
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

/// The figures found so far.
#[derive(Default)]
struct Figures {
    metrics: Metrics,
}

impl Figures {
    /// Takes the last of a name; one that is no finite number removes it.
    fn put(&mut self, name: &str, value: Option<f64>) -> Result<(), ReadError> {
        let unfit = name.trim().is_empty() || name.chars().any(char::is_control);
        if unfit || DENIED.contains(&name) || name.chars().count() > NAME_CHARS_MAX {
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

/// The first JSON object in a text that may have other lines before and after it.
fn object(reader: Reader, text: &str) -> Result<serde_json::Value, ReadError> {
    let malformed = |what: String| ReadError::Malformed { reader, what };
    let mut starts = text.match_indices('{').map(|(at, _)| at);
    let is_first_of_line =
        |at: &usize| text[..*at].chars().rev().take_while(|c| *c != '\n').all(char::is_whitespace);
    let start =
        starts.find(is_first_of_line).ok_or_else(|| malformed("there is no JSON object in it".to_owned()))?;
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter();
    match values.next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(malformed(error.to_string())),
        None => Err(malformed("there is no JSON object in it".to_owned())),
    }
}
