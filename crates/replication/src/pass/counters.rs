//! What the servers count.

use crate::error::refused;
use std::collections::BTreeSet;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::super::scenario::Node;
use super::session::{within, PATIENCE};
use duramen_reports::suite::SuiteError;

/// How often a question is asked of a standby that cancels it because of a conflict with the replay.
const TRIES: u32 = 5;

/// One row of a server, in time.
pub(super) async fn row(
    client: &Client,
    node: Node,
    doing: &str,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Row, SuiteError> {
    row_within(PATIENCE, client, node, doing, sql, parameters).await
}

/// As [`row`], for what takes longer.
pub(super) async fn row_within(
    limit: Duration,
    client: &Client,
    node: Node,
    doing: &str,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Row, SuiteError> {
    for _ in 1..TRIES {
        match within(limit, doing, client.query_one(sql, parameters)).await? {
            // The replay cancels whatever is in its way, also us, where it is not to wait.
            Err(error)
                if node == Node::Standby && error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
            answered => return answered.map_err(refused(doing, node)),
        }
    }
    within(limit, doing, client.query_one(sql, parameters)).await?.map_err(refused(doing, node))
}

/// Up to where the WAL of the primary is flushed.
pub(super) async fn flushed(primary: &Client) -> Result<u64, SuiteError> {
    let sql = "SELECT (pg_current_wal_flush_lsn() - '0/0')::int8";
    let row = row(primary, Node::Primary, "read the position in the WAL", sql, &[]).await?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

/// Up to where the standby has replayed.
pub(super) async fn replayed(standby: &Client) -> Result<u64, SuiteError> {
    let sql = "SELECT (coalesce(pg_last_wal_replay_lsn(), '0/0') - '0/0')::int8";
    let row = row(standby, Node::Standby, "read how far it has replayed", sql, &[]).await?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

/// How many queries of this database the standby has cancelled because of conflicts.
pub(super) async fn cancelled(standby: &Client) -> Result<u64, SuiteError> {
    let sql = "SELECT coalesce(sum(confl_tablespace + confl_lock + confl_snapshot + confl_bufferpin + confl_deadlock),
                   0)::int8
               FROM pg_stat_database_conflicts WHERE datname = current_database()";
    let row = row(standby, Node::Standby, "count its cancelled queries", sql, &[]).await?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

/// The files of logical mappings on the standby, by their names.
pub(super) async fn mapping_files(standby: &Client) -> Result<BTreeSet<String>, SuiteError> {
    let sql = "SELECT coalesce(array_agg(name), '{}') FROM pg_ls_logicalmapdir()";
    let row = row(standby, Node::Standby, "list its files of logical mappings", sql, &[]).await?;
    Ok(row.get::<_, Vec<String>>(0).into_iter().collect())
}

/// How many files of relations of this database the standby has.
pub(super) async fn relation_files(standby: &Client) -> Result<u64, SuiteError> {
    let sql = "SELECT count(*) FROM pg_database,
                   LATERAL pg_ls_dir('base/' || pg_database.oid) AS file
               WHERE datname = current_database() AND file ~ '^[0-9]'";
    let row = row(standby, Node::Standby, "count its files", sql, &[]).await?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}
