//! The engine of one home directory: its opening and closing.

use crate::{
    error::{EngineError, HomeError, Kind},
    interrupt::{Interrupt, Reason},
    journal::CLEAN,
    limits, maintenance,
    model::Status,
    parallel::parallel,
    recovery,
    registry::Drained,
    shared::{OpenOptions, Shared},
};
use duramen_base::clock;
use duramen_postgres::{end_processes, processes_below};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{atomic::Ordering, Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

/// How often ending imports is tried.
const IMPORT_TRIES: u32 = 100;
/// How long closing waits for resets that run.
const RESET_LIMIT: Duration = Duration::from_secs(30);
/// How often unmounting is tried while processes end.
const UNMOUNT_TRIES: u32 = 50;

/// Sources, pool and leases of one home directory. One process at a time may open a home.
#[derive(Debug)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// Imports and other changes of sources happen one at a time.
    pub(crate) sources_lock: tokio::sync::Mutex<()>,
    /// Generations are brought from other nodes one at a time.
    pub(crate) copies_lock: tokio::sync::Mutex<()>,
    /// The highest number that was given to a generation of a source of the fleet, by its id.
    pub(crate) counted: Mutex<BTreeMap<String, u32>>,
    /// Gives up the imports that run or wait.
    pub(crate) imports: Mutex<Vec<Interrupt>>,
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
        let shared = tokio::task::spawn_blocking(move || recovery::open(&options, runtime))
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
            copies_lock: tokio::sync::Mutex::new(()),
            counted: Mutex::default(),
            imports: Mutex::new(Vec::new()),
            maintenance: Mutex::new(Some(thread)),
        }))
    }

    /// The engine's state in figures.
    #[must_use]
    pub fn status(&self) -> Status {
        let environment = &self.shared.environment;
        let limits = limits::machine(environment, self.shared.capacity().leases);
        let mut status = self.shared.registry.status(&environment.store, limits);
        status.warnings.extend(self.shared.left_at_origins.warnings());
        status
    }

    /// Stops everything in order: the pool is destroyed, leased branches are stopped cleanly (they come back with
    /// the next open), the volume store is unmounted.
    ///
    /// # Errors
    /// When the volume store stays mounted; everything else has been stopped by then.
    pub async fn close(&self) -> Result<(), EngineError> {
        self.end(Leased::Stopped).await
    }

    /// Ends as [`Engine::close`] does, but leaves the servers of leased branches running, with the sessions of their
    /// holders, and the volume store mounted: for another process that opens the home next and adopts them.
    ///
    /// # Errors
    /// When the process could not wait for what it ends.
    pub async fn hand_over(&self) -> Result<(), EngineError> {
        self.end(Leased::Running).await
    }

    async fn end(&self, leased: Leased) -> Result<(), EngineError> {
        self.end_imports().await;
        let shared = Arc::clone(&self.shared);
        let thread = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner).take();
        shared.closing.store(true, Ordering::Release);
        shared.wake.wake();
        tokio::task::spawn_blocking(move || {
            if let Some(thread) = thread {
                if thread.join().is_err() {
                    tracing::error!("the maintenance thread had panicked; closing goes on without it");
                }
            }
            close(&shared, leased)
        })
        .await
        .map_err(|error| EngineError::new(Kind::Failed, "close_failed", error.to_string()))?
    }
}

impl Engine {
    /// Ends imports, their programs first: nothing may work in the volume store when it is unmounted.
    async fn end_imports(&self) {
        for import in self.imports.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            import.give(Reason::Stopping);
        }
        let places = self.shared.environment.import_places();
        for _ in 0..IMPORT_TRIES {
            let is_idle = self.sources_lock.try_lock().is_ok() && self.copies_lock.try_lock().is_ok();
            if is_idle && places.iter().all(|it| processes_below(it).is_empty()) {
                return;
            }
            let places = places.clone();
            // Whether it worked is looked at in the next round.
            let end = move || places.map(|place| end_processes(&processes_below(&place), &place));
            let _ = tokio::task::spawn_blocking(end).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tracing::warn!("an import could not be ended; the next start sweeps what it leaves");
    }
}

/// What becomes of leased branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leased {
    /// Their servers are stopped with a checkpoint.
    Stopped,
    /// They go on.
    Running,
}

fn close(shared: &Shared, how: Leased) -> Result<(), EngineError> {
    // RS2: whichever way this ends, no pair outlives it.
    shared.pairs.close();
    // What a reset makes after this is looked at would be nobody's. New ones are refused by now.
    let begin = clock::now();
    while shared.registry.is_resetting() && begin.elapsed() < RESET_LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let Drained { retired, clones, volumes, leased, sources } = shared.registry.drain();
    for volume in clones.into_iter().map(|clone| clone.volume).chain(volumes) {
        shared.environment.delete_volume(&volume);
    }
    parallel(4, retired, |retired| shared.delete(&retired));
    let running = if how == Leased::Running { leased.len() } else { 0 };
    let stopped = if how == Leased::Stopped { leased } else { Vec::new() };
    parallel(4, stopped, |(record, branch)| {
        branch.stop();
        let name = record.name.clone();
        // Stopped cleanly, its files are whole whatever happens to the machine next.
        if let Err(error) = shared.registry.note_stopped(record, CLEAN) {
            tracing::error!(%error, branch = name, "the stopped branch may be taken for lost");
        }
    });
    if how == Leased::Stopped {
        // The volume store is flushed when it is unmounted, and nothing writes to a snapshot after.
        if let Err(error) = shared.registry.note_snapshots_flushed(CLEAN) {
            tracing::error!(%error, "snapshots of branches may be taken for lost");
        }
    }
    shared.note_statements();
    shared.note_histories();
    shared.stop_following();
    for source in sources {
        if let Some(sample) = shared.sample_server(&source) {
            sample.stop();
        }
    }
    // Servers that go on stay in their groups.
    if let (Ok(groups), Leased::Stopped) = (&*shared.environment.groups, how) {
        groups.sweep(&HashSet::new());
        groups.close();
    }
    let home = &shared.environment.home;
    if !home.sockets().starts_with(home.root()) {
        // Outside the home nothing is left, unless leased branches have their sockets there.
        let _ = std::fs::remove_dir(home.sockets());
    }
    if let Err(error) =
        shared.audit.append("closed", serde_json::json!({ "running": running })).and_then(|()| {
            shared
                .audit
                .sync()
                .map_err(|error| crate::files::io_error("flush", &shared.environment.home.audit(), &error))
        })
    {
        tracing::error!(%error, "the audit log was not closed");
    }
    if how == Leased::Running {
        return Ok(());
    }
    let mut tries = 0;
    loop {
        match shared.environment.store.close() {
            Ok(()) => return Ok(()),
            Err(error) if tries >= UNMOUNT_TRIES => return Err(HomeError::StillMounted(error).into()),
            Err(_) => tries += 1,
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
