-- Schedules: a durable function that is started at times of the calendar, or at intervals. A worker finds out when that is
-- (schedules.rs), and starts what is due under a lock on the schedule, so that each time is started once.

-- Makes a schedule of the calling role, or changes it.
--   cron, time_zone   five fields, as in df.wait_for_schedule
--   every             or an interval, from now on
--   overlap           what happens at a time at which the instance before still goes on: 'skip' starts nothing, 'allow' starts
--                     another one, 'buffer' starts one when that has ended, 'cancel' cancels that one
--   catch_up          times that were missed, because no worker ran, are made up for if they are not longer ago
--   jitter            each time is put off by a part of this, always the same for the same time
-- Each instance sees its time as $input.scheduled_at.
CREATE OR REPLACE FUNCTION df.schedule(name text, fut text, cron text DEFAULT NULL, every interval DEFAULT NULL,
    time_zone text DEFAULT 'UTC', overlap text DEFAULT 'skip', catch_up interval DEFAULT '1 minute',
    jitter interval DEFAULT '0', label text DEFAULT NULL, database text DEFAULT NULL, input jsonb DEFAULT NULL,
    queue text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me CONSTANT oid := quote_ident(current_user)::regrole;
    checked record;
    clock text := schedule.cron;
    zone text := 'UTC';
BEGIN
    IF schedule.name IS NULL OR length(schedule.name) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'df.schedule: the name of a schedule has 1 to 200 characters'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF (schedule.cron IS NULL) = (schedule.every IS NULL) THEN
        RAISE EXCEPTION 'df.schedule: say either cron or every' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF schedule.every < interval '1 second' OR schedule.every > interval '10 years' THEN
        RAISE EXCEPTION 'df.schedule: every is from 1 s to 10 years' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF schedule.overlap IS NULL OR schedule.overlap NOT IN ('skip', 'allow', 'buffer', 'cancel') THEN
        RAISE EXCEPTION 'df.schedule: overlap is skip, allow, buffer or cancel, and not %', schedule.overlap
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF least(schedule.catch_up, schedule.jitter) < interval '0' OR greatest(schedule.catch_up, schedule.jitter) > interval '1 year'
    THEN
        RAISE EXCEPTION 'df.schedule: catch_up and jitter are times from 0 to a year'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(schedule.input) <> 'object' THEN
        RAISE EXCEPTION 'df.schedule: input is a JSON object, to which scheduled_at is added'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF schedule.cron IS NOT NULL THEN
        checked := df._check_query('WAIT_SCHEDULE', json_build_object('cron', schedule.cron, 'time_zone',
            schedule.time_zone)::text);
        IF checked.problem IS NOT NULL THEN
            RAISE EXCEPTION 'df.schedule: %', checked.problem USING ERRCODE = 'invalid_parameter_value';
        END IF;
        clock := checked.canonical::json ->> 'cron';
        zone := checked.canonical::json ->> 'time_zone';
    END IF;
    PERFORM df._may_start(me, schedule.label, schedule.database);
    PERFORM df._takes_starts();
    IF schedule.queue IS NOT NULL THEN
        PERFORM df._queue_id(me, schedule.queue);
    END IF;
    INSERT INTO df._schedule AS s (name, cron, time_zone, every, graph, label, database, input, queue, overlap, catch_up,
        jitter)
    VALUES (schedule.name, clock, zone, schedule.every, df._flatten(schedule.fut), schedule.label, schedule.database,
        schedule.input, schedule.queue, schedule.overlap, coalesce(schedule.catch_up, '0'),
        coalesce(schedule.jitter, '0'))
    ON CONFLICT (submitted_by, name) DO UPDATE SET cron = excluded.cron, time_zone = excluded.time_zone,
        every = excluded.every, graph = excluded.graph, label = excluded.label, database = excluded.database,
        input = excluded.input, queue = excluded.queue, overlap = excluded.overlap, catch_up = excluded.catch_up,
        jitter = excluded.jitter,
        -- At the same times it goes on as it was.
        next_at = CASE WHEN (s.cron, s.time_zone, s.every, s.jitter) IS NOT DISTINCT FROM
            (excluded.cron, excluded.time_zone, excluded.every, excluded.jitter) THEN s.next_at END,
        due_at = CASE WHEN (s.cron, s.time_zone, s.every, s.jitter) IS NOT DISTINCT FROM
            (excluded.cron, excluded.time_zone, excluded.every, excluded.jitter) THEN s.due_at END;
    NOTIFY df_wake;
    RETURN schedule.name;
END $$;

CREATE OR REPLACE FUNCTION df._set_schedule(wanted text, pause boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- What was missed while it was paused is not made up for.
    UPDATE df._schedule s SET paused = pause, next_at = NULL, due_at = NULL
    WHERE s.submitted_by = quote_ident(current_user)::regrole AND s.name = wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule "%" of role "%"', wanted, current_user
            USING ERRCODE = 'undefined_object', HINT = 'df.schedules() shows those that are there.';
    END IF;
    NOTIFY df_wake;
END $$;

CREATE OR REPLACE FUNCTION df.pause_schedule(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._set_schedule(name, true);
    RETURN format('Schedule %s paused', name);
END $$;

CREATE OR REPLACE FUNCTION df.resume_schedule(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._set_schedule(name, false);
    RETURN format('Schedule %s resumed', name);
END $$;

-- Starts an instance of a schedule now, whatever else goes on, and returns its id.
CREATE OR REPLACE FUNCTION df.trigger_schedule(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    me CONSTANT oid := quote_ident(current_user)::regrole;
    s record;
    variables json;
BEGIN
    SELECT k.* INTO s FROM df._schedule k WHERE k.submitted_by = me AND k.name = trigger_schedule.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule "%" of role "%"', name, current_user USING ERRCODE = 'undefined_object';
    END IF;
    PERFORM df._may_start(me, s.label, s.database);
    PERFORM df._takes_starts();
    IF current_setting('df.traceparent', true) <> '' THEN
        variables := df._traced_variables(me);
    ELSE
        SELECT json_object_agg(v.name, v.value) INTO variables FROM df.vars v WHERE v.owner = me;
    END IF;
    IF s.queue IS NOT NULL THEN
        RETURN df._put(df._queue_id(me, s.queue), s.label, s.database, s.graph, variables,
            df._scheduled(s.input, clock_timestamp()), NULL, NULL, NULL, NULL);
    END IF;
    INSERT INTO df._ready (label, database, graph, vars, input)
    VALUES (s.label, s.database, s.graph, variables, df._scheduled(s.input, clock_timestamp()));
    RETURN df._last_id();
END $$;

-- Starts an instance for each time of a schedule between the two, the first and the last included, side by side.
CREATE OR REPLACE FUNCTION df.backfill_schedule(name text, begin timestamptz, "end" timestamptz) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    IF begin > "end" OR "end" > clock_timestamp() THEN
        RAISE EXCEPTION 'df.backfill_schedule: the times must be past, and the first not behind the last'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM df._takes_starts();
    UPDATE df._schedule s SET backfill_from = begin, backfill_to = "end"
    WHERE s.submitted_by = quote_ident(current_user)::regrole AND s.name = backfill_schedule.name
      AND s.backfill_from IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule "%" of role "%", or it is being backfilled', name, current_user
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    NOTIFY df_wake;
    RETURN format('Schedule %s is backfilled', name);
END $$;

-- Removes a schedule; what it has started goes on.
CREATE OR REPLACE FUNCTION df.drop_schedule(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    request bigint;
BEGIN
    PERFORM df._set_schedule(name, true);
    INSERT INTO df._request (submitted_by, action, arguments)
    VALUES (quote_ident(current_user)::regrole, 'drop_schedule', jsonb_build_object('name', name))
    RETURNING id INTO request;
    PERFORM df._drop_schedule_rows(request);
    RETURN format('Schedule %s dropped', name);
END $$;

CREATE OR REPLACE FUNCTION df._drop_schedule_rows(request bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
BEGIN
    DELETE FROM df._request r WHERE r.id = request AND r.action = 'drop_schedule' RETURNING r.* INTO wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no request %', request USING HINT = 'Call df.drop_schedule.';
    END IF;
    DELETE FROM df._schedule s WHERE s.submitted_by = wanted.submitted_by AND s.name = wanted.arguments ->> 'name';
END $$;

CREATE OR REPLACE FUNCTION df.schedules()
RETURNS TABLE (name text, submitted_by regrole, cron text, time_zone text, every interval, overlap text, catch_up interval,
    jitter interval, queue text, label text, paused boolean, next_at timestamptz, last_at timestamptz, last_id text,
    last_status text, started bigint, skipped bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.name, s.submitted_by, s.cron, s.time_zone, s.every, s.overlap, s.catch_up, s.jitter, s.queue, s.label,
        s.paused, s.due_at, s.last_at, df._id(s.last_seq), df.status(df._id(s.last_seq)), s.started, s.skipped
    FROM df._schedule s ORDER BY s.submitted_by::text, s.name
$$;

-- What workers do ---------------------------------------------------------------------------------------------------

-- What an instance sees as its input.
CREATE OR REPLACE FUNCTION df._scheduled(input jsonb, at timestamptz) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT (coalesce(input, '{}') || jsonb_build_object('scheduled_at', at))::json
$$;

-- The schedules that are to be seen to, locked until the transaction ends; what another worker has locked is passed over. A shard
-- that takes no new instances has none.
CREATE OR REPLACE FUNCTION df._due_schedules()
RETURNS TABLE (id bigint, cron text, time_zone text, every_s double precision, next_at timestamptz,
    catch_up_s double precision, jitter_s double precision, backfill_from timestamptz, backfill_to timestamptz,
    now timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.id, s.cron, s.time_zone, extract(epoch FROM s.every)::double precision, s.next_at,
        extract(epoch FROM s.catch_up)::double precision, extract(epoch FROM s.jitter)::double precision, s.backfill_from,
        s.backfill_to, clock_timestamp()
    FROM df._schedule s
    WHERE (NOT s.paused AND (s.due_at IS NULL OR s.due_at <= clock_timestamp() OR s.buffered_at IS NOT NULL)
        OR s.backfill_from IS NOT NULL) AND df._is_open()
    ORDER BY s.due_at NULLS FIRST LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED;
END $$;

-- Whether an instance goes on, or will begin.
CREATE OR REPLACE FUNCTION df._goes_on(number bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT number IS NOT NULL AND NOT EXISTS (SELECT FROM df._done d WHERE d.seq = number)
        AND (EXISTS (SELECT FROM df._instance i WHERE i.seq = number) OR EXISTS (SELECT FROM df._ready r WHERE r.seq = number)
            OR EXISTS (SELECT FROM df._queued q WHERE q.seq = number))
$$;

-- Starts a schedule's instance for one time, in its submitter's name; its number.
CREATE OR REPLACE FUNCTION df._start_scheduled(s df._schedule, at timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint;
    place bigint;
    variables CONSTANT json := (SELECT json_object_agg(v.name, v.value) FROM df.vars v WHERE v.owner = s.submitted_by);
BEGIN
    SELECT q.id INTO place FROM df._queue q
    WHERE q.submitted_by = s.submitted_by AND q.name = s.queue AND q.state <> 'draining';
    IF place IS NOT NULL THEN
        INSERT INTO df._queued (submitted_by, label, database, graph, vars, input, queue)
        VALUES (s.submitted_by, s.label, s.database, s.graph, variables, df._scheduled(s.input, at), place)
        RETURNING seq INTO number;
    ELSE
        INSERT INTO df._ready (submitted_by, label, database, graph, vars, input)
        VALUES (s.submitted_by, s.label, s.database, s.graph, variables, df._scheduled(s.input, at))
        RETURNING seq INTO number;
    END IF;
    RETURN number;
END $$;

-- Starts what is due of a schedule that df._due_schedules has locked: `times`, as its overlap says, and `filled`, in any case.
CREATE OR REPLACE FUNCTION df._fire(of bigint, times timestamptz[], next_time timestamptz, due_time timestamptz,
    filled timestamptz[], fill_from timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s df._schedule;
    at timestamptz;
BEGIN
    SELECT k.* INTO s FROM df._schedule k WHERE k.id = of;
    IF s.buffered_at IS NOT NULL AND NOT df._goes_on(s.last_seq) THEN
        s.last_seq := df._start_scheduled(s, s.buffered_at);
        s.last_at := s.buffered_at;
        s.buffered_at := NULL;
        s.started := s.started + 1;
    END IF;
    FOREACH at IN ARRAY times LOOP
        IF s.overlap <> 'allow' AND df._goes_on(s.last_seq) THEN
            IF s.overlap = 'cancel' THEN
                INSERT INTO df._inbox (seq, submitted_by, kind, data)
                VALUES (s.last_seq, s.submitted_by, 'cancel', to_json(format('schedule %s starts the next one', s.name)));
            ELSE
                s.buffered_at := CASE WHEN s.overlap = 'buffer' THEN coalesce(s.buffered_at, at) END;
                s.skipped := s.skipped + CASE WHEN s.buffered_at = at THEN 0 ELSE 1 END;
                CONTINUE;
            END IF;
        END IF;
        s.last_seq := df._start_scheduled(s, at);
        s.last_at := at;
        s.started := s.started + 1;
    END LOOP;
    FOREACH at IN ARRAY filled LOOP
        PERFORM df._start_scheduled(s, at);
        s.started := s.started + 1;
    END LOOP;
    UPDATE df._schedule k SET next_at = next_time, due_at = due_time, last_at = s.last_at, last_seq = s.last_seq,
        started = s.started, skipped = s.skipped, buffered_at = s.buffered_at, backfill_from = fill_from,
        backfill_to = CASE WHEN fill_from IS NOT NULL THEN s.backfill_to END
    WHERE k.id = of;
END $$;

-- Sees to a schedule of which nothing could be started a minute later.
CREATE OR REPLACE FUNCTION df._put_off(of bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE df._schedule k SET due_at = clock_timestamp() + interval '1 minute', buffered_at = NULL, backfill_from = NULL
    WHERE k.id = of
$$;

-- In how many seconds a schedule is to be seen to; NULL: there is none.
CREATE OR REPLACE FUNCTION df._schedule_due_in_s() RETURNS double precision
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT extract(epoch FROM least(min(s.due_at) FILTER (WHERE NOT s.paused),
        min(clock_timestamp() + CASE WHEN s.backfill_from IS NULL THEN interval '1 second' ELSE interval '0' END)
            FILTER (WHERE s.backfill_from IS NOT NULL OR s.buffered_at IS NOT NULL AND NOT s.paused),
        min(clock_timestamp()) FILTER (WHERE NOT s.paused AND s.due_at IS NULL)) - clock_timestamp())::double precision
    FROM df._schedule s WHERE df._is_open()
$$;

REVOKE ALL ON FUNCTION df._due_schedules() FROM PUBLIC;
REVOKE ALL ON FUNCTION df._start_scheduled(df._schedule, timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._fire(bigint, timestamptz[], timestamptz, timestamptz, timestamptz[], timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._put_off(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._schedule_due_in_s() FROM PUBLIC;
