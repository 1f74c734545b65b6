//! Looking at the branch's server, many times a second, from a session of our own.

use crate::{
    error::RehearseError,
    load::Processes,
    watch::{Lock, Sample, Session, Watch},
};
use duramen_base::clock;
use duramen_postgres::connection::Target;
use std::{
    collections::BTreeSet,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, PoisonError,
    },
    time::{Duration, Instant},
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{Client, Row, Statement};

/// Time between two looks, in which the server has nothing to do for us.
pub(crate) const INTERVAL: Duration = Duration::from_millis(25);
/// How long one look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// All times are microseconds since 1970 by the server's clock.
const SESSIONS: &str = "
SELECT (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1e6)::pg_catalog.int8,
       pid, backend_type, leader_pid, coalesce(state, ''),
       (pg_catalog.date_part('epoch', xact_start) * 1e6)::pg_catalog.int8,
       (pg_catalog.date_part('epoch', query_start) * 1e6)::pg_catalog.int8,
       (pg_catalog.date_part('epoch', state_change) * 1e6)::pg_catalog.int8,
       pg_catalog.left(query, 4000)
FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()";
/// The system's own tables are left out, unless somebody waits for them.
const LOCKS: &str = "
SELECT pid, relation, locktype, mode, granted, (pg_catalog.date_part('epoch', waitstart) * 1e6)::pg_catalog.int8,
       CASE WHEN NOT granted THEN pg_catalog.pg_blocking_pids(pid) END
FROM pg_catalog.pg_locks
WHERE pid <> pg_catalog.pg_backend_pid()
  AND (NOT granted OR locktype = 'relation' AND relation >= 16384
       AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))
LIMIT 20000";
pub(crate) const LOCKS_MAX: usize = 20_000;

/// Settings of the sessions that look and ask: nobody's functions and operators are found, and nothing is waited for long.
pub(crate) const OURS: [(&str, &str); 4] = [
    ("search_path", "pg_catalog"),
    ("lock_timeout", "10s"),
    ("statement_timeout", "60s"),
    ("default_transaction_read_only", "on"),
];

/// A sampler at work.
pub(crate) struct Sampler {
    watch: Arc<Mutex<Watch>>,
    is_over: Arc<AtomicBool>,
    task: JoinHandle<Result<(), RehearseError>>,
}

impl Sampler {
    /// Begins to look. `known` are processes that are there, and `ours` are those of the rehearsal.
    pub(crate) async fn begin(
        target: &Target,
        began: Instant,
        load: &Processes,
        known: BTreeSet<i32>,
        ours: BTreeSet<i32>,
    ) -> Result<Sampler, RehearseError> {
        let target = target.clone().application_name("duramen rehearse: sampler").settings(OURS);
        let session = target.connect().await?;
        let doing = || RehearseError::query("prepare to look at the branch's sessions");
        let sessions = session.prepare(SESSIONS).await.map_err(doing())?;
        let locks = session.prepare(LOCKS).await.map_err(doing())?;
        // The server's clock beside ours: the middle of a round trip.
        let before = began.elapsed();
        let now =
            "SELECT (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1e6)::pg_catalog.int8";
        let there: i64 = session.query_one(now, &[]).await.map_err(doing())?.get(0);
        let here = (before + began.elapsed()) / 2;
        let base = there - i64::try_from(here.as_micros()).unwrap_or_default();
        let watch = Arc::new(Mutex::new(Watch::new(known, ours)));
        let is_over = Arc::new(AtomicBool::new(false));
        let looking = Looking {
            session,
            sessions,
            locks,
            began,
            base,
            load: Arc::clone(load),
            watch: Arc::clone(&watch),
            is_over: Arc::clone(&is_over),
        };
        Ok(Sampler { watch, is_over, task: tokio::spawn(looking.run()) })
    }

    /// From now on sessions that nobody knows are the migration's.
    pub(crate) fn migration_begins(&self, at: Duration) {
        let at = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).migration_begins(at);
    }

    /// The processes of the migration that were there at the last look.
    pub(crate) fn migration(&self) -> Vec<i32> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).migration()
    }

    /// Looks once more, and tells what was seen, and what kept it from seeing more.
    pub(crate) async fn end(mut self) -> (Watch, Option<RehearseError>) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = timeout(LOOK_LIMIT * 2, &mut self.task).await;
        let failed = match ended {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => Some(error),
            _ => Some(RehearseError::Query {
                doing: "look at the branch's sessions",
                cause: "the sampler did not end".to_owned(),
            }),
        };
        let mut watch = std::mem::take(&mut *self.watch.lock().unwrap_or_else(PoisonError::into_inner));
        watch.end();
        (watch, failed)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Looking {
    session: Client,
    sessions: Statement,
    locks: Statement,
    began: Instant,
    /// The server's time at which the rehearsal began, in microseconds.
    base: i64,
    load: Processes,
    watch: Arc<Mutex<Watch>>,
    is_over: Arc<AtomicBool>,
}

impl Looking {
    async fn run(self) -> Result<(), RehearseError> {
        loop {
            let is_last = self.is_over.load(Ordering::Relaxed);
            let begin = clock::now();
            let looked = timeout(LOOK_LIMIT, self.look()).await;
            let sample = looked.unwrap_or_else(|_| {
                Err(RehearseError::Query {
                    doing: "look at the branch's sessions",
                    cause: format!("it took longer than {} s", LOOK_LIMIT.as_secs()),
                })
            })?;
            let load = self.load.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.watch.lock().unwrap_or_else(PoisonError::into_inner).take(sample, &load);
            if is_last {
                return Ok(());
            }
            // A server that is slow to answer is not asked all the time.
            sleep(INTERVAL.max(begin.elapsed() / 2)).await;
        }
    }

    async fn look(&self) -> Result<Sample, RehearseError> {
        let doing = || RehearseError::query("look at the branch's sessions");
        let asked =
            tokio::join!(self.session.query(&self.sessions, &[]), self.session.query(&self.locks, &[]));
        let (sessions, locks) = (asked.0.map_err(doing())?, asked.1.map_err(doing())?);
        let here = || i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        let at = sessions.first().map_or_else(here, |row| row.get::<_, i64>(0) - self.base);
        let since = |row: &Row, column: usize| row.get::<_, Option<i64>>(column).map(|time| time - self.base);
        let session = |row: &Row| Session {
            process: row.get(1),
            kind: row.get::<_, Option<String>>(2).unwrap_or_default(),
            leader: row.get(3),
            state: row.get(4),
            transaction_began: since(row, 5),
            query_began: since(row, 6),
            state_changed: since(row, 7),
            query: row.get::<_, Option<String>>(8).unwrap_or_default(),
        };
        let lock = |row: &Row| Lock {
            process: row.get::<_, Option<i32>>(0).unwrap_or_default(),
            relation: row.get(1),
            what: row.get(2),
            mode: row.get(3),
            granted: row.get(4),
            since: since(row, 5),
            blockers: row.get::<_, Option<Vec<i32>>>(6).unwrap_or_default(),
        };
        Ok(Sample {
            at,
            sessions: sessions.iter().map(session).collect(),
            is_cut: locks.len() >= LOCKS_MAX,
            locks: locks.iter().map(lock).collect(),
        })
    }
}
