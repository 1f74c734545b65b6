//! Single statements that leave the standby much to replay, or that have to wait behind such.

use super::{Action, Expect, Kind, Need, Probe, Scenario};

/// A statement without parameters, on one session.
const fn once(sql: &'static [(u32, &'static str)]) -> Probe {
    Probe { statements: sql, draws: &[], clients: 1, rate_per_s: 1.0 }
}

pub(super) const AFTER_MIGRATION: Scenario = Scenario {
    number: 4,
    name: "first commit after a migration",
    text: "Several sessions have changed a whole table, asynchronously as far as they are concerned, and are done. The \
           standby is not: the first small commit at remote_apply waits until it has replayed all of it.",
    kind: Kind::Statement,
    sizes: &[("rows", 200_000, 20_000)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS events, deployments",
        "CREATE TABLE deployments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, version bigint NOT NULL)",
        "CREATE TABLE events (id bigint NOT NULL, logged timestamptz NOT NULL, person bigint NOT NULL,
         service text NOT NULL, duration_ms bigint NOT NULL, payload text NOT NULL) WITH (autovacuum_enabled = off)",
        "INSERT INTO events SELECT i, now() + i * interval '1 ms', i % 10000, 'service' || i % 40, i % 997,
         md5(i::text) || md5((-i)::text) FROM generate_series(1, {rows}) i",
        "ALTER TABLE events ADD PRIMARY KEY (id)",
        "CREATE INDEX ON events (person, logged)",
        "CREATE INDEX ON events (duration_ms)",
        "CREATE INDEX ON events (service, logged)",
        "CREATE INDEX ON events (person, duration_ms)",
        "ANALYZE events",
    ],
    reset: &[],
    actions: &[
        Action::Checkpoint,
        Action::AwaitReplay,
        Action::RunTogether {
            sessions: 8,
            sql: &["UPDATE events SET person = person + 1, duration_ms = duration_ms + 1, payload = upper(payload)
                WHERE id > {session} * {rows} / 8 AND id <= ({session} + 1) * {rows} / 8"],
        },
    ],
    probe: once(&[(1, "INSERT INTO deployments (version) VALUES (1)")]),
    expect: &[Expect::Backlog(1_000_000)],
    teardown: &["DROP TABLE IF EXISTS events, deployments"],
    advice: "\
Migrate in small steps and let the standby catch up in between (wait until its replay_lsn has reached \
pg_current_wal_lsn()), or commit below remote_apply until it has (SET LOCAL synchronous_commit).",
    on_demand: false,
    control_of: None,
};

pub(super) const LARGE_TRANSACTION: Scenario = Scenario {
    number: 10,
    name: "a large transaction",
    text: "One UPDATE changes every row of a table with five indexes. The standby replays while it runs; at its commit it \
           waits for whatever is left.",
    kind: Kind::Statement,
    sizes: &[("rows", 60_000, 15_000)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS stock",
        "CREATE TABLE stock (id bigint NOT NULL, a bigint NOT NULL, b bigint NOT NULL, note text NOT NULL,
         changed timestamptz NOT NULL) WITH (autovacuum_enabled = off, fillfactor = 80)",
        "INSERT INTO stock SELECT i, i % 50000, i % 30000, md5(i::text), now() FROM generate_series(1, {rows}) i",
        "ALTER TABLE stock ADD PRIMARY KEY (id)",
        "CREATE INDEX ON stock (a)",
        "CREATE INDEX ON stock (b)",
        "CREATE INDEX ON stock (a, b)",
        "CREATE INDEX ON stock (changed)",
        "ANALYZE stock",
    ],
    reset: &[],
    actions: &[],
    probe: once(&[(1, "UPDATE stock SET a = a + 1, b = b + 1, changed = clock_timestamp()")]),
    expect: &[Expect::Records("Btree", 40_000, false)],
    teardown: &["DROP TABLE IF EXISTS stock"],
    advice: "\
Split large transactions; the standby then replays one while the next is made, and what waits for their commits waits for \
less. A backfill that nobody reads on the standby at once can commit at local.",
    on_demand: false,
    control_of: None,
};

pub(super) const DROP_PARTITIONS: Scenario = Scenario {
    number: 11,
    name: "drop of a partitioned table",
    text: "DROP TABLE of 50 partitions with their indexes and TOAST tables. The primary leaves the removal of the files to \
           its next checkpoint; the replay removes each of them at once, before the commit is acknowledged.",
    kind: Kind::Statement,
    sizes: &[("rows", 50_000, 5_000), ("partitions", 50, 50)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS measurements",
        "CREATE TABLE measurements (id bigint PRIMARY KEY, val text NOT NULL, payload text NOT NULL)
         PARTITION BY HASH (id)",
        "DO $$ BEGIN
           FOR i IN 0 .. {partitions} - 1 LOOP
             EXECUTE format('CREATE TABLE measurements_%s PARTITION OF measurements
               FOR VALUES WITH (MODULUS %s, REMAINDER %s) WITH (autovacuum_enabled = off)', i, {partitions}, i);
           END LOOP;
         END $$",
        "INSERT INTO measurements SELECT i, md5(i::text), repeat(md5(i::text), 8) FROM generate_series(1, {rows}) i",
    ],
    reset: &[],
    actions: &[],
    probe: once(&[(1, "DROP TABLE measurements")]),
    expect: &[Expect::FilesRemoved(200)],
    teardown: &["DROP TABLE IF EXISTS measurements"],
    advice: "\
Drop partitions one by one rather than all in one transaction, and commit such DDL at local (SET LOCAL synchronous_commit): \
nobody waits for it on the standby.",
    on_demand: false,
    control_of: None,
};

/// The slot must be there before the rows are: the rewrite maps only those that it might still decode.
pub(super) const REWRITE: Scenario = Scenario {
    number: 12,
    name: "rewrite of a user catalog table",
    text: "VACUUM FULL of a table that logical decoding treats as a catalog (user_catalog_table = true), while there is a \
           logical replication slot. The rewrite logs where each row went, and the standby writes these mappings to files \
           and flushes each. A table without that property has no such records, whatever slots there are.",
    kind: Kind::Statement,
    sizes: &[("rows", 30_000, 3_000)],
    extensions: &[],
    needs: &[Need::LogicalSlot("duramen_lab_rewrite")],
    setup: &[
        DROP_SLOT,
        "DROP TABLE IF EXISTS catalogue",
        "CREATE TABLE catalogue (id bigint PRIMARY KEY, val text NOT NULL, pad text NOT NULL)
         WITH (autovacuum_enabled = off, user_catalog_table = true)",
        "SELECT pg_create_logical_replication_slot('duramen_lab_rewrite', 'pgoutput')",
        "INSERT INTO catalogue SELECT i, md5(i::text), repeat(md5(i::text), 3) FROM generate_series(1, {rows}) i",
    ],
    reset: &[],
    actions: &[],
    probe: once(&[(1, "VACUUM (FULL) catalogue")]),
    expect: &[Expect::Records("Heap2/REWRITE", 1, false), Expect::MappingFiles(1)],
    teardown: &[DROP_SLOT, "DROP TABLE IF EXISTS catalogue"],
    advice: "\
Do without user_catalog_table unless an output plugin needs it, drop slots that nobody reads, and rewrite such tables at \
local (SET LOCAL synchronous_commit) while nobody depends on reads of the standby.",
    on_demand: false,
    control_of: None,
};

/// S12 but for the property. What the two differ in is what the mappings cost; all else is the rewrite itself.
pub(super) const PLAIN_REWRITE: Scenario = Scenario {
    number: 21,
    name: "rewrite of a plain table",
    text: "The control of S12: the same rows, the same logical replication slot and the same VACUUM FULL, of a table that is no \
           catalog to logical decoding. Nothing is mapped; what it takes here is what S12 would take without its mappings.",
    setup: &[
        REWRITE.setup[0],
        REWRITE.setup[1],
        "CREATE TABLE catalogue (id bigint PRIMARY KEY, val text NOT NULL, pad text NOT NULL)
         WITH (autovacuum_enabled = off)",
        REWRITE.setup[3],
        REWRITE.setup[4],
    ],
    expect: &[Expect::NoRecords("Heap2/REWRITE"), Expect::NoMappingFiles],
    advice: "\
A rewrite is replayed as one sequence of new pages: what it takes grows with the table, at every level that waits for the \
replay. Rewrite at local (SET LOCAL synchronous_commit), or in small parts (pg_repack).",
    on_demand: false,
    control_of: Some(12),
    ..REWRITE
};
const DROP_SLOT: &str =
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'duramen_lab_rewrite'";

/// As large as in the suite of others that this one is held against.
pub(super) const DROP_LARGE: Scenario = Scenario {
    number: 30,
    name: "drop of a partitioned table, full size",
    text: "As S11, with 200,000 rows in 50 partitions: what a drop takes grows with the number of files, and hardly with what is \
           in them.",
    sizes: &[("rows", 200_000, 20_000), ("partitions", 50, 50)],
    on_demand: true,
    ..DROP_PARTITIONS
};

/// So many that what is done for each file is nearly all there is.
pub(super) const DROP_MANY: Scenario = Scenario {
    number: 33,
    name: "drop of 10,000 partitions",
    text: "As S11, with 200,000 rows in 10,000 partitions: 40,000 files, and a lock of each of 30,000 relations, on both servers. \
           The primary takes its time for that before the commit, at every level; the standby takes its own for the files.",
    sizes: &[("rows", 200_000, 20_000), ("partitions", 10_000, 200)],
    needs: &[Need::OwnPair],
    setup: &[
        DROP_PARTITIONS.setup[0],
        DROP_PARTITIONS.setup[1],
        // Committed now and then: what a transaction has made is looked through for each that follows.
        "DO $$ BEGIN
           FOR i IN 0 .. {partitions} - 1 LOOP
             EXECUTE format('CREATE TABLE measurements_%s PARTITION OF measurements
               FOR VALUES WITH (MODULUS %s, REMAINDER %s) WITH (autovacuum_enabled = off)', i, {partitions}, i);
             IF i % 200 = 199 THEN COMMIT; END IF;
           END LOOP;
         END $$",
        DROP_PARTITIONS.setup[3],
    ],
    expect: &[Expect::FilesRemoved(800)],
    advice: "\
Detach and drop partitions as they age, some at a time: one statement locks all of them at once (max_locks_per_transaction must \
allow that on both servers), and its replay removes all their files before anything that follows is seen on the standby.",
    on_demand: true,
    ..DROP_PARTITIONS
};

/// The same.
pub(super) const REWRITE_LARGE: Scenario = Scenario {
    number: 31,
    name: "rewrite of a user catalog table, full size",
    text: "As S12, with 300,000 rows: the mappings of a rewrite grow with the rows that are newer than what the slot holds back, \
           and are flushed one after the other before the commit.",
    sizes: &[("rows", 300_000, 6_000)],
    on_demand: true,
    ..REWRITE
};
