//! Pairs under special conditions: snapshots, threads, checkpoints, bulk loading, opening, forks of forks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::histogram::LatencyHistogram;
use duramen_store::{Branch, Scope, StoreError, Value};

use crate::store::data::Key;
use crate::store::level::{Level, LoadedKey, VALUE_BYTES};
use crate::store::options::Sabotage;
use crate::store::priority;
use crate::store::slice::Slice;

/// Commits from one snapshot to the next.
const SNAPSHOT_EVERY: u64 = 100;

/// The deepest fork of a fork.
const DEPTH: usize = 32;

/// Puts while a snapshot is held that is never older than a hundred commits.
pub(crate) fn put_with_snapshots(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (mut rng, pool, main) = (slice.level.rng(), slice.level.pool.clone(), slice.level.main());
    let rows = slice.level.sizes.rows;
    let kv = main.kv();
    let mut held = None;
    let mut number = 0_u64;
    slice.begin()?;
    while slice.more() {
        let (key, value) = (Key::from_number(rng.u64(0..rows)), pool.value(&mut rng, VALUE_BYTES));
        slice.time(|| {
            if number.is_multiple_of(SNAPSHOT_EVERY) {
                held = Some(main.snapshot()?);
            }
            kv.put(key.as_str(), value)
        })?;
        number += 1;
    }
    slice.end();
    let key = Key::from_number(rng.u64(0..rows));
    if let Some(held) = held {
        let before = held.kv().get(key.as_str())?;
        kv.put(key.as_str(), "another")?;
        let kept = held.kv().get(key.as_str())? == before;
        slice.expect(kept, || "a snapshot changed when its branch was written".to_owned());
        kv.put(key.as_str(), pool.value(&mut rng, VALUE_BYTES))?;
    }
    Ok(())
}

/// What one of several threads met.
struct Met {
    latencies: LatencyHistogram,
    failed: Option<StoreError>,
}

pub(crate) fn put_by_threads(slice: &mut Slice<'_>, threads: u64) -> Result<(), StoreError> {
    let (pool, main, rows) = (slice.level.pool.clone(), slice.level.main(), slice.level.sizes.rows);
    by_threads(slice, threads, |rng| {
        let (key, value) = (Key::from_number(rng.u64(0..rows)), pool.value(rng, VALUE_BYTES));
        let put = clock::now();
        main.kv().put(key.as_str(), value)?;
        Ok(put.elapsed())
    })?;
    let count = main.kv().count("k")?;
    slice.expect(count == rows, || format!("{count} pairs are there instead of {rows}"));
    Ok(())
}

/// Gets of random pairs by threads that have nothing to do with each other.
pub(crate) fn get_by_threads(slice: &mut Slice<'_>, threads: u64) -> Result<(), StoreError> {
    let (main, rows) = (slice.level.main(), slice.level.sizes.rows);
    let missing = AtomicU64::new(0);
    by_threads(slice, threads, |rng| {
        let key = Key::from_number(rng.u64(0..rows));
        let get = clock::now();
        let found = main.kv().get(key.as_str())?;
        let took = get.elapsed();
        if found.is_none() {
            missing.fetch_add(1, Ordering::Relaxed);
        }
        Ok(took)
    })?;
    let missing = missing.into_inner();
    slice.expect(missing == 0, || format!("{missing} pairs were not found"));
    Ok(())
}

/// Does a piece of work over and over by several threads, until the slice's time is over. The work says how long it took.
fn by_threads(
    slice: &mut Slice<'_>,
    threads: u64,
    work: impl Fn(&mut fastrand::Rng) -> Result<Duration, StoreError> + Sync,
) -> Result<(), StoreError> {
    let fifo = slice.level.fifo;
    let rngs: Vec<fastrand::Rng> = (0..threads).map(|_| slice.level.rng()).collect();
    let budget = slice.budget;
    slice.begin()?;
    let begin = clock::now();
    let met: Vec<Met> = std::thread::scope(|scope| {
        let spawn = |mut rng: fastrand::Rng| {
            let work = &work;
            scope.spawn(move || {
                // The first refusal was told when the run began.
                let _ = fifo.then(priority::fifo);
                let mut met = Met { latencies: LatencyHistogram::fine(), failed: None };
                while begin.elapsed() < budget && met.failed.is_none() {
                    match work(&mut rng) {
                        Ok(took) => met.latencies.record(took),
                        Err(error) => met.failed = Some(error),
                    }
                }
                met
            })
        };
        let handles: Vec<_> = rngs.into_iter().map(spawn).collect();
        handles.into_iter().map(|handle| handle.join().expect("the work does not panic")).collect()
    });
    let took = begin.elapsed();
    slice.end();
    for Met { latencies, failed } in met {
        if let Some(error) = failed {
            return Err(error);
        }
        slice.sample.ops += latencies.count();
        slice.sample.latencies.merge(&latencies);
    }
    slice.sample.busy += took;
    Ok(())
}

/// Puts while a checkpoint of many changed pages is under way.
pub(crate) fn put_during_checkpoint(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (mut rng, pool, main) = (slice.level.rng(), slice.level.pool.clone(), slice.level.main());
    let (store, aside, rows) = (slice.level.store().clone(), slice.level.aside(), slice.level.sizes.rows);
    slice.begin()?;
    for _ in 0..rows / 10 {
        let key = Key::from_number(rng.u64(0..rows));
        aside.kv().put(key.as_str(), pool.value(&mut rng, VALUE_BYTES))?;
    }
    let made = store.counters().checkpoints;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| {
            let result = store.checkpoint();
            done.store(true, Ordering::Release);
            result
        });
        while !done.load(Ordering::Acquire) {
            let (key, value) = (Key::from_number(rng.u64(0..rows)), pool.value(&mut rng, VALUE_BYTES));
            slice.time(|| main.kv().put(key.as_str(), value))?;
        }
        checkpoint.join().expect("a checkpoint does not panic")
    })?;
    slice.end();
    let made = store.counters().checkpoints - made;
    slice.expect(made > 0, || "no checkpoint was made".to_owned());
    Ok(())
}

/// Seconds that it takes to load all pairs, sorted, into an empty branch.
pub(crate) fn bulk_load(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (mut rng, pool, store) = (slice.level.rng(), slice.level.pool.clone(), slice.level.store().clone());
    let rows = slice.level.sizes.rows;
    let name = slice.level.fresh_name();
    let branch = store.create_branch(&name)?;
    // Made beforehand: it is not the random numbers that are to be measured.
    let starts: Vec<u32> = (0..rows).map(|_| rng.u32(..1 << 19)).collect();
    slice.begin()?;
    let before = slice.sample.busy;
    let pairs = (0..rows)
        .zip(&starts)
        .map(|(row, at)| (LoadedKey(Key::from_number(row)), pool.at(*at as usize, VALUE_BYTES)));
    let loaded = slice.time(|| branch.bulk_load("default", pairs))?;
    let took = slice.sample.busy - before;
    slice.end();
    slice.sample.values.push(took.as_secs_f64());
    let count = branch.kv().count("")?;
    slice.expect(loaded == rows && count == rows, || format!("{count} of {rows} pairs were loaded"));
    drop(branch);
    store.delete_branch(&name)
}

/// Milliseconds that opening takes after a clean close.
pub(crate) fn open(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    slice.begin()?;
    slice.end();
    let took = slice.level.reopen()?;
    slice.sample.ops += 1;
    slice.sample.busy += took;
    slice.sample.values.push(clock::ms(took));
    // Pages that are read again after opening show that it was not left to the cache.
    let found = slice.level.main().kv().get(Key::from_number(0).as_str())?;
    slice.expect(found.is_some(), || "a pair is not there after opening".to_owned());
    Ok(())
}

/// Gets in a fork of a fork ... of the main branch, each of which changed a page of its own.
pub(crate) fn get_at_depth(slice: &mut Slice<'_>, depth: usize) -> Result<(), StoreError> {
    make_depths(slice.level)?;
    let (mut rng, store, rows) = (slice.level.rng(), slice.level.store().clone(), slice.level.sizes.rows);
    let branch = store.branch(&depth_name(depth))?;
    let above: Vec<Branch> = match slice.level.sabotage {
        Sabotage::LayeredReads => {
            (1..depth).map(|depth| store.branch(&depth_name(depth))).collect::<Result<_, _>>()?
        }
        _ => Vec::new(),
    };
    let mut missing = 0_u64;
    slice.begin()?;
    while slice.more() {
        let key = Key::from_number(rng.u64(0..rows));
        let found: Option<Value> = slice.time(|| {
            for layer in &above {
                std::hint::black_box(layer.kv().get(key.as_str())?);
            }
            branch.kv().get(key.as_str())
        })?;
        missing += u64::from(found.is_none());
    }
    slice.end();
    slice.expect(missing == 0, || format!("{missing} pairs were not found"));
    Ok(())
}

fn depth_name(depth: usize) -> String {
    format!("depth-{depth}")
}

fn make_depths(level: &mut Level) -> Result<(), StoreError> {
    if !level.lacks("depths") {
        return Ok(());
    }
    let (mut rng, rows) = (level.rng(), level.sizes.rows);
    let mut branch = level.aside();
    for depth in 1..=DEPTH {
        branch = branch.fork(&depth_name(depth))?;
        for _ in 0..10 {
            branch.kv().put(Key::from_number(rng.u64(0..rows)).as_str(), depth as i64)?;
        }
    }
    Ok(())
}
