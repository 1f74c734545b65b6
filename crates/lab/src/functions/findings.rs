//! What a reader should know beside the figures, in words: what limits, and what is odd.

use duramen_measure::evidence::{Evidence, Finding, Severity};
use duramen_measure::target;
use serde_json::Value;

use super::options::FULL_SECONDS;
use super::steadiness;
use super::targets::{self, counted_at, fsync_ms};
use duramen_base::words::number;

/// Above this share of all processors, they are what limits.
const BUSY: f64 = 0.85;
/// The concurrency at which it was looked who uses the processors.
const LOOKED_AT: usize = 32;
/// Of a backlog that is done in order, half is done at half time.
const IN_ORDER: std::ops::RangeInclusive<f64> = 0.3..=0.7;
/// What the kills left behind is done within this, in milliseconds, unless something waits for a timeout.
const SETTLED_MS: f64 = 5_000.0;
/// A kind of instances takes so many times as long beside others as alone before it is told.
const BESIDE: f64 = 3.0;

/// Everything that the rules find, the missed targets included.
pub(crate) fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    what_limits(evidence, &mut found);
    by_part(evidence, &mut found);
    backlog(evidence, &mut found);
    after_kills(evidence, &mut found);
    mixed(evidence, &mut found);
    steadiness::find(evidence, &mut found);
    conditions(evidence, &mut found);
    found.extend(target::missed(&targets::standings(evidence)));
    found
}

fn p50(evidence: &Evidence, name: &str) -> Option<f64> {
    evidence.measurement(name).filter(|figure| figure.count > 0).map(|figure| figure.p50)
}

/// Processors, or waiting: who has them at the concurrency that was looked at.
fn what_limits(evidence: &Evidence, found: &mut Vec<Finding>) {
    let cores = |part: &str| p50(evidence, &format!("cores_used/{part}"));
    let (Some(postgres), Some(worker), Some(load)) = (cores("postgres"), cores("worker"), cores("load"))
    else {
        return;
    };
    let Some(per_s) = p50(evidence, &format!("completed_per_s/c={LOOKED_AT}")).filter(|rate| *rate > 0.0)
    else {
        return;
    };
    let there = evidence.host.cores as f64;
    let used = postgres + worker + load;
    let us = |cores: f64| number(cores / per_s * 1e6);
    let text = format!(
        "At concurrency {LOOKED_AT} {} of {there} cores were in use: {} by PostgreSQL, {} by the worker, {} by the \
         load generator. An instance costs {} + {} + {} us of processor time. {}",
        number(used),
        number(postgres),
        number(worker),
        number(load),
        us(postgres),
        us(worker),
        us(load),
        if used >= BUSY * there {
            "The processors limit: what saves time per instance raises the rate."
        } else {
            "The processors do not limit: the parts wait for each other or for the disk. Look at the finding `waits`."
        }
    );
    found.push(Finding::new("what_limits", Severity::Info, Some(used), text));
}

/// Where the time of one instance goes when it is alone.
fn by_part(evidence: &Evidence, found: &mut Vec<Finding>) {
    let fsync = fsync_ms(evidence);
    let (Some(whole), Some(start)) = (p50(evidence, "end_to_end_ms/c=1"), p50(evidence, "start_ms/c=1"))
    else {
        return;
    };
    let text = format!(
        "Alone, an instance takes {} ms: {} ms until df.start has returned, {} ms until its result is read. Two \
         commits on the way wait for the disk, {} ms each on this machine.",
        number(whole),
        number(start),
        number((whole - start).max(0.0)),
        number(fsync)
    );
    found.push(Finding::new("alone", Severity::Info, Some(whole), text));
    let counted = counted_at(fsync);
    if counted != LOOKED_AT {
        let text = format!(
            "One fsync takes {} ms, so the rate of completed instances is held against its target at concurrency \
             {counted}.",
            number(fsync)
        );
        found.push(Finding::new("slow_sync", Severity::Info, Some(fsync), text));
    }
}

fn backlog(evidence: &Evidence, found: &mut Vec<Finding>) {
    let Some(half) = p50(evidence, "backlog_half_done_at") else { return };
    if !IN_ORDER.contains(&half) {
        let text = format!(
            "Half of the backlog was done after {:.0} % of the time: the worker does not finish what it has begun \
             before it begins more, or not at an even pace.",
            half * 100.0
        );
        found.push(Finding::new("backlog_out_of_step", Severity::Warning, Some(half), text));
    }
}

fn after_kills(evidence: &Evidence, found: &mut Vec<Finding>) {
    let Some(settled) = p50(evidence, "settled_ms").filter(|settled| *settled > SETTLED_MS) else { return };
    let text = format!(
        "After the last kill it took {} s until everything had ended: what a dead worker has taken is given back \
         only when it is believed dead.",
        number(settled / 1e3)
    );
    found.push(Finding::new("slow_to_settle", Severity::Info, Some(settled), text));
}

/// Trivial instances beside other kinds, against as many of them alone.
fn mixed(evidence: &Evidence, found: &mut Vec<Finding>) {
    let beside = p50(evidence, "mixed_ms/trivial");
    let alone = p50(evidence, "end_to_end_ms/c=16");
    let (Some(beside), Some(alone)) = (beside, alone) else { return };
    if beside > BESIDE * alone {
        let text = format!(
            "Trivial instances take {} ms at p50 beside four other kinds, and {} ms among 16 of their own: they wait \
             for the others' turns.",
            number(beside),
            number(alone)
        );
        found.push(Finding::new("held_up_by_other_kinds", Severity::Warning, Some(beside / alone), text));
    }
}

/// The conditions of the run.
fn conditions(evidence: &Evidence, found: &mut Vec<Finding>) {
    let set = |name: &str| evidence.config.get(name);
    let seconds = set("seconds").and_then(Value::as_f64).unwrap_or(FULL_SECONDS);
    if seconds < FULL_SECONDS {
        let kills = |name: &str| set(name).and_then(Value::as_u64).unwrap_or(0);
        let text = format!(
            "A rung lasted {} s instead of {FULL_SECONDS}, and the counts are smaller alike: {} kills of the worker, \
             {} of the server.",
            number(seconds),
            kills("worker_kills"),
            kills("postgres_kills")
        );
        found.push(Finding::new("short_run", Severity::Warning, Some(seconds), text));
    }
    let cores = evidence.host.cores;
    if cores != 2 {
        let text = format!("The targets are for two cores, and this machine has {cores}.");
        found.push(Finding::new("other_machine", Severity::Warning, Some(cores as f64), text));
    }
}
