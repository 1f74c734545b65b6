-- What happens to an instance from outside: signals, cancel, pause, resume, delete; waiting for its end; variables.

-- The instance with this id, which the caller must be allowed to see: its number, who submitted it, its status.
CREATE OR REPLACE FUNCTION df._find(instance_id text, OUT number bigint, OUT submitter oid, OUT status text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    SELECT i.seq, i.submitted_by, df._status_name((SELECT d.status FROM df._done d WHERE d.seq = i.seq),
        EXISTS (SELECT FROM df._work w WHERE w.seq = i.seq))
    INTO number, submitter, status
    FROM df._known(df._seq(instance_id)) i;
    IF NOT FOUND THEN
        PERFORM df._elsewhere(df._seq(instance_id));
        RAISE EXCEPTION 'Instance not found or access denied: %', instance_id
            USING ERRCODE = 'no_data_found', HINT = 'df.list_instances() shows the instances that you may see.';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION df._ended(status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status IN ('completed', 'failed', 'cancelled');

-- How many messages an instance may have that no worker has read. What ends it, stops it or lets it go on finds room even
-- when signals do not.
CREATE OR REPLACE FUNCTION df._unread_max(what text) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE what WHEN 'signal' THEN 1000 ELSE 1100 END;

-- Whether the caller may send a message to an instance: it must be its own, and have room. The policy of `_inbox` asks, so
-- that it holds for rows that are written by hand, too.
CREATE OR REPLACE FUNCTION df._may_send(of bigint, what text) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    unread bigint;
    most CONSTANT int := df._unread_max(what);
BEGIN
    IF NOT EXISTS (SELECT FROM df._instance i WHERE i.seq = of)
        AND NOT EXISTS (SELECT FROM df._ready r WHERE r.submitted_by = quote_ident(current_user)::regrole AND r.seq = of)
        AND NOT EXISTS (SELECT FROM df._queued q WHERE q.submitted_by = quote_ident(current_user)::regrole AND q.seq = of)
    THEN
        RETURN false;
    END IF;
    SELECT count(*) INTO unread FROM (SELECT FROM df._inbox i WHERE i.seq = of LIMIT most) u;
    IF unread >= most THEN
        RAISE EXCEPTION 'instance % has % messages that no worker has read yet, and takes no more', df._id(of), unread
            USING ERRCODE = 'program_limit_exceeded', HINT = 'Send less, or see to it that a worker runs.';
    END IF;
    RETURN true;
END $$;

-- Sends a signal. It is kept until the instance waits for it; an instance that has ended takes no notice.
CREATE OR REPLACE FUNCTION df.signal(instance_id text, signal_name text, signal_data text DEFAULT '{}') RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    target record := df._find(instance_id);
    data json;
BEGIN
    IF signal_name = '' THEN
        RAISE EXCEPTION 'df.signal: the name of a signal must not be empty' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF df._ended(target.status) THEN
        RETURN 'OK';
    END IF;
    BEGIN
        data := signal_data::json;
    EXCEPTION WHEN data_exception THEN
        data := to_json(signal_data);
    END;
    INSERT INTO df._inbox (seq, submitted_by, kind, name, data)
    VALUES (target.number, target.submitter, 'signal', signal_name, data);
    RETURN 'OK';
END $$;

-- Ends an instance, its running statement and its children. One that has ended stays as it is.
CREATE OR REPLACE FUNCTION df.cancel(instance_id text, reason text DEFAULT 'Cancelled by user') RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    target record := df._find(instance_id);
BEGIN
    IF NOT df._ended(target.status) THEN
        INSERT INTO df._inbox (seq, submitted_by, kind, data)
        VALUES (target.number, target.submitter, 'cancel', to_json(reason));
    END IF;
    RETURN format('Instance %s cancelled: %s', instance_id, reason);
END $$;

CREATE OR REPLACE FUNCTION df._send(instance_id text, kind text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    target record := df._find(instance_id);
BEGIN
    IF df._ended(target.status) THEN
        RAISE EXCEPTION 'cannot % instance %: it is %', kind, instance_id, target.status
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO df._inbox (seq, submitted_by, kind) VALUES (target.number, target.submitter, kind);
END $$;

-- Lets an instance begin no further step until it is resumed. What runs already runs to its end.
CREATE OR REPLACE FUNCTION df.pause(instance_id text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._send(instance_id, 'pause');
    RETURN format('Instance %s paused', instance_id);
END $$;

-- Deletes an instance that has ended, with its history.
CREATE OR REPLACE FUNCTION df.delete(instance_id text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    target record := df._find(instance_id);
    request bigint;
BEGIN
    IF NOT df._ended(target.status) THEN
        RAISE EXCEPTION 'cannot delete instance %: it is %', instance_id, target.status
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = format('Cancel it first, and wait for its end: SELECT df.cancel(%L), df.await_instance(%1$L)',
                instance_id);
    END IF;
    INSERT INTO df._request (submitted_by, action, arguments)
    VALUES (target.submitter, 'delete', jsonb_build_object('seq', target.number))
    RETURNING id INTO request;
    PERFORM df._delete_rows(request);
    RETURN format('Instance %s deleted', instance_id);
END $$;

-- Does the deletion that a row of `_request` asks for, if the instance is the row's submitter's and has ended.
CREATE OR REPLACE FUNCTION df._delete_rows(request bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
    doomed bigint;
BEGIN
    DELETE FROM df._request r WHERE r.id = request AND r.action = 'delete' RETURNING r.* INTO wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no request %', request USING HINT = 'Call df.delete.';
    END IF;
    doomed := (wanted.arguments ->> 'seq')::bigint;
    DELETE FROM df._instance i WHERE i.seq = doomed AND i.submitted_by = wanted.submitted_by
        AND EXISTS (SELECT FROM df._done d WHERE d.seq = doomed);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Instance not found or access denied: %', df._id(doomed) USING ERRCODE = 'no_data_found';
    END IF;
    DELETE FROM df._done d WHERE d.seq = doomed;
    DELETE FROM df._execution e WHERE e.seq = doomed;
    DELETE FROM df._activity a WHERE a.seq = doomed;
    DELETE FROM df._inbox m WHERE m.seq = doomed;
    DELETE FROM df._key k WHERE k.seq = doomed;
    DELETE FROM df._event e WHERE e.seq = doomed;
END $$;

-- The channel on which workers tell the ends of the caller's instances, as long as somebody waits for some. Nobody else knows
-- its name.
CREATE OR REPLACE FUNCTION df._done_channel() RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    me CONSTANT oid := quote_ident(current_user)::regrole;
    channel text;
BEGIN
    SELECT c.name INTO channel FROM df._channel c WHERE c.submitted_by = me;
    IF NOT FOUND THEN
        INSERT INTO df._channel (submitted_by) VALUES (me) ON CONFLICT DO NOTHING;
        SELECT c.name INTO channel FROM df._channel c WHERE c.submitted_by = me;
    END IF;
    RETURN channel;
END $$;

-- Waits until an instance has ended, and returns its status.
CREATE OR REPLACE FUNCTION df.await_instance(instance_id text, timeout_seconds int DEFAULT 30) RETURNS text
LANGUAGE plpgsql STRICT SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    target record;
    started_by xid;
    next_xid bigint;
    full_xid bigint;
    begun timestamptz := clock_timestamp();
    pause_s double precision := 0.001;
    done "char";
BEGIN
    IF current_setting('df.in_workflow', true) = 'true' THEN
        RAISE EXCEPTION 'df.await_instance cannot be called inside a workflow'
            USING ERRCODE = 'invalid_transaction_state', HINT = 'Use df.call: it waits without holding a session.';
    END IF;
    IF timeout_seconds <= 0 THEN
        RAISE EXCEPTION 'timeout_seconds must be greater than 0, and is %', timeout_seconds
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    target := df._find(instance_id);
    IF df._ended(target.status) THEN
        RETURN target.status;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'df.await_instance sees no progress in a transaction that is %',
            current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state', HINT = 'Call it in a transaction that is READ COMMITTED.';
    END IF;
    -- A row that is visible and whose transaction still runs is this transaction's own.
    SELECT i.written_by INTO started_by FROM df._known(target.number) i;
    next_xid := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- The row has the lower half of the transaction's number: the one that is nearest to the latest.
    full_xid := next_xid + ((started_by::text::bigint - next_xid + 2147483648) & 4294967295) - 2147483648;
    IF full_xid >= 3 AND pg_xact_status(full_xid::text::xid8) = 'in progress' THEN
        RAISE EXCEPTION 'instance % was started in this transaction, and begins when it commits', instance_id
            USING ERRCODE = 'invalid_transaction_state', HINT = 'Commit first, then wait.';
    END IF;
    LOOP
        PERFORM pg_sleep(pause_s);
        SELECT d.status INTO done FROM df._done d WHERE d.seq = target.number;
        IF FOUND THEN
            RETURN df._status_name(done, false);
        END IF;
        IF clock_timestamp() >= begun + make_interval(secs => timeout_seconds) THEN
            target := df._find(instance_id);
            RAISE EXCEPTION 'Timeout after %s waiting for instance % (status: %)',
                timeout_seconds, instance_id, target.status
                USING HINT = 'It goes on; wait again, or look at it with df.explain. Does a worker run?';
        END IF;
        pause_s := least(pause_s * 1.3, 0.025,
            extract(epoch FROM begun + make_interval(secs => timeout_seconds) - clock_timestamp()));
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION df.wait_for_completion(instance_id text, timeout_seconds int DEFAULT 30) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RAISE WARNING 'df.wait_for_completion is deprecated: use df.await_instance';
    RETURN df.await_instance(instance_id, timeout_seconds);
END $$;

-- Variables ---------------------------------------------------------------------------------------------------------

-- Says 'OK', and that it was `helper` that said it, so that nobody takes the word for a step.
CREATE OR REPLACE FUNCTION df._set_by(helper text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('df.non_future_helper', helper, true);
    RETURN 'OK';
END $$;

CREATE OR REPLACE FUNCTION df._outside_workflows(helper text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('df.in_workflow', true) = 'true' THEN
        RAISE EXCEPTION '% cannot be called inside a workflow', helper
            USING ERRCODE = 'invalid_transaction_state',
            HINT = 'An instance keeps the variables it was started with; name a result with |=> instead.';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION df.setvar(name text, value text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
#variable_conflict use_column
BEGIN
    PERFORM df._outside_workflows('df.setvar');
    IF setvar.name = '' OR setvar.name ~ '[{}]' THEN
        RAISE EXCEPTION 'df.setvar: the name of a variable must not be empty and has no braces, and this is "%"',
            setvar.name USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO df.vars (name, value, owner)
    VALUES (setvar.name, setvar.value, quote_ident(current_user)::regrole)
    ON CONFLICT (owner, name) DO UPDATE SET value = excluded.value;
    -- Behind the row, whose lock keeps the sequence from being reset.
    IF pg_sequence_last_value('df._vars_used'::regclass) IS NULL THEN
        PERFORM nextval('df._vars_used');
    END IF;
    RETURN df._set_by('df.setvar');
END $$;

CREATE OR REPLACE FUNCTION df.getvar(name text) RETURNS text
LANGUAGE sql STABLE STRICT AS $$
    SELECT v.value FROM df.vars v WHERE v.name = getvar.name AND v.owner = quote_ident(current_user)::regrole
$$;

-- Deletes a variable of the caller's, or with null all of them.
CREATE OR REPLACE FUNCTION df._unset_own(name jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    request bigint;
BEGIN
    INSERT INTO df._request (submitted_by, action, arguments)
    VALUES (quote_ident(current_user)::regrole, 'unset', jsonb_build_object('name', name))
    RETURNING id INTO request;
    PERFORM df._unset_rows(request);
END $$;

-- Does the deletion that a row of `_request` asks for: submitters may not delete from the table, because who may is also
-- allowed to lock it.
CREATE OR REPLACE FUNCTION df._unset_rows(request bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
BEGIN
    DELETE FROM df._request r WHERE r.id = request AND r.action = 'unset' RETURNING r.* INTO wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no request %', request USING HINT = 'Call df.unsetvar.';
    END IF;
    DELETE FROM df.vars v WHERE v.owner = wanted.submitted_by
        AND (wanted.arguments -> 'name' = 'null' OR v.name = wanted.arguments ->> 'name');
END $$;

CREATE OR REPLACE FUNCTION df.unsetvar(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._outside_workflows('df.unsetvar');
    PERFORM df._unset_own(to_jsonb(unsetvar.name));
    RETURN df._set_by('df.unsetvar');
END $$;

CREATE OR REPLACE FUNCTION df.clearvars() RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM df._outside_workflows('df.clearvars');
    PERFORM df._unset_own('null');
    RETURN df._set_by('df.clearvars');
END $$;
