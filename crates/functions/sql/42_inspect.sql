-- Looking at instances: status, result, lists, nodes, figures. Everything here runs with the caller's rights. What is
-- called most has no search path of its own, which costs, and names its operators in full instead.
--
-- Generic plans are forced where numbers are looked up one by one: with several partitions a plan for one number seems
-- cheaper than one for any, and the server would make it anew with every call, which costs more than the lookup.

-- Whose instances the caller sees: its own, or those of all.
CREATE OR REPLACE FUNCTION df._seen_submitters() RETURNS oid[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF row_security_active('df._instance'::regclass) THEN
        RETURN ARRAY[quote_ident(current_user)::regrole::oid];
    END IF;
    -- From one submitter to the next along the indexes, past all the instances in between.
    RETURN ARRAY(
        WITH RECURSIVE next AS (
            SELECT least((SELECT i.submitted_by FROM df._instance i ORDER BY i.submitted_by LIMIT 1),
                (SELECT r.submitted_by FROM df._ready r ORDER BY r.submitted_by LIMIT 1),
                (SELECT q.submitted_by FROM df._queued q ORDER BY q.submitted_by LIMIT 1)) AS submitter
            UNION ALL
            SELECT least((SELECT i.submitted_by FROM df._instance i WHERE i.submitted_by > n.submitter
                    ORDER BY i.submitted_by LIMIT 1),
                (SELECT r.submitted_by FROM df._ready r WHERE r.submitted_by > n.submitter
                    ORDER BY r.submitted_by LIMIT 1),
                (SELECT q.submitted_by FROM df._queued q WHERE q.submitted_by > n.submitter
                    ORDER BY q.submitted_by LIMIT 1))
            FROM next n WHERE n.submitter IS NOT NULL
        )
        SELECT n.submitter::oid FROM next n WHERE n.submitter IS NOT NULL);
END $$;

-- The instance with this number, if the caller may see it. `written_by` is the transaction that started it, as long as no
-- worker has taken it. Who looks one instance up reads by a new snapshot for each table, and so has no function that is STABLE
-- around it: a hot table may be emptied and filled again while it waits for the table's lock.
CREATE OR REPLACE FUNCTION df._known(number bigint)
RETURNS TABLE (seq bigint, submitted_by regrole, created_at timestamptz, label text, database text, graph json, id text,
    written_by xid)
LANGUAGE plpgsql STRICT ROWS 1 SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT i.seq, i.submitted_by, i.created_at, i.label, i.database, i.graph, i.id, NULL::xid
    FROM df._instance i WHERE i.seq OPERATOR(pg_catalog.=) number;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT r.seq, r.submitted_by, r.created_at, r.label, r.database,
            coalesce(r.graph, df._statement_graph(r.statement), '[]'), df._id(r.seq), r.xmin
        FROM df._ready r
        WHERE r.submitted_by OPERATOR(pg_catalog.=) ANY (df._seen_submitters()) AND r.seq OPERATOR(pg_catalog.=) number;
    END IF;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT q.seq, q.submitted_by, q.created_at, q.label, q.database,
            coalesce(q.graph, df._statement_graph(q.statement), '[]'), df._id(q.seq), q.xmin
        FROM df._queued q
        WHERE q.submitted_by OPERATOR(pg_catalog.=) ANY (df._seen_submitters()) AND q.seq OPERATOR(pg_catalog.=) number;
    END IF;
    IF NOT FOUND THEN
        -- A worker has taken it since.
        RETURN QUERY
        SELECT i.seq, i.submitted_by, i.created_at, i.label, i.database, i.graph, i.id, NULL::xid
        FROM df._instance i WHERE i.seq OPERATOR(pg_catalog.=) number;
    END IF;
END $$;

-- Who submitted the instance that calls this, in whatever function with whoever's rights; outside of instances, the
-- session's user. The outermost call of a step is that of its executor, whose name says whose it is. No function has a name
-- that ends a line like this: behind the name there is always an argument list of its own.
CREATE OR REPLACE FUNCTION df.submitter() RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    calls text;
    executor text;
BEGIN
    GET DIAGNOSTICS calls = PG_CONTEXT;
    executor := substring(substring(calls FROM '[^\n]*$')
        FROM '^PL/pgSQL function df_run\.r([0-9]+)\(text\[\],boolean\[\],text\[\],double precision,bigint,boolean\) line [0-9]+ at [A-Za-z ]+$');
    RETURN CASE WHEN executor IS NULL THEN session_user ELSE pg_catalog.pg_get_userbyid(executor::oid) END;
END $$;

-- Whether somebody has asked that an instance which goes on be cancelled: to whoever sees that, it is. A worker will do it,
-- unless the instance has ended by then.
CREATE OR REPLACE FUNCTION df._is_cancelled(number bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM df._inbox i WHERE i.seq OPERATOR(pg_catalog.=) number
        AND i.kind OPERATOR(pg_catalog.=) 'cancel');
END $$;

-- The same for a list, which goes by one snapshot: that of its caller.
CREATE OR REPLACE FUNCTION df._is_listed_as_cancelled(number bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM df._inbox i WHERE i.seq OPERATOR(pg_catalog.=) number
        AND i.kind OPERATOR(pg_catalog.=) 'cancel');
END $$;

CREATE OR REPLACE FUNCTION df.status(instance_id text) RETURNS text
LANGUAGE plpgsql STRICT SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    number bigint := df._seq(instance_id);
    status text := (
        SELECT CASE WHEN done.status IS NULL AND df._is_cancelled(number) THEN 'cancelled'
            ELSE df._status_name(done.status, EXISTS (SELECT FROM df._work w WHERE w.seq OPERATOR(pg_catalog.=) number)) END
        FROM df._known(number)
        LEFT JOIN LATERAL (SELECT d.status FROM df._done d WHERE d.seq OPERATOR(pg_catalog.=) number) done ON true);
BEGIN
    IF status IS NULL THEN
        PERFORM df._elsewhere(number);
    END IF;
    RETURN status;
END $$;

-- The result of an instance that has completed; NULL of any other.
CREATE OR REPLACE FUNCTION df.result(instance_id text) RETURNS text
LANGUAGE plpgsql STABLE STRICT SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    number bigint := df._seq(instance_id);
    output text := (SELECT d.output::text FROM df._done d
        WHERE d.seq OPERATOR(pg_catalog.=) number AND d.status OPERATOR(pg_catalog.=) 'c'::"char");
BEGIN
    -- Asked again and again until there is one: the table is looked at only where the number is not of this database.
    IF output IS NULL AND (number OPERATOR(pg_catalog.>>) 52) OPERATOR(pg_catalog.<>)
        (coalesce(pg_catalog.pg_sequence_last_value('df._instance_seq'::pg_catalog.regclass), 0) OPERATOR(pg_catalog.>>) 52)
    THEN
        PERFORM df._elsewhere(number);
    END IF;
    RETURN output;
END $$;

-- How those of many instances ended that have ended: one row each, in no order. `output` is a result's JSON, or the text of a
-- failure or of a reason. With `most_bytes` nothing more is read once the outputs have as many.
CREATE OR REPLACE FUNCTION df.results(instance_ids text[], most_bytes bigint DEFAULT NULL)
RETURNS TABLE (instance_id text, status text, output text)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    numbers bigint[] := ARRAY(SELECT df._seq(i.id) FROM unnest(instance_ids) AS i(id));
    lowest bigint;
    highest bigint;
    bytes bigint := 0;
BEGIN
    -- An array leads past no partition, and its bounds do.
    SELECT min(n), max(n) INTO lowest, highest FROM unnest(numbers) n;
    FOR instance_id, status, output IN
        SELECT df._id(d.seq), df._status_name(d.status, false), df._output_text(d.status, d.output)
        FROM df._done d WHERE d.seq = ANY (numbers) AND d.seq BETWEEN lowest AND highest
    LOOP
        RETURN NEXT;
        bytes := bytes + octet_length(output);
        EXIT WHEN bytes > most_bytes;
    END LOOP;
END $$;

-- What a list shows as output: the JSON of a result, or the text of a failure or a reason.
CREATE OR REPLACE FUNCTION df._output_text(status "char", output json) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN status = 'c' THEN output::text ELSE output #>> '{}' END;

-- What the columns function_name say: there is one function, which interprets graphs.
CREATE OR REPLACE FUNCTION df._function_name() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT 'durable-function'::text $$;

CREATE OR REPLACE FUNCTION df.duroxide_schema() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT 'df'::text $$;

-- In SQL, because argument and column have the same name.
CREATE OR REPLACE FUNCTION df.instance_info(instance_id text)
RETURNS TABLE (instance_id text, label text, function_name text, function_version text, current_execution_id bigint,
    status text, output text)
LANGUAGE sql STRICT AS $$
    SELECT i.id, i.label, df._function_name(), '1'::text, coalesce(d.execution, w.execution, 1),
        CASE WHEN c.reason IS NOT NULL THEN 'cancelled' ELSE df._status_name(d.status, w.seq IS NOT NULL) END,
        coalesce(c.reason, df._output_text(d.status, d.output))
    FROM df._known(df._seq($1)) i
    LEFT JOIN df._done d ON d.seq = i.seq
    LEFT JOIN df._work w ON w.seq = i.seq
    LEFT JOIN LATERAL (SELECT coalesce(m.data #>> '{}', '') AS reason FROM df._inbox m
        WHERE m.seq = i.seq AND m.kind = 'cancel' AND d.seq IS NULL ORDER BY m.id LIMIT 1) c ON true
$$;

-- How many things have happened according to a state document: the begin and the end of each step, and of the whole.
CREATE OR REPLACE FUNCTION df._event_count(state json, ended boolean) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN ended THEN 2 ELSE 1 END
        + CASE WHEN state IS NULL THEN CASE WHEN ended THEN 2 ELSE 0 END
            ELSE (SELECT coalesce(sum(CASE WHEN c.value ->> 's' = 'running' THEN 1 ELSE 2 END), 0)
                  FROM json_each(state -> 'cells') c) END
$$;

-- The generations of an instance, the newest first. The last one is there as soon as the instance is.
CREATE OR REPLACE FUNCTION df.instance_executions(instance_id text, limit_count int DEFAULT 5)
RETURNS TABLE (execution_id bigint, status text, event_count bigint, duration_ms bigint, output text)
LANGUAGE plpgsql STRICT SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    number bigint := df._seq(instance_id);
BEGIN
    IF limit_count < 1 THEN
        RAISE EXCEPTION 'limit_count must be at least 1, and is %', limit_count
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    WITH finished AS (
        SELECT e.execution, e.status, e.event_count, e.started_at, e.ended_at, e.output
        FROM df._execution e WHERE e.seq = number
    ), last AS (
        SELECT coalesce(d.execution, w.execution, 1) AS execution, coalesce(d.status, CASE WHEN w.seq IS NULL
                THEN 'p' ELSE 'r' END::"char") AS status,
            df._event_count(CASE WHEN d.seq IS NULL THEN w.state ELSE d.state END, d.seq IS NOT NULL) AS event_count,
            coalesce((SELECT max(f.ended_at) FROM finished f WHERE f.execution < coalesce(d.execution, w.execution)),
                d.started_at, w.started_at, i.created_at) AS started_at,
            coalesce(d.completed_at, clock_timestamp()) AS ended_at, d.output
        FROM df._known(number) i
        LEFT JOIN df._done d ON d.seq = i.seq
        LEFT JOIN df._work w ON w.seq = i.seq
    )
    SELECT a.execution,
        CASE a.status WHEN 'c' THEN 'Completed' WHEN 'f' THEN 'Failed' WHEN 'x' THEN 'Cancelled'
            WHEN 'n' THEN 'ContinuedAsNew' WHEN 'r' THEN 'Running' ELSE 'Pending' END,
        a.event_count, greatest(0, round(extract(epoch FROM a.ended_at - a.started_at) * 1000))::bigint,
        df._output_text(CASE a.status WHEN 'n' THEN 'c' ELSE a.status END, a.output)
    FROM (
        SELECT * FROM finished
        UNION ALL
        SELECT * FROM last l WHERE NOT EXISTS (SELECT FROM finished f WHERE f.execution = l.execution)
    ) a
    ORDER BY a.execution DESC LIMIT limit_count;
END $$;

-- Figures over the instances of all roles; so it runs as the owner, and only who was granted it may call it.
CREATE OR REPLACE FUNCTION df.metrics()
RETURNS TABLE (total_instances bigint, running_instances bigint, completed_instances bigint, failed_instances bigint,
    total_executions bigint, total_events bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH done AS (
        SELECT count(*) AS ended, count(*) FILTER (WHERE d.status = 'c') AS completed,
            count(*) FILTER (WHERE d.status = 'f') AS failed, coalesce(sum(d.execution - 1), 0) AS earlier,
            coalesce(sum(CASE WHEN d.state IS NULL THEN 4 ELSE df._event_count(d.state, true) END), 0) AS events
        FROM df._done d
    ), work AS (
        SELECT count(*) AS running, coalesce(sum(w.execution - 1), 0) AS earlier,
            coalesce(sum(df._event_count(w.state, false)), 0) AS events
        FROM df._work w
    ), total AS (
        SELECT (SELECT count(*) FROM df._instance) + (SELECT count(*) FROM df._ready)
            + (SELECT count(*) FROM df._queued) AS instances
    ), finished AS (
        SELECT coalesce(sum(e.event_count), 0) AS events FROM df._execution e WHERE e.status = 'n'
    )
    SELECT total.instances, work.running, done.completed, done.failed,
        (total.instances + done.earlier + work.earlier)::bigint,
        (done.events + work.events + finished.events + total.instances - done.ended - work.running)::bigint
    FROM total, done, work, finished
$$;

-- Lists -------------------------------------------------------------------------------------------------------------

-- The highest numbers among the instances of a status, from where they are known: those that go on from their small
-- table, those that did not complete from their own index. Every instance of the status that is not among `numbers` has
-- a number below `floor`.
CREATE OR REPLACE FUNCTION df._highest(status text, many int, OUT numbers bigint[], OUT floor bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- Among the instances of others one's own may be rare: then it is not the numbers that lead to them.
    lowest CONSTANT bigint := CASE WHEN row_security_active('df._done'::regclass) THEN
        coalesce(pg_sequence_last_value('df._instance_seq'::regclass), 0)
            - CASE status WHEN 'completed' THEN 20000 ELSE 1000000 END END;
BEGIN
    floor := 0;
    CASE status
        WHEN 'running' THEN
            numbers := ARRAY(SELECT w.seq FROM df._work w ORDER BY w.seq DESC LIMIT many);
        WHEN 'completed' THEN
            numbers := ARRAY(SELECT d.seq FROM df._done d WHERE d.status = 'c' AND d.seq >= coalesce(lowest, 0)
                ORDER BY d.seq DESC LIMIT many);
            floor := greatest(lowest, 0);
        WHEN 'failed', 'cancelled' THEN
            numbers := ARRAY(SELECT d.seq FROM df._done d
                WHERE d.status <> 'c' AND d.status = CASE _highest.status WHEN 'failed' THEN 'f' ELSE 'x' END::"char"
                  AND d.seq >= coalesce(lowest, 0)
                ORDER BY d.seq DESC LIMIT many);
            floor := greatest(lowest, 0);
        ELSE RETURN;
    END CASE;
    IF cardinality(numbers) = many THEN
        floor := numbers[many];
    END IF;
END $$;

-- The first rows of what is left to list: the newest first, and those started at the same microsecond by their ids. At
-- least `many`, if there are so many, and at most twice as many, in no order of their own. The statements are
-- written so that each row costs a few index lookups and no plan reads a whole table: what decides a status are scalar
-- subqueries, and joins other than by lookup are switched off.
CREATE OR REPLACE FUNCTION df._page(status_filter text, label_filter text, before timestamptz, after_id text, many int)
RETURNS TABLE (seq bigint, id text, label text, created_at timestamptz)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET max_parallel_workers_per_gather = 0 SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    first CONSTANT boolean := before = 'infinity' AND label_filter IS NULL;
    -- Up to how many are looked at one by one, all of them. More cost more than a walk along the time of the start.
    most CONSTANT int := greatest(1000, many + 100) + 1;
    numbers bigint[];
    floor bigint;
BEGIN
    IF status_filter IS NULL OR status_filter = 'pending' THEN
        RETURN QUERY
        SELECT r.seq, df._id(r.seq), r.label, r.created_at
        FROM (SELECT n.seq, n.submitted_by, n.label, n.created_at FROM df._ready n
              UNION ALL SELECT q.seq, q.submitted_by, q.label, q.created_at FROM df._queued q) r
        WHERE r.submitted_by = ANY (df._seen_submitters())
          AND r.created_at <= before AND (r.created_at < before OR df._id(r.seq) > after_id)
          AND (label_filter IS NULL OR r.label = label_filter)
        ORDER BY r.created_at DESC, df._id(r.seq) LIMIT many;
        IF status_filter = 'pending' THEN
            RETURN;
        END IF;
    END IF;
    SELECT h.numbers, h.floor INTO numbers, floor FROM df._highest(status_filter, most) h;
    IF cardinality(numbers) = most THEN
        numbers := numbers[:many + 100];
        floor := numbers[many + 100];
    END IF;
    IF numbers IS NOT NULL AND (first OR floor = 0) THEN
        RETURN QUERY
        WITH near AS MATERIALIZED (
            SELECT i.seq, i.id, i.label, i.created_at
            FROM (SELECT DISTINCT u.seq FROM unnest(numbers) AS u(seq)) n JOIN df._instance i ON i.seq = n.seq
            WHERE i.created_at <= before AND (i.created_at < before OR i.id > after_id)
              AND (label_filter IS NULL OR i.label = label_filter)
            ORDER BY i.created_at DESC, i.id LIMIT many
        ), edge AS MATERIALIZED (
            SELECT CASE WHEN count(*) = many THEN min(n.created_at) ELSE '-infinity' END AS oldest FROM near n
        ), far AS (
            -- Sessions that start at once may number in another order than they look at the clock: what is on the
            -- page by its time and has a lower number than all that was looked at.
            SELECT p.* FROM edge e CROSS JOIN unnest(df._seen_submitters()) AS s(submitter) CROSS JOIN LATERAL (
                SELECT i.seq, i.id, i.label, i.created_at FROM df._instance i
                WHERE floor > 0 AND i.submitted_by = s.submitter AND i.created_at >= e.oldest AND i.seq < floor
                  AND status_filter = df._status_name((SELECT d.status FROM df._done d WHERE d.seq = i.seq),
                    (SELECT true FROM df._work w WHERE w.seq = i.seq))
                ORDER BY i.created_at DESC, i.id LIMIT many) p
        )
        SELECT p.* FROM (SELECT * FROM near UNION ALL SELECT * FROM far) p
        ORDER BY p.created_at DESC, p.id LIMIT many;
    ELSIF label_filter IS NOT NULL THEN
        RETURN QUERY
        SELECT p.* FROM unnest(df._seen_submitters()) AS s(submitter) CROSS JOIN LATERAL (
            SELECT i.seq, i.id, i.label, i.created_at FROM df._instance i
            WHERE i.submitted_by = s.submitter AND i.label = label_filter
              AND i.created_at <= before AND (i.created_at < before OR i.id > after_id)
              AND (status_filter IS NULL OR status_filter = df._status_name(
                (SELECT d.status FROM df._done d WHERE d.seq = i.seq),
                (SELECT true FROM df._work w WHERE w.seq = i.seq)))
            ORDER BY i.created_at DESC, i.id LIMIT many) p
        ORDER BY p.created_at DESC, p.id LIMIT many;
    ELSE
        RETURN QUERY
        SELECT p.* FROM unnest(df._seen_submitters()) AS s(submitter) CROSS JOIN LATERAL (
            SELECT i.seq, i.id, i.label, i.created_at FROM df._instance i
            WHERE i.submitted_by = s.submitter
              AND i.created_at <= before AND (i.created_at < before OR i.id > after_id)
              AND (status_filter IS NULL OR status_filter = df._status_name(
                (SELECT d.status FROM df._done d WHERE d.seq = i.seq),
                (SELECT true FROM df._work w WHERE w.seq = i.seq)))
            ORDER BY i.created_at DESC, i.id LIMIT many) p
        ORDER BY p.created_at DESC, p.id LIMIT many;
    END IF;
END $$;

-- How many rows a page has that is asked for with this limit.
CREATE OR REPLACE FUNCTION df._page_size(limit_count int) RETURNS int
LANGUAGE plpgsql STABLE AS $$
DECLARE
    many int := coalesce(limit_count, 100);
    most int;
BEGIN
    BEGIN
        most := coalesce(df._setting('list_instances_max_limit'), '1000')::int;
    EXCEPTION WHEN invalid_text_representation OR numeric_value_out_of_range THEN
        most := 0;
    END;
    IF most NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'df.list_instances_max_limit is "%", and must be a whole number from 1 to 1000000',
            df._setting('list_instances_max_limit') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF many < 1 THEN
        RAISE EXCEPTION 'limit_count must be at least 1, and is %', many USING ERRCODE = 'invalid_parameter_value';
    ELSIF many > most THEN
        RAISE EXCEPTION 'limit_count is %, and df.list_instances_max_limit allows %', many, most
            USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Read page by page with after_cursor => next_cursor, or raise df.list_instances_max_limit.';
    END IF;
    RETURN many;
END $$;

-- Behind which instance a page begins: one with this cursor, or all.
CREATE OR REPLACE FUNCTION df._place(after_cursor text, OUT before timestamptz, OUT after_id text)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place text[];
BEGIN
    before := 'infinity';
    after_id := '';
    IF after_cursor IS NULL THEN
        RETURN;
    END IF;
    BEGIN
        place := regexp_match(convert_from(decode(after_cursor, 'hex'), 'UTF8'),
            '^v1\|([0-9T:.Z-]+)\|([0-9a-f]{8}|[0-9a-f]{16})$');
        before := place[1]::timestamptz;
        after_id := place[2];
    EXCEPTION WHEN data_exception THEN
        place := NULL;
    END;
    IF place IS NULL THEN
        RAISE EXCEPTION 'invalid after_cursor "%"', left(after_cursor, 100)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Pass the next_cursor of a row of the page before.';
    END IF;
END $$;

-- The cursor of an instance.
CREATE OR REPLACE FUNCTION df._cursor(created_at timestamptz, id text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT encode(convert_to('v1|' || to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        || '|' || id, 'UTF8'), 'hex')
$$;

-- The instances that the caller may see, the newest first, page by page: next_cursor, the same in every row, is what
-- to pass as after_cursor for the next page, and NULL on the last one.
CREATE OR REPLACE FUNCTION df.list_instances(status_filter text, limit_count int, label_filter text,
    after_cursor text DEFAULT NULL)
RETURNS TABLE (instance_id text, label text, function_name text, status text, execution_count bigint, output text,
    created_at timestamptz, completed_at timestamptz, next_cursor text)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    wanted text := lower(nullif(status_filter, ''));
    many CONSTANT int := df._page_size(limit_count);
    behind record := df._place(after_cursor);
BEGIN
    IF wanted NOT IN ('pending', 'running', 'completed', 'failed', 'cancelled') THEN
        -- No instance has a status of another name.
        RETURN;
    END IF;
    RETURN QUERY
    WITH page AS MATERIALIZED (
        SELECT p.*, row_number() OVER (ORDER BY p.created_at DESC, p.id) AS place
        FROM df._page(wanted, label_filter, behind.before, behind.after_id, many + 1) p
    ), next AS MATERIALIZED (
        -- The last row of this page, if there is one more after it.
        SELECT df._cursor(p.created_at, p.id) AS cursor
        FROM page p WHERE p.place = many AND EXISTS (SELECT FROM page q WHERE q.place > many)
    )
    -- A list of one status goes by what workers have written; one of all shows what was asked for, too.
    SELECT p.id, p.label, df._function_name(),
        CASE WHEN wanted IS NULL AND d.status IS NULL AND df._is_listed_as_cancelled(p.seq) THEN 'cancelled'
            ELSE df._status_name(d.status, w.seq IS NOT NULL) END,
        coalesce(d.execution, w.execution, 1), df._output_text(d.status, d.output),
        p.created_at, CASE WHEN d.status = 'c' THEN d.completed_at END, (SELECT n.cursor FROM next n)
    FROM page p
    LEFT JOIN LATERAL (SELECT e.* FROM df._done e WHERE e.seq = p.seq OFFSET 0) d ON true
    LEFT JOIN LATERAL (SELECT v.seq, v.execution FROM df._work v WHERE v.seq = p.seq OFFSET 0) w ON true
    WHERE p.place <= many
    ORDER BY p.place;
END $$;

CREATE OR REPLACE FUNCTION df.list_instances(status_filter text DEFAULT NULL, limit_count int DEFAULT 100)
RETURNS TABLE (instance_id text, label text, function_name text, status text, execution_count bigint, output text)
LANGUAGE sql STABLE AS $$
    SELECT l.instance_id, l.label, l.function_name, l.status, l.execution_count, l.output
    FROM df.list_instances(status_filter, limit_count, NULL, NULL) l
$$;

-- Nodes -------------------------------------------------------------------------------------------------------------

-- What the neighbours of nodes tell about them: `skipped` is what will not run any more (the branch that an if did not
-- take, the right side of what failed, the branch that lost a race), `pending` what ran in an earlier turn of a loop.
-- Arrays of the nodes in their order, the first one at 1, and indexes from 0 on, as in graphs. `ancestors` are the
-- nodes that decided it; NULL where a node speaks for itself.
CREATE OR REPLACE FUNCTION df._infer(types text[], lefts int[], rights int[], conditions int[], extras text[],
    statuses text[], paths text[], ended boolean, OUT inferred text[], OUT ancestors int[])
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    many CONSTANT int := cardinality(types);
    parents int[] := array_fill(NULL::int, ARRAY[many]);
    -- The innermost loop around a node, and how many there are around it.
    loops int[] := parents;
    depths int[] := array_fill(0, ARRAY[many]);
    -- By loop: its latest generation, as far as nodes below it have begun. By node: the loop that left it behind.
    newest text[] := parents;
    left_by int[] := parents;
    -- By node: the nearest node from it upwards that has settled; the if that did not take it, or what it is a part
    -- of; the call whose part it is.
    settled int[] := parents;
    untaken int[] := parents;
    calls int[] := parents;
    path int[];
    generation text;
    above int;
    child int;
BEGIN
    inferred := statuses;
    ancestors := parents;
    FOR n IN 1 .. many LOOP
        FOREACH child IN ARRAY ARRAY[conditions[n], lefts[n], rights[n]] || extras[n]::int[] LOOP
            CONTINUE WHEN child IS NULL;
            parents[child + 1] := n;
            loops[child + 1] := CASE WHEN types[n] = 'LOOP' THEN n ELSE loops[n] END;
            depths[child + 1] := depths[n] + CASE WHEN types[n] = 'LOOP' THEN 1 ELSE 0 END;
        END LOOP;
    END LOOP;
    -- A path names one generation for each loop around a node, the outermost first, with the instance's own before.
    FOR n IN 1 .. many LOOP
        CONTINUE WHEN paths[n] IS NULL;
        above := loops[n];
        path := string_to_array(paths[n], '.')::int[];
        WHILE above IS NOT NULL LOOP
            IF newest[above] IS NULL OR string_to_array(newest[above], '.')::int[] < path THEN
                newest[above] := array_to_string(path, '.');
            END IF;
            path := trim_array(path, least(1, cardinality(path)));
            above := loops[above];
        END LOOP;
    END LOOP;
    FOR n IN 1 .. many LOOP
        CONTINUE WHEN paths[n] IS NULL;
        above := loops[n];
        path := string_to_array(paths[n], '.')::int[];
        WHILE above IS NOT NULL LOOP
            IF path < string_to_array(newest[above], '.')::int[] THEN
                inferred[n] := 'pending';
                left_by[n] := above;
            END IF;
            path := trim_array(path, least(1, cardinality(path)));
            above := loops[above];
        END LOOP;
    END LOOP;
    FOR n IN 1 .. many LOOP
        above := parents[n];
        untaken[n] := coalesce(untaken[n], untaken[above]);
        calls[n] := coalesce(calls[above], CASE WHEN types[above] = 'CALL' THEN above END);
        settled[n] := CASE WHEN inferred[n] IN ('completed', 'failed') THEN n ELSE settled[above] END;
        CONTINUE WHEN settled[n] = n;
        IF types[n] = 'IF' AND inferred[n] = 'running' THEN
            IF inferred[lefts[n] + 1] <> 'pending' THEN
                untaken[rights[n] + 1] := n;
            ELSIF inferred[rights[n] + 1] <> 'pending' THEN
                untaken[lefts[n] + 1] := n;
            END IF;
        END IF;
        IF calls[n] IS NOT NULL THEN
            -- It runs as an instance of its own, and went as that went.
            inferred[n] := inferred[calls[n]];
            ancestors[n] := calls[n];
            settled[n] := NULL;
        ELSIF coalesce(settled[above], untaken[n]) IS NOT NULL THEN
            inferred[n] := 'skipped';
            ancestors[n] := coalesce(settled[above], untaken[n]);
        ELSIF ended THEN
            inferred[n] := 'skipped';
            ancestors[n] := 1;
        ELSIF left_by[n] IS NOT NULL THEN
            ancestors[n] := left_by[n];
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION df.instance_nodes(instance_id text)
RETURNS TABLE (node_id text, node_type text, query text, result_name text, left_node text, right_node text,
    status text, result text, status_details text, inferred_status text, inferred_status_from_ancestor_id text,
    updated_at timestamptz)
LANGUAGE sql STRICT AS $$
    WITH node AS MATERIALIZED (
        SELECT i.seq, i.id AS instance_id, i.created_at, d.seq IS NOT NULL OR df._is_cancelled(i.seq) AS ended, n.*
        FROM df._known(df._seq($1)) i
        LEFT JOIN df._done d ON d.seq = i.seq
        LEFT JOIN df._work w ON w.seq = i.seq
        CROSS JOIN LATERAL df._nodes(i.seq, i.graph, CASE WHEN d.seq IS NULL THEN w.state ELSE d.state END,
            d.status, d.output, d.completed_at) n
    ), told AS MATERIALIZED (
        SELECT df._infer(array_agg(n.node_type ORDER BY n.index), array_agg(n.left_index ORDER BY n.index),
            array_agg(n.right_index ORDER BY n.index), array_agg(n.condition_index ORDER BY n.index),
            array_agg(n.extra_indexes::text ORDER BY n.index), array_agg(n.status ORDER BY n.index),
            array_agg(n.path ORDER BY n.index), bool_or(n.ended)) AS t
        FROM node n HAVING count(*) > 0
    ), inferred AS (
        SELECT i.status, i.ancestor, i.place FROM told,
            unnest((told.t).inferred, (told.t).ancestors) WITH ORDINALITY AS i(status, ancestor, place)
    )
    SELECT n.id, n.node_type, n.query, n.result_name, df._node_id(n.seq, n.left_index),
        df._node_id(n.seq, n.right_index), n.status, n.result::text,
        '{"execution_id":"' || n.instance_id || '::' || n.path || '"}', i.status,
        df._node_id(n.seq, i.ancestor - 1), coalesce(n.at, n.created_at)
    FROM node n JOIN inferred i ON i.place = n.index + 1
    ORDER BY n.index
$$;

-- The form of before: what is kept of an instance's nodes is their last activation.
CREATE OR REPLACE FUNCTION df.instance_nodes(instance_id_param text, _last_n_executions int)
RETURNS TABLE (execution_id bigint, node_id text, node_type text, query text, result_name text, left_node text,
    right_node text, status text, result text, updated_at timestamptz)
LANGUAGE sql STABLE STRICT AS $$
    SELECT coalesce(split_part(split_part(n.status_details::json ->> 'execution_id', '::', 2), '.', 1)::bigint, 1),
        n.node_id, n.node_type, n.query, n.result_name, n.left_node, n.right_node, n.status, n.result, n.updated_at
    FROM df.instance_nodes(instance_id_param) n
$$;
