//! The WAL of a pass, by `pg_walinspect`.

use crate::error::refused;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::Client;

use super::super::outcome::{BlockWal, Sample, Wal};
use super::super::scenario::{Node, Wait};
use super::counters::row_within;
use super::session::within;
use duramen_reports::suite::SuiteError;

/// Reading a gigabyte of it takes seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// Keeps the WAL from the last checkpoint on for as long as this session lasts. A later checkpoint removes what no
/// standby needs any more, and the pass could not be read. The slot is temporary, and goes with its session; a server
/// that has none to spare keeps what it keeps.
pub(super) async fn keep(primary: &Client) {
    let sql =
        "SELECT pg_create_physical_replication_slot('duramen_lab_wal_' || pg_backend_pid(), true, true)";
    let _ = within(LIMIT, "keep the WAL of a pass", primary.batch_execute(sql)).await;
}

/// What was written between two positions: bytes, and records by resource manager and type. Positions are bytes from
/// the beginning of the WAL, flushed.
pub(super) async fn between(primary: &Client, from: u64, to: u64) -> Result<Wal, SuiteError> {
    if to <= from {
        return Ok(Wal::default());
    }
    // The columns for one type of record are named like those for a resource manager. Since 18, sizes are numeric.
    let sql = "SELECT \"resource_manager/record_type\", count::int8, record_size::int8, fpi_size::int8
               FROM pg_get_wal_stats($1::text::pg_lsn, $2::text::pg_lsn, true) WHERE count > 0";
    let doing = "read the WAL with pg_walinspect";
    let positions = [position(from), position(to)];
    let rows = within(LIMIT, doing, primary.query(sql, &[&positions[0], &positions[1]])).await?;
    let rows = rows.map_err(refused(doing, Node::Primary))?;
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    let records = rows
        .iter()
        .map(|row| (row.get::<_, String>(0), count(row.get(1)), count(row.get(2)), count(row.get(3))))
        .collect();
    Ok(Wal { bytes: to - from, records })
}

/// At how many positions at most it is asked which record is there.
const POSITIONS: usize = 8;

/// The kinds of the records at which readers held up the replay, with the number of samples that saw it: the one that was
/// seen most often first. What a standby waits with is the record after the last one that it has replayed.
pub(super) async fn held_up_at(
    primary: &Client,
    samples: &[Sample],
) -> Result<Vec<(String, u64)>, SuiteError> {
    let mut positions: BTreeMap<u64, u64> = BTreeMap::new();
    let is_conflict = |wait| matches!(wait, Wait::Snapshot | Wait::Lock | Wait::BufferPin);
    for sample in samples.iter().filter(|sample| sample.wait.is_some_and(is_conflict)) {
        *positions.entry(sample.replayed_lsn).or_default() += 1;
    }
    let mut positions: Vec<(u64, u64)> = positions.into_iter().collect();
    positions.sort_by_key(|(_, seen)| std::cmp::Reverse(*seen));
    let sql = "SELECT resource_manager || '/' || record_type FROM pg_get_wal_record_info($1::text::pg_lsn)";
    let doing = "look at a WAL record with pg_walinspect";
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for (lsn, seen) in positions.into_iter().take(POSITIONS) {
        let row = row_within(LIMIT, primary, Node::Primary, doing, sql, &[&position(lsn)]).await?;
        *kinds.entry(row.get(0)).or_default() += seen;
    }
    let mut kinds: Vec<(String, u64)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, seen)| std::cmp::Reverse(*seen));
    Ok(kinds)
}

/// What was written while the load of a block ran.
pub(super) async fn of_block(primary: &Client, from: u64, to: u64) -> Result<BlockWal, SuiteError> {
    let records = between(primary, from, to).await?.records;
    Ok(BlockWal {
        records: records.into_iter().map(|(name, count, ..)| (name, count)).collect(),
        with_images: records_with_images(primary, from, to).await?,
    })
}

/// How many records between two positions hold a full-page image: there are at least so many images.
async fn records_with_images(primary: &Client, from: u64, to: u64) -> Result<u64, SuiteError> {
    if to <= from {
        return Ok(0);
    }
    let sql = "SELECT count(*) FROM pg_get_wal_records_info($1::text::pg_lsn, $2::text::pg_lsn) WHERE fpi_length > 0";
    let doing = "count full-page images with pg_walinspect";
    let row =
        row_within(LIMIT, primary, Node::Primary, doing, sql, &[&position(from), &position(to)]).await?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

/// A position as PostgreSQL writes it.
fn position(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn & 0xffff_ffff)
}
