-- A database that is a copy of another one, and was adopted: what becomes there of the steps that reach outside.

-- What becomes of such a step of an instance: 'skip', 'stub', or NULL, when it runs. A child goes as the one above all.
CREATE OR REPLACE FUNCTION df._external(number bigint) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rule text;
    up_to bigint;
    above bigint := number;
BEGIN
    SELECT m.external, m.external_up_to INTO rule, up_to FROM df._meta m;
    WHILE rule IS NOT NULL AND above IS NOT NULL AND above > up_to LOOP
        SELECT i.parent INTO above FROM df._instance i WHERE i.seq = above;
        -- What it descends from is not kept any more: then it is taken for one of the copy's.
        EXIT WHEN NOT FOUND;
        IF above IS NULL THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RETURN rule;
END $$;

-- Makes the instances that are here this copy's own. Every number that was given so far counts as one of theirs. The
-- installation gets a new name, so that marks in other databases are not taken for those of the original; the
-- original's workers are forgotten, not buried: they may live, on the same server.
CREATE OR REPLACE FUNCTION df._adopt(rule text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE df._meta SET identity = df._identity(), installation = gen_random_uuid(), external = rule,
        external_up_to = CASE WHEN rule IS NOT NULL THEN (SELECT s.last_value FROM df._instance_seq s) END,
        -- The shard is the original's.
        cluster = NULL, shard = NULL, cluster_version = NULL;
    DELETE FROM df._shard;
    PERFORM df._open_or_close();
    DELETE FROM df._worker_epoch;
    UPDATE df._activity SET owner = NULL, taken_at = NULL WHERE owner IS NOT NULL;
    PERFORM setval('df._asleep', 1);
    RETURN (SELECT count(*) FROM df._ready) + (SELECT count(*) FROM df._queued) + (SELECT count(*) FROM df._work);
END $$;

REVOKE ALL ON FUNCTION df._external(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION df._adopt(text) FROM PUBLIC;
