-- The tables of version 4, from those of version 3: queues.
--
--   _queue      a role's queue and its limits.
--   _queued     what waits there for its turn or for its time. It gets its number at the start, as everything does.
--   _slot       what a queue has let in and what has not ended yet: this is what limits of concurrency count.
--   _admission  how many a queue with a rate has let in, and when.
--   _dedup      under which key an instance is in a queue, so that it is there once.
--   _instance   says which queue an instance came through; _activity, too, so that a worker can count; _work only until
--               the first turn: there it says how many a queue has let in that nobody has begun.

CREATE TABLE df._queue (
    id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    submitted_by regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    -- How many of its instances may go on at once, in all and by partition. NULL: any number. All limits are limited,
    -- because every look counts up to them, and a look is for all roles.
    concurrency int CHECK (concurrency BETWEEN 1 AND 10000),
    partition_concurrency int CHECK (partition_concurrency BETWEEN 1 AND 10000),
    -- How many of their long steps one worker may run at once.
    worker_concurrency int CHECK (worker_concurrency BETWEEN 1 AND 10000),
    -- How many it lets in within any time of this length.
    rate int CHECK (rate BETWEEN 1 AND 100000),
    per interval CHECK (per > interval '0' AND per <= interval '30 days'),
    -- The key of the input that says to which partition an instance belongs.
    partition_by text CHECK (length(partition_by) BETWEEN 1 AND 200),
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'paused', 'draining')),
    -- The partition up to which the round has come.
    last_partition text NOT NULL DEFAULT '',
    PRIMARY KEY (submitted_by, name),
    CHECK ((rate IS NULL) = (per IS NULL))
) WITH (fillfactor = 50);

CREATE TABLE df._queued (
    seq bigint NOT NULL,
    submitted_by regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    label text,
    database text,
    graph json,
    statement text,
    vars json,
    input json,
    parent bigint,
    parent_cell text,
    queue bigint NOT NULL,
    -- The smallest is first.
    priority int NOT NULL DEFAULT 0,
    partition text NOT NULL DEFAULT '' CHECK (length(partition) <= 200),
    -- Until when it is not let in at all, and how long that was; NULL: it may be now. Submitters write these, and workers
    -- reckon with them: nothing that a submitter can write may be beyond what they can.
    due_at timestamptz CHECK (due_at BETWEEN '2000-01-01 00:00Z' AND '3000-01-01 00:00Z'),
    delay interval CHECK (delay BETWEEN interval '0' AND interval '101 years'),
    wake boolean NOT NULL DEFAULT true,
    PRIMARY KEY (submitted_by, seq)
);
CREATE INDEX _queued_next_idx ON df._queued (queue, partition, priority, seq) WHERE due_at IS NULL;
CREATE INDEX _queued_due_at_idx ON df._queued (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE df._slot (
    seq bigint PRIMARY KEY,
    queue bigint NOT NULL,
    submitted_by regrole NOT NULL,
    partition text NOT NULL
);
CREATE INDEX _slot_queue_idx ON df._slot (queue, partition);

CREATE TABLE df._admission (
    queue bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    many int NOT NULL
);
CREATE INDEX _admission_queue_idx ON df._admission (queue, at);

CREATE TABLE df._dedup (
    queue bigint NOT NULL,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    submitted_by regrole NOT NULL,
    seq bigint NOT NULL,
    -- The key is free again when the instance is let in, and not only when it has ended.
    debounced boolean NOT NULL,
    PRIMARY KEY (queue, key)
);
CREATE INDEX _dedup_seq_idx ON df._dedup (seq);

ALTER TABLE df._instance ADD COLUMN queue bigint;
ALTER TABLE df._work ADD COLUMN admitted bigint;
CREATE INDEX _work_admitted_idx ON df._work (admitted) WHERE admitted IS NOT NULL;
-- What was let in has no state before its first turn.
ALTER TABLE df._work ALTER state DROP NOT NULL;
ALTER TABLE df._activity ADD COLUMN queue bigint;
CREATE INDEX _inbox_cancel_idx ON df._inbox (seq) WHERE kind = 'cancel';

ALTER TABLE df._queue ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._queued ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._slot ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._admission ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._dedup ENABLE ROW LEVEL SECURITY;
-- Filled in by 45_queues.sql.
CREATE FUNCTION df._may_make(what text, called text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE POLICY reader ON df._queue FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY changer ON df._queue FOR UPDATE USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY maker ON df._queue FOR INSERT
    WITH CHECK (pg_get_userbyid(submitted_by) = current_user AND df._may_make('queue', name));
CREATE POLICY submitter ON df._queued USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._slot FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._admission FOR SELECT
    USING (queue IN (SELECT q.id FROM df._queue q WHERE pg_get_userbyid(q.submitted_by) = current_user));
CREATE POLICY submitter ON df._dedup USING (pg_get_userbyid(submitted_by) = current_user);

ALTER TABLE df._request DROP CONSTRAINT _request_action_check;
ALTER TABLE df._request ADD CONSTRAINT _request_action_check
    CHECK (action IN ('start', 'delete', 'unset', 'drop_queue', 'drop_schedule', 'resume', 'fork'));

-- Steps that outside workers do: as `_activity`, but claimed by whoever may, for a time, through SQL.
CREATE TABLE df._task (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq bigint NOT NULL,
    cell text NOT NULL,
    submitted_by regrole NOT NULL,
    name text NOT NULL,
    input json NOT NULL,
    max_attempts int NOT NULL,
    queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- How often it was claimed: the number of an attempt is its fence.
    attempt int NOT NULL DEFAULT 0,
    -- Until when nobody else may claim it. NULL: nobody has.
    leased_until timestamptz,
    leased_by text,
    -- It has ended, and its instance has not heard of it yet.
    ended_at timestamptz,
    UNIQUE (seq, cell)
);
CREATE INDEX _task_claim_idx ON df._task (submitted_by, name, number) WHERE ended_at IS NULL;
CREATE INDEX _task_leased_idx ON df._task (leased_until) WHERE ended_at IS NULL AND leased_until IS NOT NULL;
ALTER TABLE df._task ENABLE ROW LEVEL SECURITY;
CREATE POLICY submitter ON df._task USING (pg_get_userbyid(submitted_by) = current_user);

-- What an instance tells whoever asks, as long as it is kept.
CREATE TABLE df._event (
    seq bigint NOT NULL,
    submitted_by regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    value json NOT NULL CHECK (octet_length(value::text) <= 1048576),
    set_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (seq, key)
);
ALTER TABLE df._event ENABLE ROW LEVEL SECURITY;
-- Filled in by 47_events.sql.
CREATE FUNCTION df._may_tell(of bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE POLICY reader ON df._event FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY writer ON df._event FOR INSERT
    WITH CHECK (pg_get_userbyid(submitted_by) = current_user AND df._may_tell(seq));
CREATE POLICY changer ON df._event FOR UPDATE USING (pg_get_userbyid(submitted_by) = current_user);

-- Schedules: what is started at which times.
CREATE TABLE df._schedule (
    id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    submitted_by regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    cron text,
    time_zone text NOT NULL DEFAULT 'UTC',
    every interval CHECK (every BETWEEN interval '1 second' AND interval '10 years'),
    graph json NOT NULL,
    label text,
    database text,
    -- Not json, which holds what cannot be added to.
    input jsonb,
    queue text,
    overlap text NOT NULL CHECK (overlap IN ('skip', 'allow', 'buffer', 'cancel')),
    catch_up interval NOT NULL CHECK (catch_up BETWEEN interval '0' AND interval '1 year'),
    jitter interval NOT NULL CHECK (jitter BETWEEN interval '0' AND interval '1 year'),
    paused boolean NOT NULL DEFAULT false,
    -- The next time, and when it is seen to, which is later by some of the jitter. NULL: a worker must find out.
    next_at timestamptz,
    due_at timestamptz,
    -- The last time that was started, and what that was.
    last_at timestamptz,
    last_seq bigint,
    started bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    -- A time that waits for the end of the instance before.
    buffered_at timestamptz,
    -- Times that are past and were asked for, from and to.
    backfill_from timestamptz,
    backfill_to timestamptz,
    PRIMARY KEY (submitted_by, name),
    CHECK ((cron IS NULL) <> (every IS NULL)),
    -- Submitters write these, too.
    CHECK (least(next_at, due_at, backfill_from, backfill_to) >= '1900-01-01 00:00Z'
        AND greatest(next_at, due_at, backfill_from, backfill_to) <= '3000-01-01 00:00Z')
) WITH (fillfactor = 50);
ALTER TABLE df._schedule ENABLE ROW LEVEL SECURITY;
CREATE POLICY reader ON df._schedule FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY changer ON df._schedule FOR UPDATE USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY maker ON df._schedule FOR INSERT
    WITH CHECK (pg_get_userbyid(submitted_by) = current_user AND df._may_make('schedule', name));

-- They have more arguments or columns now.
DROP FUNCTION IF EXISTS df.start(text, text, text, text, jsonb, text);
DROP FUNCTION IF EXISTS df._start(text, text, text, text, jsonb, text);
DROP FUNCTION IF EXISTS df._start_once(oid, text, text, text, jsonb, text);
DROP FUNCTION IF EXISTS df._start_new(oid, text, text, text, jsonb, text);
DROP FUNCTION IF EXISTS df.start_many(text[], text, text, jsonb[]);
DROP FUNCTION IF EXISTS df.call(text, text, boolean);
DROP FUNCTION IF EXISTS df.resume(text);
DROP FUNCTION IF EXISTS df.retry(text, int, double precision, double precision, double precision, double precision);
DROP FUNCTION IF EXISTS df._claim(oid, bigint, int, bigint);
DROP FUNCTION IF EXISTS df._start_child(oid, bigint, text, text, text, json, json, json);
DROP FUNCTION IF EXISTS df._end_activity(uuid, bigint, text, bigint, int);

DO $$
DECLARE
    granted record;
    clause text;
BEGIN
    FOR granted IN
        SELECT r.rolname, bool_or(a.is_grantable) AS with_grant
        FROM pg_catalog.pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE n.nspname = 'df' AND a.privilege_type = 'USAGE' AND a.grantee <> n.nspowner
        GROUP BY r.rolname
    LOOP
        FOREACH clause IN ARRAY ARRAY[
            'SELECT ON df._queue, df._queued, df._slot, df._admission, df._dedup, df._task, df._event, df._schedule',
            'INSERT (name, concurrency, partition_concurrency, worker_concurrency, rate, per, partition_by, state) '
                'ON df._queue',
            'UPDATE (concurrency, partition_concurrency, worker_concurrency, rate, per, partition_by, state) ON df._queue',
            'INSERT (label, database, graph, statement, vars, input, queue, priority, partition, due_at, delay, wake) '
                'ON df._queued',
            'UPDATE (label, database, graph, statement, vars, input, due_at, delay) ON df._queued',
            'INSERT (queue, key, submitted_by, seq, debounced) ON df._dedup',
            'UPDATE (attempt, leased_until, leased_by, ended_at) ON df._task',
            'INSERT (seq, key, value) ON df._event',
            'UPDATE (value, set_at) ON df._event',
            'INSERT (name, cron, time_zone, every, graph, label, database, input, queue, overlap, catch_up, jitter) '
                'ON df._schedule',
            'UPDATE (cron, time_zone, every, graph, label, database, input, queue, overlap, catch_up, jitter, paused, '
                'next_at, due_at, backfill_from, backfill_to) ON df._schedule'
        ] LOOP
            EXECUTE format('GRANT %s TO %I%s', clause, granted.rolname,
                CASE WHEN granted.with_grant THEN ' WITH GRANT OPTION' ELSE '' END);
        END LOOP;
    END LOOP;
END $$;
