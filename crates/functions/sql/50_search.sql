-- Finding instances by what is known of them, counting them, and telling what happened to one. Everything here runs with
-- the caller's rights.

-- The instances that fit, at least the `many` newest of them, and at most so many of each submitter, in no order. Whoever
-- asks for what is rare has all of the time between looked through.
CREATE OR REPLACE FUNCTION df._search(wanted text, label_is text, label_like text, queue_is text, role_is text,
    started_after timestamptz, started_before timestamptz, input_has jsonb, before timestamptz, after_id text, many bigint)
RETURNS TABLE (seq bigint, id text, submitted_by regrole, label text, queue bigint, created_at timestamptz, input json,
    status text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET max_parallel_workers_per_gather = 0 SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    submitters CONSTANT oid[] := ARRAY(SELECT s FROM unnest(df._seen_submitters()) AS s
        WHERE role_is IS NULL OR pg_get_userbyid(s) = role_is);
    queues CONSTANT bigint[] := ARRAY(SELECT q.id FROM df._queue q
        WHERE q.name = queue_is AND q.submitted_by::oid = ANY (submitters));
    lowest CONSTANT timestamptz := coalesce(started_after, '-infinity');
    highest CONSTANT timestamptz := least(coalesce(started_before, 'infinity'), before);
BEGIN
    IF wanted IS NULL OR wanted IN ('pending', 'cancelled') THEN
        RETURN QUERY
        SELECT p.* FROM (
            SELECT r.seq, df._id(r.seq), r.submitted_by, r.label, r.queue, r.created_at, r.input,
                CASE WHEN df._is_listed_as_cancelled(r.seq) THEN 'cancelled' ELSE 'pending' END AS status
            FROM (SELECT n.seq, n.submitted_by, n.label, n.queue, n.created_at, n.input FROM df._ready n
                  UNION ALL
                  SELECT q.seq, q.submitted_by, q.label, q.queue, q.created_at, q.input FROM df._queued q) r
            WHERE r.submitted_by = ANY (submitters) AND r.created_at >= lowest AND r.created_at <= highest
              AND (r.created_at < before OR df._id(r.seq) > after_id)
              AND (label_is IS NULL OR r.label = label_is) AND (label_like IS NULL OR r.label LIKE label_like)
              AND (queue_is IS NULL OR r.queue = ANY (queues))
              AND (input_has IS NULL OR df._to_jsonb(r.input) @> input_has)) p
        WHERE wanted IS NULL OR p.status = wanted
        ORDER BY p.created_at DESC, 2 LIMIT many;
    END IF;
    IF queue_is IS NULL THEN
        RETURN QUERY
        SELECT p.* FROM unnest(submitters) AS s(submitter) CROSS JOIN LATERAL (
            SELECT i.seq, i.id, i.submitted_by, i.label, i.queue, i.created_at, i.input, df._status_of(i.seq) AS status
            FROM df._instance i
            WHERE i.submitted_by = s.submitter AND i.created_at >= lowest AND i.created_at <= highest
              AND (i.created_at < before OR i.id > after_id)
              AND (label_is IS NULL OR i.label = label_is) AND (label_like IS NULL OR i.label LIKE label_like)
              AND (wanted IS NULL OR wanted = df._status_of(i.seq))
              AND (input_has IS NULL OR df._to_jsonb(i.input) @> input_has)
            ORDER BY i.created_at DESC, i.id LIMIT many) p;
    ELSE
        RETURN QUERY
        SELECT p.* FROM unnest(queues) AS k(queue) CROSS JOIN LATERAL (
            SELECT i.seq, i.id, i.submitted_by, i.label, i.queue, i.created_at, i.input, df._status_of(i.seq) AS status
            FROM df._instance i
            WHERE i.queue = k.queue AND i.created_at >= lowest AND i.created_at <= highest
              AND (i.created_at < before OR i.id > after_id)
              AND (label_is IS NULL OR i.label = label_is) AND (label_like IS NULL OR i.label LIKE label_like)
              AND (wanted IS NULL OR wanted = df._status_of(i.seq))
              AND (input_has IS NULL OR df._to_jsonb(i.input) @> input_has)
            ORDER BY i.created_at DESC, i.id LIMIT many) p;
    END IF;
END $$;

-- The status of an instance that a worker has taken or a queue has let in.
CREATE OR REPLACE FUNCTION df._status_of(number bigint) RETURNS text
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    done "char" := (SELECT d.status FROM df._done d WHERE d.seq = number);
BEGIN
    IF done IS NULL AND df._is_listed_as_cancelled(number) THEN
        RETURN 'cancelled';
    END IF;
    RETURN df._status_name(done, EXISTS (SELECT FROM df._work w WHERE w.seq = number));
END $$;

-- A status as it may be asked for; NULL: whichever. No instance has one of another name.
CREATE OR REPLACE FUNCTION df._wanted_status(status text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    wanted text := lower(nullif(status, ''));
BEGIN
    IF wanted NOT IN ('pending', 'running', 'completed', 'failed', 'cancelled') THEN
        RAISE EXCEPTION 'unknown status "%": expected pending, running, completed, failed or cancelled', status
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN wanted;
END $$;

-- The instances that the caller may see and that fit all that is given, the newest first, page by page, as
-- df.list_instances does. `label_like` is a pattern as LIKE has it, `queue` and `role` are names, `input` is JSON that the
-- input contains, as @> has it. `ended_at` is set however an instance ended.
CREATE OR REPLACE FUNCTION df.find_instances(status text DEFAULT NULL, label text DEFAULT NULL, label_like text DEFAULT NULL,
    queue text DEFAULT NULL, role text DEFAULT NULL, started_after timestamptz DEFAULT NULL,
    started_before timestamptz DEFAULT NULL, input jsonb DEFAULT NULL, limit_count int DEFAULT 100,
    after_cursor text DEFAULT NULL)
RETURNS TABLE (instance_id text, label text, status text, queue text, role text, execution_count bigint,
    created_at timestamptz, begun_at timestamptz, ended_at timestamptz, input json, output text, next_cursor text)
-- In SQL, because arguments and columns have the same names.
LANGUAGE sql STABLE AS $$
    WITH asked AS MATERIALIZED (
        SELECT df._page_size($9) AS many, c.before, c.after_id FROM df._place($10) c
    ), page AS MATERIALIZED (
        SELECT p.*, row_number() OVER (ORDER BY p.created_at DESC, p.id) AS place, a.many
        FROM asked a, df._search(df._wanted_status($1), $2, $3, $4, $5, $6, $7, $8, a.before, a.after_id, a.many + 1) p
    ), next AS MATERIALIZED (
        -- The last row of this page, if there is one more after it.
        SELECT df._cursor(p.created_at, p.id) AS cursor
        FROM page p WHERE p.place = p.many AND EXISTS (SELECT FROM page q WHERE q.place > q.many)
    )
    SELECT p.id, p.label, p.status, (SELECT q.name FROM df._queue q WHERE q.id = p.queue),
        pg_get_userbyid(p.submitted_by)::text, coalesce(d.execution, w.execution, 1), p.created_at,
        coalesce(d.started_at, CASE WHEN w.admitted IS NULL THEN w.started_at END), d.completed_at, p.input,
        df._output_text(d.status, d.output), (SELECT n.cursor FROM next n)
    FROM page p
    LEFT JOIN LATERAL (SELECT e.* FROM df._done e WHERE e.seq = p.seq OFFSET 0) d ON true
    LEFT JOIN LATERAL (SELECT v.execution, v.started_at, v.admitted FROM df._work v WHERE v.seq = p.seq OFFSET 0) w ON true
    WHERE p.place <= p.many
    ORDER BY p.place
$$;

-- How many instances fit, by status, queue and role.
CREATE OR REPLACE FUNCTION df.count_instances(status text DEFAULT NULL, label text DEFAULT NULL, label_like text DEFAULT NULL,
    queue text DEFAULT NULL, role text DEFAULT NULL, started_after timestamptz DEFAULT NULL,
    started_before timestamptz DEFAULT NULL, input jsonb DEFAULT NULL)
RETURNS TABLE (status text, queue text, role text, count bigint)
LANGUAGE sql STABLE AS $$
    -- Counted by queue before names are looked up, and by name then: queues that were dropped have none.
    SELECT c.status, q.name, pg_get_userbyid(c.submitted_by)::text, sum(c.count)::bigint
    FROM (SELECT s.status, s.queue, s.submitted_by::oid AS submitted_by, count(*) AS count
          FROM df._search(df._wanted_status($1), $2, $3, $4, $5, $6, $7, $8, 'infinity', '', NULL) s
          GROUP BY 1, 2, 3) c
    LEFT JOIN df._queue q ON q.id = c.queue
    GROUP BY 1, 2, c.submitted_by
    ORDER BY 1, 2 NULLS FIRST, 3
$$;

-- What happened to an instance, in order, as far as it is kept: of a node in a loop the last time, of what waits or runs since
-- when. `generation` counts the rounds of the loops around a node, the outermost first.
CREATE OR REPLACE FUNCTION df.timeline(instance_id text)
RETURNS TABLE (at timestamptz, after_ms double precision, event text, node_id text, generation text, detail text)
LANGUAGE sql STRICT AS $$
    WITH i AS MATERIALIZED (
        SELECT k.*, CASE WHEN d.seq IS NULL THEN w.state ELSE d.state END AS state, d.status AS done, d.output,
            coalesce(d.started_at, CASE WHEN w.admitted IS NULL THEN w.started_at END) AS begun_at, d.completed_at,
            (SELECT q.name FROM df._queue q WHERE q.id IN (
                SELECT n.queue FROM df._queued n WHERE n.seq = k.seq AND n.submitted_by = k.submitted_by
                UNION ALL SELECT r.queue FROM df._ready r WHERE r.seq = k.seq AND r.submitted_by = k.submitted_by)) AS waits_in
        FROM df._known(df._seq($1)) k
        LEFT JOIN df._done d ON d.seq = k.seq
        LEFT JOIN df._work w ON w.seq = k.seq
    ), happened AS (
        SELECT 1 AS rank, i.created_at AS at, 'started' AS event, NULL::text AS node_id, NULL::text AS generation,
            coalesce('waits in queue ' || i.waits_in, i.label) AS detail
        FROM i
        UNION ALL
        SELECT 2, i.begun_at, 'begun', NULL, NULL, NULL FROM i
        UNION ALL
        SELECT 3, e.ended_at, 'round ended', NULL, e.execution::text, left(df._output_text(CASE e.status WHEN 'n' THEN 'c'
            ELSE e.status END, e.output), 200)
        FROM i JOIN df._execution e ON e.seq = i.seq WHERE e.status = 'n'
        UNION ALL
        SELECT 4, c.at, CASE c.status WHEN 'running' THEN 'node begun' ELSE 'node ' || c.status END, df._node_id(i.seq, c.index),
            c.path, concat_ws(': ', g.node ->> 'type', left(CASE c.status WHEN 'failed' THEN c.error ELSE g.node ->> 'query' END, 200))
        FROM i CROSS JOIN LATERAL (
            -- Each of the rows of a df.map for itself.
            SELECT split_part(x.key, '@', 1)::int AS index, x.value ->> 's' AS status, (x.value ->> 'at')::timestamptz AS at,
                coalesce(x.value ->> 'e', i.state -> 'cells' -> (x.value ->> 'rc') ->> 'e') AS error, x.value ->> 'x' AS path
            FROM json_each(i.state -> 'cells') AS x(key, value)) c
        LEFT JOIN LATERAL (SELECT i.graph -> c.index AS node) g ON true
        UNION ALL
        SELECT 5, a.queued_at, 'step waits for a place', df._node_id(i.seq, split_part(split_part(a.cell, '#', 1), '@', 1)::int), NULL,
            a.kind FROM i JOIN df._activity a ON a.seq = i.seq
        UNION ALL
        SELECT 6, a.taken_at, 'step runs', df._node_id(i.seq, split_part(split_part(a.cell, '#', 1), '@', 1)::int), NULL,
            'attempt ' || a.attempt FROM i JOIN df._activity a ON a.seq = i.seq WHERE a.taken_at IS NOT NULL
        UNION ALL
        SELECT 5, t.queued_at, 'task waits', df._node_id(i.seq, split_part(split_part(t.cell, '#', 1), '@', 1)::int), NULL,
            concat_ws(', ', t.name, 'attempts: ' || t.attempt, 'by ' || t.leased_by) FROM i JOIN df._task t ON t.seq = i.seq
        UNION ALL
        SELECT 7, e.set_at, 'event', NULL, NULL, e.key || ' = ' || left(e.value::text, 200)
        FROM i JOIN df._event e ON e.seq = i.seq
        UNION ALL
        SELECT 8, m.sent_at, m.kind || ' sent', NULL, NULL, concat_ws(' ', m.name, left(m.data::text, 200))
        FROM i JOIN df._inbox m ON m.seq = i.seq WHERE m.kind IN ('signal', 'cancel', 'pause', 'resume')
        UNION ALL
        SELECT 9, i.completed_at, df._status_name(i.done, false), NULL, NULL, left(df._output_text(i.done, i.output), 200)
        FROM i WHERE i.done IS NOT NULL
    )
    SELECT h.at, extract(epoch FROM h.at - (SELECT i.created_at FROM i)) * 1000, h.event, h.node_id, h.generation, h.detail
    FROM happened h WHERE h.at IS NOT NULL
    ORDER BY h.at, h.rank, h.node_id
$$;

-- Everything that is kept of an instance, as one JSON document; NULL: there is none that the caller may see.
CREATE OR REPLACE FUNCTION df.export_instance(instance_id text) RETURNS json
LANGUAGE sql STRICT AS $$
    SELECT json_build_object(
        'format', 'duramen.instance/1', 'id', k.id, 'label', k.label, 'status', df.status(k.id),
        'role', pg_get_userbyid(k.submitted_by), 'database', coalesce(k.database, current_database()),
        'queue', (SELECT q.name FROM df._queue q WHERE q.id = coalesce(i.queue, n.queue)),
        'created_at', k.created_at, 'begun_at', coalesce(d.started_at, CASE WHEN w.admitted IS NULL THEN w.started_at END),
        'ended_at', d.completed_at, 'execution', coalesce(d.execution, w.execution, 1), 'graph', k.graph,
        'variables', coalesce(i.vars, r.vars, n.vars), 'input', coalesce(i.input, r.input, n.input),
        'parent', df._id(coalesce(i.parent, r.parent, n.parent)),
        'output', CASE WHEN d.status = 'c' THEN d.output END,
        'failure', CASE WHEN d.status <> 'c' THEN d.output #>> '{}' END,
        'nodes', (SELECT json_agg(json_build_object('id', x.node_id, 'type', x.node_type, 'query', x.query,
                'name', x.result_name, 'left', x.left_node, 'right', x.right_node, 'status', x.status,
                'inferred_status', x.inferred_status, 'result', x.result::json, 'updated_at', x.updated_at) ORDER BY x.place)
            FROM ROWS FROM (df.instance_nodes(k.id)) WITH ORDINALITY AS x(node_id, node_type, query, result_name, left_node,
                right_node, status, result, status_details, inferred_status, ancestor, updated_at, place)),
        'executions', (SELECT coalesce(json_agg(json_build_object('execution', e.execution, 'status', e.status,
                'started_at', e.started_at, 'ended_at', e.ended_at, 'output', e.output) ORDER BY e.execution), '[]')
            FROM df._execution e WHERE e.seq = k.seq),
        'events', (SELECT coalesce(json_object_agg(e.key, e.value ORDER BY e.key), '{}') FROM df._event e WHERE e.seq = k.seq),
        'timeline', (SELECT json_agg(t) FROM df.timeline(k.id) t))
    FROM df._known(df._seq($1)) k
    LEFT JOIN df._instance i ON i.seq = k.seq
    LEFT JOIN df._ready r ON r.submitted_by = k.submitted_by AND r.seq = k.seq
    LEFT JOIN df._queued n ON n.submitted_by = k.submitted_by AND n.seq = k.seq
    LEFT JOIN df._done d ON d.seq = k.seq
    LEFT JOIN df._work w ON w.seq = k.seq
$$;
