//! Clients that start instances, each with a key of its own, and try again until they are told that it was started.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_postgres::connection::Target;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::types::Type;
use tokio_postgres::Client;

use crate::error::DrillError;

/// A start that has no answer within this is tried again over another session.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two starts of a client: what the load is.
const BREATH: Duration = Duration::from_millis(25);
/// Before a start is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// Clients end within this.
const DRAIN: Duration = Duration::from_secs(90);

/// The table of what steps do: a row each time, so that a step that was done twice shows.
pub(super) const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS public.effects (client int, number bigint, step int)";

/// How many effects an instance has.
pub(super) const STEPS: i32 = 4;

/// What an instance does: a short step, a step that is slow and so runs alone, one of a child, and one after a timer.
fn graph(client: usize, number: i64) -> String {
    let effect = |step: i32| format!("INSERT INTO public.effects VALUES ({client}, {number}, {step})");
    let slow = format!(
        "WITH nap AS MATERIALIZED (SELECT pg_sleep(0.06)) INSERT INTO public.effects SELECT {client}, {number}, 2 FROM nap"
    );
    format!(
        "df.seq('{}', df.seq('{slow}', df.seq(df.call('{}'), df.seq(df.sleep(1), '{}'))))",
        effect(1),
        effect(3),
        effect(4)
    )
}

/// A start that was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Started {
    pub(super) client: usize,
    pub(super) number: i64,
    pub(super) shard: usize,
    pub(super) id: String,
    /// When the client knew.
    pub(super) at: Duration,
}

impl Started {
    /// The key of a start.
    pub(super) fn key(client: usize, number: i64) -> String {
        format!("{client}-{number}")
    }
}

/// What clients were told.
#[derive(Debug, Default)]
pub(super) struct Told {
    started: Mutex<Vec<Started>>,
    retried: Mutex<u64>,
}

impl Told {
    pub(super) fn started(&self) -> Vec<Started> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often a start had to be tried again.
    pub(super) fn retried(&self) -> u64 {
        *self.retried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The longest time without a start on a shard from one time to another.
    pub(super) fn longest_gap(&self, shard: usize, [begin, end]: [Duration; 2]) -> Duration {
        let mut times: Vec<Duration> =
            self.started().into_iter().filter(|start| start.shard == shard).map(|start| start.at).collect();
        times.sort_unstable();
        let inside = times.into_iter().filter(|at| (begin..end).contains(at));
        let mut last = begin;
        let mut longest = Duration::ZERO;
        for at in inside.chain([end]) {
            longest = longest.max(at.saturating_sub(last));
            last = at;
        }
        longest
    }
}

/// Clients at work.
pub(super) struct Load {
    clients: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Load {
    /// Begins; the shards are divided among the clients.
    pub(super) fn begin(shards: &[Target], clients: usize, told: &Arc<Told>, origin: Instant) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            tasks.spawn(write(client, shards.to_vec(), Arc::clone(told), origin, stopped.clone()));
        }
        Self { clients: tasks, stop }
    }

    /// Ends them when each has been told of the start that is under way.
    pub(super) async fn end(mut self) -> Result<(), DrillError> {
        self.stop.send_replace(true);
        let joined = async { while self.clients.join_next().await.is_some() {} };
        tokio::time::timeout(DRAIN, joined).await.map_err(|_| DrillError::Timeout {
            what: "clients to be told of their last starts".to_owned(),
            seconds: DRAIN.as_secs(),
            said: String::new(),
        })
    }
}

async fn write(
    client: usize,
    shards: Vec<Target>,
    told: Arc<Told>,
    origin: Instant,
    stopped: watch::Receiver<bool>,
) {
    let mut session: Option<Client> = None;
    let mut number = 0;
    while !*stopped.borrow() {
        number += 1;
        let shard = client % shards.len();
        let (graph, key) = (graph(client, number), Started::key(client, number));
        let id = loop {
            match tokio::time::timeout(PATIENCE, start(&shards[shard], &mut session, &graph, &key)).await {
                Ok(Some(id)) => break id,
                Ok(None) | Err(_) => {
                    session = None;
                    *told.retried.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        let started = Started { client, number, shard, id, at: clock::now().duration_since(origin) };
        told.started.lock().unwrap_or_else(PoisonError::into_inner).push(started);
        tokio::time::sleep(BREATH).await;
    }
}

/// One attempt. That it fails is what a drill is about.
async fn start(target: &Target, session: &mut Option<Client>, graph: &str, key: &str) -> Option<String> {
    if session.as_ref().is_none_or(Client::is_closed) {
        *session = Some(target.connect().await.ok()?);
    }
    let sql = format!("SELECT df.start({graph}, idempotency_key => $1)");
    let row = session.as_ref()?.query_typed_one(&sql, &[(&key, Type::TEXT)]).await.ok()?;
    Some(row.get(0))
}
