//! Readers of the standby that hold locks which the replay must take exclusively.

use super::{Action, Expect, Holds, Kind, Probe, Scenario, Wait};
use crate::level::Level;

pub(super) const BY_VACUUM_FULL: Scenario = Scenario {
    number: 8,
    name: "lock conflict by VACUUM FULL",
    text: "A transaction of the standby has read a table and is still open. VACUUM FULL (or CLUSTER, TRUNCATE, DROP, most \
           forms of ALTER TABLE) locks that table exclusively on the primary, which the standby must repeat: its replay \
           queues behind the reader, and with it all commits at remote_apply, whatever tables they write to.",
    kind: Kind::Stall,
    sizes: &[("rows", 2_000, 2_000)],
    extensions: &[],
    needs: &[],
    setup: &[
        "DROP TABLE IF EXISTS documents, payments",
        "CREATE TABLE documents (id bigint PRIMARY KEY, body text NOT NULL) WITH (autovacuum_enabled = off)",
        "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)
         WITH (autovacuum_enabled = off)",
        "INSERT INTO documents SELECT i, repeat('x', 100) FROM generate_series(1, {rows}) i",
    ],
    reset: &["TRUNCATE payments RESTART IDENTITY"],
    actions: &[
        Action::AwaitCommits(10),
        Action::Hold {
            // Not REPEATABLE READ: between its statements this session has the lock but no snapshot.
            sql: &["BEGIN", "SELECT count(*) FROM documents"],
            holds: Holds::Lock("documents"),
        },
        Action::Start(&["VACUUM (FULL) documents"]),
        Action::AwaitStartup(&[Wait::Lock]),
        Action::Release,
    ],
    probe: Probe {
        statements: &[(1, "INSERT INTO payments (amount) VALUES ($1::bigint)")],
        draws: &[("1", "100")],
        clients: 8,
        rate_per_s: 100.0,
    },
    expect: &[
        Expect::Startup(Wait::Lock),
        Expect::HeldUpAt(&["Standby/LOCK"]),
        Expect::FeedbackHelps(false),
        Expect::StallsFrom(Level::RemoteApply),
    ],
    teardown: &["DROP TABLE IF EXISTS documents, payments"],
    advice: "\
hot_standby_feedback does not help, and lock_timeout on the primary does not see readers of the standby. Keep exclusive \
locks to short windows in which the standby has no long transactions, prefer forms that take weaker locks (CREATE INDEX \
CONCURRENTLY, VACUUM without FULL), let reports run on a standby that is not named in synchronous_standby_names, or commit \
below remote_apply (SET LOCAL synchronous_commit) while the schema is changed. A finite max_standby_streaming_delay bounds \
the stall and cancels the reader instead.",
    on_demand: false,
    control_of: None,
};
