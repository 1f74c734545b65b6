//! Durable commits by one thread and by many, into the loaded store.

use std::sync::Barrier;
use std::thread;

use duramen_base::clock;

use crate::bench::Bench;
use crate::data::VALUE_BYTES;
use crate::engine::{Done, Engine, Failure, Kind, Level};
use crate::latency::Latencies;
use crate::{floor, priority};

/// Each thread replaces rows of its own, over and over, until the time is up. Gives the sync floor measured
/// just before, p50 and p99 in microseconds, and thousands of commits a second.
pub(super) fn run(bench: &Bench, kind: Kind, round: u64, threads: usize) -> Done<Vec<f64>> {
    let engine = bench.open_loaded(kind)?;
    let order = bench.data.shuffled(bench.seed.wrapping_add(round));
    let shares: Vec<&[u32]> =
        (0..threads).map(|n| &order[n * order.len() / threads..(n + 1) * order.len() / threads]).collect();
    let floor = on_thread(bench, || floor::measure(&bench.dir))?;
    // The floor's own file is gone and its syncs are over.
    bench.settle()?;

    let barrier = Barrier::new(threads);
    let (engine_ref, barrier_ref) = (&*engine, &barrier);
    let outcomes: Vec<Done<Outcome>> = thread::scope(|scope| {
        let workers: Vec<_> = shares
            .iter()
            .map(|share| scope.spawn(move || work(bench, engine_ref, share, barrier_ref)))
            .collect();
        workers.into_iter().map(join).collect()
    });

    let mut latencies = Latencies::new();
    let mut seconds = 0.0_f64;
    let mut counts = Vec::with_capacity(threads);
    for outcome in outcomes {
        let outcome = outcome?;
        latencies.merge(&outcome.latencies);
        seconds = seconds.max(outcome.seconds);
        counts.push(outcome.latencies.count() as usize);
    }
    engine.close()?;

    let engine = (kind.open)(&bench.loaded_dir(kind), Level::Strict)?;
    for (share, count) in shares.iter().zip(counts) {
        verify(bench, &*engine, share, count)?;
    }
    engine.close()?;
    Ok(vec![floor, latencies.us(0.5)?, latencies.us(0.99)?, latencies.count() as f64 / seconds / 1e3])
}

struct Outcome {
    latencies: Latencies,
    seconds: f64,
}

fn work(bench: &Bench, engine: &dyn Engine, share: &[u32], barrier: &Barrier) -> Done<Outcome> {
    let prepared = if bench.fifo { priority::fifo() } else { Ok(()) };
    // Also who failed must come here, or the others wait for ever.
    barrier.wait();
    prepared?;
    let mut latencies = Latencies::new();
    let begin = clock::now();
    for put in 0.. {
        let rank = share[put % share.len()] as usize;
        let key = *bench.data.key(rank);
        let mut value = [0; VALUE_BYTES];
        value.copy_from_slice(bench.data.value(replacement(bench, rank, put / share.len())));
        let start = clock::now();
        engine.put(&key, &value)?;
        latencies.record(start.elapsed());
        if begin.elapsed() >= bench.cap {
            break;
        }
    }
    Ok(Outcome { latencies, seconds: begin.elapsed().as_secs_f64() })
}

/// Whose value a row gets in a thread's n-th pass: never its own, and another one in each pass.
fn replacement(bench: &Bench, rank: usize, pass: usize) -> usize {
    (rank + 1 + pass % (bench.data.rows() - 1)) % bench.data.rows()
}

/// Every row has the value that it was given last, after `count` puts over the share.
fn verify(bench: &Bench, engine: &dyn Engine, share: &[u32], count: usize) -> Done<()> {
    let mut value = Vec::new();
    for (place, &rank) in share.iter().enumerate().take(count) {
        let rank = rank as usize;
        let last_pass = (count - 1 - place) / share.len();
        let found = engine.get(bench.data.key(rank), &mut value)?;
        if !found || value != bench.data.value(replacement(bench, rank, last_pass)) {
            let what = if found { "an older value" } else { "nothing" };
            return Err(Failure::Wrong(format!(
                "row {rank} has {what} after its durable commits and a new open"
            )));
        }
    }
    Ok(())
}

/// Runs on a thread of its own with the priority that the run asks for.
fn on_thread<T: Send>(bench: &Bench, job: impl FnOnce() -> Done<T> + Send) -> Done<T> {
    thread::scope(|scope| {
        join(scope.spawn(move || {
            if bench.fifo {
                priority::fifo()?;
            }
            job()
        }))
    })
}

fn join<T>(worker: thread::ScopedJoinHandle<'_, Done<T>>) -> Done<T> {
    worker
        .join()
        .unwrap_or_else(|_| Err(Failure::Wrong("a thread panicked; its message is above".to_owned())))
}
