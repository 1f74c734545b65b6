-- Telling the workers that there is something to do, at the moment of commit, and only when they sleep: a
-- notification makes commits wait for one another.

CREATE OR REPLACE FUNCTION df._wake() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- An expression costs less than a query; there is no value until a worker has been there, and a worker that comes looks
    -- at everything. It has no search path of its own, which would cost more than all of it, and names everything in full.
    IF pg_catalog.pg_sequence_last_value('df._asleep'::pg_catalog.regclass) OPERATOR(pg_catalog.=) 2 THEN
        NOTIFY df_wake;
    END IF;
    RETURN NULL;
END $$;

-- Only where they are not there: to make one takes a lock that starts would wait behind.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'df._ready'::regclass AND t.tgname = 'wake'
                   AND t.tgfoid = 'df._wake()'::regprocedure AND t.tgenabled = 'O') THEN
        DROP TRIGGER IF EXISTS wake ON df._ready;
        CREATE CONSTRAINT TRIGGER wake AFTER INSERT ON df._ready
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.wake) EXECUTE FUNCTION df._wake();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'df._queued'::regclass AND t.tgname = 'wake'
                   AND t.tgfoid = 'df._wake()'::regprocedure AND t.tgenabled = 'O') THEN
        DROP TRIGGER IF EXISTS wake ON df._queued;
        CREATE CONSTRAINT TRIGGER wake AFTER INSERT ON df._queued
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.wake) EXECUTE FUNCTION df._wake();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'df._inbox'::regclass AND t.tgname = 'wake'
                   AND t.tgfoid = 'df._wake()'::regprocedure AND t.tgenabled = 'O') THEN
        DROP TRIGGER IF EXISTS wake ON df._inbox;
        CREATE CONSTRAINT TRIGGER wake AFTER INSERT ON df._inbox
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION df._wake();
    END IF;
END $$;
