//! Loading, and reading what was loaded.

use duramen_base::{clock, entropy};

use crate::bench::{disk_bytes, Bench};
use crate::engine::{Done, Engine, Failure, Kind, Level, Tally};
use crate::latency::Latencies;

const OPENS: usize = 5;
const SCANS: usize = 3;
const GETS: usize = 200_000;
const RANGES: usize = 20_000;
const RANGE_ROWS: usize = 100;
/// Reads before those that count, beside a scan of everything.
const WARM: usize = 10_000;

/// Seconds, and bytes on the disk after the store was closed in relation to those of the keys and values.
pub(super) fn bulk_load(bench: &Bench, kind: Kind, _round: u64) -> Done<Vec<f64>> {
    let took = bench.load(kind)?.as_secs_f64();
    let bytes = disk_bytes(&bench.loaded_dir(kind))? as f64;
    let engine = bench.open_loaded(kind)?;
    scan_all(bench, &*engine)?;
    engine.close()?;
    Ok(vec![took, bytes / bench.data.raw_bytes() as f64])
}

/// Milliseconds until the first row was read, so that an engine cannot put its work off.
pub(super) fn open(bench: &Bench, kind: Kind, round: u64) -> Done<Vec<f64>> {
    // Loads if need be, and leaves a store that was closed cleanly.
    bench.open_loaded(kind)?.close()?;
    let dir = bench.loaded_dir(kind);
    let mut random = entropy::rng(bench.seed.wrapping_add(round));
    let mut took = Vec::with_capacity(OPENS);
    let mut value = Vec::new();
    for _ in 0..OPENS {
        bench.settle()?;
        let rank = random.usize(..bench.data.rows());
        let begin = clock::now();
        let engine = (kind.open)(&dir, Level::Strict)?;
        let found = engine.get(bench.data.key(rank), &mut value)?;
        took.push(clock::ms(begin.elapsed()));
        check(bench, rank, found, &value)?;
        engine.close()?;
    }
    took.sort_by(f64::total_cmp);
    Ok(vec![took[OPENS / 2]])
}

/// Microseconds of a read in a transaction of its own, everything being in memory.
pub(super) fn get(bench: &Bench, kind: Kind, round: u64) -> Done<Vec<f64>> {
    let engine = bench.open_loaded(kind)?;
    scan_all(bench, &*engine)?;
    let mut random = entropy::rng(bench.seed.wrapping_add(round));
    let mut latencies = Latencies::new();
    let mut value = Vec::new();
    for read in 0..WARM + GETS {
        let rank = random.usize(..bench.data.rows());
        let key = bench.data.key(rank);
        let begin = clock::now();
        let found = engine.get(key, &mut value)?;
        let took = begin.elapsed();
        check(bench, rank, found, &value)?;
        if read >= WARM {
            latencies.record(took);
        }
    }
    engine.close()?;
    Ok(vec![latencies.us(0.5)?, latencies.us(0.99)?])
}

/// Million rows per second: the median of some scans.
pub(super) fn scan(bench: &Bench, kind: Kind, _round: u64) -> Done<Vec<f64>> {
    let engine = bench.open_loaded(kind)?;
    scan_all(bench, &*engine)?;
    let mut rates = Vec::with_capacity(SCANS);
    for _ in 0..SCANS {
        rates.push(bench.data.rows() as f64 / scan_all(bench, &*engine)? / 1e6);
    }
    engine.close()?;
    rates.sort_by(f64::total_cmp);
    Ok(vec![rates[SCANS / 2]])
}

/// Microseconds of reading 100 rows from a random place on.
pub(super) fn range100(bench: &Bench, kind: Kind, round: u64) -> Done<Vec<f64>> {
    let engine = bench.open_loaded(kind)?;
    scan_all(bench, &*engine)?;
    let mut random = entropy::rng(bench.seed.wrapping_add(round));
    let mut latencies = Latencies::new();
    for read in 0..WARM / 10 + RANGES {
        let rank = random.usize(..=bench.data.rows() - RANGE_ROWS);
        let mut tally = Tally::default();
        let begin = clock::now();
        engine.range(bench.data.key(rank), RANGE_ROWS, &mut tally)?;
        let took = begin.elapsed();
        tally.verify(&Tally::expected(&bench.data, rank..rank + RANGE_ROWS), "range100")?;
        if read >= WARM / 10 {
            latencies.record(took);
        }
    }
    engine.close()?;
    Ok(vec![latencies.us(0.5)?, latencies.us(0.99)?])
}

/// Reads everything, verifies it, and says how many seconds the reading took.
fn scan_all(bench: &Bench, engine: &dyn Engine) -> Done<f64> {
    let mut tally = Tally::default();
    let begin = clock::now();
    engine.scan(&mut tally)?;
    let took = begin.elapsed();
    tally.verify(&Tally::expected(&bench.data, 0..bench.data.rows()), "scan")?;
    Ok(took.as_secs_f64())
}

fn check(bench: &Bench, rank: usize, found: bool, value: &[u8]) -> Done<()> {
    if found && value == bench.data.value(rank) {
        return Ok(());
    }
    let what = if found { "another value than was put" } else { "nothing" };
    Err(Failure::Wrong(format!("get of row {rank} found {what}")))
}
