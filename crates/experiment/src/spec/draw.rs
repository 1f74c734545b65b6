//! What a held-out scale stands for, drawn when a try is confirmed: nobody can know it before.

use super::Scale;
use serde::{Deserialize, Serialize};

/// So often a number is drawn that is not yet that of another scale.
const DRAWS_MAX: u32 = 1_000;

/// What values are drawn from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Draw {
    /// Whole numbers, `"10000..40000"`, both ends included. Each order of magnitude is as likely as another one.
    Range(String),
    /// One of some texts.
    OneOf(Vec<String>),
}

impl Draw {
    /// A value, if there is one, that no other scale has.
    pub(super) fn value(&self, taken: &[String], rng: &mut fastrand::Rng) -> String {
        let is_free = |value: &String| !taken.contains(value);
        match self {
            Self::Range(text) => {
                let (low, high) = range(text).unwrap_or((1, 1));
                let mut value = String::new();
                for _ in 0..DRAWS_MAX {
                    value = number(low, high, rng).to_string();
                    if is_free(&value) {
                        break;
                    }
                }
                value
            }
            Self::OneOf(values) => {
                let free: Vec<&String> = values.iter().filter(|value| is_free(value)).collect();
                let of = if free.is_empty() { values.iter().collect() } else { free };
                of.get(rng.usize(..of.len().max(1))).map_or_else(String::new, |value| (*value).clone())
            }
        }
    }

    /// Why nothing can be drawn from it.
    pub(super) fn wrong(&self) -> Option<&'static str> {
        match self {
            Self::Range(text) if range(text).is_none() => Some(
                "give two whole numbers, the lesser one first, such as \"10000..40000\", or a list of values",
            ),
            Self::OneOf(values) if values.len() < 2 => {
                Some("give two values or more: a single one can be known before it is drawn")
            }
            _ => None,
        }
    }

    /// The values, where they can be told.
    pub(super) fn values(&self) -> &[String] {
        match self {
            Self::Range(_) => &[],
            Self::OneOf(values) => values,
        }
    }
}

/// The ends of a range.
fn range(text: &str) -> Option<(u64, u64)> {
    let (low, high) = text.split_once("..")?;
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    // Beyond that, floating point has gaps.
    (low < high && high <= 1 << 53).then_some((low, high))
}

fn number(low: u64, high: u64, rng: &mut fastrand::Rng) -> u64 {
    if low == 0 {
        return rng.u64(low..=high);
    }
    let (from, to) = ((low as f64).ln(), ((high + 1) as f64).ln());
    let drawn = (from + rng.f64() * (to - from)).exp().floor();
    (drawn as u64).clamp(low, high)
}

/// A scale as it is written down.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    name: String,
    value: Option<String>,
    #[serde(default)]
    held_out: bool,
    draw: Option<Draw>,
    values: Option<String>,
}

impl TryFrom<Written> for Scale {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { name, value, held_out, draw, values } = written;
        match [value.is_some(), draw.is_some(), values.is_some()] {
            [false, false, false] => Err("missing field `value`"),
            [true, false, false] | [false, true, false] | [false, false, true]
                if held_out || value.is_some() =>
            {
                Ok(Self { name, value: value.unwrap_or_default(), held_out, draw, values })
            }
            [_, true, false] | [_, false, true] if value.is_none() => {
                Err("a value is drawn for held-out scales only: add `held_out = true`, or give a `value`")
            }
            _ => Err("a scale has a `value`, a `draw` or `values`, and not two of them"),
        }
    }
}
