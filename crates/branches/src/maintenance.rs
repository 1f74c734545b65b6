//! The one thread that makes and deletes branches.
//!
//! It works in slices and looks up between them: creates that wait come first, then full pools, then the deletion
//! of what is doomed. While requests are being served it holds still, unless somebody waits for it: a refill that
//! runs beside a burst of queries slows both.

use crate::{
    branch::{Branch, Workshop},
    engine::Shared,
    error::EngineError,
    generation::Generation,
    model::{Refill, RefillReport},
    pool::{ColdClone, Deficit},
    watch::Watch,
};
use duramen_measure::clock::{self, ms};
use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Mutex, PoisonError,
    },
    thread,
    time::{Duration, Instant},
};

/// Requests must have been absent this long before unasked-for work begins.
const QUIET: Duration = Duration::from_millis(15);
/// However busy the callers are, work is put off no longer than this.
const PATIENCE: Duration = Duration::from_secs(2);
/// With more doomed branches than this, deletion comes before refilling: they hold memory.
const DOOMED_MAX: usize = 400;
/// How many branches are deleted before the thread looks up again.
const REAP_SLICE: usize = 16;
/// How many clones, starts and sessions are made at a time.
const CLONE_THREADS: usize = 4;
const START_THREADS: usize = 3;
const CONNECT_THREADS: usize = 3;
/// How long the thread sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_millis(500);
/// How long the thread waits for freed space at most.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);
/// How often a pool that could not be filled is tried again.
const RETRY: Duration = Duration::from_secs(60);
/// How many refills are remembered for the status.
const REPORTS_MAX: usize = 64;

/// Runs until the engine closes.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut retried = clock::now();
    let mut watch = Watch::new();
    while !shared.closing.load(Ordering::Acquire) {
        shared.end_expired();
        watch.look(shared);
        if retried.elapsed() > RETRY {
            // What kept a pool from being filled (a full disk, say) may have passed.
            shared.state().pools.broken.clear();
            retried = clock::now();
        }
        let (deficits, cold, doomed) = {
            let state = shared.state();
            let pools = &state.pools;
            (pools.deficits(), pools.cold_deficit(), pools.doomed.len() + pools.doomed_clones.len())
        };
        let waiting = deficits.iter().any(|deficit| deficit.waiting > 0);
        if deficits.is_empty() && cold.is_empty() && doomed == 0 {
            shared.wake.wait(IDLE);
        } else if !waiting && !wait_for_quiet(shared) {
            // Somebody began to wait, or the engine closes: look again.
        } else if doomed > DOOMED_MAX {
            reap(shared, REAP_SLICE);
        } else if let Some(deficit) = deficits.into_iter().next() {
            refill(shared, &deficit);
        } else if let Some((generation, missing)) = cold.into_iter().next() {
            make_cold(shared, &generation, missing);
        } else {
            reap(shared, REAP_SLICE);
        }
    }
    watch.end(shared);
}

/// Waits until no request has run for a moment; `false` if a create began to wait meanwhile.
fn wait_for_quiet(shared: &Shared) -> bool {
    let started = clock::now();
    loop {
        if shared.activity.quiet_for() >= QUIET || started.elapsed() > PATIENCE {
            return true;
        }
        if shared.is_wanted() {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Fills one pool. Creates that wait are served by a batch of their own first.
fn refill(shared: &Arc<Shared>, deficit: &Deficit) {
    let count = if deficit.waiting > 0 { deficit.waiting } else { deficit.hot } as usize;
    let (generation, mut volumes) = {
        let mut state = shared.state();
        let Some(generation) = state.pools.generations.get(&deficit.key.0).cloned() else { return };
        let volumes: Vec<String> =
            std::iter::from_fn(|| state.pools.take_cold(&generation)).take(count).collect();
        (generation, volumes)
    };
    let workshop = &shared.workshop;
    let policy = deficit.key.1;
    let started = clock::now();
    let mut report = RefillReport::default();
    let failures = Failures::default();
    let runtime = &shared.runtime;

    if let Err(error) = generation.check(&workshop.store) {
        failures.add(error);
    } else if shared.options.refill == Refill::Pipelined {
        let stock = Mutex::new(volumes);
        parallel(START_THREADS, (0..count).collect(), |_| {
            let cold = stock.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let made = cold.map_or_else(|| workshop.clone_snapshot(&generation), Ok).and_then(|volume| {
                let branch = start(workshop, &generation, policy, volume)?;
                connect(runtime, workshop, branch)
            });
            match made {
                Ok(branch) => shared.state().pools.offer(branch),
                Err(error) => failures.add(error),
            }
        });
    } else {
        let missing = count - volumes.len().min(count);
        volumes.extend(
            parallel(CLONE_THREADS, (0..missing).collect(), |_| {
                failures.keep(workshop.clone_snapshot(&generation))
            })
            .into_iter()
            .flatten(),
        );
        report.clone_ms = ms(started.elapsed());
        let mark = clock::now();
        let branches: Vec<Arc<Branch>> = parallel(START_THREADS, volumes, |volume| {
            failures.keep(start(workshop, &generation, policy, volume))
        })
        .into_iter()
        .flatten()
        .collect();
        report.start_ms = ms(mark.elapsed());
        let mark = clock::now();
        parallel(CONNECT_THREADS, branches, |branch| {
            if let Some(branch) = failures.keep(connect(runtime, workshop, branch)) {
                shared.state().pools.offer(branch);
            }
        });
        report.connect_ms = ms(mark.elapsed());
    }
    report.total_ms = ms(started.elapsed());
    finish(shared, &generation, count, failures, report);
}

fn finish(
    shared: &Shared,
    generation: &Generation,
    count: usize,
    failures: Failures,
    mut report: RefillReport,
) {
    let (failed, first) = failures.take();
    report.failed = u32::try_from(failed).unwrap_or(u32::MAX);
    report.branches = u32::try_from(count - failed.min(count)).unwrap_or(u32::MAX);
    let mut state = shared.state();
    if let Some(error) = first {
        tracing::error!(source = generation.source, failed, "the pool cannot be filled: {error}");
        report.first_error = Some(error.message.clone());
        state.pools.broken.insert(generation.source.clone(), error.message.clone());
        // Whoever waits is told now rather than at their deadline.
        state.fail_waiters(&generation.source);
    } else {
        state.pools.broken.remove(&generation.source);
    }
    state.reports.push_back(report);
    while state.reports.len() > REPORTS_MAX {
        state.reports.pop_front();
    }
}

fn make_cold(shared: &Arc<Shared>, generation: &Arc<Generation>, missing: u32) {
    let failures = Failures::default();
    if let Err(error) = generation.check(&shared.workshop.store) {
        failures.add(error);
    } else {
        let losses = shared.workshop.losses.load(Ordering::Acquire);
        let clones = parallel(CLONE_THREADS, (0..missing).collect(), |_| {
            failures.keep(shared.workshop.clone_snapshot(generation))
        });
        let mut state = shared.state();
        for volume in clones.into_iter().flatten() {
            let clone = ColdClone { generation: Arc::clone(generation), volume };
            if state.pools.losses != losses {
                state.pools.doomed_clones.push_back(clone);
                continue;
            }
            state.pools.cold.entry(generation.source.clone()).or_default().push(clone);
        }
    }
    let (_, first) = failures.take();
    if let Some(error) = first {
        tracing::error!(source = generation.source, "no cold clones: {error}");
        shared.state().pools.broken.insert(generation.source.clone(), error.message);
    }
}

/// The second step to a hot branch; on failure nothing of it is left.
fn start(
    workshop: &Workshop,
    generation: &Arc<Generation>,
    policy: crate::model::Policy,
    volume: String,
) -> Result<Arc<Branch>, EngineError> {
    let branch = Branch::new(workshop, Arc::clone(generation), policy, volume, None);
    branch.start().inspect_err(|_| branch.delete(workshop, false))?;
    branch.place_relation_cache();
    Ok(Arc::new(branch))
}

/// The third step.
fn connect(
    runtime: &tokio::runtime::Handle,
    workshop: &Workshop,
    branch: Arc<Branch>,
) -> Result<Arc<Branch>, EngineError> {
    runtime.block_on(branch.connect(true)).inspect_err(|_| branch.delete(workshop, false))?;
    Ok(branch)
}

/// Deletes up to `slice` doomed branches, two at a time.
fn reap(shared: &Arc<Shared>, slice: usize) {
    let (branches, clones, last) = {
        let mut state = shared.state();
        let count = state.pools.doomed.len().min(slice);
        let branches: Vec<(Arc<Branch>, bool)> = state.pools.doomed.drain(..count).collect();
        let clones: Vec<ColdClone> = state.pools.doomed_clones.drain(..).collect();
        state.pools.reaping = branches.len().max(1);
        (branches, clones, state.pools.doomed.is_empty())
    };
    parallel(2, branches, |(branch, keep_socket)| branch.delete(&shared.workshop, keep_socket));
    for clone in clones {
        shared.workshop.delete_volume(&clone.volume);
    }
    shared.remove_unused_generations();
    if last {
        // Freeing their space is work too, and belongs here rather than beside the next burst.
        let store = &shared.workshop.store;
        store.volumes.reclaim(&store.root);
        let started = clock::now();
        while store.volumes.reclaiming(&store.root)
            && started.elapsed() < RECLAIM_LIMIT
            && !shared.is_wanted()
        {
            thread::sleep(Duration::from_millis(5));
        }
    }
    // Only now do they count as gone: `settled` must not be true while a deletion runs.
    shared.state().pools.reaping = 0;
}

/// The first error of a batch, and how many there were.
#[derive(Debug, Default)]
struct Failures(Mutex<(usize, Option<EngineError>)>);

impl Failures {
    fn add(&self, error: EngineError) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.0 += 1;
        failures.1.get_or_insert(error);
    }

    fn keep<T>(&self, result: Result<T, EngineError>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    fn take(self) -> (usize, Option<EngineError>) {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `work` on every item with a few threads, and returns the results in the order of completion.
pub(crate) fn parallel<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(items.len());
    let slots: Vec<Mutex<Option<T>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(slots.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(item) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        let result = work(item);
                        results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tells when the last request ended.
#[derive(Debug)]
pub(crate) struct Activity {
    epoch: Instant,
    running: AtomicUsize,
    last_end_us: std::sync::atomic::AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity { epoch: clock::now(), running: AtomicUsize::new(0), last_end_us: 0.into() }
    }

    /// Marks a request as running until the guard is dropped.
    pub(crate) fn enter(&self) -> ActivityGuard<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        ActivityGuard(self)
    }

    fn quiet_for(&self) -> Duration {
        if self.running.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_micros(self.last_end_us.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(last)
    }
}

/// A running request.
#[derive(Debug)]
pub(crate) struct ActivityGuard<'a>(&'a Activity);

impl Drop for ActivityGuard<'_> {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.last_end_us.store(now, Ordering::Relaxed);
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Wakes the maintenance thread.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    asked: Mutex<bool>,
    changed: std::sync::Condvar,
}

impl Wake {
    pub(crate) fn wake(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    fn wait(&self, limit: Duration) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut asked, _) = self
            .changed
            .wait_timeout_while(asked, limit, |asked| !*asked)
            .unwrap_or_else(PoisonError::into_inner);
        *asked = false;
    }
}
