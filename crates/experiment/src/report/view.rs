//! What is shown, as values.

use super::{
    stack::{self, Ratio},
    words,
};
use crate::{
    event::{Effect, Extent, Verdict},
    spec::{Direction, Spec},
    state::{Checked, Override, Segment, State, Stop, Try},
};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// How a figure changed, in percent of it, with the interval of 95 %. Unlike [`Effect`], it has the sign of the figure:
/// a throughput that grew by a tenth is `10`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The estimate.
    pub percent: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&words::change(self))
    }
}

impl Change {
    pub(super) fn new(effect: &Effect, direction: Direction) -> Change {
        Change::from_ratio(Ratio::new(effect), direction)
    }

    pub(super) fn from_ratio(ratio: Ratio, direction: Direction) -> Change {
        let Ratio { estimate, low, high } = ratio;
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        match direction {
            Direction::Lower => Change { percent: percent(estimate), low: percent(low), high: percent(high) },
            // The effect is turned so that less is better.
            Direction::Higher => Change {
                percent: percent(1.0 / estimate),
                low: percent(1.0 / high),
                high: percent(1.0 / low),
            },
        }
    }
}

/// A series in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overview {
    /// The name of the series; empty before the first baseline.
    pub name: String,
    /// The primary figure.
    pub metric: String,
    /// Which way it is better.
    pub direction: Direction,
    /// The number of the current segment; 0 before the first baseline.
    pub segment: u32,
    /// When it began.
    pub began: Option<Timestamp>,
    /// The commit that it began with.
    pub start: String,
    /// Start and kept tries.
    pub head: String,
    /// How many tries it has.
    pub tries: usize,
    /// How many it may have.
    pub budget: u32,
    /// How many tries came to which verdict.
    pub verdicts: BTreeMap<&'static str, usize>,
    /// What the head is made of.
    pub kept: Vec<KeptRow>,
    /// What that comes to.
    pub stack: Option<Stack>,
    /// What is above the noise, in percent.
    pub noise_percent: Option<f64>,
    /// How many tries in a row were not kept.
    pub since_keep: usize,
    /// The try that a killed command left.
    pub open_try: Option<u32>,
    /// How many ideas are not done.
    pub ideas: usize,
    /// Lines of thought that are closed.
    pub closed: Vec<String>,
    /// How the last autonomous run ended.
    pub stopped: Option<Stop>,
    /// What does not fit together in the log.
    pub oddities: Vec<String>,
}

/// A kept try in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeptRow {
    /// Its number.
    pub number: u32,
    /// Its candidate.
    pub commit: String,
    /// What it was to show.
    pub hypothesis: String,
    /// How the primary figure changed by it.
    pub change: Option<Change>,
}

/// What the kept tries come to together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stack {
    /// How the primary figure changed from start to head.
    pub change: Change,
    /// Whether that was measured by a replay of this very head, or is the product of what the tries did one by one.
    pub is_replayed: bool,
    /// The verdict of the replay.
    pub verdict: Option<Verdict>,
}

/// A try, without its samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its number.
    pub number: u32,
    /// The segment.
    pub segment: u32,
    /// When it began.
    pub at: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// What holds; nothing while it is open.
    pub verdict: Option<Verdict>,
    /// What was computed.
    pub computed: Option<Verdict>,
    /// Why.
    pub reason: String,
    /// What somebody decided instead.
    pub by_hand: Option<Override>,
    /// How the primary figure changed.
    pub change: Option<Change>,
    /// How probable the samples would be if nothing had changed.
    pub p_value: Option<f64>,
    /// What it was judged at.
    pub alpha: Option<f64>,
    /// Whether new samples agreed.
    pub confirmed: Option<bool>,
    /// How far it was measured, where it may end early: the try, or its confirmation if it came to that.
    pub extent: Option<Extent>,
    /// The primary figure at each scale.
    pub scales: BTreeMap<String, Change>,
    /// Other figures.
    pub others: BTreeMap<String, Change>,
    /// What should become better.
    pub hypothesis: String,
    /// By which mechanism.
    pub mechanism: String,
    /// The line of thought.
    pub axis: Option<String>,
    /// The idea.
    pub idea: Option<u32>,
    /// Where the change came from.
    pub source: String,
    /// The head that it was made on.
    pub base: String,
    /// The candidate.
    pub candidate: String,
    /// The files that it changes.
    pub files: Vec<String>,
    /// What else was said of it.
    pub notes: BTreeMap<String, String>,
    /// The checks.
    pub checks: Vec<Checked>,
    /// How many samples there are, those of its confirmation included.
    pub samples: usize,
    /// The largest share of the machine's time that was stolen during one of them.
    pub steal: f64,
    /// How the first sample without figures failed.
    pub failure: Option<String>,
}

/// What the spec of a segment says of its figures.
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) metric: String,
    pub(super) direction: Direction,
    pub(super) budget: u32,
    others: BTreeMap<String, Direction>,
}

impl Facts {
    pub(super) fn new(segment: &Segment) -> Facts {
        let Ok(spec) = toml::from_str::<Spec>(&segment.spec) else {
            // The figures are still there, and less is better in all of them.
            let (name, metric) = ("series".to_owned(), "the primary figure".to_owned());
            return Facts { name, metric, direction: Direction::Lower, budget: 0, others: BTreeMap::new() };
        };
        let secondaries = spec.secondaries.iter().map(|figure| (figure.metric.clone(), figure.direction));
        let sentinels = spec.sentinels.iter().map(|figure| (figure.metric.clone(), figure.direction));
        Facts {
            others: secondaries.chain(sentinels).collect(),
            name: spec.name,
            metric: spec.primary.metric,
            direction: spec.primary.direction,
            budget: spec.budget.tries,
        }
    }

    pub(super) fn change(&self, effect: &Effect) -> Change {
        Change::new(effect, self.direction)
    }

    fn other(&self, metric: &str, effect: &Effect) -> Change {
        Change::new(effect, self.others.get(metric).copied().unwrap_or(Direction::Lower))
    }
}

/// A series in short.
pub fn overview(state: &State) -> Overview {
    let mut overview = Overview {
        name: String::new(),
        metric: String::new(),
        direction: Direction::Lower,
        segment: 0,
        began: None,
        start: String::new(),
        head: String::new(),
        tries: 0,
        budget: 0,
        verdicts: BTreeMap::new(),
        kept: Vec::new(),
        stack: None,
        noise_percent: None,
        since_keep: 0,
        open_try: state.open_try().map(|open| open.number),
        ideas: state.open_ideas().len(),
        closed: state.closed_axes().map(|axis| axis.axis.clone()).collect(),
        stopped: state.stops.last().cloned(),
        oddities: state.oddities.clone(),
    };
    let Some(segment) = state.current() else { return overview };
    let facts = Facts::new(segment);
    overview.segment = segment.number;
    overview.began = Some(segment.at);
    overview.start = segment.start.clone();
    overview.head = segment.head.clone();
    overview.tries = segment.tries.len();
    overview.budget = facts.budget;
    for verdict in segment.tries.iter().filter_map(Try::verdict) {
        *overview.verdicts.entry(words::verdict(verdict)).or_default() += 1;
    }
    overview.kept = kept(segment, &facts);
    overview.stack = stack_of(segment, &facts);
    overview.noise_percent = segment.current_noise().map(|noise| noise.floor * 100.0);
    overview.since_keep = segment.since_keep();
    overview.name = facts.name;
    overview.metric = facts.metric;
    overview.direction = facts.direction;
    overview
}

fn kept(segment: &Segment, facts: &Facts) -> Vec<KeptRow> {
    let row = |kept: &crate::state::Kept| {
        let known = segment.tries.iter().find(|known| known.number == kept.number);
        KeptRow {
            number: kept.number,
            commit: kept.commit.clone(),
            hypothesis: known.map(|known| known.hypothesis.clone()).unwrap_or_default(),
            change: known.and_then(Try::effect).map(|effect| facts.change(effect)),
        }
    };
    segment.keeps.iter().map(row).collect()
}

/// What the stack comes to; nothing while there is none.
pub(super) fn stack_of(segment: &Segment, facts: &Facts) -> Option<Stack> {
    let replay = segment.replays.iter().rev().find(|replay| replay.head == segment.head);
    if let Some((replay, effect)) =
        replay.and_then(|replay| Some((replay, replay.judgement.effect.as_ref()?)))
    {
        let verdict = Some(replay.judgement.verdict);
        return Some(Stack { change: facts.change(effect), is_replayed: true, verdict });
    }
    let ratio = stack::now(segment);
    (!segment.keeps.is_empty()).then(|| Stack {
        change: Change::from_ratio(ratio, facts.direction),
        is_replayed: false,
        verdict: None,
    })
}

/// All tries of all segments.
pub fn rows(state: &State) -> Vec<Row> {
    let of_segment = |segment: &Segment| {
        let facts = Facts::new(segment);
        segment.tries.iter().map(|known| row(segment, &facts, known)).collect::<Vec<_>>()
    };
    state.segments.iter().flat_map(of_segment).collect()
}

fn row(segment: &Segment, facts: &Facts, known: &Try) -> Row {
    let judgement = known.judgement.as_ref();
    let scales = judgement.map(|judgement| &judgement.scales).into_iter().flatten();
    let others = judgement.map(|judgement| &judgement.others).into_iter().flatten();
    let samples = || known.samples.iter().chain(&known.confirmation);
    Row {
        number: known.number,
        segment: segment.number,
        at: known.at,
        ended: known.ended,
        verdict: known.verdict(),
        computed: judgement.map(|judgement| judgement.verdict),
        reason: judgement.map(|judgement| judgement.reason.clone()).unwrap_or_default(),
        by_hand: known.overrides.last().cloned(),
        change: known.effect().map(|effect| facts.change(effect)),
        p_value: known.effect().map(|effect| effect.p_value),
        alpha: judgement.map(|judgement| judgement.alpha),
        confirmed: judgement.and_then(|judgement| judgement.confirmed),
        extent: judgement.and_then(|judgement| judgement.extent),
        scales: scales.map(|(name, effect)| (name.clone(), facts.change(effect))).collect(),
        others: others.map(|(name, effect)| (name.clone(), facts.other(name, effect))).collect(),
        hypothesis: known.hypothesis.clone(),
        mechanism: known.mechanism.clone(),
        axis: known.axis.clone(),
        idea: known.idea,
        source: known.source.clone(),
        base: known.base.clone(),
        candidate: known.candidate.clone(),
        files: known.files.clone(),
        notes: known.notes.clone(),
        checks: known.checks.clone(),
        samples: samples().count(),
        steal: samples().map(|sample| sample.steal).fold(0.0, f64::max),
        failure: samples().find_map(|sample| sample.failure.clone().or_else(|| sample.invalid.clone())),
    }
}
