//! The one thread that makes and deletes branches.
//!
//! It works in slices and looks up between them: creates that wait come first, then full pools, then the deletion
//! of what is retired. While requests are being served it holds still, unless somebody waits for it: a refill that
//! runs beside a burst of queries slows both.

use crate::{
    branch::{Branch, SocketDir},
    environment::Environment,
    error::EngineError,
    generation::Generation,
    model::{Policy, Refill, RefillReport, RefillSettings},
    parallel::parallel,
    registry::{counted, Deficit, Retired, Work},
    shared::Shared,
    watch::Watch,
};
use duramen_base::clock::{self, ms};
use std::{
    sync::{atomic::Ordering, Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Requests must have been absent this long before unasked-for work begins.
const QUIET: Duration = Duration::from_millis(15);
/// However busy the callers are, work is put off no longer than this.
const PATIENCE: Duration = Duration::from_secs(2);
/// With more retired branches than this, deletion comes before refilling: they hold memory.
const RETIRED_MAX: usize = 400;
/// How many branches are deleted before the thread looks up again.
const REAP_SLICE: usize = 16;
/// How long the thread sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_millis(500);
/// How long the thread waits for freed space at most.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);
/// How often a pool that could not be filled is tried again.
const RETRY: Duration = Duration::from_secs(60);

/// Runs until the engine closes.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut retried = clock::now();
    let mut watch = Watch::new();
    while !shared.closing.load(Ordering::Acquire) {
        shared.end_expired();
        watch.look(shared);
        if retried.elapsed() > RETRY {
            // What kept a pool from being filled (a full disk, say) may have passed.
            shared.registry.clear_broken();
            retried = clock::now();
        }
        let Work { deficits, cold, retired } = shared.registry.work();
        let waiting = deficits.iter().any(|deficit| deficit.waiting > 0);
        if deficits.is_empty() && cold.is_empty() && retired == 0 {
            if !wait_for_quiet(shared) || !shared.make_spares() {
                shared.wake.wait(IDLE);
            }
        } else if !waiting && !wait_for_quiet(shared) {
            // Somebody began to wait, or the engine closes: look again.
        } else if retired > RETIRED_MAX {
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
    let Some((generation, mut volumes)) = shared.registry.take_cold(&deficit.key.0, count) else { return };
    let environment = &shared.environment;
    let policy = deficit.key.1;
    let started = clock::now();
    let mut report = RefillReport::default();
    let failures = Failures::default();
    let runtime = &shared.runtime;
    let settings = shared.registry.settings(&generation.source).refill;
    let (starts, connects) = (
        threads(settings.starts, RefillSettings::STARTS),
        threads(settings.connects, RefillSettings::CONNECTS),
    );

    if let Err(error) = generation.check(&environment.store) {
        failures.add(error);
    } else if settings.way == Some(Refill::Pipelined) {
        let stock = Mutex::new(volumes);
        parallel(starts, (0..count).collect(), |_| {
            let cold = stock.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let made = cold.map_or_else(|| environment.clone_snapshot(&generation), Ok).and_then(|volume| {
                let branch = start(environment, &generation, policy, volume)?;
                connect(runtime, environment, branch)
            });
            match made {
                Ok(branch) => shared.registry.offer(branch),
                Err(error) => failures.add(error),
            }
        });
    } else {
        let missing = count - volumes.len().min(count);
        volumes.extend(
            parallel(threads(settings.clones, RefillSettings::CLONES), (0..missing).collect(), |_| {
                failures.keep(environment.clone_snapshot(&generation))
            })
            .into_iter()
            .flatten(),
        );
        report.clone_ms = ms(started.elapsed());
        let mark = clock::now();
        let branches: Vec<Arc<Branch>> = parallel(starts, volumes, |volume| {
            failures.keep(start(environment, &generation, policy, volume))
        })
        .into_iter()
        .flatten()
        .collect();
        report.start_ms = ms(mark.elapsed());
        let mark = clock::now();
        parallel(connects, branches, |branch| {
            if let Some(branch) = failures.keep(connect(runtime, environment, branch)) {
                shared.registry.offer(branch);
            }
        });
        report.connect_ms = ms(mark.elapsed());
    }
    report.total_ms = ms(started.elapsed());
    finish(shared, &generation, policy, count, failures, report);
}

fn threads(wanted: Option<u32>, usual: u32) -> usize {
    wanted.unwrap_or(usual) as usize
}

fn finish(
    shared: &Shared,
    generation: &Generation,
    policy: Policy,
    count: usize,
    failures: Failures,
    mut report: RefillReport,
) {
    let (failed, first) = failures.take();
    counted(&mut report, count, failed);
    if let Some(error) = &first {
        tracing::error!(source = generation.source, failed, "the pool cannot be filled: {error}");
    }
    shared.metrics.refilled(&generation.source, &report);
    shared.registry.note_refill(&generation.source, policy, report, first.as_ref());
}

fn make_cold(shared: &Arc<Shared>, generation: &Arc<Generation>, missing: u32) {
    let failures = Failures::default();
    if let Err(error) = generation.check(&shared.environment.store) {
        failures.add(error);
    } else {
        let losses = shared.environment.losses.load(Ordering::Acquire);
        let settings = shared.registry.settings(&generation.source).refill;
        let clones =
            parallel(threads(settings.clones, RefillSettings::CLONES), (0..missing).collect(), |_| {
                failures.keep(shared.environment.clone_snapshot(generation))
            });
        shared.registry.put_cold(generation, clones.into_iter().flatten().collect(), losses);
    }
    let (_, first) = failures.take();
    if let Some(error) = first {
        tracing::error!(source = generation.source, "no cold clones: {error}");
        shared.registry.mark_broken(&generation.source, error.message);
    }
}

/// The second step to a hot branch; on failure nothing of it is left.
fn start(
    environment: &Environment,
    generation: &Arc<Generation>,
    policy: Policy,
    volume: String,
) -> Result<Arc<Branch>, EngineError> {
    let branch = Branch::new(environment, Arc::clone(generation), policy, volume, None);
    branch.start().inspect_err(|_| branch.delete(environment, SocketDir::Remove))?;
    branch.place_relation_cache();
    Ok(Arc::new(branch))
}

/// The third step.
fn connect(
    runtime: &tokio::runtime::Handle,
    environment: &Environment,
    branch: Arc<Branch>,
) -> Result<Arc<Branch>, EngineError> {
    runtime.block_on(branch.connect(true)).inspect_err(|_| branch.delete(environment, SocketDir::Remove))?;
    Ok(branch)
}

/// Deletes up to `slice` retired branches, two at a time.
fn reap(shared: &Arc<Shared>, slice: usize) {
    let (branches, volumes, last) = shared.registry.take_retired(slice);
    parallel(2, branches, |retired| shared.delete(&retired));
    for volume in volumes {
        shared.environment.delete_volume(&volume);
    }
    shared.remove_unused_generations();
    if last {
        shared.remove_unused_users();
        // Freeing their space is work too, and belongs here rather than beside the next burst.
        let store = &shared.environment.store;
        store.volumes.reclaim(&store.root);
        let started = clock::now();
        while store.volumes.reclaiming(&store.root)
            && started.elapsed() < RECLAIM_LIMIT
            && !shared.is_wanted()
        {
            thread::sleep(Duration::from_millis(5));
        }
        shared.environment.sweep_quotas();
    }
    // Only now do they count as gone: `settled` must not be true while a deletion runs.
    shared.registry.reaped();
}

impl Shared {
    /// Ends a branch that nobody has any more, and deletes it. Blocks.
    pub(crate) fn delete(&self, retired: &Retired) {
        let branch = &retired.branch;
        if branch.generation.audits_statements {
            // S2: what it ran last is read before its log goes.
            branch.kill();
            self.end_statements(&branch.volume);
        }
        branch.delete(&self.environment, retired.socket);
    }
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
