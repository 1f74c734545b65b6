//! Two variants compared, as `duramen lab compare` does it.

use super::{
    document,
    index::View,
    report::of_better,
    words::{count, cut, finite, NAME_MAX},
    LabError,
};
use duramen_api::attachments::lab::{LabCompared, LabComparison, LabDifference, LabRun};
use duramen_measure::evidence::Evidence;
use duramen_reports::compare::{compare, method, Row, Verdict};

/// How many runs of a variant are compared.
pub const SIDE_MAX: usize = 20;
/// How many values all repeats of all runs may have.
const VALUES_MAX: usize = 100_000;
/// How many bytes the documents have together.
const BYTES_MAX: u64 = 64 << 20;
/// How many warnings are told.
const WARNINGS_MAX: usize = 200;

/// Compares runs by their ids.
pub(super) fn of(view: &View, a: &[&str], b: &[&str]) -> Result<LabComparison, LabError> {
    let bytes =
        a.iter().chain(b).filter_map(|id| view.run(id).ok()).map(|(path, _)| view.bytes(path)).sum::<u64>();
    if bytes > BYTES_MAX {
        return Err(LabError::NotComparable(format!(
            "the documents have {bytes} bytes, and {BYTES_MAX} are compared at most; choose fewer runs"
        )));
    }
    let (of_a, runs_a) = side(view, "A", a)?;
    let (of_b, runs_b) = side(view, "B", b)?;
    let values: usize = of_a.iter().chain(&of_b).map(repeats).sum();
    if values > VALUES_MAX {
        return Err(LabError::NotComparable(format!(
            "the runs have {values} values, and {VALUES_MAX} are compared at most; choose fewer runs"
        )));
    }
    let comparison =
        compare(&of_a, &of_b, &[]).map_err(|error| LabError::NotComparable(cut(&error.to_string())))?;
    let mut rows: Vec<&Row> = comparison.rows.iter().filter(|row| row.name.len() <= NAME_MAX).collect();
    rows.sort_by_key(|row| rank(row.verdict));
    Ok(LabComparison {
        a: runs_a,
        b: runs_b,
        suite: cut(&comparison.suite),
        warnings: comparison.warnings.iter().take(WARNINGS_MAX).map(|text| cut(text)).collect(),
        method: cut(&method(&comparison)),
        is_comparable: comparison.is_comparable(),
        figures: rows.into_iter().map(compared).collect(),
    })
}

fn side(view: &View, name: &'static str, ids: &[&str]) -> Result<(Vec<Evidence>, Vec<LabRun>), LabError> {
    if ids.is_empty() || ids.len() > SIDE_MAX {
        let count = ids.len();
        return Err(LabError::NotComparable(format!(
            "side {name} names {count} runs; name 1 to {SIDE_MAX}, separated by commas"
        )));
    }
    let mut found = (Vec::new(), Vec::new());
    for id in ids {
        let (path, run) = view.run(id)?;
        found.0.push(document::run(&view.folder, path)?);
        found.1.push(LabRun::clone(run));
    }
    Ok(found)
}

/// How many values a run gives at most: one a figure, or one a repeat.
fn repeats(evidence: &Evidence) -> usize {
    let samples = evidence.config.get("samples").and_then(|samples| samples.as_object());
    let lists = samples.into_iter().flat_map(|samples| samples.values());
    let repeats: usize = lists.filter_map(|list| list.as_array()).map(Vec::len).sum();
    evidence.measurements.len() + repeats
}

/// What matters most comes first.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Worse => 0,
        Verdict::Different => 1,
        Verdict::Better => 2,
        Verdict::NoDifference => 3,
        Verdict::Undecidable => 4,
        Verdict::NotComparable => 5,
    }
}

fn compared(row: &Row) -> LabCompared {
    LabCompared {
        name: row.name.clone(),
        unit: cut(&row.unit),
        a: finite(row.a),
        b: finite(row.b),
        a_count: count(row.a_count),
        b_count: count(row.b_count),
        effect: finite(row.effect),
        low: finite(row.low),
        high: finite(row.high),
        confidence: finite(row.confidence),
        percent: finite(row.percent),
        ratio: finite(row.ratio),
        ratio_low: finite(row.ratio_low),
        ratio_high: finite(row.ratio_high),
        detectable_percent: finite(row.detectable_percent),
        better: of_better(row.better),
        difference: match row.verdict {
            Verdict::Better => LabDifference::Better,
            Verdict::Worse => LabDifference::Worse,
            Verdict::Different => LabDifference::Different,
            Verdict::NoDifference => LabDifference::NoDifference,
            Verdict::Undecidable => LabDifference::Undecidable,
            Verdict::NotComparable => LabDifference::NotComparable,
        },
        words: cut(&row.words),
    }
}
