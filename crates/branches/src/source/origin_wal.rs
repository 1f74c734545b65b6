//! What an origin tells of the log that it writes: where it is, and how far a standby of ours has it.

use super::{
    address::Address, connected::Connected, connection, history::Mark, refusal::read_error, wal::Position,
};
use crate::error::{EngineError, Kind};
use std::time::Duration;

/// How long an origin may take to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// A session on an origin that is followed.
pub(super) struct OriginLog {
    client: Connected,
}

/// Where an origin's log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The position of the next byte that it writes (or, of a standby, that it receives).
    pub(crate) written: u64,
    /// Up to where our standby has flushed what it was sent; `None`: it is not connected.
    pub(crate) flushed: Option<u64>,
    /// What it had committed by this time is before this position.
    pub(crate) mark: Mark,
    /// The timeline that it writes.
    pub(crate) timeline: u32,
}

impl Seen {
    /// How many bytes our standby lacks, if it is connected.
    pub(crate) fn lag(&self) -> Option<u64> {
        self.flushed.map(|flushed| self.written.saturating_sub(flushed))
    }
}

/// What decides how an origin is followed.
pub(super) struct Nature {
    /// By which its data directory is known from others.
    pub(super) system: u64,
    /// Whether it has a slot to spare.
    pub(super) has_slot: bool,
}

impl OriginLog {
    pub(super) async fn open(address: &Address) -> Result<OriginLog, EngineError> {
        match connection::enter_origin(address).await? {
            Some((client, _)) => Ok(OriginLog { client }),
            None => Err(EngineError::new(
                Kind::Invalid,
                "login_triggers",
                "the origin may run login triggers, so nobody asks it how far it is: GRANT SET ON PARAMETER event_triggers to \
                 the source's role",
            )),
        }
    }

    async fn row(
        &self,
        sql: &str,
        values: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Option<tokio_postgres::Row>, EngineError> {
        let late = |_| EngineError::new(Kind::Failed, "origin_slow", "the origin does not say how far it is");
        let asked = tokio::time::timeout(LIMIT, self.client.query_opt(sql, values)).await.map_err(late)?;
        asked.map_err(|error| read_error(&error))
    }

    /// What kind of origin it is.
    pub(super) async fn nature(&self) -> Result<Nature, EngineError> {
        let sql = "select (pg_control_system()).system_identifier, \
                   current_setting('max_replication_slots')::int8 > (select count(*) from pg_replication_slots)";
        let row = self.row(sql, &[]).await?;
        let row =
            row.ok_or_else(|| EngineError::new(Kind::Failed, "origin_slow", "the origin said nothing"))?;
        Ok(Nature { system: row.get::<_, i64>(0).cast_unsigned(), has_slot: row.get(1) })
    }

    /// Where its log is, and how far the standby of this name has it.
    pub(super) async fn look(&self, standby: &str) -> Result<Seen, EngineError> {
        // The clock comes first: what is committed by then was inserted when the position is asked for.
        let sql = "select (written - '0/0'::pg_lsn)::int8, (flushed - '0/0'::pg_lsn)::int8, at, \
                   (case when in_recovery then written else pg_current_wal_insert_lsn() end - '0/0'::pg_lsn)::int8, \
                   case when in_recovery then (select timeline_id from pg_control_checkpoint()) \
                        else ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int4 end, \
                   (select setting::int8 from pg_settings where name = 'wal_segment_size'), \
                   (select setting::int8 from pg_settings where name = 'wal_block_size') \
                   from (select clock_timestamp() as at, pg_is_in_recovery() as in_recovery, \
                   case when pg_is_in_recovery() then coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
                   else pg_current_wal_lsn() end as written, \
                   (select max(flush_lsn) from pg_stat_replication where application_name = $1) as flushed offset 0) told";
        let row = self.row(sql, &[&standby]).await?;
        let row =
            row.ok_or_else(|| EngineError::new(Kind::Failed, "origin_slow", "the origin said nothing"))?;
        let position = |at: i64| at.cast_unsigned();
        let size = |column: usize| row.get::<_, Option<i64>>(column).map(position).unwrap_or_default().max(1);
        let inserted = Position(row.get::<_, Option<i64>>(3).map(position).unwrap_or_default());
        let ended = inserted.end_of_inserted(size(5), size(6));
        Ok(Seen {
            written: row.get::<_, Option<i64>>(0).map(position).unwrap_or_default(),
            flushed: row.get::<_, Option<i64>>(1).map(position),
            mark: Mark { at: row.get(2), position: ended.0 },
            timeline: row.get::<_, Option<i32>>(4).unwrap_or_default().cast_unsigned(),
        })
    }
}
