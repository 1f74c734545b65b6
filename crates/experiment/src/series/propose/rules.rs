//! When an autonomous run ends.

use super::{Span, SOURCE};
use crate::{
    agents::AgentError,
    event::Verdict,
    spec::Spec,
    state::{State, Try},
};
use std::time::{Duration, Instant};

/// A try that was kept took at least so many quads, half of them for its confirmation.
const QUADS_OF_A_KEEP: f64 = 4.0;

/// The rule that ended a run.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) words: String,
}

impl Rule {
    fn new(name: &'static str, words: String) -> Rule {
        Rule { name, words }
    }

    pub(super) fn proposer(words: String) -> Rule {
        Rule::new("proposer", words)
    }

    pub(super) fn failed(error: &AgentError) -> Rule {
        Rule::new("proposer_failed", error.to_string())
    }

    /// The time was over in the midst of something.
    pub(super) fn out_of_time(limit: Duration, open: Option<&Try>) -> Rule {
        let then = match open {
            Some(open) => format!("try {} stays open, and the next run goes on with it", open.number),
            None => "what was asked for last was not begun".to_owned(),
        };
        Rule::new("time", format!("the {} of this run are over; {then}", Span(limit)))
    }

    pub(super) fn interrupted() -> Rule {
        Rule::new("interrupted", "interrupted; the next run goes on from here".to_owned())
    }
}

/// The rule that forbids another try, if one does. Rules about what came before look at the tries that were
/// proposed since the last end of a run: who begins another run has seen how the last one ended.
pub(super) fn broken(state: &State, spec: &Spec, max_tries: Option<u32>, time: Time) -> Option<Rule> {
    let all: &[Try] = state.current().map_or(&[], |segment| &segment.tries);
    let since = state.stops.last().map(|stop| stop.at);
    let run: Vec<&Try> = all
        .iter()
        .filter(|known| known.source == SOURCE && since.is_none_or(|since| known.at > since))
        .collect();

    let budget = spec.budget.tries as usize;
    if all.len() >= budget {
        return Some(Rule::new("tries", format!("the segment has had its {budget} tries (`budget.tries`)")));
    }
    if let Some(most) = max_tries.filter(|most| run.len() >= *most as usize) {
        return Some(Rule::new("tries", format!("{most} tries were made, as asked for")));
    }
    if time.is_over() {
        return Some(Rule::new("time", format!("the {} of this run are over", Span(time.limit))));
    }
    let needed = needed(state, spec);
    if time.left() < needed {
        let words = format!(
            "{} are left of the {} of this run, and a try takes {}: none begins that would not end",
            Span(time.left()),
            Span(time.limit),
            Span(needed)
        );
        return Some(Rule::new("time", words));
    }
    let plateau = spec.stop.plateau as usize;
    let without = run.iter().rev().take_while(|known| known.verdict() != Some(Verdict::Keep)).count();
    if plateau > 0 && without >= plateau {
        return Some(Rule::new(
            "plateau",
            format!("{plateau} tries in a row were not kept (`stop.plateau`)"),
        ));
    }
    let same = spec.stop.same_failure as usize;
    let (count, reason) = same_failure(&run);
    if same > 0 && count >= same {
        let words =
            format!("{same} tries in a row failed for the same reason (`stop.same_failure`): {reason}");
        return Some(Rule::new("same_failure", words));
    }
    None
}

/// The time of a run.
#[derive(Clone, Copy)]
pub(super) struct Time {
    /// How long it may last.
    pub(super) limit: Duration,
    pub(super) begin: Instant,
}

impl Time {
    pub(super) fn left(self) -> Duration {
        self.limit.saturating_sub(self.begin.elapsed())
    }

    pub(super) fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

/// How long the next try may take, asking included: as the longest of the segment so far, or as one that is kept with the
/// fewest runs, whichever is longer.
fn needed(state: &State, spec: &Spec) -> Duration {
    let Some(segment) = state.current() else { return Duration::ZERO };
    let took = |known: &Try| {
        let measured = known.ended?.duration_since(known.at).as_secs_f64();
        Some(measured + known.asked_s.unwrap_or(0.0))
    };
    let longest = segment.tries.iter().filter_map(took).fold(0.0, f64::max);
    let samples = segment.current_noise().map_or(&[][..], |noise| &noise.samples);
    let walls: Vec<f64> =
        samples.iter().filter_map(|sample| sample.metrics.get(crate::figures::WALL).copied()).collect();
    let mean = walls.iter().sum::<f64>() / walls.len().max(1) as f64;
    let scales = spec.deciding().count() as f64 + spec.held_out().count() as f64 / 2.0;
    let runs = QUADS_OF_A_KEEP * f64::from(crate::event::RUNS_PER_BLOCK) * scales;
    let warmups = f64::from(spec.measure.warmups) * 4.0 * scales;
    Duration::try_from_secs_f64(longest.max(mean * (runs + warmups))).unwrap_or_default()
}

/// How many tries in a row, up to the last one, failed for one reason, and which.
fn same_failure(run: &[&Try]) -> (usize, String) {
    let failure = |known: &Try| {
        let judgement = known.judgement.as_ref()?;
        let is_failure =
            matches!(judgement.verdict, Verdict::Crash | Verdict::ChecksFailed | Verdict::Invalid);
        is_failure.then(|| (judgement.verdict, judgement.reason.clone()))
    };
    let mut failures = run.iter().rev().map(|known| failure(known));
    match failures.next().flatten() {
        None => (0, String::new()),
        Some(last) => {
            let count = 1 + failures.take_while(|other| other.as_ref() == Some(&last)).count();
            (count, last.1)
        }
    }
}
