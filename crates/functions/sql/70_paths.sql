-- A search path for every function that has none, so that nobody who may create objects in some schema decides what a name
-- in its body means. Without one are the executors' neighbours that the catalog has bound already (bodies written as
-- expressions), and those that would pay too much for it, or need the caller's, and name everything in full.
DO $$
DECLARE
    signature text;
BEGIN
    FOR signature IN
        SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
        WHERE p.pronamespace IN ('df'::regnamespace, 'df_run'::regnamespace) AND p.prosqlbody IS NULL
          AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c LIKE 'search\_path=%')
          AND NOT (p.pronamespace = 'df_run'::regnamespace AND p.proname ~ '^r[0-9]+$')
          AND p.oid::regprocedure::text <> ALL (ARRAY['df.start(text,text,text,text,jsonb,text,text,integer,text,text,interval,interval)', 'df._wake()',
              'df.explain(text)', 'df.result(text)', 'df.status(text)', 'df._known(bigint)',
              'df._is_cancelled(bigint)', 'df._is_listed_as_cancelled(bigint)'])
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', signature);
    END LOOP;
END $$;
