-- Who may do what. USAGE on the schema is the gate: no role has it before df.grant_usage, and PUBLIC never.

-- The rights of a submitter, as clauses between GRANT or REVOKE and TO or FROM.
CREATE OR REPLACE FUNCTION df._submitter_rights() RETURNS SETOF text
LANGUAGE sql IMMUTABLE AS $$
    SELECT * FROM (VALUES
        ('USAGE ON SCHEMA df'),
        ('SELECT ON df.instances, df.nodes, df._started, df._meta, df._instance, df._done, df._execution, df._ready, '
            'df._work, df._inbox, df._activity, df._key, df._request, df._channel, df._queue, df._queued, df._slot, '
            'df._admission, df._dedup, df._task, df._event, df._schedule, df._asleep, df._instance_seq, df._shard'),
        ('INSERT (label, database, graph, statement, vars, input, queue, priority, partition, wake) ON df._ready'),
        ('INSERT (seq, submitted_by, kind, name, data) ON df._inbox'),
        ('INSERT (submitted_by, key, seq) ON df._key'),
        ('INSERT (submitted_by) ON df._channel'),
        ('INSERT (name, concurrency, partition_concurrency, worker_concurrency, rate, per, partition_by, state) '
            'ON df._queue'),
        ('UPDATE (concurrency, partition_concurrency, worker_concurrency, rate, per, partition_by, state) ON df._queue'),
        ('INSERT (label, database, graph, statement, vars, input, queue, priority, partition, due_at, delay, wake) '
            'ON df._queued'),
        ('UPDATE (label, database, graph, statement, vars, input, due_at, delay) ON df._queued'),
        ('INSERT (queue, key, submitted_by, seq, debounced) ON df._dedup'),
        ('UPDATE (attempt, leased_until, leased_by, ended_at) ON df._task'),
        ('INSERT (seq, key, value) ON df._event'),
        ('UPDATE (value, set_at) ON df._event'),
        ('INSERT (name, cron, time_zone, every, graph, label, database, input, queue, overlap, catch_up, jitter) '
            'ON df._schedule'),
        ('UPDATE (cron, time_zone, every, graph, label, database, input, queue, overlap, catch_up, jitter, paused, '
            'next_at, due_at, backfill_from, backfill_to) ON df._schedule'),
        ('INSERT (submitted_by, action, arguments) ON df._request'),
        -- A right to UPDATE or DELETE the whole of it would be one to lock it, and others read it when they start.
        ('SELECT, INSERT, UPDATE (value) ON df.vars'),
        ('USAGE ON SEQUENCE df._vars_used')
    ) AS r(clause)
$$;

-- What PUBLIC may not execute and df.grant_usage gives on request: clauses again.
CREATE OR REPLACE FUNCTION df._special_rights(http boolean, administration boolean) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT 'EXECUTE ON FUNCTION ' || p.oid::regprocedure
    FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = 'df'::regnamespace
      AND (http AND p.proname IN ('http', 'http_multipart')
        OR administration AND p.proname IN ('metrics', 'grant_usage', 'revoke_usage'))
$$;

-- Lets a role use durable functions; with `include_http` make HTTP requests too; with `with_grant` hand all that on,
-- and see the figures of all.
CREATE OR REPLACE FUNCTION df.grant_usage(p_role text, include_http boolean DEFAULT false,
    with_grant boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql STRICT AS $$
DECLARE
    clause text;
BEGIN
    PERFORM df._existing_role(p_role);
    FOR clause IN SELECT df._submitter_rights() UNION ALL SELECT df._special_rights(include_http, with_grant) LOOP
        EXECUTE format('GRANT %s TO %I%s', clause, p_role, CASE WHEN with_grant THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;

-- Takes back everything that df.grant_usage has given to a role, and what the role has handed on. Its instances stay.
CREATE OR REPLACE FUNCTION df.revoke_usage(p_role text) RETURNS void
LANGUAGE plpgsql STRICT AS $$
DECLARE
    clause text;
    grantors text;
BEGIN
    PERFORM df._existing_role(p_role);
    FOR clause IN SELECT df._submitter_rights() UNION ALL SELECT df._special_rights(true, true) LOOP
        BEGIN
            EXECUTE format('REVOKE %s FROM %I CASCADE', clause, p_role);
        EXCEPTION WHEN insufficient_privilege THEN
            -- Who may not hand a right on has not given it. Whether somebody else has is looked at below.
            CONTINUE;
        END;
    END LOOP;
    -- A right goes away only when the one who gave it takes it back.
    SELECT string_agg(DISTINCT quote_ident(pg_get_userbyid(a.grantor)), ', ') INTO grantors
    FROM pg_catalog.pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a
    WHERE n.nspname = 'df' AND a.grantee = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = p_role)
      AND a.grantee <> n.nspowner;
    IF grantors IS NOT NULL THEN
        RAISE EXCEPTION 'role "%" still has the rights that % gave it', p_role, grantors
            USING ERRCODE = 'dependent_privilege_descriptors_still_exist',
            HINT = format('Let %s run df.revoke_usage(%L), or take the rights of %1$s away, and what was handed on '
                'goes with them.', grantors, p_role);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION df._existing_role(p_role text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM pg_catalog.pg_roles r WHERE r.rolname = p_role;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'role "%" does not exist', p_role USING ERRCODE = 'undefined_object';
    END IF;
END $$;

DO $$
DECLARE
    clause text;
BEGIN
    FOR clause IN SELECT df._special_rights(true, true) LOOP
        EXECUTE format('REVOKE %s FROM PUBLIC', clause);
    END LOOP;
END $$;
