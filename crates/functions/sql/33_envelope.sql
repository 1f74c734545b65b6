-- From the envelope that the functions put together to the flat graph that is stored, and every rule on the way.
-- Envelopes written by hand come through here as well: what no function would make is refused.

-- The JSON object that a text is, or NULL when it is none. A text that begins like one is nearly always one of ours;
-- the rest is SQL that begins with a variable, such as `{table} ...`.
CREATE OR REPLACE FUNCTION df._object(input text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF ascii(ltrim(input, E' \t\r\n')) <> 123 THEN
        RETURN NULL;
    END IF;
    RETURN input::jsonb;
EXCEPTION
    WHEN invalid_text_representation THEN
        IF input ~ '^\s*\{\s*"' AND strpos(input, '"node_type"') > 0 THEN
            RAISE EXCEPTION 'malformed durable function: the text has a node_type, and is not valid JSON (%)', SQLERRM
                USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Make it with the functions of schema df, or correct the JSON.';
        END IF;
        RETURN NULL;
    WHEN statement_too_complex THEN
        RAISE EXCEPTION 'the durable function exceeds the maximum nesting depth of 256'
            USING ERRCODE = 'program_limit_exceeded',
            HINT = 'Put a part of it into an instance of its own, or group its steps as a tree.';
    WHEN untranslatable_character OR numeric_value_out_of_range THEN
        RAISE EXCEPTION 'malformed durable function: its JSON cannot be read (%)', SQLERRM
            USING ERRCODE = 'invalid_parameter_value';
END $$;

CREATE OR REPLACE FUNCTION df._node_types() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY['SQL', 'THEN', 'IF', 'JOIN', 'LOOP', 'BREAK', 'RACE', 'SLEEP', 'WAIT_SCHEDULE', 'HTTP',
        'HTTP_MULTIPART', 'SIGNAL', 'RETRY', 'CATCH', 'TIMEOUT', 'MAP', 'CALL', 'TASK', 'STEP']
$$;

CREATE OR REPLACE FUNCTION df._unknown_type(node_type text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT format('Unknown node_type ''%s''. Valid types: %s', node_type, array_to_string(df._node_types(), ', '))
$$;

-- What is wrong with the name of a result, or of anything that `$name` can mean.
CREATE OR REPLACE FUNCTION df._name_problem(name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF name ~ '^[A-Za-z_][A-Za-z0-9_]*$' THEN
        RETURN NULL;
    END IF;
    RETURN format('''%s'' is not a valid identifier: a name has letters, digits and underscores, and does not begin '
        'with a digit', name);
END $$;

-- What is wrong with bind parameters.
CREATE OR REPLACE FUNCTION df._params_problem(params jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(params) <> 'array' THEN
        RETURN 'params must be a JSON array: its first element is the value of $1';
    END IF;
    IF jsonb_array_length(params) > 1000 THEN
        RETURN format('params has %s elements, and at most 1,000 are possible', jsonb_array_length(params));
    END IF;
    RETURN NULL;
END $$;

-- Whether a JSON value is a number between two bounds.
CREATE OR REPLACE FUNCTION df._number(value jsonb, low numeric, high numeric, whole boolean) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(value) IS DISTINCT FROM 'number' THEN
        RETURN false;
    END IF;
    RETURN value::numeric BETWEEN low AND high AND (NOT whole OR value::numeric = trunc(value::numeric));
END $$;

-- The text of a JSON number without an exponent or a fraction of zeros; NULL of anything else.
CREATE OR REPLACE FUNCTION df._digits(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN jsonb_typeof(value) = 'number' THEN trim_scale(value::numeric)::text END;
END $$;

-- What is wrong with the query of an HTTP node; NULL when nothing is.
CREATE OR REPLACE FUNCTION df._http_problem(node_type text, q jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    url text := q ->> 'url';
    method text := upper(coalesce(q ->> 'method', 'POST'));
    methods CONSTANT text[] := CASE node_type WHEN 'HTTP' THEN '{GET,POST,PUT,DELETE,PATCH}'
        ELSE '{POST,PUT,PATCH}' END;
    header record;
    part jsonb;
    data text;
BEGIN
    IF jsonb_typeof(q -> 'url') IS DISTINCT FROM 'string' OR url ~ '^\s*$' THEN
        RETURN 'url must be a text that is not empty';
    END IF;
    -- A URL may begin with a variable or a result; then its scheme is known, and checked, when the step runs.
    IF url !~* '^(https?://|[{$])' THEN
        RETURN format('unsupported URL scheme in %L: a URL begins with https:// or http://', left(url, 200));
    END IF;
    IF url ~ '[[:cntrl:]]' THEN
        RETURN 'the url has a control character';
    END IF;
    IF method <> ALL (methods) THEN
        RETURN format('unsupported HTTP method %L: use one of %s', left(method, 50), array_to_string(methods, ', '));
    END IF;
    IF jsonb_typeof(q -> 'body') NOT IN ('string', 'null') THEN
        RETURN 'body must be a text';
    END IF;
    IF jsonb_typeof(q -> 'headers') NOT IN ('object', 'null') THEN
        RETURN 'headers must be a JSON object such as {"Accept": "text/plain"}';
    END IF;
    IF jsonb_typeof(q -> 'headers') = 'object' THEN
        FOR header IN SELECT key, value FROM jsonb_each(q -> 'headers') LOOP
            IF header.key !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$' THEN
                RETURN format('%L cannot be the name of a header', left(header.key, 100));
            END IF;
            IF jsonb_typeof(header.value) <> 'string' OR header.value #>> '{}' ~ '[\r\n]' THEN
                RETURN format('the value of header %s must be a text of one line', header.key);
            END IF;
        END LOOP;
    END IF;
    IF jsonb_typeof(q -> 'timeout_seconds') <> 'null' AND NOT df._number(q -> 'timeout_seconds', 1, 2147483647, true)
    THEN
        RETURN 'timeout_seconds must be a whole number greater than 0';
    END IF;
    IF node_type = 'HTTP' THEN
        RETURN 'unknown key ' || (SELECT k FROM jsonb_object_keys(q) k
            WHERE k NOT IN ('url', 'method', 'body', 'headers', 'timeout_seconds') LIMIT 1);
    END IF;
    IF jsonb_typeof(q -> 'parts') IS DISTINCT FROM 'array' OR q -> 'parts' = '[]' THEN
        RETURN 'parts must be a JSON array that is not empty, of objects {name, data_b64, filename?, content_type?}';
    END IF;
    FOR part IN SELECT jsonb_array_elements(q -> 'parts') LOOP
        IF jsonb_typeof(part) <> 'object' OR jsonb_typeof(part -> 'name') IS DISTINCT FROM 'string'
            OR part ->> 'name' = '' OR jsonb_typeof(part -> 'data_b64') IS DISTINCT FROM 'string'
            OR jsonb_typeof(part -> 'filename') NOT IN ('string', 'null')
            OR jsonb_typeof(part -> 'content_type') NOT IN ('string', 'null')
            OR part - '{name,data_b64,filename,content_type}'::text[] <> '{}'
        THEN
            RETURN 'each of parts must be an object {name, data_b64, filename?, content_type?} of texts, with a name';
        END IF;
        IF concat(part ->> 'name', part ->> 'filename', part ->> 'content_type') ~ '[\r\n]' THEN
            RETURN format('name, filename and content_type of the part %L must be of one line', part ->> 'name');
        END IF;
        data := translate(part ->> 'data_b64', E' \t\r\n', '');
        IF data ~ '[${]' THEN
            IF data !~ '^(\$[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\??|\{[A-Za-z_]\w*\})$' THEN
                RETURN format('data_b64 of the part %L must be base64 or a whole-value reference such as $name.body',
                    part ->> 'name');
            END IF;
        ELSIF data !~ '^[A-Za-z0-9+/]*={0,2}$' OR length(data) % 4 <> 0 THEN
            RETURN format('data_b64 of the part %L is not base64', part ->> 'name');
        END IF;
    END LOOP;
    RETURN 'unknown key ' || (SELECT k FROM jsonb_object_keys(q) k
        WHERE k NOT IN ('url', 'method', 'parts', 'headers', 'timeout_seconds') LIMIT 1);
END $$;

-- The query of a node in the form in which it is stored, or what is wrong with it. Not for SQL, whose query is what it
-- is, and the types without one.
CREATE OR REPLACE FUNCTION df._check_query(node_type text, query text, OUT canonical text, OUT problem text)
LANGUAGE plpgsql AS $$
DECLARE
    q jsonb;
    keys text[];
    zone text;
BEGIN
    IF node_type = 'SLEEP' THEN
        -- A number, and no longer than one that PostgreSQL takes.
        IF query ~ '^\s*[0-9]{1,11}(\.[0-9]{1,15})?\s*$' AND query::numeric <= 10000000000 THEN
            canonical := btrim(query, E' \t\r\n');
        ELSE
            problem := 'the query must be a number of seconds between 0 and 10,000,000,000';
        END IF;
        RETURN;
    END IF;
    IF node_type = 'WAIT_SCHEDULE' AND query !~ '^\s*\{' THEN
        query := '{"cron":' || to_json(query)::text || '}';
    END IF;
    q := df._object(query);
    IF q IS NULL THEN
        problem := 'the query must be the text of a JSON object';
        RETURN;
    END IF;
    CASE node_type
    WHEN 'WAIT_SCHEDULE' THEN
        keys := '{cron,time_zone}';
        IF jsonb_typeof(q -> 'cron') IS DISTINCT FROM 'string' THEN
            problem := 'the cron expression must be a text';
            RETURN;
        END IF;
        problem := df._cron_problem(q ->> 'cron');
        zone := df._time_zone(coalesce(q ->> 'time_zone', 'UTC'));
        IF problem IS NULL AND zone IS NULL THEN
            problem := format('the server knows no time zone %L: see pg_timezone_names', left(q ->> 'time_zone', 100));
        END IF;
        canonical := '{"cron":' || to_json(regexp_replace(btrim(q ->> 'cron', E' \t\r\n'), '\s+', ' ', 'g'))::text
            || ',"time_zone":' || to_json(zone)::text || '}';
    WHEN 'HTTP', 'HTTP_MULTIPART' THEN
        problem := df._http_problem(node_type, q);
        canonical := '{"url":' || to_json(q ->> 'url')::text
            || ',"method":"' || upper(coalesce(q ->> 'method', 'POST')) || '"'
            || coalesce(',"body":' || to_json(q ->> 'body')::text, '')
            || coalesce(',"parts":' || jsonb_strip_nulls(nullif(q -> 'parts', 'null'))::text, '')
            || coalesce(',"headers":' || nullif(q -> 'headers', 'null')::text, '')
            || ',"timeout_seconds":' || coalesce(df._digits(q -> 'timeout_seconds'), '30') || '}';
    WHEN 'SIGNAL' THEN
        keys := '{signal_name,timeout_seconds}';
        IF jsonb_typeof(q -> 'signal_name') IS DISTINCT FROM 'string' OR q ->> 'signal_name' = '' THEN
            problem := 'the name of the signal must be a text that is not empty';
        ELSIF jsonb_typeof(q -> 'timeout_seconds') <> 'null'
            AND NOT df._number(q -> 'timeout_seconds', 1, 2147483647, true)
        THEN
            problem := 'timeout_seconds must be a whole number greater than 0';
        END IF;
        canonical := '{"signal_name":' || to_json(q ->> 'signal_name')::text
            || coalesce(',"timeout_seconds":' || df._digits(q -> 'timeout_seconds'), '') || '}';
    WHEN 'TASK' THEN
        keys := '{task,input,max_attempts}';
        q := '{"input":"{}","max_attempts":20}'::jsonb || q;
        problem := CASE
            WHEN jsonb_typeof(q -> 'task') IS DISTINCT FROM 'string' OR length(q ->> 'task') NOT BETWEEN 1 AND 200
                THEN 'the name of the task must be a text of 1 to 200 characters'
            WHEN jsonb_typeof(q -> 'input') <> 'string' THEN 'input must be a text'
            WHEN NOT df._number(q -> 'max_attempts', 1, 1000000, true)
                THEN 'max_attempts must be a whole number from 1 to 1,000,000'
        END;
        canonical := '{"task":' || to_json(q ->> 'task')::text || ',"input":' || to_json(q ->> 'input')::text
            || ',"max_attempts":' || df._digits(q -> 'max_attempts') || '}';
    WHEN 'RETRY' THEN
        keys := '{max_attempts,initial_backoff_s,max_backoff_s,multiplier,jitter,sqlstates}';
        q := '{"max_attempts":3,"initial_backoff_s":1,"max_backoff_s":60,"multiplier":2,"jitter":0.1}'::jsonb || q;
        problem := CASE
            WHEN NOT df._number(q -> 'max_attempts', 1, 1000000, true)
                THEN 'max_attempts must be a whole number from 1 to 1,000,000'
            WHEN NOT df._number(q -> 'initial_backoff_s', 0, 10000000000, false)
                THEN 'initial_backoff_s must be a number of seconds from 0 to 10,000,000,000'
            WHEN NOT df._number(q -> 'max_backoff_s', 0, 10000000000, false)
                THEN 'max_backoff_s must be a number of seconds from 0 to 10,000,000,000'
            WHEN NOT df._number(q -> 'multiplier', 1, 1000, false) THEN 'multiplier must be a number from 1 to 1,000'
            WHEN NOT df._number(q -> 'jitter', 0, 1, false) THEN 'jitter must be a number from 0 to 1'
            WHEN q ? 'sqlstates' AND (jsonb_typeof(q -> 'sqlstates') <> 'array' OR EXISTS (
                SELECT FROM jsonb_array_elements(q -> 'sqlstates') s
                WHERE jsonb_typeof(s) <> 'string' OR s #>> '{}' !~ '^([0-9A-Z]{2}|[0-9A-Z]{5})$'))
                THEN 'sqlstates must be codes of five characters, or classes of two'
        END;
        canonical := '{"max_attempts":' || df._digits(q -> 'max_attempts')
            || ',"initial_backoff_s":' || df._digits(q -> 'initial_backoff_s')
            || ',"max_backoff_s":' || df._digits(q -> 'max_backoff_s')
            || ',"multiplier":' || df._digits(q -> 'multiplier') || ',"jitter":' || df._digits(q -> 'jitter')
            || coalesce(',"sqlstates":' || nullif(q -> 'sqlstates', '[]')::text, '') || '}';
    WHEN 'TIMEOUT' THEN
        keys := '{seconds}';
        IF NOT df._number(q -> 'seconds', 0.000001, 10000000000, false) THEN
            problem := 'seconds must be a number greater than 0, and at most 10,000,000,000';
        END IF;
        canonical := '{"seconds":' || df._digits(q -> 'seconds') || '}';
    WHEN 'MAP' THEN
        keys := '{item,parallelism}';
        q := '{"item":"item","parallelism":10}'::jsonb || q;
        IF jsonb_typeof(q -> 'item') <> 'string' THEN
            problem := 'item must be the name of a result';
        ELSIF NOT df._number(q -> 'parallelism', 1, 10000, true) THEN
            problem := 'parallelism must be a whole number from 1 to 10,000';
        ELSE
            problem := df._name_problem(q ->> 'item');
        END IF;
        canonical := '{"item":' || to_json(q ->> 'item')::text || ',"parallelism":'
            || df._digits(q -> 'parallelism') || '}';
    WHEN 'CALL' THEN
        keys := '{label,await,queue,priority,partition}';
        q := '{"label":null,"await":true}'::jsonb || q;
        IF jsonb_typeof(q -> 'label') NOT IN ('string', 'null') THEN
            problem := 'label must be a text';
        ELSIF jsonb_typeof(q -> 'await') <> 'boolean' THEN
            problem := 'await must be true or false';
        ELSIF jsonb_typeof(q -> 'queue') <> 'string' OR length(q ->> 'queue') NOT BETWEEN 1 AND 200 THEN
            problem := 'queue must be the name of a queue';
        ELSIF q ? 'priority' AND NOT df._number(q -> 'priority', -2147483648, 2147483647, true) THEN
            problem := 'priority must be a whole number';
        ELSIF jsonb_typeof(q -> 'partition') <> 'string' OR length(q ->> 'partition') > 200 THEN
            problem := 'partition must be a text of at most 200 characters';
        ELSIF NOT q ? 'queue' AND (q ? 'priority' OR q ? 'partition') THEN
            problem := 'priority and partition are for a queue';
        END IF;
        canonical := '{"label":' || coalesce(to_json(q ->> 'label')::text, 'null') || ',"await":' || (q ->> 'await')
            || coalesce(',"queue":' || to_json(q ->> 'queue')::text, '')
            || coalesce(',"priority":' || df._digits(q -> 'priority'), '')
            || coalesce(',"partition":' || to_json(q ->> 'partition')::text, '') || '}';
    WHEN 'IF' THEN
        keys := '{condition_type,result_name}';
        IF q ->> 'condition_type' IS DISTINCT FROM 'result_has_rows' THEN
            problem := 'the query of IF must have the condition_type result_has_rows';
        ELSE
            problem := df._name_problem(coalesce(q ->> 'result_name', ''));
        END IF;
        canonical := '{"condition_type":"result_has_rows","result_name":' || to_json(q ->> 'result_name')::text || '}';
    WHEN 'LOOP' THEN
        keys := '{continue_on_failure}';
        IF jsonb_typeof(q -> 'continue_on_failure') <> 'boolean' THEN
            problem := 'continue_on_failure must be true or false';
        END IF;
        canonical := CASE WHEN (q -> 'continue_on_failure') = 'true' THEN '{"continue_on_failure":true}' END;
    END CASE;
    IF problem IS NULL AND keys IS NOT NULL AND q - keys <> '{}' THEN
        problem := format('%s has no key %L', node_type, (SELECT k FROM jsonb_object_keys(q - keys) k LIMIT 1));
    END IF;
END $$;

-- What is wrong with the keys of a node, whose node_type is known to be valid: the same rules for every way in.
-- Only this node is looked at, not what its children hold.
CREATE OR REPLACE FUNCTION df._shape_problem(node jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    known CONSTANT text[] := '{node_type,left_node,right_node,condition_node,extra_nodes,query,params,result_name}';
    node_type text := node ->> 'node_type';
    needs_left boolean;
    needs_right boolean;
    kind text;
BEGIN
    -- Most nodes are one of these two, and are then seen to be right at once.
    IF node_type = 'SQL' THEN
        IF jsonb_typeof(node -> 'query') = 'string' AND node - '{node_type,query}'::text[] = '{}' THEN
            RETURN NULL;
        END IF;
    ELSIF node_type IN ('THEN', 'JOIN', 'RACE', 'CATCH', 'STEP') THEN
        IF jsonb_typeof(node -> 'left_node') = 'object' AND jsonb_typeof(node -> 'right_node') = 'object'
            AND node - '{node_type,left_node,right_node}'::text[] = '{}'
        THEN
            RETURN NULL;
        END IF;
    END IF;
    needs_left := node_type NOT IN ('SQL', 'BREAK', 'SLEEP', 'WAIT_SCHEDULE', 'HTTP', 'HTTP_MULTIPART', 'SIGNAL',
        'TASK');
    needs_right := node_type IN ('THEN', 'IF', 'JOIN', 'RACE', 'CATCH', 'STEP');
    kind := nullif(jsonb_typeof(node -> 'left_node'), 'null');
    IF needs_left <> (kind IS NOT NULL) THEN
        RETURN node_type || CASE WHEN needs_left THEN ' needs a left_node' ELSE ' has no left_node' END;
    ELSIF kind <> 'object' THEN
        RETURN format('left_node in %s must be a JSON object, not %s', node_type, kind);
    END IF;
    kind := nullif(jsonb_typeof(node -> 'right_node'), 'null');
    IF needs_right <> (kind IS NOT NULL) THEN
        RETURN node_type || CASE WHEN needs_right THEN ' needs a right_node' ELSE ' has no right_node' END;
    ELSIF kind <> 'object' THEN
        RETURN format('right_node in %s must be a JSON object, not %s', node_type, kind);
    END IF;
    -- A condition once lived in the query as JSON: such envelopes are told what to write instead.
    IF node_type IN ('IF', 'LOOP') AND strpos(node ->> 'query', '"condition_node"') > 0 THEN
        RETURN format('condition_node in %s must be a first-class Durofut field, not embedded in query', node_type);
    END IF;
    kind := nullif(jsonb_typeof(node -> 'condition_node'), 'null');
    IF kind IS NULL THEN
        IF node_type = 'MAP' THEN
            RETURN 'MAP needs a condition_node: the items';
        ELSIF node_type = 'IF' AND nullif(node -> 'query', 'null') IS NULL THEN
            RETURN 'IF needs a condition_node';
        END IF;
    ELSIF node_type NOT IN ('IF', 'LOOP', 'MAP') THEN
        RETURN format('condition_node is only valid on IF, LOOP and MAP nodes, not on %s', node_type);
    ELSIF kind <> 'object' THEN
        RETURN format('condition_node in %s must be a JSON object, not %s', node_type, kind);
    ELSIF node_type = 'IF' AND nullif(node -> 'query', 'null') IS NOT NULL THEN
        RETURN 'IF has either a condition_node or a query, not both';
    END IF;
    kind := nullif(jsonb_typeof(node -> 'extra_nodes'), 'null');
    IF kind IS NOT NULL THEN
        IF node_type <> 'JOIN' THEN
            RETURN format('extra_nodes is only valid on JOIN nodes, not on %s', node_type);
        ELSIF kind <> 'array' THEN
            RETURN 'extra_nodes must be a JSON array, not ' || kind;
        ELSIF EXISTS (
            SELECT FROM jsonb_array_elements(node -> 'extra_nodes') extra WHERE jsonb_typeof(extra) <> 'object')
        THEN
            RETURN 'each of extra_nodes must be a JSON object';
        END IF;
    END IF;
    kind := nullif(jsonb_typeof(node -> 'query'), 'null');
    IF kind <> 'string' THEN
        RETURN format('query in %s must be a text, not %s', node_type, kind);
    ELSIF kind IS NULL
        AND node_type IN ('SQL', 'SLEEP', 'WAIT_SCHEDULE', 'HTTP', 'HTTP_MULTIPART', 'SIGNAL', 'TIMEOUT', 'TASK')
    THEN
        RETURN node_type || ' needs a query';
    ELSIF kind IS NOT NULL AND node_type IN ('THEN', 'JOIN', 'RACE', 'CATCH', 'STEP') THEN
        RETURN node_type || ' has no query';
    END IF;
    kind := nullif(jsonb_typeof(node -> 'params'), 'null');
    IF kind IS NOT NULL THEN
        IF node_type <> 'SQL' THEN
            RETURN format('params is only valid on SQL nodes, not on %s', node_type);
        ELSIF df._params_problem(node -> 'params') IS NOT NULL THEN
            RETURN df._params_problem(node -> 'params');
        END IF;
    END IF;
    kind := nullif(jsonb_typeof(node -> 'result_name'), 'null');
    IF kind IS NOT NULL AND (kind <> 'string' OR df._name_problem(node ->> 'result_name') IS NOT NULL) THEN
        RETURN 'result_name: ' || coalesce(df._name_problem(node ->> 'result_name'), 'it must be a text');
    END IF;
    IF node - known <> '{}' THEN
        RETURN format('unknown key %L in a node of type %s',
            (SELECT k FROM jsonb_object_keys(node - known) k LIMIT 1), node_type);
    END IF;
    RETURN NULL;
END $$;

-- A text that begins with a brace, as a node.
CREATE OR REPLACE FUNCTION df._wrap_envelope(fut text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    node jsonb := df._object(fut);
    problem text;
BEGIN
    IF jsonb_typeof(node -> 'node_type') IS NULL OR node ->> 'node_type' <> ALL (df._node_types()) THEN
        IF jsonb_typeof(node -> 'node_type') <> 'string' THEN
            problem := 'node_type must be a text';
        ELSE
            -- Not one of ours, so it is a step's text; df.start looks at it again.
            RETURN '{"node_type":"SQL","query":' || to_json(fut)::text || '}';
        END IF;
    ELSE
        problem := df._shape_problem(node);
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'malformed durable function: %', problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN btrim(fut, E' \t\r\n');
END $$;

-- Any text as a node: an envelope stays what it is, all else is the text of a SQL step.
CREATE OR REPLACE FUNCTION df._wrap(fut text) RETURNS text
LANGUAGE sql AS $$
    SELECT CASE WHEN ascii(ltrim(fut, E' \t\r\n')) = 123 THEN df._wrap_envelope(fut)
        ELSE '{"node_type":"SQL","query":' || to_json(fut)::text || '}' END
$$;

-- What is wrong with the text of a SQL step that is empty, or begins with a brace or the letter O.
CREATE OR REPLACE FUNCTION df._sql_problem(query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    node jsonb;
BEGIN
    IF query ~ '^\s*$' THEN
        RETURN 'a SQL step is empty: write the statement that it runs';
    END IF;
    IF query = 'OK' THEN
        -- What df.setvar and its sisters return.
        RETURN format('%s cannot be used as a workflow step. Call %1$s before df.start().',
            coalesce(nullif(current_setting('df.non_future_helper', true), ''), 'df.setvar'));
    END IF;
    node := df._object(query);
    IF node -> 'node_type' IS NOT NULL THEN
        RETURN CASE WHEN node ->> 'node_type' = ANY (df._node_types())
            THEN 'the query of a SQL node is itself a durable function: pass it as it is'
            ELSE df._unknown_type(node ->> 'node_type') END;
    ELSIF node -> '_partial_if' IS NOT NULL THEN
        RETURN 'Invalid if-then-else: a ?> expression has no !> that completes it';
    END IF;
    RETURN NULL;
END $$;

-- The flat graph of a text that begins with a brace, or otherwise needs a closer look. Nodes are numbered in
-- pre-order: a node, then its condition, left, right and further children.
CREATE OR REPLACE FUNCTION df._flatten_envelope(fut text) RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
    -- What is still to be visited: a stack, whose entries hold the node, where it hangs, and how deep.
    nodes jsonb[];
    above int[];
    hooks text[];
    depths int[];
    top int := 1;
    -- What was visited, by number + 1: the text of the node, its children, and where it hangs.
    heads text[];
    lefts int[];
    rights int[];
    conditions int[];
    extras text[];
    parents int[];
    roles text[];
    n int := 0;
    node jsonb;
    child jsonb;
    parent int;
    hook text;
    depth int;
    node_type text;
    query text;
    checked record;
    problem text;
BEGIN
    node := df._object(fut);
    IF node -> 'node_type' IS NULL THEN
        node := jsonb_build_object('node_type', 'SQL', 'query', fut);
    END IF;
    nodes[1] := node;
    above[1] := 0;
    hooks[1] := '';
    depths[1] := 1;
    WHILE top > 0 LOOP
        node := nodes[top];
        parent := above[top];
        hook := hooks[top];
        depth := depths[top];
        top := top - 1;
        n := n + 1;
        parents[n] := parent;
        roles[n] := hook;
        IF n > 10000 THEN
            RAISE EXCEPTION 'the durable function exceeds the maximum of 10,000 nodes'
                USING ERRCODE = 'program_limit_exceeded',
                HINT = 'Use a loop, df.map or df.call instead of repeating steps.';
        ELSIF depth > 256 THEN
            RAISE EXCEPTION 'the durable function exceeds the maximum nesting depth of 256'
                USING ERRCODE = 'program_limit_exceeded',
                HINT = 'Put a part of it into df.call, or group its steps as a tree.';
        END IF;
        CASE hook
        WHEN 'left_node' THEN lefts[parent] := n - 1;
        WHEN 'right_node' THEN rights[parent] := n - 1;
        WHEN 'condition_node' THEN conditions[parent] := n - 1;
        WHEN 'extra_nodes' THEN extras[parent] := concat_ws(',', extras[parent], n - 1);
        ELSE NULL;
        END CASE;

        node_type := node ->> 'node_type';
        query := node ->> 'query';
        problem := NULL;
        IF jsonb_typeof(node -> 'node_type') IS DISTINCT FROM 'string' THEN
            problem := 'malformed durable function: a node needs a node_type';
        ELSIF node_type <> ALL (df._node_types()) THEN
            problem := df._unknown_type(node_type);
        ELSE
            problem := 'malformed durable function: ' || df._shape_problem(node);
        END IF;
        IF problem IS NULL THEN
            CASE node_type
            WHEN 'THEN', 'JOIN', 'RACE', 'CATCH', 'STEP', 'BREAK' THEN
                NULL;
            WHEN 'SQL' THEN
                IF ascii(ltrim(query, E' \t\r\n')) IN (0, 79, 123) THEN
                    problem := df._sql_problem(query);
                END IF;
            ELSE
                IF query IS NOT NULL OR node_type IN ('RETRY', 'MAP', 'CALL') THEN
                    checked := df._check_query(node_type, coalesce(query, '{}'));
                    problem := node_type || ': ' || checked.problem;
                    query := checked.canonical;
                END IF;
            END CASE;
        END IF;
        IF problem IS NOT NULL THEN
            hook := NULL;
            WHILE n > 1 LOOP
                hook := concat_ws('.', roles[n], hook);
                n := parents[n];
            END LOOP;
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = problem || coalesce(' (at ' || hook || ')', '');
        END IF;
        heads[n] := '{"type":"' || node_type || '"' || coalesce(',"query":' || to_json(query)::text, '')
            || coalesce(',"params":' || nullif(node -> 'params', 'null')::text, '')
            || coalesce(',"name":"' || (node ->> 'result_name') || '"', '');

        -- Children, last first: the first is then on top.
        IF jsonb_typeof(node -> 'extra_nodes') = 'array' THEN
            child := node -> 'extra_nodes';
            FOR i IN REVERSE jsonb_array_length(child) - 1 .. 0 LOOP
                top := top + 1;
                nodes[top] := child -> i;
                above[top] := n;
                hooks[top] := 'extra_nodes';
                depths[top] := depth + 1;
            END LOOP;
        END IF;
        child := node -> 'right_node';
        IF jsonb_typeof(child) = 'object' THEN
            top := top + 1;
            nodes[top] := child;
            above[top] := n;
            hooks[top] := 'right_node';
            depths[top] := depth + 1;
        END IF;
        child := node -> 'left_node';
        IF jsonb_typeof(child) = 'object' THEN
            top := top + 1;
            nodes[top] := child;
            above[top] := n;
            hooks[top] := 'left_node';
            depths[top] := depth + 1;
        END IF;
        child := node -> 'condition_node';
        IF jsonb_typeof(child) = 'object' THEN
            top := top + 1;
            nodes[top] := child;
            above[top] := n;
            hooks[top] := 'condition_node';
            depths[top] := depth + 1;
        END IF;
    END LOOP;
    FOR i IN 1 .. n LOOP
        heads[i] := heads[i] || coalesce(',"left":' || lefts[i], '') || coalesce(',"right":' || rights[i], '')
            || coalesce(',"condition":' || conditions[i], '') || coalesce(',"extra":[' || extras[i] || ']', '') || '}';
    END LOOP;
    RETURN ('[' || array_to_string(heads, ',') || ']')::json;
END $$;

-- Whether a durable function is one plain statement, and not what functions and operators of this schema return. Most
-- are.
CREATE OR REPLACE FUNCTION df._is_statement(fut text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ascii(ltrim(fut, E' \t\r\n')) NOT IN (0, 79, 123);

-- The graph of one plain statement.
CREATE OR REPLACE FUNCTION df._statement_graph(statement text) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
RETURN ('[{"type":"SQL","query":' || to_json(statement)::text || '}]')::json;

-- The graph of a durable function.
CREATE OR REPLACE FUNCTION df._flatten(fut text) RETURNS json
LANGUAGE sql
RETURN CASE WHEN df._is_statement(fut) THEN df._statement_graph(fut) ELSE df._flatten_envelope(fut) END;
