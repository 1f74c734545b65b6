//! Sessions that commit, one commit after another, and when each commit was acknowledged.
//!
//! A commit is a transactional logical message: WAL and a commit record as of any other transaction, and not a single object
//! in the database, so that nothing is left on servers of others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_postgres::connection::Target;
use duramen_reports::suite::SuiteError;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::error::said;
use crate::level::Level;

/// A commit that hangs at the end of a load has this long to end.
const DRAIN: Duration = Duration::from_secs(20);
/// A session is there within this.
const PATIENCE: Duration = Duration::from_secs(30);
/// As large as a small row.
const PAYLOAD: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A commit that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Commit {
    /// When, from the beginning of the pass.
    pub(super) at: Duration,
    /// How long it took.
    pub(super) took: Duration,
}

/// What a load brought back.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// In the order of their ends.
    pub(super) commits: Vec<Commit>,
    /// What the first one said that failed, and how many did.
    pub(super) failed: Option<(u64, String)>,
}

/// A load under way.
pub(super) struct Load {
    sessions: JoinSet<Committed>,
    stop: watch::Sender<bool>,
}

impl Load {
    /// Opens the sessions, and begins. Times count from `origin`.
    pub(super) async fn begin(
        target: &Target,
        level: Level,
        clients: usize,
        origin: Instant,
    ) -> Result<Self, SuiteError> {
        let (stop, stopped) = watch::channel(false);
        let mut sessions = JoinSet::new();
        for _ in 0..clients {
            let target = target.clone().settings([("synchronous_commit", level.name())]);
            let client = target.connect().await.map_err(SuiteError::refused("open a session of the load"))?;
            let prepare = client.prepare("SELECT pg_logical_emit_message(true, 'duramen-lab', $1::text)");
            let statement = tokio::time::timeout(PATIENCE, prepare)
                .await
                .map_err(|_| crate::error::timeout("the statement of the load", PATIENCE))?
                .map_err(|error| SuiteError::refused("prepare the load")(said(&error)))?;
            let stopped = stopped.clone();
            let client = Arc::new(client);
            sessions.spawn(async move {
                let mut done = Committed::default();
                while !*stopped.borrow() {
                    let begin = clock::now();
                    match client.query_one(&statement, &[&PAYLOAD]).await {
                        Ok(_) => done
                            .commits
                            .push(Commit { at: clock::now().duration_since(origin), took: begin.elapsed() }),
                        Err(error) => {
                            done.failed.get_or_insert_with(|| (0, said(&error))).0 += 1;
                            // What fails at once must not become a busy loop.
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    }
                }
                done
            });
        }
        Ok(Self { sessions, stop })
    }

    /// Ends it, and waits for the commits that are under way.
    pub(super) async fn end(mut self) -> Result<Committed, SuiteError> {
        // Without a session nobody listens.
        let _ = self.stop.send(true);
        let mut all = Committed::default();
        let join = async {
            while let Some(Ok(done)) = self.sessions.join_next().await {
                all.commits.extend(done.commits);
                if let Some((count, text)) = done.failed {
                    all.failed.get_or_insert((0, text)).0 += count;
                }
            }
        };
        tokio::time::timeout(DRAIN, join)
            .await
            .map_err(|_| crate::error::timeout("commits to end after the fault was put right", DRAIN))?;
        all.commits.sort_by_key(|commit| commit.at);
        Ok(all)
    }
}

/// The longest time between two acknowledged commits, of those between two times; the ends count as commits.
pub(super) fn longest_gap(commits: &[Commit], begin: Duration, end: Duration) -> Duration {
    let inside = commits.iter().map(|commit| commit.at).filter(|at| *at > begin && *at < end);
    let mut last = begin;
    let mut longest = Duration::ZERO;
    for at in inside.chain([end]) {
        longest = longest.max(at.saturating_sub(last));
        last = at;
    }
    longest
}
