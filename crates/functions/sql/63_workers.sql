-- Workers: who lives, who is dead, who does which activity, who sleeps.

-- Marks a worker as alive, which it is under a name that it has been given once: an epoch that was buried never comes
-- back. False: it was.
CREATE OR REPLACE FUNCTION df._is_alive(epoch uuid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE df._worker_epoch e SET last_seen_at = clock_timestamp() WHERE e.epoch_id = epoch;
    RETURN FOUND;
END $$;
REVOKE ALL ON FUNCTION df._is_alive(uuid) FROM PUBLIC;

-- Somebody has set the clock back if a worker was seen alive at a time that is still to come. Times that were written since
-- would make others wait until they come. So who waits for a time is looked at again: no timer is further away than it was
-- when it was set, which the interpreter sees to.
CREATE OR REPLACE FUNCTION df._clock_went_back() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM df._worker_epoch e WHERE e.last_seen_at > clock_timestamp() + interval '1 second') THEN
        RETURN;
    END IF;
    UPDATE df._worker_epoch e SET last_seen_at = clock_timestamp() WHERE e.last_seen_at > clock_timestamp();
    UPDATE df._activity a SET taken_at = clock_timestamp() WHERE a.taken_at > clock_timestamp();
    -- Submitters can lock the rows of these two.
    UPDATE df._schedule s SET next_at = NULL, due_at = NULL WHERE s.id IN (
        SELECT k.id FROM df._schedule k WHERE k.every IS NOT NULL AND k.next_at > clock_timestamp() + k.every + k.jitter
        FOR NO KEY UPDATE SKIP LOCKED);
    UPDATE df._admission a SET at = clock_timestamp() WHERE a.at > clock_timestamp();
    UPDATE df._queued q SET due_at = clock_timestamp() + q.delay WHERE q.ctid = ANY (ARRAY(
        SELECT n.ctid FROM df._queued n WHERE n.due_at > clock_timestamp() + n.delay FOR UPDATE SKIP LOCKED));
    UPDATE df._work w SET due_at = clock_timestamp(), updated_at = clock_timestamp()
    WHERE w.seq IN (SELECT v.seq FROM df._work v WHERE v.updated_at > clock_timestamp() AND v.due_at IS NOT NULL
                    FOR UPDATE SKIP LOCKED);
END $$;
REVOKE ALL ON FUNCTION df._clock_went_back() FROM PUBLIC;

-- Marks a worker as alive and buries the dead: their sessions are ended, so that their locks go, and their activities
-- are given back. So are activities that this worker has taken and does not run: `held` are those that it does, by
-- their numbers and attempts. Returns what an idle worker wants to know. Its own `alive` is false when others have buried
-- it.
CREATE OR REPLACE FUNCTION df._heartbeat(epoch uuid, dead_after interval, held_numbers bigint[], held_attempts int[])
RETURNS TABLE (alive boolean, due_in_s double precision, waiting boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    dead uuid[];
BEGIN
    PERFORM df._clock_went_back();
    alive := df._is_alive(epoch);
    SELECT array_agg(b.epoch_id) INTO dead FROM (
        SELECT e.epoch_id FROM df._worker_epoch e
        WHERE e.last_seen_at < clock_timestamp() - dead_after AND e.epoch_id <> epoch FOR UPDATE SKIP LOCKED) b;
    IF dead IS NOT NULL THEN
        PERFORM df._bury(d) FROM unnest(dead) AS d;
    END IF;
    UPDATE df._activity a SET owner = NULL, taken_at = NULL
    WHERE a.owner IS NOT NULL AND a.taken_at < clock_timestamp() - interval '10 seconds'
      AND CASE WHEN a.owner = epoch
          THEN NOT EXISTS (SELECT FROM unnest(held_numbers, held_attempts) AS h(number, attempt)
                           WHERE h.number = a.number AND h.attempt = a.attempt)
          ELSE NOT EXISTS (SELECT FROM df._worker_epoch e WHERE e.epoch_id = a.owner) END;
    due_in_s := df._due_in_s();
    waiting := EXISTS (SELECT FROM df._ready)
        OR EXISTS (SELECT FROM df._inbox i CROSS JOIN LATERAL (
            SELECT FROM df._work k WHERE k.seq = i.seq AND k.submitted_by = i.submitted_by OFFSET 0) w)
        OR EXISTS (SELECT FROM df._activity a WHERE a.owner IS NULL);
    RETURN NEXT;
END $$;

-- In how many seconds the next timer is due; NULL: there is none.
CREATE OR REPLACE FUNCTION df._due_in_s() RETURNS double precision
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT extract(epoch FROM min(w.due_at) - clock_timestamp())::double precision
    FROM df._work w WHERE w.due_at IS NOT NULL AND NOT w.paused
$$;

CREATE OR REPLACE FUNCTION df._bury(epoch uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a
    WHERE a.application_name = 'duramen fn ' || epoch AND a.pid <> pg_backend_pid();
    UPDATE df._activity SET owner = NULL, taken_at = NULL WHERE owner = epoch;
    DELETE FROM df._worker_epoch WHERE epoch_id = epoch;
END $$;

-- Takes activities that nobody has. The next place is always that of the role that runs the fewest on this worker, and has
-- no more than `most`; of a role the oldest instance is first. `busy` are the roles that run some, and `counts` how many.
-- There are `free` places for everybody; the `spare` ones are for roles that run nothing, so that somebody whose steps take
-- all other places for hours makes nobody wait. Of a queue with a limit for each worker no more run here than that.
CREATE OR REPLACE FUNCTION df._take(epoch uuid, free int, spare int, most int, busy oid[], counts int[])
RETURNS TABLE (seq bigint, cell text, number bigint, attempt int, submitted_by oid, role_name text, kind text, payload text,
    database text, queue bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    roles oid[];
    running int[];
    waiting int[];
    shares int[];
    next int;
    -- Queues with such a limit, and how many more of each may run.
    limited bigint[];
    rooms int[];
    occupied bigint[];
BEGIN
    SELECT array_agg(q.id), array_agg(q.room), array_agg(q.id) FILTER (WHERE q.room <= 0) INTO limited, rooms, occupied
    FROM (SELECT k.id, k.worker_concurrency - (SELECT count(*)::int FROM df._activity a
              WHERE a.owner = epoch AND a.queue = k.id) AS room
          FROM df._queue k WHERE k.worker_concurrency IS NOT NULL) q;
    occupied := coalesce(occupied, '{}');
    WITH RECURSIVE starter AS (
        -- From role to role, however many each has.
        (SELECT a.submitted_by::oid AS role FROM df._activity a WHERE a.owner IS NULL ORDER BY a.submitted_by LIMIT 1)
        UNION ALL
        SELECT (SELECT a.submitted_by::oid FROM df._activity a WHERE a.owner IS NULL AND a.submitted_by > s.role
                ORDER BY a.submitted_by LIMIT 1)
        FROM starter s WHERE s.role IS NOT NULL
    )
    SELECT array_agg(s.role), array_agg(coalesce(counts[array_position(busy, s.role)], 0)), array_agg(w.waiting)
    INTO roles, running, waiting
    FROM starter s CROSS JOIN LATERAL (
        SELECT count(*)::int AS waiting FROM (
            SELECT FROM df._activity a WHERE a.owner IS NULL AND a.submitted_by = s.role
                AND (a.queue IS NULL OR a.queue <> ALL (occupied))
            LIMIT greatest(free, 0) + spare) x) w
    WHERE s.role IS NOT NULL;
    IF roles IS NULL THEN
        RETURN;
    END IF;
    shares := array_fill(0, ARRAY[cardinality(roles)]);
    LOOP
        next := NULL;
        FOR i IN 1 .. cardinality(roles) LOOP
            IF shares[i] < waiting[i] AND running[i] < most AND (next IS NULL OR running[i] < running[next]) THEN
                next := i;
            END IF;
        END LOOP;
        EXIT WHEN next IS NULL;
        IF free > 0 THEN
            free := free - 1;
        ELSIF spare > 0 AND running[next] = 0 THEN
            spare := spare - 1;
        ELSE
            EXIT;
        END IF;
        shares[next] := shares[next] + 1;
        running[next] := running[next] + 1;
    END LOOP;
    FOR i IN 1 .. cardinality(roles) LOOP
        CONTINUE WHEN shares[i] = 0;
        RETURN QUERY
        WITH oldest AS (
            SELECT a.seq, a.cell, a.queue FROM df._activity a WHERE a.owner IS NULL AND a.submitted_by = roles[i]
                AND (a.queue IS NULL OR a.queue <> ALL (occupied))
            ORDER BY a.seq LIMIT shares[i] FOR UPDATE SKIP LOCKED
        ), next AS (
            SELECT o.seq, o.cell
            FROM (SELECT w.*, row_number() OVER (PARTITION BY w.queue ORDER BY w.seq) AS place FROM oldest w) o
            WHERE o.place <= coalesce(rooms[array_position(limited, o.queue)], shares[i])
        )
        UPDATE df._activity a SET owner = epoch, taken_at = clock_timestamp(), attempt = a.attempt + 1
        FROM next n JOIN df._instance i ON i.seq = n.seq
        WHERE a.seq = n.seq AND a.cell = n.cell
          AND EXISTS (SELECT FROM df._worker_epoch e WHERE e.epoch_id = epoch FOR KEY SHARE)
        RETURNING a.seq, a.cell, a.number, a.attempt, a.submitted_by::oid, pg_get_userbyid(a.submitted_by)::text, a.kind,
            a.payload::text, i.database, a.queue;
    END LOOP;
END $$;

-- Ends an activity: if it was still this attempt's, the instance is locked and returned for the turn that follows; no row
-- if not, and then nothing of it may be committed. A loop uses a cell again, and a worker may take again what it had
-- taken before: only number and attempt together say which attempt of which activity it is.
CREATE OR REPLACE FUNCTION df._end_activity(version int, epoch uuid, of bigint, at_cell text, its_number bigint, its_attempt int)
RETURNS TABLE (label text, database text, graph text, vars text, input text, created_at timestamptz,
    started_at timestamptz, parent bigint, parent_cell text, queue bigint, state text, mail text, at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM df._must_be_for(version);
    PERFORM FROM df._work w WHERE w.seq = of FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM df._activity a WHERE a.seq = of AND a.cell = at_cell AND a.owner = epoch AND a.number = its_number
        AND a.attempt = its_attempt;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT i.label, i.database, i.graph::text, i.vars::text, i.input::text, i.created_at, w.started_at,
        i.parent, i.parent_cell, i.queue, w.state::text, NULL::text, clock_timestamp()
    FROM df._work w JOIN df._instance i USING (seq) WHERE w.seq = of;
END $$;

-- Gives back what a worker has taken and not ended.
CREATE OR REPLACE FUNCTION df._give_back(epoch uuid) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE df._activity SET owner = NULL, taken_at = NULL WHERE owner = epoch
$$;

-- Says whether the workers sleep. Writes only when it changes: an idle worker writes nothing. Returns in how many
-- seconds the sleeper must be up again.
CREATE OR REPLACE FUNCTION df._set_asleep(asleep boolean) RETURNS double precision
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_sequence_last_value('df._asleep') IS DISTINCT FROM (CASE WHEN asleep THEN 2 ELSE 1 END) THEN
        PERFORM setval('df._asleep', CASE WHEN asleep THEN 2 ELSE 1 END);
    END IF;
    RETURN CASE WHEN asleep THEN df._due_in_s() END;
END $$;

REVOKE ALL ON FUNCTION df._heartbeat(uuid, interval, bigint[], int[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._bury(uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._take(uuid, int, int, int, oid[], int[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._end_activity(int, uuid, bigint, text, bigint, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._give_back(uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._set_asleep(boolean) FROM PUBLIC;
