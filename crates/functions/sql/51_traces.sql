-- The trace that a start belongs to: a traceparent of W3C Trace Context. An instance keeps it as a variable that is named
-- df.traceparent, which its children inherit.

-- A traceparent in version 00, which every reader knows; NULL: that is none. A later version may say more behind its flags.
CREATE OR REPLACE FUNCTION df._traceparent(given text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN octet_length(given) <= 512
        AND given ~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}($|-)'
        AND (given !~ '^00' OR octet_length(given) = 55)
    THEN '00-' || substr(given, 4, 52) END
$$;

-- What is started from here to the end of the transaction belongs to this trace; NULL: to none. False: that is no
-- traceparent, and counts as none, because a header that somebody has sent is no reason to refuse what he wants.
CREATE OR REPLACE FUNCTION df.set_traceparent(traceparent text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    valid CONSTANT text := df._traceparent(traceparent);
BEGIN
    PERFORM set_config('df.traceparent', coalesce(valid, ''), true);
    IF valid IS NOT NULL THEN
        -- df.start does not look at the trace where it is fastest, and does not go there without this.
        PERFORM set_config('df.may_start', '', true);
    END IF;
    RETURN valid IS NOT NULL;
END $$;

-- The variables of what this role starts now, where there is a trace. Anybody can write a setting: it is looked at again.
CREATE OR REPLACE FUNCTION df._traced_variables(me oid) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_object_agg(v.name, v.value)
    FROM (SELECT w.name, w.value FROM df.vars w WHERE w.owner = me AND w.name <> 'df.traceparent'
          UNION ALL
          SELECT 'df.traceparent', t.valid FROM df._traceparent(current_setting('df.traceparent', true)) AS t(valid)
          WHERE t.valid IS NOT NULL) v
$$;
