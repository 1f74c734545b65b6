-- Telling the workers that there is something to do, at the moment of commit, and only when they sleep: a
-- notification makes commits wait for one another.

CREATE OR REPLACE FUNCTION df._wake() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT last_value FROM df._asleep) = 2 THEN
        NOTIFY df_wake;
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS wake ON df._ready;
CREATE CONSTRAINT TRIGGER wake AFTER INSERT ON df._ready
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.wake) EXECUTE FUNCTION df._wake();
DROP TRIGGER IF EXISTS wake ON df._inbox;
CREATE CONSTRAINT TRIGGER wake AFTER INSERT ON df._inbox
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION df._wake();
