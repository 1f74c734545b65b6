//! Events as a series has them, for tests.

use duramen_experiment::event::{
    Design, Effect, Event, Judgement, Metrics, Purpose, Sample, Side, Verdict, SCHEMA,
};
use duramen_measure::host::Host;
use std::collections::BTreeMap;

/// A machine that is always the same.
pub(crate) fn host() -> Box<Host> {
    Box::new(Host {
        cpu: "a processor".to_owned(),
        cores: 2,
        memory_bytes: 8 << 30,
        kernel: "Linux 6.1 x86_64".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.25, 0.5, 1.0],
        fsync_floor_us: 120.5,
    })
}

/// The spec of the fixtures.
pub(crate) const SPEC: &str = "\
name = \"sums\"

[measure]
command = \"./bench {scale}\"
quads = 2

[primary]
metric = \"sum_ms\"
direction = \"lower\"

[[scale]]
name = \"small\"
value = \"1000\"

[[scale]]
name = \"large\"
value = \"100000\"
held_out = true
";

pub(crate) fn segment(number: u32, start: &str) -> Event {
    let (schema, spec, start) = (SCHEMA.to_owned(), SPEC.to_owned(), start.to_owned());
    Event::Segment {
        schema,
        segment: number,
        start,
        spec,
        seed: u64::MAX - 6,
        host: host(),
        design: Design::Fixed,
        isolated: false,
    }
}

pub(crate) fn sample(purpose: Purpose, block: u32, place: u32, value: f64) -> Event {
    let side = if place == 0 || place == 3 { Side::Base } else { Side::Candidate };
    Event::Sample(Sample {
        purpose,
        scale: "small".to_owned(),
        quad: block,
        place,
        side,
        metrics: Metrics::from([("sum_ms".to_owned(), value), ("wall_s".to_owned(), 0.1 + 0.2)]),
        load: 0.5,
        steal: 0.0,
        pinned: Some(vec![1]),
        failure: None,
        invalid: None,
        data: None,
        output: None,
    })
}

pub(crate) fn noise(commit: &str, floor: f64) -> Event {
    Event::Noise { commit: commit.to_owned(), floor, scales: BTreeMap::from([("small".to_owned(), floor)]) }
}

pub(crate) fn begun(number: u32, base: &str, candidate: &str, hypothesis: &str) -> Event {
    Event::TryBegun {
        number,
        source: "working tree".to_owned(),
        base: base.to_owned(),
        candidate: candidate.to_owned(),
        hypothesis: hypothesis.to_owned(),
        mechanism: "fewer allocations".to_owned(),
        axis: Some("allocation".to_owned()),
        idea: Some(1),
        files: vec!["src/sum.c".to_owned()],
        notes: BTreeMap::new(),
        asked_s: None,
    }
}

/// An effect of `share` with an interval of two points each way.
pub(crate) fn effect(share: f64) -> Effect {
    let candidate = 10.0 * (1.0 + share);
    let (low, high) = (share - 0.02, share + 0.02);
    Effect { share, low, high, p_value: 0.0005, base: 10.0, candidate, quads: 2 }
}

pub(crate) fn judgement(verdict: Verdict, reason: &str, share: Option<f64>) -> Judgement {
    let effect = share.map(effect);
    Judgement {
        verdict,
        reason: reason.to_owned(),
        effect,
        scales: effect.iter().map(|effect| ("small".to_owned(), *effect)).collect(),
        others: BTreeMap::new(),
        alpha: 0.00125,
        confirmed: (verdict == Verdict::Keep).then_some(true),
        extent: None,
    }
}

pub(crate) fn ended(number: u32, judgement: Judgement, head: &str) -> Event {
    Event::TryEnded { number, judgement, head: head.to_owned() }
}

/// One of each kind, in an order that makes sense.
pub(crate) fn events() -> Vec<Event> {
    let text = str::to_owned;
    vec![
        Event::Idea {
            idea: 1,
            rank: 2.5,
            text: text("keep the buffer"),
            mechanism: text("malloc"),
            done: false,
        },
        segment(1, "c0"),
        sample(Purpose::Noise(0), 0, 0, 10.25),
        sample(Purpose::Noise(0), 0, 1, 10.125),
        noise("c0", 0.0125),
        begun(1, "c0", "c1", "one buffer for all rows"),
        sample(Purpose::Try(1), 0, 0, 10.0),
        sample(Purpose::Try(1), 0, 1, 9.0),
        Event::Checked { number: 1, check: text("tests"), passed: true, detail: text("12 passed\n\u{b5}s") },
        sample(Purpose::Confirm(1), 0, 0, 10.0),
        ended(1, judgement(Verdict::Keep, "better by 10 %", Some(-0.1)), "c1"),
        begun(2, "c1", "c2", "unroll"),
        ended(2, judgement(Verdict::Crash, "exit status 2", None), "c1"),
        Event::Axis {
            axis: text("unrolling"),
            closed: true,
            mechanism: text("the loop waits"),
            number: Some(2),
        },
        Event::Replayed {
            start: text("c0"),
            head: text("c1"),
            judgement: judgement(Verdict::Keep, "", Some(-0.09)),
        },
        Event::Ablated { number: 1, head: text("c1"), judgement: None, words: text("cannot be left out") },
        Event::Overridden {
            number: 1,
            verdict: Verdict::Discard,
            reason: text("it leaks"),
            head: text("c0"),
        },
        Event::Imported {
            file: text("autoresearch.jsonl"),
            run: 3,
            commit: text("abc1234"),
            metric: text("sum_ms"),
            metrics: Metrics::from([(text("sum_ms"), 12.5)]),
            status: text("keep"),
            description: text("split the batch"),
            timestamp: text("1700000000"),
        },
        Event::Stopped { rule: text("plateau"), words: text("20 tries in a row without a keep") },
    ]
}
