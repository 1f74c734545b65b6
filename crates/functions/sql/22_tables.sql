-- The tables of version 3, from those of version 2.
--
--   _activity   waits by role, so that workers give each role its share.
--   _work       says how large each state is, so that a worker takes only as many as it has memory for.
--   _inbox      takes messages for one's own instances only, and so many.
--   _channel    where the ends of a role's instances are told: everybody may listen to every channel whose name he knows.
--   vars        nobody but its owner may lock it: a right to UPDATE or DELETE the whole of a table is one to lock it.

DROP INDEX df._activity_seq_idx;
CREATE INDEX _activity_submitted_by_seq_idx ON df._activity (submitted_by, seq) WHERE owner IS NULL;
-- Workers of version 2 took the oldest, whosever it was: they can do that no more.
DROP FUNCTION IF EXISTS df._take(uuid, int);
DROP FUNCTION IF EXISTS df._expire(timestamptz);

ALTER TABLE df._work ADD COLUMN bytes int NOT NULL DEFAULT 0;
UPDATE df._work SET bytes = octet_length(state::text);
DROP FUNCTION IF EXISTS df._claim(oid, bigint, int);

-- Filled in by 43_control.sql.
CREATE FUNCTION df._may_send(of bigint, what text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
DROP POLICY submitter ON df._inbox;
CREATE POLICY reader ON df._inbox FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY sender ON df._inbox FOR INSERT
    WITH CHECK (pg_get_userbyid(submitted_by) = current_user AND df._may_send(seq, kind));

CREATE TABLE df._channel (
    submitted_by regrole PRIMARY KEY DEFAULT quote_ident(current_user)::regrole,
    name text NOT NULL DEFAULT 'df_done_' || replace(gen_random_uuid()::text, '-', '')
);
ALTER TABLE df._channel ENABLE ROW LEVEL SECURITY;
CREATE POLICY submitter ON df._channel USING (pg_get_userbyid(submitted_by) = current_user);
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
        EXECUTE format('GRANT SELECT, INSERT (submitted_by) ON df._channel TO %I%s', granted.rolname,
            CASE WHEN granted.with_grant THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;

ALTER TABLE df._request DROP CONSTRAINT _request_action_check;
ALTER TABLE df._request ADD CONSTRAINT _request_action_check CHECK (action IN ('start', 'delete', 'unset'));

DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT r.rolname, bool_or(a.is_grantable) AS with_grant
        FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE c.oid = 'df.vars'::regclass AND a.privilege_type IN ('UPDATE', 'DELETE') AND a.grantee <> c.relowner
        GROUP BY r.rolname
    LOOP
        EXECUTE format('REVOKE UPDATE, DELETE ON df.vars FROM %I CASCADE', granted.rolname);
        EXECUTE format('GRANT UPDATE (value) ON df.vars TO %I%s', granted.rolname,
            CASE WHEN granted.with_grant THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;
