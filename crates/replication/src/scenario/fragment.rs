//! SQL that several scenarios share.

/// Returns when no session of the primary can still see what was deleted before, so that it may be removed. Without it
/// a commit that still waits for the standby would keep the dead rows alive, and VACUUM would find nothing to do.
pub(super) const UNSEEN: &str = "
DO $$
DECLARE
  horizon xid := pg_snapshot_xmax(pg_current_snapshot())::xid;
  deadline timestamptz := clock_timestamp() + interval '10 s';
BEGIN
  WHILE EXISTS (
    SELECT FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()
      AND greatest(age(backend_xid), age(backend_xmin)) > age(horizon))
  LOOP
    IF clock_timestamp() > deadline THEN
      RAISE EXCEPTION 'a session has had a snapshot for 10 s';
    END IF;
    PERFORM pg_sleep(0.002);
    PERFORM pg_stat_clear_snapshot();
  END LOOP;
END $$";

/// As [`UNSEEN`], and no standby that sends feedback holds on to it either. (Standbys send feedback once in
/// `wal_receiver_status_interval`, whatever they run.)
pub(super) const UNSEEN_BY_STANDBYS: &str = "
DO $$
DECLARE
  horizon xid := pg_snapshot_xmax(pg_current_snapshot())::xid;
  deadline timestamptz := clock_timestamp() + interval '25 s';
BEGIN
  WHILE EXISTS (
    SELECT FROM pg_stat_activity
    WHERE backend_type IN ('client backend', 'walsender') AND pid <> pg_backend_pid()
      AND greatest(age(backend_xid), age(backend_xmin)) > age(horizon))
    OR EXISTS (SELECT FROM pg_replication_slots WHERE age(xmin) > age(horizon))
  LOOP
    IF clock_timestamp() > deadline THEN
      RAISE EXCEPTION 'a session, or the feedback of a standby, has held on to a snapshot for 25 s';
    END IF;
    PERFORM pg_sleep(0.002);
    PERFORM pg_stat_clear_snapshot();
  END LOOP;
END $$";
