-- The tables of version 6, from those of version 5: a database may be one shard of several.

-- Which cluster this database belongs to, as which shard, and the version of the list in `_shard`. All or none.
ALTER TABLE df._meta ADD COLUMN cluster uuid;
ALTER TABLE df._meta ADD COLUMN shard int CHECK (shard BETWEEN 0 AND 1023);
ALTER TABLE df._meta ADD COLUMN cluster_version bigint CHECK (cluster_version >= 0);
ALTER TABLE df._meta ADD CONSTRAINT _meta_cluster_check CHECK (num_nonnulls(cluster, shard, cluster_version) IN (0, 3));

-- The shards of the cluster, the same in each of them. `place` leads there for every role: hosts, ports and a database, and no
-- password. The number of a shard that was removed is not given again: ids have it.
CREATE TABLE df._shard (
    shard int PRIMARY KEY CHECK (shard BETWEEN 0 AND 1023),
    place text NOT NULL CHECK (length(place) BETWEEN 1 AND 4000),
    state text NOT NULL CHECK (state IN ('open', 'draining', 'removed')),
    -- Whether starts with an idempotency key are placed here: decided once, when the shard is entered.
    keyed boolean NOT NULL
);
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT r.rolname, bool_or(a.is_grantable) AS with_grant
        FROM pg_catalog.pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE n.nspname = 'df' AND a.privilege_type = 'USAGE' AND a.grantee <> n.nspowner
        GROUP BY r.rolname
    LOOP
        EXECUTE format('GRANT SELECT ON df._shard TO %I%s', granted.rolname,
            CASE WHEN granted.with_grant THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;
