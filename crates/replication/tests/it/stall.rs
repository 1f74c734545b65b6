//! Which times without commits are stalls, and what is named as their cause.

use std::time::Duration;

use duramen_base::entropy;
use duramen_replication::outcome::{Gap, Sample};
use duramen_replication::pass::sample::is_working;
use duramen_replication::pass::stage::{stuck, BUSY};
use duramen_replication::pass::stall::{gaps, APART, EVIDENCE, LEAST};
use duramen_replication::scenario::Wait;
use duramen_replication::Level;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A sample every 100 ms from the first to before the last time.
fn samples(from: u64, to: u64, wait: Option<Wait>) -> Vec<Sample> {
    (from..to).step_by(100).map(|at| Sample { at: ms(at), wait, ..Sample::default() }).collect()
}

fn commits(at: &[u64]) -> Vec<Duration> {
    at.iter().map(|at| ms(*at)).collect()
}

fn at_remote_apply(commits: &[Duration], end: u64, samples: &[Sample]) -> Vec<Gap> {
    gaps(commits, Duration::ZERO, ms(end), samples, Level::RemoteApply)
}

#[test]
fn a_gap_counts_from_one_second_on() {
    let found = at_remote_apply(&commits(&[10, 1_009, 2_009, 2_500]), 2_600, &[]);
    assert_eq!(found, [Gap { begin: ms(1_009), length: LEAST, cause: None }]);
}

#[test]
fn before_the_first_and_after_the_last_commit_are_gaps_too() {
    let found = at_remote_apply(&commits(&[1_200, 1_900]), 3_000, &[]);
    let lengths: Vec<_> = found.iter().map(|gap| (gap.begin, gap.length)).collect();
    assert_eq!(lengths, [(ms(0), ms(1_200)), (ms(1_900), ms(1_100))]);
}

#[test]
fn without_any_commit_the_whole_load_is_one_gap() {
    let found = gaps(&[], ms(500), ms(4_000), &samples(0, 5_000, Some(Wait::Lock)), Level::RemoteApply);
    assert_eq!(found, [Gap { begin: ms(500), length: ms(3_500), cause: Some(Wait::Lock) }]);
}

#[test]
fn a_load_shorter_than_a_second_has_no_gap() {
    assert_eq!(at_remote_apply(&[], 999, &[]), []);
}

#[test]
fn commits_outside_of_the_load_do_not_count() {
    let found = gaps(&commits(&[100, 5_500]), ms(2_000), ms(5_000), &[], Level::RemoteApply);
    assert_eq!(found, [Gap { begin: ms(2_000), length: ms(3_000), cause: None }]);
}

#[test]
fn the_cause_is_what_most_samples_in_the_gap_name() {
    let mut seen = samples(0, 1_000, None);
    seen.extend(samples(1_000, 1_300, Some(Wait::Lock)));
    seen.extend(samples(1_300, 3_000, Some(Wait::Snapshot)));
    seen.extend(samples(3_000, 9_000, Some(Wait::BufferPin)));
    let found = at_remote_apply(&commits(&[950, 2_950]), 3_000, &seen);
    assert_eq!(found, [Gap { begin: ms(950), length: ms(2_000), cause: Some(Wait::Snapshot) }]);
}

#[test]
fn half_of_the_samples_are_no_majority() {
    let mut seen = samples(1_000, 2_000, Some(Wait::Snapshot));
    seen.extend(samples(2_000, 3_000, None));
    let found = at_remote_apply(&commits(&[950, 2_950]), 3_000, &seen);
    assert_eq!(found[0].cause, None);
    seen[10].wait = Some(Wait::Snapshot);
    assert_eq!(at_remote_apply(&commits(&[950, 2_950]), 3_000, &seen)[0].cause, Some(Wait::Snapshot));
}

#[test]
fn a_sampler_that_was_held_up_itself_proves_nothing() {
    let few: Vec<_> = samples(1_000, 3_000, Some(Wait::Snapshot)).into_iter().take(EVIDENCE - 1).collect();
    assert_eq!(at_remote_apply(&commits(&[950, 2_950]), 3_000, &few)[0].cause, None);
    assert_eq!(at_remote_apply(&commits(&[950, 2_950]), 3_000, &[])[0].cause, None);
}

#[test]
fn the_replay_is_no_cause_for_commits_that_do_not_wait_for_it() {
    let cause_at = |wait, level| {
        let seen = samples(0, 3_000, Some(wait));
        gaps(&commits(&[950, 2_950]), ms(0), ms(3_000), &seen, level)[0].cause
    };
    for wait in [Wait::Snapshot, Wait::Lock, Wait::BufferPin, Wait::ApplyDelay, Wait::Replaying] {
        for level in Level::ALL {
            let expected = (level == Level::RemoteApply).then_some(wait);
            assert_eq!(cause_at(wait, level), expected, "{wait:?} {level}");
        }
    }
    for wait in [Wait::Absent, Wait::Unreceived, Wait::Unflushed] {
        for level in Level::ALL {
            let expected = level.waits_for_standby().then_some(wait);
            assert_eq!(cause_at(wait, level), expected, "{wait:?} {level}");
        }
    }
}

/// Samples 100 ms apart, of which only some positions move: flushed on the primary, written and flushed on the standby.
fn stages(count: u64, moves: [bool; 3], receiver: Option<&str>) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for step in 0..count {
        let at = |which: usize| 1_000 + if moves[which] { step * 100 } else { 0 };
        let mut sample = Sample {
            at: ms(step * 100),
            flushed_lsn: at(0) + 60,
            written_lsn: at(1) + 30,
            kept_lsn: at(2),
            synchronous: true,
            waiting_sessions: 1,
            receiver: receiver.map(str::to_owned),
            ..Sample::default()
        };
        sample.stuck = samples.last().and_then(|last| stuck(last, &sample));
        samples.push(sample);
    }
    samples
}

#[test]
fn the_stage_that_stands_still_is_told() {
    let waits = Some("Activity:WalReceiverMain");
    for (moves, receiver, expected) in [
        ([true, true, true], waits, None),
        // The network, or a receiver that hangs: also if all sessions wait and nothing new is written.
        ([true, false, true], waits, Some(Wait::Unreceived)),
        ([false, false, true], waits, Some(Wait::Unreceived)),
        // A standby that was not read, or has no receiver any more, while the primary still has it.
        ([true, false, true], None, Some(Wait::Unreceived)),
        // The disk: nothing is written, and the receiver does not wait for the network.
        ([true, false, true], Some("IO:WalSync"), Some(Wait::Unflushed)),
        ([true, false, true], Some("IO:WALWrite"), Some(Wait::Unflushed)),
        ([true, false, true], Some(BUSY), Some(Wait::Unflushed)),
        // Written and not flushed.
        ([true, true, false], waits, Some(Wait::Unflushed)),
        // What was heard last was that it was written: the rest may be lost on its way.
        ([true, false, false], waits, Some(Wait::Unreceived)),
        ([true, false, false], None, Some(Wait::Unreceived)),
        ([true, false, false], Some("IO:WalSync"), Some(Wait::Unflushed)),
    ] {
        // What moves 100 in a step is never behind by less than that.
        let seen = stages(20, moves, receiver);
        assert_eq!(seen[0].stuck, None, "one sample shows nothing that stands still");
        for sample in &seen[1..] {
            assert_eq!(sample.stuck, expected, "{moves:?} {receiver:?}");
        }
        let found = gaps(&[], ms(0), ms(2_000), &seen, Level::RemoteWrite);
        assert_eq!(found[0].cause, expected, "{moves:?} {receiver:?}");
    }
}

#[test]
fn a_stage_with_nothing_to_do_stands_still_and_is_not_stuck() {
    let idle = Sample {
        flushed_lsn: 500,
        written_lsn: 500,
        kept_lsn: 500,
        synchronous: true,
        receiver: Some("Activity:WalReceiverMain".to_owned()),
        ..Sample::default()
    };
    assert_eq!(stuck(&idle, &idle), None);
    // What was flushed only just now could not have been written before.
    assert_eq!(stuck(&idle, &Sample { flushed_lsn: 600, ..idle.clone() }), None);
    let behind = Sample { flushed_lsn: 600, ..idle.clone() };
    assert_eq!(stuck(&behind, &behind), Some(Wait::Unreceived));
    // A primary that has no standby, or has only just got one, says so.
    let gone = Sample { synchronous: false, ..behind.clone() };
    assert_eq!((stuck(&gone, &behind), stuck(&behind, &gone)), (None, None));
}

/// Commits that stop for something else are not held up by the standby, whatever its WAL does.
#[test]
fn a_stage_that_is_stuck_is_a_cause_only_while_sessions_wait_for_the_standby() {
    let mut seen = stages(20, [true, false, true], None);
    let cause_at = |seen: &[Sample], level| gaps(&[], ms(0), ms(2_000), seen, level)[0].cause;
    for level in Level::ALL {
        let expected = level.waits_for_standby().then_some(Wait::Unreceived);
        assert_eq!(cause_at(&seen, level), expected, "{level}");
    }
    seen.iter_mut().for_each(|sample| sample.waiting_sessions = 0);
    assert_eq!(cause_at(&seen, Level::RemoteWrite), None);
}

/// A reader is in the way of the replay as well, but nothing arrives that could be replayed.
#[test]
fn what_is_stuck_first_on_the_way_is_told() {
    let mut seen = stages(20, [true, false, true], None);
    seen.iter_mut().for_each(|sample| sample.wait = Some(Wait::Snapshot));
    let cause = gaps(&[], ms(0), ms(2_000), &seen, Level::RemoteApply)[0].cause;
    assert_eq!(cause, Some(Wait::Unreceived));
}

#[test]
fn a_startup_process_is_at_work_unless_it_waits_for_something_else_than_pages() {
    for (event, expected) in [
        (None, true),
        (Some("IO:DataFileRead"), true),
        (Some("LWLock:BufferContent"), true),
        (Some("Activity:RecoveryWalStream"), false),
        (Some("Lock:relation"), false),
        (Some("Timeout:RecoveryApplyDelay"), false),
        (Some("IPC:RecoveryConflictSnapshot"), false),
    ] {
        assert_eq!(is_working(event), expected, "{event:?}");
    }
}

/// Whatever the commits are: gaps are in order, apart, long enough, without a commit inside, and none is missed.
#[test]
fn gaps_are_exactly_the_long_times_without_commits() {
    let mut rng = entropy::rng(0x5ca1e);
    for round in 0..2_000 {
        let (begin, end) = (rng.u64(0..2_000), rng.u64(2_000..20_000));
        let mut at: Vec<u64> = (0..rng.usize(0..20)).map(|_| rng.u64(0..22_000)).collect();
        at.sort_unstable();
        let seen = samples(0, 22_000, rng.bool().then_some(Wait::Snapshot));
        let found = gaps(&commits(&at), ms(begin), ms(end), &seen, Level::RemoteApply);

        let mut edges: Vec<u64> = at.iter().copied().filter(|at| *at > begin && *at < end).collect();
        edges.insert(0, begin);
        edges.push(end);
        let mut long: Vec<(Duration, Duration, Option<Wait>)> = Vec::new();
        for pair in edges.windows(2).filter(|pair| pair[1] - pair[0] >= 1_000) {
            let (from, to) = (ms(pair[0]), ms(pair[1]));
            match long.last_mut() {
                Some((begin, length, Some(_))) if from - (*begin + *length) < APART => *length = to - *begin,
                _ => long.push((from, to - from, seen[0].wait)),
            }
        }
        let found: Vec<_> = found.iter().map(|gap| (gap.begin, gap.length, gap.cause)).collect();
        assert_eq!(found, long, "round {round}: {begin}..{end} {at:?}");
    }
}

/// One more commit splits the gap that it falls into and leaves the others alone.
#[test]
fn a_commit_changes_only_the_gap_that_it_falls_into() {
    let mut rng = entropy::rng(7);
    for round in 0..2_000 {
        let mut at: Vec<u64> = (0..rng.usize(1..10)).map(|_| rng.u64(1..15_000)).collect();
        at.sort_unstable();
        let before = at_remote_apply(&commits(&at), 15_000, &[]);
        let new = rng.u64(1..15_000);
        let position = at.partition_point(|other| *other < new);
        at.insert(position, new);
        let after = at_remote_apply(&commits(&at), 15_000, &[]);
        let away = |gap: &&Gap| ms(new) < gap.begin || ms(new) > gap.begin + gap.length;
        let untouched: Vec<_> = before.iter().filter(away).collect();
        assert!(untouched.iter().all(|gap| after.contains(gap)), "round {round}: {new} into {at:?}");
        let total = |gaps: &[Gap]| gaps.iter().map(|gap| gap.length).sum::<Duration>();
        assert!(total(&after) <= total(&before), "round {round}");
    }
}

#[test]
fn stalls_with_one_cause_that_almost_touch_are_one() {
    let seen = samples(0, 8_000, Some(Wait::Snapshot));
    let found = |at: &[u64], seen: &[Sample]| -> Vec<_> {
        let gaps = gaps(&commits(at), ms(900), ms(5_050), seen, Level::RemoteApply);
        gaps.iter().map(|gap| (gap.begin, gap.length)).collect()
    };
    assert_eq!(found(&[1_000, 3_000, 3_010, 3_190, 5_000], &seen), [(ms(1_000), ms(4_000))]);
    let apart = [(ms(1_000), ms(2_000)), (ms(3_200), ms(1_800))];
    assert_eq!(found(&[1_000, 3_000, 3_010, 3_200, 5_000], &seen), apart, "two samples apart");
    let noise = [(ms(1_000), ms(2_000)), (ms(3_190), ms(1_810))];
    assert_eq!(found(&[1_000, 3_000, 3_010, 3_190, 5_000], &[]), noise, "noise has no cause to share");
    let mut other = seen;
    other.iter_mut().filter(|sample| sample.at > ms(3_100)).for_each(|sample| sample.wait = Some(Wait::Lock));
    assert_eq!(found(&[1_000, 3_000, 3_010, 3_190, 5_000], &other), noise, "two causes");
}
