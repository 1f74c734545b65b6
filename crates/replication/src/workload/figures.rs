//! What a workload brought back, as figures of the evidence.
//!
//! The wait for the standby is told apart by the level `local`: a commit there writes and flushes as at any other level, and
//! waits for nobody. What the medians of commits of a level and of `local` differ by, in blocks of the same round, is what
//! is waited.

use std::collections::BTreeMap;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::statistics;
use duramen_workload::{Failures, KindTally};
use serde_json::{json, Value};

use super::super::level::Level;
use super::super::summary::CONFIDENCE;
use super::{Brought, Loaded, Order};

/// The setting of the evidence that says what the workload was and what came of it.
pub(crate) const WORKLOAD: &str = "workload";
/// Of the transactions of a kind so many may fail.
const MOST_FAILED: f64 = 0.01;

/// Adds measurements, counts and checks.
pub(crate) fn add(brought: &Brought, order: &Order, rng: &mut fastrand::Rng, evidence: &mut Evidence) {
    let mut counts = Vec::new();
    for (index, kind) in order.workload().kinds().iter().enumerate() {
        for level in Level::ALL {
            let blocks: Vec<&Loaded> = brought.blocks.iter().filter(|block| block.level == level).collect();
            if !blocks.is_empty() {
                of_kind(&kind.name, index, level, &blocks, rng, evidence);
                counts.push(count(&kind.name, index, level, &blocks));
            }
            if level != Level::Local {
                waits(&kind.name, index, level, brought, rng, evidence);
            }
        }
    }
    for level in Level::ALL {
        let blocks = || brought.blocks.iter().filter(|block| block.level == level);
        let rates: Vec<f64> =
            blocks().filter(|block| !block.is_open).map(|block| block.tally.per_second()).collect();
        values(&format!("throughput_per_s/W/{level}"), "1/s", rates, rng, evidence);
        let gaps: Vec<f64> = blocks().map(|block| block.tally.longest_gap_ns as f64 / 1e9).collect();
        values(&format!("longest_gap_s/W/{level}"), "s", gaps, rng, evidence);
    }
    let fresh = fresh(brought, evidence);
    let files: Vec<Value> = order
        .sources()
        .files
        .iter()
        .map(|file| json!({ "name": file.name, "weight": file.weight }))
        .collect();
    evidence.configure(
        WORKLOAD,
        json!({
            "files": files,
            "schema": order.workload().schema().map(duramen_workload::Schema::file),
            "scale": order.workload().scale(),
            "clients": order.clients(),
            "counts": counts,
            "fresh": fresh,
        }),
    );
    if let Some((host, version, clocks)) = &brought.agent {
        evidence.configure("agent", json!({ "host": host, "version": version, "clocks": clocks }));
    }
    checks(brought, order, evidence);
}

/// Adds values with the interval of their mean.
fn values(name: &str, unit: &str, values: Vec<f64>, rng: &mut fastrand::Rng, evidence: &mut Evidence) {
    if values.is_empty() {
        return;
    }
    evidence.measurements.push(Measurement::from_values(name, unit, &values));
    if let Some(interval) = statistics::mean(&values, CONFIDENCE, rng) {
        evidence.keep_interval(name, [interval.low, interval.high], CONFIDENCE);
    }
    evidence.keep_blocks(name, vec![values]);
}

fn tally(block: &Loaded, index: usize) -> Option<&KindTally> {
    block.tally.kinds.get(index)
}

fn of_kind(
    name: &str,
    index: usize,
    level: Level,
    blocks: &[&Loaded],
    rng: &mut fastrand::Rng,
    evidence: &mut Evidence,
) {
    let mut distribution =
        |figure: &str, is_of: &dyn Fn(&Loaded) -> bool, of: &dyn Fn(&KindTally) -> &LatencyHistogram| {
            let of_blocks: Vec<&LatencyHistogram> = blocks
                .iter()
                .filter(|block| is_of(block))
                .filter_map(|block| tally(block, index))
                .map(of)
                .filter(|histogram| !histogram.is_empty())
                .collect();
            let mut all = LatencyHistogram::new();
            of_blocks.iter().for_each(|histogram| all.merge(histogram));
            if !all.is_empty() {
                let figure = format!("{figure}/W/{name}/{level}");
                let medians = of_blocks.iter().map(|histogram| clock::ms(histogram.quantile(0.5))).collect();
                evidence.measurements.push(Measurement::from_histogram(figure.clone(), &all));
                evidence.keep_blocks(&figure, vec![medians]);
            }
        };
    distribution("latency_ms", &|block| block.is_open, &|kind| &kind.response);
    distribution("work_ms", &|_| true, &|kind| &kind.work);
    distribution("commit_ms", &|_| true, &|kind| &kind.commit);
    let rate = |block: &&&Loaded| {
        let seconds = block.tally.elapsed().as_secs_f64();
        tally(block, index).filter(|_| seconds > 0.0).map(|kind| kind.committed as f64 / seconds)
    };
    let closed = || blocks.iter().filter(|block| !block.is_open);
    let rates = closed().filter_map(|block| rate(&block)).collect();
    values(&format!("throughput_per_s/W/{name}/{level}"), "1/s", rates, rng, evidence);
}

/// What commits of a level wait for the standby: how much longer they take than at `local`, round by round.
fn waits(
    name: &str,
    index: usize,
    level: Level,
    brought: &Brought,
    rng: &mut fastrand::Rng,
    evidence: &mut Evidence,
) {
    let median = |block: &Loaded| {
        let commits = &tally(block, index)?.commit;
        (!commits.is_empty()).then(|| clock::ms(commits.quantile(0.5)))
    };
    let differences = brought.blocks.iter().filter(|block| block.level == level).filter_map(|block| {
        let base = brought.blocks.iter().find(|base| {
            base.level == Level::Local && base.round == block.round && base.is_open == block.is_open
        })?;
        Some(median(block)? - median(base)?)
    });
    values(&format!("wait_ms/W/{name}/{level}"), "ms", differences.collect(), rng, evidence);
}

fn count(name: &str, index: usize, level: Level, blocks: &[&Loaded]) -> Value {
    let (mut committed, mut retried) = (0, 0);
    let mut retries: BTreeMap<&str, u64> = BTreeMap::new();
    let mut errors: BTreeMap<&str, Failures> = BTreeMap::new();
    for kind in blocks.iter().filter_map(|block| tally(block, index)) {
        committed += kind.committed;
        retried += kind.retried;
        for (code, count) in &kind.retries {
            *retries.entry(code).or_default() += count;
        }
        for (code, failures) in &kind.errors {
            let entry = errors.entry(code).or_default();
            if entry.count == 0 {
                entry.first.clone_from(&failures.first);
            }
            entry.count += failures.count;
        }
    }
    json!({
        "kind": name,
        "level": level.name(),
        "committed": committed,
        "retried": retried,
        "retries": retries,
        "errors": errors,
    })
}

fn fresh(brought: &Brought, evidence: &mut Evidence) -> Vec<Value> {
    let mut told = Vec::new();
    for (level, kinds) in &brought.fresh {
        for kind in kinds.iter().filter(|kind| kind.asked > 0) {
            let percent = kind.stale as f64 / kind.asked as f64 * 100.0;
            let name = format!("stale_percent/W/{}/{level}", kind.name);
            evidence.measurements.push(Measurement::scalar(name, "%", percent));
            if !kind.stale_for.is_empty() {
                let name = format!("stale_ms/W/{}/{level}", kind.name);
                evidence.measurements.push(Measurement::from_histogram(name, &kind.stale_for));
            }
        }
        for kind in kinds {
            told.push(json!({
                "kind": kind.name,
                "level": level.name(),
                "asked": kind.asked,
                "stale": kind.stale,
                "never": kind.never,
                "errors": kind.errors,
            }));
        }
    }
    told
}

fn checks(brought: &Brought, order: &Order, evidence: &mut Evidence) {
    let ran = brought.failed.clone();
    evidence.check("workload/ran", ran.is_none(), ran.unwrap_or_else(|| "it ran to its end".to_owned()));
    for (index, kind) in order.workload().kinds().iter().enumerate() {
        let tallies = || brought.blocks.iter().filter_map(|block| tally(block, index));
        let committed: u64 = tallies().map(|kind| kind.committed).sum();
        let failures = || tallies().flat_map(|kind| &kind.errors);
        let failed: u64 = failures().map(|(_, failures)| failures.count).sum();
        let share = failed as f64 / (failed + committed).max(1) as f64;
        let first =
            failures().next().map(|(code, failures)| format!("; the first: {code}, {}", failures.first));
        evidence.check(
            format!("workload/{}", kind.name),
            committed > 0 && share <= MOST_FAILED,
            format!("{committed} committed, {failed} failed{}", first.unwrap_or_default()),
        );
    }
    let strayed: u64 = brought.blocks.iter().map(|block| block.tally.strayed).sum();
    evidence.check(
        "workload/level",
        strayed == 0,
        match strayed {
            0 => "every session was at the level of its block when that ended".to_owned(),
            strayed => format!(
                "{strayed} sessions were at another level when their block ended: something in the workload sets it"
            ),
        },
    );
    let dropped: u64 = brought.blocks.iter().map(|block| block.tally.dropped).sum();
    if dropped > 0 {
        evidence.check(
            "workload/queue",
            false,
            format!("{dropped} transactions were due while the queue was full"),
        );
    }
    if order.workload().has_checks() {
        let at = |(level, _): &&(Level, Vec<_>)| *level == Level::RemoteApply;
        for (_, kinds) in brought.fresh.iter().filter(at) {
            for kind in kinds {
                let errors: u64 = kind.errors.values().map(|failures| failures.count).sum();
                let first = kind.errors.values().next().map(|failures| format!("; {}", failures.first));
                evidence.check(
                    format!("read_your_writes/{}", kind.name),
                    kind.asked > 0 && kind.stale == 0 && errors == 0,
                    format!(
                        "of {} commits at remote_apply the standby did not show {} at once; {errors} questions failed{}",
                        kind.asked,
                        kind.stale,
                        first.unwrap_or_default()
                    ),
                );
            }
        }
    }
}
