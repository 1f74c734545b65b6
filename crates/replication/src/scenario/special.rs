//! What is looked at for a figure of its own: a known delay, a commit that is cancelled while it waits, a standby that
//! goes away.

use super::{Action, Expect, Holds, Kind, Need, Node, Probe, Scenario, Special, Wait};
use crate::level::Level;

pub(super) const PAYMENTS: &[&str] = &[
    "DROP TABLE IF EXISTS documents, payments",
    "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)
     WITH (autovacuum_enabled = off)",
];
pub(super) const PAY: Probe = Probe {
    statements: &[(1, "INSERT INTO payments (amount) VALUES ($1::bigint)")],
    draws: &[("1", "100")],
    clients: 8,
    rate_per_s: 100.0,
};
pub(super) const TEARDOWN: &[&str] = &["DROP TABLE IF EXISTS documents, payments"];

pub(super) const CALIBRATION: Scenario = Scenario {
    number: 18,
    name: "calibration by a known delay",
    text: "recovery_min_apply_delay makes the standby replay each commit 50 ms after it was made on the primary. The flush \
           and the way to the standby run inside that time, so commits at remote_apply must take 50 ms at least, and no \
           more than 50 ms beside what they take without: else the suite's other figures are not to be trusted either.",
    kind: Kind::Special(Special::Calibration),
    sizes: &[],
    extensions: &[],
    needs: &[],
    setup: PAYMENTS,
    reset: &["TRUNCATE payments RESTART IDENTITY"],
    actions: &[Action::Set { node: Node::Standby, name: "recovery_min_apply_delay", value: "50ms" }],
    // Many sessions for few commits: none has to wait for a session that still waits for the replay.
    probe: Probe { clients: 16, rate_per_s: 40.0, ..PAY },
    expect: &[Expect::Startup(Wait::ApplyDelay)],
    teardown: TEARDOWN,
    advice: "\
A standby with recovery_min_apply_delay must not be one of synchronous_standby_names where anybody commits at remote_apply.",
    on_demand: false,
    control_of: None,
};

pub(super) const STANDBY_DOWN: Scenario = Scenario {
    number: 19,
    name: "standby down",
    text: "The only synchronous standby goes away. Commits that wait for it in any way wait until it is back; those at off \
           and local go on. There is no time limit, and the waiting sessions hold their row locks.",
    kind: Kind::Stall,
    sizes: &[],
    extensions: &[],
    needs: &[Need::OwnPair],
    setup: PAYMENTS,
    reset: &["TRUNCATE payments RESTART IDENTITY"],
    actions: &[Action::AwaitCommits(10), Action::StopStandby],
    probe: PAY,
    expect: &[Expect::Startup(Wait::Absent), Expect::StallsFrom(Level::RemoteWrite)],
    teardown: TEARDOWN,
    advice: "\
Name more standbys than must answer: synchronous_standby_names = 'ANY 1 (a, b)'. To let commits go on without any, empty \
synchronous_standby_names and reload; that gives up what it is there for, so let it be decided by somebody.",
    on_demand: false,
    control_of: None,
};

pub(super) const CANCELLED_WAIT: Scenario = Scenario {
    number: 20,
    name: "cancelled wait",
    text: "A commit waits for the standby, and is cancelled (by the user, or by statement_timeout). It cannot be undone any \
           more: the server answers with a warning, the transaction is committed on the primary, and everybody sees it.",
    kind: Kind::Special(Special::CancelledWait),
    sizes: &[],
    extensions: &[],
    needs: &[],
    setup: &[PAYMENTS[0], PAYMENTS[1], "CREATE TABLE documents (id bigint PRIMARY KEY, body text NOT NULL)"],
    reset: &["TRUNCATE payments RESTART IDENTITY"],
    actions: &[
        Action::Hold {
            sql: &["BEGIN", "SELECT count(*) FROM documents"],
            holds: Holds::Lock("documents"),
        },
        Action::Run(&["TRUNCATE documents"]),
        Action::AwaitStartup(&[Wait::Lock]),
        Action::Release,
    ],
    probe: PAY,
    expect: &[Expect::Startup(Wait::Lock), Expect::HeldUpAt(&["Standby/LOCK"])],
    teardown: TEARDOWN,
    advice: "\
A timeout during COMMIT says nothing about whether it happened: look whether the row is there before doing it again, or make \
transactions idempotent. A cancelled wait is acknowledged although no standby may have it.",
    on_demand: false,
    control_of: None,
};
