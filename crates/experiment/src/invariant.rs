//! Conditions on the figures of a run, such as `rows == n`.
//!
//! A condition is two operands with `==`, `!=`, `<`, `<=`, `>` or `>=` between them. An operand is a number,
//! `scale` (the scale's value, which must then be a number), or the name of a figure. A name with other
//! characters than letters, digits and `_.-/%:#`, one that begins with a digit or reads like a number, and a
//! figure that is called `scale`, stand in backquotes: `` `fib 20` < 0.1 ``. Numbers are compared exactly.

use crate::event::Metrics;
use std::fmt;

/// The longest condition, in bytes.
pub const CONDITION_BYTES_MAX: usize = 1_000;

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    left: Operand,
    comparison: Comparison,
    right: Operand,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Number(f64),
    Scale,
    Figure(String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// Why a text is not a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// There is no comparison in it.
    #[error(
        "`{0}` is not a condition: write two operands with ==, !=, <, <=, > or >= between them, such as `rows == n`"
    )]
    NoComparison(String),
    /// Something stands where a figure, `scale` or a number should.
    #[error(
        "`{0}` is not an operand: give a number, `scale`, or a figure's name, in backquotes if it is not only letters, \
         digits and _.-/%:#"
    )]
    Operand(String),
    /// A number is too great, or `inf` or `nan`.
    #[error("`{0}` is not a finite number; a figure of that name stands in backquotes")]
    NotFinite(String),
    /// A backquote is not closed.
    #[error("a backquote in `{0}` is not closed")]
    OpenQuote(String),
    /// Something follows the second operand.
    #[error(
        "`{0}` follows the condition: one condition is one comparison; give each an [[invariant]] of its own"
    )]
    Rest(String),
    /// It is longer than [`CONDITION_BYTES_MAX`].
    #[error("a condition has at most {CONDITION_BYTES_MAX} bytes")]
    TooLong,
}

/// How a condition does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// It is not true.
    #[error("`{condition}` does not hold: {left} and {right}")]
    Untrue {
        /// The condition.
        condition: String,
        /// What the left operand was.
        left: f64,
        /// What the right operand was.
        right: f64,
    },
    /// A figure that it is about was not printed.
    #[error("`{condition}` cannot be checked: no figure `{figure}` was printed")]
    Missing {
        /// The condition.
        condition: String,
        /// The figure.
        figure: String,
    },
    /// The figure is infinite, or the scale's value is not a number.
    #[error("`{condition}` cannot be checked: {what} is not a finite number")]
    NoNumber {
        /// The condition.
        condition: String,
        /// What is not a number.
        what: String,
    },
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        if text.len() > CONDITION_BYTES_MAX {
            return Err(ConditionError::TooLong);
        }
        let (left, rest) = operand(text)?;
        let (comparison, rest) =
            comparison(rest).ok_or_else(|| ConditionError::NoComparison(text.trim().to_owned()))?;
        let (right, rest) = operand(rest)?;
        if !rest.trim().is_empty() {
            return Err(ConditionError::Rest(rest.trim().to_owned()));
        }
        Ok(Self { text: text.trim().to_owned(), left, comparison, right })
    }

    /// Whether it holds of the figures of a run at a scale with this value.
    ///
    /// # Errors
    /// When it does not, or cannot be checked because a figure is missing or no finite number.
    pub fn holds(&self, scale_value: &str, metrics: &Metrics) -> Result<(), Broken> {
        let left = self.value(&self.left, scale_value, metrics)?;
        let right = self.value(&self.right, scale_value, metrics)?;
        let holds = match self.comparison {
            Comparison::Equal => left == right,
            Comparison::Unequal => left != right,
            Comparison::Less => left < right,
            Comparison::AtMost => left <= right,
            Comparison::Greater => left > right,
            Comparison::AtLeast => left >= right,
        };
        if holds {
            Ok(())
        } else {
            Err(Broken::Untrue { condition: self.text.clone(), left, right })
        }
    }

    /// Whether `scale` is one of the operands.
    pub(crate) fn names_scale(&self) -> bool {
        [&self.left, &self.right].contains(&&Operand::Scale)
    }

    /// The value of a scale as a number.
    pub(crate) fn scale_number(value: &str) -> Option<f64> {
        value.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn value(&self, operand: &Operand, scale_value: &str, metrics: &Metrics) -> Result<f64, Broken> {
        let no_number = |what| Broken::NoNumber { condition: self.text.clone(), what };
        match operand {
            Operand::Number(number) => Ok(*number),
            Operand::Scale => Self::scale_number(scale_value)
                .ok_or_else(|| no_number(format!("the scale's value {scale_value:?}"))),
            Operand::Figure(figure) => match metrics.get(figure) {
                Some(number) if number.is_finite() => Ok(*number),
                // Not a number is unequal to everything, and no reason to believe a run.
                Some(_) => Err(no_number(format!("the figure `{figure}`"))),
                None => Err(Broken::Missing { condition: self.text.clone(), figure: figure.clone() }),
            },
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The operand that a text begins with, and what follows it.
fn operand(text: &str) -> Result<(Operand, &str), ConditionError> {
    let text = text.trim_start();
    if let Some(quoted) = text.strip_prefix('`') {
        let (name, rest) =
            quoted.split_once('`').ok_or_else(|| ConditionError::OpenQuote(text.to_owned()))?;
        if name.trim().is_empty() {
            return Err(ConditionError::Operand("``".to_owned()));
        }
        return Ok((Operand::Figure(name.to_owned()), rest));
    }
    let end = text.find(|c: char| c.is_whitespace() || "=<>!`".contains(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let operand = match word.parse::<f64>() {
        Ok(number) if number.is_finite() => Operand::Number(number),
        Ok(_) => return Err(ConditionError::NotFinite(word.to_owned())),
        Err(_) if word == "scale" => Operand::Scale,
        // `1_000` and `5ms` are mistakes, not figures.
        Err(_) if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) => {
            let what = if word.is_empty() { text.trim_end() } else { word };
            return Err(ConditionError::Operand(what.to_owned()));
        }
        Err(_) if word.chars().any(|c| !(c.is_alphanumeric() || "_.-/%:#".contains(c))) => {
            return Err(ConditionError::Operand(word.to_owned()));
        }
        Err(_) => Operand::Figure(word.to_owned()),
    };
    Ok((operand, rest))
}

/// The comparison that a text begins with, and what follows it.
fn comparison(text: &str) -> Option<(Comparison, &str)> {
    // The longer ones first.
    let known = [
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let text = text.trim_start();
    known.into_iter().find_map(|(sign, comparison)| Some((comparison, text.strip_prefix(sign)?)))
}
