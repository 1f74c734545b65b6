-- One turn of a worker: claim, run in between, finish, in one transaction. The worker calls these as the owner of the
-- tables; nobody else may. Plans are generic, since to plan for each call anew, over partitions, costs more than the call; and as
-- they are made when the tables are small, they are kept from scanning what will grow.

-- Refuses a worker that is for another version of the schema: an installation may have come while it ran. What it has is
-- left for others.
CREATE OR REPLACE FUNCTION df._must_be_for(version int) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found CONSTANT int := (SELECT m.schema_version FROM df._meta m);
BEGIN
    IF version <> found THEN
        RAISE EXCEPTION 'this worker is for version % of the schema df, which has version %', version, found
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Start a worker of a program of that version in its place.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION df._must_be_for(int) FROM PUBLIC;

-- The events of an instance as a JSON array, which are consumed; NULL: there are none.
CREATE OR REPLACE FUNCTION df._take_mail(role oid, number bigint) RETURNS json
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    mail json;
BEGIN
    WITH consumed AS (
        DELETE FROM df._inbox i WHERE i.seq = number AND i.submitted_by = role RETURNING i.id, i.kind, i.name, i.data
    )
    SELECT json_agg(json_build_object('kind', c.kind, 'name', c.name, 'data', c.data) ORDER BY c.id) INTO mail
    FROM consumed c;
    RETURN mail;
END $$;

-- Takes instances of one role, for a worker that is for this version: first those whose timer is due or that have mail, the longest waiting first, then new
-- ones in the order of their numbers, from `after` on, which it moves to `_instance`. What it takes stays locked until the
-- transaction ends, and what another worker has locked it passes over. Rows come in no order. One row without a number says
-- that instances have been put into queues, where they wait. What comes for queues is left alone unless it `enters`. `mail` is what
-- df._take_mail says. The states that it takes have `most_bytes` together, beside the last one. A look from 0 on is one at everything; others do not go over timers that were due two seconds ago,
-- where there may be many dead rows.
CREATE OR REPLACE FUNCTION df._claim(version int, role oid, after bigint, many int, most_bytes bigint, enters boolean)
RETURNS TABLE (seq bigint, fresh boolean, label text, database text, graph text, vars text, input text,
    created_at timestamptz, started_at timestamptz, parent bigint, parent_cell text, queue bigint, partition text, state text,
    mail text, at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    old bigint[];
    entering bigint[] := '{}';
    partitions text[];
    put_off int;
    up_to bigint;
    has_mail boolean := EXISTS (SELECT FROM df._inbox);
    due_after timestamptz;
BEGIN
    PERFORM df._must_be_for(version);
    at := clock_timestamp();
    due_after := CASE WHEN after = 0 THEN '-infinity' ELSE at - interval '2 seconds' END;
    -- To make a large statement ready costs more than to ask whether there is anything for it.
    IF has_mail OR EXISTS (SELECT FROM df._work w WHERE w.due_at > due_after AND w.due_at <= at AND NOT w.paused) THEN
        WITH candidate AS (
            SELECT w.seq, w.due_at AS since FROM df._work w
            WHERE w.due_at > due_after AND w.due_at <= at AND NOT w.paused AND w.submitted_by = role
            UNION ALL
            SELECT w.seq, i.sent_at FROM df._inbox i CROSS JOIN LATERAL (
                SELECT k.seq FROM df._work k WHERE k.seq = i.seq AND k.submitted_by = role OFFSET 0) w
            WHERE i.submitted_by = role
        ), oldest AS (
            SELECT c.seq, min(c.since) AS since FROM candidate c GROUP BY c.seq ORDER BY min(c.since) LIMIT many
        ), locked AS (
            SELECT w.seq, w.bytes, o.since FROM df._work w JOIN oldest o USING (seq) FOR UPDATE OF w SKIP LOCKED
        )
        SELECT array_agg(l.seq) INTO old FROM (
            SELECT k.seq, sum(k.bytes) OVER (ORDER BY k.since, k.seq) - k.bytes AS before FROM locked k) l
        WHERE l.before < most_bytes;
    END IF;

    IF old IS NOT NULL THEN
        RETURN QUERY
        SELECT w.seq, false, i.label, i.database, i.graph::text, i.vars::text, i.input::text, i.created_at, w.started_at,
            i.parent, i.parent_cell, i.queue, NULL, w.state::text, CASE WHEN has_mail THEN df._take_mail(role, w.seq)::text END, at
        FROM df._work w JOIN df._instance i USING (seq)
        WHERE w.seq = ANY (old);
    END IF;

    IF coalesce(cardinality(old), 0) < many THEN
        IF enters AND EXISTS (SELECT FROM df._ready r WHERE r.submitted_by = role AND r.seq > after AND r.queue IS NOT NULL) THEN
            -- What it has looked at is all that is taken: whoever enters leaves nothing alone that came before.
            SELECT e.entering, e.partitions, e.put_off, e.up_to INTO entering, partitions, put_off, up_to
            FROM df._enter(role, after, many - coalesce(cardinality(old), 0)) e;
            IF put_off > 0 THEN
                RETURN NEXT;
            END IF;
        END IF;
        RETURN QUERY
        WITH taken AS (
            DELETE FROM df._ready r WHERE r.ctid = ANY (ARRAY(
                SELECT n.ctid FROM df._ready n
                WHERE n.seq > after AND n.submitted_by = role AND (n.queue IS NULL OR n.seq = ANY (entering))
                  AND (up_to IS NULL OR n.seq <= up_to)
                ORDER BY n.seq LIMIT many - coalesce(cardinality(old), 0)
                FOR UPDATE SKIP LOCKED))
            RETURNING r.*
        ), kept AS (
            -- A row that a submitter wrote by hand may have no graph at all: then the instance fails. Its label may not
            -- fit into the index.
            INSERT INTO df._instance (seq, submitted_by, created_at, label, database, graph, vars, input, parent,
                parent_cell, id, queue)
            SELECT t.seq, t.submitted_by, t.created_at,
                CASE WHEN octet_length(t.label) > 1000 THEN left(t.label, 250) ELSE t.label END, t.database,
                coalesce(t.graph, df._statement_graph(t.statement), '[]'), t.vars, t.input, t.parent, t.parent_cell,
                df._id(t.seq), t.queue
            FROM taken t
            RETURNING seq, label, database, graph, vars, input, created_at, parent, parent_cell, queue
        )
        SELECT k.seq, true, k.label, k.database, k.graph::text, k.vars::text, k.input::text, k.created_at, at,
            k.parent, k.parent_cell, k.queue,
            CASE WHEN k.queue IS NOT NULL THEN partitions[array_position(entering, k.seq)] END, NULL::text, CASE WHEN has_mail THEN df._take_mail(role, k.seq)::text END, at
        FROM kept k;
    END IF;
END $$;

-- The roles that wait for a turn: those whose instances are due or have mail, and those who have started new ones. Of
-- the roles in `roles`, in ascending order, only starts behind the number in `afters` count, so that a look does not go
-- over their dead rows; timers that were due two seconds ago only when all of these are 0.
CREATE OR REPLACE FUNCTION df._waiting(roles oid[], afters bigint[])
RETURNS TABLE (role oid, role_name text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    WITH RECURSIVE known AS (
        SELECT k.role, k.after, lag(k.role, 1, 0::oid) OVER (ORDER BY k.role) AS before
        FROM unnest(roles, afters) AS k(role, after)
    ), gap AS (
        SELECT k.before AS low, k.role AS high FROM known k
        UNION ALL
        SELECT coalesce(roles[cardinality(roles)], 0), 4294967295::oid
    ), starter AS (
        -- From role to role, whatever number of rows each has.
        SELECT (SELECT r.submitted_by FROM df._ready r WHERE r.submitted_by > g.low AND r.submitted_by < g.high
                ORDER BY r.submitted_by LIMIT 1) AS role, g.high
        FROM gap g
        UNION ALL
        SELECT (SELECT r.submitted_by FROM df._ready r WHERE r.submitted_by > s.role AND r.submitted_by < s.high
                ORDER BY r.submitted_by LIMIT 1), s.high
        FROM starter s WHERE s.role IS NOT NULL
    ), waiting AS (
        SELECT s.role FROM starter s WHERE s.role IS NOT NULL
        UNION
        SELECT k.role FROM known k
        WHERE EXISTS (SELECT FROM df._ready r WHERE r.submitted_by = k.role AND r.seq > k.after)
        UNION
        SELECT w.submitted_by FROM df._work w
        WHERE w.due_at > CASE WHEN 0 < ANY (afters) THEN clock_timestamp() - interval '2 seconds' ELSE '-infinity' END
          AND w.due_at <= clock_timestamp() AND NOT w.paused
        UNION
        -- From the mail to what it is for: the other way round goes over all that is there, and over its dead rows.
        SELECT w.submitted_by FROM df._inbox i CROSS JOIN LATERAL (
            SELECT k.submitted_by FROM df._work k WHERE k.seq = i.seq AND k.submitted_by = i.submitted_by OFFSET 0) w
    )
    SELECT w.role, pg_get_userbyid(w.role)::text FROM waiting w
$$;

-- Writes what a turn has led to.
--   ended, going: instances that ended, and that go on; an instance is in one of the two.
--   began: numbers of instances, among either, that had a `_work` row when the turn claimed them.
--   more: what few turns have, as JSON: executions, activities, dropped activities, mail.
CREATE OR REPLACE FUNCTION df._finish(
    role oid, ended df._ended[], going df._going[], began bigint[], more json
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    ended_seqs CONSTANT bigint[] := ARRAY(SELECT e.seq FROM unnest(ended) e);
    ids text;
    channel text;
    stopped bigint;
BEGIN
    IF cardinality(ended) > 0 THEN
        INSERT INTO df._done (seq, submitted_by, status, execution, started_at, output, state)
        SELECT e.seq, role, e.status::"char", e.execution, e.started_at, e.output::json, e.state::json FROM unnest(ended) e;
        IF cardinality(began) > 0 THEN
            DELETE FROM df._work w WHERE w.seq = ANY (ended_seqs) AND w.seq = ANY (began);
            WITH gone AS (
                DELETE FROM df._activity a WHERE a.seq = ANY (ended_seqs) RETURNING a.number, a.owner
            )
            SELECT count(pg_notify('df_stop', g.number::text)) INTO stopped FROM gone g WHERE g.owner IS NOT NULL;
            IF EXISTS (SELECT FROM df._task) THEN
                PERFORM df._drop_tasks(ARRAY(SELECT t.number FROM df._task t WHERE t.seq = ANY (ended_seqs)));
            END IF;
        END IF;
        -- Whoever waits for the end of an instance holds this lock shared, so that nobody is told when nobody listens.
        IF NOT pg_try_advisory_xact_lock(6579571, 1) THEN
            channel := (SELECT c.name FROM df._channel c WHERE c.submitted_by = role);
        END IF;
        IF channel IS NOT NULL THEN
            SELECT string_agg(df._id(d.seq), ',') INTO ids FROM unnest(ended_seqs) AS d(seq);
            FOR part IN 0 .. length(ids) / 7200 LOOP
                PERFORM pg_notify(channel, substr(ids, part * 7200 + 1, 7200));
            END LOOP;
        END IF;
    END IF;
    IF cardinality(going) > 0 THEN
        UPDATE df._work w SET updated_at = clock_timestamp(), due_at = n.due_at, paused = n.paused,
            execution = n.execution, state = n.state::json, bytes = octet_length(n.state), admitted = NULL
        FROM unnest(going) n
        WHERE w.seq = n.seq AND n.seq = ANY (began);
        INSERT INTO df._work (seq, submitted_by, started_at, updated_at, due_at, paused, execution, state, bytes)
        SELECT n.seq, role, n.started_at, clock_timestamp(), n.due_at, n.paused, n.execution, n.state::json,
            octet_length(n.state)
        FROM unnest(going) n
        WHERE n.seq <> ALL (began);
    END IF;
    IF more IS NOT NULL THEN
        INSERT INTO df._execution (seq, execution, submitted_by, status, started_at, ended_at, event_count, output)
        SELECT e.seq, e.execution, role, e.status::"char", e.started_at, e.ended_at, e.event_count, e.output
        FROM json_to_recordset(more -> 'executions') AS e(seq bigint, execution bigint, status text,
            started_at timestamptz, ended_at timestamptz, event_count bigint, output json);
        WITH gone AS (
            DELETE FROM df._activity a
            USING json_to_recordset(more -> 'dropped') AS x(seq bigint, cell text)
            WHERE a.seq = x.seq AND a.cell = x.cell RETURNING a.number, a.owner
        )
        -- Whoever runs one of them stops.
        SELECT count(pg_notify('df_stop', g.number::text)) INTO stopped FROM gone g WHERE g.owner IS NOT NULL;
        INSERT INTO df._activity (seq, cell, submitted_by, kind, payload, queue)
        SELECT a.seq, a.cell, role, a.kind, a.payload, a.queue
        FROM json_to_recordset(more -> 'activities') AS a(seq bigint, cell text, kind text, payload json, queue bigint);
        -- What was dropped above, and what has been answered, is nobody's any more.
        IF more -> 'answered' IS NOT NULL OR (more -> 'dropped' IS NOT NULL AND EXISTS (SELECT FROM df._task)) THEN
            PERFORM df._drop_tasks(ARRAY(
                SELECT t.number FROM json_to_recordset(coalesce(more -> gone.kind, '[]')) AS x(seq bigint, cell text)
                JOIN df._task t ON t.seq = x.seq AND t.cell = x.cell))
            FROM unnest('{dropped,answered}'::text[]) AS gone(kind);
        END IF;
        IF more -> 'tasks' IS NOT NULL THEN
            INSERT INTO df._task (seq, cell, submitted_by, name, input, max_attempts)
            SELECT t.seq, t.cell, role, t.name, t.input, t.max_attempts
            FROM json_to_recordset(more -> 'tasks') AS t(seq bigint, cell text, name text, input json, max_attempts int);
            NOTIFY df_task;
        END IF;
        IF more -> 'entered' IS NOT NULL THEN
            INSERT INTO df._slot (seq, queue, submitted_by, partition)
            SELECT e.seq, e.queue, role, e.partition
            FROM json_to_recordset(more -> 'entered') AS e(seq bigint, queue bigint, partition text);
        END IF;
        IF more -> 'left' IS NOT NULL THEN
            -- What a queue has let in has ended: there is room for others, and its key is free.
            DELETE FROM df._slot s
            WHERE s.seq IN (SELECT l.value::text::bigint FROM json_array_elements(more -> 'left') l);
            DELETE FROM df._dedup d
            WHERE d.seq IN (SELECT l.value::text::bigint FROM json_array_elements(more -> 'left') l);
        END IF;
        INSERT INTO df._inbox (seq, submitted_by, kind, name, data)
        SELECT m.seq, role, m.kind, m.name, m.data
        FROM json_to_recordset(more -> 'mail') AS m(seq bigint, kind text, name text, data json);
    END IF;
END $$;

-- Takes tasks back that are not wanted, except those that somebody holds in an open transaction: a turn does not wait for
-- what a submitter does. The housekeeping comes for what is left.
CREATE OR REPLACE FUNCTION df._drop_tasks(numbers bigint[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM df._task d WHERE d.ctid = ANY (ARRAY(
        SELECT t.ctid FROM df._task t WHERE t.number = ANY (numbers) FOR UPDATE SKIP LOCKED))
$$;
REVOKE ALL ON FUNCTION df._drop_tasks(bigint[]) FROM PUBLIC;

-- Starts a child of an instance in the turn of its parent. NULL: it cannot wait in that queue, which is not there or takes
-- nothing more.
CREATE OR REPLACE FUNCTION df._start_child(role oid, parent bigint, parent_cell text, label text, database text,
    graph json, vars json, environment json, queue text, priority int, partition text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint;
    place record;
BEGIN
    PERFORM df._label_fits(label);
    IF queue IS NOT NULL THEN
        SELECT q.id, q.state INTO place FROM df._queue q WHERE q.submitted_by = role AND q.name = queue;
        IF place.state IS NULL OR place.state = 'draining' THEN
            RETURN NULL;
        END IF;
        INSERT INTO df._queued (submitted_by, label, database, graph, vars, input, parent, parent_cell, queue, priority,
            partition)
        VALUES (role, label, database, graph, vars, environment, parent, parent_cell, place.id, coalesce(priority, 0),
            coalesce(partition, '')) RETURNING seq INTO number;
        RETURN number;
    END IF;
    INSERT INTO df._ready (submitted_by, label, database, graph, vars, input, parent, parent_cell)
    VALUES (role, label, database, graph, vars, environment, parent, parent_cell) RETURNING seq INTO number;
    RETURN number;
END $$;

REVOKE ALL ON FUNCTION df._take_mail(oid, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._claim(int, oid, bigint, int, bigint, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._waiting(oid[], bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._finish(oid, df._ended[], df._going[], bigint[], json) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._start_child(oid, bigint, text, text, text, json, json, json, text, int, text) FROM PUBLIC;
