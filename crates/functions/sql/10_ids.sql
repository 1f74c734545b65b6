-- Instances are numbered by a sequence, and shown under eight hexadecimal digits. A bijection leads from one to the
-- other, so that an id never clashes with another and every row of an instance is found by its number, which grows:
-- new rows go to the right edge of their index, and partitions are ranges.
--
-- Multiplication by an odd number is a bijection of 32 bits. The factor and its inverse are below 2^31, so that no product
-- leaves a bigint. Few operators, because a start pays for each.

-- The id of the instance with this number.
CREATE OR REPLACE FUNCTION df._id(seq bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT lpad(to_hex((1232296477 * seq) & 4294967295), 8, '0')
$$;

-- The number of the instance with this id; NULL when it is not an id. Not STRICT: with a CASE that would keep the planner
-- from putting the expression in the place of the call.
CREATE OR REPLACE FUNCTION df._seq(id text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN id ~ '^[0-9a-f]{8}$' THEN (1887975477 * ('x' || id)::bit(32)::bigint) & 4294967295 END
$$;

-- The id of one node of an instance. Different nodes of an instance have different ids.
CREATE OR REPLACE FUNCTION df._node_id(seq bigint, index int) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT df._id((seq * 692426649 + index) & 4294967295)
$$;
