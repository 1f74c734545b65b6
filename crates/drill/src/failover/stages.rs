//! When the key of the leader was free, when it was another one's, and when that one took writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duramen_base::clock;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::patroni::Patroni;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(40);
/// A server answers within this, or has not answered.
const ANSWER: Duration = Duration::from_millis(500);

/// From the beginning of the ledger, each when it was seen first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stages {
    /// The old leader's key is no longer its own: it has run out, was given up, or handed over.
    pub(super) detected: Option<Duration>,
    /// The key is another one's.
    pub(super) elected: Option<Duration>,
    /// A server other than the old leader's is no longer in recovery.
    pub(super) promoted: Option<Duration>,
}

/// One who looks; dropped, it looks no more.
pub(super) struct Watcher {
    seen: Arc<Mutex<Stages>>,
    _tasks: JoinSet<()>,
}

impl Watcher {
    /// Looks from now on. Times count from `origin`.
    pub(super) fn begin(cluster: &Arc<Patroni>, old: usize, origin: Instant) -> Self {
        let seen = Arc::new(Mutex::new(Stages::default()));
        let mut tasks = JoinSet::new();
        let since = move || clock::now().duration_since(origin);
        tasks.spawn({
            let (cluster, seen) = (Arc::clone(cluster), Arc::clone(&seen));
            async move {
                let name = cluster.nodes().get(old).map(|node| node.name().to_owned());
                loop {
                    let leader = cluster.leader().await;
                    if leader.as_ref().is_ok_and(|leader| *leader != name) {
                        let mut seen = lock(&seen);
                        seen.detected.get_or_insert_with(since);
                        if leader.is_ok_and(|leader| leader.is_some()) {
                            seen.elected.get_or_insert_with(since);
                            return;
                        }
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
        for number in (0..cluster.nodes().len()).filter(|number| *number != old) {
            let (cluster, seen) = (Arc::clone(cluster), Arc::clone(&seen));
            tasks.spawn(async move {
                let Some(Ok(target)) = cluster.nodes().get(number).map(|node| node.by_socket()) else {
                    return;
                };
                let mut client: Option<Client> = None;
                loop {
                    if client.is_none() {
                        client =
                            tokio::time::timeout(ANSWER, target.connect()).await.ok().and_then(Result::ok);
                    }
                    if let Some(open) = &client {
                        let ask = open.query_one("SELECT pg_is_in_recovery()", &[]);
                        match tokio::time::timeout(ANSWER, ask).await {
                            Ok(Ok(row)) if !row.get::<_, bool>(0) => {
                                lock(&seen).promoted.get_or_insert_with(since);
                                return;
                            }
                            Ok(Ok(_)) => {}
                            _ => client = None,
                        }
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self { seen, _tasks: tasks }
    }

    /// What was seen up to now.
    pub(super) fn seen(&self) -> Stages {
        *lock(&self.seen)
    }
}

fn lock(stages: &Mutex<Stages>) -> MutexGuard<'_, Stages> {
    stages.lock().unwrap_or_else(PoisonError::into_inner)
}
