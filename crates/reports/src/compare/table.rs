//! A comparison as text for a terminal.

use std::fmt::Write as _;

use super::{Comparison, Row, Verdict};
use crate::text::{narrow_table, short, wrapped};

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
        &["figure", "A", "B", "B - A with interval", "verdict"],
        rows.iter().map(|row| cells(row).into_iter().chain([verdict(row)])),
    );
    if !rows.is_empty() {
        writeln!(text, "{table}\n").ok();
    }
    let (counts, chance) = sentences(comparison);
    writeln!(text, "{}\n{}", wrapped(&counts, 0), wrapped(&chance, 0)).ok();
    if !rows.iter().any(|row| is(row, &differs)) && comparison.is_comparable() {
        writeln!(text, "\nno detectable difference").ok();
    }
    text
}

/// How it was compared and what came out, in sentences.
#[must_use]
pub fn method(comparison: &Comparison) -> String {
    let (counts, chance) = sentences(comparison);
    format!("{counts} {chance}")
}

fn sentences(comparison: &Comparison) -> (String, String) {
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
    let method = format!(
        "{} comparisons were made; of the differences named at most {:.0} % are chance on average, and two identical \
         variants have none in 19 of 20 comparisons.",
        comparison.comparisons,
        comparison.false_discovery_rate * 100.0
    );
    (counts, method)
}

/// A row that differs as text: its name, A, B, and B - A with its interval.
#[must_use]
pub fn cells(row: &Row) -> [String; 4] {
    let side = |value: Option<f64>, count: usize| match value {
        Some(value) if count > 1 => format!("{} (n={count})", quantity(value, &row.unit)),
        Some(value) => quantity(value, &row.unit),
        None => String::new(),
    };
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
