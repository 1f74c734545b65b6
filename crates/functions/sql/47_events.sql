-- What an instance tells whoever asks: its progress, a reference to what it has made. Set by a step, an event is seen when
-- the step has committed; it is kept as long as the instance.

-- How many events an instance may have.
CREATE OR REPLACE FUNCTION df._events_max() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1000';

-- Whether the caller may set another event of an instance: it must be its own, and have room. The policy of `_event` asks.
CREATE OR REPLACE FUNCTION df._may_tell(of bigint) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    there bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM df._known(of)) THEN
        RETURN false;
    END IF;
    SELECT count(*) INTO there FROM (SELECT FROM df._event e WHERE e.seq = of LIMIT df._events_max()) x;
    IF there >= df._events_max() THEN
        RAISE EXCEPTION 'instance % has % events, and takes no more', df._id(of), there
            USING ERRCODE = 'program_limit_exceeded', HINT = 'Set the same key again, or write to a table.';
    END IF;
    RETURN true;
END $$;

-- Sets an event of an instance; in a step, df.set_event('{sys_instance_id}', ...) is its own. The last value counts.
CREATE OR REPLACE FUNCTION df.set_event(instance_id text, key text, value jsonb) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    target record := df._find(set_event.instance_id);
BEGIN
    IF set_event.key IS NULL OR length(set_event.key) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'df.set_event: the key of an event has 1 to 200 characters'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(set_event.value::text) > 1048576 THEN
        RAISE EXCEPTION 'df.set_event: a value has at most 1 MiB, and this one has % bytes', octet_length(set_event.value::text)
            USING ERRCODE = 'program_limit_exceeded', HINT = 'Write it to a table, and set a reference to it.';
    END IF;
    UPDATE df._event e SET value = coalesce(set_event.value, 'null')::json, set_at = clock_timestamp()
    WHERE e.seq = target.number AND e.key = set_event.key;
    IF NOT FOUND THEN
        INSERT INTO df._event AS e (seq, key, value)
        VALUES (target.number, set_event.key, coalesce(set_event.value, 'null')::json)
        ON CONFLICT (seq, key) DO UPDATE SET value = excluded.value, set_at = clock_timestamp();
    END IF;
    RETURN 'OK';
END $$;

-- The value of an event; NULL: it has not been set. With a time to wait, it is waited for so long.
CREATE OR REPLACE FUNCTION df.get_event(instance_id text, key text, timeout_seconds double precision DEFAULT 0)
RETURNS text
LANGUAGE plpgsql STRICT SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    target record := df._find(get_event.instance_id);
    until CONSTANT timestamptz := clock_timestamp() + make_interval(secs => greatest(0, timeout_seconds));
    pause_s double precision := 0.002;
    found_value text;
BEGIN
    IF timeout_seconds > 0 AND current_setting('df.in_workflow', true) = 'true' THEN
        RAISE EXCEPTION 'df.get_event cannot wait inside a workflow'
            USING ERRCODE = 'invalid_transaction_state', HINT = 'Send a signal: df.wait_for_signal holds no session.';
    END IF;
    LOOP
        SELECT e.value::text INTO found_value FROM df._event e WHERE e.seq = target.number AND e.key = get_event.key;
        IF FOUND OR clock_timestamp() >= until THEN
            RETURN found_value;
        END IF;
        PERFORM pg_sleep(least(pause_s, greatest(0.001, extract(epoch FROM until - clock_timestamp()))));
        pause_s := least(pause_s * 1.3, 0.05);
    END LOOP;
END $$;

-- All events of an instance.
CREATE OR REPLACE FUNCTION df.events(instance_id text) RETURNS TABLE (key text, value jsonb, set_at timestamptz)
LANGUAGE sql STABLE STRICT AS $$
    SELECT e.key, df._to_jsonb(e.value), e.set_at FROM df._event e WHERE e.seq = df._seq(instance_id) ORDER BY e.set_at, e.key
$$;
