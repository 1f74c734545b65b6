-- Instances and their nodes, as tables to look at. Views with the reader's rights, so that each role sees its own.

-- The status of an instance, from its row in `_done` and whether it has one in `_work`.
CREATE OR REPLACE FUNCTION df._status_name(done "char", working boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE done WHEN 'c' THEN 'completed' WHEN 'f' THEN 'failed' WHEN 'x' THEN 'cancelled'
        ELSE CASE WHEN working THEN 'running' ELSE 'pending' END END;

-- The database that this schema belongs to.
CREATE OR REPLACE FUNCTION df.target_database() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT current_database()::text $$;

-- What was started, whether a worker has taken it already, it is about to be taken, or it waits in a queue.
CREATE OR REPLACE VIEW df._started WITH (security_invoker = true) AS
SELECT i.seq, i.submitted_by, i.created_at, i.label, i.database, i.graph, i.vars, i.input, i.id
FROM df._instance i
UNION ALL
SELECT r.seq, r.submitted_by, r.created_at, r.label, r.database,
    coalesce(r.graph, df._statement_graph(r.statement), '[]'), r.vars, r.input, df._id(r.seq)
FROM df._ready r
UNION ALL
SELECT q.seq, q.submitted_by, q.created_at, q.label, q.database,
    coalesce(q.graph, df._statement_graph(q.statement), '[]'), q.vars, q.input, df._id(q.seq)
FROM df._queued q;

CREATE OR REPLACE VIEW df.instances WITH (security_invoker = true) AS
SELECT i.id,
    i.label,
    df._node_id(i.seq, 0) AS root_node,
    CASE WHEN d.status IS NULL AND EXISTS (SELECT FROM df._inbox m WHERE m.seq = i.seq AND m.kind = 'cancel')
        THEN 'cancelled' ELSE df._status_name(d.status, w.seq IS NOT NULL) END AS status,
    i.submitted_by::regrole AS submitted_by,
    coalesce(i.database, current_database()::text) AS database,
    i.created_at,
    coalesce(d.completed_at, w.updated_at, i.created_at) AS updated_at,
    CASE WHEN d.status = 'c' THEN d.completed_at END AS completed_at
FROM df._started i
LEFT JOIN df._done d ON d.seq = i.seq
LEFT JOIN df._work w ON w.seq = i.seq;
COMMENT ON VIEW df.instances IS 'durable functions that were started';

-- JSON as jsonb. What jsonb cannot hold, such as a NUL character, is shown as text.
CREATE OR REPLACE FUNCTION df._to_jsonb(value json) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN value::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN to_jsonb(value::text);
END $$;

-- The cells of a state document by node: of a node that ran several times at once, for the rows of a df.map, the one
-- that changed last.
CREATE OR REPLACE FUNCTION df._cells(state json)
RETURNS TABLE (index int, status text, result json, error text, at timestamptz, path text)
-- By the thousand rows that are expected of a function a server would take the nodes of one instance for a query to compile.
LANGUAGE sql STABLE STRICT ROWS 10 AS $$
    -- A large result or failure stands in one cell, and others say in which.
    SELECT DISTINCT ON (1) split_part(c.key, '@', 1)::int, c.value ->> 's',
        coalesce(c.value -> 'r', state -> 'cells' -> (c.value ->> 'rc') -> 'r'),
        coalesce(c.value ->> 'e', state -> 'cells' -> (c.value ->> 'rc') ->> 'e'),
        (c.value ->> 'at')::timestamptz, c.value ->> 'x'
    FROM json_each(state -> 'cells') WITH ORDINALITY AS c(key, value, place)
    ORDER BY 1, 5 DESC, c.place DESC
$$;

-- The nodes of one instance. A graph of one node that has ended has no state document: `done`, `output` and `ended_at`
-- say it all.
CREATE OR REPLACE FUNCTION df._nodes(seq bigint, graph json, state json, done "char", output json, ended_at timestamptz)
RETURNS TABLE (index int, id text, node_type text, query text, result_name text, left_index int, right_index int,
    condition_index int, extra_indexes int[], status text, result json, at timestamptz, path text)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT n.index, df._node_id(seq, n.index), n.node ->> 'type',
        CASE
            WHEN n.condition IS NOT NULL THEN '{"condition_node":"' || df._node_id(seq, n.condition) || '"'
                || coalesce(',' || nullif(substr(n.node ->> 'query', 2), '}'), '}')
            WHEN n.extra IS NOT NULL THEN '{"extra_nodes":[' || (
                SELECT string_agg('"' || df._node_id(seq, e.index) || '"', ',' ORDER BY e.place)
                FROM unnest(n.extra) WITH ORDINALITY AS e(index, place)) || ']}'
            ELSE n.node ->> 'query'
        END,
        n.node ->> 'name', (n.node ->> 'left')::int, (n.node ->> 'right')::int, n.condition, n.extra,
        CASE WHEN n.lone THEN CASE done WHEN 'c' THEN 'completed' WHEN 'f' THEN 'failed' ELSE 'pending' END
            ELSE coalesce(c.status, 'pending') END,
        CASE WHEN n.lone THEN CASE WHEN done <> 'x' THEN output END
            WHEN c.status = 'completed' THEN c.result
            WHEN c.status = 'failed' THEN to_json(c.error) END,
        CASE WHEN n.lone THEN ended_at ELSE c.at END,
        CASE WHEN n.lone THEN CASE WHEN done <> 'x' THEN '1' END ELSE c.path END
    FROM (
        SELECT (g.place - 1)::int AS index, g.node, (g.node ->> 'condition')::int AS condition,
            (SELECT array_agg(e.value::text::int ORDER BY e.place)
             FROM json_array_elements(g.node -> 'extra') WITH ORDINALITY AS e(value, place)) AS extra,
            state IS NULL AND done IS NOT NULL AND json_array_length(graph) = 1 AS lone
        FROM json_array_elements(graph) WITH ORDINALITY AS g(node, place)
    ) n
    LEFT JOIN df._cells(state) c ON c.index = n.index
    ORDER BY n.index;
END;

CREATE OR REPLACE VIEW df.nodes WITH (security_invoker = true) AS
SELECT n.id,
    i.id AS instance_id,
    n.node_type,
    n.query,
    n.result_name,
    df._node_id(i.seq, n.left_index) AS left_node,
    df._node_id(i.seq, n.right_index) AS right_node,
    n.status,
    df._to_jsonb(n.result) AS result,
    NULL::text AS error,
    i.submitted_by::regrole AS submitted_by,
    coalesce(i.database, current_database()::text) AS database,
    i.created_at,
    coalesce(n.at, i.created_at) AS updated_at,
    jsonb_build_object('execution_id', i.id || '::' || n.path) AS status_details
FROM df._started i
LEFT JOIN df._done d ON d.seq = i.seq
LEFT JOIN df._work w ON w.seq = i.seq
CROSS JOIN LATERAL df._nodes(i.seq, i.graph, CASE WHEN d.seq IS NULL THEN w.state ELSE d.state END,
    d.status, d.output, d.completed_at) n;
COMMENT ON VIEW df.nodes IS 'the steps of durable functions; the text of a failure stands in result, as a JSON string';
