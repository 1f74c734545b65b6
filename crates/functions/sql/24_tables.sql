-- The tables of version 5, from those of version 4: what came through a queue is found by it.

CREATE INDEX _instance_queue_created_at_idx ON df._instance (queue, created_at) WHERE queue IS NOT NULL;

-- There is one for all hot tables now.
DROP FUNCTION IF EXISTS df._rotate_ready();
