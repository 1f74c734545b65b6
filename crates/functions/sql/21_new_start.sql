-- Requests that a submitter's function hands to one that runs as the schema's owner, and what listing and starting
-- need beside the tables of 20.

-- An instance's id as a column of its own. Row security lets a condition use an index only where it cannot leak: a
-- comparison of a column can, one of df._id(seq) cannot. A default, because a generated column doubles the cost of an
-- insert; submitters may write neither `seq` nor `id`, so the two always agree.
CREATE OR REPLACE FUNCTION df._new_id() RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    number bigint := currval('df._instance_seq');
BEGIN
    RETURN df._id(number);
END $$;
ALTER TABLE df._instance ADD COLUMN IF NOT EXISTS id text NOT NULL DEFAULT df._new_id();
DROP INDEX IF EXISTS df._instance__id_idx;
CREATE INDEX IF NOT EXISTS _instance_id_idx ON df._instance (id);

-- Lists are read submitter by submitter: one who has few instances does not wade through the others'.
DROP INDEX IF EXISTS df._instance_created_at_idx;
DROP INDEX IF EXISTS df._instance_label_created_at_idx;
CREATE INDEX IF NOT EXISTS _instance_submitted_by_created_at_idx ON df._instance (submitted_by, created_at);
CREATE INDEX IF NOT EXISTS _instance_submitted_by_label_created_at_idx
    ON df._instance (submitted_by, label, created_at) WHERE label IS NOT NULL;

-- Has a value as soon as anybody sets a variable: until then starts need not look for any.
CREATE SEQUENCE df._vars_used;

-- A function that runs as the owner cannot tell who called it. So the caller writes down what it wants, row security
-- lets it sign with its own name only, and the function takes the row and acts for whom it names. A row never outlives
-- the statement that made it.
CREATE TABLE df._request (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    submitted_by oid NOT NULL,
    action text NOT NULL CHECK (action IN ('start', 'delete')),
    arguments jsonb NOT NULL
);
ALTER TABLE df._request ENABLE ROW LEVEL SECURITY;
CREATE POLICY submitter ON df._request USING (pg_get_userbyid(submitted_by) = current_user);
