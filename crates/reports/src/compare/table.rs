//! A comparison as text for a terminal.

use std::fmt::Write as _;

use duramen_base::words::number;

use super::{Comparison, Row, Verdict, POWER};
use crate::text::{narrow_table, short, wrapped};

/// The head of the column of [`cells`] that holds the effect.
pub const EFFECT: &str = "effect with interval";

/// A value with its unit.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    format!("{} {unit}", short(value))
}

/// What differs, then what does not, as text; figures that cannot be compared are counted, or listed with `all`.
#[must_use]
pub fn print_table(comparison: &Comparison, all: bool) -> String {
    let mut text = String::new();
    for warning in &comparison.warnings {
        writeln!(text, "{}", wrapped(&format!("warning: {warning}"), 2)).ok();
    }
    let is = |row: &Row, verdicts: &[Verdict]| verdicts.contains(&row.verdict);
    let differs = [Verdict::Worse, Verdict::Different, Verdict::Better];
    let shown = |row: &&Row| all || is(row, &differs) || row.verdict == Verdict::NoDifference;
    let mut rows: Vec<&Row> = comparison.rows.iter().filter(shown).collect();
    rows.sort_by_key(|row| differs.iter().position(|verdict| *verdict == row.verdict).unwrap_or(3));
    let table = narrow_table(
        &["figure", "A", "B", EFFECT, "verdict"],
        rows.iter().map(|row| cells(row).into_iter().chain([verdict(row)])),
    );
    if !rows.is_empty() {
        writeln!(text, "{table}\n").ok();
    }
    for sentence in sentences(comparison) {
        writeln!(text, "{}", wrapped(&sentence, 0)).ok();
    }
    if !rows.iter().any(|row| is(row, &differs)) && comparison.is_comparable() {
        writeln!(text, "\nno detectable difference").ok();
    }
    text
}

/// How it was compared and what came out, in sentences.
#[must_use]
pub fn method(comparison: &Comparison) -> String {
    sentences(comparison).join(" ")
}

fn sentences(comparison: &Comparison) -> Vec<String> {
    let count = |verdict| comparison.rows.iter().filter(|row| row.verdict == verdict).count();
    let counts = format!(
        "{}: {} figures, {} compared with intervals (values: {}); B is better in {}, worse in {}, different in {}; no \
         detectable difference in {}; {} with one value each; {} not comparable.",
        comparison.suite,
        comparison.rows.len(),
        comparison.comparisons,
        comparison.values,
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::Different),
        count(Verdict::NoDifference),
        count(Verdict::Undecidable),
        count(Verdict::NotComparable)
    );
    let mut sentences = vec![counts];
    let percent = |share: f64| number(share * 100.0);
    if comparison.named > 0 {
        sentences.push(format!(
            "Named in advance and judged each for itself: {}, intervals of {} %; one in 20 that does not differ is told \
             to by chance.",
            comparison.named,
            percent(comparison.confidence_of_named)
        ));
    }
    let others = comparison.comparisons - comparison.named;
    if others > 0 {
        sentences.push(format!(
            "{others} comparisons were made{}, and judged together, intervals of {} %: of the differences told at most {:.0} % are \
             chance on average, and two identical variants have none in 19 of 20 comparisons.",
            if comparison.named > 0 { " of figures that were not named" } else { "" },
            percent(comparison.confidence_of_others),
            comparison.false_discovery_rate * 100.0
        ));
    }
    if let (Some(half), Some(most)) = (comparison.detectable_percent, comparison.detectable_percent_of_most) {
        sentences.push(format!(
            "In {:.0} of 100 such comparisons half of the undecided figures would have shown a change of {} % or more, nine of ten \
             one of {} %.",
            POWER * 100.0,
            short(half),
            short(most)
        ));
    }
    sentences
}

/// A row as text: its name, A, B, and the effect with the interval that was judged: `x1.50 [1.38, 1.63]` for B over A, with a
/// unit for B minus A.
#[must_use]
pub fn cells(row: &Row) -> [String; 4] {
    let side = |value: Option<f64>, count: usize| match value {
        Some(value) if count > 1 => format!("{} (n={count})", quantity(value, &row.unit)),
        Some(value) => quantity(value, &row.unit),
        None => String::new(),
    };
    if let (Some(ratio), Some(low), Some(high)) = (row.ratio, row.ratio_low, row.ratio_high) {
        let effect = format!("x{} [{}, {}]", short(ratio), short(low), short(high));
        return [row.name.clone(), side(row.a, row.a_count), side(row.b, row.b_count), effect];
    }
    let effect = match (row.effect, row.low, row.high) {
        (Some(effect), Some(low), Some(high)) => {
            let sign = if effect > 0.0 { "+" } else { "" };
            format!("{sign}{} [{}, {}] {}", short(effect), short(low), short(high), row.unit)
        }
        (Some(effect), ..) => {
            format!("{}{}", if effect > 0.0 { "+" } else { "" }, quantity(effect, &row.unit))
        }
        _ => String::new(),
    };
    [row.name.clone(), side(row.a, row.a_count), side(row.b, row.b_count), effect]
}

fn verdict(row: &Row) -> String {
    match row.verdict {
        Verdict::Worse => format!("WORSE: {}", row.words),
        Verdict::Better => format!("better: {}", row.words),
        _ => row.words.clone(),
    }
}
