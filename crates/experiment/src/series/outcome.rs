//! What the commands on a series come to.

use crate::event::{Judgement, Metrics};
use serde::Serialize;
use std::collections::BTreeMap;

/// A baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    /// The segment that it began, from 1.
    pub segment: u32,
    /// The commit that the segment starts with.
    pub start: String,
    /// The noise floor as a share (0.02 for 2 %).
    pub floor: f64,
    /// The same for each scale alone.
    pub scales: BTreeMap<String, f64>,
    /// The means of all figures of the start at each scale.
    pub figures: BTreeMap<String, Metrics>,
    /// How many tries the segment has.
    pub tries: u32,
    /// Whether it went on with one that was broken off.
    pub resumed: bool,
}

/// A try that has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ended {
    /// Its number.
    pub number: u32,
    /// Where the change came from.
    pub source: String,
    /// What should have become better.
    pub hypothesis: String,
    /// The candidate.
    pub candidate: String,
    /// The files that it changes.
    pub files: Vec<String>,
    /// The computed verdict with its reasons.
    pub judgement: Judgement,
    /// The head from now on.
    pub head: String,
    /// How many tries the segment has left.
    pub left: u32,
}

/// An autonomous run that has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stopped {
    /// The rule that ended it: `tries`, `time`, `plateau`, `same_failure`, `proposer`, `proposer_failed`, `interrupted`.
    pub rule: String,
    /// In words.
    pub words: String,
    /// What was tried, in order.
    pub tries: Vec<Ended>,
}

/// The kept stack against the start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replayed {
    /// The start.
    pub start: String,
    /// The head.
    pub head: String,
    /// What came out.
    pub judgement: Judgement,
}

/// The stack without one of its tries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ablated {
    /// The try that was left out.
    pub number: u32,
    /// Its hypothesis.
    pub hypothesis: String,
    /// What leaving it out does; nothing if the stack does not hold together without it.
    pub judgement: Option<Judgement>,
    /// In words: it still helps, does not help any more, does harm, cannot be left out.
    pub words: String,
}

/// A branch that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// The commit that it points at.
    pub commit: String,
    /// The try, or nothing for the whole stack.
    pub number: Option<u32>,
}
