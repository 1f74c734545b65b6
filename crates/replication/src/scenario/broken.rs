//! Standbys that hang: connected, and stuck at one stage of the way of the WAL. Each has a control: a pass with the same
//! load in which nothing is broken, and nothing may stop.

use super::special::{PAY, PAYMENTS, TEARDOWN};
use super::{Action, Breakage, Expect, Kind, Need, Node, Scenario, Wait};
use crate::level::Level;

const ADVICE: &str = "\
A standby that hangs looks like one that works: it is connected, synchronous and streaming. What tells is a write_lsn of \
pg_stat_replication that stands still while sessions wait in SyncRep. Name more standbys than must answer \
(synchronous_standby_names = 'ANY 1 (a, b)'), watch for that, and set wal_sender_timeout and wal_receiver_timeout as short as \
the network allows: until they are over nobody ends the connection.";

pub(super) const RECEIVER: Scenario = Scenario {
    number: 22,
    name: "receiver hung",
    text: "The WAL receiver of the standby is stopped (SIGSTOP) for 4 s, as in a container or virtual machine that is frozen. \
           The standby answers queries and is listed as synchronous and streaming, but takes no WAL: commits that wait \
           for it in any way stop until the process goes on.",
    kind: Kind::Stall,
    sizes: &[],
    extensions: &[],
    needs: &[Need::OwnPair],
    setup: PAYMENTS,
    reset: &["TRUNCATE payments RESTART IDENTITY"],
    actions: &[
        Action::AwaitCommits(10),
        Action::Break { what: Breakage::Receiver, ms: 4_000, quick_ms: 2_000 },
    ],
    probe: PAY,
    expect: &[Expect::Startup(Wait::Unreceived), Expect::StallsFrom(Level::RemoteWrite)],
    teardown: TEARDOWN,
    advice: ADVICE,
    on_demand: false,
    control_of: None,
};

pub(super) const RECEIVER_FOR_LONG: Scenario = Scenario {
    number: 23,
    name: "receiver hung for long",
    text: "As S22, for 20 s: still less than wal_sender_timeout (60 s by default), so that nothing in the servers' logs tells \
           of it, and commits stop for as long.",
    actions: &[
        Action::AwaitCommits(10),
        Action::Break { what: Breakage::Receiver, ms: 20_000, quick_ms: 3_000 },
    ],
    on_demand: true,
    ..RECEIVER
};

pub(super) const NETWORK: Scenario = Scenario {
    number: 24,
    name: "network partition",
    text: "The network between the servers carries nothing any more, and no connection is closed. Until wal_sender_timeout (2 s \
           here) the standby is listed as streaming and does not receive; then the primary gives it up, and commits wait \
           for a standby that is not there, until the network is back and the standby has connected anew.",
    actions: &[
        Action::AwaitCommits(10),
        Action::Set { node: Node::Primary, name: "wal_sender_timeout", value: "2s" },
        Action::Break { what: Breakage::Network, ms: 6_000, quick_ms: 5_000 },
    ],
    expect: &[
        Expect::Startup(Wait::Absent),
        Expect::Seen(Wait::Unreceived),
        Expect::StallsFrom(Level::RemoteWrite),
    ],
    ..RECEIVER
};

pub(super) const DISK: Scenario = Scenario {
    number: 25,
    name: "disk of the standby stalled",
    text: "The file system of the standby's WAL is frozen (FIFREEZE, as while a snapshot of it is taken) for 4 s. The standby is \
           connected, and cannot write what it has received: commits stop from remote_write on, because the receiver that \
           waits for its disk takes nothing from the network either.",
    needs: &[Need::OwnPair, Need::FrozenDisk],
    actions: &[
        Action::AwaitCommits(10),
        Action::Break { what: Breakage::Disk, ms: 4_000, quick_ms: 2_000 },
    ],
    on_demand: true,
    expect: &[Expect::Startup(Wait::Unflushed), Expect::StallsFrom(Level::RemoteWrite)],
    advice: "\
A disk that is stuck is waited for without a limit, and the standby stays connected: no timeout of replication sees it. Take \
snapshots of a synchronous standby without freezing its file system for longer than commits may stop, give pg_wal a disk that \
nothing else fills, and name more standbys than must answer (synchronous_standby_names = 'ANY 1 (a, b)').",
    ..RECEIVER
};

pub(super) const JITTER: Scenario = Scenario {
    number: 26,
    name: "jitter of the network",
    text: "What is sent between the servers arrives up to 40 ms later, each chunk another time, in order. Commits wait for the \
           slowest chunk on their way there and back, so that all levels from remote_write on are slower, and those below \
           are not.",
    kind: Kind::Latency,
    actions: &[Action::Slow(Breakage::Jitter(40))],
    expect: &[Expect::WriteLag(20.0)],
    advice: "\
All levels that wait for the standby pay for the network alike: going back from remote_apply to remote_write saves nothing of \
it. What helps is a standby that is nearer, a second one of which the faster acknowledges (ANY 1 (a, b)), and fewer, larger \
transactions.",
    on_demand: true,
    ..RECEIVER
};

pub(super) const LOSS: Scenario = Scenario {
    number: 32,
    name: "packet loss",
    text: "Ten of a hundred packets between the servers are lost, in each direction. Most commits are as fast as before; those \
           whose packet is lost wait until it is sent again, for 200 ms and longer if nothing follows it, and so do those \
           behind it. All levels from remote_write on have that tail, and those below have not.",
    kind: Kind::Latency,
    needs: &[Need::OwnPair, Need::Namespace],
    actions: &[Action::Slow(Breakage::Loss(10))],
    expect: &[Expect::SomeWriteLag(20.0)],
    advice: "\
The median hides it: look at p99, and at the segments that were sent again (nstat, or ss -ti of the connection of the \
walsender). What helps is a network that loses nothing, or a second standby by another way of which the faster acknowledges \
(ANY 1 (a, b)); going back from remote_apply to remote_write does not.",
    on_demand: true,
    ..RECEIVER
};

const SLOW_FLUSH: Scenario = Scenario {
    number: 27,
    name: "slow flush, 1 ms",
    text: "Every flush of the standby's WAL receiver takes 1 ms longer, as on a disk without a write cache, or one that is shared. \
           Level remote_write does not wait for the flush of its own commit; on and remote_apply do, because the standby \
           replays nothing that it has not flushed.",
    kind: Kind::Latency,
    needs: &[Need::OwnPair, Need::Tracer],
    actions: &[Action::Slow(Breakage::Flush(1))],
    expect: &[Expect::FlushLag(0.9)],
    advice: "\
A faster disk for the standby's pg_wal (pg_test_fsync tells what a flush takes) is what makes on and remote_apply cheaper. At \
remote_write a commit survives the loss of the primary as long as the standby's machine does not fail at the same time.",
    on_demand: true,
    ..RECEIVER
};

pub(super) const FLUSH_1: Scenario = SLOW_FLUSH;

pub(super) const FLUSH_5: Scenario = Scenario {
    number: 28,
    name: "slow flush, 5 ms",
    text: "As S27, but every flush takes 5 ms longer, as on a rotating disk behind a busy controller, or on network storage. What \
           on and remote_apply add to remote_write is more than that.",
    actions: &[Action::Slow(Breakage::Flush(5))],
    expect: &[Expect::FlushLag(4.5)],
    ..SLOW_FLUSH
};

pub(super) const FLUSH_40: Scenario = Scenario {
    number: 29,
    name: "slow flush, 40 ms",
    text: "As S27, but every flush takes 40 ms longer, as on a disk that is saturated by others. One process writes and flushes \
           on the standby, so that what arrives during a flush is written after it, and remote_write waits for that, too.",
    actions: &[Action::Slow(Breakage::Flush(40))],
    expect: &[Expect::FlushLag(36.0)],
    ..SLOW_FLUSH
};
