-- Instances are numbered by a sequence, and shown under eight hexadecimal digits, or sixteen from the number 2^32 on. A
-- bijection leads from one to the other, so that an id never clashes with another and every row of an instance is found
-- by its number, which grows: new rows go to the right edge of their index, and partitions are ranges.
--
-- Multiplication by an odd number is a bijection of 32 bits. The factor and its inverse are below 2^31, so that no product
-- leaves a bigint. The bits above stand in front as they are. Few operators, because a start pays for each.
--
-- The bodies that are written as expressions are bound to what their names mean here and now: no search path leads them
-- elsewhere, and the planner still puts them in the place of the call.

-- The id of an instance whose number is below 2^32.
CREATE OR REPLACE FUNCTION df._short_id(seq bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN lpad(to_hex((1232296477 * seq) & 4294967295), 8, '0');

-- The id of the instance with this number. Not STRICT: with a CASE that would keep the planner from putting the expression
-- in the place of the call.
CREATE OR REPLACE FUNCTION df._id(seq bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN seq <= 4294967295 THEN df._short_id(seq)
    ELSE lpad(to_hex(seq >> 32), 8, '0') || df._short_id(seq & 4294967295) END;

-- The number of the instance with this id; NULL when it is not an id. Not STRICT, as above.
CREATE OR REPLACE FUNCTION df._seq(id text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN id ~ '^[0-9a-f]{8}$' THEN (1887975477 * ('x' || id)::bit(32)::bigint) & 4294967295
    -- The number of partitions, and with it the sequence, ends before the sign.
    WHEN id ~ '^[0-3][0-9a-f]{15}$' AND id !~ '^00000000' THEN (('x' || left(id, 8))::bit(32)::bigint << 32)
        + ((1887975477 * ('x' || right(id, 8))::bit(32)::bigint) & 4294967295)
END;

-- The id of one node of an instance. Different nodes of an instance have different ids.
CREATE OR REPLACE FUNCTION df._node_id(seq bigint, index int) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN df._short_id(((seq & 4294967295) * 692426649 + index) & 4294967295);
