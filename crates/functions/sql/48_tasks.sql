-- Steps that programs of the user's do, in any language, with nothing but SQL. A program claims tasks for a time, does them,
-- and says how they ended, in a transaction of its own: what it writes there and the end commit together, so that such an
-- effect happens once. Everything else that it does happens at least once, and `token` is the same for no other attempt.
--
--   listen:     LISTEN df_task, and ask now and then
--   claim:      SELECT * FROM df.claim_tasks('{resize}', 60)
--   say alive:  SELECT df.extend_task(token, 60)       false: it is not wanted, or somebody else has it: stop
--   end:        BEGIN; ...; SELECT df.complete_task(token, result); COMMIT

-- What a token names.
CREATE OR REPLACE FUNCTION df._task_of(token text, OUT number bigint, OUT attempt int)
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF token !~ '^[0-9]{1,18}-[0-9]{1,9}$' THEN
        RAISE EXCEPTION 'no token of a task: %', left(token, 50) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'df.claim_tasks gives them.';
    END IF;
    number := split_part(token, '-', 1)::bigint;
    attempt := split_part(token, '-', 2)::int;
END $$;

-- Tells an instance how one of its tasks ended.
CREATE OR REPLACE FUNCTION df._answer(of bigint, submitter oid, cell text, answer json) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO df._inbox (seq, submitted_by, kind, name, data) VALUES (of, submitter, 'activity', cell, answer)
$$;

-- Claims up to `many` tasks of these names, the oldest first, so that nobody else has them for `lease_seconds`. One that
-- was claimed before and not ended in its time is claimed again, under another token.
CREATE OR REPLACE FUNCTION df.claim_tasks(names text[], lease_seconds double precision DEFAULT 60, many int DEFAULT 1,
    worker text DEFAULT NULL)
RETURNS TABLE (token text, name text, input jsonb, instance_id text, attempt int, leased_until timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me CONSTANT oid := quote_ident(current_user)::regrole;
    spent record;
BEGIN
    IF names IS NULL OR coalesce(lease_seconds, 0) NOT BETWEEN 0.1 AND 86400 OR coalesce(many, 0) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'df.claim_tasks: names are an array, a lease is from 0.1 s to a day, and 1 to 1,000 are claimed at once'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Those that nobody has brought to an end.
    FOR spent IN
        SELECT t.number, t.seq, t.cell, t.attempt FROM df._task t
        WHERE t.submitted_by = me AND t.name = ANY (names) AND t.ended_at IS NULL AND t.attempt >= t.max_attempts
          AND t.leased_until < clock_timestamp()
        LIMIT many FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE df._task t SET ended_at = clock_timestamp() WHERE t.number = spent.number;
        PERFORM df._answer(spent.seq, me, spent.cell, json_build_object('failure',
            format('the task was claimed %s times, and never ended within its lease', spent.attempt)));
    END LOOP;
    RETURN QUERY
    WITH free AS (
        SELECT t.number FROM df._task t
        WHERE t.submitted_by = me AND t.name = ANY (names) AND t.ended_at IS NULL AND t.attempt < t.max_attempts
          AND (t.leased_until IS NULL OR t.leased_until < clock_timestamp())
        ORDER BY t.number LIMIT many FOR UPDATE SKIP LOCKED
    )
    UPDATE df._task t SET attempt = t.attempt + 1, leased_by = worker,
        leased_until = clock_timestamp() + make_interval(secs => lease_seconds)
    FROM free f WHERE t.number = f.number
    RETURNING t.number || '-' || t.attempt, t.name, df._to_jsonb(t.input), df._id(t.seq), t.attempt, t.leased_until;
END $$;

-- Has a task for longer. False: it is not wanted any more, or somebody else has it.
CREATE OR REPLACE FUNCTION df.extend_task(token text, lease_seconds double precision DEFAULT 60) RETURNS boolean
LANGUAGE plpgsql STRICT AS $$
DECLARE
    which record := df._task_of(token);
BEGIN
    UPDATE df._task t SET leased_until = clock_timestamp() + make_interval(secs => least(greatest(lease_seconds, 0.1), 86400))
    WHERE t.number = which.number AND t.attempt = which.attempt AND t.ended_at IS NULL;
    RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION df._end_task(token text, answer json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    which record := df._task_of(token);
    ended record;
BEGIN
    -- Whoever has claimed it later waits here until this has committed, or is the one who counts.
    UPDATE df._task t SET ended_at = clock_timestamp()
    WHERE t.number = which.number AND t.attempt = which.attempt AND t.ended_at IS NULL
    RETURNING t.seq, t.cell, t.submitted_by INTO ended;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the task % is not wanted any more, has ended, or was claimed by somebody else since', token
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Roll back what was done for it.';
    END IF;
    PERFORM df._answer(ended.seq, ended.submitted_by, ended.cell, answer);
END $$;

-- Ends a task with its result. Refused unless the token is that of the latest claim: then the caller's transaction must
-- not commit, and the error sees to that.
CREATE OR REPLACE FUNCTION df.complete_task(token text, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM df._end_task(token, json_build_object('result', coalesce(result, 'null')));
END $$;

-- Ends a task with a failure, which df.catch and df.retry see.
CREATE OR REPLACE FUNCTION df.fail_task(token text, message text, sqlstate text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM df._end_task(token, json_strip_nulls(json_build_object('failure', coalesce(message, ''), 'sqlstate', sqlstate)));
END $$;

-- Gives a task back, for others to claim at once or after a while.
CREATE OR REPLACE FUNCTION df.release_task(token text, after_seconds double precision DEFAULT 0) RETURNS boolean
LANGUAGE plpgsql STRICT AS $$
DECLARE
    which record := df._task_of(token);
BEGIN
    UPDATE df._task t SET leased_until = clock_timestamp() + make_interval(secs => least(greatest(after_seconds, 0), 86400)),
        leased_by = NULL
    WHERE t.number = which.number AND t.attempt = which.attempt AND t.ended_at IS NULL;
    IF FOUND AND after_seconds <= 0 THEN
        NOTIFY df_task;
        RETURN true;
    END IF;
    RETURN FOUND;
END $$;
