//! What is claimed of durable functions, and whether it held. Each check is a function of figures, so that it can be
//! seen to fail.

use std::collections::HashSet;
use std::fmt::Write as _;

use duramen_measure::evidence::Check;

use super::ledger::Ledger;
use duramen_base::words::number;

/// An idle worker asks at most once in so many seconds.
pub(crate) const IDLE_EVERY_S: f64 = 5.0;
fn check(name: &str, passed: bool, detail: String) -> Check {
    Check { name: name.to_owned(), passed, detail }
}

/// Nothing that was started under kills is missing, nor has it stopped halfway.
#[must_use]
pub(crate) fn nothing_lost(ledger: &Ledger) -> Check {
    let Ledger { acknowledged, started, completed, vanished, lost_effects, .. } = *ledger;
    let happened = acknowledged > 0 && ledger.worker_kills + ledger.postgres_kills > 0;
    let detail = format!(
        "{}: of {acknowledged} acknowledged instances {vanished} vanished; of {started} that are there {completed} \
         completed; {lost_effects} effects are missing",
        ledger.kills()
    );
    check("nothing_lost", happened && ledger.lost() == 0, detail)
}

/// Nothing that was started under kills has had its effect twice.
#[must_use]
pub(crate) fn nothing_twice(ledger: &Ledger) -> Check {
    let happened = ledger.acknowledged > 0 && ledger.worker_kills + ledger.postgres_kills > 0;
    let detail = format!(
        "{}: {} effects in excess of one, {} effects of instances or steps that are not there",
        ledger.kills(),
        ledger.doubled_effects,
        ledger.strays
    );
    check("nothing_twice", happened && ledger.doubled() == 0, detail)
}

/// Trivial instances went past a queue of slow ones: `completed` of them ended while `left` of the queue had not. How
/// long they took is a figure, `beside_slow_ms`.
#[must_use]
pub(crate) fn no_starvation(completed: u64, left: i64) -> Check {
    let mut detail = format!("{completed} trivial instances completed beside a queue of slow ones");
    if left > 0 {
        write!(detail, "; {left} of the queue were left when they had ended").ok();
    } else {
        detail.push_str("; the queue was over before they were, so this says nothing");
    }
    check("no_starvation", completed > 0 && left > 0, detail)
}

/// An idle worker sent so many statements in so many seconds.
#[must_use]
pub(crate) fn idle_is_silent(statements: u64, seconds: f64) -> Check {
    let most = (seconds / IDLE_EVERY_S).floor().max(1.0);
    let detail = format!(
        "{statements} statements in {} s without work (at most one in {IDLE_EVERY_S} s), counted in the server's log \
         under log_statement = all",
        number(seconds)
    );
    check("idle_is_silent", statements as f64 <= most, detail)
}

/// The list, read page by page, has each instance exactly once.
#[must_use]
pub(crate) fn listing_complete(started: &HashSet<String>, listed: &[String]) -> Check {
    let distinct: HashSet<&String> = listed.iter().collect();
    let missing = started.iter().filter(|id| !distinct.contains(id)).count();
    let strange = distinct.iter().filter(|id| !started.contains(**id)).count();
    let twice = listed.len() - distinct.len();
    let detail = format!(
        "of {} instances {missing} are missing in the list; of its {} rows {twice} repeat another and {strange} are \
         of others",
        started.len(),
        listed.len()
    );
    check("listing_complete", !started.is_empty() && missing + strange + twice == 0, detail)
}

/// Every instance of every load ended as it should: how many did not, and the first of them in words.
#[must_use]
pub(crate) fn every_instance_ended_well(failed: u64, first: &[String]) -> Check {
    let detail = if failed == 0 {
        "every instance ended as it should, and its result was read".to_owned()
    } else {
        format!("{failed} did not; the first: {}", first.join("; "))
    };
    check("every_instance_ended_well", failed == 0, detail)
}
