-- Starting instances. One start is one row in `_ready`; everything else is done only when it is asked for, because ten
-- thousand of these run a second.

-- The id of the instance that this session has started last: df._id, in one expression, because each is made ready anew in each
-- transaction. (Neither is df._id put in the place of its call with a value that is asked for twice.)
CREATE OR REPLACE FUNCTION df._last_id() RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN pg_catalog.currval('df._instance_seq'::pg_catalog.regclass) OPERATOR(pg_catalog.<=) 4294967295
        THEN df._short_id(pg_catalog.currval('df._instance_seq'::pg_catalog.regclass))
        ELSE pg_catalog.lpad(pg_catalog.to_hex(pg_catalog.currval('df._instance_seq'::pg_catalog.regclass) OPERATOR(pg_catalog.>>) 32), 8, '0')
            OPERATOR(pg_catalog.||) df._short_id(pg_catalog.currval('df._instance_seq'::pg_catalog.regclass) OPERATOR(pg_catalog.&) 4294967295)
        END;
END $$;

-- A setting, under our name or under that which pg_durable has for it.
CREATE OR REPLACE FUNCTION df._setting(name text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('df.' || name, true), ''),
        nullif(current_setting('pg_durable.' || name, true), ''))
$$;

-- Refuses a label that the indexes cannot hold.
CREATE OR REPLACE FUNCTION df._label_fits(label text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(label) > 1000 THEN
        RAISE EXCEPTION 'the label of an instance has at most 1000 bytes, and this one has %', octet_length(label)
            USING ERRCODE = 'string_data_right_truncation';
    END IF;
END $$;

-- Refuses a start that the calling role, its label or its database cannot have. `me` is the calling role.
CREATE OR REPLACE FUNCTION df._may_start(me oid, label text, database text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    role record;
BEGIN
    SELECT r.rolname, r.rolcanlogin, r.rolsuper INTO role FROM pg_catalog.pg_roles r WHERE r.oid = me;
    IF NOT role.rolcanlogin THEN
        RAISE EXCEPTION 'role "%" does not have LOGIN privilege, which running durable functions takes', role.rolname
            USING ERRCODE = 'insufficient_privilege',
            HINT = format('Start as a role that may log in, or run: ALTER ROLE %I LOGIN', role.rolname);
    END IF;
    IF role.rolsuper AND lower(coalesce(df._setting('enable_superuser_instances'), 'off'))
        NOT IN ('on', 'true', 'yes', '1')
    THEN
        RAISE EXCEPTION 'role "%" is a superuser, and df.enable_superuser_instances is off', role.rolname
            USING ERRCODE = 'insufficient_privilege',
            HINT = 'Start as a role with no more rights than the steps need, or turn the setting on: '
                'ALTER DATABASE ... SET df.enable_superuser_instances = on.';
    END IF;
    PERFORM df._label_fits(label);
    IF database IS NOT NULL THEN
        PERFORM FROM pg_catalog.pg_database d WHERE d.datname = database AND d.datallowconn;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'database "%" does not exist, or allows no connections', database
                USING ERRCODE = 'invalid_catalog_name',
                HINT = 'Name a database of this server; without one the steps run in this database.';
        END IF;
        IF NOT has_database_privilege(me, database, 'CONNECT') THEN
            RAISE EXCEPTION 'role "%" may not connect to database "%"', role.rolname, database
                USING ERRCODE = 'insufficient_privilege',
                HINT = format('Run: GRANT CONNECT ON DATABASE %I TO %I', database, role.rolname);
        END IF;
    END IF;
END $$;

-- Starts an instance of the durable function `fut`, and returns its id. It begins when the caller's transaction
-- commits; with transaction_mode 'new' at once, whatever becomes of that transaction. All its steps run in `database`
-- of this server, by default this one, with the rights of the calling role. Steps see `input` as $input. A second start
-- of the role with the same idempotency_key starts nothing and returns the id of the first. What the others say is in
-- 45_queues.sql.
CREATE OR REPLACE FUNCTION df.start(fut text, label text DEFAULT NULL, database text DEFAULT NULL,
    transaction_mode text DEFAULT 'caller', input jsonb DEFAULT NULL, idempotency_key text DEFAULT NULL,
    queue text DEFAULT NULL, priority int DEFAULT NULL, partition text DEFAULT NULL, dedup text DEFAULT NULL,
    delay interval DEFAULT NULL, debounce interval DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    -- What most starts are costs one condition, one row and one id: every expression is made ready anew in each
    -- transaction, and that is most of what a start costs. The first start of a role in a session goes the long way.
    -- (A plain statement, and no white space before it; df._is_statement in fewer words.) A search path of the function's
    -- own would cost, too: whatever is named here is named in full.
    IF pg_catalog.current_setting('df.may_start', true) OPERATOR(pg_catalog.=) current_user
        AND pg_catalog.ascii(fut) OPERATOR(pg_catalog.<>) ALL ('{0,9,10,13,32,79,123}'::pg_catalog.int4[])
        AND transaction_mode OPERATOR(pg_catalog.=) 'caller'
        AND (label IS NULL OR pg_catalog.octet_length(label) OPERATOR(pg_catalog.<=) 1000)
        AND pg_catalog.num_nonnulls(database, idempotency_key, dedup, delay, debounce) OPERATOR(pg_catalog.=) 0
        AND (queue IS NOT NULL OR pg_catalog.num_nonnulls(priority, partition) OPERATOR(pg_catalog.=) 0)
        AND (partition IS NULL OR pg_catalog.octet_length(partition) OPERATOR(pg_catalog.<=) 200)
        AND pg_catalog.pg_sequence_last_value('df._vars_used'::pg_catalog.regclass) IS NULL
    THEN
        IF queue IS NULL THEN
            INSERT INTO df._ready (label, statement, input) VALUES (start.label, fut, start.input);
        ELSE
            -- It waits in a queue for nothing but room: the worker sees whether there is any. The owner sees the queues of all.
            INSERT INTO df._ready (label, statement, input, queue, priority, partition)
            SELECT start.label, fut, start.input, q.id, start.priority, start.partition
            FROM df._queue q
            WHERE q.name OPERATOR(pg_catalog.=) start.queue AND q.state OPERATOR(pg_catalog.=) 'open' AND q.partition_by IS NULL
              AND q.submitted_by OPERATOR(pg_catalog.=) pg_catalog.quote_ident(current_user)::pg_catalog.regrole;
        END IF;
        IF FOUND THEN
            RETURN CASE WHEN pg_catalog.currval('df._instance_seq'::pg_catalog.regclass) OPERATOR(pg_catalog.<=) 4294967295
                THEN df._short_id(pg_catalog.currval('df._instance_seq'::pg_catalog.regclass)) ELSE df._last_id() END;
        END IF;
    END IF;
    RETURN df._start(fut, label, database, transaction_mode, input, idempotency_key,
        df._wait(queue, priority, partition, dedup, delay, debounce));
END $$;

-- df.start of whatever it may be. `wait` says where it waits, as df._wait puts it; NULL: nowhere.
CREATE OR REPLACE FUNCTION df._start(fut text, label text, database text, transaction_mode text, input jsonb,
    idempotency_key text, wait jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    -- Quoted, because the cast reads an identifier, and a role may be called "Ann".
    me oid := quote_ident(current_user)::regrole;
    traced json;
BEGIN
    IF fut IS NULL THEN
        RAISE EXCEPTION 'df.start: the durable function must not be NULL'
            USING ERRCODE = 'null_value_not_allowed', HINT = 'Pass SQL text, or what functions of schema df return.';
    END IF;
    PERFORM df._may_start(me, label, database);
    -- What is known by a key here is no new instance.
    IF idempotency_key IS NULL AND wait ->> 'dedup' IS NULL THEN
        PERFORM df._takes_starts();
    END IF;
    -- Who owns or bypasses row security may be a superuser, and is asked every time; others once a session, whether
    -- they may log in. The short way does not look at the trace, and is not for those who have one.
    IF current_setting('df.traceparent', true) <> '' THEN
        traced := df._traced_variables(me);
    ELSIF row_security_active('df._ready'::regclass) THEN
        PERFORM set_config('df.may_start', current_user, false);
    END IF;
    IF transaction_mode IS NULL OR transaction_mode NOT IN ('caller', 'new') THEN
        RAISE EXCEPTION 'invalid transaction_mode "%" for df.start(): expected ''caller'' or ''new''',
            transaction_mode USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF length(idempotency_key) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'df.start: idempotency_key has 1 to 200 characters, and this one has %',
            length(idempotency_key) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF transaction_mode = 'new' THEN
        RETURN df._start_new(me, fut, label, database, input, idempotency_key, wait);
    ELSIF idempotency_key IS NOT NULL THEN
        RETURN df._start_once(me, fut, label, database, input, idempotency_key, wait);
    ELSIF wait IS NOT NULL THEN
        RETURN df._start_queued(me, fut, label, database, input, wait);
    END IF;
    INSERT INTO df._ready (label, database, graph, vars, input)
    VALUES (_start.label, _start.database, df._flatten(fut),
        coalesce(traced, (SELECT json_object_agg(v.name, v.value) FROM df.vars v WHERE v.owner = me)), _start.input);
    RETURN df._last_id();
END $$;

-- Starts unless the role has started with this key before.
CREATE OR REPLACE FUNCTION df._start_once(me oid, fut text, label text, database text, input jsonb,
    idempotency_key text, wait jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
    id text;
BEGIN
    SELECT k.seq INTO number FROM df._key k WHERE k.submitted_by = me AND k.key = idempotency_key;
    IF FOUND THEN
        RETURN df._id(number);
    END IF;
    BEGIN
        id := df._start(fut, label, database, 'caller', input, NULL, wait);
        INSERT INTO df._key (submitted_by, key, seq) VALUES (me, idempotency_key, df._seq(id));
        RETURN id;
    EXCEPTION WHEN unique_violation THEN
        -- Another session was first, and has committed. What this one started is undone.
        SELECT k.seq INTO number FROM df._key k WHERE k.submitted_by = me AND k.key = idempotency_key;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the idempotency_key "%" was used by a transaction that this one cannot see',
                idempotency_key
                USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END IF;
        RETURN df._id(number);
    END;
END $$;

-- Starts many instances in one statement, and returns their ids in the order of `futs`. `inputs`, where given, has one
-- element for each. With a queue all of them wait there, with the same priority; a queue that takes its partitions from
-- the input takes each from its own.
CREATE OR REPLACE FUNCTION df.start_many(futs text[], label text DEFAULT NULL, database text DEFAULT NULL,
    inputs jsonb[] DEFAULT NULL, queue text DEFAULT NULL, priority int DEFAULT NULL, partition text DEFAULT NULL,
    delay interval DEFAULT NULL) RETURNS SETOF text
LANGUAGE plpgsql ROWS 1000 AS $$
#variable_conflict use_column
DECLARE
    me oid := quote_ident(current_user)::regrole;
    variables json;
    first_null int := array_position(futs, NULL);
BEGIN
    IF futs IS NULL OR first_null IS NOT NULL THEN
        RAISE EXCEPTION 'df.start_many: % must not be NULL', coalesce('element ' || first_null || ' of futs', 'futs')
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF cardinality(inputs) <> cardinality(futs) THEN
        RAISE EXCEPTION 'df.start_many: inputs has % elements, and futs has %', cardinality(inputs), cardinality(futs)
            USING ERRCODE = 'array_subscript_error', HINT = 'Pass one input for each durable function, or none at all.';
    END IF;
    PERFORM df._may_start(me, label, database);
    PERFORM df._takes_starts();
    IF current_setting('df.traceparent', true) <> '' THEN
        variables := df._traced_variables(me);
    ELSE
        SELECT json_object_agg(v.name, v.value) INTO variables FROM df.vars v WHERE v.owner = me;
    END IF;
    IF num_nonnulls(queue, priority, partition, delay) > 0 THEN
        RETURN QUERY SELECT df._queue_many(me, futs, label, database, inputs, variables,
            df._wait(queue, priority, partition, NULL, delay, NULL));
        RETURN;
    END IF;
    RETURN QUERY
    WITH made AS (
        -- One row wakes the workers for all.
        INSERT INTO df._ready (label, database, graph, statement, vars, input, wake)
        SELECT start_many.label, start_many.database,
            CASE WHEN NOT df._is_statement(f.fut) THEN df._flatten_envelope(f.fut) END,
            CASE WHEN df._is_statement(f.fut) THEN f.fut END,
            variables, f.input::json, f.place = cardinality(futs)
        FROM unnest(futs, inputs) WITH ORDINALITY AS f(fut, input, place)
        ORDER BY f.place
        RETURNING seq
    )
    SELECT df._id(m.seq) FROM made m ORDER BY m.seq;
END $$;

-- Starts in a transaction of its own: a second session does it, as the calling role, and commits.
CREATE OR REPLACE FUNCTION df._start_new(me oid, fut text, label text, database text, input jsonb,
    idempotency_key text, wait jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    request bigint;
BEGIN
    IF current_setting('df.in_workflow', true) = 'true' THEN
        RAISE EXCEPTION 'df.start with transaction_mode ''new'' cannot be called inside a workflow'
            USING ERRCODE = 'invalid_transaction_state',
            HINT = 'Use df.call, or transaction_mode ''caller'': both begin when the step commits.';
    END IF;
    -- What is wrong with the function is said here, and not by another session.
    PERFORM df._flatten(fut);
    INSERT INTO df._request (submitted_by, action, arguments)
    VALUES (me, 'start', jsonb_build_object('fut', fut, 'label', label, 'database', database, 'input', input,
        'idempotency_key', idempotency_key, 'wait', wait, 'traceparent', current_setting('df.traceparent', true)))
    RETURNING id INTO request;
    RETURN df._start_elsewhere(request);
END $$;

-- Does the start that a row of `_request` asks for. It runs as the owner, which must be a superuser: dblink lets nobody
-- else connect without a password. The connection lives inside one call and is out of reach for the caller, even when
-- that is interrupted; its role and its search path are set before anything runs, so that no object of a user's is
-- met on the way.
CREATE OR REPLACE FUNCTION df._start_elsewhere(request bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
    submitter record;
    extension text;
    directory text := btrim(split_part(current_setting('unix_socket_directories', true), ',', 1), ' "');
    patience_s numeric;
    connection text;
    id text;
BEGIN
    DELETE FROM df._request r WHERE r.id = request AND r.action = 'start' RETURNING r.* INTO wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no request %', request USING HINT = 'Call df.start.';
    END IF;
    SELECT r.rolname, r.rolsuper INTO submitter FROM pg_roles r WHERE r.oid = wanted.submitted_by;
    SELECT n.nspname INTO extension FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'dblink';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'df.start with transaction_mode ''new'' needs a second session, and so the extension dblink'
            USING ERRCODE = 'feature_not_supported',
            HINT = 'Let an administrator run: CREATE EXTENSION dblink; or use transaction_mode ''caller''.';
    END IF;
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
        RAISE EXCEPTION 'df.start with transaction_mode ''new'' needs a schema whose owner is a superuser, and "%" is '
            'none: others cannot open a second session without a password', current_user
            USING ERRCODE = 'feature_not_supported', HINT = 'Use transaction_mode ''caller''.';
    END IF;
    BEGIN
        patience_s := least(greatest(
            coalesce(nullif(current_setting('df.new_transaction_start_timeout_s', true), ''), '5')::numeric, 0.1), 600);
    EXCEPTION WHEN invalid_text_representation THEN
        RAISE EXCEPTION 'df.new_transaction_start_timeout_s is "%", and must be a number of seconds',
            current_setting('df.new_transaction_start_timeout_s') USING ERRCODE = 'invalid_parameter_value';
    END;
    -- Twice quoted: as a word of `options`, where a space ends a word, and as a value of the connection string.
    SELECT string_agg(o.name || '=''' || replace(replace(o.value, '\', '\\'), '''', '\''') || '''', ' ')
    INTO connection
    FROM (VALUES
        ('host', coalesce(nullif(directory, ''), '127.0.0.1')),
        ('port', current_setting('port')),
        ('dbname', current_database()::text),
        ('user', current_user::text),
        ('application_name', 'df.start new'),
        ('connect_timeout', greatest(2, ceil(patience_s))::text),
        ('options', '-c search_path=pg_catalog'
            || ' -c role=' || regexp_replace(submitter.rolname, '([\\\s])', '\\\1', 'g')
            || ' -c statement_timeout=' || ceil(patience_s * 1000)
            || ' -c lock_timeout=' || ceil(patience_s * 900)
            -- The caller has passed this gate, or would not be here.
            || CASE WHEN submitter.rolsuper THEN ' -c df.enable_superuser_instances=on' ELSE '' END
            || coalesce(' -c df.traceparent=' || df._traceparent(wanted.arguments ->> 'traceparent'), ''))
    ) AS o(name, value);
    BEGIN
        EXECUTE format('SELECT t.id FROM %I.dblink($1::text, $2::text) AS t(id text)', extension) INTO id
        USING connection, format('SELECT df._start(%L, %L, %L, ''caller'', %L::jsonb, %L, %L::jsonb)',
            wanted.arguments ->> 'fut', wanted.arguments ->> 'label', wanted.arguments ->> 'database',
            nullif(wanted.arguments -> 'input', 'null')::text, wanted.arguments ->> 'idempotency_key',
            nullif(wanted.arguments -> 'wait', 'null')::text);
    EXCEPTION
        WHEN sqlclient_unable_to_establish_sqlconnection THEN
            RAISE EXCEPTION 'df.start with transaction_mode ''new'' could not open a second session: %', SQLERRM
                USING ERRCODE = 'sqlclient_unable_to_establish_sqlconnection',
                HINT = format('pg_hba.conf must let "%s" in on the server''s own socket without a password; '
                    'or use transaction_mode ''caller''.', current_user);
        WHEN lock_not_available THEN
            RAISE EXCEPTION 'df.start with transaction_mode ''new'' waited % s for a lock, perhaps one that the '
                'calling transaction holds', patience_s USING ERRCODE = 'lock_not_available',
                HINT = 'df.new_transaction_start_timeout_s is how long it waits.';
        WHEN query_canceled THEN
            RAISE EXCEPTION 'df.start with transaction_mode ''new'' did not end: %', SQLERRM
                USING ERRCODE = 'query_canceled', HINT = 'df.new_transaction_start_timeout_s is how long it may take.';
    END;
    RETURN id;
END $$;

-- Kept for what was written for it: nothing has to be run by hand.
CREATE OR REPLACE FUNCTION df.run(instance_id text DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT coalesce('Instance ' || instance_id || ' runs', 'Instances run')
        || ' by itself as soon as its start has committed; df.status tells how far it is'
$$;
