//! What passes brought back, as figures of the evidence.
//!
//! Latencies of one block are not independent of each other: they wait behind the same things. The independent values
//! are medians of blocks, and where there are [`FEW_REPEATS`] repeats or more, the means of those: blocks of one repeat
//! share its data, its minutes and the machine's mood, and may agree among themselves more than with the next repeat. With
//! fewer repeats their blocks are all there is. A difference between two levels is that of two blocks which ran next to each other, the n-th
//! of the one level with the n-th of the other within a repeat, so that slow changes of the machine cancel out. Those
//! values stand in the evidence under `samples`, a list for each repeat (a histogram could not hold negative ones); the
//! interval of their mean, by [`statistics::mean`], stands under `intervals`, with how many independent values it is of.

use std::collections::BTreeMap;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::statistics;
use serde_json::{json, Map, Value};

use super::level::Level;
use super::options::Options;
use super::outcome::{Block, Conditions, Gap, Outcome, Pass, Staleness};
use super::scenario::{catalog, Action, Kind, Scenario, Special};
use super::summary::{
    self, AddedInterval, AtLevel, Seen, CONFIDENCE, INTERVALS, SAMPLES, SCENARIOS, TIMELINES,
};
use super::{checks, timeline};

/// From so many repeats on, an interval is one of their means.
pub const FEW_REPEATS: usize = 3;
/// How many kinds of WAL records are told.
const RECORD_KINDS: usize = 8;

/// Adds everything that the passes brought back: measurements, their samples and intervals, what was seen, time lines
/// and checks.
pub fn add(
    outcomes: &[Outcome],
    staleness: &[Staleness],
    options: &Options,
    rng: &mut fastrand::Rng,
    evidence: &mut Evidence,
) {
    let mut entries = Vec::new();
    let mut timelines = Map::new();
    let mut figures = Figures { rng, evidence, samples: Map::new(), intervals: Map::new() };
    for outcome in outcomes {
        let Some(scenario) = catalog().iter().find(|scenario| scenario.number == outcome.number) else {
            continue;
        };
        let mut seen = Vec::new();
        for (conditions, passes) in by_conditions(&outcome.passes) {
            let suffix = summary::suffix(conditions);
            figures.of_scenario(scenario, &suffix, &passes);
            seen.push(see(conditions, &passes));
            for (name, timeline) in timeline::build(&format!("S{}", scenario.number), &suffix, &passes) {
                timelines.insert(name, json!(timeline));
            }
        }
        let entry = summary::ScenarioSummary {
            id: format!("S{}", scenario.number),
            name: scenario.name.to_owned(),
            text: scenario.text.to_owned(),
            kind: kind(scenario.kind).to_owned(),
            advice: scenario.advice.to_owned(),
            control_of: scenario.control_of.map(|number| format!("S{number}")),
            skipped: outcome.failed.as_ref().or(outcome.skipped.as_ref()).cloned(),
            seen,
        };
        checks::add(scenario, outcome, &entry, options, figures.evidence);
        entries.push(entry);
    }
    for at in staleness {
        figures.stale(at);
    }
    let Figures { samples, intervals, .. } = figures;
    evidence.configure(SCENARIOS, json!(entries));
    evidence.configure(SAMPLES, samples);
    evidence.configure(INTERVALS, intervals);
    evidence.configure("confidence", CONFIDENCE);
    evidence.configure(TIMELINES, timelines);
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Latency => "latency",
        Kind::Saturation => "saturation",
        Kind::Stall => "stall",
        Kind::Statement => "statement",
        Kind::Special(Special::Calibration) => "calibration",
        Kind::Special(Special::CancelledWait) => "cancelled wait",
    }
}

/// The passes under each of the conditions, the plain ones first.
fn by_conditions(passes: &[Pass]) -> Vec<(Conditions, Vec<&Pass>)> {
    let mut groups: Vec<(Conditions, Vec<&Pass>)> = Vec::new();
    for pass in passes {
        match groups.iter_mut().find(|(conditions, _)| *conditions == pass.conditions) {
            Some((_, group)) => group.push(pass),
            None => groups.push((pass.conditions, vec![pass])),
        }
    }
    groups.sort_by_key(|(conditions, _)| (conditions.control, conditions.rtt_ms, conditions.feedback));
    groups
}

struct Figures<'a> {
    rng: &'a mut fastrand::Rng,
    evidence: &'a mut Evidence,
    samples: Map<String, Value>,
    intervals: Map<String, Value>,
}

impl Figures<'_> {
    fn of_scenario(&mut self, scenario: &Scenario, suffix: &str, passes: &[&Pass]) {
        let id = format!("S{}", scenario.number);
        let repeats = by_repeat(passes);
        match scenario.kind {
            Kind::Saturation => self.saturation(&id, suffix, &repeats),
            Kind::Special(Special::Calibration) => {
                self.levels(&id, suffix, "", &repeats, |block| block.apply_delay > Duration::ZERO);
                self.calibration(scenario, &id, suffix, &repeats);
            }
            _ => self.levels(&id, suffix, "", &repeats, |_| true),
        }
        if scenario.kind == Kind::Stall {
            self.stalls(&id, suffix, passes);
        }
        let per_commit = passes.iter().filter_map(|pass| {
            let committed: u64 = pass.blocks.iter().map(|block| block.committed).sum();
            (committed > 0 && pass.wal.bytes > 0).then(|| pass.wal.bytes as f64 / committed as f64)
        });
        let per_commit: Vec<f64> = per_commit.collect();
        self.values(format!("wal_bytes_per_commit/{id}{suffix}"), "bytes", each(&per_commit));
    }

    /// Latency and throughput of each level, and the differences between them, of the blocks that are wanted.
    fn levels(
        &mut self,
        id: &str,
        suffix: &str,
        at: &str,
        repeats: &[Vec<&Block>],
        wanted: impl Fn(&Block) -> bool + Copy,
    ) {
        for level in Level::ALL {
            let of_level = |block: &Block| block.level == level && wanted(block);
            self.latencies(&format!("{id}/{level}{at}{suffix}"), repeats, of_level);
        }
        for (name, weak, strong) in [
            ("added_ms", Level::RemoteWrite, Level::RemoteApply),
            ("flush_ms", Level::RemoteWrite, Level::On),
            ("replay_ms", Level::On, Level::RemoteApply),
        ] {
            let values = differences(
                repeats,
                |block| block.level == weak && wanted(block),
                |block| block.level == strong && wanted(block),
            );
            self.values(format!("{name}/{id}{at}{suffix}"), "ms", values);
        }
    }

    fn latencies(&mut self, name: &str, repeats: &[Vec<&Block>], wanted: impl Fn(&Block) -> bool + Copy) {
        let open: Vec<Vec<&Block>> = repeats.iter().map(|blocks| loops(blocks, wanted).0).collect();
        let closed: Vec<Vec<&Block>> = repeats.iter().map(|blocks| loops(blocks, wanted).1).collect();
        let has = |groups: &[Vec<&Block>]| groups.iter().any(|blocks| !blocks.is_empty());
        // Response times are those of open loops; where there was none, a client's own times are all there is.
        let (answered, rated) = match (has(&open), has(&closed)) {
            (false, false) => return,
            (true, false) => (&open, &open),
            (false, true) => (&closed, &closed),
            (true, true) => (&open, &closed),
        };
        self.distribution(format!("latency_ms/{name}"), answered, latency);
        self.distribution(format!("service_ms/{name}"), rated, |block| &block.service);
        let rate = |block: &&Block| {
            let seconds = block.elapsed.as_secs_f64();
            (seconds > 0.0).then(|| block.committed as f64 / seconds)
        };
        let rates = rated.iter().map(|blocks| blocks.iter().filter_map(rate).collect()).collect();
        self.values(format!("throughput_per_s/{name}"), "1/s", rates);
    }

    fn distribution(
        &mut self,
        name: String,
        repeats: &[Vec<&Block>],
        of: impl Fn(&Block) -> &LatencyHistogram,
    ) {
        let mut all = LatencyHistogram::new();
        repeats.iter().flatten().for_each(|block| all.merge(of(block)));
        if all.is_empty() {
            return;
        }
        let medians: Vec<Vec<f64>> = repeats
            .iter()
            .map(|blocks| blocks.iter().filter_map(|block| median(of(block))).collect())
            .collect();
        self.samples.insert(name.clone(), json!(medians));
        self.evidence.measurements.push(Measurement::from_histogram(name, &all));
    }

    /// A figure of independent values, a list for each repeat, with the interval of their mean.
    fn values(&mut self, name: String, unit: &str, repeats: Vec<Vec<f64>>) {
        let repeats: Vec<Vec<f64>> = repeats.into_iter().filter(|values| !values.is_empty()).collect();
        let values: Vec<f64> = repeats.iter().flatten().copied().collect();
        if values.is_empty() {
            return;
        }
        let independent = independent(&repeats);
        if let Some(interval) = statistics::mean(&independent, CONFIDENCE, self.rng) {
            let statistics::Interval { estimate, low, high } = interval;
            let entry = AddedInterval {
                estimate,
                low,
                high,
                confidence: CONFIDENCE,
                values: independent.len() as u64,
            };
            self.intervals.insert(name.clone(), json!(entry));
        }
        self.evidence.measurements.push(Measurement::from_values(name.clone(), unit, &values));
        self.samples.insert(name, json!(repeats));
    }

    /// By the number of clients. What a scenario adds in a word is what it adds to the fewest clients: beyond, latencies
    /// tell how long the queue is (J. D. C. Little, 1961).
    fn saturation(&mut self, id: &str, suffix: &str, repeats: &[Vec<&Block>]) {
        let mut clients: Vec<u32> = repeats.iter().flatten().map(|block| block.clients).collect();
        clients.sort_unstable();
        clients.dedup();
        for count in &clients {
            self.levels(id, suffix, &format!("/c={count}"), repeats, |block| block.clients == *count);
        }
        if let Some(fewest) = clients.first() {
            let at = |level| move |block: &Block| block.level == level && block.clients == *fewest;
            let values = differences(repeats, at(Level::RemoteWrite), at(Level::RemoteApply));
            self.values(format!("added_ms/{id}{suffix}"), "ms", values);
        }
    }

    /// What a known delay of the replay adds, how much longer than the delay a commit takes with it, and how far that is
    /// from what it can be. The standby replays a commit when its time on the primary, plus the delay, is over. What runs
    /// in between (the flush, the way to the standby) is inside the delay and not added to it; of a commit's time without
    /// the delay, all or nothing may be. So a response is right between the delay alone, and the delay and that time.
    fn calibration(&mut self, scenario: &Scenario, id: &str, suffix: &str, repeats: &[Vec<&Block>]) {
        let pairs = paired(
            repeats,
            |block| block.apply_delay == Duration::ZERO,
            |block| block.apply_delay > Duration::ZERO,
        );
        let set = repeats.iter().flatten().map(|block| block.apply_delay).max().unwrap_or_default();
        let known_ms = if set > Duration::ZERO { clock::ms(set) } else { delay_set(scenario).unwrap_or(0.0) };
        let each = |figure: &dyn Fn(f64, f64) -> f64| -> Vec<Vec<f64>> {
            let of_repeat = |pairs: &Vec<(f64, f64)>| pairs.iter().map(|(a, b)| figure(*a, *b)).collect();
            pairs.iter().map(of_repeat).collect()
        };
        let beyond = |with: f64| with - known_ms;
        self.values(format!("added_ms/{id}{suffix}"), "ms", each(&|without, with| with - without));
        self.values(format!("calibration_beyond_ms{suffix}"), "ms", each(&|_, with| beyond(with)));
        let errors = each(&|without, with| beyond(with) - beyond(with).clamp(0.0, without.max(0.0)));
        self.values(format!("calibration_error_ms{suffix}"), "ms", errors);
    }

    fn stalls(&mut self, id: &str, suffix: &str, passes: &[&Pass]) {
        for level in Level::ALL {
            let longest = |kind: GapKind| {
                let blocks = passes.iter().flat_map(|pass| &pass.blocks).filter(|block| block.level == level);
                let values: Vec<f64> = blocks.map(|block| longest_gap(block, kind).0).collect();
                each(&values)
            };
            self.values(format!("stall_s/{id}/{level}{suffix}"), "s", longest(GapKind::Stall));
            let blocks = passes.iter().flat_map(|pass| &pass.blocks).filter(|block| block.level == level);
            let totals: Vec<f64> = blocks.map(stalled).collect();
            self.values(format!("stall_total_s/{id}/{level}{suffix}"), "s", each(&totals));
            self.values(format!("replaying_s/{id}/{level}{suffix}"), "s", longest(GapKind::Replaying));
            self.values(format!("noise_s/{id}/{level}{suffix}"), "s", longest(GapKind::Noise));
        }
        let blockers: Vec<f64> =
            passes.iter().filter_map(|pass| pass.blocker).map(|blocker| blocker.as_secs_f64()).collect();
        self.values(format!("blocker_s/{id}{suffix}"), "s", each(&blockers));
        let error = |pass: &&Pass| {
            let stall =
                pass.blocks.iter().map(|block| longest_gap(block, GapKind::Stall).0).fold(0.0, f64::max);
            (stall > 0.0).then_some(stall - pass.blocker?.as_secs_f64())
        };
        let errors: Vec<f64> = passes.iter().filter_map(error).collect();
        self.values(format!("stall_error_s/{id}{suffix}"), "s", each(&errors));
    }

    fn stale(&mut self, at: &Staleness) {
        if at.commits == 0 {
            return;
        }
        let percent = at.stale as f64 / at.commits as f64 * 100.0;
        let name = format!("staleness_ms/{}", at.level);
        self.evidence.measurements.push(Measurement::from_histogram(name, &at.visible_after));
        let name = format!("stale_percent/{}", at.level);
        self.evidence.measurements.push(Measurement::scalar(name, "%", percent));
    }
}

/// The values that are independent of each other: see the head of this file.
#[must_use]
pub fn independent(repeats: &[Vec<f64>]) -> Vec<f64> {
    if repeats.len() < FEW_REPEATS {
        return repeats.concat();
    }
    repeats.iter().map(|values| values.iter().sum::<f64>() / values.len().max(1) as f64).collect()
}

/// A repeat for each value.
fn each(values: &[f64]) -> Vec<Vec<f64>> {
    values.iter().map(|value| vec![*value]).collect()
}

/// The blocks of each repeat, in the order in which they ran.
fn by_repeat<'a>(passes: &[&'a Pass]) -> Vec<Vec<&'a Block>> {
    let mut repeats: BTreeMap<u32, Vec<&Block>> = BTreeMap::new();
    for pass in passes {
        repeats.entry(pass.repeat).or_default().extend(&pass.blocks);
    }
    repeats.into_values().collect()
}

/// The wanted blocks with load, open loops and closed ones.
fn loops<'a>(blocks: &[&'a Block], wanted: impl Fn(&Block) -> bool) -> (Vec<&'a Block>, Vec<&'a Block>) {
    let wanted = blocks.iter().copied().filter(|block| wanted(block) && !block.service.is_empty());
    wanted.partition(|block| !block.response.is_empty())
}

/// Response times of an open loop, the client's times of a closed one.
fn latency(block: &Block) -> &LatencyHistogram {
    if block.response.is_empty() {
        &block.service
    } else {
        &block.response
    }
}

fn median(latencies: &LatencyHistogram) -> Option<f64> {
    (!latencies.is_empty()).then(|| clock::ms(latencies.quantile(0.5)))
}

/// Strong minus weak, by repeat.
fn differences(
    repeats: &[Vec<&Block>],
    weak: impl Fn(&Block) -> bool,
    strong: impl Fn(&Block) -> bool,
) -> Vec<Vec<f64>> {
    let pairs = paired(repeats, weak, strong);
    pairs.iter().map(|pairs| pairs.iter().map(|(weak, strong)| strong - weak).collect()).collect()
}

/// The median latencies, by repeat, of the n-th weak block and the n-th strong one: of open loops where there are some,
/// else of closed ones. Blocks are counted before those without load are left out, so that one of them does not make
/// neighbours of blocks that were none.
fn paired(
    repeats: &[Vec<&Block>],
    weak: impl Fn(&Block) -> bool,
    strong: impl Fn(&Block) -> bool,
) -> Vec<Vec<(f64, f64)>> {
    let wanted = |blocks: &[&'_ Block], wanted: &dyn Fn(&Block) -> bool| -> Vec<Option<(bool, f64)>> {
        let of = |block: &&Block| Some((!block.response.is_empty(), median(latency(block))?));
        blocks.iter().filter(|block| wanted(block)).map(of).collect()
    };
    let alike = |blocks: &Vec<&Block>| -> Vec<(bool, f64, f64)> {
        let both = wanted(blocks, &weak).into_iter().zip(wanted(blocks, &strong));
        let alike = both.filter_map(|(weak, strong)| match (weak?, strong?) {
            ((weak_open, weak), (strong_open, strong)) if weak_open == strong_open => {
                Some((weak_open, weak, strong))
            }
            _ => None,
        });
        alike.collect()
    };
    let repeats: Vec<_> = repeats.iter().map(alike).collect();
    let is_open = repeats.iter().flatten().any(|(is_open, ..)| *is_open);
    let of_repeat = |pairs: Vec<(bool, f64, f64)>| {
        pairs
            .into_iter()
            .filter(|(open, ..)| *open == is_open)
            .map(|(_, weak, strong)| (weak, strong))
            .collect()
    };
    repeats.into_iter().map(of_repeat).collect()
}

/// What a gap between commits is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GapKind {
    /// Something was in the way of the WAL or its replay, or there was no standby.
    Stall,
    /// The standby was replaying what it had received: the replay is slower than the load.
    Replaying,
    /// There is no evidence of either.
    Noise,
}

impl GapKind {
    fn classify(gap: &Gap) -> Self {
        match gap.cause {
            None => GapKind::Noise,
            Some(cause) if cause.is_in_the_way() => GapKind::Stall,
            Some(_) => GapKind::Replaying,
        }
    }
}

/// The longest gap of a block of one kind, in seconds, with its cause.
pub(super) fn longest_gap(block: &Block, kind: GapKind) -> (f64, Option<&'static str>) {
    let gaps = block.gaps.iter().filter(|gap| GapKind::classify(gap) == kind);
    let longest = gaps.max_by_key(|gap| gap.length);
    longest.map_or((0.0, None), |gap| (gap.length.as_secs_f64(), gap.cause.map(summary::cause)))
}

/// All stalls of a block together, in seconds.
fn stalled(block: &Block) -> f64 {
    let stalls = block.gaps.iter().filter(|gap| GapKind::classify(gap) == GapKind::Stall);
    stalls.map(|gap| gap.length.as_secs_f64()).sum()
}

/// The delay that a scenario sets, in milliseconds.
fn delay_set(scenario: &Scenario) -> Option<f64> {
    scenario.actions.iter().find_map(|action| match action {
        Action::Set { name: "recovery_min_apply_delay", value, .. } => {
            value.trim().trim_end_matches("ms").trim().parse().ok()
        }
        _ => None,
    })
}

fn see(conditions: Conditions, passes: &[&Pass]) -> Seen {
    let mut seen = Seen {
        suffix: summary::suffix(conditions),
        feedback: conditions.feedback,
        rtt_ms: conditions.rtt_ms,
        control: conditions.control,
        ..Seen::default()
    };
    let mut records: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for pass in passes {
        // A repeat of a stall scenario has a pass for each level.
        seen.passes += 1;
        for unmet in &pass.unmet {
            if !seen.unmet.contains(unmet) {
                seen.unmet.push(unmet.clone());
            }
        }
        // A wait lasts from the sample that saw it to the next one.
        for pair in pass.samples.windows(2) {
            let lasted = pair[1].at.saturating_sub(pair[0].at).as_secs_f64();
            if let Some(wait) = &pair[0].startup {
                *seen.startup_s.entry(wait.clone()).or_default() += lasted;
            }
            // This one is known when it is over.
            if let Some(stuck) = pair[1].stuck {
                *seen.stuck_s.entry(summary::cause(stuck).to_owned()).or_default() += lasted;
            }
        }
        seen.wal_bytes += pass.wal.bytes;
        for (name, count, bytes, image_bytes) in &pass.wal.records {
            let record = records.entry(name).or_default();
            record.0 += count;
            record.1 += bytes;
            seen.image_bytes += image_bytes;
        }
        for (record, samples) in &pass.held_up_at {
            *seen.held_up_at.entry(record.clone()).or_default() += samples;
        }
        seen.backlog_bytes = seen.backlog_bytes.max(pass.backlog_bytes);
        seen.files_removed = seen.files_removed.max(pass.files_removed);
        seen.mapping_files = seen.mapping_files.max(pass.mapping_files);
        seen.cancelled += pass.cancelled;
        for block in &pass.blocks {
            seen.committed += block.committed;
            if let Some((count, first)) = &block.failed {
                seen.failed.get_or_insert_with(|| (0, first.clone())).0 += count;
            }
        }
    }
    let mut records: Vec<_> =
        records.into_iter().map(|(name, (count, bytes))| (name.to_owned(), count, bytes)).collect();
    records.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
    records.truncate(RECORD_KINDS);
    seen.records = records;
    let of_level = |level: Level| {
        let blocks: Vec<&Block> =
            passes.iter().flat_map(|pass| &pass.blocks).filter(|block| block.level == level).collect();
        let longest = |kind: GapKind| {
            let gaps = blocks.iter().map(|block| longest_gap(block, kind));
            gaps.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, None))
        };
        let (stall_s, cause) = longest(GapKind::Stall);
        (!blocks.is_empty()).then(|| AtLevel {
            level: level.name().to_owned(),
            stall_s,
            cause: cause.map(str::to_owned),
            replaying_s: longest(GapKind::Replaying).0,
            noise_s: longest(GapKind::Noise).0,
        })
    };
    seen.levels = Level::ALL.into_iter().filter_map(of_level).collect();
    seen
}
