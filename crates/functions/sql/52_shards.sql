-- Several databases that run durable functions together: each is a shard, and an instance lives on one of them with all that
-- belongs to it. Its number says which: the upper 10 of its 62 bits. An id of sixteen digits shows them in its first three; one
-- of eight is of shard 0, where numbers begin as they do without a cluster.

-- The shard of an instance's number.
CREATE OR REPLACE FUNCTION df._shard_of(number bigint) RETURNS int
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (number >> 52)::int;

-- Which shard this database is; NULL: it is none.
CREATE OR REPLACE FUNCTION df.shard() RETURNS int
LANGUAGE sql STABLE AS $$ SELECT m.shard FROM df._meta m $$;

-- The shards of the cluster: where each is, and whether it takes starts.
CREATE OR REPLACE FUNCTION df.shards()
RETURNS TABLE (shard int, place text, state text, here boolean)
LANGUAGE sql STABLE AS $$
    SELECT s.shard, s.place, s.state, s.shard = m.shard FROM df._shard s CROSS JOIN df._meta m ORDER BY s.shard
$$;

-- Where the instance with this id is: its shard, and the connection string that leads there, to which role and password are
-- added. It asks no other database. Outside of a cluster every instance is here.
CREATE OR REPLACE FUNCTION df.route(instance_id text)
RETURNS TABLE (shard int, place text, state text, here boolean)
LANGUAGE plpgsql STABLE STRICT AS $$
#variable_conflict use_column
DECLARE
    number bigint := df._seq(instance_id);
    mine record;
BEGIN
    IF number IS NULL THEN
        RAISE EXCEPTION '"%" is not an instance id', left(instance_id, 100)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'An id has eight or sixteen hexadecimal digits.';
    END IF;
    SELECT m.cluster, m.shard, m.cluster_version INTO mine FROM df._meta m;
    IF mine.cluster IS NULL OR mine.cluster_version = 0 THEN
        RETURN QUERY SELECT df._shard_of(number), NULL::text, 'open'::text, true;
        RETURN;
    END IF;
    RETURN QUERY SELECT s.shard, s.place, s.state, s.shard = mine.shard FROM df._shard s WHERE s.shard = df._shard_of(number);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'instance % is of shard %, and version % of the list of shards has none of that number', instance_id,
            df._shard_of(number), mine.cluster_version
            USING ERRCODE = 'no_data_found', HINT = 'Is the id one of this cluster''s? SELECT * FROM df.shards() has the list.';
    END IF;
END $$;

-- Refuses an instance of another shard by name: nothing is done over shards. Called when an instance was not found here.
CREATE OR REPLACE FUNCTION df._elsewhere(number bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    there record;
BEGIN
    SELECT s.shard, s.place, s.state, m.shard AS mine INTO there
    FROM df._meta m JOIN df._shard s ON s.shard = df._shard_of(number) WHERE m.shard <> s.shard;
    IF FOUND THEN
        RAISE EXCEPTION 'instance % is on shard %, and this is shard %', df._id(number), there.shard, there.mine
            USING ERRCODE = 'DFS01', DETAIL = there.place,
            HINT = CASE there.state
                WHEN 'removed' THEN 'That shard was taken out of the cluster; what is left of it is where it was.'
                ELSE 'Connect to the database that df.route leads to; whatever belongs to an instance is on its shard.' END;
    END IF;
END $$;

-- Whether new instances may begin here: not on a shard that is drained or was removed, nor in a database that was made ready for a list
-- which has not come, since another one may get its number.
CREATE OR REPLACE FUNCTION df._is_open() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (
        SELECT FROM df._meta m LEFT JOIN df._shard s ON s.shard OPERATOR(pg_catalog.=) m.shard
        WHERE m.shard IS NOT NULL AND NOT coalesce(s.state OPERATOR(pg_catalog.=) 'open', m.shard OPERATOR(pg_catalog.=) 0))
$$;

-- Refuses starts on a shard that takes none. Instances that are here may start others until they end.
CREATE OR REPLACE FUNCTION df._takes_starts() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT df._is_open() AND current_setting('df.in_workflow', true) IS DISTINCT FROM 'true' THEN
        RAISE EXCEPTION 'shard % is %, and takes no new instances', df.shard(),
            coalesce((SELECT s.state FROM df._shard s WHERE s.shard = df.shard()), 'not in the list of shards yet')
            USING ERRCODE = 'DFS02',
            HINT = CASE WHEN EXISTS (SELECT FROM df._shard) THEN
                'Start it on a shard that is open: SELECT * FROM df.shards() has the list.'
                ELSE 'Run the same `duramen fn cluster create` or `add` again, or `duramen fn cluster leave URL`.' END;
    END IF;
END $$;

-- Sees to it that the short way of df.start, which looks at no list, is taken only where starts are: it is not taken while this
-- sequence has a value, which variables give it, too. Whoever sets a variable has written it before looking at the sequence.
CREATE OR REPLACE FUNCTION df._open_or_close() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT df._is_open() THEN
        IF pg_sequence_last_value('df._vars_used') IS NULL THEN
            PERFORM nextval('df._vars_used');
        END IF;
    ELSIF pg_sequence_last_value('df._vars_used') IS NOT NULL THEN
        LOCK TABLE df.vars IN SHARE ROW EXCLUSIVE MODE;
        IF NOT EXISTS (SELECT FROM df.vars) THEN
            PERFORM setval('df._vars_used', 1, false);
        END IF;
    END IF;
END $$;

-- How many instances have not ended here, those that are being started included: it waits for whoever starts some.
CREATE OR REPLACE FUNCTION df._unended() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE df._ready, df._queued IN SHARE ROW EXCLUSIVE MODE;
    RETURN (SELECT count(*) FROM df._ready) + (SELECT count(*) FROM df._queued) + (SELECT count(*) FROM df._work);
END $$;

-- The shard on which a start with this idempotency key is placed by whoever places it by its key: always the same one, whatever
-- shards come. NULL outside of a cluster.
CREATE OR REPLACE FUNCTION df.home(key text) RETURNS int
LANGUAGE sql STABLE STRICT AS $$
    SELECT s.shard FROM df._shard s WHERE s.keyed
    ORDER BY sha256(convert_to(s.shard || ':' || key, 'UTF8')) DESC LIMIT 1
$$;

-- Makes this database one shard of a cluster, before the list of it comes. From here on its numbers are the shard's. Done again
-- it changes nothing.
CREATE OR REPLACE FUNCTION df._join(of uuid, as_shard int) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mine record;
    last bigint;
BEGIN
    -- Starts wait meanwhile: none may take a number between the look and the change.
    LOCK TABLE df._ready, df._queued IN SHARE ROW EXCLUSIVE MODE;
    SELECT m.cluster, m.shard, m.cluster_version INTO mine FROM df._meta m FOR UPDATE;
    IF mine.cluster = of AND mine.shard = as_shard THEN
        RETURN;
    ELSIF mine.cluster_version > 0 THEN
        RAISE EXCEPTION 'this database is shard % of the cluster %', mine.shard, mine.cluster
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'A database belongs to one cluster; a copy of it belongs to none, once it is adopted.';
    END IF;
    last := pg_sequence_last_value('df._instance_seq');
    -- It was made ready for a list that has never come, and nothing was started since.
    IF last & ((1::bigint << 52) - 1) = 0 AND NOT EXISTS (SELECT FROM df._instance) THEN
        last := NULL;
    END IF;
    IF last IS NOT NULL AND df._shard_of(last) <> as_shard THEN
        RAISE EXCEPTION 'this database has had instances of shard %, and cannot become shard %', df._shard_of(last), as_shard
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = CASE df._shard_of(last)
                WHEN 0 THEN 'Their ids are of shard 0: begin the cluster with this database, or add an empty one.'
                ELSE 'Add an empty database.' END;
    END IF;
    UPDATE df._meta SET cluster = of, shard = as_shard, cluster_version = 0;
    PERFORM df._open_or_close();
    -- What a sequence is told is not undone: last.
    IF last IS NULL AND as_shard = 0 THEN
        PERFORM setval('df._instance_seq', 1, false);
    ELSIF last IS NULL THEN
        PERFORM df._add_partition(p) FROM generate_series(as_shard::bigint << 30, (as_shard::bigint << 30) + 3) AS p;
        PERFORM setval('df._instance_seq', as_shard::bigint << 52);
    END IF;
END $$;

-- Takes back that this database was made ready for a list, as long as that has not come.
CREATE OR REPLACE FUNCTION df._leave() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE df._ready, df._queued IN SHARE ROW EXCLUSIVE MODE;
    PERFORM FROM df._meta m WHERE m.cluster_version > 0 FOR UPDATE;
    IF FOUND THEN
        RAISE EXCEPTION 'this database is shard % of a cluster, and its instances have ids of it', df.shard()
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Drain it, and remove it: `duramen fn cluster drain`, `remove`.';
    END IF;
    UPDATE df._meta SET cluster = NULL, shard = NULL, cluster_version = NULL;
    PERFORM df._open_or_close();
    IF pg_sequence_last_value('df._instance_seq') & ((1::bigint << 52) - 1) = 0 AND NOT EXISTS (SELECT FROM df._instance) THEN
        PERFORM setval('df._instance_seq', 1, false);
    END IF;
END $$;

-- Puts a list in force here, if it is of this cluster and newer than the one that is. With `decides` it must be the next one, which
-- only shard 0 may say: of two changes at once one fails. Returns the version in force.
-- It must lead to the shard that it was meant for.
CREATE OR REPLACE FUNCTION df._take_list(of uuid, as_shard int, version bigint, shards json, decides boolean) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mine record;
BEGIN
    SELECT m.cluster, m.shard, m.cluster_version INTO mine FROM df._meta m FOR UPDATE;
    IF mine.cluster IS DISTINCT FROM of OR mine.shard <> as_shard THEN
        RAISE EXCEPTION 'this database is not shard % of the cluster %', as_shard, of
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'A list of another cluster leads here, or the database is a copy: SELECT df.shard() says which shard it is.';
    END IF;
    IF decides AND (mine.shard <> 0 OR mine.cluster_version <> version - 1) THEN
        RAISE EXCEPTION 'the list of shards has changed meanwhile: it has version %, and not %', mine.cluster_version, version - 1
            USING ERRCODE = 'serialization_failure', HINT = 'Do it again.';
    END IF;
    IF version <= mine.cluster_version THEN
        RETURN mine.cluster_version;
    END IF;
    DELETE FROM df._shard;
    INSERT INTO df._shard (shard, place, state, keyed)
    SELECT s.shard, s.place, s.state, s.keyed
    FROM json_to_recordset(shards) AS s(shard int, place text, state text, keyed boolean);
    UPDATE df._meta SET cluster_version = version;
    PERFORM df._open_or_close();
    RETURN version;
END $$;

REVOKE ALL ON FUNCTION df._join(uuid, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._leave() FROM PUBLIC;
REVOKE ALL ON FUNCTION df._open_or_close() FROM PUBLIC;
REVOKE ALL ON FUNCTION df._unended() FROM PUBLIC;
REVOKE ALL ON FUNCTION df._take_list(uuid, int, bigint, json, boolean) FROM PUBLIC;
