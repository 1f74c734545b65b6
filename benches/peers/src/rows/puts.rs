//! Single commits into an empty store.

use duramen_base::clock;

use crate::bench::{remove, Bench};
use crate::data::VALUE_BYTES;
use crate::engine::{Done, Engine, Failure, Kind, Level, Snapshot, Tally};
use crate::latency::Latencies;

/// Commits from one snapshot to the next.
const SNAPSHOT_EVERY: usize = 100;

pub(super) fn memory(bench: &Bench, kind: Kind, round: u64) -> Done<Vec<f64>> {
    run(bench, kind, round, Level::Memory, false)
}

pub(super) fn buffered(bench: &Bench, kind: Kind, round: u64) -> Done<Vec<f64>> {
    run(bench, kind, round, Level::Buffered, false)
}

/// One snapshot is alive at any time, and a commit that follows it cannot change in place what it sees.
pub(super) fn buffered_snapshots(bench: &Bench, kind: Kind, round: u64) -> Done<Vec<f64>> {
    run(bench, kind, round, Level::Buffered, true)
}

/// Puts all rows in random order, or as many as the time allows. Gives p50 and p99 in microseconds, and
/// thousands of commits a second (snapshots included, which the latencies are without).
fn run(bench: &Bench, kind: Kind, round: u64, level: Level, snapshots: bool) -> Done<Vec<f64>> {
    let dir = bench.fresh(kind)?;
    let order = bench.data.shuffled(bench.seed.wrapping_add(round));
    let engine = (kind.open)(&dir, level)?;
    let mut latencies = Latencies::new();
    let mut view: Option<Box<dyn Snapshot + '_>> = None;
    let mut done = 0;
    let mut seen = 0;
    let begin = clock::now();
    for &rank in &order {
        if snapshots && done % SNAPSHOT_EVERY == 0 {
            // The old one must go first: LMDB allows a thread one at a time.
            drop(view.take());
            view = Some(engine.snapshot()?);
            seen = done;
        }
        let rank = rank as usize;
        let key = *bench.data.key(rank);
        // Copied, so that no engine pays for fetching what is to be put.
        let mut value = [0; VALUE_BYTES];
        value.copy_from_slice(bench.data.value(rank));
        let start = clock::now();
        engine.put(&key, &value)?;
        latencies.record(start.elapsed());
        done += 1;
        if begin.elapsed() >= bench.cap {
            break;
        }
    }
    let took = begin.elapsed().as_secs_f64();
    let put = &order[..done];
    if let Some(view) = &view {
        verify_view(bench, &**view, &put[..seen], &put[seen..])?;
    }
    drop(view);
    verify(bench, &*engine, put)?;
    engine.close()?;
    // Memory promises nothing after the store was closed.
    if level != Level::Memory {
        let engine = (kind.open)(&dir, level)?;
        verify(bench, &*engine, put)?;
        engine.close()?;
    }
    remove(&dir)?;
    Ok(vec![latencies.us(0.5)?, latencies.us(0.99)?, done as f64 / took / 1e3])
}

/// The store holds exactly what was put.
fn verify(bench: &Bench, engine: &dyn Engine, put: &[u32]) -> Done<()> {
    let mut ranks: Vec<usize> = put.iter().map(|rank| *rank as usize).collect();
    ranks.sort_unstable();
    let mut tally = Tally::default();
    engine.scan(&mut tally)?;
    tally.verify(&Tally::expected(&bench.data, ranks), "the scan after the puts")
}

/// The snapshot has the row that was put last before it, and none that was put after it.
fn verify_view(bench: &Bench, view: &dyn Snapshot, before: &[u32], after: &[u32]) -> Done<()> {
    let mut value = Vec::new();
    if let Some(&rank) = before.last() {
        let rank = rank as usize;
        if !view.get(bench.data.key(rank), &mut value)? || value != bench.data.value(rank) {
            return Err(Failure::Wrong(format!("the snapshot lacks row {rank}, which was put before it")));
        }
    }
    for &rank in after {
        if view.get(bench.data.key(rank as usize), &mut value)? {
            return Err(Failure::Wrong(format!("the snapshot shows row {rank}, which was put after it")));
        }
    }
    Ok(())
}
