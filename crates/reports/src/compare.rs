//! Two variants compared: the effect on every figure with its interval, and a verdict in words.
//!
//! A run gives one value of a figure: the median of its blocks, where the suite keeps them, else of what it measured. How
//! sure a difference is follows from the runs of both sides and the blocks within them
//! ([`duramen_measure::statistics::RunEstimate`]); what is above zero on both sides is compared by its ratio. Of one run a side
//! [`RUN_DEVIATION`] is assumed to differ from run to run; with less than two blocks in it nothing can be said of a time or a
//! rate. Counts that do not depend on the machine are compared as they are.
//!
//! Comparing much finds something by chance. Figures that are named in advance are judged each for itself; of the
//! others, what is called a difference is chosen by the false discovery rate ([`RATE`]), so that two identical variants have
//! none in 19 of 20 comparisons. The interval that is told is the one that was judged: 95 % for a figure named in
//! advance; for the others so wide that of all intervals of chosen figures at most 5 % miss (Benjamini and Yekutieli, "False
//! Discovery Rate-Adjusted Multiple Confidence Intervals", 2005). What a comparison could have told is said of every
//! figure that it leaves undecided. `docs/design/comparison.md` has the method, its invariants and what it does in simulations.

mod meaning;
mod table;
mod values;

use std::collections::HashSet;

use duramen_measure::evidence::Evidence;
use duramen_measure::statistics::{discoveries, median, RunEstimate, RunValue};
use serde::Serialize;

use crate::suite::Suite;

pub use meaning::{better, is_counted, Better};
pub use table::{cells, method, print_table, quantity, EFFECT};

use crate::text::short;
use meaning::{is_machine_bound, is_time};
use values::Side;

/// The share of the differences named that may be chance.
pub const RATE: f64 = 0.05;
/// A count that differs by less than this share is the same: it depends a little on what ran beside it.
pub const COUNT_NOISE: f64 = 0.05;
/// How differently runs of the same thing are assumed to come out, as a share (a standard deviation), as long as the runs do
/// not show otherwise.
pub const RUN_DEVIATION: f64 = 0.15;
/// The same for a difference of two times whose underlying times are not known, in milliseconds.
pub const DIFFERENCE_DEVIATION_MS: f64 = 0.5;
/// In what share of such comparisons a difference would be told that is said to be detectable.
pub const POWER: f64 = 0.8;
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
    /// A figure that was named in advance is in no document.
    #[error("not comparable: no document has the figure {0:?}, which was named in advance")]
    Unknown(String),
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
    /// What a value is: `runs`, or `blocks` of one run each.
    pub values: &'static str,
    /// What differs beside the figures.
    pub warnings: Vec<String>,
    /// How many figures were compared with intervals.
    pub comparisons: usize,
    /// How many of them were named in advance, and judged each for itself.
    pub named: usize,
    /// The share of the differences told that may be chance, of those that were not named in advance.
    pub false_discovery_rate: f64,
    /// The confidence of the intervals of figures that were named in advance.
    pub confidence_of_named: f64,
    /// The confidence of the intervals of all others.
    pub confidence_of_others: f64,
    /// In what share of such comparisons a difference that is called detectable would be told.
    pub power: f64,
    /// What half of the undecided figures would have shown, in percent.
    pub detectable_percent: Option<f64>,
    /// What nine of ten undecided figures would have shown, in percent.
    pub detectable_percent_of_most: Option<f64>,
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
    /// The mean of the values of A, of ratios the geometric one.
    pub a: Option<f64>,
    /// The mean of the values of B.
    pub b: Option<f64>,
    /// How many values A has: runs, or blocks of the only one.
    pub a_count: usize,
    /// How many values B has.
    pub b_count: usize,
    /// How many blocks the runs of A have together.
    pub a_blocks: usize,
    /// How many blocks the runs of B have together.
    pub b_blocks: usize,
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
    /// What is compared: B over A, or B minus A.
    pub scale: Scale,
    /// B over A, of what is above zero on both sides.
    pub ratio: Option<f64>,
    /// The lower end of its interval: the same that is told of the effect.
    pub ratio_low: Option<f64>,
    /// The upper end of its interval.
    pub ratio_high: Option<f64>,
    /// How probable the values would be if nothing differed.
    pub p_value: Option<f64>,
    /// How it was judged.
    pub judged: Judged,
    /// What difference would have been told with the probability [`Comparison::power`], in the unit.
    pub detectable: Option<f64>,
    /// The same in percent of A, of ratios.
    pub detectable_percent: Option<f64>,
    /// Which direction is better.
    pub better: Better,
    /// What came out.
    pub verdict: Verdict,
    /// The same in words.
    pub words: String,
}

/// What two values are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// B over A.
    Ratio,
    /// B minus A: of what may be zero or negative.
    Difference,
}

/// How a figure was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// For itself: it was named in advance.
    Alone,
    /// Among all figures that were not, by the false discovery rate.
    AmongAll,
    /// As it is: a count, or a figure that there is no interval of.
    AsItIs,
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

    /// Those of some figures that could not be judged: a gate that names them guards nothing.
    pub fn unjudged<'a>(&self, names: &'a [String]) -> impl Iterator<Item = &'a str> {
        let is_open = |row: &Row| matches!(row.verdict, Verdict::NotComparable | Verdict::Undecidable);
        let is_judged =
            move |name: &&'a String| self.rows.iter().any(|row| row.name == **name && !is_open(row));
        names.iter().filter(move |name| !is_judged(name)).map(String::as_str)
    }

    /// Whether any figure could be compared.
    #[must_use]
    pub fn is_comparable(&self) -> bool {
        self.rows.iter().any(|row| !matches!(row.verdict, Verdict::NotComparable | Verdict::Undecidable))
    }
}

/// The figures of some documents that their suite has targets for: what may be named in advance.
#[must_use]
pub fn of_targets(suite: &dyn Suite, documents: &[Evidence]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for document in documents {
        let standings = suite.targets(document).into_iter().map(|standing| standing.name);
        for name in standings.filter(|name| document.measurement(name).is_some()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Compares runs of two variants; several documents of a side are repeated runs of the same thing. The figures that are
/// `named` in advance are judged each for itself, all others together.
///
/// # Errors
/// When a side has no document, the documents are of different suites, one is invalid as a whole, or none has a figure that
/// is named.
pub fn compare(a: &[Evidence], b: &[Evidence], named: &[String]) -> Result<Comparison, CompareError> {
    let suite = suite_of(a, b)?;
    let (side_a, side_b) = (Side::new("A", a)?, Side::new("B", b)?);
    let mut warnings = meaning::warnings(a, b);
    warnings.extend(few_runs(side_a.count(), side_b.count()));
    let same_machine = meaning::is_same_machine(a, b);
    let mut known = HashSet::new();
    let names: Vec<&str> = side_a.names().chain(side_b.names()).filter(|name| known.insert(*name)).collect();
    if let Some(unknown) = named.iter().find(|name| !known.contains(name.as_str())) {
        return Err(CompareError::Unknown(unknown.clone()));
    }
    let mut pending: Vec<(Row, Option<RunEstimate>)> = names
        .into_iter()
        .map(|name| {
            let mut row = side_a.row(&side_b, name, same_machine);
            let estimate = row.estimate(&side_a, &side_b, name);
            if let Some(estimate) = &estimate {
                row.p_value = Some(estimate.p_value());
                let is_named = named.iter().any(|named| named == name);
                row.judged = if is_named { Judged::Alone } else { Judged::AmongAll };
            }
            (row, estimate)
        })
        .collect();
    let of_others = |row: &Row| row.p_value.filter(|_| row.judged == Judged::AmongAll);
    let p_values: Vec<f64> = pending.iter().filter_map(|(row, _)| of_others(row)).collect();
    let found = discoveries(&p_values, RATE);
    // What is not chosen is above this level too, so its interval holds what would be no difference.
    let share = found.iter().filter(|found| **found).count().max(1) as f64 / p_values.len().max(1) as f64;
    let (of_named, of_others) = (1.0 - RATE, 1.0 - RATE * share);
    let comparisons = pending.iter().filter(|(row, _)| row.p_value.is_some()).count();
    let mut found = found.into_iter();
    for (row, estimate) in &mut pending {
        match (estimate, row.judged) {
            (Some(estimate), Judged::Alone) => {
                let is_different = row.p_value.is_some_and(|p| p <= RATE);
                row.decide(is_different, estimate, of_named);
            }
            (Some(estimate), _) => row.decide(found.next().unwrap_or(false), estimate, of_others),
            (None, _) => row.decide_without_values(),
        }
    }
    let rows: Vec<Row> = pending.into_iter().map(|(row, _)| row).collect();
    let mut detectable: Vec<f64> = rows
        .iter()
        .filter(|row| row.verdict == Verdict::NoDifference)
        .filter_map(|row| row.detectable_percent)
        .collect();
    detectable.sort_by(f64::total_cmp);
    let most = (detectable.len() * 9).div_ceil(10).saturating_sub(1);
    Ok(Comparison {
        schema: SCHEMA_ID,
        suite,
        values: if is_one_run(side_a.count(), side_b.count()) { "blocks" } else { "runs" },
        warnings,
        comparisons,
        named: comparisons - p_values.len(),
        false_discovery_rate: RATE,
        confidence_of_named: of_named,
        confidence_of_others: of_others,
        power: POWER,
        detectable_percent: median(&detectable),
        detectable_percent_of_most: detectable.get(most).copied(),
        rows,
    })
}

fn is_one_run(a: usize, b: usize) -> bool {
    a == 1 && b == 1
}

/// What is said where there are few runs.
fn few_runs(a: usize, b: usize) -> Option<String> {
    let turns = "Give several runs of each variant, taken in turns (A1.json,A2.json,A3.json B1.json,B2.json,B3.json).";
    let assumed = RUN_DEVIATION * 100.0;
    match (a, b) {
        (1, 1) => Some(format!(
            "There is only one run on each side: what differs from run to run was not measured. The intervals are those of              blocks within the runs, widened as if runs deviated by {assumed:.0} %. {turns}"
        )),
        (1, _) | (_, 1) => Some(format!(
            "There is only one run on a side: what differs from run to run is taken from the other side alone. {turns}"
        )),
        _ => None,
    }
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
    /// How sure a difference is, where it can be told by runs or blocks.
    fn estimate<'a>(&mut self, a: &Side<'a>, b: &Side<'a>, name: &'a str) -> Option<RunEstimate> {
        if self.verdict != Verdict::NoDifference {
            return None;
        }
        let plain = |value: f64| value;
        let (of_a, of_b) = match self.scale {
            Scale::Ratio => (a.values(name, f64::ln), b.values(name, f64::ln)),
            Scale::Difference => (a.values(name, plain), b.values(name, plain)),
        };
        let values = |runs: &[RunValue]| runs.iter().map(|run| run.value).collect::<Vec<f64>>();
        // One run each without blocks is told apart by nothing; with several runs, equals may be a coarse clock's.
        let is_single = |runs: &[RunValue]| runs.len() < 2;
        if !(is_single(&of_a) && is_single(&of_b)) && self.is_coincidence(&values(&of_a), &values(&of_b)) {
            return None;
        }
        let underlying = meaning::underlying(name).and_then(|name| {
            let of =
                |side: &Side<'a>| side.names().find(|other| *other == name).and_then(|name| side.mean(name));
            of(a).into_iter().chain(of(b)).reduce(f64::max)
        });
        RunEstimate::of_runs(&of_a, &of_b, self.deviation(underlying))
    }

    /// How differently runs of the same thing are assumed to come out, in what they are compared by. A difference of two
    /// times is held against the `underlying` time: what the machine does to that, it does to the difference, however
    /// small it is itself.
    fn deviation(&self, underlying: Option<f64>) -> f64 {
        let share = if is_counted(&self.name, &self.unit) { COUNT_NOISE / 2.0 } else { RUN_DEVIATION };
        if self.scale == Scale::Ratio {
            return share;
        }
        let size = self.a.unwrap_or(0.0).abs().max(self.b.unwrap_or(0.0).abs());
        let least = match (meaning::is_difference(&self.name), underlying) {
            (true, None) => DIFFERENCE_DEVIATION_MS,
            _ => 0.0,
        };
        f64::max(share * size.max(underlying.unwrap_or(0.0)), least)
    }

    fn decide(&mut self, is_different: bool, estimate: &RunEstimate, confidence: f64) {
        let interval = estimate.interval(confidence);
        let detectable = estimate.detectable(confidence, POWER);
        self.confidence = Some(confidence);
        match (self.scale, self.a) {
            (Scale::Ratio, Some(a)) => {
                let [ratio, low, high] = [interval.estimate, interval.low, interval.high].map(f64::exp);
                (self.ratio, self.ratio_low, self.ratio_high) = (Some(ratio), Some(low), Some(high));
                let [effect, low, high] = [ratio, low, high].map(|ratio| a * (ratio - 1.0));
                (self.effect, self.low, self.high) = (Some(effect), Some(low), Some(high));
                self.percent = Some((ratio - 1.0) * 100.0);
                self.detectable = Some(a * detectable.exp_m1());
                self.detectable_percent = Some(detectable.exp_m1() * 100.0);
            }
            _ => {
                self.effect = Some(interval.estimate);
                (self.low, self.high) = (Some(interval.low), Some(interval.high));
                // Of what may be negative a share says nothing.
                self.percent = self.a.filter(|a| *a > 0.0).map(|a| interval.estimate / a * 100.0);
                self.detectable = Some(detectable);
            }
        }
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
        let named = if self.judged == Judged::Alone { ", named in advance" } else { "" };
        if !is_different {
            let seen = match (self.detectable_percent, self.detectable) {
                (Some(percent), _) if percent < 1_000.0 => {
                    format!(": would have seen {} % or more", short(percent))
                }
                (Some(percent), _) => {
                    format!(": would have seen {} times as much", short(1.0 + percent / 100.0))
                }
                (None, Some(detectable)) => {
                    format!(": would have seen {} or more", quantity(detectable, &self.unit))
                }
                (None, None) => String::new(),
            };
            self.words = format!("no detectable difference{seen}{named}");
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
        self.words = format!("{word} by {by}{named}");
    }
}

impl<'a> Side<'a> {
    /// A figure as far as it is known before it is compared.
    fn row(&self, other: &Side<'a>, name: &'a str, same_machine: bool) -> Row {
        let (a, b) = (self.blocks(name), other.blocks(name));
        let unit = self.unit(name).or_else(|| other.unit(name)).unwrap_or_default().to_owned();
        let mut values = a.iter().chain(&b).flatten();
        let is_ratio = !meaning::is_difference(name) && values.all(|value| *value > 0.0 && value.is_finite());
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
        let is_one_run = is_one_run(self.count(), other.count());
        let blocks = |runs: &[Vec<f64>]| runs.iter().map(Vec::len).sum();
        let count = |runs: &[Vec<f64>]| if is_one_run { blocks(runs) } else { runs.len() };
        Row {
            name: name.to_owned(),
            better: better(name, &unit),
            a: middle(&a, is_ratio),
            b: middle(&b, is_ratio),
            a_count: count(&a),
            b_count: count(&b),
            a_blocks: blocks(&a),
            b_blocks: blocks(&b),
            effect: None,
            low: None,
            high: None,
            confidence: None,
            percent: None,
            scale: if is_ratio { Scale::Ratio } else { Scale::Difference },
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            p_value: None,
            judged: Judged::AsItIs,
            detectable: None,
            detectable_percent: None,
            verdict: if why_not.is_some() { Verdict::NotComparable } else { Verdict::NoDifference },
            words: why_not.unwrap_or_default(),
            unit,
        }
    }
}

/// The mean of the medians of runs.
fn middle(runs: &[Vec<f64>], is_geometric: bool) -> Option<f64> {
    let medians: Vec<f64> = runs.iter().filter_map(|blocks| median(blocks)).collect();
    let count = medians.len() as f64;
    match medians.as_slice() {
        [] => None,
        [only] => Some(*only),
        several if is_geometric => Some((several.iter().map(|value| value.ln()).sum::<f64>() / count).exp()),
        several => Some(several.iter().sum::<f64>() / count),
    }
}
