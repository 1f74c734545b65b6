-- Requests that a submitter's function hands to one that runs as the schema's owner.

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
