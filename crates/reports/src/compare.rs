//! Two variants compared: the effect on every figure with its interval, and a verdict in words.
//!
//! Latencies of one run are not independent of each other, so a histogram is never taken for so many values. The values
//! are those of runs if there are several on both sides (each run gives one: the best, because what differs from run
//! to run is then in the interval); else the means of the repeats within the runs, where the suite keeps them
//! (`values`); then a time or a rate must differ by [`RUN_NOISE`] at least, and a difference of two times by that share of
//! the times. With less than two on a side nothing can be said of a time or a rate; counts that do not depend on the
//! machine are compared as they are.
//!
//! Comparing much finds something by chance. What is called a difference is chosen by the false discovery rate
//! ([`RATE`]), so that two identical variants have none in 19 of 20 comparisons, and the intervals of what was chosen are
//! widened accordingly (Benjamini and Yekutieli, "False Discovery Rate-Adjusted Multiple Confidence Intervals", 2005).

mod meaning;
mod table;
mod values;

use std::collections::HashSet;

use duramen_measure::evidence::Evidence;
use duramen_measure::statistics::{discoveries, Estimate, Interval};
use serde::Serialize;

pub use meaning::{better, is_counted, Better};
pub use table::{cells, method, print_table, quantity};

use meaning::{is_machine_bound, is_time};
use values::{Basis, Side};

/// The share of the differences named that may be chance.
pub const RATE: f64 = 0.05;
/// A count that differs by less than this share is the same: it depends a little on what ran beside it.
pub const COUNT_NOISE: f64 = 0.05;
/// Of one run a side, a time or a rate that differs by less than this share is not told to differ, however alike the
/// repeats within each run are: the machine itself differs so much from one run to the next.
pub const RUN_NOISE: f64 = 0.25;
/// The same for a difference of two times whose underlying times are not known, in milliseconds.
pub const DIFFERENCE_NOISE_MS: f64 = 1.0;
/// Values without any spread show a difference only if there are so many on each side.
pub const FEWEST_EQUALS: usize = 3;
/// What the field `schema` of a written comparison says.
pub const SCHEMA_ID: &str = "duramen.comparison/1";

/// Why two variants cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// There is no document on one side.
    #[error("there is no document on side {0}; name at least one evidence file")]
    Empty(&'static str),
    /// The documents are of different suites.
    #[error("not comparable: the documents are of the suites {0} and {1}; compare runs of one suite")]
    Suites(String, String),
    /// What was to be measured did not happen.
    #[error("not comparable: a document of side {0} is invalid ({1}); run it again")]
    Invalid(&'static str, String),
}

/// Two variants, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA_ID`].
    pub schema: &'static str,
    /// The suite.
    pub suite: String,
    /// What a value is: `runs`, `repeats` or `single values`.
    pub values: &'static str,
    /// What differs beside the figures.
    pub warnings: Vec<String>,
    /// How many figures were compared with intervals.
    pub comparisons: usize,
    /// The share of the differences named that may be chance.
    pub false_discovery_rate: f64,
    /// The figures, in the order of the first document.
    pub rows: Vec<Row>,
}

/// A figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The mean of the values of A.
    pub a: Option<f64>,
    /// The mean of the values of B.
    pub b: Option<f64>,
    /// How many values A has.
    pub a_count: usize,
    /// How many values B has.
    pub b_count: usize,
    /// B minus A.
    pub effect: Option<f64>,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end of its interval.
    pub high: Option<f64>,
    /// The confidence of the interval.
    pub confidence: Option<f64>,
    /// The effect in percent of A, where A is a quantity above zero.
    pub percent: Option<f64>,
    /// How probable the values would be if nothing differed.
    pub p_value: Option<f64>,
    /// Which direction is better.
    pub better: Better,
    /// What came out.
    pub verdict: Verdict,
    /// The same in words.
    pub words: String,
}

/// What came out of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B is different, and neither is better.
    Different,
    /// None that the values show.
    NoDifference,
    /// One value each, or two that are equal.
    Undecidable,
    /// Measured on one side only, in different units, on different machines, or not what was to be measured.
    NotComparable,
}

impl Row {
    /// Whether B is worse by more than so many percent.
    #[must_use]
    pub fn is_regression(&self, percent: f64) -> bool {
        self.verdict == Verdict::Worse && self.percent.is_none_or(|by| by.abs() > percent)
    }
}

impl Comparison {
    /// The figures in which B is worse by more than so many percent.
    pub fn regressions(&self, percent: f64) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.is_regression(percent))
    }

    /// Whether any figure could be compared.
    #[must_use]
    pub fn is_comparable(&self) -> bool {
        self.rows.iter().any(|row| !matches!(row.verdict, Verdict::NotComparable | Verdict::Undecidable))
    }
}

/// Compares runs of two variants; several documents of a side are repeated runs of the same thing.
///
/// # Errors
/// When a side has no document, the documents are of different suites, or one is invalid as a whole.
pub fn compare(a: &[Evidence], b: &[Evidence], rng: &mut fastrand::Rng) -> Result<Comparison, CompareError> {
    let suite = suite_of(a, b)?;
    let basis = Basis::new(a, b);
    let (side_a, side_b) = (Side::new("A", a, basis)?, Side::new("B", b, basis)?);
    let mut warnings = meaning::warnings(a, b);
    warnings.extend(basis.warning());
    let same_machine = meaning::is_same_machine(a, b);
    let mut known = HashSet::new();
    let names = side_a.names().chain(side_b.names()).filter(|name| known.insert(*name));
    let mut pending: Vec<(Row, Option<Estimate>)> = names
        .map(|name| {
            let mut row = side_a.row(&side_b, name, same_machine);
            let (of_a, of_b) = (side_a.values(name), side_b.values(name));
            let is_open = row.verdict == Verdict::NoDifference && !row.is_coincidence(&of_a, &of_b);
            let estimate = is_open.then(|| Estimate::of_difference(&of_a, &of_b, rng)).flatten();
            row.p_value = estimate.as_ref().map(Estimate::p_value);
            (row, estimate)
        })
        .collect();
    let p_values: Vec<f64> = pending.iter().filter_map(|(row, _)| row.p_value).collect();
    let found = discoveries(&p_values, RATE);
    let share = found.iter().filter(|found| **found).count().max(1) as f64 / p_values.len().max(1) as f64;
    let mut found = found.into_iter();
    for (row, estimate) in &mut pending {
        if let Some(estimate) = estimate {
            let is_different = found.next().unwrap_or(false);
            let confidence = if is_different { 1.0 - RATE * share } else { 1.0 - RATE };
            row.decide(is_different, estimate.interval(confidence), confidence);
            if basis == Basis::Repeats {
                let name = meaning::underlying(&row.name);
                let of = |side: &Side<'_>| name.as_deref().and_then(|name| side.mean(name));
                row.doubt(of(&side_a).into_iter().chain(of(&side_b)).reduce(f64::max));
            }
        } else {
            row.decide_without_values();
        }
    }
    Ok(Comparison {
        schema: SCHEMA_ID,
        suite,
        values: basis.name(),
        warnings,
        comparisons: p_values.len(),
        false_discovery_rate: RATE,
        rows: pending.into_iter().map(|(row, _)| row).collect(),
    })
}

fn suite_of(a: &[Evidence], b: &[Evidence]) -> Result<String, CompareError> {
    let first = a.first().ok_or(CompareError::Empty("A"))?;
    b.first().ok_or(CompareError::Empty("B"))?;
    match a.iter().chain(b).find(|other| other.suite != first.suite) {
        Some(other) => Err(CompareError::Suites(first.suite.clone(), other.suite.clone())),
        None => Ok(first.suite.clone()),
    }
}

impl Row {
    fn decide(&mut self, is_different: bool, interval: Interval, confidence: f64) {
        self.effect = Some(interval.estimate);
        (self.low, self.high, self.confidence) = (Some(interval.low), Some(interval.high), Some(confidence));
        // Of what may be negative a share says nothing.
        self.percent = self.a.filter(|a| *a > 0.0).map(|a| interval.estimate / a * 100.0);
        self.conclude(is_different);
    }

    /// Whether values that have no spread at all differ, and are too few to show that they never have one: a clock or a
    /// rounding that is coarse brings about two pairs of equals easily.
    fn is_coincidence(&mut self, a: &[f64], b: &[f64]) -> bool {
        let is_constant = |values: &[f64]| values.windows(2).all(|pair| pair[0] == pair[1]);
        let is_so = a.len().min(b.len()) < FEWEST_EQUALS
            && is_constant(a)
            && is_constant(b)
            && a.first() != b.first();
        if is_so && a.len().min(b.len()) > 1 {
            self.verdict = Verdict::Undecidable;
            self.words = format!("fewer than {FEWEST_EQUALS} values each, without any spread: not decidable");
        }
        is_so
    }

    /// Takes back what may be the machine's, where one run stands against one. A difference of two times is held against
    /// the `underlying` time: what the machine does to that, it does to the difference, however small it is itself.
    fn doubt(&mut self, underlying: Option<f64>) {
        let (Some(a), Some(b)) = (self.a, self.b) else { return };
        let scale = a.abs().max(b.abs()).max(underlying.unwrap_or(0.0));
        let floor = match (meaning::is_difference(&self.name), underlying) {
            (true, None) => DIFFERENCE_NOISE_MS,
            _ => 0.0,
        };
        let is_small = (b - a).abs() < f64::max(RUN_NOISE * scale, floor);
        if self.verdict != Verdict::NoDifference && is_machine_bound(&self.name, &self.unit) && is_small {
            self.verdict = Verdict::NoDifference;
            self.words = format!("no detectable difference: below {:.0} %, one run each", RUN_NOISE * 100.0);
        }
    }

    fn decide_without_values(&mut self) {
        if self.verdict != Verdict::NoDifference && self.verdict != Verdict::Undecidable {
            return;
        }
        let (Some(a), Some(b)) = (self.a, self.b) else { return };
        self.effect = Some(b - a);
        self.percent = (a > 0.0).then(|| (b - a) / a * 100.0);
        if is_counted(&self.name, &self.unit) {
            self.conclude((b - a).abs() > COUNT_NOISE * a.abs());
        } else {
            if self.verdict != Verdict::Undecidable {
                self.words = "one value each: not decidable".to_owned();
            }
            self.verdict = Verdict::Undecidable;
        }
    }

    fn conclude(&mut self, is_different: bool) {
        let effect = self.effect.unwrap_or(0.0);
        self.verdict = match (is_different, self.better) {
            (false, _) => Verdict::NoDifference,
            (true, Better::Lower) if effect < 0.0 => Verdict::Better,
            (true, Better::Higher) if effect > 0.0 => Verdict::Better,
            (true, Better::Neither) => Verdict::Different,
            (true, _) => Verdict::Worse,
        };
        if !is_different {
            self.words = "no detectable difference".to_owned();
            return;
        }
        let word = match (is_time(&self.unit) && self.percent.is_some(), effect > 0.0) {
            (true, true) => "slower",
            (true, false) => "faster",
            (false, true) => "more",
            (false, false) => "less",
        };
        let by = match self.percent {
            Some(percent) => format!("{:.1} %", percent.abs()),
            None => quantity(effect.abs(), &self.unit),
        };
        self.words = format!("{word} by {by}");
    }
}

impl Side<'_> {
    /// A figure as far as it is known before it is compared.
    fn row(&self, other: &Side<'_>, name: &str, same_machine: bool) -> Row {
        let (a, b) = (self.values(name), other.values(name));
        let unit = self.unit(name).or_else(|| other.unit(name)).unwrap_or_default().to_owned();
        let mean =
            |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let why_not = if a.is_empty() || b.is_empty() {
            let (has, lacks) = if b.is_empty() { ("A", "B") } else { ("B", "A") };
            Some(format!("not comparable: measured in {has} and not in {lacks}"))
        } else if self.unit(name) != other.unit(name) {
            Some("not comparable: other units".to_owned())
        } else if self.is_invalid(name) || other.is_invalid(name) {
            Some("not comparable: what was to be measured was not seen".to_owned())
        } else if !same_machine && is_machine_bound(name, &unit) {
            Some("not comparable: other machine".to_owned())
        } else {
            None
        };
        Row {
            name: name.to_owned(),
            better: better(name, &unit),
            a: mean(&a),
            b: mean(&b),
            a_count: a.len(),
            b_count: b.len(),
            effect: None,
            low: None,
            high: None,
            confidence: None,
            percent: None,
            p_value: None,
            verdict: if why_not.is_some() { Verdict::NotComparable } else { Verdict::NoDifference },
            words: why_not.unwrap_or_default(),
            unit,
        }
    }
}
