//! The closed loop: clients that wait for themselves.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{Call, LoadError, Sample};
use crate::histogram::LatencyHistogram;
use duramen_base::clock;

/// What a closed loop did.
#[derive(Clone, Debug)]
pub struct ClosedRun<T> {
    /// Every operation, by client and, within a client, in order.
    pub samples: Vec<Sample<T>>,
    /// From the release of the clients to the end of the last operation.
    pub elapsed: Duration,
}

impl<T> ClosedRun<T> {
    /// The latencies of all operations.
    pub fn latencies(&self) -> LatencyHistogram {
        self.samples.iter().map(|sample| sample.latency).collect()
    }

    /// How many operations ended per second.
    pub fn throughput_per_s(&self) -> f64 {
        self.samples.len() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Runs `ops` operations on each of `clients` clients, which one barrier releases together. Each client awaits an
/// operation before it starts the next.
///
/// There is no other limit on the time than what `op` sets itself.
///
/// # Errors
/// Without clients, or when an operation panicked; the other clients are then stopped.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let run = duramen_measure::load::closed_loop(4, 10, |call| async move { call.index }).await?;
/// assert_eq!(run.samples.len(), 40);
/// # Ok::<(), duramen_measure::load::LoadError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn closed_loop<F, R, T>(clients: usize, ops: u64, op: F) -> Result<ClosedRun<T>, LoadError>
where
    F: Fn(Call) -> R + Send + Sync + 'static,
    R: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let op = Arc::new(op);
    closed_loop_with(vec![(); clients], ops, move |(), call| {
        let result = op(call);
        async move { ((), result.await) }
    })
    .await
}

/// Like [`closed_loop`], with a state of its own for each client, such as a connection, which is made before the
/// run. An operation takes the state and gives it back with its output.
///
/// # Errors
/// Without states, or when an operation panicked; the other clients are then stopped.
pub async fn closed_loop_with<S, F, R, T>(states: Vec<S>, ops: u64, op: F) -> Result<ClosedRun<T>, LoadError>
where
    S: Send + 'static,
    F: Fn(S, Call) -> R + Send + Sync + 'static,
    R: Future<Output = (S, T)> + Send + 'static,
    T: Send + 'static,
{
    if states.is_empty() {
        return Err(LoadError::Nobody);
    }
    let barrier = Arc::new(Barrier::new(states.len()));
    // The first client past the barrier sets the beginning of the run for all.
    let release: Arc<OnceLock<Instant>> = Arc::default();
    let op = Arc::new(op);
    // Dropping the set, when this future is dropped or a client panicked, stops all clients.
    let mut clients = JoinSet::new();
    for (client, mut state) in states.into_iter().enumerate() {
        let (barrier, release, op) = (Arc::clone(&barrier), Arc::clone(&release), Arc::clone(&op));
        clients.spawn(async move {
            let mut samples = Vec::new();
            barrier.wait().await;
            let release = *release.get_or_init(clock::now);
            for index in 0..ops {
                let call = Call { client, index };
                let start = clock::now();
                let (returned, output) = op(state, call).await;
                let latency = start.elapsed();
                state = returned;
                let started = start.saturating_duration_since(release);
                samples.push(Sample { call, scheduled: started, started, latency, output });
            }
            samples
        });
    }
    let mut by_client = Vec::with_capacity(clients.len());
    while let Some(ended) = clients.join_next().await {
        by_client.push(ended.map_err(|_| LoadError::Panicked(1))?);
    }
    by_client.sort_by_key(|samples| samples.first().map(|sample| sample.call.client));
    let samples: Vec<Sample<T>> = by_client.into_iter().flatten().collect();
    let elapsed = samples.iter().map(|sample| sample.started + sample.latency).max().unwrap_or_default();
    Ok(ClosedRun { samples, elapsed })
}
