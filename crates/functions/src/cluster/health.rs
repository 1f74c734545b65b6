//! How shards are: each asked by itself, all at once, with a limit. What does not answer is told, and hinders none of the others.

use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use super::list::{Cluster, Counts, Shard};
use super::member::Member;
use super::ClusterError;
use crate::schema::{SchemaError, SCHEMA_VERSION};
use duramen_base::clock;
use duramen_postgres::connection::Target;

/// How long a shard has to say how it is.
pub const HEALTH_WITHIN: Duration = Duration::from_secs(5);

/// How a shard is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Health {
    /// The shard as the list that was read has it.
    #[serde(flatten)]
    pub shard: Shard,
    /// How long it took to answer, in milliseconds.
    pub took_ms: u64,
    /// What it says; absent if it does not answer, is another database, or has another version of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<Says>,
    /// The version of its schema, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<i32>,
    /// Which database answers where the shard should be: shards of which the same one answers are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Why it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a shard says of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Says {
    /// The version of the server.
    pub server: String,
    /// What it has.
    #[serde(flatten)]
    pub counts: Counts,
    /// Whether its list of this version is the one that was read.
    pub same_list: bool,
    /// How long the first instance waits that has not begun and may begin, in seconds.
    pub oldest_s: Option<f64>,
    /// When a worker was heard of last, in seconds; absent if there was none.
    pub worker_seen_s: Option<f64>,
    /// What it says of its standbys.
    pub replication: Replication,
}

/// The standbys of a shard.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replication {
    /// Whether the server demands that commits wait for standbys: `synchronous_standby_names` is not empty, and `synchronous_commit` waits.
    pub is_synchronous: bool,
    /// Standbys that are connected; absent where the role may not see them (`GRANT pg_monitor TO ...`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standbys: Option<Vec<Standby>>,
}

/// A standby of a shard, as `pg_stat_replication` has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standby {
    /// Its `application_name`.
    pub name: String,
    /// `streaming`, `catchup`, ...
    pub state: String,
    /// `sync`, `quorum`, `potential` or `async`.
    pub sync: String,
    /// How much WAL it has not replayed yet, in bytes.
    pub lag_bytes: Option<i64>,
}

impl Replication {
    /// Whether a commit is on a standby before it is acknowledged; unknown where standbys cannot be seen.
    ///
    /// ```
    /// use duramen_functions::cluster::{Replication, Standby};
    /// let standby = |sync: &str| Standby { name: "b".into(), state: "streaming".into(), sync: sync.into(), lag_bytes: None };
    /// let seen = |is_synchronous, standbys| Replication { is_synchronous, standbys };
    /// assert_eq!(seen(true, Some(vec![standby("quorum")])).holds(), Some(true));
    /// assert_eq!(seen(true, Some(vec![standby("async")])).holds(), Some(false));
    /// assert_eq!(seen(true, None).holds(), None);
    /// assert_eq!(seen(false, None).holds(), Some(false));
    /// ```
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        if !self.is_synchronous {
            return Some(false);
        }
        let waits_for = |standby: &Standby| matches!(standby.sync.as_str(), "sync" | "quorum");
        self.standbys.as_ref().map(|standbys| standbys.iter().any(waits_for))
    }
}

impl Cluster {
    /// How each shard is that is served, asked at once, each within [`HEALTH_WITHIN`]; in the order of their numbers.
    pub async fn health(&self) -> Vec<Health> {
        let mut asked = JoinSet::new();
        for shard in self.served() {
            let (shard, target, list) = (shard.clone(), self.target_of(shard), self.clone());
            asked.spawn(async move {
                let begin = clock::now();
                let mut identity = None;
                let asking = async { says(&target?, shard.number, &list, &mut identity).await };
                let says = tokio::time::timeout(HEALTH_WITHIN, asking).await.unwrap_or_else(|_| {
                    let target = format!("shard {}", shard.number);
                    Err(ClusterError::Late { target, after_s: HEALTH_WITHIN.as_secs() })
                });
                let took_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
                let (says, schema, problem) = match says {
                    Ok(says) => (Some(says), Some(SCHEMA_VERSION), None),
                    Err(error) => (None, schema_of(&error), Some(error.to_string())),
                };
                Health { shard, took_ms, says, schema, identity, problem }
            });
        }
        let mut health = asked.join_all().await;
        health.sort_by_key(|health| health.shard.number);
        health
    }
}

fn schema_of(error: &ClusterError) -> Option<i32> {
    match error {
        ClusterError::Schema(SchemaError::Newer { found, .. } | SchemaError::Older { found, .. }) => {
            Some(*found)
        }
        _ => None,
    }
}

async fn says(
    target: &Target,
    number: u16,
    list: &Cluster,
    identity: &mut Option<String>,
) -> Result<Says, ClusterError> {
    // Instances that wait in a queue for a time of their own do not count as waiting.
    let sql = "SELECT m.shard, coalesce(m.cluster_version, 0),
            (SELECT count(*) FROM df._ready) + (SELECT count(*) FROM df._queued), (SELECT count(*) FROM df._work),
            (SELECT count(*) FROM df._worker_epoch e WHERE e.last_seen_at > clock_timestamp() - interval '20 seconds'),
            df._identity(), current_setting('server_version'),
            extract(epoch FROM clock_timestamp() - least(
                (SELECT r.created_at FROM df._ready r ORDER BY r.seq LIMIT 1),
                (SELECT min(q.created_at) FROM df._queued q WHERE q.due_at IS NULL)))::float8,
            extract(epoch FROM clock_timestamp() - (SELECT max(e.last_seen_at) FROM df._worker_epoch e))::float8,
            current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local'),
            pg_has_role('pg_read_all_stats', 'USAGE')
        FROM df._meta m";
    let member = Member::own(target).await?;
    let row = member.row(sql, &[]).await?;
    *identity = Some(row.get(5));
    let there = Cluster::known_to(&member, target).await;
    let is_it = match &there {
        Ok(there) => there.id() == list.id() && there.here() == number,
        Err(ClusterError::Unlisted { number: ready, .. }) => *ready == number,
        Err(_) => false,
    };
    if row.get::<_, Option<i32>>(0) != Some(i32::from(number)) || !is_it {
        return Err(ClusterError::Elsewhere { number, target: target.describe() });
    }
    let same_list =
        there.is_ok_and(|there| there.version() != list.version() || there.shards() == list.shards());
    let standbys = match row.get::<_, bool>(10) {
        true => Some(standbys(&member).await?),
        false => None,
    };
    Ok(Says {
        server: row.get(6),
        counts: Counts { version: row.get(1), pending: row.get(2), running: row.get(3), workers: row.get(4) },
        same_list,
        oldest_s: row.get(7),
        worker_seen_s: row.get(8),
        replication: Replication { is_synchronous: row.get(9), standbys },
    })
}

async fn standbys(member: &Member) -> Result<Vec<Standby>, ClusterError> {
    let sql = "SELECT r.application_name, coalesce(r.state, ''), coalesce(r.sync_state, ''),
            CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn)::int8 END
        FROM pg_stat_replication r ORDER BY r.application_name, r.pid LIMIT 100";
    let rows = member.rows(sql, &[]).await?;
    let standby = |row: &tokio_postgres::Row| Standby {
        name: row.get(0),
        state: row.get(1),
        sync: row.get(2),
        lag_bytes: row.get(3),
    };
    Ok(rows.iter().map(standby).collect())
}
