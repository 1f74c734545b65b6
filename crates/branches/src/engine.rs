//! The engine of one home directory: what every operation shares, and its opening and closing.

use crate::{
    audit::Audit,
    branch::{Branch, Workshop},
    error::{EngineError, Kind},
    home::{self, Home, Passage},
    journal::{Journal, LeaseRecord},
    maintenance::{self, Activity, Wake},
    model::{Policy, PoolView, Refill, RefillReport, Status},
    pool::Pools,
    query::Burst,
    recovery,
    source::manifest::SourceRecord,
    watch::Marker,
};
use duramen_measure::clock;
use duramen_postgres::{end_processes, processes_below, volume, ServerUser};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A loop-backed volume store takes at most this much, unless it is told otherwise.
const VOLUME_SIZE_MAX: u64 = 32 << 30;
/// How often ending imports is tried.
const IMPORT_TRIES: u32 = 100;
/// How long closing waits for resets that run.
const RESET_LIMIT: Duration = Duration::from_secs(30);
/// How often unmounting is tried while processes end.
const UNMOUNT_TRIES: u32 = 50;

/// How an engine is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The home directory; made if missing.
    pub home: PathBuf,
    /// How volumes are cloned.
    pub volumes: volume::Choice,
    /// Size of the loop-backed volume store, if one has to be made, all of which is allocated at once. `None`: a quarter
    /// of the free disk, at most 32 GiB.
    pub volume_size: Option<u64>,
    /// How the pool is refilled.
    pub refill: Refill,
}

/// A lease that is held.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) record: LeaseRecord,
    pub(crate) branch: Arc<Branch>,
    /// Why its branch does not work, if it does not.
    pub(crate) problem: Option<String>,
    /// Whether a reset replaces its branch right now.
    pub(crate) resetting: bool,
}

/// Everything that changes, under one lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) leases: HashMap<String, Lease>,
    pub(crate) pools: Pools,
    pub(crate) sources: BTreeMap<String, SourceRecord>,
    pub(crate) reports: VecDeque<RefillReport>,
    pub(crate) next_ticket: u64,
    /// What the operator has to look at.
    pub(crate) warnings: Vec<String>,
}

impl State {
    /// Lets every create that waits for a source fail now: their channels close.
    pub(crate) fn fail_waiters(&mut self, source: &str) {
        for (key, pool) in &mut self.pools.pools {
            if key.0 == source {
                pool.waiters.clear();
            }
        }
    }
}

/// What the operations and the maintenance thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: OpenOptions,
    pub(crate) workshop: Workshop,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) journal: Journal,
    pub(crate) marker: Marker,
    pub(crate) opened: Instant,
    /// When creates last looked for lost writes, in milliseconds after `opened`.
    pub(crate) looked_ms: AtomicU64,
    pub(crate) audit: Audit,
    pub(crate) activity: Activity,
    pub(crate) burst: Burst,
    pub(crate) wake: Wake,
    pub(crate) closing: AtomicBool,
    pub(crate) boot: String,
    state: Mutex<State>,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the maintenance thread has something more urgent to do than what it is at: a create waits, or the
    /// engine closes.
    pub(crate) fn is_wanted(&self) -> bool {
        self.closing.load(Ordering::Acquire)
            || self.state().pools.pools.values().any(|pool| !pool.waiters.is_empty())
    }

    pub(crate) fn audit(&self, event: &str, details: impl serde::Serialize) -> Result<(), EngineError> {
        self.audit.append(event, details)
    }
}

/// Sources, pool and leases of one home directory. One process at a time may open a home.
#[derive(Debug)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// Imports and other changes of sources happen one at a time.
    pub(crate) sources_lock: tokio::sync::Mutex<()>,
    /// Imports that run or wait.
    pub(crate) imports: Mutex<Vec<tokio::task::AbortHandle>>,
    maintenance: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Opens a home directory: adopts the branches that are leased, sweeps what an earlier process left half-made,
    /// and begins to fill the pools. Must be called inside a tokio runtime with several threads.
    ///
    /// # Errors
    /// When the home cannot be used; the message says what to do.
    pub async fn open(options: OpenOptions) -> Result<Arc<Engine>, EngineError> {
        let runtime = tokio::runtime::Handle::current();
        let shared = tokio::task::spawn_blocking(move || recovery::open(options, runtime))
            .await
            .map_err(|error| EngineError::new(Kind::Failed, "open_failed", error.to_string()))??;
        let shared = Arc::new(shared);
        let thread = std::thread::Builder::new()
            .name("maintenance".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || maintenance::run(&shared)
            })
            .map_err(|error| EngineError::new(Kind::Failed, "open_failed", error.to_string()))?;
        Ok(Arc::new(Engine {
            shared,
            sources_lock: tokio::sync::Mutex::new(()),
            imports: Mutex::new(Vec::new()),
            maintenance: Mutex::new(Some(thread)),
        }))
    }

    pub(crate) fn assemble(
        options: OpenOptions,
        workshop: Workshop,
        runtime: tokio::runtime::Handle,
        (journal, marker): (Journal, Marker),
        audit: Audit,
        boot: String,
        state: State,
    ) -> Shared {
        Shared {
            options,
            workshop,
            runtime,
            journal,
            marker,
            opened: clock::now(),
            looked_ms: AtomicU64::new(0),
            audit,
            activity: Activity::new(),
            burst: Burst::new(),
            wake: Wake::default(),
            closing: AtomicBool::new(false),
            boot,
            state: Mutex::new(state),
        }
    }

    /// The engine's state in figures.
    #[must_use]
    pub fn status(&self) -> Status {
        let store = &self.shared.workshop.store;
        let state = self.shared.state();
        let mut pools = Vec::new();
        for source in state.pools.generations.keys() {
            for policy in Policy::ALL {
                let pool = state.pools.pools.get(&(source.clone(), policy));
                let hot = pool.map_or(0, |pool| pool.hot.len());
                let waiting = pool.map_or(0, |pool| pool.waiters.len());
                let target = state.pools.target(source, policy);
                if hot + waiting + target > 0 {
                    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
                    pools.push(PoolView {
                        source: source.clone(),
                        policy,
                        hot: count(hot),
                        target: count(target),
                        waiting: count(waiting),
                    });
                }
            }
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            volumes: store.volumes.kind(),
            volumes_reason: store.reason.clone(),
            degraded: store.volumes.kind() == volume::Kind::Copy,
            pools,
            cold: count(state.pools.cold.values().map(Vec::len).sum()),
            leases: count(state.leases.len()),
            to_delete: count(
                state.pools.doomed.len() + state.pools.reaping + state.pools.doomed_clones.len(),
            ),
            settled: state.pools.settled(),
            refills: state.reports.iter().cloned().collect(),
            pool_error: state.pools.broken.values().next().cloned(),
            warnings: warnings(&state, store),
        }
    }

    /// Stops everything in order: the pool is destroyed, leased branches are stopped cleanly (they come back with
    /// the next open), the volume store is unmounted.
    ///
    /// # Errors
    /// When the volume store stays mounted; everything else has been stopped by then.
    pub async fn close(&self) -> Result<(), EngineError> {
        self.end_imports().await;
        let shared = Arc::clone(&self.shared);
        let thread = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner).take();
        shared.closing.store(true, Ordering::Release);
        shared.wake.wake();
        tokio::task::spawn_blocking(move || {
            if let Some(thread) = thread {
                let _ = thread.join();
            }
            close(&shared)
        })
        .await
        .map_err(|error| EngineError::new(Kind::Failed, "close_failed", error.to_string()))?
    }
}

impl Engine {
    /// Ends imports, their programs first: nothing may work in the volume store when it is unmounted.
    async fn end_imports(&self) {
        for import in self.imports.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            import.abort();
        }
        let imports = self.shared.workshop.store.root.join("imports");
        for _ in 0..IMPORT_TRIES {
            if self.sources_lock.try_lock().is_ok() && processes_below(&imports).is_empty() {
                return;
            }
            let imports = imports.clone();
            let _ = tokio::task::spawn_blocking(move || end_processes(&processes_below(&imports), &imports))
                .await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tracing::warn!("an import could not be ended; the next start sweeps what it leaves");
    }
}

fn close(shared: &Shared) -> Result<(), EngineError> {
    // What a reset makes after this is looked at would be nobody's. New ones are refused by now.
    let begin = clock::now();
    while shared.state().leases.values().any(|lease| lease.resetting) && begin.elapsed() < RESET_LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (going, leased, sources) = {
        let mut state = shared.state();
        let sources: Vec<String> = state.sources.keys().cloned().collect();
        for source in &sources {
            state.fail_waiters(source);
            state.pools.drain(source);
        }
        let clones: Vec<_> = state.pools.doomed_clones.drain(..).collect();
        for clone in clones {
            shared.workshop.delete_volume(&clone.volume);
        }
        let going: Vec<_> = state.pools.doomed.drain(..).collect();
        let leased: Vec<_> =
            state.leases.values().map(|lease| (lease.record.clone(), Arc::clone(&lease.branch))).collect();
        (going, leased, sources)
    };
    maintenance::parallel(4, going, |(branch, keep_socket)| branch.delete(&shared.workshop, keep_socket));
    maintenance::parallel(4, leased, |(mut record, branch)| {
        branch.stop();
        // Stopped cleanly, its files are whole whatever happens to the machine next.
        record.boot = recovery::CLEAN.to_owned();
        if let Err(error) = shared.journal.put(&record) {
            tracing::error!(%error, branch = record.name, "the stopped branch may be taken for lost");
        }
    });
    for source in sources {
        if let Some(sample) = shared.sample_server(&source) {
            sample.stop();
        }
    }
    let home = &shared.workshop.home;
    if !home.sockets().starts_with(home.root()) {
        // Outside the home nothing is left, unless leased branches have their sockets there.
        let _ = std::fs::remove_dir(home.sockets());
    }
    if let Err(error) = shared.audit.append("closed", serde_json::json!({})).and_then(|()| {
        shared
            .audit
            .sync()
            .map_err(|error| crate::home::io_error("flush", &shared.workshop.home.audit(), &error))
    }) {
        tracing::error!(%error, "the audit log was not closed");
    }
    let mut tries = 0;
    loop {
        match shared.workshop.store.close() {
            Ok(()) => return Ok(()),
            Err(error) if tries >= UNMOUNT_TRIES => {
                return Err(EngineError::new(Kind::Failed, "still_mounted", error.to_string()))
            }
            Err(_) => tries += 1,
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What the operator has to look at.
fn warnings(state: &State, store: &volume::Store) -> Vec<String> {
    let mut warnings = state.warnings.clone();
    let failed = state.leases.values().filter(|lease| lease.record.problem.is_some()).count();
    if failed > 0 {
        warnings.push(format!(
            "writes to the volume store were lost, and {failed} branches may lack what they acknowledged; make room on the disk, then reset or destroy them"
        ));
    }
    let missing = store.unallocated_bytes();
    if missing > 0 {
        warnings.push(format!(
            "{} MiB of the volume store are not allocated on the disk below it, and a full disk would lose writes of branches; make room and restart the daemon",
            missing >> 20
        ));
    }
    warnings
}

/// The size of a volume store that has to be made.
pub(crate) fn volume_size(options: &OpenOptions) -> u64 {
    options.volume_size.unwrap_or_else(|| {
        let free = volume::free_bytes(&options.home).unwrap_or(0);
        (free / 4).min(VOLUME_SIZE_MAX)
    })
}

/// The places of an engine, opened.
pub(crate) fn workshop(options: &OpenOptions) -> Result<Workshop, EngineError> {
    let user = ServerUser::current()
        .map_err(|error| EngineError::new(Kind::Failed, "no_server_user", error.to_string()))?;
    let home = Home::open(&options.home, &user)?;
    let store = volume::open(home.root(), options.volumes, volume_size(options))
        .map_err(|error| EngineError::new(Kind::Failed, "no_volumes", error.to_string()))?;
    // Mounting put another directory in its place.
    home::make_dir(&store.root, Passage::Servers, &user)?;
    Ok(Workshop { losses: Arc::default(), home, store: Arc::new(store), user })
}
