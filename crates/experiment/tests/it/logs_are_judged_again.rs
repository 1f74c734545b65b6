//! X4: whoever has a log comes to the verdicts in it, whatever version wrote it.

use duramen_experiment::event::{Design, Judgement, Verdict};
use duramen_experiment::log;
use duramen_experiment::spec::Spec;
use duramen_experiment::state::{Segment, State, Try};
use duramen_experiment::verdict::{self, Noise};
use std::path::Path;

/// The noise floor that held when a try began.
fn noise(segment: &Segment, known: &Try) -> Noise {
    let before = segment.noise.iter().rev().find(|noise| noise.at <= known.at);
    let noise = before.expect("there is a noise floor before there is a try");
    Noise { floor: noise.floor, scales: noise.scales.clone() }
}

/// All that is computed but its words.
fn computed(judgement: &Judgement) -> impl PartialEq + std::fmt::Debug {
    let judgement = judgement.clone();
    (
        judgement.verdict,
        judgement.effect,
        judgement.scales,
        judgement.others,
        judgement.alpha,
        judgement.confirmed,
    )
}

/// 3,113 lines of a real series of version 0.1, of which every try was judged once, when all blocks were there.
#[test]
fn a_series_of_before_there_were_looks_is_judged_the_same_to_the_last_bit() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments/c1z3-read/experiments.jsonl");
    let state = State::from_entries(&log::read(&path).expect("the log"));
    let mut judged = 0;
    for segment in &state.segments {
        assert_eq!(segment.design, Design::Fixed);
        let spec = Spec::parse(&segment.spec, Path::new("experiment.toml")).expect("its spec");
        for known in &segment.tries {
            let Some(judgement) = &known.judgement else { continue };
            let is_measured = !known.samples.is_empty() && known.samples.iter().all(|it| it.has_figures());
            if !is_measured || matches!(judgement.verdict, Verdict::ChecksFailed | Verdict::Invalid) {
                continue;
            }
            let first = verdict::judge(&spec, &noise(segment, known), &known.samples);
            let again = match first.verdict {
                Verdict::Keep => verdict::confirm(&spec, &first, &known.confirmation),
                _ => first,
            };
            assert_eq!(computed(&again), computed(judgement), "try {}: {}", known.number, again.reason);
            judged += 1;
        }
    }
    assert!(judged >= 5, "{judged} tries were judged again");
}
