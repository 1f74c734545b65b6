-- Instances are numbered by a sequence, and shown under eight hexadecimal digits. A bijection leads from one to the
-- other, so that an id never clashes with another and every row of an instance is found by its number, which grows:
-- new rows go to the right edge of their index, and partitions are ranges.
--
-- Multiplication by an odd number and `x ^ (x >> 16)` are both bijections of 32 bits. The factors and their inverses
-- are below 2^31, so that no product leaves a bigint.

CREATE OR REPLACE FUNCTION df._mix(number bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (860817051 * (((1232296477 * number) & 4294967295) # (((1232296477 * number) & 4294967295) >> 16)))
           & 4294967295
$$;

CREATE OR REPLACE FUNCTION df._unmix(mixed bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (1887975477 * (((744910739 * mixed) & 4294967295) # (((744910739 * mixed) & 4294967295) >> 16)))
           & 4294967295
$$;

-- The id of the instance with this number.
CREATE OR REPLACE FUNCTION df._id(seq bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT lpad(to_hex((860817051 * (((1232296477 * seq) & 4294967295) # (((1232296477 * seq) & 4294967295) >> 16)))
           & 4294967295), 8, '0')
$$;

-- The number of the instance with this id; NULL when it is not an id. Not STRICT: with a CASE that would keep the planner
-- from putting the expression in the place of the call.
CREATE OR REPLACE FUNCTION df._seq(id text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN id ~ '^[0-9a-f]{8}$' THEN df._unmix(('x' || id)::bit(32)::bigint) END
$$;

-- The id of one node of an instance. Different nodes of an instance have different ids.
CREATE OR REPLACE FUNCTION df._node_id(seq bigint, index int) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT df._id((seq * 692426649 + index) & 4294967295)
$$;

-- The id of the instance that is being inserted.
CREATE OR REPLACE FUNCTION df._new_id() RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    number bigint := currval('df._instance_seq');
BEGIN
    RETURN df._id(number);
END $$;
