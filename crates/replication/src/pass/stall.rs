//! Stalls: times without commits, and what held them up.

use std::time::Duration;

use super::super::level::Level;
use super::super::outcome::{Gap, Sample};
use super::super::scenario::Wait;
use super::sample::PERIOD;

/// A shorter time without commits is none that anybody would call a stall.
pub const LEAST: Duration = Duration::from_secs(1);
/// Stalls that are less than two samples apart are not told apart.
pub const APART: Duration = Duration::from_millis(2 * PERIOD.as_millis() as u64);
/// So many samples must name a cause. There are ten a second: a sampler that was held up with everything else (by the
/// machine) has seen fewer, and proves nothing.
pub const EVIDENCE: usize = 3;

/// The times of [`LEAST`] and more without commits, while a load at `level` ran from `begin` to `end`: between two
/// commits, before the first and after the last one. Those with one cause that are less than [`APART`] from each other
/// are one: what lets a few commits pass in between is the same wait, looked at anew. `commits` and `samples` are in
/// order.
#[must_use]
pub fn gaps(
    commits: &[Duration],
    begin: Duration,
    end: Duration,
    samples: &[Sample],
    level: Level,
) -> Vec<Gap> {
    let inside = commits.iter().copied().filter(|at| *at > begin && *at < end);
    let mut last = begin;
    let mut gaps: Vec<Gap> = Vec::new();
    for at in inside.chain([end]) {
        if at.saturating_sub(last) >= LEAST {
            let gap = Gap { begin: last, length: at - last, cause: cause(samples, last, at, level) };
            match gaps.last_mut() {
                Some(before) if is_one_with(before, &gap) => before.length = at - before.begin,
                _ => gaps.push(gap),
            }
        }
        last = last.max(at);
    }
    gaps
}

fn is_one_with(before: &Gap, gap: &Gap) -> bool {
    let apart = gap.begin.saturating_sub(before.begin + before.length);
    gap.cause.is_some() && gap.cause == before.cause && apart < APART
}

/// What most of the samples between two times name, if more than half of them and at least [`EVIDENCE`] name it, and
/// if commits at `level` wait for it at all.
#[must_use]
pub fn cause(samples: &[Sample], from: Duration, to: Duration, level: Level) -> Option<Wait> {
    let seen: Vec<Option<Wait>> = samples
        .iter()
        .filter(|sample| sample.at >= from && sample.at <= to)
        .map(|sample| held_up(sample, level))
        .collect();
    let count = |wait: Wait| seen.iter().filter(|other| **other == Some(wait)).count();
    let most = seen.iter().flatten().copied().max_by_key(|wait| (count(*wait), *wait))?;
    let named = count(most);
    (named >= EVIDENCE && named * 2 > seen.len()).then_some(most)
}

/// What holds up commits at `level` in a sample. Where the WAL is stuck before the replay nothing behind that goes on, and
/// it comes first; but only if sessions were seen to wait for the standby: commits that stop for something else leave
/// WAL that is stuck as well.
fn held_up(sample: &Sample, level: Level) -> Option<Wait> {
    let stuck = sample.stuck.filter(|_| sample.waiting_sessions > 0);
    stuck.filter(|wait| holds_up(*wait, level)).or(sample.wait.filter(|wait| holds_up(*wait, level)))
}

/// Whether commits at `level` stop while the standby waits so. Only remote_apply waits for the replay; the others that
/// wait at all wait for a standby that receives. A receiver that waits for its disk receives nothing either.
fn holds_up(wait: Wait, level: Level) -> bool {
    match wait {
        Wait::Absent | Wait::Unreceived | Wait::Unflushed => level.waits_for_standby(),
        Wait::Snapshot | Wait::Lock | Wait::BufferPin | Wait::ApplyDelay | Wait::Replaying => {
            level == Level::RemoteApply
        }
    }
}
