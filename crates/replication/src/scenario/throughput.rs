//! Commits that get slower because the standby has more to replay, with a single process, than a commit brings.

use super::{Action, Expect, Kind, Probe, Scenario};

const APPLY_ADVICE: &str = "\
The replay is one process. Fewer indexes and smaller transactions leave it less to do; recovery_prefetch (since 15) and \
shared_buffers as large as on the primary keep it from waiting for reads. Commit at remote_apply only where a read of the \
standby must see the commit (SET LOCAL synchronous_commit), and at remote_write or on elsewhere.";

/// Scattered rows: `{step}` sets of `{batch}` rows each, so that two sessions meet at the same rows once in `{step}`
/// times and lock waits stay rare.
pub(super) const INDEX_HEAVY: Scenario = Scenario {
    number: 1,
    name: "updates of a table with many indexes",
    text: "Each commit updates 100 scattered rows (25 in a quick run) of a table with sixteen indexes, each with a new entry: \
           little work for each of the sessions that make them in parallel, much for the one process that replays them.",
    kind: Kind::Latency,
    sizes: &[("batch", 100, 25), ("step", 1_000, 400)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS positions",
        "CREATE TABLE positions (id bigint NOT NULL, account bigint NOT NULL, val1 bigint NOT NULL, val2 bigint NOT NULL,
         val3 bigint NOT NULL, val4 bigint NOT NULL, val5 bigint NOT NULL, val6 bigint NOT NULL, status bigint NOT NULL,
         payload text NOT NULL) WITH (autovacuum_enabled = off, fillfactor = 50)",
        "INSERT INTO positions SELECT i, i % 10000, random() * 1000000, random() * 1000000, random() * 1000000,
         random() * 1000000, random() * 1000000, random() * 1000000, i % 5, repeat('x', 100)
         FROM generate_series(1, {batch} * {step}) i",
        "ALTER TABLE positions ADD PRIMARY KEY (id)",
        "CREATE INDEX ON positions (account)",
        "CREATE INDEX ON positions (val1)",
        "CREATE INDEX ON positions (val2)",
        "CREATE INDEX ON positions (val3)",
        "CREATE INDEX ON positions (val4)",
        "CREATE INDEX ON positions (val5)",
        "CREATE INDEX ON positions (val6)",
        "CREATE INDEX ON positions (status)",
        "CREATE INDEX ON positions (account, status, val1)",
        "CREATE INDEX ON positions (status, val4, val5)",
        "CREATE INDEX ON positions (val1, val2, val3, val4)",
        "CREATE INDEX ON positions (val5, val6, status, account)",
        "CREATE INDEX ON positions (abs(val1 - val2))",
        "CREATE INDEX ON positions ((val3 + val4 + val5))",
        "CREATE INDEX ON positions (hashtext(payload))",
        "ANALYZE positions",
    ],
    reset: &[],
    actions: &[],
    probe: Probe {
        statements: &[(
            1,
            "UPDATE positions SET val1 = random() * 1000000, val2 = random() * 1000000, val3 = random() * 1000000,
             val4 = random() * 1000000, val5 = random() * 1000000, val6 = random() * 1000000, status = (status + 1) % 5
             WHERE id IN (SELECT $1::bigint + i * {step} FROM generate_series(0, {batch} - 1) i)",
        )],
        draws: &[("1", "step")],
        clients: 8,
        rate_per_s: 20.0,
    },
    expect: &[Expect::Records("Btree", 300_000, true)],
    teardown: &["DROP TABLE IF EXISTS positions"],
    advice: APPLY_ADVICE,
    on_demand: false,
    control_of: None,
};

pub(super) const GIN: Scenario = Scenario {
    number: 3,
    name: "documents with GIN indexes",
    text: "Each commit writes documents whose text does not compress, so that it is stored out of line, and whose words, \
           tags and attributes are indexed by four GIN indexes. Their pending lists are small, so that every few commits \
           one of them merges a list into its index, and the replay has to do the same.",
    kind: Kind::Latency,
    sizes: &[("rows", 2_000, 300), ("words", 100, 100), ("batch", 3, 3)],
    extensions: &["pg_trgm"],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS tickets",
        "CREATE TABLE tickets (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, project bigint NOT NULL,
         title text NOT NULL, body text NOT NULL, metadata jsonb NOT NULL, tags text[] NOT NULL,
         words tsvector NOT NULL) WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off)",
        "ALTER TABLE tickets ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO tickets (project, title, body, metadata, tags, words)
         SELECT i % 50, left(body, 60), body, jsonb_build_object('author', i % 100, 'key', left(body, 8)),
         ARRAY['t' || i % 20, 'u' || i % 30], to_tsvector('simple', body)
         FROM generate_series(1, {rows}) i, LATERAL (SELECT string_agg(md5(i || '/' || j), ' ') AS body
         FROM generate_series(1, {words}) j) text",
        "CREATE INDEX ON tickets USING gin (words) WITH (fastupdate = on, gin_pending_list_limit = 64)",
        "CREATE INDEX ON tickets USING gin (tags) WITH (fastupdate = on, gin_pending_list_limit = 64)",
        "CREATE INDEX ON tickets USING gin (metadata jsonb_path_ops)
         WITH (fastupdate = on, gin_pending_list_limit = 64)",
        "CREATE INDEX ON tickets USING gin (title gin_trgm_ops) WITH (fastupdate = on, gin_pending_list_limit = 64)",
        "CREATE INDEX ON tickets (project)",
        "ANALYZE tickets",
    ],
    reset: &[],
    actions: &[],
    probe: Probe {
        statements: &[
            (
                7,
                "INSERT INTO tickets (project, title, body, metadata, tags, words)
                 SELECT i % 50, left(body, 60), body, jsonb_build_object('author', i % 100, 'key', left(body, 8)),
                 ARRAY['t' || i % 20, 'u' || i % 30], to_tsvector('simple', body)
                 FROM generate_series($1::bigint, $1::bigint + {batch} - 1) i,
                 LATERAL (SELECT string_agg(md5(i || '/' || j), ' ') AS body FROM generate_series(1, {words}) j) text",
            ),
            (
                3,
                "UPDATE tickets SET body = text.body, words = to_tsvector('simple', text.body),
                 metadata = metadata || jsonb_build_object('key', left(text.body, 8))
                 FROM (SELECT string_agg(md5($1::bigint || '/' || j), ' ') AS body
                 FROM generate_series(1, {words}) j) text WHERE id = $2::bigint",
            ),
        ],
        draws: &[("1", "1000000000"), ("1", "rows")],
        clients: 8,
        rate_per_s: 20.0,
    },
    expect: &[Expect::Records("Gin", 50_000, true)],
    teardown: &["DROP TABLE IF EXISTS tickets"],
    advice: "\
Every word of a document is an entry that the replay must make too. Larger pending lists make the merges rarer and each of \
them longer; fastupdate = off spreads the work over all commits. Index expressions that yield fewer entries, and commit at \
remote_apply only where a read of the standby must see the commit (SET LOCAL synchronous_commit).",
    on_demand: false,
    control_of: None,
};

pub(super) const BULK_INSERT: Scenario = Scenario {
    number: 5,
    name: "commits beside a bulk insert",
    text: "One session loads a table with five indexes, asynchronously as far as it is concerned. The small commits beside \
           it bring next to nothing, but their records stand in the same WAL behind those of the load: at remote_apply \
           each of them waits until all of that is replayed, too.",
    kind: Kind::Latency,
    sizes: &[("bulk", 40_000, 20_000)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS logs, payments",
        "CREATE TABLE logs (id bigint PRIMARY KEY, logged timestamptz NOT NULL, level text NOT NULL,
         service text NOT NULL, message text NOT NULL, trace text NOT NULL) WITH (autovacuum_enabled = off)",
        "CREATE INDEX ON logs (logged)",
        "CREATE INDEX ON logs (service, logged)",
        "CREATE INDEX ON logs (level, logged)",
        "CREATE INDEX ON logs (trace)",
        PAYMENTS,
    ],
    reset: &["TRUNCATE logs, payments RESTART IDENTITY"],
    actions: &[
        Action::Run(&["TRUNCATE logs"]),
        Action::AwaitReplay,
        Action::Start(&["INSERT INTO logs SELECT i, now() + i * interval '1 ms', 'level' || i % 4, 'service' || i % 40,
            repeat(md5(i::text), 4), md5(i::text) FROM generate_series(1, {bulk}) i"]),
    ],
    probe: PAY,
    expect: &[Expect::BlockRecords("Btree", 3_000, 1)],
    teardown: &["DROP TABLE IF EXISTS logs, payments"],
    advice: "\
Load at synchronous_commit = local or off, in small transactions with pauses, and commit what is urgent below remote_apply \
meanwhile (SET LOCAL synchronous_commit). Indexes that are made after the load cost the replay less than entries one by one.",
    on_demand: false,
    control_of: None,
};

pub(super) const FULL_PAGE_IMAGES: Scenario = Scenario {
    number: 6,
    name: "full-page images after a checkpoint",
    text: "The first change of a page after a checkpoint writes the whole page to the WAL. Small updates all over a wide \
           table are then not small: many times as much WAL has to be sent, flushed and replayed for each commit.",
    kind: Kind::Latency,
    sizes: &[("rows", 100_000, 15_000)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS profiles",
        "CREATE TABLE profiles (id bigint PRIMARY KEY, counter bigint NOT NULL, padding1 text NOT NULL,
         padding2 text NOT NULL) WITH (autovacuum_enabled = off, fillfactor = 50)",
        "INSERT INTO profiles SELECT i, i, repeat(md5(i::text), 6), repeat(md5(i::text), 6)
         FROM generate_series(1, {rows}) i",
        "CREATE INDEX ON profiles (counter)",
        "ANALYZE profiles",
    ],
    reset: &[],
    actions: &[Action::Checkpoint],
    probe: Probe {
        statements: &[(1, "UPDATE profiles SET counter = counter + 1000000 WHERE id = $1::bigint")],
        draws: &[("1", "rows")],
        clients: 8,
        rate_per_s: 100.0,
    },
    expect: &[Expect::BlockImages(100, true)],
    teardown: &["DROP TABLE IF EXISTS profiles"],
    advice: "\
Rarer checkpoints (checkpoint_timeout, max_wal_size) and wal_compression make less of it, at the price of a longer recovery. \
full_page_writes must stay on unless the storage cannot tear pages.",
    on_demand: false,
    control_of: None,
};

pub(super) const SATURATION: Scenario = Scenario {
    number: 14,
    name: "saturation of the replay",
    text: "Each commit updates 50 scattered rows of a table with eleven indexes, from ever more sessions. More sessions make \
           more WAL; the replay stays one process. From the point on where it is busy all the time, throughput at \
           remote_apply stays where it is and every further session only adds to the time that commits take.",
    kind: Kind::Saturation,
    sizes: &[("batch", 50, 50), ("step", 3_000, 300)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS sensors",
        "CREATE TABLE sensors (id bigint NOT NULL, val1 bigint NOT NULL, val2 bigint NOT NULL, val3 bigint NOT NULL,
         val4 bigint NOT NULL, val5 bigint NOT NULL, status bigint NOT NULL, filler text NOT NULL)
         WITH (autovacuum_enabled = off, fillfactor = 50)",
        "INSERT INTO sensors SELECT i, random() * 1000000, random() * 1000000, random() * 1000000, random() * 1000000,
         random() * 1000000, i % 5, repeat('x', 200) FROM generate_series(1, {batch} * {step}) i",
        "ALTER TABLE sensors ADD PRIMARY KEY (id)",
        "CREATE INDEX ON sensors (val1)",
        "CREATE INDEX ON sensors (val2)",
        "CREATE INDEX ON sensors (val3)",
        "CREATE INDEX ON sensors (val4)",
        "CREATE INDEX ON sensors (val5)",
        "CREATE INDEX ON sensors (status)",
        "CREATE INDEX ON sensors (val1, val2)",
        "CREATE INDEX ON sensors (val3, val4)",
        "CREATE INDEX ON sensors (val5, status)",
        "CREATE INDEX ON sensors (md5(filler))",
        "ANALYZE sensors",
    ],
    reset: &[],
    actions: &[],
    probe: Probe {
        statements: &[(
            1,
            "UPDATE sensors SET val1 = random() * 1000000, val2 = random() * 1000000, val3 = random() * 1000000,
             val4 = random() * 1000000, val5 = random() * 1000000, status = (status + 1) % 5
             WHERE id IN (SELECT $1::bigint + i * {step} FROM generate_series(0, {batch} - 1) i)",
        )],
        draws: &[("1", "step")],
        clients: 8,
        rate_per_s: 20.0,
    },
    expect: &[Expect::Records("Btree", 300_000, true)],
    teardown: &["DROP TABLE IF EXISTS sensors"],
    advice: APPLY_ADVICE,
    on_demand: false,
    control_of: None,
};

pub(super) const FREEZE: Scenario = Scenario {
    number: 15,
    name: "commits beside VACUUM FREEZE",
    text: "An aged table is frozen while small commits go on. Freezing changes every page, and after a checkpoint every \
           page that is changed is written to the WAL as a whole: the commits beside it wait behind all of that.",
    kind: Kind::Latency,
    sizes: &[("rows", 28_000, 13_000)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS archive, payments",
        "CREATE TABLE archive (id bigint NOT NULL, filler text NOT NULL) WITH (autovacuum_enabled = off)",
        PAYMENTS,
    ],
    reset: &["TRUNCATE payments RESTART IDENTITY"],
    actions: &[
        Action::Run(&[
            "TRUNCATE archive",
            "INSERT INTO archive SELECT i, repeat('x', 900) FROM generate_series(1, {rows}) i",
        ]),
        Action::Checkpoint,
        Action::AwaitReplay,
        // Throttled to some 2,000 pages a second, so that it lasts about as long as a block of load.
        Action::Start(&[
            "SET vacuum_cost_delay = '2 ms'",
            "SET vacuum_cost_limit = 100",
            "VACUUM (FREEZE, TRUNCATE false) archive",
        ]),
    ],
    probe: PAY,
    expect: &[Expect::BlockRecords("Heap2", 200, 0), Expect::BlockImages(100, false)],
    teardown: &["DROP TABLE IF EXISTS archive, payments"],
    advice: "\
Freeze early and often rather than all at once (autovacuum_freeze_min_age, vacuum_freeze_min_age; COPY ... FREEZE), and let \
it be throttled (vacuum_cost_delay). wal_compression makes the full-page images smaller.",
    on_demand: false,
    control_of: None,
};

/// Small inserts into a table that nothing else touches.
const PAY: Probe = Probe {
    statements: &[(1, "INSERT INTO payments (amount) VALUES ($1::bigint)")],
    draws: &[("1", "100")],
    clients: 8,
    rate_per_s: 100.0,
};
const PAYMENTS: &str =
    "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)
     WITH (autovacuum_enabled = off)";
