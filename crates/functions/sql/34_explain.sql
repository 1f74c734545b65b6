-- df.explain: a durable function as an indented tree, with marks of what has happened where it runs or ran.

-- One line about a node, without its children.
CREATE OR REPLACE FUNCTION df._describe(node jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    node_type text := node ->> 'type';
    q jsonb;
    words text;
BEGIN
    IF node_type NOT IN ('SQL', 'BREAK', 'SLEEP') THEN
        q := (node ->> 'query')::jsonb;
    END IF;
    words := CASE node_type
        WHEN 'SQL' THEN 'SQL: ' || regexp_replace(btrim(node ->> 'query', E' \t\r\n'), '\s*[\r\n]\s*', ' ', 'g')
            || coalesce(' <- ' || (node -> 'params')::text, '')
        WHEN 'IF' THEN 'IF' || coalesce(' $' || (q ->> 'result_name') || ' has rows', '')
        WHEN 'LOOP' THEN CASE WHEN node ? 'condition' THEN 'LOOP (while)' ELSE 'LOOP (infinite)' END
            || CASE WHEN q IS NULL THEN '' ELSE ', continues on failure' END
        WHEN 'BREAK' THEN concat_ws(' ', 'BREAK', node ->> 'query')
        WHEN 'JOIN' THEN format('JOIN (%s)', 2 + coalesce(jsonb_array_length(node -> 'extra'), 0))
        WHEN 'RACE' THEN 'RACE (2)'
        WHEN 'SLEEP' THEN format('SLEEP %ss', node ->> 'query')
        WHEN 'WAIT_SCHEDULE' THEN format('WAIT_SCHEDULE %s (%s)', q ->> 'cron', q ->> 'time_zone')
        WHEN 'HTTP' THEN format('HTTP %s %s', q ->> 'method', q ->> 'url')
        WHEN 'HTTP_MULTIPART' THEN format('HTTP_MULTIPART %s %s (%s parts)', q ->> 'method', q ->> 'url',
            jsonb_array_length(q -> 'parts'))
        WHEN 'SIGNAL' THEN 'SIGNAL ' || (q ->> 'signal_name')
            || coalesce(' (timeout ' || (q ->> 'timeout_seconds') || 's)', '')
        WHEN 'RETRY' THEN format('RETRY (up to %s attempts, backoff %ss to %ss, x %s)', q ->> 'max_attempts',
            q ->> 'initial_backoff_s', q ->> 'max_backoff_s', q ->> 'multiplier')
        WHEN 'TASK' THEN 'TASK ' || (q ->> 'task')
        WHEN 'TIMEOUT' THEN format('TIMEOUT %ss', q ->> 'seconds')
        WHEN 'MAP' THEN format('MAP ($%s, %s at a time)', q ->> 'item', q ->> 'parallelism')
        WHEN 'CALL' THEN 'CALL' || coalesce(' ' || (q ->> 'label'), '')
            || coalesce(' in queue ' || (q ->> 'queue'), '')
            || CASE WHEN q -> 'await' = 'false' THEN ', not awaited' ELSE '' END
        ELSE node_type
    END;
    RETURN words || coalesce(' |=> ' || (node ->> 'name'), '');
END $$;

-- The tree of a flat graph. `marks` and `notes` hold, for each node, what goes before and after its line; either may
-- be NULL. A THEN without a name is not shown: its two sides stand one under the other.
CREATE OR REPLACE FUNCTION df._render(graph json, marks text[], notes text[]) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    nodes jsonb := graph;
    -- What is still to be written: a stack of headings, and of nodes where the heading is NULL.
    headings text[] := '{NULL}';
    indices int[] := '{0}';
    indents int[] := '{0}';
    top int := 1;
    lines text[] := '{}';
    heading text;
    index int;
    indent int;
    node jsonb;
    -- The children of one node, with the heading of each.
    names text[];
    children int[];
    extra int;
BEGIN
    WHILE top > 0 LOOP
        heading := headings[top];
        index := indices[top];
        indent := indents[top];
        top := top - 1;
        IF heading IS NOT NULL THEN
            lines := lines || (repeat('  ', indent) || heading || ':');
            CONTINUE;
        END IF;
        node := nodes -> index;
        names := '{}';
        children := '{}';
        IF node ->> 'type' = 'THEN' AND NOT node ? 'name' THEN
            names := '{NULL,NULL}';
            children := ARRAY[(node ->> 'left')::int, (node ->> 'right')::int];
            indent := indent - 1;
        ELSE
            lines := lines || (repeat('  ', indent) || coalesce(marks[index + 1] || ' ', '') || df._describe(node)
                || coalesce(' ' || notes[index + 1], ''));
            children := ARRAY[(node ->> 'condition')::int, (node ->> 'left')::int, (node ->> 'right')::int];
            names := CASE node ->> 'type' WHEN 'IF' THEN '{condition,then,else}' WHEN 'MAP' THEN '{items,body,NULL}'
                WHEN 'JOIN' THEN '{NULL,branch 1,branch 2}' WHEN 'RACE' THEN '{NULL,branch 1,branch 2}'
                WHEN 'CATCH' THEN '{NULL,body,handler}' WHEN 'STEP' THEN '{NULL,NULL,undo}' ELSE '{NULL,NULL,NULL}' END;
            IF node ->> 'type' = 'LOOP' AND node ? 'condition' THEN
                -- The condition is looked at after the body.
                children := ARRAY[children[2], children[1]];
                names := '{body,while}';
            END IF;
            FOR extra IN SELECT jsonb_array_elements_text(node -> 'extra')::int LOOP
                children := children || extra;
                names := names || format('branch %s', cardinality(children) - 1);
            END LOOP;
        END IF;
        FOR i IN REVERSE cardinality(children) .. 1 LOOP
            CONTINUE WHEN children[i] IS NULL;
            top := top + 1;
            headings[top] := NULL;
            indices[top] := children[i];
            indents[top] := indent + CASE WHEN names[i] IS NULL THEN 1 ELSE 2 END;
            IF names[i] IS NOT NULL THEN
                top := top + 1;
                headings[top] := names[i];
                indents[top] := indent + 1;
            END IF;
        END LOOP;
    END LOOP;
    RETURN array_to_string(lines, E'\n');
END $$;

-- The tree of an instance, with its marks and the reasons of failures.
CREATE OR REPLACE FUNCTION df._explain_instance(wanted text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    -- A check mark, a cross, an hourglass, a circle and a barred circle; letters where the encoding has none.
    symbols CONSTANT jsonb := CASE WHEN getdatabaseencoding() = 'UTF8'
        THEN jsonb_build_object('completed', chr(10003), 'failed', chr(10007), 'running', chr(9203), 'pending',
            chr(9675), 'skipped', chr(8856))
        ELSE '{"completed":"[x]","failed":"[!]","running":"[>]","pending":"[ ]","skipped":"[-]"}' END;
    instance record;
    marks text[];
    notes text[];
BEGIN
    SELECT i.seq, i.label, i.graph INTO instance FROM df._known(df._seq(wanted)) i;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Instance not found or access denied: %', wanted USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(coalesce(symbols ->> seen.status, symbols ->> 'pending') ORDER BY n),
        array_agg(seen.note ORDER BY n) INTO marks, notes
    FROM generate_series(0, json_array_length(instance.graph) - 1) AS n
    LEFT JOIN (
        -- A node inside of df.map may be there once for each item: what is worst, or still goes on, counts.
        SELECT node_id, (array_agg(status ORDER BY rank))[1] AS status, (array_agg(note ORDER BY rank))[1] AS note
        FROM (
            SELECT node_id, coalesce(inferred_status, status) AS status,
                CASE WHEN coalesce(inferred_status, status) = 'failed'
                    THEN '(failed: ' || (result::jsonb #>> '{}') || ')' END,
                array_position('{failed,running,pending,completed,skipped}', coalesce(inferred_status, status))
            FROM df.instance_nodes(wanted)
        ) AS nodes(node_id, status, note, rank)
        GROUP BY node_id
    ) AS seen ON seen.node_id = df._node_id(instance.seq, n);
    RETURN format('Instance %s%s: %s', wanted, ' (' || instance.label || ')', df.status(wanted)) || E'\n'
        || df._render(instance.graph, marks, notes);
END $$;

-- The tree of what `input` is: the id of an instance, an envelope, an expression of functions and operators (which is
-- evaluated, with the rights of the caller), or else plain SQL.
CREATE OR REPLACE FUNCTION df.explain(input text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    -- A statement may also mention what makes an expression; it begins with a word that no expression begins with.
    statement CONSTANT text := '^\s*(select|with|insert|update|delete|merge|values|table|call|do|create|alter|drop|'
        'truncate|grant|revoke|refresh|copy|vacuum|analyze|reindex|cluster|comment|notify|lock|set|show)\M';
    fut text := input;
BEGIN
    -- Under the caller's search path, which the expression needs; so whatever else is named here is named in full.
    IF df._seq(pg_catalog.btrim(input)) IS NOT NULL THEN
        RETURN df._explain_instance(pg_catalog.btrim(input));
    END IF;
    IF input OPERATOR(pg_catalog.!~) '^\s*\{' AND input OPERATOR(pg_catalog.!~*) statement
        AND input OPERATOR(pg_catalog.~) '~>|\|=>|\?>|!>|@>|\mdf\.'
    THEN
        EXECUTE pg_catalog.concat('SELECT (', pg_catalog.regexp_replace(input, ';\s*$', ''), E'\n)::text') INTO fut;
        IF fut IS NULL THEN
            RAISE EXCEPTION 'df.explain: the expression gives NULL, not a durable function: %', input
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END IF;
    RETURN df._render(df._flatten(fut), NULL, NULL);
END $$;
