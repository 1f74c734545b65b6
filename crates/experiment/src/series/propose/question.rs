//! What a proposer is told.

use crate::{
    series::Current,
    spec::Spec,
    state::{Axis, Idea, State, Try},
};
use serde_json::{json, Value};
use std::{collections::BTreeMap, path::Path};

/// The version of what a proposer is told and says.
const SCHEMA: &str = "duramen.proposal/1";

/// The JSON document for the standard input of a proposer.
pub(super) fn write(state: &State, current: &Current, tree: &Path, number: u32, left: u32) -> Vec<u8> {
    let tries: &[Try] = state.current().map_or(&[], |segment| &segment.tries);
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
    let document = json!({
        "schema": SCHEMA,
        "series": current.spec.name,
        "segment": current.number,
        "try": number,
        "tries_left": left,
        "worktree": tree.to_string_lossy(),
        "start": current.start,
        "head": current.head,
        "noise_floor": current.noise.as_ref().map(|noise| noise.floor),
        "spec": spec,
        "history": tries.iter().map(|known| history_entry(known, &current.spec)).collect::<Vec<_>>(),
        "ideas": state.open_ideas().iter().map(idea).collect::<Vec<_>>(),
        "closed_axes": state.closed_axes().map(closed).collect::<Vec<_>>(),
    });
    document.to_string().into_bytes()
}

/// A reason that says nothing of what was found at held-out scales.
fn without_held_out<'r>(reason: &'r str, spec: &Spec) -> &'r str {
    let names_one = spec.held_out().any(|scale| reason.contains(&format!(" at scale {}", scale.name)));
    if names_one {
        "it does not hold at a scale that was held out"
    } else {
        reason
    }
}

fn history_entry(known: &Try, spec: &Spec) -> Value {
    let computed = known.judgement.as_ref();
    let is_held_out = |name: &str| spec.held_out().any(|scale| scale.name == name);
    let scales = computed.map(|judgement| {
        let all = judgement.scales.iter().filter(|(name, _)| !is_held_out(name));
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
        "candidate": known.candidate,
        "verdict": known.verdict(),
        "reason": computed.map(|judgement| without_held_out(&judgement.reason, spec)),
        "effect": computed.and_then(|judgement| judgement.effect),
        "scales": scales,
        "by_hand": known.overrides.last().map(|by_hand| &by_hand.reason),
    })
}
