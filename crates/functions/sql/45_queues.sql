-- Queues: where instances wait until a limit or a time lets them in. What has nothing to wait for but room comes into
-- `_ready`, as all starts do, and the turn that takes it lets it in if there is room for everything that has come
-- (df._enter). What has to wait is in `_queued`: workers call df._admit, which moves what may begin into `_instance` and
-- `_work`, where turns find it. What waits costs those who do not wait nothing: turns never look into `_queued`.

-- Makes a queue of the calling role, or changes it: the limits hold at once, for what waits already, too. NULL: no limit.
--   concurrency            how many of its instances may go on at once
--   worker_concurrency     how many of their long steps one worker may run at once
--   rate, per              how many it lets in within any time of this length
--   partition_by           the key of the input that says to which partition an instance belongs
--   partition_concurrency  how many of a partition may go on at once
CREATE OR REPLACE FUNCTION df.queue(name text, concurrency int DEFAULT NULL, worker_concurrency int DEFAULT NULL,
    rate int DEFAULT NULL, per interval DEFAULT '1 second', partition_by text DEFAULT NULL,
    partition_concurrency int DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    span CONSTANT interval := CASE WHEN queue.rate IS NOT NULL THEN queue.per END;
BEGIN
    IF queue.name IS NULL OR length(queue.name) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'df.queue: the name of a queue has 1 to 200 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF least(queue.concurrency, queue.worker_concurrency, queue.rate, queue.partition_concurrency) < 1
        OR greatest(queue.concurrency, queue.worker_concurrency, queue.partition_concurrency) > 10000 OR queue.rate > 100000
    THEN
        RAISE EXCEPTION 'df.queue: a limit is from 1 to 10,000, a rate to 100,000, or NULL for none'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'df.pause_queue lets nothing in.';
    END IF;
    IF queue.rate IS NOT NULL AND (queue.per IS NULL OR queue.per <= interval '0' OR queue.per > interval '30 days') THEN
        RAISE EXCEPTION 'df.queue: "per" is a time of up to 30 days, and is %', coalesce(queue.per::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO df._queue AS q (name, concurrency, worker_concurrency, rate, per, partition_by, partition_concurrency)
    VALUES (queue.name, queue.concurrency, queue.worker_concurrency, queue.rate, span, queue.partition_by,
        queue.partition_concurrency)
    ON CONFLICT (submitted_by, name) DO UPDATE SET concurrency = excluded.concurrency,
        worker_concurrency = excluded.worker_concurrency, rate = excluded.rate, per = excluded.per,
        partition_by = excluded.partition_by, partition_concurrency = excluded.partition_concurrency;
    NOTIFY df_wake;
    RETURN queue.name;
END $$;

-- How many queues, and how many schedules, a role may have: workers go from one to the next.
CREATE OR REPLACE FUNCTION df._made_max() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1000';

-- Whether the caller may make another one, or has this one. The policies of `_queue` and `_schedule` ask.
CREATE OR REPLACE FUNCTION df._may_make(what text, called text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    me CONSTANT oid := quote_ident(current_user)::regrole;
    has_it boolean;
    there bigint;
BEGIN
    IF what = 'queue' THEN
        SELECT coalesce(bool_or(q.name = called), false), count(*) INTO has_it, there
        FROM df._queue q WHERE q.submitted_by = me;
    ELSE
        SELECT coalesce(bool_or(s.name = called), false), count(*) INTO has_it, there
        FROM df._schedule s WHERE s.submitted_by = me;
    END IF;
    IF there >= df._made_max() AND NOT has_it THEN
        RAISE EXCEPTION 'role "%" has % of kind %, and cannot have more', current_user, there, what
            USING ERRCODE = 'program_limit_exceeded', HINT = format('SELECT df.drop_%s(name) removes one.', what);
    END IF;
    RETURN true;
END $$;

-- The number of one of the role's queues. What needs none that somebody has made is in 'default', which has no limits
-- unless it is given some.
CREATE OR REPLACE FUNCTION df._queue_id(me oid, wanted text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    SELECT q.id INTO number FROM df._queue q WHERE q.submitted_by = me AND q.name = wanted;
    IF FOUND THEN
        RETURN number;
    END IF;
    IF wanted <> 'default' THEN
        RAISE EXCEPTION 'there is no queue "%" of role "%"', wanted, pg_get_userbyid(me)
            USING ERRCODE = 'undefined_object', HINT = format('Make it: SELECT df.queue(%L, concurrency => 10)', wanted);
    END IF;
    INSERT INTO df._queue (name) VALUES (wanted) ON CONFLICT DO NOTHING;
    NOTIFY df_wake;
    RETURN (SELECT q.id FROM df._queue q WHERE q.submitted_by = me AND q.name = wanted);
END $$;

-- Where a start waits, as one value; NULL: nowhere. A start with any of these waits in a queue:
--   queue      of this name, else 'default'
--   priority   the smallest number is first; 0 if nothing is said
--   partition  partitions are served in turn, whatever waits in each
--   dedup      while an instance with this key waits or goes on in the queue, another start gives its id
--   delay      not before this time from now has passed
--   debounce   as delay; and while it passes, another start with the same dedup takes its place and begins the time anew
CREATE OR REPLACE FUNCTION df._wait(queue text, priority int, partition text, dedup text, delay interval,
    debounce interval) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF num_nonnulls(queue, priority, partition, dedup, delay, debounce) = 0 THEN
        RETURN NULL;
    END IF;
    IF length(partition) > 200 OR length(dedup) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'df.start: partition has up to 200 characters, and dedup 1 to 200'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF least(delay, debounce) < interval '0' OR greatest(delay, debounce) > interval '100 years' THEN
        RAISE EXCEPTION 'df.start: delay and debounce are times from 0 to 100 years'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF debounce IS NOT NULL AND (dedup IS NULL OR delay IS NOT NULL) THEN
        RAISE EXCEPTION 'df.start: debounce goes with dedup, which says what is the same, and without delay'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object('queue', coalesce(queue, 'default'), 'priority', priority,
        'partition', partition, 'dedup', dedup, 'debounced', debounce IS NOT NULL,
        'delay', make_interval(secs => extract(epoch FROM now() + coalesce(delay, debounce) - now())::float8)));
END $$;

-- Puts one instance into a queue; its id.
CREATE OR REPLACE FUNCTION df._put(queue bigint, label text, database text, graph json, vars json, input json,
    priority int, partition text, due timestamptz, pause interval) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO df._queued (queue, label, database, graph, vars, input, priority, partition, due_at, delay)
    VALUES (_put.queue, _put.label, _put.database, _put.graph, _put.vars, _put.input, coalesce(_put.priority, 0),
        coalesce(_put.partition, ''), due, pause);
    RETURN df._last_id();
END $$;

-- Puts what df.start starts into a queue.
CREATE OR REPLACE FUNCTION df._start_queued(me oid, fut text, label text, database text, input jsonb, wait jsonb)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    place CONSTANT bigint := df._queue_id(me, wait ->> 'queue');
    pause CONSTANT interval := (wait ->> 'delay')::interval;
    due CONSTANT timestamptz := clock_timestamp() + pause;
    debounced CONSTANT boolean := (wait ->> 'debounced')::boolean;
    part CONSTANT text := left(coalesce(wait ->> 'partition',
        input ->> (SELECT q.partition_by FROM df._queue q WHERE q.id = place), ''), 200);
    what CONSTANT json := df._flatten(fut);
    variables CONSTANT json := CASE WHEN current_setting('df.traceparent', true) <> '' THEN df._traced_variables(me)
        ELSE (SELECT json_object_agg(v.name, v.value) FROM df.vars v WHERE v.owner = me) END;
    known record;
    id text;
BEGIN
    IF num_nonnulls(wait ->> 'dedup', pause) = 0 AND EXISTS (SELECT FROM df._queue q WHERE q.id = place AND q.state = 'open') THEN
        -- There may be room at once.
        INSERT INTO df._ready (queue, label, database, graph, vars, input, priority, partition)
        VALUES (place, _start_queued.label, _start_queued.database, what, variables, input::json, (wait ->> 'priority')::int, part);
        RETURN df._last_id();
    END IF;
    IF wait ->> 'dedup' IS NULL THEN
        RETURN df._put(place, label, database, what, variables, input::json, (wait ->> 'priority')::int, part, due, pause);
    END IF;
    -- Again, when the instance that has the key ends or is let in meanwhile, or another session has been first.
    FOR attempt IN 1 .. 5 LOOP
        SELECT d.seq, d.debounced INTO known FROM df._dedup d WHERE d.queue = place AND d.key = wait ->> 'dedup';
        IF FOUND THEN
            IF debounced THEN
                UPDATE df._queued q SET label = _start_queued.label, database = _start_queued.database, graph = what,
                    vars = variables, input = _start_queued.input, due_at = due, delay = pause
                WHERE q.submitted_by = me AND q.seq = known.seq;
                CONTINUE WHEN NOT FOUND AND known.debounced;
            END IF;
            RETURN df._id(known.seq);
        END IF;
        PERFORM df._takes_starts();
        BEGIN
            id := df._put(place, label, database, what, variables, input::json, (wait ->> 'priority')::int, part, due,
                pause);
            INSERT INTO df._dedup (queue, key, submitted_by, seq, debounced)
            VALUES (place, wait ->> 'dedup', me, df._seq(id), debounced);
            RETURN id;
        EXCEPTION WHEN unique_violation THEN
            -- What this one started is undone.
            NULL;
        END;
    END LOOP;
    RAISE EXCEPTION 'the dedup key "%" is in use by a transaction that this one cannot see', wait ->> 'dedup'
        USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
END $$;

-- df.start_many into a queue.
CREATE OR REPLACE FUNCTION df._queue_many(me oid, futs text[], label text, database text, inputs jsonb[], vars json,
    wait jsonb) RETURNS SETOF text
LANGUAGE plpgsql ROWS 1000 AS $$
#variable_conflict use_column
DECLARE
    queue_id CONSTANT bigint := df._queue_id(me, wait ->> 'queue');
    partition_by CONSTANT text := (SELECT q.partition_by FROM df._queue q WHERE q.id = queue_id);
    pause CONSTANT interval := (wait ->> 'delay')::interval;
    due CONSTANT timestamptz := clock_timestamp() + pause;
BEGIN
    RETURN QUERY
    WITH made AS (
        INSERT INTO df._queued (label, database, graph, statement, vars, input, queue, priority, partition, due_at, delay,
            wake)
        SELECT _queue_many.label, _queue_many.database,
            CASE WHEN NOT df._is_statement(f.fut) THEN df._flatten_envelope(f.fut) END,
            CASE WHEN df._is_statement(f.fut) THEN f.fut END,
            _queue_many.vars, f.input::json, queue_id, coalesce((wait ->> 'priority')::int, 0),
            left(coalesce(wait ->> 'partition', f.input ->> partition_by, ''), 200), due, pause,
            f.place = cardinality(futs)
        FROM unnest(futs, inputs) WITH ORDINALITY AS f(fut, input, place)
        ORDER BY f.place
        RETURNING seq
    )
    SELECT df._id(m.seq) FROM made m ORDER BY m.seq;
END $$;

-- Gives what is put into a queue its number: the sequence is nobody's to advance. The queue must be the submitter's own.
CREATE OR REPLACE FUNCTION df._enqueue() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record;
BEGIN
    SELECT q.name, q.state INTO place FROM df._queue q WHERE q.id = NEW.queue AND q.submitted_by = NEW.submitted_by;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'role "%" has no such queue', pg_get_userbyid(NEW.submitted_by) USING ERRCODE = 'undefined_object';
    END IF;
    IF place.state = 'draining' THEN
        RAISE EXCEPTION 'queue "%" is being drained, and takes nothing more', place.name
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = format('SELECT df.resume_queue(%L) opens it again.', place.name);
    END IF;
    NEW.seq := nextval('df._instance_seq');
    RETURN NEW;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'df._queued'::regclass AND t.tgname = 'enqueue'
                   AND t.tgfoid = 'df._enqueue()'::regprocedure AND t.tgenabled = 'O' AND t.tgqual IS NOT NULL) THEN
        DROP TRIGGER IF EXISTS enqueue ON df._queued;
        -- What comes from `_ready` has a number; a submitter may not write one.
        CREATE TRIGGER enqueue BEFORE INSERT ON df._queued FOR EACH ROW WHEN (NEW.seq IS NULL) EXECUTE FUNCTION df._enqueue();
    END IF;
END $$;

-- Control -----------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION df._set_queue_state(wanted text, new_state text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE df._queue q SET state = new_state
    WHERE q.submitted_by = quote_ident(current_user)::regrole AND q.name = wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no queue "%" of role "%"', wanted, current_user
            USING ERRCODE = 'undefined_object', HINT = 'df.queues() shows those that are there.';
    END IF;
    NOTIFY df_wake;
END $$;

-- Lets nothing in until the queue is resumed. It takes what is started; what it has let in goes on.
CREATE OR REPLACE FUNCTION df.pause_queue(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._set_queue_state(name, 'paused');
    RETURN format('Queue %s paused', name);
END $$;

-- Takes nothing more, and lets in what waits.
CREATE OR REPLACE FUNCTION df.drain_queue(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._set_queue_state(name, 'draining');
    RETURN format('Queue %s draining', name);
END $$;

CREATE OR REPLACE FUNCTION df.resume_queue(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._set_queue_state(name, 'open');
    RETURN format('Queue %s resumed', name);
END $$;

-- Removes a queue in which nothing waits and of which nothing goes on.
CREATE OR REPLACE FUNCTION df.drop_queue(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    request bigint;
BEGIN
    PERFORM df._set_queue_state(name, 'draining');
    INSERT INTO df._request (submitted_by, action, arguments)
    VALUES (quote_ident(current_user)::regrole, 'drop_queue', jsonb_build_object('name', name))
    RETURNING id INTO request;
    PERFORM df._drop_queue_rows(request);
    RETURN format('Queue %s dropped', name);
END $$;

-- Does what a row of `_request` asks for: who may delete from a table may lock it.
CREATE OR REPLACE FUNCTION df._drop_queue_rows(request bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
    number bigint;
BEGIN
    DELETE FROM df._request r WHERE r.id = request AND r.action = 'drop_queue' RETURNING r.* INTO wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no request %', request USING HINT = 'Call df.drop_queue.';
    END IF;
    DELETE FROM df._queue q WHERE q.submitted_by = wanted.submitted_by AND q.name = wanted.arguments ->> 'name'
    RETURNING q.id INTO number;
    IF EXISTS (SELECT FROM df._queued w WHERE w.queue = number) OR EXISTS (SELECT FROM df._slot s WHERE s.queue = number)
        OR EXISTS (SELECT FROM df._ready r WHERE r.submitted_by = wanted.submitted_by AND r.queue = number)
    THEN
        RAISE EXCEPTION 'queue "%" is not empty', wanted.arguments ->> 'name'
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Drain it, and wait until df.queues() shows neither waiting nor running.';
    END IF;
    DELETE FROM df._admission a WHERE a.queue = number;
    DELETE FROM df._dedup d WHERE d.queue = number;
END $$;

-- The caller's queues, or all that it may see: limits, what waits, and what goes on.
CREATE OR REPLACE FUNCTION df.queues()
RETURNS TABLE (name text, submitted_by regrole, state text, concurrency int, worker_concurrency int, rate int,
    per interval, partition_by text, partition_concurrency int, waiting bigint, delayed bigint, oldest_s double precision,
    running bigint, admitted bigint)
LANGUAGE sql STABLE AS $$
    SELECT q.name, q.submitted_by, q.state, q.concurrency, q.worker_concurrency, q.rate, q.per, q.partition_by,
        q.partition_concurrency, coalesce(w.waiting, 0), coalesce(w.delayed, 0),
        extract(epoch FROM clock_timestamp() - w.oldest)::double precision,
        (SELECT count(*) FROM df._slot s WHERE s.queue = q.id),
        CASE WHEN q.rate IS NOT NULL THEN (SELECT coalesce(sum(a.many), 0) FROM df._admission a
            WHERE a.queue = q.id AND a.at > clock_timestamp() - q.per) END
    FROM df._queue q
    LEFT JOIN (SELECT n.queue, count(*) FILTER (WHERE n.due_at IS NULL) AS waiting,
            count(*) FILTER (WHERE n.due_at IS NOT NULL) AS delayed, min(n.created_at) FILTER (WHERE n.due_at IS NULL) AS oldest
        FROM (SELECT d.queue, d.due_at, d.created_at FROM df._queued d
              UNION ALL SELECT r.queue, NULL, r.created_at FROM df._ready r WHERE r.queue IS NOT NULL) n
        GROUP BY n.queue) w ON w.queue = q.id
    ORDER BY q.submitted_by::text, q.name
$$;

-- What workers do ---------------------------------------------------------------------------------------------------

-- How many queues a look goes over, and how many partitions of each; how far a turn looks ahead over what has come.
CREATE OR REPLACE FUNCTION df._stride(what text) RETURNS int
LANGUAGE sql IMMUTABLE RETURN CASE what WHEN 'queues' THEN 100 ELSE 1000 END;

-- Partitions of a queue in which something waits, those with room, from behind one of them up to another. `seen` is the
-- last one that was looked at, or NULL when there are no more: however many are full, a look is bounded.
CREATE OR REPLACE FUNCTION df._partitions(of bigint, most_each int, behind text, up_to text, many bigint,
    OUT parts text[], OUT seen text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    part text := behind;
    stride CONSTANT int := df._stride('partitions');
BEGIN
    parts := '{}';
    FOR step IN 1 .. stride LOOP
        part := (SELECT w.partition FROM df._queued w
            WHERE w.queue = of AND w.due_at IS NULL AND (part IS NULL OR w.partition > part)
            ORDER BY w.partition LIMIT 1);
        IF part IS NULL OR part > up_to THEN
            seen := NULL;
            RETURN;
        END IF;
        IF most_each IS NULL OR most_each > (SELECT count(*) FROM (
                SELECT FROM df._slot s WHERE s.queue = of AND s.partition = part LIMIT most_each) x) THEN
            parts := parts || part;
        END IF;
        seen := part;
        EXIT WHEN cardinality(parts) >= many;
    END LOOP;
END $$;

-- What has come for the queues of a role, among the `many` instances that came first: `entering` are the numbers of those that
-- may begin in this transaction, and `partitions` theirs; the others are put into `_queued`, and `put_off` says how many these
-- are. What has come behind `up_to` is left for a later turn; NULL: nothing has. Its plans are made with the settings of
-- df._claim, which calls it for each turn that finds something for a queue: so few statements, and small ones.
--
-- Of a queue they begin if nothing waits there and there is room for all that has come, also behind `up_to`: else somebody among
-- those may be first. The queue is locked from then on: others change nothing of it before this transaction has ended and, if it
-- has limits, let nothing in.
CREATE OR REPLACE FUNCTION df._enter(role oid, after bigint, many int, OUT entering bigint[], OUT partitions text[],
    OUT put_off int, OUT up_to bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- All that have come for queues.
    all_seqs bigint[];
    all_places tid[];
    all_queues bigint[];
    all_parts text[];
    last_queue bigint;
    is_one boolean;
    -- The queue that is looked at, and what has come for it. `is_limited`: NULL if there is no such queue.
    of bigint;
    is_limited boolean;
    seqs bigint[];
    places tid[];
    parts text[];
    q df._queue;
    begins boolean;
    -- How many want to begin, with those behind `up_to`; NULL: too many to count.
    wanted bigint;
    waiting tid[] := '{}';
BEGIN
    entering := '{}';
    partitions := '{}';
    put_off := 0;
    SELECT array_agg(n.seq) FILTER (WHERE n.queue IS NOT NULL), array_agg(n.ctid) FILTER (WHERE n.queue IS NOT NULL),
        array_agg(n.queue) FILTER (WHERE n.queue IS NOT NULL), array_agg(n.part) FILTER (WHERE n.queue IS NOT NULL),
        min(n.queue), max(n.queue), CASE WHEN count(*) >= many THEN max(n.seq) END,
        (SELECT num_nonnulls(k.concurrency, k.partition_concurrency, k.rate) > 0
         FROM df._queue k WHERE k.id = min(n.queue) AND k.submitted_by = role)
    INTO all_seqs, all_places, all_queues, all_parts, of, last_queue, up_to, is_limited
    FROM (SELECT r.queue, r.seq, r.ctid, left(coalesce(r.partition, ''), 200) AS part FROM df._ready r
          WHERE r.submitted_by = role AND r.seq > after
          ORDER BY r.seq LIMIT many FOR UPDATE SKIP LOCKED) n;
    is_one := of = last_queue;
    WHILE of IS NOT NULL LOOP
        IF is_one THEN
            seqs := all_seqs;
            places := all_places;
            parts := all_parts;
        ELSE
            SELECT array_agg(n.seq), array_agg(n.place), array_agg(n.part) INTO seqs, places, parts
            FROM unnest(all_seqs, all_places, all_queues, all_parts) AS n(seq, place, queue, part) WHERE n.queue = of;
        END IF;
        begins := false;
        IF is_limited IS NULL THEN
            -- The queue was dropped meanwhile, or is another role's, and somebody wrote the row by hand: it waits for nothing.
            UPDATE df._ready r SET queue = NULL WHERE r.ctid = ANY (places);
        ELSE
            -- Not where something waits: the lock would keep out who lets that in for as long as this turn takes.
            IF NOT is_limited THEN
                SELECT k.* INTO q FROM df._queue k
                WHERE k.id = of AND k.state <> 'paused'
                  AND NOT EXISTS (SELECT FROM df._queued w WHERE w.queue = of AND w.due_at IS NULL)
                FOR SHARE SKIP LOCKED;
                begins := FOUND;
            ELSE
                wanted := cardinality(seqs);
                IF up_to IS NOT NULL THEN
                    wanted := wanted + (SELECT CASE WHEN count(*) < df._stride('arrivals') THEN count(*) FILTER (WHERE n.queue = of) END
                        FROM (SELECT r.queue FROM df._ready r
                              WHERE r.submitted_by = role AND r.seq > up_to AND r.queue IS NOT NULL
                              ORDER BY r.seq LIMIT df._stride('arrivals')) n);
                END IF;
                IF wanted IS NOT NULL THEN
                    SELECT k.* INTO q FROM df._queue k
                    WHERE k.id = of AND k.state <> 'paused'
                      AND NOT EXISTS (SELECT FROM df._queued w WHERE w.queue = of AND w.due_at IS NULL)
                    FOR NO KEY UPDATE SKIP LOCKED;
                    begins := FOUND;
                END IF;
            END IF;
            -- What is counted under the lock, by another statement than the one that took it, holds until this transaction ends.
            IF begins AND NOT is_limited THEN
                -- Limits that were set since it was looked at need the stronger lock.
                begins := num_nonnulls(q.concurrency, q.partition_concurrency, q.rate) = 0
                    AND NOT EXISTS (SELECT FROM df._queued w WHERE w.queue = of AND w.due_at IS NULL);
            ELSIF begins THEN
                begins := NOT EXISTS (SELECT FROM df._queued w WHERE w.queue = of AND w.due_at IS NULL)
                    AND (q.concurrency IS NULL OR wanted + (SELECT count(*) FROM (
                        SELECT FROM df._slot s WHERE s.queue = of LIMIT q.concurrency) x) <= q.concurrency);
                IF begins AND q.partition_concurrency IS NOT NULL THEN
                    -- Of those behind `up_to` nobody has asked for their partitions: they may all be of the same one.
                    begins := NOT EXISTS (
                        SELECT FROM (SELECT p.part, count(*) AS many FROM unnest(parts) AS p(part) GROUP BY p.part) p
                        WHERE p.many + wanted - cardinality(seqs)
                            + (SELECT count(*) FROM df._slot s WHERE s.queue = of AND s.partition = p.part)
                            > q.partition_concurrency);
                END IF;
                IF begins AND q.rate IS NOT NULL THEN
                    begins := wanted + (SELECT coalesce(sum(a.many), 0) FROM df._admission a
                        WHERE a.queue = of AND a.at > clock_timestamp() - q.per) <= q.rate;
                    IF begins THEN
                        DELETE FROM df._admission a WHERE a.queue = of AND a.at <= clock_timestamp() - q.per;
                        INSERT INTO df._admission (queue, many) VALUES (of, cardinality(seqs));
                    END IF;
                END IF;
            END IF;
            IF begins THEN
                entering := entering || seqs;
                partitions := partitions || parts;
            ELSE
                waiting := waiting || places;
            END IF;
        END IF;
        EXIT WHEN is_one OR of = last_queue;
        of := (SELECT min(n.queue) FROM unnest(all_queues) AS n(queue) WHERE n.queue > of);
        is_limited := (SELECT num_nonnulls(k.concurrency, k.partition_concurrency, k.rate) > 0
            FROM df._queue k WHERE k.id = of AND k.submitted_by = role);
    END LOOP;
    IF cardinality(waiting) > 0 THEN
        WITH taken AS (
            DELETE FROM df._ready r WHERE r.ctid = ANY (waiting) RETURNING r.*
        )
        INSERT INTO df._queued (seq, submitted_by, created_at, label, database, graph, statement, vars, input, queue, priority,
            partition, wake)
        SELECT t.seq, t.submitted_by, t.created_at, t.label, t.database, t.graph, t.statement, t.vars, t.input, t.queue,
            coalesce(t.priority, 0), left(coalesce(t.partition, ''), 200), false
        FROM taken t;
        GET DIAGNOSTICS put_off = ROW_COUNT;
    END IF;
END $$;

-- How many instances a queue lets in that no turn has taken yet. More would make what another queue lets in wait.
CREATE OR REPLACE FUNCTION df._ahead() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 100';

-- Lets in rows of `_queued`, which the caller has locked: they are due at once, in the order of their priority. Those that
-- a queue lets in, and not those that only have to be cancelled, have a slot of it.
CREATE OR REPLACE FUNCTION df._let_in(places tid[], with_slot boolean) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    moved int;
BEGIN
    WITH taken AS (
        DELETE FROM df._queued q WHERE q.ctid = ANY (places) RETURNING q.*
    ), kept AS (
        INSERT INTO df._instance (seq, submitted_by, created_at, label, database, graph, vars, input, parent,
            parent_cell, id, queue)
        SELECT t.seq, t.submitted_by, t.created_at,
            CASE WHEN octet_length(t.label) > 1000 THEN left(t.label, 250) ELSE t.label END, t.database,
            coalesce(t.graph, df._statement_graph(t.statement), '[]'), t.vars, t.input, t.parent, t.parent_cell,
            df._id(t.seq), t.queue
        FROM taken t
    ), slots AS (
        INSERT INTO df._slot (seq, queue, submitted_by, partition)
        SELECT t.seq, t.queue, t.submitted_by, t.partition FROM taken t WHERE with_slot
    ), freed AS (
        DELETE FROM df._dedup d USING taken t WHERE d.seq = t.seq AND d.debounced
    ), work AS (
        INSERT INTO df._work (seq, submitted_by, started_at, updated_at, due_at, admitted)
        SELECT t.seq, t.submitted_by, at, at,
            at - interval '1 millisecond' + row_number() OVER (ORDER BY t.priority, t.seq) * interval '1 microsecond',
            CASE WHEN with_slot THEN t.queue END
        FROM taken t
        RETURNING 1
    )
    SELECT count(*) INTO moved FROM work;
    RETURN moved;
END $$;

-- Lets in what limits and times allow now. Whatever a look does is bounded: what is left is for the next one. It goes over
-- the queues behind the number `behind`, and says up to which it has come: `next`, 0 when it has come to the end. `queues`:
-- whether there are any queues at all; `admitted`: how many were let in; `due_in_s`: in how many seconds there may be
-- more without anything happening.
CREATE OR REPLACE FUNCTION df._admit(behind bigint, OUT queues boolean, OUT admitted int, OUT next bigint,
    OUT due_in_s double precision)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    number bigint := behind;
    q record;
    room bigint;
    used bigint;
    soonest timestamptz;
    look record;
    parts text[];
    shares int[];
    places tid[];
    moved int;
BEGIN
    queues := EXISTS (SELECT FROM df._queue);
    admitted := 0;
    next := 0;
    IF NOT queues THEN
        RETURN;
    END IF;
    -- Those whose time has come.
    UPDATE df._queued w SET due_at = NULL WHERE w.ctid = ANY (ARRAY(
        SELECT n.ctid FROM df._queued n WHERE n.due_at <= clock_timestamp() ORDER BY n.due_at LIMIT 1000
        FOR UPDATE SKIP LOCKED));
    -- Those that somebody has cancelled wait for nothing.
    places := ARRAY(
        SELECT n.ctid FROM df._queued n
        WHERE (n.submitted_by, n.seq) IN (SELECT i.submitted_by, i.seq FROM df._inbox i WHERE i.kind = 'cancel')
        LIMIT 1000 FOR UPDATE SKIP LOCKED);
    IF cardinality(places) > 0 THEN
        admitted := df._let_in(places, false);
    END IF;
    FOR step IN 1 .. df._stride('queues') LOOP
        -- From queue to queue, however much waits in each.
        number := (SELECT w.queue FROM df._queued w WHERE w.due_at IS NULL AND w.queue > number ORDER BY w.queue LIMIT 1);
        EXIT WHEN number IS NULL;
        next := number;
        -- What is counted below holds until this transaction ends: others that let in pass this queue over.
        SELECT k.* INTO q FROM df._queue k WHERE k.id = number AND k.state <> 'paused' FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        room := df._ahead() - (SELECT count(*) FROM (SELECT FROM df._work w WHERE w.admitted = q.id LIMIT df._ahead()) x);
        IF q.concurrency IS NOT NULL THEN
            room := least(room, q.concurrency - (
                SELECT count(*) FROM (SELECT FROM df._slot s WHERE s.queue = q.id LIMIT q.concurrency) x));
        END IF;
        IF q.rate IS NOT NULL THEN
            DELETE FROM df._admission a WHERE a.queue = q.id AND a.at <= clock_timestamp() - q.per;
            SELECT coalesce(sum(a.many), 0), CASE WHEN sum(a.many) >= q.rate THEN least(soonest, min(a.at) + q.per)
                ELSE soonest END
            INTO used, soonest FROM df._admission a WHERE a.queue = q.id;
            room := least(room, q.rate - used);
        END IF;
        CONTINUE WHEN room <= 0;
        -- The partitions behind the one that was served last, and then those before it.
        look := df._partitions(q.id, q.partition_concurrency, q.last_partition, NULL, room);
        parts := look.parts;
        IF look.seen IS NULL THEN
            look := df._partitions(q.id, q.partition_concurrency, NULL, q.last_partition, room - cardinality(parts));
            parts := parts || look.parts;
        END IF;
        IF cardinality(parts) = 0 THEN
            IF look.seen IS NOT NULL THEN
                -- All that were looked at are full, and there are others.
                UPDATE df._queue k SET last_partition = look.seen WHERE k.id = q.id;
                soonest := clock_timestamp();
            END IF;
            CONTINUE;
        END IF;
        -- Equal shares; what does not divide goes to the first.
        shares := ARRAY(
            SELECT least(room / cardinality(parts) + (p.place <= room % cardinality(parts))::int,
                q.partition_concurrency - (SELECT count(*) FROM df._slot s WHERE s.queue = q.id AND s.partition = p.part))
            FROM unnest(parts) WITH ORDINALITY AS p(part, place) ORDER BY p.place);
        places := ARRAY(
            SELECT c.ctid FROM unnest(parts, shares) AS p(part, share) CROSS JOIN LATERAL (
                SELECT n.ctid FROM df._queued n
                WHERE n.queue = q.id AND n.due_at IS NULL AND n.partition = p.part
                ORDER BY n.priority, n.seq LIMIT p.share FOR UPDATE SKIP LOCKED) c);
        moved := df._let_in(places, true);
        IF q.last_partition <> parts[cardinality(parts)] THEN
            UPDATE df._queue k SET last_partition = parts[cardinality(parts)] WHERE k.id = q.id;
        END IF;
        IF q.rate IS NOT NULL AND moved > 0 THEN
            INSERT INTO df._admission (queue, many) VALUES (q.id, moved);
        END IF;
        admitted := admitted + moved;
    END LOOP;
    IF number IS NULL THEN
        next := 0;
    ELSE
        soonest := clock_timestamp();
    END IF;
    soonest := least(soonest, (SELECT w.due_at FROM df._queued w WHERE w.due_at IS NOT NULL ORDER BY w.due_at LIMIT 1));
    due_in_s := extract(epoch FROM soonest - clock_timestamp());
END $$;

REVOKE ALL ON FUNCTION df._enter(oid, bigint, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._let_in(tid[], boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._partitions(bigint, int, text, text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._admit(bigint) FROM PUBLIC;
