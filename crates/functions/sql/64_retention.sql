-- Housekeeping: what the worker does once a minute, in slices that stay short.

-- How many rows one slice of retention deletes.
CREATE OR REPLACE FUNCTION df._slice() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 5000';

-- The retention in force: df.retention_days, 30 by default; 0 keeps for ever.
CREATE OR REPLACE FUNCTION df._retention() RETURNS interval
LANGUAGE sql STABLE AS $$
    SELECT make_interval(days => coalesce(nullif(current_setting('df.retention_days', true), ''), '30')::int)
$$;

-- Deletes instances that ended before the retention, oldest first; partitions in which nothing is left and nothing
-- will be added are dropped whole. Returns how many instances went.
CREATE OR REPLACE FUNCTION df._expire(before timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    gone bigint[];
    part bigint;
    last_part bigint := (SELECT last_value >> 20 FROM df._instance_seq);
BEGIN
    SELECT array_agg(d.seq) INTO gone FROM (
        SELECT d.seq FROM df._done d WHERE d.completed_at < before ORDER BY d.seq LIMIT df._slice()) d;
    IF gone IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM df._key WHERE seq = ANY (gone);
    DELETE FROM df._inbox WHERE seq = ANY (gone);
    part := gone[1] >> 20;
    IF part < last_part
       AND NOT EXISTS (SELECT FROM df._done d WHERE d.seq >= part << 20 AND d.seq < (part + 1) << 20
                       AND d.completed_at >= before)
       AND NOT EXISTS (SELECT FROM df._instance i WHERE i.seq >= part << 20 AND i.seq < (part + 1) << 20
                       AND NOT EXISTS (SELECT FROM df._done d WHERE d.seq = i.seq)) THEN
        DELETE FROM df._key WHERE seq >= part << 20 AND seq < (part + 1) << 20;
        DELETE FROM df._inbox WHERE seq >= part << 20 AND seq < (part + 1) << 20;
        EXECUTE format('DROP TABLE IF EXISTS df.%I, df.%I, df.%I',
            '_instance_' || part, '_done_' || part, '_execution_' || part);
    ELSE
        DELETE FROM df._execution WHERE seq = ANY (gone);
        DELETE FROM df._instance WHERE seq = ANY (gone);
        DELETE FROM df._done WHERE seq = ANY (gone);
    END IF;
    RETURN cardinality(gone);
END $$;

-- Empties `_ready` when dead rows have swollen it: with a snapshot held open somewhere, vacuum cannot. The few rows
-- that live are put back. Nobody is made to wait: if the table is in use, the next minute is as good.
CREATE OR REPLACE FUNCTION df._rotate_ready() RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    waiting df._ready[];
BEGIN
    IF pg_relation_size('df._ready') < 8 << 20 THEN
        RETURN false;
    END IF;
    BEGIN
        LOCK TABLE df._ready IN ACCESS EXCLUSIVE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    SELECT array_agg(r) INTO waiting FROM (SELECT * FROM df._ready LIMIT 10001) r;
    IF cardinality(waiting) > 10000 THEN
        RETURN false;
    END IF;
    TRUNCATE df._ready;
    INSERT INTO df._ready SELECT * FROM unnest(waiting);
    RETURN true;
END $$;

-- Partitions ahead of need, retention, and mail that nobody will read.
CREATE OR REPLACE FUNCTION df._maintain() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    -- Two housekeepers at once would wait for each other.
    alone boolean := pg_try_advisory_xact_lock(6579571, 2);
    part bigint := (SELECT last_value >> 20 FROM df._instance_seq);
BEGIN
    IF NOT alone THEN
        RETURN;
    END IF;
    PERFORM df._add_partition(part), df._add_partition(part + 1);
    IF df._retention() > interval '0' THEN
        PERFORM df._expire(now() - df._retention());
    END IF;
    DELETE FROM df._inbox i WHERE i.sent_at < now() - interval '1 minute'
        AND NOT EXISTS (SELECT FROM df._work w WHERE w.seq = i.seq)
        AND NOT EXISTS (SELECT FROM df._ready r WHERE r.seq = i.seq);
    PERFORM df._rotate_ready();
END $$;

REVOKE ALL ON FUNCTION df._expire(timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._rotate_ready() FROM PUBLIC;
REVOKE ALL ON FUNCTION df._maintain() FROM PUBLIC;
REVOKE ALL ON FUNCTION df._add_partition(bigint) FROM PUBLIC;
