-- The functions that make a durable function: text in, text out. Each returns an envelope, a JSON object with keys in
-- the order node_type, left_node, right_node, condition_node, extra_nodes, query, params, result_name (absent ones
-- left out), and touches no table. A node argument that is no envelope is the text of a SQL step.
--
-- They are written in PL/pgSQL and put text together: on short texts that costs microseconds, and it keeps both the
-- order of the keys and the text of what the caller wrote.

-- Raises `problem` as a refusal by the function named `place`.
CREATE OR REPLACE FUNCTION df._refuse(place text, problem text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = place || ': ' || problem;
END $$;

-- The envelope of a node that has a query and no children, after `query` was checked.
CREATE OR REPLACE FUNCTION df._leaf(place text, node_type text, query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    checked record;
BEGIN
    checked := df._check_query(node_type, query);
    IF checked.problem IS NOT NULL THEN
        PERFORM df._refuse(place, checked.problem);
    END IF;
    RETURN '{"node_type":"' || node_type || '","query":' || to_json(checked.canonical)::text || '}';
END $$;

-- The same for a node that wraps one other, `fut`.
CREATE OR REPLACE FUNCTION df._around(place text, node_type text, fut text, query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    checked record;
BEGIN
    checked := df._check_query(node_type, query);
    IF checked.problem IS NOT NULL THEN
        PERFORM df._refuse(place, checked.problem);
    END IF;
    RETURN '{"node_type":"' || node_type || '","left_node":' || df._wrap(fut)
        || ',"query":' || to_json(checked.canonical)::text || '}';
END $$;

-- Steps -------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION df.sql(query text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN '{"node_type":"SQL","query":' || to_json(query)::text || '}';
END $$;

-- A SQL step with bind parameters: a JSON array whose n-th element is the value of $n. An element that is a string of
-- the form "$name" or "$name.column" is the result of that name when the step runs.
CREATE OR REPLACE FUNCTION df.sql(query text, params jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    problem text;
BEGIN
    IF params IS NULL THEN
        RETURN df.sql(query);
    END IF;
    problem := df._params_problem(params);
    IF problem IS NOT NULL THEN
        PERFORM df._refuse('df.sql', problem);
    END IF;
    RETURN '{"node_type":"SQL","query":' || to_json(query)::text || ',"params":' || params::text || '}';
END $$;

CREATE OR REPLACE FUNCTION df.sleep(seconds double precision) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    IF seconds >= 0 AND seconds <= 10000000000 THEN
        -- By way of numeric, so that neither large nor small numbers are written with an exponent.
        RETURN '{"node_type":"SLEEP","query":"' || trim_scale(seconds::numeric)::text || '"}';
    END IF;
    PERFORM df._refuse('df.sleep',
        format('seconds must be between 0 and 10,000,000,000, and is %s', seconds));
END $$;

CREATE OR REPLACE FUNCTION df.wait_for_schedule(cron_expr text, time_zone text DEFAULT 'UTC') RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN df._leaf('df.wait_for_schedule', 'WAIT_SCHEDULE',
        '{"cron":' || to_json(cron_expr)::text || ',"time_zone":' || to_json(time_zone)::text || '}');
END $$;

CREATE OR REPLACE FUNCTION df."break"(value text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN '{"node_type":"BREAK"' || coalesce(',"query":' || to_json(value)::text, '') || '}';
END $$;

CREATE OR REPLACE FUNCTION df.http(url text, method text DEFAULT 'POST', body text DEFAULT NULL,
    headers jsonb DEFAULT NULL, timeout_seconds int DEFAULT 30) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN df._leaf('df.http', 'HTTP',
        '{"url":' || coalesce(to_json(url)::text, 'null') || ',"method":' || coalesce(to_json(method)::text, 'null')
        || ',"body":' || coalesce(to_json(body)::text, 'null') || ',"headers":' || coalesce(headers::text, 'null')
        || ',"timeout_seconds":' || coalesce(timeout_seconds::text, 'null') || '}');
END $$;

CREATE OR REPLACE FUNCTION df.http_multipart(url text, method text DEFAULT 'POST', parts jsonb DEFAULT NULL,
    headers jsonb DEFAULT NULL, timeout_seconds int DEFAULT 30) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN df._leaf('df.http_multipart', 'HTTP_MULTIPART',
        '{"url":' || coalesce(to_json(url)::text, 'null') || ',"method":' || coalesce(to_json(method)::text, 'null')
        || ',"parts":' || coalesce(parts::text, 'null') || ',"headers":' || coalesce(headers::text, 'null')
        || ',"timeout_seconds":' || coalesce(timeout_seconds::text, 'null') || '}');
END $$;

CREATE OR REPLACE FUNCTION df.wait_for_signal(name text, timeout_seconds int DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN df._leaf('df.wait_for_signal', 'SIGNAL',
        '{"signal_name":' || coalesce(to_json(name)::text, 'null')
        || ',"timeout_seconds":' || coalesce(timeout_seconds::text, 'null') || '}');
END $$;

-- A step that an outside worker does, which claims it with df.claim_tasks under this name. In `input`, JSON or text, names
-- are replaced by their values. After so many claims without an end it fails.
CREATE OR REPLACE FUNCTION df.task(name text, input text DEFAULT '{}', max_attempts int DEFAULT 20) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN df._leaf('df.task', 'TASK',
        '{"task":' || coalesce(to_json(name)::text, 'null') || ',"input":' || coalesce(to_json(input)::text, 'null')
        || ',"max_attempts":' || coalesce(max_attempts::text, 'null') || '}');
END $$;

-- One after the other, and names --------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION df.seq(a text, b text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN '{"node_type":"THEN","left_node":' || df._wrap(a) || ',"right_node":' || df._wrap(b) || '}';
END $$;

CREATE OR REPLACE FUNCTION df."as"(fut text, name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    node text;
    problem text := df._name_problem(name);
BEGIN
    IF problem IS NOT NULL THEN
        PERFORM df._refuse('df.as', problem);
    END IF;
    node := df._wrap(fut);
    -- A second name replaces the first. Only what the caller passed can have one, so plain SQL is not looked at.
    IF ascii(ltrim(fut, E' \t\r\n')) = 123 AND node::json -> 'result_name' IS NOT NULL THEN
        SELECT '{' || string_agg(to_json(key)::text || ':' || value::text, ',' ORDER BY ordinality) || '}' INTO node
        FROM json_each(node::json) WITH ORDINALITY
        WHERE key <> 'result_name';
    END IF;
    RETURN left(node, -1) || ',"result_name":"' || name || '"}';
END $$;

-- Choices -----------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION df."if"(condition text, then_branch text, else_branch text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN '{"node_type":"IF","left_node":' || df._wrap(then_branch) || ',"right_node":' || df._wrap(else_branch)
        || ',"condition_node":' || df._wrap(condition) || '}';
END $$;

CREATE OR REPLACE FUNCTION df.if_rows(result_name text, then_branch text, else_branch text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    problem text := df._name_problem(result_name);
BEGIN
    IF problem IS NOT NULL THEN
        PERFORM df._refuse('df.if_rows', problem);
    END IF;
    RETURN '{"node_type":"IF","left_node":' || df._wrap(then_branch) || ',"right_node":' || df._wrap(else_branch)
        || ',"query":' || to_json('{"condition_type":"result_has_rows","result_name":"' || result_name || '"}')::text
        || '}';
END $$;

-- Loops -------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION df.loop(body text, condition text DEFAULT NULL, continue_on_failure boolean DEFAULT false)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN '{"node_type":"LOOP","left_node":' || df._wrap(body)
        || coalesce(',"condition_node":' || df._wrap(condition), '')
        || CASE WHEN continue_on_failure THEN ',"query":"{\"continue_on_failure\":true}"' ELSE '' END || '}';
END $$;

-- Side by side ------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION df."join"(a text, b text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN '{"node_type":"JOIN","left_node":' || df._wrap(a) || ',"right_node":' || df._wrap(b) || '}';
END $$;

CREATE OR REPLACE FUNCTION df.join3(a text, b text, c text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN '{"node_type":"JOIN","left_node":' || df._wrap(a) || ',"right_node":' || df._wrap(b)
        || ',"extra_nodes":[' || df._wrap(c) || ']}';
END $$;

CREATE OR REPLACE FUNCTION df.join_all(futs text[]) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    nodes text[];
BEGIN
    IF cardinality(futs) < 2 OR array_position(futs, NULL) IS NOT NULL THEN
        PERFORM df._refuse('df.join_all', format(
            'the array must hold at least two branches and no NULL; it has %s elements', cardinality(futs)));
    END IF;
    SELECT array_agg(df._wrap(fut) ORDER BY ordinality) INTO nodes
    FROM unnest(futs) WITH ORDINALITY AS branch(fut, ordinality);
    RETURN '{"node_type":"JOIN","left_node":' || nodes[1] || ',"right_node":' || nodes[2]
        || CASE WHEN cardinality(nodes) > 2 THEN ',"extra_nodes":[' || array_to_string(nodes[3:], ',') || ']'
           ELSE '' END || '}';
END $$;

CREATE OR REPLACE FUNCTION df.race(a text, b text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN '{"node_type":"RACE","left_node":' || df._wrap(a) || ',"right_node":' || df._wrap(b) || '}';
END $$;

-- Races of two, paired until one is left: the tree stays flat, and every branch can win at any time.
CREATE OR REPLACE FUNCTION df.race_all(futs text[]) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    nodes text[];
BEGIN
    IF cardinality(futs) < 1 OR array_position(futs, NULL) IS NOT NULL THEN
        PERFORM df._refuse('df.race_all', format(
            'the array must hold at least one branch and no NULL; it has %s elements', cardinality(futs)));
    END IF;
    SELECT array_agg(df._wrap(fut) ORDER BY ordinality) INTO nodes
    FROM unnest(futs) WITH ORDINALITY AS branch(fut, ordinality);
    WHILE cardinality(nodes) > 1 LOOP
        SELECT array_agg(CASE WHEN i = cardinality(nodes) THEN nodes[i]
                ELSE '{"node_type":"RACE","left_node":' || nodes[i] || ',"right_node":' || nodes[i + 1] || '}' END
            ORDER BY i) INTO nodes
        FROM generate_series(1, cardinality(nodes), 2) AS i;
    END LOOP;
    RETURN nodes[1];
END $$;

-- The body once for each row that `items` gives. The body sees the row as the result named `item`.
CREATE OR REPLACE FUNCTION df.map(items text, body text, item text DEFAULT 'item', parallelism int DEFAULT 10)
RETURNS text LANGUAGE plpgsql STRICT AS $$
DECLARE
    checked record;
BEGIN
    checked := df._check_query('MAP', '{"item":' || to_json(item)::text || ',"parallelism":' || parallelism || '}');
    IF checked.problem IS NOT NULL THEN
        PERFORM df._refuse('df.map', checked.problem);
    END IF;
    RETURN '{"node_type":"MAP","left_node":' || df._wrap(body) || ',"condition_node":' || df._wrap(items)
        || ',"query":' || to_json(checked.canonical)::text || '}';
END $$;

-- Failures and other instances --------------------------------------------------------------------------------------

-- With `sqlstates` only failures whose SQLSTATE begins with one of them are worth another attempt: '{40,53}' are the
-- classes of serialization failures and of a lack of resources, '{23505}' is one code.
CREATE OR REPLACE FUNCTION df.retry(fut text, max_attempts int DEFAULT 3, initial_backoff_s double precision DEFAULT 1,
    max_backoff_s double precision DEFAULT 60, multiplier double precision DEFAULT 2,
    jitter double precision DEFAULT 0.1, sqlstates text[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN df._around('df.retry', 'RETRY', fut,
        '{"max_attempts":' || max_attempts || ',"initial_backoff_s":' || to_json(initial_backoff_s)::text
        || ',"max_backoff_s":' || to_json(max_backoff_s)::text || ',"multiplier":' || to_json(multiplier)::text
        || ',"jitter":' || to_json(jitter)::text
        || CASE WHEN sqlstates = '{}' THEN '' ELSE ',"sqlstates":' || to_json(sqlstates)::text END || '}');
END $$;

-- A step, and what undoes it: a durable function, too, which runs as a child should the instance fail or be cancelled
-- after the step has completed. It sees the names that the step saw, and the step's result as $result.
CREATE OR REPLACE FUNCTION df.step(fut text, undo text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN '{"node_type":"STEP","left_node":' || df._wrap(fut) || ',"right_node":' || df._wrap(undo) || '}';
END $$;

CREATE OR REPLACE FUNCTION df.catch(fut text, handler text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN '{"node_type":"CATCH","left_node":' || df._wrap(fut) || ',"right_node":' || df._wrap(handler) || '}';
END $$;

CREATE OR REPLACE FUNCTION df.timeout(fut text, seconds double precision) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN df._around('df.timeout', 'TIMEOUT', fut, '{"seconds":' || to_json(seconds)::text || '}');
END $$;

-- A child instance. With a queue it waits there as an instance does that df.start puts there.
CREATE OR REPLACE FUNCTION df.call(fut text, label text DEFAULT NULL, await boolean DEFAULT true, queue text DEFAULT NULL,
    priority int DEFAULT NULL, partition text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN df._around('df.call', 'CALL', fut,
        '{"label":' || coalesce(to_json(label)::text, 'null')
        || ',"await":' || coalesce(await, true)::text
        || coalesce(',"queue":' || to_json(queue)::text, '')
        || coalesce(',"priority":' || priority, '')
        || coalesce(',"partition":' || to_json(partition)::text, '') || '}');
END $$;

-- What the operators call -------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION df.as_op(fut text, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN df."as"(fut, name);
END $$;

-- `condition ?> branch`: half a choice, which `!>` completes.
CREATE OR REPLACE FUNCTION df.if_then_op(c text, t text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN '{"_partial_if":true,"condition":' || df._wrap(c) || ',"then_branch":' || df._wrap(t) || '}';
END $$;

CREATE OR REPLACE FUNCTION df.if_else_op(p text, e text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    half jsonb := df._object(p);
BEGIN
    IF half -> '_partial_if' IS DISTINCT FROM 'true' OR jsonb_typeof(half -> 'condition') IS DISTINCT FROM 'object'
        OR jsonb_typeof(half -> 'then_branch') IS DISTINCT FROM 'object'
    THEN
        RAISE EXCEPTION 'Invalid if-then-else: left side of !> must be a ?> expression'
            USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Operators group from left to right: put parentheses around what belongs together, '
                'as in (condition ?> then_branch) !> (else_branch).';
    END IF;
    RETURN df."if"((p::json -> 'condition')::text, (p::json -> 'then_branch')::text, e);
END $$;

CREATE OR REPLACE FUNCTION df.loop_prefix_op(body text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN df.loop(body);
END $$;
