//! What happened in a pass, step by step.

use std::time::Duration;

use super::level::Level;
use super::outcome::{Block, Pass, Sample};
use super::summary::{cause, Timeline, TimelineGap};

/// The length of a step, in milliseconds: that of the samplers.
const STEP_MS: u64 = 100;
/// The most steps of a time line; of a longer pass, steps are longer.
const MOST_STEPS: u64 = 600;

/// The time lines of a scenario under some conditions, by name: for each level that of the first pass that had it.
pub(super) fn build(id: &str, suffix: &str, passes: &[&Pass]) -> Vec<(String, Timeline)> {
    let at = |level: Level| {
        let has_commits = |block: &&Block| block.level == level && !block.commits.is_empty();
        let pass = passes.iter().find(|pass| pass.blocks.iter().any(|block| has_commits(&block)))?;
        let blocks: Vec<&Block> = pass.blocks.iter().filter(has_commits).collect();
        Some((format!("{id}/{level}{suffix}"), line(&blocks, pass)))
    };
    Level::ALL.into_iter().filter_map(at).collect()
}

fn line(blocks: &[&Block], pass: &Pass) -> Timeline {
    let ends = pass.blocks.iter().map(|block| block.begin + block.elapsed);
    let end_ms = ms(ends.max().unwrap_or_default()).max(1);
    let step_ms = STEP_MS * end_ms.div_ceil(STEP_MS * MOST_STEPS);
    let steps = end_ms.div_ceil(step_ms) as usize;
    let mut timeline = Timeline {
        step_ms,
        commits: vec![None; steps],
        lag_bytes: vec![None; steps],
        lag_ms: vec![None; steps],
        wait: vec![None; steps],
        written_bytes_per_s: vec![None; steps],
        replayed_bytes_per_s: vec![None; steps],
        waiting_sessions: vec![None; steps],
        gaps: Vec::new(),
    };
    let step_of = |at: Duration| ((ms(at) / step_ms) as usize).min(steps - 1);
    for block in blocks {
        let last = step_of((block.begin + block.elapsed).saturating_sub(Duration::from_millis(1)));
        for commits in &mut timeline.commits[step_of(block.begin)..=last] {
            commits.get_or_insert(0);
        }
        for at in &block.commits {
            *timeline.commits[step_of(*at)].get_or_insert(0) += 1;
        }
        timeline.gaps.extend(block.gaps.iter().map(|gap| TimelineGap {
            begin_s: gap.begin.as_secs_f64(),
            length_s: gap.length.as_secs_f64(),
            cause: gap.cause.map(|wait| cause(wait).to_owned()),
        }));
    }
    for (sample, lag_ms) in pass.samples.iter().zip(lags(&pass.samples)) {
        if ms(sample.at) > end_ms {
            break;
        }
        let step = step_of(sample.at);
        // The worst of a step is what it is looked at for.
        let worst = |slot: &mut Option<u64>, value: u64| *slot = (*slot).max(Some(value));
        worst(&mut timeline.lag_bytes[step], sample.primary_lsn.saturating_sub(sample.replayed_lsn));
        worst(&mut timeline.lag_ms[step], lag_ms);
        worst(&mut timeline.waiting_sessions[step], sample.waiting_sessions.into());
        if let Some(stuck) = sample.stuck {
            timeline.wait[step] = Some(cause(stuck).to_owned());
        } else if sample.wait.is_some() || timeline.wait[step].is_none() {
            timeline.wait[step].clone_from(&sample.startup);
        }
    }
    let rates = |of: fn(&Sample) -> u64| {
        rates(&pass.samples, of, steps, |at| (ms(at) <= end_ms).then(|| step_of(at)))
    };
    timeline.written_bytes_per_s = rates(|sample| sample.primary_lsn);
    timeline.replayed_bytes_per_s = rates(|sample| sample.replayed_lsn);
    timeline
}

/// By how much a position in the WAL moved on in each step, in bytes a second. A position that was never read is 0.
fn rates(
    samples: &[Sample],
    position: fn(&Sample) -> u64,
    steps: usize,
    step_of: impl Fn(Duration) -> Option<usize>,
) -> Vec<Option<u64>> {
    let mut moved = vec![(0_u64, Duration::ZERO); steps];
    for pair in samples.windows(2).filter(|pair| position(&pair[0]) > 0) {
        if let Some(step) = step_of(pair[1].at) {
            moved[step].0 += position(&pair[1]).saturating_sub(position(&pair[0]));
            moved[step].1 += pair[1].at.saturating_sub(pair[0].at);
        }
    }
    let rate = |(bytes, time): (u64, Duration)| {
        (!time.is_zero()).then(|| (bytes as f64 / time.as_secs_f64()).round() as u64)
    };
    moved.into_iter().map(rate).collect()
}

/// How old the oldest WAL was that had not been replayed, at each sample. (What `pg_stat_replication` calls the replay
/// lag moves only when the standby reports, which it may do every ten seconds.)
fn lags(samples: &[Sample]) -> Vec<u64> {
    let mut lags = Vec::with_capacity(samples.len());
    let mut oldest = 0;
    for (index, sample) in samples.iter().enumerate() {
        while oldest < index && samples[oldest].primary_lsn <= sample.replayed_lsn {
            oldest += 1;
        }
        let is_behind = samples[oldest].primary_lsn > sample.replayed_lsn;
        lags.push(if is_behind { ms(sample.at.saturating_sub(samples[oldest].at)) } else { 0 });
    }
    lags
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
