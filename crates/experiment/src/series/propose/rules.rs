//! When an autonomous run ends.

use super::SOURCE;
use crate::{
    event::Verdict,
    spec::Spec,
    state::{State, Try},
};
use std::time::Duration;

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

    pub(super) fn interrupted() -> Rule {
        Rule::new("interrupted", "interrupted; the next run goes on from here".to_owned())
    }
}

/// The rule that forbids another try, if one does. Rules about what came before look at the tries that were
/// proposed since the last end of a run: who begins another run has seen how the last one ended.
pub(super) fn broken(state: &State, spec: &Spec, max_tries: Option<u32>, elapsed: Duration) -> Option<Rule> {
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
    let hours = spec.budget.hours;
    if elapsed.as_secs_f64() >= hours * 3600.0 {
        return Some(Rule::new("time", format!("{hours} hours are over (`budget.hours`)")));
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
