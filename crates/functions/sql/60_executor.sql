-- Where a step's text runs: inside a function that belongs to the role that submitted it.
--
-- The server refuses, inside a SECURITY DEFINER function, to change the role or the session's user, and inside any
-- function to end the transaction. So a step has its submitter's rights and no way to another's, though the session
-- is the worker's. What the server does not refuse is undone here, step by step, before the next one begins: settings,
-- prepared statements, cursors, session-level advisory locks; notifications that were listened to and sequence caches
-- at the end of the call. Temporary tables cannot be undone cheaply: a step that makes one is rolled back and run
-- again alone, in a session that is thrown away afterwards.
--
-- After the clean-up of a step nothing may run that the submitter could have put there. So the executor's own search
-- path is pg_catalog, and the submitter's settings, its search path among them, hold only for the step's text.
--
-- The types of a result decide how it becomes JSON. They are read from the binary form of its first row, here: to ask
-- the server for a description of the statement would mean to parse it once more, and parsing runs code of types.
--
-- Deferred constraints are checked at the end of the step that deferred them, so that they fail that step and not
-- its neighbours. Before PostgreSQL 18 a trigger that is still queued at commit would run with the rights of the
-- worker: a step that wrote to a table whose deferrable triggers or constraints can run code of a user is refused there.
--
-- What is written as an assignment and not as PERFORM is an expression, which costs a fifth of a query.
--
-- rowless: whether a text begins like a statement that returns no rows, which saves it a cursor.
-- outcome: c completed, f failed, s ran out of the call's statement_timeout, l waited too long for a lock,
-- t left a temporary table. After s, l and t the step has had no effect, and wants to run alone.
-- shape: the first row in binary form.
--
-- Words in double braces are filled in by df_run.executor_source. Nothing else in the text has double braces.
CREATE OR REPLACE FUNCTION df_run.executor_body() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$ SELECT $$
#variable_conflict use_column
DECLARE
    step text;
    found_row record;
    rows text[];
    bytes bigint;
    name text;
    risky jsonb;
    begun timestamptz := clock_timestamp();
BEGIN
    IF pg_catalog.pg_get_userbyid({{submitter}}) IS DISTINCT FROM current_user THEN
        RAISE EXCEPTION 'this executor does not run as its submitter: drop it, and the worker makes it anew'
            USING ERRCODE = 'DFEXE';
    END IF;
    FOR item IN 1 .. cardinality(texts) LOOP
        step := texts[item];
        outcome := 'c'; result := NULL; row_count := 0; code := NULL; message := NULL; shape := NULL;
        {{before_step}}
        BEGIN
            FOR setting IN 1 .. cardinality(settings) BY 2 LOOP
                name := set_config(settings[setting], settings[setting + 1], true);
            END LOOP;
            -- A text without a semicolon is one statement. Every other goes through a cursor first, which takes one
            -- statement only; so does what may return rows.
            IF rowless[item] AND strpos(step, ';') = 0 THEN
                EXECUTE step;
                GET DIAGNOSTICS row_count = ROW_COUNT;
            ELSE
                BEGIN
                    rows := '{}';
                    bytes := 0;
                    FOR found_row IN EXECUTE step LOOP
                        IF row_count = 0 THEN
                            BEGIN
                                shape := record_send(found_row);
                            EXCEPTION WHEN undefined_function THEN
                                -- A type without a binary form: its values stay as the server writes them.
                                shape := NULL;
                            END;
                        END IF;
                        row_count := row_count + 1;
                        rows[row_count] := row_to_json(found_row)::text;
                        bytes := bytes + octet_length(rows[row_count]);
                        IF bytes > bytes_max THEN
                            RAISE EXCEPTION 'the result of this step is larger than % bytes', bytes_max
                                USING ERRCODE = 'program_limit_exceeded',
                                HINT = 'Select less, or store the rows in a table and select what names them.';
                        END IF;
                    END LOOP;
                    result := '[' || array_to_string(rows, ',') || ']';
                EXCEPTION WHEN invalid_cursor_definition THEN
                    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
                    IF message LIKE '%multi-query%' THEN
                        RAISE EXCEPTION 'a step is exactly one statement'
                            USING ERRCODE = 'syntax_error', HINT = 'Make each statement a step of its own: a ~> b.';
                    ELSIF message NOT LIKE 'cannot open % query as cursor' THEN
                        RAISE;
                    END IF;
                    message := NULL;
                    EXECUTE step;
                    GET DIAGNOSTICS row_count = ROW_COUNT;
                END;
            END IF;
            SET CONSTRAINTS ALL IMMEDIATE;
            -- From here on nothing is looked up where the submitter could have put something.
            SET LOCAL search_path = pg_catalog, pg_temp;
            IF NOT alone AND pg_catalog.pg_my_temp_schema() <> 0 THEN
                RAISE EXCEPTION 'temporary' USING ERRCODE = 'DFTMP';
            END IF;
            {{after_step}}
        EXCEPTION
            WHEN query_canceled THEN
                IF alone THEN
                    RAISE;
                END IF;
                outcome := 's';
            WHEN SQLSTATE 'DFTMP' THEN
                outcome := 't';
            WHEN lock_not_available OR deadlock_detected OR serialization_failure THEN
                GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
                outcome := CASE WHEN alone THEN 'f' ELSE 'l' END;
            WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
                outcome := 'f';
        END;
        -- If it failed, too.
        SET search_path = pg_catalog, pg_temp;
        IF outcome <> 'c' THEN
            result := NULL; row_count := 0; shape := NULL;
        END IF;
        -- The worker itself has none.
        DEALLOCATE ALL;
        name := pg_catalog.pg_advisory_unlock_all();
        RESET ALL;
        EXECUTE 'CLOSE ALL';
        RETURN NEXT;
        EXIT WHEN outcome = 's' OR extract(epoch FROM clock_timestamp() - begun) * 1000 > budget_ms;
    END LOOP;
    UNLISTEN *;
    DISCARD SEQUENCES;
END $$ $body$;

-- Before PostgreSQL 18: writes to tables whose deferrable triggers or constraints could still be queued at commit, and
-- would run code of a user with the worker's rights. The server's counters go on from step to step, so they are compared
-- table by table.
CREATE OR REPLACE FUNCTION df_run.risky_writes() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$ SELECT $$
            (SELECT coalesce(jsonb_object_agg(t.tgrelid, pg_stat_get_xact_tuples_inserted(t.tgrelid)
                + pg_stat_get_xact_tuples_updated(t.tgrelid) + pg_stat_get_xact_tuples_deleted(t.tgrelid)), '{}')
            FROM pg_trigger t
            JOIN pg_proc p ON p.oid = t.tgfoid
            JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE t.tgdeferrable
              AND CASE WHEN t.tgisinternal
                  THEN EXISTS (SELECT FROM pg_index x WHERE x.indexrelid = t.tgconstrindid
                               AND (x.indexprs IS NOT NULL OR x.indpred IS NOT NULL))
                  ELSE n.nspname <> 'df' END)
$$ $body$;

CREATE OR REPLACE FUNCTION df_run.executor_guard() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$ SELECT $$
            SELECT w.key::oid::regclass::text INTO name
            FROM jsonb_each_text($$ || df_run.risky_writes() || $$) w
            WHERE w.value::bigint > coalesce((risky ->> w.key)::bigint, 0)
            LIMIT 1;
            IF name IS NOT NULL THEN
                RAISE EXCEPTION 'this step wrote to %, which has a deferrable trigger: before PostgreSQL 18 it could run code with the rights of the worker', name
                    USING ERRCODE = 'insufficient_privilege',
                    HINT = 'Make it NOT DEFERRABLE, or run PostgreSQL 18.';
            END IF;
$$ $body$;

-- The text of a role's executor on this server.
CREATE OR REPLACE FUNCTION df_run.executor_source(submitter oid) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT replace(replace(replace(df_run.executor_body(),
        '{{submitter}}', submitter::text),
        '{{before_step}}', CASE WHEN g.guarded THEN 'risky := ' || df_run.risky_writes() || ';' ELSE '' END),
        '{{after_step}}', CASE WHEN g.guarded THEN df_run.executor_guard() ELSE '' END)
    FROM (SELECT current_setting('server_version_num')::int < 180000) g(guarded)
$$;

-- Empty: it is only locked.
CREATE TABLE IF NOT EXISTS df_run.mutex ();

-- Makes the executor of a role, or makes it anew. Returns whether it exists now; false: there is no such role.
CREATE OR REPLACE FUNCTION df_run.ensure_executor(submitter oid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role_name name := (SELECT r.rolname FROM pg_roles r WHERE r.oid = submitter);
    me CONSTANT name := current_user;
    signature text := format('df_run.%I(text[], boolean[], text[], double precision, bigint, boolean)', 'r' || submitter);
    lend boolean;
BEGIN
    IF role_name IS NULL THEN
        RETURN false;
    END IF;
    IF df_run.has_executor(submitter, signature) THEN
        RETURN true;
    END IF;
    -- Two workers may meet the same new role at once. Submitters have no right on this table, and so no way to hold
    -- the lock.
    LOCK TABLE df_run.mutex IN ACCESS EXCLUSIVE MODE;
    IF df_run.has_executor(submitter, signature) THEN
        RETURN true;
    END IF;
    EXECUTE format('DROP FUNCTION IF EXISTS %s', signature);
    EXECUTE format('CREATE FUNCTION df_run.%I(texts text[], rowless boolean[], settings text[], budget_ms double precision,
            bytes_max bigint, alone boolean)
        RETURNS TABLE (item int, outcome "char", result text, row_count bigint, code text, message text, shape bytea)
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %L',
        'r' || submitter, df_run.executor_source(submitter));
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
    -- The new owner must be able to create in the schema, for the length of this transaction, which nobody else sees. A
    -- superuser asks nobody, and who has the rights of the schema's owner has this one, and is to keep it: what is taken
    -- back would be the owner's own.
    SELECT NOT r.rolsuper AND NOT pg_has_role(submitter, n.nspowner, 'USAGE') INTO lend
    FROM pg_roles r, pg_namespace n WHERE r.rolname = current_user AND n.nspname = 'df_run';
    IF lend THEN
        EXECUTE format('GRANT USAGE, CREATE ON SCHEMA df_run TO %I', role_name);
    END IF;
    EXECUTE format('ALTER FUNCTION %s OWNER TO %I', signature, role_name);
    IF NOT has_function_privilege(signature, 'EXECUTE') THEN
        -- A worker that inherits nothing of its submitters, and may only become them: the new owner lets it in.
        PERFORM set_config('role', role_name, true);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', signature, me);
        PERFORM set_config('role', me, true);
    END IF;
    IF lend THEN
        EXECUTE format('REVOKE USAGE, CREATE ON SCHEMA df_run FROM %I', role_name);
    END IF;
    RETURN true;
END $$;

-- Whether the function of this signature is the executor of the role, as this version makes it.
CREATE OR REPLACE FUNCTION df_run.has_executor(submitter oid, signature text) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_proc p
        WHERE p.oid = to_regprocedure(signature) AND p.proowner = submitter AND p.prosecdef
          AND p.proconfig = ARRAY['search_path=pg_catalog, pg_temp'] AND has_function_privilege(p.oid, 'EXECUTE')
          AND p.prosrc = df_run.executor_source(submitter))
$$;
REVOKE ALL ON FUNCTION df_run.has_executor(oid, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION df_run.ensure_executor(oid) FROM PUBLIC;

-- Steps in another database of the server: how a step ended there is marked there, in the transaction of the step, so
-- that a second attempt finds the end instead of running it again. Once the end is recorded where the instance is, the
-- mark of a step that was attempted once goes. That of any other stays, without the end: an attempt that was given up
-- long ago, and begins only now, finds it and does nothing.
CREATE TABLE IF NOT EXISTS df_run.marker (
    installation uuid NOT NULL,
    activity bigint NOT NULL,
    outcome json,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (installation, activity)
);
ALTER TABLE df_run.marker ADD COLUMN IF NOT EXISTS attempt int, ADD COLUMN IF NOT EXISTS failure json;

-- The number tells a worker whether what it finds in another database is of its own version.
COMMENT ON SCHEMA df_run IS
    'durable functions, version 5: one executor a submitting role; no role but the worker has any right here';
