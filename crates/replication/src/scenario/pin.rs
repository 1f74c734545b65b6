//! Readers of the standby that have pinned a page which the replay must clean.

use super::fragment::UNSEEN_BY_STANDBYS;
use super::{Action, Expect, Holds, Kind, Probe, Scenario, Wait};
use crate::level::Level;

const ADVICE: &str = "\
hot_standby_feedback does not help: the snapshot of the reader is not in the way, its pin is. Fetch from cursors quickly \
and close them (or fetch all and keep the result in the application), let reports run on a standby that is not named in \
synchronous_standby_names, or commit at remote_apply only where a read of the standby must see the commit (SET LOCAL \
synchronous_commit). A finite max_standby_streaming_delay bounds the stall and cancels the reader instead.";

const TABLES: &[&str] = &[
    "DROP TABLE IF EXISTS ledger, payments",
    "CREATE TABLE ledger (id bigint NOT NULL, note text NOT NULL) WITH (autovacuum_enabled = off)",
    "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)
     WITH (autovacuum_enabled = off)",
    FILL,
];
const FILL: &str = "INSERT INTO ledger SELECT i, repeat('x', 500) FROM generate_series(1, {rows}) i";

/// A cursor that stands on the first page.
const CURSOR: Action = Action::Hold {
    sql: &["BEGIN", "DECLARE reader NO SCROLL CURSOR FOR SELECT id, note FROM ledger", "FETCH 1 FROM reader"],
    holds: Holds::Nothing,
};

pub(super) const BY_FREEZE: Scenario = Scenario {
    number: 9,
    name: "buffer pin by freezing",
    text: "A cursor on the standby stands on a row and keeps its page pinned. Nothing is dead in the table; VACUUM only \
           freezes rows that have become old. Since PostgreSQL 17 the replay of that needs the page for itself alone and \
           waits for the cursor; up to 16 it does not.",
    kind: Kind::Stall,
    sizes: &[("rows", 100, 100)],
    extensions: &[],
    needs: &[],
    setup: &[TABLES[0], TABLES[1], TABLES[2], FILL, AGE],
    reset: &["TRUNCATE ledger, payments RESTART IDENTITY", FILL, AGE],
    actions: &[
        Action::AwaitCommits(10),
        Action::Run(&[UNSEEN_BY_STANDBYS]),
        Action::AwaitReplay,
        CURSOR,
        // Not VACUUM (FREEZE): on 15 that names the latest transaction of all as the one whose effects are frozen,
        // which is later than the snapshot of the cursor, and so conflicts with that.
        Action::Start(&["SET vacuum_freeze_min_age = 1000", "VACUUM (TRUNCATE false) ledger"]),
        Action::AwaitStartup(&[Wait::BufferPin]),
        Action::Release,
    ],
    probe: Probe {
        statements: &[(1, "INSERT INTO payments (amount) VALUES ($1::bigint)")],
        draws: &[("1", "100")],
        clients: 8,
        rate_per_s: 100.0,
    },
    expect: &[
        Expect::StartupSince(17, Wait::BufferPin),
        Expect::Since(17, &Expect::HeldUpAt(&["Heap2/PRUNE_VACUUM_SCAN"])),
        Expect::FeedbackHelps(false),
        Expect::StallsFrom(Level::RemoteApply),
    ],
    teardown: &["DROP TABLE IF EXISTS ledger, payments"],
    advice: ADVICE,
    on_demand: false,
    control_of: None,
};

/// Makes what is there old, by 3,000 transactions.
const AGE: &str = "DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";

/// The rows are dead before the cursor is opened, so that its snapshot does not need them.
pub(super) const BY_VACUUM: Scenario = Scenario {
    number: 17,
    name: "buffer pin by VACUUM of dead rows",
    text: "As S9, but the page of the cursor also holds rows that were deleted before it was opened. VACUUM removes them; \
           its replay needs the page for itself alone, in every version, and waits for the cursor.",
    setup: &[TABLES[0], TABLES[1], TABLES[2], FILL, DELETE],
    reset: &["TRUNCATE ledger, payments RESTART IDENTITY", FILL, DELETE],
    actions: &[
        Action::AwaitCommits(10),
        Action::Run(&[UNSEEN_BY_STANDBYS]),
        Action::AwaitReplay,
        CURSOR,
        Action::Start(&["VACUUM (TRUNCATE false) ledger"]),
        Action::AwaitStartup(&[Wait::BufferPin]),
        Action::Release,
    ],
    expect: &[
        Expect::Startup(Wait::BufferPin),
        Expect::Since(17, &Expect::HeldUpAt(&["Heap2/PRUNE_VACUUM_SCAN"])),
        Expect::Before(17, &Expect::HeldUpAt(&["Heap2/PRUNE"])),
        Expect::FeedbackHelps(false),
        Expect::StallsFrom(Level::RemoteApply),
    ],
    ..BY_FREEZE
};
const DELETE: &str = "DELETE FROM ledger WHERE id % 2 = 0";
