//! What both servers show, ten times a second.

use std::time::{Duration, Instant};

use duramen_postgres::connection::Target;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout, MissedTickBehavior};
use tokio_postgres::Client;

use super::super::outcome::Sample;
use super::super::pair::{Pair, APPLICATION_NAME};
use super::super::scenario::{Node, Wait};
use super::session::{within, PATIENCE};
use super::stage;
use duramen_reports::suite::SuiteError;

/// The time between two samples.
pub const PERIOD: Duration = Duration::from_millis(100);
/// A server that does not answer within this is not sampled this time.
const LIMIT: Duration = Duration::from_millis(900);

const OF_PRIMARY: &str = "
    SELECT (pg_current_wal_lsn() - '0/0')::int8,
        extract(epoch FROM standby.write_lag)::float8 * 1000,
        extract(epoch FROM standby.flush_lag)::float8 * 1000,
        extract(epoch FROM standby.replay_lag)::float8 * 1000,
        standby.pid IS NOT NULL,
        (SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'SyncRep'),
        (pg_current_wal_flush_lsn() - '0/0')::int8,
        (coalesce(standby.write_lsn, '0/0') - '0/0')::int8, (coalesce(standby.flush_lsn, '0/0') - '0/0')::int8
    FROM (SELECT) one LEFT JOIN LATERAL (
        SELECT * FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming'
        ORDER BY application_name = $2 DESC LIMIT 1
    ) standby ON true";
const OF_STANDBY: &str = "
    SELECT (coalesce(pg_last_wal_receive_lsn(), '0/0') - '0/0')::int8,
        (coalesce(pg_last_wal_replay_lsn(), '0/0') - '0/0')::int8,
        (SELECT wait_event_type || ':' || wait_event FROM pg_stat_activity WHERE backend_type = 'startup'),
        (SELECT coalesce(wait_event_type || ':' || wait_event, 'busy') FROM pg_stat_activity
            WHERE backend_type = 'walreceiver' LIMIT 1)";

/// Takes samples until it is told to end.
pub(super) struct Sampler {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    /// Begins. Times count from `origin`. A server that cannot be reached is tried again each time.
    pub(super) fn start(pair: &Pair, origin: Instant) -> Self {
        let (stop, stopped) = oneshot::channel();
        let primary = Line::to(pair.target(Node::Primary));
        let standby = Line::to(pair.target(Node::Standby));
        let name = pair.standby_name().to_owned();
        Self { stop, task: tokio::spawn(sample(primary, standby, name, origin, stopped)) }
    }

    /// Ends, and hands over what was seen.
    pub(super) async fn finish(self) -> Result<Vec<Sample>, SuiteError> {
        // A task that has ended needs no signal.
        let _ = self.stop.send(());
        let samples = within(PATIENCE, "the samplers to end", self.task).await?;
        // A task that panicked has shown why; without samples nothing is valid.
        Ok(samples.unwrap_or_default())
    }
}

async fn sample(
    mut primary: Line,
    mut standby: Line,
    name: String,
    origin: Instant,
    mut stopped: oneshot::Receiver<()>,
) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = &mut stopped => return samples,
            _ = ticks.tick() => {}
        }
        let mut sample = Sample { at: origin.elapsed(), ..Sample::default() };
        let read = async { tokio::join!(read_primary(&mut primary, &name), read_standby(&mut standby)) };
        let (of_primary, of_standby) = tokio::select! {
            _ = &mut stopped => return samples,
            read = read => read,
        };
        let last = samples.last();
        match of_primary {
            Ok(seen) => {
                sample.primary_lsn = seen.lsn;
                [sample.write_lag_ms, sample.flush_lag_ms, sample.replay_lag_ms] = seen.lags_ms;
                sample.synchronous = seen.synchronous;
                sample.waiting_sessions = seen.waiting;
                [sample.flushed_lsn, sample.written_lsn, sample.kept_lsn] = seen.stages;
                // Commits wait for a standby, and there is none.
                sample.wait = (!seen.synchronous).then_some(Wait::Absent);
            }
            Err(_) => sample.primary_lsn = last.map_or(0, |last| last.primary_lsn),
        }
        match of_standby {
            Ok(seen) => {
                (sample.received_lsn, sample.replayed_lsn) = (seen.received, seen.replayed);
                let is_replaying = seen.received > seen.replayed && is_working(seen.startup.as_deref());
                let replaying = is_replaying.then_some(Wait::Replaying);
                sample.wait = seen.startup.as_deref().and_then(wait_named).or(sample.wait).or(replaying);
                (sample.startup, sample.receiver) = (seen.startup, seen.receiver);
            }
            Err(unread) => {
                (sample.received_lsn, sample.replayed_lsn) =
                    last.map_or((0, 0), |last| (last.received_lsn, last.replayed_lsn));
                if unread == Unread::Gone {
                    sample.wait = Some(Wait::Absent);
                    sample.synchronous = false;
                }
            }
        }
        if let Some(last) = last.filter(|_| sample.wait != Some(Wait::Absent)) {
            sample.stuck = stage::stuck(last, &sample);
        }
        samples.push(sample);
    }
}

/// The cause that a wait event of the startup process stands for. None for waits of a process that has nothing to do,
/// or that reads and writes.
#[must_use]
pub fn wait_named(event: &str) -> Option<Wait> {
    match event.split_once(':')? {
        ("IPC", "RecoveryConflictSnapshot") => Some(Wait::Snapshot),
        ("Lock", _) => Some(Wait::Lock),
        ("BufferPin", _) => Some(Wait::BufferPin),
        ("Timeout", "RecoveryApplyDelay") => Some(Wait::ApplyDelay),
        _ => None,
    }
}

/// Whether a startup process with this wait event is at work: it waits for nothing, or for the pages that it changes.
#[must_use]
pub fn is_working(event: Option<&str>) -> bool {
    event.is_none_or(|event| matches!(event.split_once(':'), Some(("IO" | "LWLock", _))))
}

/// Why a server was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    /// It refuses connections, or has closed this one.
    Gone,
    /// It did not answer in time, which a busy machine does too.
    Late,
}

struct OfPrimary {
    lsn: u64,
    lags_ms: [Option<f64>; 3],
    synchronous: bool,
    waiting: u32,
    /// Flushed here, written there, flushed there.
    stages: [u64; 3],
}

struct OfStandby {
    received: u64,
    replayed: u64,
    startup: Option<String>,
    receiver: Option<String>,
}

async fn read_primary(line: &mut Line, standby: &str) -> Result<OfPrimary, Unread> {
    let row = line.read(OF_PRIMARY, &[&APPLICATION_NAME, &standby]).await?;
    Ok(OfPrimary {
        lsn: unsigned(row.get(0)),
        lags_ms: [row.get(1), row.get(2), row.get(3)],
        synchronous: row.get(4),
        waiting: u32::try_from(row.get::<_, i64>(5)).unwrap_or(u32::MAX),
        stages: [6, 7, 8].map(|column| unsigned(row.get(column))),
    })
}

async fn read_standby(line: &mut Line) -> Result<OfStandby, Unread> {
    let row = line.read(OF_STANDBY, &[]).await?;
    Ok(OfStandby {
        received: unsigned(row.get(0)),
        replayed: unsigned(row.get(1)),
        startup: row.get(2),
        receiver: row.get(3),
    })
}

/// Positions in the WAL are not negative.
fn unsigned(lsn: i64) -> u64 {
    u64::try_from(lsn).unwrap_or(0)
}

/// A connection that is opened again when it was lost.
struct Line {
    target: Target,
    open: Option<(Client, tokio_postgres::Statement)>,
}

impl Line {
    fn to(target: &Target) -> Self {
        Self { target: target.clone(), open: None }
    }

    async fn read(
        &mut self,
        sql: &str,
        parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<tokio_postgres::Row, Unread> {
        let read = async {
            if self.open.is_none() {
                let client = self.target.connect().await.map_err(|_| Unread::Gone)?;
                let statement = client.prepare(sql).await.map_err(|_| Unread::Gone)?;
                self.open = Some((client, statement));
            }
            let (client, statement) = self.open.as_ref().ok_or(Unread::Gone)?;
            client.query_one(statement, parameters).await.map_err(|_| Unread::Gone)
        };
        let row = timeout(LIMIT, read).await.unwrap_or(Err(Unread::Late));
        if row.is_err() {
            self.open = None;
        }
        row
    }
}
