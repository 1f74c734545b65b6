//! Time lines that a document holds.
//!
//! They stand in the setting `timelines` by name: the length of a step, lists with a value for each step, and gaps.

use std::collections::BTreeMap;

use crate::page::{Chart, Report};
use serde::Deserialize;
use serde_json::Value;

use crate::Document;

/// The setting that holds them.
const TIMELINES: &str = "timelines";
/// How many are drawn; those with gaps come first.
const MOST_DRAWN: usize = 8;
/// How many steps are drawn.
const MOST_STEPS: usize = 2_000;
/// How many gaps are set off.
const MOST_GAPS: usize = 50;
/// The lists that are drawn, in this order, with their axes and the factor to the axis's unit.
const LISTS: [(&str, &str, f64); 5] = [
    ("commits", "commits", 1.0),
    ("lag_ms", "lag, s", 1e-3),
    ("written_bytes_per_s", "MB/s written", 1e-6),
    ("replayed_bytes_per_s", "MB/s replayed", 1e-6),
    ("waiting_sessions", "sessions waiting", 1.0),
];

#[derive(Deserialize)]
struct Timeline {
    step_ms: u64,
    #[serde(default)]
    gaps: Vec<Gap>,
    #[serde(flatten)]
    lists: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Gap {
    begin_s: f64,
    length_s: f64,
    cause: Option<String>,
}

/// Adds the time lines of a document.
pub(super) fn add(mut report: Report, document: &Document) -> Report {
    let Some(Value::Object(all)) = document.evidence.config.get(TIMELINES) else { return report };
    let mut lines: Vec<(&String, Timeline)> = all
        .iter()
        .filter_map(|(name, value)| Some((name, serde_json::from_value(value.clone()).ok()?)))
        .collect();
    lines.sort_by(|(a, of_a), (b, of_b)| {
        of_a.gaps.is_empty().cmp(&of_b.gaps.is_empty()).then_with(|| a.cmp(b))
    });
    let count = lines.len();
    for (name, line) in lines.iter().take(MOST_DRAWN) {
        report = report.chart(chart(name, line));
    }
    if count > MOST_DRAWN {
        report = report.note(format!("{} more time lines are in the document.", count - MOST_DRAWN));
    }
    report
}

fn chart(name: &str, line: &Timeline) -> Chart {
    let mut steps = 0;
    let panels: Vec<_> = LISTS
        .iter()
        .filter_map(|(field, axis, factor)| {
            let values: Vec<Option<f64>> = serde_json::from_value(line.lists.get(*field)?.clone()).ok()?;
            steps = steps.max(values.len().min(MOST_STEPS));
            let scaled = |value: &Option<f64>| value.map(|value| value * factor);
            let values = values.iter().take(MOST_STEPS).map(scaled).collect::<Vec<_>>();
            (!values.is_empty()).then(|| (*axis, vec![(*axis, values)]))
        })
        .collect();
    let times = (0..steps).map(|step| (step as u64).saturating_mul(line.step_ms) as f64 / 1e3).collect();
    let bands = line.gaps.iter().take(MOST_GAPS).map(|gap| {
        let cause = gap.cause.as_deref().unwrap_or("nothing, no wait seen");
        (gap.begin_s, gap.begin_s + gap.length_s, cause.to_owned())
    });
    Chart::timeline(
        format!("Time line of {name}, in steps of {} ms", line.step_ms),
        "s",
        times,
        panels,
        bands,
    )
}
