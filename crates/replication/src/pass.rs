//! A pass: fresh data, what happens beside the load, the load, and what was seen meanwhile.
//!
//! Every kind of scenario has its module (`latency`, `held`, `statement`, `special`); they share the frame (`run`), the
//! load (`probe` on sessions of `session`), the samplers ([`sample`]), the actions (`act`), the WAL (`wal`) and the
//! servers' counters (`counters`). Gaps between commits become stalls in [`stall`].

mod act;
mod counters;
mod held;
mod latency;
mod probe;
pub mod sample;
mod session;
mod special;
pub mod stage;
pub(super) mod staleness;
pub mod stall;
mod statement;
pub mod text;
mod wal;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duramen_base::clock;
use tokio_postgres::Client;

use super::expect::{self, wait_expected, Circumstances};
use super::level::Level;
use super::options::Options;
use super::outcome::{Block, Conditions, Pass, Sample};
use super::pair::Pair;
use super::scenario::{Kind, Node, Scenario, Special};
use act::{Stage, REPLAY};
use duramen_reports::suite::SuiteError;
use duramen_workload::Crew;
use probe::Load;
use sample::Sampler;
use text::Names;

pub(super) use act::run_on_primary;
pub(super) use session::{within, PATIENCE};

/// What all passes of a run share.
pub(super) struct Bench<'a> {
    pub(super) pair: &'a Pair,
    pub(super) options: &'a Options,
    /// The seed of the run; each pass takes the next number after it.
    pub(super) seed: AtomicU64,
    /// The sessions of a workload, which are the load of scenarios that do not need their own.
    pub(super) crew: Option<Arc<Crew>>,
}

/// One pass of the plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// Under which conditions.
    pub conditions: Conditions,
    /// From 0.
    pub repeat: u32,
    /// For kinds that have one level a pass.
    pub level: Level,
}

/// What a kind of pass brings back: blocks without gaps, which are found when the samples are there.
#[derive(Default)]
struct Measured {
    runs: Vec<(Level, u32, Duration, probe::Run)>,
    /// Where the WAL of the pass begins.
    wal_from: u64,
    blocker: Option<Duration>,
    backlog_bytes: Option<u64>,
    unmet: Vec<String>,
}

/// What a pass works with.
struct Frame<'a> {
    bench: &'a Bench<'a>,
    scenario: &'a Scenario,
    names: Names,
    unit: Unit,
    origin: Instant,
    primary: Client,
    standby: Client,
}

/// Whether the levels of a scenario are passes of their own, or blocks of one pass.
#[must_use]
pub fn is_one_level_a_pass(kind: Kind) -> bool {
    matches!(kind, Kind::Stall | Kind::Statement)
}

/// Runs a pass. The data are there, and the standby has replayed them.
pub(super) async fn run(bench: &Bench<'_>, scenario: &Scenario, unit: Unit) -> Result<Pass, SuiteError> {
    let Some(what) = scenario.breaks() else { return one(bench, scenario, unit).await };
    let pass = match bench.pair.prepare_to_break(what).await {
        Ok(()) => one(bench, scenario, unit).await,
        Err(error) => Err(error),
    };
    let undone = bench.pair.breakable_no_more(what).await;
    let pass = pass?;
    undone.map(|()| pass)
}

async fn one(bench: &Bench<'_>, scenario: &Scenario, unit: Unit) -> Result<Pass, SuiteError> {
    let pair = bench.pair;
    pair.caught_up(REPLAY).await?;
    let frame = Frame {
        bench,
        scenario,
        names: Names::new(scenario, bench.options.quick),
        unit,
        primary: act::local(pair).await?,
        standby: pair.connect(Node::Standby).await?,
        origin: clock::now(),
    };
    wal::keep(&frame.primary).await;
    let cancelled = counters::cancelled(&frame.standby).await?;
    let files = Files {
        relations: counters::relation_files(&frame.standby).await?,
        mappings: counters::mapping_files(&frame.standby).await?,
    };
    let sampler = Sampler::start(pair, frame.origin);
    let slow = match scenario.slows().filter(|_| !unit.conditions.control) {
        Some(what) => Some(pair.breaks(what).await?),
        None => None,
    };
    let measured = match scenario.kind {
        Kind::Latency => latency::measure(&frame).await,
        Kind::Saturation => latency::saturate(&frame).await,
        Kind::Stall => held::measure(&frame).await,
        Kind::Statement => statement::measure(&frame).await,
        Kind::Special(Special::Calibration) => special::calibrate(&frame).await,
        Kind::Special(Special::CancelledWait) => special::cancel(&frame).await,
    };
    if let Some(slow) = slow {
        slow.mended().await?;
    }
    let samples = sampler.finish().await?;
    frame.close(measured?, samples, cancelled, files).await
}

/// The files of the standby when a pass begins.
struct Files {
    relations: u64,
    mappings: BTreeSet<String>,
}

impl Frame<'_> {
    /// A stage for the actions of this pass.
    fn stage<'b>(&'b self, load: Option<&'b Load>) -> Stage<'b> {
        let feedback = self.unit.conditions.feedback;
        let expected = wait_expected(self.scenario.expect, self.bench.pair.major(), feedback);
        let (options, control) = (self.bench.options, self.unit.conditions.control);
        let lasts = self.scenario.broken_for(options.quick, self.unit.level, control);
        Stage::new(self.bench.pair, options, &self.names, feedback, expected, load)
            .breaking(lasts.unwrap_or_default(), control)
    }

    async fn sessions(&self, clients: u32) -> Result<Arc<Load>, SuiteError> {
        let seed = self.bench.seed.fetch_add(1, Ordering::Relaxed);
        if let Some(crew) = self.bench.crew.as_ref().filter(|_| self.scenario.takes_any_load()) {
            return Ok(Load::of_crew(crew, seed, self.origin));
        }
        Load::open_sessions(self.bench.pair, &self.scenario.probe, &self.names, clients, seed, self.origin)
            .await
    }

    /// The clients that the scenario asks for.
    fn clients(&self) -> u32 {
        self.scenario.probe.clients.max(1)
    }

    async fn flushed(&self) -> Result<u64, SuiteError> {
        counters::flushed(&self.primary).await
    }

    /// Reads what is left to be read, and holds the pass against what was expected.
    async fn close(
        self,
        measured: Measured,
        samples: Vec<Sample>,
        cancelled: u64,
        before: Files,
    ) -> Result<Pass, SuiteError> {
        let (bench, expected) = (self.bench, self.scenario.expect);
        let wal_to = self.flushed().await?;
        bench.pair.caught_up(REPLAY).await?;
        // The standby may have been away meanwhile.
        let standby = bench.pair.connect(Node::Standby).await?;
        let mut unmet = measured.unmet;
        // WAL that is gone makes the pass invalid, and not impossible.
        let mut entry = |error: SuiteError| unmet.push(error.to_string());
        let wal = wal::between(&self.primary, measured.wal_from, wal_to).await;
        let wal = wal.map_err(&mut entry).unwrap_or_default();
        let held_up_at = wal::held_up_at(&self.primary, &samples).await;
        let held_up_at = held_up_at.map_err(&mut entry).unwrap_or_default();
        let mut blocks: Vec<Block> = Vec::with_capacity(measured.runs.len());
        for (level, clients, apply_delay, run) in measured.runs {
            let wal = match run.wal {
                Some((from, to)) => wal::of_block(&self.primary, from, to).await.map_err(&mut entry).ok(),
                None => None,
            };
            blocks.push(Block { apply_delay, wal, ..run.into_block(level, clients, &samples) });
        }
        let mut pass = Pass {
            conditions: self.unit.conditions,
            repeat: self.unit.repeat,
            blocks,
            blocker: measured.blocker,
            samples,
            wal,
            held_up_at,
            backlog_bytes: measured.backlog_bytes,
            files_removed: Some(before.relations.saturating_sub(counters::relation_files(&standby).await?)),
            mapping_files: Some(
                counters::mapping_files(&standby).await?.difference(&before.mappings).count() as u64,
            ),
            // A standby that was started again counts from nothing.
            cancelled: counters::cancelled(&standby).await?.saturating_sub(cancelled),
            unmet,
        };
        let delayed = || pass.blocks.iter().filter(|block| !block.apply_delay.is_zero());
        let blocker = match self.scenario.kind {
            Kind::Special(Special::Calibration) => delayed().map(|block| block.elapsed).sum(),
            _ => pass.blocker.unwrap_or(bench.options.blocker()),
        };
        let (major, feedback) = (bench.pair.major(), self.unit.conditions.feedback);
        let cut = bench.options.cuts_readers_after().filter(|_| self.scenario.has_reader());
        let longest_wait = cut.unwrap_or(blocker);
        if let Some(cut) = cut.filter(|_| pass.cancelled == 0 && wait_expected(expected, major, feedback)) {
            pass.unmet.push(format!(
                "the standby cancelled no reader, although max_standby_streaming_delay ({} ms) is shorter than the reader's \
                 transaction",
                cut.as_millis()
            ));
        }
        let circumstances = Circumstances { major, longest_wait };
        pass.unmet.extend(expect::unmet(expected, &pass, &circumstances));
        Ok(pass)
    }
}
