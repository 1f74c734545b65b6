//! What a series has come to. All of it follows from the events; nothing else is kept.

use crate::{
    event::{Design, Effect, Event, Judgement, Metrics, Purpose, Sample, Verdict},
    log::Entry,
};
use duramen_measure::host::Host;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// A series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// The segments, the current one last.
    pub segments: Vec<Segment>,
    /// The ideas by number.
    pub ideas: BTreeMap<u32, Idea>,
    /// The lines of thought by name.
    pub axes: BTreeMap<String, Axis>,
    /// Rows of other tools' logs, in the order in which they came.
    pub imported: Vec<Imported>,
    /// How autonomous runs ended.
    pub stops: Vec<Stop>,
    /// Events that have nothing to do with what came before them, in words: a log that was put together by hand.
    pub oddities: Vec<String>,
}

/// What was tried since one baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Its number, from 1.
    pub number: u32,
    /// When it began.
    pub at: Timestamp,
    /// The commit that it started with.
    pub start: String,
    /// The text of its spec.
    pub spec: String,
    /// What is drawn by chance is drawn from this.
    pub seed: u64,
    /// The machine that it began on.
    pub host: Box<Host>,
    /// When its tries are looked at.
    pub design: Design,
    /// Whether the sides are walled off from each other (X20).
    pub isolated: bool,
    /// Start and every kept try.
    pub head: String,
    /// What the head is made of, in this order.
    pub keeps: Vec<Kept>,
    /// The noise floors that were found, the one that holds last.
    pub noise: Vec<Noise>,
    /// The tries in their order.
    pub tries: Vec<Try>,
    /// The replays.
    pub replays: Vec<Replay>,
    /// The stack without one of its tries, in the order in which that was measured.
    pub ablations: Vec<Ablation>,
    /// Samples of what has not come to an end: a noise floor, a replay, an ablation.
    unfinished: BTreeMap<Purpose, Vec<Sample>>,
    /// The profiles of bases, by commit.
    pub profiles: BTreeMap<String, Profile>,
    /// What held-out scales stand for, by what it was drawn for.
    drawn: BTreeMap<Purpose, BTreeMap<String, String>>,
}

/// A try that the head holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The try.
    pub number: u32,
    /// Its candidate. What it changes is what that commit changes; on the head it may have another id.
    pub commit: String,
}

/// A noise floor.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// When it was found.
    pub at: Timestamp,
    /// The commit that was measured against itself.
    pub commit: String,
    /// The least effect that is above the noise, as a share.
    pub floor: f64,
    /// The same for each scale alone.
    pub scales: BTreeMap<String, f64>,
    /// What it was found from.
    pub samples: Vec<Sample>,
}

/// A try.
#[derive(Debug, Clone, PartialEq)]
pub struct Try {
    /// Its number within the series, from 1.
    pub number: u32,
    /// When it began.
    pub at: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Where the change came from.
    pub source: String,
    /// The head that it was made on.
    pub base: String,
    /// The candidate.
    pub candidate: String,
    /// What should become better, and why.
    pub hypothesis: String,
    /// By which mechanism.
    pub mechanism: String,
    /// The line of thought that it belongs to.
    pub axis: Option<String>,
    /// The idea that it carries out.
    pub idea: Option<u32>,
    /// The files that it changes.
    pub files: Vec<String>,
    /// What else was said of it, by the name of the field.
    pub notes: BTreeMap<String, String>,
    /// How long whoever proposed it took, in seconds.
    pub asked_s: Option<f64>,
    /// The checks that were run.
    pub checks: Vec<Checked>,
    /// Its first samples.
    pub samples: Vec<Sample>,
    /// Those of its confirmation.
    pub confirmation: Vec<Sample>,
    /// What was computed; nothing while it is open.
    pub judgement: Option<Judgement>,
    /// What somebody decided instead, the last one holds.
    pub overrides: Vec<Override>,
}

impl Try {
    /// Whether it has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.judgement.is_none()
    }

    /// What holds: the computed verdict, or the last one by hand.
    pub fn verdict(&self) -> Option<Verdict> {
        let by_hand = self.overrides.last().map(|by_hand| by_hand.verdict);
        by_hand.or(self.judgement.as_ref().map(|judgement| judgement.verdict))
    }

    /// The effect on the primary figure, if there were figures.
    pub fn effect(&self) -> Option<&Effect> {
        self.judgement.as_ref()?.effect.as_ref()
    }
}

/// A check of the project on a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Its name.
    pub check: String,
    /// Whether it held.
    pub passed: bool,
    /// The end of what it printed.
    pub detail: String,
}

/// A verdict by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Override {
    /// When.
    pub at: Timestamp,
    /// What holds instead of what was computed.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
}

/// The stack against the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// When it ended.
    pub at: Timestamp,
    /// The start.
    pub start: String,
    /// The head.
    pub head: String,
    /// What came out.
    pub judgement: Judgement,
    /// What it came from.
    pub samples: Vec<Sample>,
    /// After how many tries of the segment.
    pub tries: usize,
}

/// The profile of a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What the command printed.
    pub text: String,
    /// Why there is none.
    pub failure: Option<String>,
}

/// The stack without one of its tries.
#[derive(Debug, Clone, PartialEq)]
pub struct Ablation {
    /// When it ended.
    pub at: Timestamp,
    /// The try that was left out.
    pub number: u32,
    /// The head.
    pub head: String,
    /// What leaving it out does.
    pub judgement: Option<Judgement>,
    /// In words.
    pub words: String,
    /// What it came from.
    pub samples: Vec<Sample>,
}

/// An idea for later.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Idea {
    /// Its number, from 1.
    pub idea: u32,
    /// The greater, the sooner.
    pub rank: f64,
    /// What to do.
    pub text: String,
    /// Why it should help.
    pub mechanism: String,
    /// Whether it is done with.
    pub done: bool,
}

/// A line of thought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// Its name.
    pub axis: String,
    /// Whether it is not to be followed any more.
    pub closed: bool,
    /// By which mechanism it failed, or why it is open again.
    pub mechanism: String,
    /// The try that showed it.
    pub number: Option<u32>,
}

/// A row of another tool's log. Its status was given by hand and counts for nothing here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Imported {
    /// The file's name.
    pub file: String,
    /// Its number there.
    pub run: u64,
    /// The commit, as given there.
    pub commit: String,
    /// The primary figure's name.
    pub metric: String,
    /// The figures.
    pub metrics: Metrics,
    /// The status there.
    pub status: String,
    /// What was tried.
    pub description: String,
    /// When, as given there.
    pub timestamp: String,
}

/// The end of an autonomous run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// When.
    pub at: Timestamp,
    /// The rule that ended it.
    pub rule: String,
    /// In words.
    pub words: String,
}

impl State {
    /// The state after these entries.
    pub fn from_entries(entries: &[Entry]) -> State {
        let mut state = State::default();
        for entry in entries {
            state.apply(entry);
        }
        state
    }

    /// The segment that is under way.
    pub fn current(&self) -> Option<&Segment> {
        self.segments.last()
    }

    /// The try that has begun and not ended. There is at most one.
    pub fn open_try(&self) -> Option<&Try> {
        self.current()?.tries.last().filter(|last| last.is_open())
    }

    /// A try of any segment.
    pub fn find_try(&self, number: u32) -> Option<&Try> {
        self.tries().find(|found| found.number == number)
    }

    /// All tries of all segments in their order.
    pub fn tries(&self) -> impl Iterator<Item = &Try> {
        self.segments.iter().flat_map(|segment| &segment.tries)
    }

    /// The number of the try that comes next.
    pub fn next_try(&self) -> u32 {
        self.tries().map(|known| known.number).max().unwrap_or(0) + 1
    }

    /// The number of the idea that comes next.
    pub fn next_idea(&self) -> u32 {
        self.ideas.keys().last().copied().unwrap_or(0) + 1
    }

    /// The ideas that are not done, the first of rank first.
    pub fn open_ideas(&self) -> Vec<&Idea> {
        let mut open: Vec<&Idea> = self.ideas.values().filter(|idea| !idea.done).collect();
        open.sort_by(|a, b| b.rank.total_cmp(&a.rank).then(a.idea.cmp(&b.idea)));
        open
    }

    /// The lines of thought that are closed.
    pub fn closed_axes(&self) -> impl Iterator<Item = &Axis> {
        self.axes.values().filter(|axis| axis.closed)
    }

    /// Takes the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        if let Err(odd) = self.enter(entry) {
            self.oddities.push(format!("line {}: {odd}", entry.seq));
        }
    }

    fn enter(&mut self, entry: &Entry) -> Result<(), String> {
        let at = entry.at;
        match entry.event.clone() {
            Event::Segment { schema: _, segment, start, spec, seed, host, design, isolated } => {
                let new = Segment::new(segment, at, start, spec, seed, host);
                self.segments.push(Segment { design, isolated, ..new });
            }
            Event::Idea { idea, rank, text, mechanism, done } => {
                self.ideas.insert(idea, Idea { idea, rank, text, mechanism, done });
            }
            Event::Axis { axis, closed, mechanism, number } => {
                self.axes.insert(axis.clone(), Axis { axis, closed, mechanism, number });
            }
            Event::Imported { file, run, commit, metric, metrics, status, description, timestamp } => {
                let row = Imported { file, run, commit, metric, metrics, status, description, timestamp };
                self.imported.push(row);
            }
            Event::Stopped { rule, words } => self.stops.push(Stop { at, rule, words }),
            event => {
                let segment = self.segments.last_mut().ok_or("no segment has begun")?;
                segment.enter(at, event)?;
            }
        }
        Ok(())
    }
}

impl Segment {
    fn new(number: u32, at: Timestamp, start: String, spec: String, seed: u64, host: Box<Host>) -> Segment {
        let head = start.clone();
        Segment {
            number,
            at,
            start,
            spec,
            seed,
            host,
            design: Design::Fixed,
            isolated: false,
            head,
            keeps: Vec::new(),
            noise: Vec::new(),
            tries: Vec::new(),
            replays: Vec::new(),
            ablations: Vec::new(),
            unfinished: BTreeMap::new(),
            profiles: BTreeMap::new(),
            drawn: BTreeMap::new(),
        }
    }

    /// All values that were drawn for held-out scales.
    pub(crate) fn all_drawn(&self) -> impl Iterator<Item = &str> {
        self.drawn.values().flat_map(BTreeMap::values).map(String::as_str)
    }

    /// What held-out scales stand for in a confirmation or replay, if that was drawn.
    pub fn drawn(&self, purpose: Purpose) -> Option<&BTreeMap<String, String>> {
        self.drawn.get(&purpose)
    }

    /// The samples that were taken for something: those of a try and its confirmation for ever, those of a noise floor,
    /// a replay and an ablation until it ended, or the head changed under it.
    pub fn samples(&self, purpose: Purpose) -> &[Sample] {
        let of = |number: u32| self.tries.iter().find(|known| known.number == number);
        match purpose {
            Purpose::Try(number) => of(number).map_or(&[], |found| &found.samples),
            Purpose::Confirm(number) => of(number).map_or(&[], |found| &found.confirmation),
            _ => self.unfinished.get(&purpose).map_or(&[], Vec::as_slice),
        }
    }

    /// The digest of the data that its runs had, where the spec gives them branches of a source.
    pub fn digest(&self) -> Option<&str> {
        let of_noise = self.noise.iter().flat_map(|noise| &noise.samples);
        let mut samples = of_noise.chain(self.unfinished.values().flatten());
        samples.find_map(|sample| sample.data.as_ref()).map(|data| data.digest.as_str())
    }

    /// The noise floor that holds.
    pub fn current_noise(&self) -> Option<&Noise> {
        self.noise.last()
    }

    /// How many tries in a row, up to the last one, were not kept. Open ones do not count.
    pub fn since_keep(&self) -> usize {
        let ended = self.tries.iter().rev().filter(|known| !known.is_open());
        ended.take_while(|known| known.verdict() != Some(Verdict::Keep)).count()
    }

    /// How many tries in a row, up to the last one, crashed, failed a check or were invalid for the same reason.
    pub fn same_failure(&self) -> usize {
        let failure = |known: &Try| match (known.verdict()?, &known.judgement) {
            (verdict @ (Verdict::Crash | Verdict::ChecksFailed | Verdict::Invalid), Some(judgement)) => {
                Some((verdict, judgement.reason.clone()))
            }
            _ => None,
        };
        let mut ended = self.tries.iter().rev().filter(|known| !known.is_open()).map(failure);
        match ended.next().flatten() {
            Some(last) => 1 + ended.take_while(|other| other.as_ref() == Some(&last)).count(),
            None => 0,
        }
    }

    fn enter(&mut self, at: Timestamp, event: Event) -> Result<(), String> {
        match event {
            Event::Sample(sample) => match sample.purpose {
                Purpose::Try(number) => self.open(number)?.samples.push(sample),
                Purpose::Confirm(number) => self.open(number)?.confirmation.push(sample),
                purpose => self.unfinished.entry(purpose).or_default().push(sample),
            },
            Event::Noise { commit, floor, scales } => {
                let samples = self.finished(|purpose| matches!(purpose, Purpose::Noise(_)));
                self.noise.push(Noise { at, commit, floor, scales, samples });
            }
            Event::TryBegun {
                number,
                source,
                base,
                candidate,
                hypothesis,
                mechanism,
                axis,
                idea,
                files,
                notes,
                asked_s,
            } => {
                if self.tries.last().is_some_and(Try::is_open) {
                    return Err(format!("try {number} began while another one was open"));
                }
                self.tries.push(Try {
                    number,
                    at,
                    ended: None,
                    source,
                    base,
                    candidate,
                    hypothesis,
                    mechanism,
                    axis,
                    idea,
                    files,
                    notes,
                    asked_s,
                    checks: Vec::new(),
                    samples: Vec::new(),
                    confirmation: Vec::new(),
                    judgement: None,
                    overrides: Vec::new(),
                });
            }
            Event::Checked { number, check, passed, detail } => {
                self.open(number)?.checks.push(Checked { check, passed, detail });
            }
            // The first counts, so that nobody can draw until a value suits.
            Event::Drawn { purpose, values, .. } => {
                self.drawn.entry(purpose).or_insert(values);
            }
            Event::Profiled { commit, text, failure } => {
                self.profiles.insert(commit, Profile { text, failure });
            }
            Event::TryEnded { number, judgement, head } => {
                let ended = self.open(number)?;
                let is_kept = judgement.verdict == Verdict::Keep;
                ended.judgement = Some(judgement);
                ended.ended = Some(at);
                self.apply_verdict(number, is_kept, head);
            }
            Event::Overridden { number, verdict, reason, head } => {
                let decided = self.find(number)?;
                if decided.is_open() {
                    return Err(format!("try {number} was decided by hand before it ended"));
                }
                decided.overrides.push(Override { at, verdict, reason });
                self.apply_verdict(number, verdict == Verdict::Keep, head);
            }
            Event::Replayed { start, head, judgement } => {
                let samples = self.finished(|purpose| matches!(purpose, Purpose::Replay(_)));
                let tries = self.tries.len();
                self.replays.push(Replay { at, start, head, judgement, samples, tries });
            }
            Event::Ablated { number, head, judgement, words } => {
                let samples = self.finished(|purpose| purpose == Purpose::Ablate(number));
                self.ablations.push(Ablation { at, number, head, judgement, words, samples });
            }
            other => return Err(format!("{other:?} belongs to no segment")),
        }
        Ok(())
    }

    /// Enters or removes a try of the stack.
    fn apply_verdict(&mut self, number: u32, is_kept: bool, head: String) {
        let was_kept = self.keeps.iter().any(|kept| kept.number == number);
        match (was_kept, is_kept) {
            (false, true) => {
                let found = self.tries.iter().find(|known| known.number == number);
                let commit = found.map_or_else(|| head.clone(), |found| found.candidate.clone());
                self.keeps.push(Kept { number, commit });
            }
            (true, false) => self.keeps.retain(|kept| kept.number != number),
            _ => {}
        }
        if self.head != head {
            self.head = head;
            // What was measured of another head says nothing of this one.
            self.unfinished.clear();
            self.drawn.retain(|purpose, _| !matches!(purpose, Purpose::Replay(_)));
        }
    }

    /// The samples of something that has ended now.
    fn finished(&mut self, is_meant: impl Fn(Purpose) -> bool) -> Vec<Sample> {
        let purposes: Vec<Purpose> =
            self.unfinished.keys().copied().filter(|purpose| is_meant(*purpose)).collect();
        // Of several, which a killed command and a later one may leave, the last is what was finished.
        purposes
            .into_iter()
            .fold(Vec::new(), |_, purpose| self.unfinished.remove(&purpose).unwrap_or_default())
    }

    fn find(&mut self, number: u32) -> Result<&mut Try, String> {
        let found = self.tries.iter_mut().find(|known| known.number == number);
        found.ok_or_else(|| format!("there is no try {number} in this segment"))
    }

    fn open(&mut self, number: u32) -> Result<&mut Try, String> {
        let found = self.find(number)?;
        if !found.is_open() {
            return Err(format!("try {number} has ended"));
        }
        Ok(found)
    }
}
