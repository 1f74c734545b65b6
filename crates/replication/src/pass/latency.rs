//! Commits that get slower: blocks of load at each level, interleaved at random, so that whatever else the machine does
//! falls on all levels alike.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::entropy;
use tokio::time::sleep;

use super::super::level::Level;
use super::super::scenario::Expect;
use super::act::REPLAY;
use super::probe::{Load, Run};
use super::{Frame, Measured};
use duramen_reports::suite::SuiteError;

/// Of what the slowest level can do at most, the open loop asks for this share of all levels.
const SHARE: f64 = 0.6;
/// An open block is to have so many commits at least, if that does not take longer than [`LONGEST_BLOCK`].
const LEAST_COMMITS: f64 = 20.0;
const LONGEST_BLOCK: Duration = Duration::from_secs(5);
/// The numbers of clients for which the ceiling is measured.
const CLIENTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const CLIENTS_QUICK: [u32; 3] = [1, 8, 32];

/// Closed loops first, which tell how much each level can do at most; then open loops at the same rate for all.
pub(super) async fn measure(frame: &Frame<'_>) -> Result<Measured, SuiteError> {
    let options = frame.bench.options;
    let (levels, rounds) = (options.levels(), rounds(frame));
    let load = frame.sessions(frame.clients()).await?;
    let clients = load.clients();
    for level in shuffled(frame, &levels) {
        // Caches, plans, and what the first commits of a level have to do: not counted.
        block(frame, &load, level, closed(&load, clients, options.block() / 2)).await?;
    }
    let mut measured = Measured { wal_from: frame.flushed().await?, ..Measured::default() };
    for _ in 0..rounds.div_ceil(2) {
        for level in shuffled(frame, &levels) {
            let run = block(frame, &load, level, closed(&load, clients, options.block())).await?;
            measured.runs.push((level, clients, Duration::ZERO, run));
        }
    }
    let rate = SHARE * ceiling(&measured, &levels)?;
    let enough = Duration::try_from_secs_f64(LEAST_COMMITS / rate).unwrap_or(LONGEST_BLOCK);
    let lasts = enough.clamp(options.block(), LONGEST_BLOCK.max(options.block()));
    for _ in 0..rounds {
        for level in shuffled(frame, &levels) {
            // Counted from when the load begins: what is done before it (a checkpoint, a table filled) takes its own time.
            let open = load.open(rate, async move { sleep(lasts).await });
            let run = block(frame, &load, level, open).await?;
            measured.runs.push((level, clients, Duration::ZERO, run));
        }
    }
    Ok(measured)
}

/// Closed loops of growing numbers of clients, in random order.
pub(super) async fn saturate(frame: &Frame<'_>) -> Result<Measured, SuiteError> {
    let options = frame.bench.options;
    let counts: &[u32] = if options.quick { &CLIENTS_QUICK } else { &CLIENTS };
    let most = counts.iter().copied().max().unwrap_or(1);
    let load = frame.sessions(most).await?;
    let levels = options.levels();
    for level in shuffled(frame, &levels) {
        block(frame, &load, level, closed(&load, most, options.block() / 2)).await?;
    }
    let mut measured = Measured { wal_from: frame.flushed().await?, ..Measured::default() };
    for _ in 0..rounds(frame).div_ceil(2) {
        for clients in shuffled(frame, counts) {
            for level in shuffled(frame, &levels) {
                let mut run = block(frame, &load, level, closed(&load, clients, options.block())).await?;
                (run.commits, run.has_no_gaps) = (Vec::new(), true);
                measured.runs.push((level, clients, Duration::ZERO, run));
            }
        }
    }
    Ok(measured)
}

/// How many open blocks each level gets in a pass; of closed ones, half as many.
fn rounds(frame: &Frame<'_>) -> u32 {
    if frame.bench.options.quick {
        2
    } else {
        4
    }
}

async fn closed(load: &Arc<Load>, clients: u32, how_long: Duration) -> Result<Run, SuiteError> {
    Ok(load.closed(clients, how_long).await)
}

/// Some load at a level, with the actions of the scenario before and beside it. It begins when the standby has replayed
/// everything, so that no level pays for what the last one left behind.
async fn block(
    frame: &Frame<'_>,
    load: &Arc<Load>,
    level: Level,
    work: impl std::future::Future<Output = Result<Run, SuiteError>>,
) -> Result<Run, SuiteError> {
    load.set_level(level).await?;
    frame.bench.pair.caught_up(REPLAY).await?;
    let mut stage = frame.stage(Some(load));
    let run = async {
        stage.carry_out(frame.scenario.actions).await?;
        if !frame.scenario.expect.iter().any(Expect::is_of_blocks) {
            return work.await;
        }
        let from = frame.flushed().await?;
        let mut run = work.await?;
        run.wal = Some((from, frame.flushed().await?));
        Ok(run)
    }
    .await;
    let finished = stage.finish().await;
    let put_back = stage.put_back().await;
    let run = run?;
    finished?;
    put_back?;
    Ok(run)
}

/// What the slowest level can do at most.
fn ceiling(measured: &Measured, levels: &[Level]) -> Result<f64, SuiteError> {
    let mut least = f64::INFINITY;
    for level in levels {
        let runs = || measured.runs.iter().filter(|(of, ..)| of == level).map(|(.., run)| run);
        let mean = runs().map(Run::per_second).sum::<f64>() / runs().count().max(1) as f64;
        if mean <= 0.0 {
            let said = runs().find_map(|run| run.failed.as_ref().map(|(_, text)| text.clone()));
            let said = said.unwrap_or_else(|| "and no statement failed".to_owned());
            return Err(SuiteError::Failed(format!("nothing was committed at {level}: {said}")));
        }
        least = least.min(mean);
    }
    Ok(least)
}

/// In random order.
pub(super) fn shuffled<T: Copy>(frame: &Frame<'_>, things: &[T]) -> Vec<T> {
    let mut things = things.to_vec();
    entropy::rng(frame.bench.seed.fetch_add(1, Ordering::Relaxed)).shuffle(&mut things);
    things
}
