//! W1 to W5 of `docs/design/watching.md`: at which stage a commit waits, and for what.

use crate::support::{at, sight, standby};
use duramen_watch::{
    attribution::{attribute, Stage, NOT_SENT, PAUSED, UNKNOWN, UNREACHABLE},
    observation::{Observation, Sight, Standby},
    synchronous::Quorum,
};

/// The end of the WAL of the commit that waits.
const TARGET: u64 = 100;

fn reason(seen: &Observation) -> Option<(Stage, &'static str, String)> {
    attribute(seen, TARGET).map(|reason| (reason.stage, reason.cause, reason.standby))
}

fn of(standbys: Vec<Standby>) -> Option<(Stage, &'static str, String)> {
    reason(&at(0, &[1], standbys))
}

#[test]
fn w1_the_stage_is_the_first_that_the_wal_has_not_passed() {
    let a = || "a".to_owned();
    assert_eq!(of(vec![standby("a", [99, 99, 99, 99])]), Some((Stage::Send, NOT_SENT, a())));
    assert_eq!(of(vec![standby("a", [100, 99, 99, 99])]), Some((Stage::Write, "not received", a())));
    assert_eq!(of(vec![standby("a", [100, 100, 99, 99])]), Some((Stage::Flush, "not flushed", a())));
    assert_eq!(of(vec![standby("a", [100, 100, 100, 99])]), Some((Stage::Replay, UNKNOWN, a())));
    assert_eq!(of(vec![standby("a", [100, 100, 100, 100])]), None, "it is about to be woken");
}

#[test]
fn w2_without_enough_synchronous_standbys_nothing_else_matters() {
    let none = Some((Stage::Absent, "no standby", String::new()));
    assert_eq!(of(Vec::new()), none);
    let mut potential = standby("a", [100, 100, 100, 100]);
    potential.is_synchronous = false;
    assert_eq!(of(vec![potential]), none);
    for quorum in [Quorum::First(2), Quorum::Any(2)] {
        let mut seen = at(0, &[1], vec![standby("a", [100; 4])]);
        seen.quorum = quorum;
        assert_eq!(reason(&seen), none, "{quorum:?}");
    }
}

#[test]
fn w3_of_several_the_one_counts_on_which_the_commit_depends() {
    let three =
        || vec![standby("a", [100; 4]), standby("b", [100, 100, 100, 50]), standby("c", [100, 20, 20, 20])];
    let with = |quorum| {
        let mut seen = at(0, &[1], three());
        seen.quorum = quorum;
        reason(&seen)
    };
    assert_eq!(with(Quorum::Any(1)), None, "a is enough");
    assert_eq!(with(Quorum::Any(2)), Some((Stage::Replay, UNKNOWN, "b".to_owned())));
    assert_eq!(with(Quorum::Any(3)), Some((Stage::Write, "not received", "c".to_owned())));
    assert_eq!(with(Quorum::First(3)), Some((Stage::Write, "not received", "c".to_owned())));
}

#[test]
fn w4_a_standby_that_is_watched_says_what_its_replay_waits_for() {
    let replaying = |seen: Sight| {
        let mut late = standby("a", [100, 100, 100, 99]);
        late.seen = Some(seen);
        of(vec![late]).map(|(_, cause, _)| cause)
    };
    assert_eq!(replaying(sight(Some("IPC:RecoveryConflictSnapshot"))), Some("snapshot"));
    assert_eq!(replaying(sight(Some("Lock:relation"))), Some("relation lock"));
    assert_eq!(replaying(sight(Some("BufferPin:BufferPin"))), Some("buffer pin"));
    assert_eq!(replaying(sight(Some("Timeout:RecoveryApplyDelay"))), Some("apply delay"));
    assert_eq!(replaying(sight(None)), Some("replaying"));
    assert_eq!(replaying(sight(Some("IO:DataFileRead"))), Some("replaying"));
    assert_eq!(replaying(sight(Some("Activity:RecoveryWalStream"))), Some(UNKNOWN));
    assert_eq!(replaying(Sight::Unreachable), Some(UNKNOWN));
    let mut paused = sight(Some("IPC:RecoveryPause"));
    if let Sight::Answers { is_paused, .. } = &mut paused {
        *is_paused = true;
    }
    assert_eq!(replaying(paused), Some(PAUSED));
}

#[test]
fn w5_what_does_not_arrive_is_told_from_a_standby_that_is_not_there_for_anybody() {
    let mut silent = standby("a", [100, 99, 99, 99]);
    silent.seen = Some(sight(None));
    assert_eq!(of(vec![silent.clone()]).map(|it| it.1), Some("not received"));
    // A receiver that is busy with its disk cannot take more.
    for (receiver, cause) in [
        ("busy", "not flushed"),
        ("IO:WalWrite", "not flushed"),
        ("Activity:WalReceiverMain", "not received"),
    ] {
        let mut busy = sight(None);
        if let Sight::Answers { receiver: it, .. } = &mut busy {
            *it = Some(receiver.to_owned());
        }
        silent.seen = Some(busy);
        assert_eq!(of(vec![silent.clone()]).map(|it| it.1), Some(cause), "{receiver}");
    }
    silent.seen = Some(Sight::Unreachable);
    assert_eq!(of(vec![silent]).map(|it| it.1), Some(UNREACHABLE));
}

#[test]
fn the_setting_is_read_as_the_server_reads_it() {
    for (setting, quorum) in [
        ("", Quorum::Nobody),
        ("*", Quorum::First(1)),
        ("a", Quorum::First(1)),
        ("a, b", Quorum::First(1)),
        ("1 (a)", Quorum::First(1)),
        ("2(a,b,c)", Quorum::First(2)),
        ("first 2 (a, b, c)", Quorum::First(2)),
        ("Any 2 (\"any 3 (x)\", b, c)", Quorum::Any(2)),
        ("ANY 1 (*)", Quorum::Any(1)),
        ("\"any 3 (x)\"", Quorum::First(1)),
        ("a, \"b (c)\"", Quorum::First(1)),
    ] {
        assert_eq!(Quorum::parse(setting), quorum, "{setting:?}");
    }
}
