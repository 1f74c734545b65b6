-- The operators. In `pg_catalog` they work under every search_path, and whoever installs the schema may put them there
-- if it is a superuser. pg_dump leaves pg_catalog out, so that this runs again after a restore, and only adds what is
-- missing. PostgreSQL gives all of them the same precedence and groups them from left to right.

-- Where the operators are: 'pg_catalog', or 'df' (then search_path must name df).
CREATE OR REPLACE FUNCTION df._operators_schema() RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN count(*) FILTER (WHERE n.nspname = 'pg_catalog') = 7 THEN 'pg_catalog' ELSE 'df' END
    FROM pg_catalog.pg_operator o
    JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
    JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
    WHERE p.pronamespace = 'df'::regnamespace
$$;

DO $do$
DECLARE
    symbols CONSTANT text[] := ARRAY['~>', '|=>', '&', '|', '?>', '!>', '@>'];
    functions CONSTANT text[] := ARRAY['df.seq', 'df.as_op', 'df."join"', 'df.race', 'df.if_then_op', 'df.if_else_op',
        'df.loop_prefix_op'];
    place text := 'pg_catalog';
    occupant text;
    prefix boolean;
BEGIN
    -- Somebody else's operator of the same name cannot be replaced; ours then go beside it, all in one place.
    SELECT o.oprcode::regprocedure::text INTO occupant
    FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
    WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprname = ANY (symbols) AND o.oprright = 'text'::regtype
        AND o.oprleft = CASE WHEN o.oprname = '@>' THEN 0::oid ELSE 'text'::regtype::oid END
        AND p.pronamespace <> 'df'::regnamespace
    LIMIT 1;
    IF occupant IS NOT NULL THEN
        RAISE WARNING 'pg_catalog has operators of another package with the names of ours (one calls %)', occupant
            USING HINT = 'Ours are in schema df, and pg_catalog''s are found first, unless search_path says otherwise.';
        place := 'df';
    ELSIF NOT has_schema_privilege('pg_catalog', 'CREATE') THEN
        place := 'df';
    END IF;
    FOR i IN 1 .. cardinality(symbols) LOOP
        prefix := symbols[i] = '@>';
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_catalog.pg_operator o
            JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
            WHERE o.oprname = symbols[i] AND o.oprright = 'text'::regtype
                AND o.oprleft = CASE WHEN prefix THEN 0::oid ELSE 'text'::regtype::oid END
                AND p.pronamespace = 'df'::regnamespace
                -- One that sits in df is not enough, once pg_catalog is open to us.
                AND (o.oprnamespace = 'pg_catalog'::regnamespace OR o.oprnamespace = place::regnamespace));
        EXECUTE format('CREATE OPERATOR %I.%s (FUNCTION = %s, %s RIGHTARG = text)', place, symbols[i], functions[i],
            CASE WHEN prefix THEN '' ELSE 'LEFTARG = text,' END);
    END LOOP;
    IF df._operators_schema() = 'df' THEN
        RAISE NOTICE 'the operators of durable functions are in schema df'
            USING HINT = 'Name df in search_path to use them, for example: SET search_path = "$user", public, df.';
    END IF;
END $do$;
