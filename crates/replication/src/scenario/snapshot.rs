//! Readers of the standby whose snapshots still need what the primary has removed.

use super::fragment::UNSEEN;
use super::{Action, Expect, Holds, Kind, Probe, Scenario, Wait};
use crate::level::Level;

const ADVICE: &str = "\
hot_standby_feedback = on prevents it: the primary then keeps what the reader needs, at the price of bloat there for as \
long as the longest query of the standby runs. Or let reports run on a standby that is not named in \
synchronous_standby_names, or commit at remote_apply only where a read of the standby must see the commit (SET LOCAL \
synchronous_commit). A finite max_standby_streaming_delay bounds the stall and cancels the reader instead.";

/// What those by VACUUM expect. Up to 16 its records are called as those of on-access pruning; only VACUUM goes back to
/// what it has pruned (`Heap2/VACUUM`).
const EXPECT: &[Expect] = &[
    Expect::Startup(Wait::Snapshot),
    Expect::Since(17, &Expect::HeldUpAt(&["Heap2/PRUNE_VACUUM_SCAN"])),
    Expect::Before(17, &Expect::HeldUpAt(&["Heap2/PRUNE"])),
    Expect::Before(17, &Expect::Records("Heap2/VACUUM", 1, false)),
    Expect::FeedbackHelps(true),
    Expect::StallsFrom(Level::RemoteApply),
];

/// What the primary vacuums away; S7 differs in the probe alone.
const CHURN: &[Action] = &[
    Action::AwaitCommits(10),
    Action::Hold {
        sql: &["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*), sum(amount) FROM orders"],
        holds: Holds::Snapshot,
    },
    Action::Run(&["DELETE FROM orders WHERE id <= {dead}", UNSEEN]),
    Action::Start(&["VACUUM (TRUNCATE false) orders"]),
    Action::AwaitStartup(&[Wait::Snapshot]),
    Action::Release,
];

const ORDERS: &[&str] = &[
    "DROP TABLE IF EXISTS orders",
    "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer bigint NOT NULL,
     amount numeric(12, 2) NOT NULL, status text NOT NULL DEFAULT 'pending') WITH (autovacuum_enabled = off)",
    "CREATE INDEX ON orders (customer)",
    FILL_ORDERS,
];
const FILL_ORDERS: &str =
    "INSERT INTO orders (customer, amount) SELECT i % 100, i FROM generate_series(1, {rows}) i";

pub(super) const BY_VACUUM: Scenario = Scenario {
    number: 2,
    name: "snapshot conflict by VACUUM",
    text: "A reader of the standby has a snapshot. Rows that it can still see are deleted and vacuumed away on the \
           primary; the standby cannot replay the removal until the reader is done. Commits at remote_apply wait for \
           the replay, although all that they do is insert.",
    kind: Kind::Stall,
    sizes: &[("rows", 2_000, 2_000), ("dead", 200, 200)],
    extensions: &[],
    needs: &[],
    setup: ORDERS,
    reset: &["TRUNCATE orders RESTART IDENTITY", FILL_ORDERS],
    actions: CHURN,
    probe: Probe {
        statements: &[(1, "INSERT INTO orders (customer, amount) VALUES ($1::bigint, 1)")],
        draws: &[("1", "100")],
        clients: 8,
        rate_per_s: 100.0,
    },
    expect: EXPECT,
    teardown: &["DROP TABLE IF EXISTS orders"],
    advice: ADVICE,
    on_demand: false,
    control_of: None,
};

pub(super) const ON_ANOTHER_TABLE: Scenario = Scenario {
    number: 7,
    name: "snapshot conflict on another table",
    text: "As S2, but the load writes to a table that neither the reader nor VACUUM has ever touched. WAL is replayed in \
           one sequence, so whatever holds up one record holds up all commits of the cluster that wait for the replay.",
    setup: &[
        "DROP TABLE IF EXISTS orders, payments",
        "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)
         WITH (autovacuum_enabled = off)",
        ORDERS[1],
        ORDERS[2],
        FILL_ORDERS,
    ],
    reset: &["TRUNCATE orders, payments RESTART IDENTITY", FILL_ORDERS],
    probe: Probe {
        statements: &[(1, "INSERT INTO payments (amount) VALUES ($1::bigint)")],
        draws: &[("1", "100")],
        clients: 8,
        rate_per_s: 100.0,
    },
    teardown: &["DROP TABLE IF EXISTS orders, payments"],
    ..BY_VACUUM
};

/// All entries of the index have the same hash, so they fill one bucket; the pages of the table have room, so that no
/// scan prunes them, and the only removal is that of the index.
pub(super) const BY_HASH_INDEX: Scenario = Scenario {
    number: 13,
    name: "snapshot conflict by hash index clean-up",
    text: "No VACUUM is needed. Rows that a reader of the standby can still see are deleted, a scan of the primary marks \
           their entries in a hash index as dead, and the next insert into the full bucket removes them to make room. \
           That record conflicts with the snapshot.",
    kind: Kind::Stall,
    sizes: &[("rows", 2_000, 2_000)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS readings",
        "CREATE TABLE readings (id bigint NOT NULL, device bigint NOT NULL)
         WITH (autovacuum_enabled = off, fillfactor = 80)",
        "CREATE INDEX readings_device ON readings USING hash (device)",
        FILL_READINGS,
    ],
    reset: &["TRUNCATE readings", FILL_READINGS],
    actions: &[
        Action::AwaitCommits(10),
        Action::Hold {
            sql: &["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM readings"],
            holds: Holds::Snapshot,
        },
        Action::Run(&[
            "DELETE FROM readings WHERE id > 0",
            UNSEEN,
            "SET enable_seqscan = off",
            "SET enable_bitmapscan = off",
            "SELECT count(*) FROM readings WHERE device = 1",
        ]),
        Action::AwaitStartup(&[Wait::Snapshot]),
        Action::Release,
    ],
    probe: Probe {
        statements: &[(1, "INSERT INTO readings (id, device) VALUES (-$1::bigint, 1)")],
        draws: &[("1", "1000000")],
        clients: 8,
        rate_per_s: 100.0,
    },
    expect: &[
        Expect::Startup(Wait::Snapshot),
        Expect::HeldUpAt(&["Hash/VACUUM_ONE_PAGE"]),
        Expect::Records("Hash/VACUUM_ONE_PAGE", 1, false),
        Expect::FeedbackHelps(true),
        Expect::StallsFrom(Level::RemoteApply),
    ],
    teardown: &["DROP TABLE IF EXISTS readings"],
    advice: ADVICE,
    on_demand: false,
    control_of: None,
};
const FILL_READINGS: &str = "INSERT INTO readings SELECT i, 1 FROM generate_series(1, {rows}) i";

pub(super) const BY_PRUNING: Scenario = Scenario {
    number: 16,
    name: "snapshot conflict by on-access pruning",
    text: "Nothing but small updates, and any query of the standby: no VACUUM, no bulk delete. An update that finds its \
           page full prunes old versions of rows from it; when the reader can still see them, its snapshot holds up the \
           replay, and with it the commits at remote_apply.",
    kind: Kind::Stall,
    sizes: &[("rows", 100, 100)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS accounts",
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, note text NOT NULL)
         WITH (autovacuum_enabled = off)",
        FILL_ACCOUNTS,
    ],
    reset: &["TRUNCATE accounts", FILL_ACCOUNTS],
    actions: &[
        Action::AwaitCommits(10),
        Action::Hold {
            sql: &["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class"],
            holds: Holds::Snapshot,
        },
        Action::AwaitStartup(&[Wait::Snapshot]),
        Action::Release,
    ],
    probe: Probe {
        statements: &[(1, "UPDATE accounts SET balance = balance + 1 WHERE id = $1::bigint")],
        draws: &[("1", "rows")],
        clients: 8,
        rate_per_s: 100.0,
    },
    expect: &[
        Expect::Startup(Wait::Snapshot),
        Expect::Since(17, &Expect::HeldUpAt(&["Heap2/PRUNE_ON_ACCESS"])),
        Expect::Before(17, &Expect::HeldUpAt(&["Heap2/PRUNE"])),
        Expect::Before(17, &Expect::NoRecords("Heap2/VACUUM")),
        Expect::FeedbackHelps(true),
        Expect::StallsFrom(Level::RemoteApply),
    ],
    teardown: &["DROP TABLE IF EXISTS accounts"],
    advice: ADVICE,
    on_demand: false,
    control_of: None,
};
const FILL_ACCOUNTS: &str =
    "INSERT INTO accounts SELECT i, 0, repeat('x', 200) FROM generate_series(1, {rows}) i";
