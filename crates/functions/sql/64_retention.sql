-- Housekeeping: what a worker does once a minute, on a connection of its own that waits for no lock longer than 200 ms.

-- How many rows one slice of retention deletes.
CREATE OR REPLACE FUNCTION df._slice() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 5000';

-- The retention in force: df.retention_days, 30 by default; 0 keeps for ever.
CREATE OR REPLACE FUNCTION df._retention() RETURNS interval
LANGUAGE sql STABLE AS $$
    SELECT make_interval(days => coalesce(df._setting('retention_days'), '30')::int)
$$;

-- Partitions hold 2^22 instances each. A table is made first and attached then, because attaching goes beside readers and
-- writers, while making a partition in one statement waits for all of them, and makes all others wait.
CREATE OR REPLACE FUNCTION df._add_partition(part bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parent text;
    child text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['_instance', '_done', '_execution'] LOOP
        child := parent || '_' || part;
        IF to_regclass(format('df.%I', child)) IS NULL THEN
            EXECUTE format('CREATE TABLE df.%I (LIKE df.%I INCLUDING ALL)', child, parent);
            EXECUTE format('ALTER TABLE df.%I ATTACH PARTITION df.%I FOR VALUES FROM (%s) TO (%s)',
                parent, child, part << 22, (part + 1) << 22);
        END IF;
    END LOOP;
END $$;

-- Deletes instances that ended before the retention, oldest first; a partition in which nothing is left and nothing
-- will be added is dropped whole, if it may be, and nobody reads in it for so long. Returns how many instances went.
CREATE OR REPLACE FUNCTION df._expire(before timestamptz, may_drop boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone bigint[];
    part bigint;
    dropped boolean := false;
    last_part bigint := (SELECT last_value >> 22 FROM df._instance_seq);
BEGIN
    SELECT array_agg(d.seq) INTO gone FROM (
        SELECT d.seq FROM df._done d WHERE d.completed_at < before LIMIT df._slice()) d;
    IF gone IS NULL THEN
        RETURN 0;
    END IF;
    part := (SELECT min(g) FROM unnest(gone) AS g) >> 22;
    IF may_drop AND part < last_part
       AND NOT EXISTS (SELECT FROM df._done d WHERE d.seq >= part << 22 AND d.seq < (part + 1) << 22
                       AND d.completed_at >= before)
       AND NOT EXISTS (SELECT FROM df._instance i WHERE i.seq >= part << 22 AND i.seq < (part + 1) << 22
                       AND NOT EXISTS (SELECT FROM df._done d WHERE d.seq = i.seq))
       AND NOT EXISTS (SELECT FROM df._ready r WHERE r.seq >= part << 22 AND r.seq < (part + 1) << 22)
       AND NOT EXISTS (SELECT FROM df._queued q WHERE q.seq >= part << 22 AND q.seq < (part + 1) << 22) THEN
        BEGIN
            EXECUTE format('DROP TABLE IF EXISTS df.%I, df.%I, df.%I',
                '_instance_' || part, '_done_' || part, '_execution_' || part);
            dropped := true;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END IF;
    IF dropped THEN
        DELETE FROM df._key WHERE seq >= part << 22 AND seq < (part + 1) << 22;
        DELETE FROM df._inbox WHERE seq >= part << 22 AND seq < (part + 1) << 22;
    ELSE
        DELETE FROM df._key WHERE seq = ANY (gone);
        DELETE FROM df._inbox WHERE seq = ANY (gone);
        DELETE FROM df._execution WHERE seq = ANY (gone);
        DELETE FROM df._instance WHERE seq = ANY (gone);
        DELETE FROM df._done WHERE seq = ANY (gone);
    END IF;
    -- Submitters can lock these rows, and keep nobody waiting by that.
    DELETE FROM df._event d WHERE d.ctid = ANY (ARRAY(
        SELECT e.ctid FROM df._event e WHERE e.seq = ANY (gone) FOR UPDATE SKIP LOCKED));
    RETURN cardinality(gone);
END $$;

-- How large a hot table may become with its indexes, whether somebody holds a snapshot or nobody does, unless more lives in it.
CREATE OR REPLACE FUNCTION df._hot_bytes() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 524288';

-- The tables whose rows live only for as long as an instance goes on, those that are so large, and how large each is.
CREATE OR REPLACE FUNCTION df._swollen(least_bytes bigint DEFAULT df._hot_bytes())
RETURNS TABLE (hot regclass, bytes bigint)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.hot, s.bytes
    FROM (SELECT h.hot, pg_total_relation_size(h.hot) AS bytes
          FROM unnest('{df._ready,df._work,df._inbox,df._activity,df._queued,df._slot,df._admission,df._dedup,df._task}'::regclass[])
              AS h(hot) OFFSET 0) s
    WHERE s.bytes >= least_bytes
$$;

-- Whether dead rows swell a hot table that a vacuum, which came just before, has not been able to clean, because somebody holds a
-- snapshot. Dead rows of a kilobyte each would fill such a table; where they are larger, fewer fill a larger one.
CREATE OR REPLACE FUNCTION df._is_full_of_dead(hot regclass, least_bytes bigint DEFAULT df._hot_bytes()) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    size CONSTANT bigint := pg_total_relation_size(hot);
BEGIN
    RETURN size >= least_bytes AND pg_stat_get_dead_tuples(hot) * size >= least_bytes / 1024 * least_bytes;
END $$;

-- Empties a hot table that is full of dead rows. The few rows that live are put back. Nobody is made to wait for long: without the lock, the next
-- time is as good. Whether few rows live is looked at before the lock is asked for. To a snapshot that is older and has not read
-- the table yet it is empty from then on: so a dump that is under way puts it off, which it does anyway once it holds its locks.
CREATE OR REPLACE FUNCTION df._rotate_table(hot regclass, least_bytes bigint DEFAULT df._hot_bytes()) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most CONSTANT int := 10000;
    size CONSTANT bigint := pg_total_relation_size(hot);
    live bigint;
    live_bytes bigint;
    kept text[];
BEGIN
    IF NOT df._is_full_of_dead(hot, least_bytes) OR EXISTS (SELECT FROM pg_class c WHERE c.oid = hot AND c.reltoastrelid <> 0
               AND pg_relation_size(c.reltoastrelid) > 64 << 20) THEN
        -- What lives may be large.
        RETURN false;
    END IF;
    EXECUTE format('SELECT count(*), coalesce(sum(pg_column_size(r)), 0) FROM (SELECT * FROM %s LIMIT %s) r', hot, most + 1)
    INTO live, live_bytes;
    -- What lives is a small part of it, with indexes and free space.
    IF live > most OR live_bytes * 6 > size OR EXISTS (SELECT FROM pg_stat_activity a
            WHERE a.datid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
              AND a.application_name LIKE 'pg\_dump%') THEN
        RETURN false;
    END IF;
    BEGIN
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', hot);
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    EXECUTE format('SELECT array_agg(r::text) FROM (SELECT * FROM %s LIMIT %s) r', hot, most + 1) INTO kept;
    IF cardinality(kept) > most THEN
        RETURN false;
    END IF;
    EXECUTE format('TRUNCATE %s', hot);
    -- It keeps its number. Should the workers sleep, it wakes them, and they look in vain.
    IF kept IS NOT NULL THEN
        EXECUTE format('INSERT INTO %1$s OVERRIDING SYSTEM VALUE SELECT (r::%1$s).* FROM unnest($1) AS r', hot) USING kept;
    END IF;
    RETURN true;
END $$;

-- Empties those of these tables for which it must be done. A list that is read in the moment of it may miss what is there.
-- Returns which were emptied.
CREATE OR REPLACE FUNCTION df._rotate(hots regclass[]) RETURNS regclass[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hot regclass;
    emptied regclass[] := '{}';
BEGIN
    -- Two that come at once would wait for each other. Submitters have no right to lock this row.
    PERFORM FROM df._meta FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN emptied;
    END IF;
    FOREACH hot IN ARRAY hots LOOP
        IF df._rotate_table(hot) THEN
            emptied := emptied || hot;
        END IF;
    END LOOP;
    RETURN emptied;
END $$;

-- Partitions ahead of need, retention, and mail that nobody will read.
CREATE OR REPLACE FUNCTION df._maintain() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part bigint := (SELECT last_value >> 22 FROM df._instance_seq);
    begun timestamptz := clock_timestamp();
    expired bigint;
BEGIN
    -- Two housekeepers at once would wait for each other. Submitters have no right to lock this row.
    PERFORM FROM df._meta FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF NOT df._is_open() THEN
        PERFORM df._open_or_close();
    END IF;
    -- A start whose transaction was open for longer than the retention may find its partition gone.
    PERFORM df._add_partition(p.part) FROM (
        SELECT generate_series(part, part + 3) UNION SELECT r.seq >> 22 FROM df._ready r
        UNION SELECT q.seq >> 22 FROM df._queued q ORDER BY 1) AS p(part);
    IF df._retention() > interval '0' THEN
        -- Who reads in a partition for hours keeps it, and nothing else: to wait for it is tried once.
        expired := df._expire(now() - df._retention());
        WHILE expired > 0 AND clock_timestamp() < begun + interval '1 second' LOOP
            expired := df._expire(now() - df._retention(), false);
        END LOOP;
    END IF;
    DELETE FROM df._inbox i WHERE i.sent_at < now() - interval '1 minute'
        AND NOT EXISTS (SELECT FROM df._work w WHERE w.seq = i.seq AND w.submitted_by = i.submitted_by)
        AND NOT EXISTS (SELECT FROM df._ready r WHERE r.submitted_by = i.submitted_by AND r.seq = i.seq)
        AND NOT EXISTS (SELECT FROM df._queued q WHERE q.submitted_by = i.submitted_by AND q.seq = i.seq);
    -- What came into a queue while it was dropped waits for nothing.
    PERFORM df._let_in(ARRAY(
        SELECT n.ctid FROM df._queued n WHERE NOT EXISTS (SELECT FROM df._queue q WHERE q.id = n.queue)
        LIMIT 1000 FOR UPDATE SKIP LOCKED), false);
    -- Tasks that were not wanted any more while somebody held them: those of instances that are over, or do not ask for them.
    PERFORM df._drop_tasks(ARRAY(
        SELECT t.number FROM df._task t LEFT JOIN df._work w ON w.seq = t.seq
        WHERE w.seq IS NULL OR coalesce(w.state -> 'cells' -> split_part(t.cell, '#', 1) ->> 'asked', '')
            <> coalesce(nullif(split_part(t.cell, '#', 2), ''), '0')));
END $$;

SELECT df._add_partition(p) FROM generate_series(0, 3) AS p;

REVOKE ALL ON FUNCTION df._expire(timestamptz, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._rotate_table(regclass, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._rotate(regclass[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._swollen(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._is_full_of_dead(regclass, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._maintain() FROM PUBLIC;
REVOKE ALL ON FUNCTION df._add_partition(bigint) FROM PUBLIC;
