//! What is claimed of durable functions, and whether it held. Each check is a function of figures, so that it can be
//! seen to fail.

use std::collections::HashSet;
use std::fmt::Write as _;

use duramen_measure::evidence::Check;

use super::ledger::Ledger;
use crate::branches::bars::number;

/// An idle worker asks at most once in so many seconds.
pub const IDLE_EVERY_S: f64 = 5.0;
/// A median may be so many times that of the level of concurrency before.
pub const CLIFF_STEP: f64 = 3.0;
/// And at this level so many times that of one session.
pub const CLIFF_WHOLE: (usize, f64) = (32, 10.0);
/// Trivial instances beside a queue of slow ones end within so many milliseconds, at the 95th percentile. The queue
/// itself takes seconds.
pub const STARVED_MS: f64 = 500.0;
/// The last quarter of a soak may be worse than the first by this share.
pub const DRIFT: f64 = 0.1;
/// Tables that differ by less than this, in bytes, have not grown: they are made of pages, and vacuumed now and then.
pub const DRIFT_BYTES: f64 = 1_048_576.0;

fn check(name: &str, passed: bool, detail: String) -> Check {
    Check { name: name.to_owned(), passed, detail }
}

/// Nothing that was started under kills is missing, nor has it stopped halfway.
#[must_use]
pub fn nothing_lost(ledger: &Ledger) -> Check {
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
pub fn nothing_twice(ledger: &Ledger) -> Check {
    let happened = ledger.acknowledged > 0 && ledger.worker_kills + ledger.postgres_kills > 0;
    let detail = format!(
        "{}: {} effects in excess of one, {} effects of instances or steps that are not there",
        ledger.kills(),
        ledger.doubled_effects,
        ledger.strays
    );
    check("nothing_twice", happened && ledger.doubled() == 0, detail)
}

/// Trivial instances went past a queue of slow ones: `completed` of them, with this 95th percentile, while `left` of
/// the queue had not ended when the last of them had.
#[must_use]
pub fn no_starvation(completed: u64, p95_ms: f64, left: i64) -> Check {
    let passed = completed > 0 && p95_ms <= STARVED_MS && left > 0;
    let mut detail = format!(
        "{completed} trivial instances beside a queue of slow ones took {} ms at p95 (at most {STARVED_MS} ms)",
        number(p95_ms)
    );
    if left > 0 {
        write!(detail, "; {left} of the queue were left when they had ended").ok();
    } else {
        detail.push_str("; the queue was over before they were, so this says nothing");
    }
    check("no_starvation", passed, detail)
}

/// An idle worker sent so many statements in so many seconds.
#[must_use]
pub fn idle_is_silent(statements: u64, seconds: f64) -> Check {
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
pub fn listing_complete(started: &HashSet<String>, listed: &[String]) -> Check {
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

/// Medians do not jump from one level of concurrency to the next. `levels` are concurrencies with medians, in order.
#[must_use]
pub fn no_cliff(levels: &[(usize, f64)]) -> Check {
    let mut steep = Vec::new();
    for pair in levels.windows(2) {
        let [(before, low), (after, high)] = [pair[0], pair[1]];
        if high > CLIFF_STEP * low {
            steep.push(format!("from {before} to {after} {} times", number(high / low)));
        }
    }
    let median = |level: usize| levels.iter().find(|(at, _)| *at == level).map(|(_, median)| *median);
    let (top, most) = CLIFF_WHOLE;
    let whole = match (median(1), median(top)) {
        (Some(low), Some(high)) => Some(high / low),
        _ => None,
    };
    if let Some(times) = whole.filter(|times| *times > most) {
        steep.push(format!("from 1 to {top} {} times", number(times)));
    }
    let shown: Vec<String> = levels.iter().map(|(level, p50)| format!("{level}: {}", number(*p50))).collect();
    let mut detail = format!("p50 in ms by concurrency: {}", shown.join(", "));
    if whole.is_none() {
        write!(detail, "; the levels 1 and {top} are not both there").ok();
    } else if steep.is_empty() {
        write!(detail, "; no level above {CLIFF_STEP} times the one before, {top} within {most} times 1")
            .ok();
    } else {
        write!(detail, "; {}", steep.join("; ")).ok();
    }
    check("no_cliff", steep.is_empty() && whole.is_some(), detail)
}

/// One quarter of a soak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quarter {
    /// Instances per second.
    pub per_s: f64,
    /// The median of trivial instances, in milliseconds.
    pub p50_ms: f64,
    /// The most that the hot tables took with their indexes, in bytes.
    pub hot_bytes: f64,
}

/// The last quarter of a soak is no worse than the first.
#[must_use]
pub fn no_drift(first: &Quarter, last: &Quarter) -> Check {
    let slower = last.per_s < first.per_s * (1.0 - DRIFT);
    let later = last.p50_ms > first.p50_ms * (1.0 + DRIFT);
    let larger =
        last.hot_bytes > first.hot_bytes * (1.0 + DRIFT) && last.hot_bytes - first.hot_bytes > DRIFT_BYTES;
    let mut worse = Vec::new();
    for (is_worse, what) in [(slower, "the rate"), (later, "the median"), (larger, "the hot tables")] {
        if is_worse {
            worse.push(what);
        }
    }
    let mut detail = format!(
        "first to last quarter: {} to {} instances/s, p50 {} to {} ms, hot tables with indexes {} to {} KB; a \
         snapshot was held open for the second half",
        number(first.per_s),
        number(last.per_s),
        number(first.p50_ms),
        number(last.p50_ms),
        number(first.hot_bytes / 1024.0),
        number(last.hot_bytes / 1024.0)
    );
    if !worse.is_empty() {
        write!(detail, "; worse by more than {} %: {}", DRIFT * 100.0, worse.join(", ")).ok();
    }
    check("no_drift", worse.is_empty() && first.per_s > 0.0, detail)
}

/// Every instance of every load ended as it should: how many did not, and the first of them in words.
#[must_use]
pub fn every_instance_ended_well(failed: u64, first: &[String]) -> Check {
    let detail = if failed == 0 {
        "every instance ended as it should, and its result was read".to_owned()
    } else {
        format!("{failed} did not; the first: {}", first.join("; "))
    };
    check("every_instance_ended_well", failed == 0, detail)
}
