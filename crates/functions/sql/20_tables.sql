-- The tables of version 1. Later versions add files beside this one; none is ever edited after it was released.
--
--   starter --> _ready (hot, small) --> worker --> _instance (append only: what was started)
--                                              --> _work, _activity (instances that wait or run long)
--   signal, cancel, pause, ... --> _inbox      --> _execution, _done (append only: finished generations, ends)
--
-- Submitters are kept as regrole: pg_dump writes such values as names, which are right in another cluster, too.

-- One row: what is installed.
CREATE TABLE df._meta (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    schema_version int NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT now(),
    installation uuid NOT NULL DEFAULT gen_random_uuid(),
    operators_in text NOT NULL
);

CREATE SEQUENCE df._instance_seq AS bigint MINVALUE 1 MAXVALUE 4294967295 CACHE 1;

-- Whether every worker sleeps: 2 when they do, 1 when one is awake. A sequence, because its value is seen at once by
-- everybody and by no snapshot: starters notify only when it says 2.
CREATE SEQUENCE df._asleep AS bigint MINVALUE 1 MAXVALUE 2 START 2;

-- What was started and no worker has taken yet: the one row that a start writes, with the one index that claims need. A
-- row lives for milliseconds. Submitters may write neither `seq` nor `submitted_by` nor `created_at`: these are what they
-- are said to be. `wake` asks for a look at the sleep flag when the starter commits.
CREATE TABLE df._ready (
    seq bigint NOT NULL DEFAULT nextval('df._instance_seq'),
    -- Quoted, because the cast reads an identifier, and a role may be called "Ann".
    submitted_by regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    label text,
    database text,
    -- Either a graph or a single statement, from which the worker makes one.
    graph json,
    statement text,
    vars json,
    input json,
    parent bigint,
    parent_cell text,
    wake boolean NOT NULL DEFAULT true,
    PRIMARY KEY (submitted_by, seq)
);

-- What was started: moved here from `_ready` by the worker that takes it first, and never changed.
CREATE TABLE df._instance (
    seq bigint NOT NULL,
    submitted_by regrole NOT NULL,
    created_at timestamptz NOT NULL,
    label text,
    database text,
    graph json NOT NULL,
    vars json,
    input json,
    parent bigint,
    parent_cell text,
    -- A column of its own, because row security lets a condition use an index only where it cannot leak: a comparison of
    -- a column can, one of df._id(seq) cannot.
    id text NOT NULL,
    PRIMARY KEY (seq)
) PARTITION BY RANGE (seq);
CREATE INDEX _instance_id_idx ON df._instance (id);
-- Lists are read submitter by submitter: one who has few instances does not wade through the others'.
CREATE INDEX _instance_submitted_by_created_at_idx ON df._instance (submitted_by, created_at);
CREATE INDEX _instance_submitted_by_label_created_at_idx
    ON df._instance (submitted_by, label, created_at) WHERE label IS NOT NULL;

-- How it ended: written once by the worker, never changed. `output` is the result's JSON, or the failure's text as a
-- JSON string.
CREATE TABLE df._done (
    seq bigint NOT NULL,
    submitted_by regrole NOT NULL,
    status "char" NOT NULL CHECK (status IN ('c', 'f', 'x')),
    execution bigint NOT NULL DEFAULT 1,
    started_at timestamptz NOT NULL,
    completed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    output json,
    state json,
    PRIMARY KEY (seq)
) PARTITION BY RANGE (seq);
CREATE INDEX _done_seq_idx ON df._done (seq) WHERE status <> 'c';
-- For retention. Rows come in the order of this column, nearly.
CREATE INDEX _done_completed_at_idx ON df._done USING brin (completed_at) WITH (autosummarize = on);

-- Finished generations of an instance's root loop.
CREATE TABLE df._execution (
    seq bigint NOT NULL,
    execution bigint NOT NULL,
    submitted_by regrole NOT NULL,
    status "char" NOT NULL CHECK (status IN ('c', 'f', 'n', 'x')),
    started_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    event_count bigint NOT NULL,
    output json,
    PRIMARY KEY (seq, execution)
) PARTITION BY RANGE (seq);

-- Instances that are between their first and their last turn.
CREATE TABLE df._work (
    seq bigint PRIMARY KEY,
    submitted_by regrole NOT NULL,
    started_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- When the next timer is due or, at once, when a turn stopped before its end. NULL: only an event can wake it.
    due_at timestamptz,
    paused boolean NOT NULL DEFAULT false,
    execution bigint NOT NULL DEFAULT 1,
    state json NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX ON df._work (due_at) WHERE due_at IS NOT NULL AND NOT paused;

-- Events for instances: signals, cancel, pause, resume, and children that finished.
CREATE TABLE df._inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq bigint NOT NULL,
    submitted_by regrole NOT NULL,
    kind text NOT NULL CHECK (kind IN ('signal', 'cancel', 'pause', 'resume', 'child', 'activity')),
    name text,
    data json,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON df._inbox (seq);

-- Steps that run outside of a turn: slow SQL, HTTP, SQL in another database, statements that refuse transactions.
CREATE TABLE df._activity (
    seq bigint NOT NULL,
    cell text NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    attempt int NOT NULL DEFAULT 0,
    submitted_by regrole NOT NULL,
    kind text NOT NULL CHECK (kind IN ('sql', 'bare', 'http')),
    payload json NOT NULL,
    queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The worker that runs it; NULL: nobody yet.
    owner uuid,
    taken_at timestamptz,
    PRIMARY KEY (seq, cell)
);
CREATE INDEX ON df._activity (seq) WHERE owner IS NULL;
CREATE INDEX ON df._activity (owner) WHERE owner IS NOT NULL;

-- Idempotency keys of starts.
CREATE TABLE df._key (
    submitted_by regrole NOT NULL,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    seq bigint NOT NULL,
    PRIMARY KEY (submitted_by, key)
);
CREATE INDEX ON df._key (seq);

CREATE TABLE df.vars (
    name text NOT NULL,
    value text NOT NULL,
    owner regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    PRIMARY KEY (owner, name)
);

-- One row a living worker. A worker whose `last_seen_at` is too old is dead: its activities are given away, and what
-- it still tries to complete is refused.
CREATE TABLE df._worker_epoch (
    epoch_id uuid PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    host text
);

-- A row belongs to the role that submitted it. The tables' owner, which the worker is, sees all.
ALTER TABLE df._instance ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._done ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._execution ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._ready ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._work ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._activity ENABLE ROW LEVEL SECURITY;
ALTER TABLE df._key ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.vars ENABLE ROW LEVEL SECURITY;
CREATE POLICY submitter ON df._instance FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._done FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._execution FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._ready USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._work FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._inbox USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._activity FOR SELECT USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY submitter ON df._key USING (pg_get_userbyid(submitted_by) = current_user);
CREATE POLICY owner ON df.vars USING (pg_get_userbyid(owner) = current_user);

-- Has a value as soon as anybody sets a variable: until then starts need not look for any.
CREATE SEQUENCE df._vars_used;

-- Requests that a submitter's function hands to one that runs as the schema's owner. Such a function cannot tell who
-- called it. So the caller writes down what it wants, row security lets it sign with its own name only, and the function
-- takes the row and acts for whom it names. A row never outlives the statement that made it.
CREATE TABLE df._request (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    submitted_by regrole NOT NULL,
    action text NOT NULL CHECK (action IN ('start', 'delete')),
    arguments jsonb NOT NULL
);
ALTER TABLE df._request ENABLE ROW LEVEL SECURITY;
CREATE POLICY submitter ON df._request USING (pg_get_userbyid(submitted_by) = current_user);
