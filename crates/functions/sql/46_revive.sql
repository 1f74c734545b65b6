-- Taking up what has ended: df.resume goes on in the same instance, df.fork begins another one behind steps that have
-- completed. What completed is not done again; the interpreter sees to that, from the state in which the instance ended.

-- The node that a text names: an id of df.instance_nodes, or the name of a result. NULL: it is neither.
CREATE OR REPLACE FUNCTION df._node_named(seq bigint, graph json, wanted text) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
    SELECT (g.place - 1)::int FROM json_array_elements(graph) WITH ORDINALITY AS g(node, place)
    WHERE df._node_id(seq, (g.place - 1)::int) = wanted OR g.node ->> 'name' = wanted
    ORDER BY df._node_id(seq, (g.place - 1)::int) = wanted DESC, g.place LIMIT 1
$$;

-- Whether a node stands in the body of a df.map.
CREATE OR REPLACE FUNCTION df._is_in_map(graph json, index int) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    WITH RECURSIVE node AS (
        SELECT g.place::int - 1 AS index, g.node FROM json_array_elements(graph) WITH ORDINALITY AS g(node, place)
    ), above AS (
        SELECT _is_in_map.index AS index, false AS inside
        UNION ALL
        SELECT n.index, n.node ->> 'type' = 'MAP' AND (n.node ->> 'left')::int = a.index
        FROM above a JOIN node n ON a.index IN ((n.node ->> 'left')::int, (n.node ->> 'right')::int,
            (n.node ->> 'condition')::int) OR EXISTS (SELECT FROM json_array_elements_text(n.node -> 'extra') e
            WHERE e::int = a.index)
    )
    SELECT bool_or(a.inside) FROM above a
$$;

-- The graph with another text in one of its SQL nodes.
CREATE OR REPLACE FUNCTION df._with_step(graph json, index int, step text) RETURNS json
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF graph -> index ->> 'type' IS DISTINCT FROM 'SQL' THEN
        RAISE EXCEPTION 'only the text of a SQL step can be changed, and this is %',
            coalesce(graph -> index ->> 'type', 'none') USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Start a new instance with what you want.';
    END IF;
    RETURN (SELECT json_agg(CASE WHEN g.place = index + 1
            THEN (g.node::jsonb || jsonb_build_object('query', step))::json ELSE g.node END ORDER BY g.place)
        FROM json_array_elements(graph) WITH ORDINALITY AS g(node, place));
END $$;

-- Asks for an instance to be taken up; returns the id of the one that goes on.
CREATE OR REPLACE FUNCTION df._revive(what text, instance_id text, from_step text, step text, label text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    target record := df._find(instance_id);
    known record;
    request bigint;
    node int;
BEGIN
    SELECT k.graph, k.database INTO known FROM df._known(target.number) k;
    IF NOT df._ended(target.status) OR (what = 'resume' AND target.status = 'completed') THEN
        RAISE EXCEPTION 'cannot % instance %: it is %', what, instance_id, target.status
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = CASE what WHEN 'resume' THEN 'An instance that is paused, failed or cancelled can be resumed.'
                ELSE 'Wait for its end, or cancel it.' END;
    END IF;
    PERFORM df._may_start(target.submitter, label, known.database);
    IF what = 'fork' THEN
        PERFORM df._takes_starts();
    END IF;
    IF from_step IS NOT NULL THEN
        node := df._node_named(target.number, known.graph, from_step);
        IF node IS NULL THEN
            RAISE EXCEPTION 'instance % has no step %', instance_id, from_step USING ERRCODE = 'undefined_object',
                HINT = format('Name the node_id of df.instance_nodes(%L), or a result that |=> names.', instance_id);
        END IF;
        IF df._is_in_map(known.graph, node) THEN
            RAISE EXCEPTION 'the step % runs once for each item of a df.map', from_step
                USING ERRCODE = 'feature_not_supported', HINT = 'Fork from the df.map, or from a step before it.';
        END IF;
    END IF;
    INSERT INTO df._request (submitted_by, action, arguments)
    VALUES (target.submitter, what, jsonb_build_object('seq', target.number, 'from', node, 'step', step, 'label', label))
    RETURNING id INTO request;
    RETURN df._revive_rows(request);
END $$;

-- Does what a row of `_request` asks for, if the instance is the row's submitter's and has ended.
CREATE OR REPLACE FUNCTION df._revive_rows(request bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
    old record;
    is_fork boolean;
    number bigint;
    node int;
    began timestamptz := clock_timestamp();
    new_graph json;
    state json;
BEGIN
    DELETE FROM df._request r WHERE r.id = request AND r.action IN ('resume', 'fork') RETURNING r.* INTO wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no request %', request USING HINT = 'Call df.resume or df.fork.';
    END IF;
    is_fork := wanted.action = 'fork';
    number := (wanted.arguments ->> 'seq')::bigint;
    -- Of two that resume it, one waits here and finds nothing.
    SELECT i.*, d.status, d.state, d.execution, d.started_at INTO old
    FROM df._done d JOIN df._instance i USING (seq)
    WHERE d.seq = number AND i.submitted_by = wanted.submitted_by AND (is_fork OR d.status <> 'c')
    FOR UPDATE OF d;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Instance not found, access denied, or taken up by somebody else: %', df._id(number)
            USING ERRCODE = 'no_data_found';
    END IF;
    IF (old.state ->> 'undone')::bigint > 0 THEN
        RAISE EXCEPTION 'the steps of instance % were undone', df._id(number)
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Start a new one.';
    END IF;
    IF old.parent IS NOT NULL THEN
        RAISE EXCEPTION 'instance % is a child of instance %, which knows already how it ended', df._id(number),
            df._id(old.parent) USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Take up its parent: that calls it anew.';
    END IF;
    new_graph := old.graph;
    IF wanted.arguments ->> 'step' IS NOT NULL THEN
        -- The one from which on it is done again, or else the one whose failure reached the root.
        node := coalesce((wanted.arguments ->> 'from')::int,
            split_part(coalesce(old.state -> 'cells' -> '0' ->> 'origin', '0'), '@', 1)::int);
        new_graph := df._with_step(new_graph, node, wanted.arguments ->> 'step');
    END IF;
    IF NOT is_fork THEN
        began := old.started_at;
    END IF;
    IF old.state IS NOT NULL THEN
        state := json_build_object('v', 1, 'execution', CASE WHEN is_fork THEN 1 ELSE old.execution END,
            'cells', '{}'::json, 'started_at', to_char(began AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'turned_at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'events', 0, 'names', '{"0":{}}'::json, 'stack', '[["start","0"]]'::json,
            'revive', json_build_object('from', (wanted.arguments ->> 'from')::int, 'state', old.state));
    END IF;
    IF is_fork THEN
        number := nextval('df._instance_seq');
        INSERT INTO df._instance (seq, submitted_by, created_at, label, database, graph, vars, input, id)
        VALUES (number, old.submitted_by, began, coalesce(wanted.arguments ->> 'label', old.label), old.database, new_graph,
            old.vars, old.input, df._id(number));
    ELSE
        DELETE FROM df._done d WHERE d.seq = number;
        DELETE FROM df._execution e WHERE e.seq = number AND e.execution = old.execution;
        -- What came after its end is not for this life.
        DELETE FROM df._inbox m WHERE m.seq = number;
        IF wanted.arguments ->> 'step' IS NOT NULL THEN
            UPDATE df._instance i SET graph = new_graph WHERE i.seq = number;
        END IF;
    END IF;
    INSERT INTO df._work (seq, submitted_by, started_at, updated_at, due_at, execution, state, bytes)
    VALUES (number, old.submitted_by, began, clock_timestamp(), clock_timestamp(),
        CASE WHEN is_fork THEN 1 ELSE old.execution END, state, coalesce(octet_length(state::text), 0));
    NOTIFY df_wake;
    RETURN df._id(number);
END $$;

-- Goes on with an instance that is paused; or with one that failed or was cancelled, from the steps that did not complete:
-- what completed is not done again. With `step`, that text is run in the place of the one that failed.
CREATE OR REPLACE FUNCTION df.resume(instance_id text, step text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    target record;
BEGIN
    IF instance_id IS NULL THEN
        RETURN NULL;
    END IF;
    target := df._find(instance_id);
    IF df._ended(target.status) OR step IS NOT NULL THEN
        PERFORM df._revive('resume', instance_id, NULL, step, NULL);
    ELSE
        PERFORM df._send(instance_id, 'resume');
    END IF;
    RETURN format('Instance %s resumed', instance_id);
END $$;

-- Starts another instance with what one that has ended has completed, and returns its id. Without `from_step` it goes on
-- where that one failed. With it, that step and what follows it are done again; what runs beside it in another branch is
-- not. `from_step` is a node_id of df.instance_nodes, or the name of a result. With `step`, that text is run in its place.
CREATE OR REPLACE FUNCTION df.fork(instance_id text, from_step text DEFAULT NULL, step text DEFAULT NULL,
    label text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN df._revive('fork', instance_id, from_step, step, label);
END $$;
