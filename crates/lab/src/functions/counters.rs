//! What the server has counted: transactions, and records and bytes of its log.

use std::time::Duration;

use duramen_base::clock;

use super::bench::{Bench, DATABASE};
use super::error::database;
use duramen_reports::suite::SuiteError;

/// Sessions have gone, and have told what they counted, within this.
const GONE: Duration = Duration::from_secs(10);

/// The server's counters at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    /// Transactions of the measured database that committed, also those that wrote nothing.
    pub(crate) commits: i64,
    /// Transactions of it that did not.
    pub(crate) rollbacks: i64,
    /// The end of the log, in bytes.
    pub(crate) log_bytes: i64,
    /// Records of the log, of the whole server.
    pub(crate) log_records: i64,
}

impl Counters {
    /// Reads them when no session is left in the measured database: a session tells what it counted when it ends, and
    /// else only now and then. The reading session is in another database and is not counted.
    pub(crate) async fn read(bench: &Bench<'_>) -> Result<Self, SuiteError> {
        Self::of(bench, &[DATABASE]).await
    }

    /// The same of several databases together.
    pub(crate) async fn of(bench: &Bench<'_>, databases: &[&str]) -> Result<Self, SuiteError> {
        let observer = bench.observer().await?;
        let failed = || database("read the server's counters");
        let begin = clock::now();
        loop {
            let left = observer
                .query_one(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = ANY ($1) AND backend_type = 'client backend'",
                    &[&databases],
                )
                .await
                .map_err(failed())?;
            if left.get::<_, i64>(0) == 0 || begin.elapsed() > GONE {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let row = observer
            .query_one(
                "SELECT sum(xact_commit)::bigint, sum(xact_rollback)::bigint,
                    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, (SELECT wal_records FROM pg_stat_wal)
                 FROM pg_stat_database WHERE datname = ANY ($1)",
                &[&databases],
            )
            .await
            .map_err(failed())?;
        Ok(Self {
            commits: row.get(0),
            rollbacks: row.get(1),
            log_bytes: row.get(2),
            log_records: row.get(3),
        })
    }
}
