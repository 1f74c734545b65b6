//! A worker for each shard of a cluster, for as long as the shard is in the list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::list::Cluster;
use super::metrics::{merged, served};
use super::ClusterError;
#[cfg(feature = "otlp")]
use crate::worker::TraceSettings;
use crate::worker::{Monitor, Options, Worker, WorkerError, MEMORY_MIN};
use duramen_base::clock;
use duramen_postgres::connection::Target;

/// How often the list is read again: how long a new shard waits for its first worker.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The pauses between attempts to begin on a shard that cannot be reached, first and longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// How long the shards may take to begin before the worker counts as started with those that have.
const BEGIN_WITHIN: Duration = Duration::from_secs(20);
/// How long a shard that was taken out of the list may end what it runs.
const DRAIN_REMOVED: Duration = Duration::from_secs(30);

/// Where spans are sent, if they are.
#[derive(Clone, Default)]
struct Tracing {
    #[cfg(feature = "otlp")]
    settings: Option<TraceSettings>,
}

impl Tracing {
    /// Starts the worker of one shard.
    async fn start(&self, options: Options) -> Result<Worker, WorkerError> {
        #[cfg(feature = "otlp")]
        if let Some(settings) = &self.settings {
            return Worker::start_traced(options, settings.clone()).await;
        }
        Worker::start(options).await
    }
}

/// What is known of the worker of one shard.
#[derive(Default)]
struct State {
    monitor: Option<Arc<Monitor>>,
    /// Why it has not begun.
    failure: Option<String>,
}

/// The workers by the numbers of their shards.
type States = Arc<Mutex<BTreeMap<u16, State>>>;

/// One worker for each shard. What it has to give (places, memory) is divided among them when each begins, so that no shard waits
/// for another: each has lanes, places and memory of its own. A shard that cannot be reached hinders none, and is tried again.
pub struct ClusterWorker {
    states: States,
    stop: watch::Sender<Option<Duration>>,
    lead: JoinHandle<()>,
}

impl Drop for ClusterWorker {
    fn drop(&mut self) {
        // The tasks of the shards end with it, and their workers as if they were killed.
        self.lead.abort();
    }
}

impl ClusterWorker {
    /// Reads the list from the database of the options, and begins on each shard. It counts as started when a worker runs on one
    /// of them, and each of the others runs or was tried.
    ///
    /// # Errors
    /// [`ClusterError`]: the list cannot be read, or no worker can begin on any shard.
    pub async fn start(options: Options) -> Result<Self, ClusterError> {
        Self::begin(options, Tracing::default()).await
    }

    /// The same, and traces what it runs: each shard's worker sends its own spans.
    ///
    /// # Errors
    /// [`ClusterError`].
    #[cfg(feature = "otlp")]
    pub async fn start_traced(options: Options, traces: TraceSettings) -> Result<Self, ClusterError> {
        Self::begin(options, Tracing { settings: Some(traces) }).await
    }

    async fn begin(options: Options, tracing: Tracing) -> Result<Self, ClusterError> {
        let login = Target::parse(&options.url)?;
        let cluster = Cluster::owned(&login).await?;
        let states = States::default();
        let (stop, stopping) = watch::channel(None);
        let (tell, mut told) = mpsc::channel(1);
        let shards = cluster.served().count();
        let entry = login;
        let lead =
            Lead { options, tracing, entry, cluster, looks: 0, states: Arc::clone(&states), stopping, tell };
        let lead = tokio::spawn(lead.run());
        let worker = Self { states, stop, lead };
        let mut failed = None;
        let all_tried = async {
            for _ in 0..shards {
                match told.recv().await {
                    Some(Err(error)) => failed = Some(error),
                    Some(Ok(())) => {}
                    None => break,
                }
            }
        };
        let _ = timeout(BEGIN_WITHIN, all_tried).await;
        if worker.states.lock().values().all(|state| state.monitor.is_none()) {
            return Err(failed.unwrap_or(ClusterError::NoneOpen));
        }
        Ok(worker)
    }

    /// What an operator reads of it, also while it drains.
    #[must_use]
    pub fn monitor(&self) -> ClusterMonitor {
        ClusterMonitor { states: Arc::clone(&self.states), lead: self.lead.abort_handle() }
    }

    /// Begins nothing new on any shard, and waits for what runs, at most for `patience`.
    pub async fn drain(mut self, patience: Duration) {
        self.stop.send_replace(Some(patience));
        if let Err(error) = (&mut self.lead).await {
            tracing::error!(%error, "the worker has failed while it drained");
        }
    }
}

/// Reads the figures of the workers of a cluster.
#[derive(Clone)]
pub struct ClusterMonitor {
    states: States,
    lead: AbortHandle,
}

impl ClusterMonitor {
    fn monitors(&self) -> Vec<(u16, Arc<Monitor>)> {
        let states = self.states.lock();
        states
            .iter()
            .filter_map(|(number, state)| Some((*number, Arc::clone(state.monitor.as_ref()?))))
            .collect()
    }

    /// The figures of all workers in the text exposition format of Prometheus, each with a label `shard`.
    pub async fn prometheus(&self) -> String {
        let mut asked = JoinSet::new();
        for (number, monitor) in self.monitors() {
            asked.spawn(async move { (number, monitor.prometheus().await) });
        }
        let mut texts = asked.join_all().await;
        texts.sort_by_key(|(number, _)| *number);
        let mut text = merged(&texts);
        text.push_str(&served(&self.shards()));
        text
    }

    /// Which shards are served, and why those are not that are not: in the order of their numbers.
    #[must_use]
    pub fn shards(&self) -> Vec<(u16, Result<(), String>)> {
        let states = self.states.lock();
        let standing = |state: &State| match (&state.monitor, &state.failure) {
            (Some(monitor), _) => monitor.health().map_err(|reason| reason.to_string()),
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) => Err("it has not begun yet".to_owned()),
        };
        states.iter().map(|(number, state)| (*number, standing(state))).collect()
    }

    /// Whether every shard is served.
    ///
    /// # Errors
    /// Which are not, and why.
    pub fn health(&self) -> Result<(), String> {
        let ill: Vec<String> = self
            .shards()
            .into_iter()
            .filter_map(|(number, standing)| Some(format!("shard {number}: {}", standing.err()?)))
            .collect();
        if ill.is_empty() {
            Ok(())
        } else {
            Err(ill.join("; "))
        }
    }

    /// Whether the workers go on, whatever their databases do: what a supervisor restarts the program for.
    ///
    /// # Errors
    /// Which does not.
    pub fn motion(&self) -> Result<(), String> {
        if self.lead.is_finished() && !self.is_draining() {
            return Err("nobody looks after the shards any more".to_owned());
        }
        for (number, monitor) in self.monitors() {
            monitor.motion().map_err(|reason| format!("shard {number}: {reason}"))?;
        }
        Ok(())
    }

    /// Whether nothing new is begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        let monitors = self.monitors();
        !monitors.is_empty() && monitors.iter().all(|(_, monitor)| monitor.is_draining())
    }
}

/// The task that has a worker for each shard of the newest list.
struct Lead {
    options: Options,
    tracing: Tracing,
    /// The database that was given: what leads to others is believed from there.
    entry: Target,
    cluster: Cluster,
    looks: usize,
    states: States,
    stopping: watch::Receiver<Option<Duration>>,
    /// Hears how the first attempt on each shard went.
    tell: mpsc::Sender<Result<(), ClusterError>>,
}

/// The task of one shard.
struct Served {
    /// Ends it: how long it may take.
    stop: watch::Sender<Option<Duration>>,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lead {
    async fn run(mut self) {
        let mut served: BTreeMap<u16, Served> = BTreeMap::new();
        loop {
            self.serve(&mut served);
            tokio::select! {
                () = sleep(LOOK_EVERY) => {}
                _ = self.stopping.wait_for(Option::is_some) => break,
            }
            // Reading the list must not keep a worker from ending.
            let mut stopping = self.stopping.clone();
            tokio::select! {
                () = self.look() => {}
                _ = stopping.wait_for(Option::is_some) => break,
            }
        }
        let patience = *self.stopping.borrow();
        for served in served.values() {
            served.stop.send_replace(patience);
        }
        for served in served.values_mut() {
            if let Err(error) = (&mut served.task).await {
                tracing::error!(%error, "the worker of a shard has failed while it drained");
            }
        }
    }

    /// Begins on shards that are new, and ends on those that were removed.
    fn serve(&self, served: &mut BTreeMap<u16, Served>) {
        let shards: Vec<_> = self.cluster.served().collect();
        served.retain(|number, running| {
            if shards.iter().any(|shard| shard.number == *number) {
                return true;
            }
            running.stop.send_replace(Some(DRAIN_REMOVED));
            // Until its task has ended by itself.
            let ended = running.task.is_finished();
            if ended {
                self.states.lock().remove(number);
            }
            !ended
        });
        for shard in &shards {
            // A task that has failed is begun anew: a defect that one shard meets must not stop it for good.
            if served.get(&shard.number).is_some_and(|running| !running.task.is_finished()) {
                continue;
            }
            let options = share(&self.options, shards.len());
            self.states.lock().insert(shard.number, State::default());
            let (stop, stopping) = watch::channel(None);
            let one = One {
                number: shard.number,
                cluster: self.cluster.id().to_owned(),
                target: self.cluster.target_of(shard).map_err(|error| error.to_string()),
                options,
                tracing: self.tracing.clone(),
                states: Arc::clone(&self.states),
            };
            let task = tokio::spawn(one.serve(stopping, self.tell.clone()));
            served.insert(shard.number, Served { stop, task });
        }
    }

    /// Reads the list again, each time from another shard, so that one that has missed a change is found: from the next one in
    /// turn while that one does not answer. What is new there counts if the database that the worker was given says so, too: who owns
    /// one shard must not lead the worker, and whoever it tells, anywhere.
    async fn look(&mut self) {
        let mut places: Vec<(u16, Target)> = self
            .cluster
            .served()
            .filter_map(|shard| Some((shard.number, self.cluster.target_of(shard).ok()?)))
            .collect();
        self.looks = self.looks.wrapping_add(1);
        let next = self.looks % places.len().max(1);
        places.rotate_left(next);
        for (number, place) in places {
            match Cluster::owned(&place).await {
                Ok(read) if read.id() != self.cluster.id() => {
                    tracing::error!(place = place.describe(), "a shard says that it is of another cluster");
                }
                Ok(read) if read.version() > self.cluster.version() => {
                    if number == self.cluster.here() {
                        self.changed(read).await;
                    } else {
                        self.confirm(number, read.version()).await;
                    }
                    return;
                }
                Ok(read) if read.version() == self.cluster.version() => {
                    if read.shards() != self.cluster.shards() {
                        tracing::error!(
                            place = place.describe(),
                            "a shard has another list of the same version"
                        );
                    }
                    return;
                }
                // It was not told yet: this one is newer.
                Ok(_) | Err(ClusterError::Unlisted { .. }) => {
                    drop(self.cluster.spread().await);
                    return;
                }
                Err(error) => tracing::warn!(%error, "the list of shards cannot be read here"),
            }
        }
    }

    /// Another shard has a newer list: whether the database that the worker was given has it, too.
    async fn confirm(&mut self, number: u16, version: i64) {
        match Cluster::owned(&self.entry).await {
            Ok(read) if read.id() == self.cluster.id() && read.version() > self.cluster.version() => {
                self.changed(read).await;
            }
            Ok(_) => tracing::error!(
                shard = number,
                version,
                "a shard has a newer list than the database that this worker was given, and is not believed: see `duramen fn cluster believe`"
            ),
            Err(error) => tracing::warn!(%error, "a shard has a newer list, which waits until it can be confirmed"),
        }
    }

    async fn changed(&mut self, read: Cluster) {
        tracing::info!(version = read.version(), "the list of shards has changed");
        self.cluster = self.cluster.clone().with_list_of(read);
        // Those that did not answer when it was decided.
        drop(self.cluster.spread().await);
    }
}

/// What one shard of so many is given.
fn share(options: &Options, shards: usize) -> Options {
    let part = |whole: usize| whole.div_ceil(shards.max(1)).max(1);
    Options {
        connections: part(options.connections),
        memory: (options.memory / shards.max(1)).max(MEMORY_MIN),
        ..options.clone()
    }
}

/// The worker of one shard, until it is to stop.
struct One {
    number: u16,
    cluster: String,
    /// Where it is, or why that cannot be said.
    target: Result<Target, String>,
    options: Options,
    tracing: Tracing,
    states: States,
}

impl One {
    /// A worker that has begun finds its way back by itself; one that cannot begin is tried again.
    async fn serve(
        self,
        mut stopping: watch::Receiver<Option<Duration>>,
        tell: mpsc::Sender<Result<(), ClusterError>>,
    ) {
        let mut pause = RETRY.0;
        let mut first = Some(tell);
        let began = clock::now();
        loop {
            let begun = tokio::select! {
                begun = self.begin() => begun,
                _ = stopping.wait_for(Option::is_some) => return,
            };
            match begun {
                Ok(worker) => {
                    tracing::info!(shard = self.number, after = ?began.elapsed(), "the shard is served");
                    let state = State { monitor: Some(Arc::new(worker.monitor())), failure: None };
                    self.states.lock().insert(self.number, state);
                    if let Some(tell) = first.take() {
                        // Nobody may be listening any more.
                        drop(tell.send(Ok(())).await);
                    }
                    let patience = match stopping.wait_for(Option::is_some).await {
                        Ok(patience) => patience.unwrap_or_default(),
                        Err(_) => return,
                    };
                    worker.drain(patience).await;
                    return;
                }
                Err(error) => {
                    tracing::warn!(shard = self.number, %error, "a worker cannot begin on this shard, and tries again");
                    self.states.lock().entry(self.number).or_default().failure = Some(error.to_string());
                    if let Some(tell) = first.take() {
                        drop(tell.send(Err(error)).await);
                    }
                }
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = stopping.wait_for(Option::is_some) => return,
            }
            pause = (pause * 2).min(RETRY.1);
        }
    }

    /// Begins, if it is the shard that the list means. What was made ready for the list is it, too.
    async fn begin(&self) -> Result<Worker, ClusterError> {
        let said = |cause: &String| ClusterError::Server {
            target: format!("shard {}", self.number),
            cause: cause.clone(),
        };
        let target = self.target.as_ref().map_err(said)?;
        let (id, number) = match Cluster::owned(target).await {
            Ok(there) => (Some(there.id().to_owned()), there.here()),
            Err(ClusterError::Unlisted { number, .. }) => (None, number),
            Err(error) => return Err(error),
        };
        if number != self.number || id.is_some_and(|id| id != self.cluster) {
            return Err(ClusterError::Elsewhere { number: self.number, target: target.describe() });
        }
        let options = Options { url: target.exposed(), ..self.options.clone() };
        Ok(self.tracing.start(options).await?)
    }
}
