//! What is asked of the primary.

use crate::{
    error::WatchError,
    line::{ask_once, Line, Unread},
    observation::{Commit, Observation, Positions, Standby, Waiter},
    synchronous::Quorum,
};
use duramen_postgres::connection::Target;
use std::time::Duration;
use tokio_postgres::{Client, Row};

/// The sessions come first: how far the WAL is on the disk is asked for afterwards, and so is not before the end of a
/// commit that waits. Of more sessions than are asked for, those count that have waited longest.
const QUESTIONS: [&str; 3] = [
    "SELECT wait_event = 'SyncRep', pid, coalesce(backend_xid::text::int8, 0),
        coalesce((extract(epoch FROM query_start) * 1000000)::int8, 0),
        coalesce(greatest(extract(epoch FROM clock_timestamp() - state_change), 0), 0)::float8
    FROM pg_stat_activity
    WHERE wait_event_type = 'IPC' AND wait_event = 'SyncRep'
        OR wait_event_type IN ('IO', 'LWLock') AND lower(wait_event) IN ('walsync', 'walwrite', 'walwritelock')
            AND backend_type = 'client backend'
    ORDER BY query_start LIMIT 1000",
    "SELECT (pg_current_wal_flush_lsn() - '0/0')::int8, current_setting('synchronous_standby_names')",
    "SELECT application_name, coalesce(sync_state IN ('sync', 'quorum') AND state = 'streaming', false),
        coalesce(sent_lsn - '0/0', 0)::int8, coalesce(write_lsn - '0/0', 0)::int8,
        coalesce(flush_lsn - '0/0', 0)::int8, coalesce(replay_lsn - '0/0', 0)::int8
    FROM pg_stat_replication ORDER BY application_name, pid LIMIT 100",
];

/// What is asked of both kinds of servers at the beginning.
pub(crate) const IDENTITY: &str = "
    SELECT pg_is_in_recovery(), current_user::text, quote_ident(current_user),
        current_setting('is_superuser') = 'on' OR pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
        (SELECT system_identifier::text FROM pg_control_system()), current_setting('server_version')";

/// The primary.
pub(crate) struct Primary {
    line: Line<3>,
}

/// Who a server is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Where, without secrets.
    pub(crate) described: String,
    pub(crate) version: String,
    pub(crate) system_identifier: String,
    pub(crate) is_standby: bool,
}

impl Primary {
    pub(crate) fn new(target: &Target) -> Self {
        Self { line: Line::new(target, QUESTIONS) }
    }

    /// One look, which was taken at this time. What standbys show of themselves is not in it.
    pub(crate) async fn look(&mut self, at: Duration) -> Result<Observation, Unread> {
        let [sessions, header, standbys] = self.line.ask().await?;
        let header = header.first().ok_or(Unread::Late)?;
        let waits_for_standby = |row: &&Row| row.get::<_, bool>(0);
        Ok(Observation {
            at,
            flushed: position(header, 0),
            waiters: sessions.iter().filter(waits_for_standby).map(waiter).collect(),
            own_disk: sessions.iter().filter(|row| !waits_for_standby(row)).count() as u32,
            quorum: Quorum::parse(header.get(1)),
            standbys: standbys.iter().map(standby).collect(),
        })
    }
}

/// Connects, and asks who a server is and whether our role sees what is needed. Returns the connection, too.
pub(crate) async fn identify(node: &'static str, target: &Target) -> Result<(Client, Identity), WatchError> {
    let connect = target.connect().await;
    let client = connect.map_err(|source| WatchError::Connect { node, source })?;
    let row = ask_once(node, target, &client, IDENTITY).await?;
    let described = target.describe();
    if !row.get::<_, bool>(3) {
        return Err(WatchError::Rights { node, described, role: row.get(1), quoted: row.get(2) });
    }
    let identity =
        Identity { described, version: row.get(5), system_identifier: row.get(4), is_standby: row.get(0) };
    Ok((client, identity))
}

fn waiter(row: &Row) -> Waiter {
    let commit = Commit {
        process: row.get(1),
        transaction: u64::try_from(row.get::<_, i64>(2)).unwrap_or(0),
        began: row.get(3),
    };
    Waiter { commit, running: Duration::try_from_secs_f64(row.get(4)).unwrap_or_default() }
}

fn standby(row: &Row) -> Standby {
    let positions = Positions {
        sent: position(row, 2),
        written: position(row, 3),
        flushed: position(row, 4),
        replayed: position(row, 5),
    };
    Standby { name: row.get(0), is_synchronous: row.get(1), positions, seen: None }
}

/// Positions in the WAL are not negative.
fn position(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}
