-- The tables of version 5, from those of version 4: what came through a queue is found by it.

CREATE INDEX _instance_queue_created_at_idx ON df._instance (queue, created_at) WHERE queue IS NOT NULL;

-- There is one for all hot tables now.
DROP FUNCTION IF EXISTS df._rotate_ready();

-- What was started for a queue comes into `_ready` as everything else does. The worker that takes it decides whether it may
-- begin at once or has to wait in `_queued`.
ALTER TABLE df._ready ADD COLUMN queue bigint;
ALTER TABLE df._ready ADD COLUMN priority int;
ALTER TABLE df._ready ADD COLUMN partition text;
CREATE INDEX _ready_queue_idx ON df._ready (submitted_by, seq) WHERE queue IS NOT NULL;
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
        EXECUTE format('GRANT INSERT (queue, priority, partition) ON df._ready TO %I%s', granted.rolname,
            CASE WHEN granted.with_grant THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;

-- What a turn writes into `_done` and `_work`.
CREATE TYPE df._ended AS (seq bigint, status text, execution bigint, started_at timestamptz, output text, state text);
CREATE TYPE df._going AS (seq bigint, started_at timestamptz, due_at timestamptz, paused boolean, execution bigint, state text);

-- Workers say from now on for which version they are, so that one that is older is told, and nothing else happens.
DROP FUNCTION IF EXISTS df._claim(oid, bigint, int, bigint);
DROP FUNCTION IF EXISTS df._end_activity(uuid, bigint, text, bigint, int);
DROP FUNCTION IF EXISTS df._take(uuid, int, int, int, oid[], int[]);
DROP FUNCTION IF EXISTS df._finish(oid, bigint[], text[], bigint[], timestamptz[], text[], text[], bigint[],
    timestamptz[], timestamptz[], boolean[], bigint[], text[], bigint[], json);
