//! What a proposer is told, as a document.

use super::hidden::Hidden;
use crate::{
    event::Sample,
    series::Current,
    spec::{ProposerSpec, Spec},
    state::{Axis, Idea, Segment, State, Try},
};
use serde_json::{json, Map, Value};
use std::{collections::BTreeMap, path::Path};

/// The version of what a proposer is told and says.
const SCHEMA: &str = "duramen.proposal/1";
/// What the names of figures end in, and which unit that is.
const UNITS: [(&str, &str); 13] = [
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("ns/op", "ns a run"),
    ("B/op", "bytes a run"),
    ("allocs/op", "allocations a run"),
    ("_per_s", "a second"),
    ("_bytes", "bytes"),
    ("_kib", "KiB"),
    ("_mib", "MiB"),
    ("_mb", "MB"),
    ("_percent", "%"),
];

/// What a question is about.
pub(super) struct About<'a> {
    pub(super) state: &'a State,
    pub(super) current: &'a Current,
    pub(super) tree: &'a Path,
    /// The number of the try.
    pub(super) number: u32,
    /// How many are left.
    pub(super) left: u32,
    /// The file that the answer may be left in, in the worktree.
    pub(super) answer: &'a str,
    pub(super) hidden: &'a Hidden,
}

/// The JSON document for the standard input of a proposer.
pub(super) fn write(about: &About<'_>) -> Value {
    let About { state, current, tree, number, left, answer, hidden } = about;
    let segment = state.current();
    let tries: &[Try] = segment.map_or(&[], |segment| &segment.tries);
    let idea = |idea: &&Idea| {
        let tried: Vec<u32> =
            tries.iter().filter(|known| known.idea == Some(idea.idea)).map(|known| known.number).collect();
        json!({
            "idea": idea.idea,
            "rank": idea.rank,
            "text": idea.text,
            "mechanism": idea.mechanism,
            "tries": tried,
        })
    };
    let closed = |axis: &Axis| json!({ "axis": axis.axis, "mechanism": axis.mechanism, "try": axis.number });
    // What is held out says most of what the proposer did not have in mind.
    let mut spec = current.spec.clone();
    spec.scales.retain(|scale| !scale.held_out);
    spec.proposer = ProposerSpec::default();
    json!({
        "schema": SCHEMA,
        "series": current.spec.name,
        "segment": current.number,
        "try": number,
        "tries_left": left,
        "worktree": tree.to_string_lossy(),
        "answer_file": answer,
        "start": current.start,
        "head": current.head,
        "noise_floor": current.noise.as_ref().map(|noise| noise.floor),
        "unit": unit(&current.spec),
        "base": segment.map(|segment| base_figures(segment, current)),
        "profile": segment.and_then(|segment| segment.profiles.get(&current.head)).map(|profile| {
            json!({ "text": profile.text, "failure": profile.failure })
        }),
        "spec": spec,
        "history": tries.iter().map(|known| history_entry(known, hidden)).collect::<Vec<_>>(),
        "ideas": state.open_ideas().iter().map(idea).collect::<Vec<_>>(),
        "closed_axes": state.closed_axes().map(closed).collect::<Vec<_>>(),
    })
}

/// The unit of the figure that decides, as far as it is known.
pub(in crate::series) fn unit(spec: &Spec) -> Option<String> {
    let of_name = || {
        let found = UNITS.iter().filter(|(ending, _)| spec.primary.metric.ends_with(ending));
        found.max_by_key(|(ending, _)| ending.len()).map(|(_, unit)| (*unit).to_owned())
    };
    spec.primary.unit.clone().or_else(of_name)
}

/// What the figure of the head is at each scale that is not held out: what the last kept try came to, or what the noise
/// floor was found from.
fn base_figures(segment: &Segment, current: &Current) -> Value {
    let head = &current.head;
    let kept = segment.keeps.last().filter(|kept| kept.commit == *head);
    let kept = kept.and_then(|kept| segment.tries.iter().find(|known| known.number == kept.number));
    let judgement = kept.and_then(|known| known.judgement.as_ref());
    let of_head = segment.current_noise().filter(|noise| noise.commit == *head);
    let samples: &[Sample] = of_head.map_or(&[], |noise| &noise.samples);
    let mut figures = Map::new();
    for scale in current.spec.deciding() {
        let of_try = judgement.and_then(|judgement| judgement.scales.get(&scale.name)).map(|it| it.candidate);
        let values: Vec<f64> = samples
            .iter()
            .filter(|sample| sample.scale == scale.name)
            .filter_map(|sample| sample.metrics.get(&current.spec.primary.metric).copied())
            .collect();
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        figures.insert(scale.name, json!(of_try.or(mean)));
    }
    Value::Object(figures)
}

fn history_entry(known: &Try, hidden: &Hidden) -> Value {
    let computed = known.judgement.as_ref();
    let scales = computed.map(|judgement| {
        let all = judgement.scales.iter().filter(|(name, _)| !hidden.is_scale(name));
        all.collect::<BTreeMap<_, _>>()
    });
    json!({
        "try": known.number,
        "source": known.source,
        "hypothesis": known.hypothesis,
        "mechanism": known.mechanism,
        "axis": known.axis,
        "idea": known.idea,
        "files": known.files,
        "notes": known.notes,
        "candidate": known.candidate,
        "verdict": known.verdict(),
        "reason": computed.map(|judgement| hidden.without(judgement)),
        "effect": computed.and_then(|judgement| judgement.effect),
        "scales": scales,
        "by_hand": known.overrides.last().map(|by_hand| &by_hand.reason),
    })
}
