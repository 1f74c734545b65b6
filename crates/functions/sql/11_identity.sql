-- Which copy of a database this is. A branch, a clone or a restored dump holds the rows of running instances, and would do
-- again what they do outside of it. So the schema keeps the identity under which its instances were begun.

-- A digest of what tells copies apart: the cluster, the database in it, and for a physical copy, whose cluster is the
-- same, `duramen.identity` of the server's command line.
CREATE OR REPLACE FUNCTION df._identity() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- What a database or a role has set would hide the server's own value.
    IF EXISTS (SELECT FROM pg_db_role_setting s, unnest(s.setconfig) AS c
               WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
                 AND s.setrole IN (0, (SELECT r.oid FROM pg_roles r WHERE r.rolname = session_user),
                     (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user))
                 AND lower(split_part(c, '=', 1)) = 'duramen.identity') THEN
        RAISE EXCEPTION 'duramen.identity is set for a database or a role, and only the server''s command line may set it'
            USING ERRCODE = 'invalid_parameter_value',
            HINT = 'ALTER DATABASE ... RESET duramen.identity, and ALTER ROLE ... RESET duramen.identity.';
    END IF;
    RETURN encode(sha256(convert_to(
        (SELECT c.system_identifier FROM pg_control_system() c) || '/'
            || (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) || '/'
            || coalesce(current_setting('duramen.identity', true), ''), 'UTF8')), 'hex');
END $$;
