//! Passes on a real pair: what is brought about is seen, and is named for what it is.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use duramen_replication::measure::{measure, Passes};
use duramen_replication::outcome::{Outcome, Pass};
use duramen_replication::pair::Pair;
use duramen_replication::scenario::{catalog, Scenario, Wait};
use duramen_replication::{Level, Options};

/// Runs scenarios as in a quick run, on a pair of our own.
async fn quick(numbers: &[u32], change: impl FnOnce(&mut Options)) -> Passes {
    let scenarios: Vec<&'static Scenario> =
        catalog().iter().filter(|scenario| numbers.contains(&scenario.number)).collect();
    assert_eq!(scenarios.len(), numbers.len(), "a scenario is not there");
    run(&scenarios, change).await
}

fn scenario(number: u32) -> &'static Scenario {
    catalog().iter().find(|scenario| scenario.number == number).expect("it is there")
}

async fn run(scenarios: &[&'static Scenario], change: impl FnOnce(&mut Options)) -> Passes {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut options = Options { quick: true, ..Options::new(dir.path(), "duramen") };
    change(&mut options);
    let say = |doing: &str| eprintln!("{doing}");
    let pair = Pair::open(&options, &say).await.unwrap();
    let measured = measure(&pair, &options, scenarios, 42, &say).await;
    pair.close().await.unwrap();
    let measured = measured.unwrap();
    for outcome in &measured.outcomes {
        assert_eq!(outcome.skipped, None, "S{}", outcome.number);
    }
    assert_eq!(measured.notes, [""; 0]);
    measured
}

fn pass_at(outcome: &Outcome, level: Level) -> &Pass {
    outcome.passes.iter().find(|pass| pass.blocks[0].level == level).expect("there is a pass at the level")
}

/// The longest gap with a cause, and the cause.
fn stall(pass: &Pass) -> Option<(Duration, Wait)> {
    let gaps = pass.blocks[0].gaps.iter();
    gaps.filter_map(|gap| Some((gap.length, gap.cause?))).max_by_key(|(length, _)| *length)
}

#[tokio::test]
async fn a_snapshot_on_the_standby_stops_commits_that_wait_for_the_replay() {
    let measured = quick(&[2], |_| {}).await;
    let outcome = &measured.outcomes[0];
    let applied = pass_at(outcome, Level::RemoteApply);
    assert_eq!(applied.unmet, [""; 0]);
    let blocker = applied.blocker.expect("the reader's transaction ended");
    let (length, cause) = stall(applied).expect("commits stopped");
    eprintln!("a stall of {length:?} by a blocker of {blocker:?}");
    assert_eq!(cause, Wait::Snapshot);
    assert!(length >= blocker.mul_f64(0.9), "{length:?} {blocker:?}");
    // The responses of those who waited are there, counted from when they were due.
    let block = &applied.blocks[0];
    assert!(block.response.max() >= length.mul_f64(0.9), "{:?} {length:?}", block.response.max());
    assert_eq!(block.response.count(), block.committed, "{:?}", block.failed);
    let due = (block.elapsed.as_secs_f64() * 100.0) as u64;
    assert!(block.committed * 10 > due * 7, "{} of {due}", block.committed);

    let written = pass_at(outcome, Level::RemoteWrite);
    assert_eq!(written.unmet, [""; 0], "the replay stands still whatever commits wait for");
    assert_eq!(stall(written), None);
    assert!(written.blocks[0].committed > 100);
}

/// VACUUM and on-access pruning are waited for alike; what wrote the record is what a scenario is called after.
#[tokio::test]
async fn what_wrote_the_record_that_conflicts_is_seen() {
    for major in super::user::majors() {
        let applied = |options: &mut Options| {
            (options.levels, options.major) = (Some(vec![Level::RemoteApply]), Some(major));
        };
        let (vacuumed, pruned) = (scenario(2), scenario(16));
        // The load of the one under the name of the other: the waits are the same.
        let mistaken = |name: &Scenario, work: &Scenario| -> &'static Scenario {
            Box::leak(Box::new(Scenario { number: name.number, expect: name.expect, ..*work }))
        };
        for (name, work, word) in [
            (vacuumed, pruned, "VACUUM"),
            (pruned, vacuumed, if major >= 17 { "ON_ACCESS" } else { "VACUUM" }),
        ] {
            let measured = run(&[mistaken(name, work)], applied).await;
            let pass = &measured.outcomes[0].passes[0];
            assert_eq!(pass.unmet.len(), 1, "{major}: {:?}", pass.unmet);
            assert!(pass.unmet[0].contains(word), "{major}: {:?}", pass.unmet);
        }
        let measured =
            run(&[vacuumed, scenario(8), scenario(9), scenario(13), pruned, scenario(17)], applied).await;
        for outcome in &measured.outcomes {
            let pass = &outcome.passes[0];
            eprintln!("{major}: S{} was held up at {:?}", outcome.number, pass.held_up_at);
            assert_eq!(pass.unmet, [""; 0], "{major}: S{}", outcome.number);
        }
    }
}

/// The same work with and without the property that makes a table a catalog to logical decoding.
#[tokio::test]
async fn only_the_rewrite_of_a_user_catalog_table_writes_mappings() {
    let applied = |options: &mut Options| options.levels = Some(vec![Level::RemoteApply]);
    let measured = quick(&[12, 21], applied).await;
    let files: Vec<_> = measured.outcomes.iter().map(|outcome| outcome.passes[0].mapping_files).collect();
    assert!(files[0] > Some(0) && files[1] == Some(0), "{files:?}");
    for outcome in &measured.outcomes {
        assert_eq!(outcome.passes[0].unmet, [""; 0], "S{}", outcome.number);
    }
    // Under each other's names both are invalid.
    for (name, work) in [(12, 21), (21, 12)] {
        let (name, work) = (scenario(name), scenario(work));
        let mistaken = Box::leak(Box::new(Scenario { number: name.number, expect: name.expect, ..*work }));
        let measured = run(&[mistaken], applied).await;
        assert_eq!(measured.outcomes[0].passes[0].unmet.len(), 2, "S{}", name.number);
    }
}

#[tokio::test]
async fn every_other_thing_that_stops_commits_is_named_for_what_it_is() {
    // A relation lock, a pinned page, on-access pruning, and no standby at all.
    let expected = [(8, Wait::Lock), (16, Wait::Snapshot), (17, Wait::BufferPin), (19, Wait::Absent)];
    let measured = quick(&expected.map(|(number, _)| number), |options| {
        options.levels = Some(vec![Level::RemoteApply]);
    })
    .await;
    for (number, wait) in expected {
        let outcome = measured.outcomes.iter().find(|outcome| outcome.number == number).unwrap();
        let pass = pass_at(outcome, Level::RemoteApply);
        assert_eq!(pass.unmet, [""; 0], "S{number}");
        let (length, cause) = stall(pass).expect("commits stopped");
        eprintln!("S{number}: a stall of {length:?} by a blocker of {:?}", pass.blocker);
        assert_eq!(cause, wait, "S{number}");
        assert!(length >= pass.blocker.unwrap().mul_f64(0.9), "S{number}: {length:?} {:?}", pass.blocker);
    }
}

/// Something is broken, and named; in the control and at the level that does not wait, nothing stops.
async fn broken(number: u32, causes: &[Wait], majors: &[u32]) {
    for major in majors {
        let measured = quick(&[number], |options| options.major = Some(*major)).await;
        let outcome = &measured.outcomes[0];
        assert_eq!(outcome.failed, None, "{major}: S{number}");
        let mut controls = 0;
        for pass in &outcome.passes {
            let (level, control) = (pass.blocks[0].level, pass.conditions.control);
            let what = format!("{major}: S{number} {level}, control: {control}");
            assert_eq!(pass.unmet, [""; 0], "{what}");
            controls += usize::from(control);
            if control || level < Level::RemoteWrite {
                assert_eq!(stall(pass), None, "{what}");
                assert!(pass.blocks[0].committed > 100, "{what}");
                continue;
            }
            let (length, cause) = stall(pass).unwrap_or_else(|| panic!("{what}: commits went on"));
            eprintln!("{what}: a stall of {length:?} ({cause:?}) by {:?}", pass.blocker);
            assert!(causes.contains(&cause), "{what}: {cause:?}");
            assert!(length >= pass.blocker.unwrap().mul_f64(0.9), "{what}: {length:?} {:?}", pass.blocker);
        }
        assert_eq!(controls, 1);
    }
}

#[tokio::test]
async fn a_receiver_that_hangs_is_named() {
    broken(22, &[Wait::Unreceived], &super::user::majors()).await;
    broken(23, &[Wait::Unreceived], &super::user::majors()[..1]).await;
}

#[tokio::test]
async fn a_network_that_carries_nothing_is_named_and_then_the_standby_that_was_given_up() {
    broken(24, &[Wait::Absent], &super::user::majors()).await;
}

#[tokio::test]
async fn a_disk_that_is_frozen_is_named() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root may freeze a file system");
        return;
    }
    broken(25, &[Wait::Unflushed], &super::user::majors()).await;
}

/// In the control nothing is slow.
#[tokio::test]
async fn what_is_slow_on_the_way_is_seen_and_not_in_the_control() {
    let is_root = rustix::process::geteuid().is_root();
    for number in [26, 27, 28, 29, 32].into_iter().filter(|number| *number == 26 || is_root) {
        for major in super::user::majors() {
            let measured = quick(&[number], |options| {
                (options.levels, options.major) = (Some(vec![Level::RemoteWrite, Level::On]), Some(major));
            })
            .await;
            let outcome = &measured.outcomes[0];
            assert_eq!(outcome.failed, None, "{major}: S{number}");
            let controls: Vec<bool> = outcome.passes.iter().map(|pass| pass.conditions.control).collect();
            assert_eq!(controls.iter().filter(|control| **control).count(), 1, "{controls:?}");
            for pass in &outcome.passes {
                let control = pass.conditions.control;
                assert_eq!(pass.unmet, [""; 0], "{major}: S{number}, control: {control}");
            }
        }
    }
}

#[tokio::test]
async fn readers_are_ended_when_the_standby_is_not_to_wait_for_them() {
    for (delay_ms, stops) in [(0, false), (1_500, true)] {
        let measured = quick(&[2, 8, 16, 17], |options| {
            options.levels = Some(vec![Level::RemoteApply]);
            options.max_standby_delay_ms = delay_ms;
        })
        .await;
        for outcome in &measured.outcomes {
            let pass = pass_at(outcome, Level::RemoteApply);
            let what = format!("S{}, {delay_ms} ms", outcome.number);
            assert_eq!(pass.unmet, [""; 0], "{what}");
            assert_eq!(outcome.failed, None, "{what}");
            assert!(pass.cancelled > 0, "{what}");
            assert!(pass.blocker.unwrap() < Duration::from_millis(2_800), "{what}: {:?}", pass.blocker);
            assert_eq!(stall(pass).is_some(), stops, "{what}: {:?}", pass.blocks[0].gaps);
        }
    }
}

#[tokio::test]
async fn feedback_keeps_a_snapshot_from_being_in_the_way() {
    let measured = quick(&[2], |options| {
        options.levels = Some(vec![Level::RemoteApply]);
        options.feedback = Some(vec![true]);
    })
    .await;
    let pass = &measured.outcomes[0].passes[0];
    assert!(pass.conditions.feedback);
    assert_eq!(pass.unmet, [""; 0]);
    assert_eq!(stall(pass), None);
    assert!(pass.blocks[0].committed > 100);
}

#[tokio::test]
async fn a_commit_that_is_cancelled_while_it_waits_has_happened() {
    let measured = quick(&[20], |_| {}).await;
    let pass = &measured.outcomes[0].passes[0];
    assert_eq!(pass.unmet, [""; 0]);
    assert_eq!(pass.blocks[0].committed, 1);
    // It did not wait for the reader to end.
    assert!(pass.blocks[0].elapsed < pass.blocker.unwrap(), "{:?}", pass.blocks[0].elapsed);
}

#[tokio::test]
async fn a_known_delay_is_what_is_added() {
    let measured = quick(&[18], |_| {}).await;
    let pass = &measured.outcomes[0].passes[0];
    assert_eq!(pass.unmet, [""; 0]);
    let delay = Duration::from_millis(50);
    let (with, without): (Vec<_>, Vec<_>) = pass.blocks.iter().partition(|block| block.apply_delay == delay);
    assert_eq!((with.len(), without.len()), (2, 2));
    assert!(without.iter().all(|block| block.apply_delay.is_zero()));
    for block in with {
        // No commit can be faster than the delay; on a machine at rest few are much slower.
        assert!(block.response.min() >= delay.mul_f64(0.9), "{:?}", block.response);
        assert!(block.committed > 0, "{:?}", block.failed);
    }
}

#[tokio::test]
async fn blocks_of_all_levels_are_interleaved_at_one_rate() {
    let measured = quick(&[1, 6], |_| {}).await;
    for outcome in &measured.outcomes {
        let pass = &outcome.passes[0];
        assert_eq!(pass.unmet, [""; 0], "S{}", outcome.number);
        let (open, closed): (Vec<_>, Vec<_>) =
            pass.blocks.iter().partition(|block| !block.response.is_empty());
        for level in [Level::RemoteWrite, Level::RemoteApply] {
            let count = |blocks: &[&duramen_replication::outcome::Block]| {
                blocks.iter().filter(|block| block.level == level).count()
            };
            assert_eq!((count(&open), count(&closed)), (2, 1), "S{} {level}", outcome.number);
        }
        assert!(pass.wal.bytes > 0 && !pass.wal.records.is_empty());
        for block in &pass.blocks {
            assert!(block.committed > 0, "S{}: {:?}", outcome.number, block.failed);
            assert_eq!(block.failed, None, "S{}", outcome.number);
            assert!(block.commits.windows(2).all(|pair| pair[0] <= pair[1]));
            assert_eq!(block.commits.len() as u64, block.committed);
        }
    }
}

#[tokio::test]
async fn what_was_committed_is_seen_on_the_standby_at_once_only_at_remote_apply() {
    let measured = quick(&[1], |options| {
        options.levels = Some(vec![Level::Local, Level::RemoteApply]);
    })
    .await;
    let [local, applied] = &measured.staleness[..] else {
        panic!("{:?}: {:?}", measured.staleness, measured.notes)
    };
    assert_eq!((local.level, applied.level), (Level::Local, Level::RemoteApply));
    assert_eq!(applied.stale, 0);
    assert!(applied.commits > 0 && local.commits == applied.commits);
    assert_eq!(local.visible_after.count(), local.commits);
}

/// What is done before a block takes seconds; it must not be taken from the time of its load.
#[tokio::test]
async fn every_block_lasts_as_long_as_it_is_to_and_has_something_beside_it() {
    for major in super::user::majors() {
        let measured = quick(&[5, 6, 15], |options| options.major = Some(major)).await;
        let block = Options { quick: true, ..Options::new("unused", "unused") }.block();
        for outcome in &measured.outcomes {
            assert_eq!(outcome.failed, None, "{major}: S{}", outcome.number);
            let pass = &outcome.passes[0];
            for one in &pass.blocks {
                let (elapsed, committed) = (one.elapsed, one.committed);
                assert!(
                    elapsed >= block,
                    "{major}: S{} {}: {elapsed:?}, {committed} commits",
                    outcome.number,
                    one.level
                );
            }
            assert_eq!(pass.unmet, [""; 0], "{major}: S{}", outcome.number);
        }
    }
}

#[tokio::test]
async fn one_statement_and_growing_numbers_of_clients_have_no_gaps() {
    let measured = quick(&[11, 14], |_| {}).await;
    for outcome in &measured.outcomes {
        assert_eq!(outcome.failed, None, "S{}", outcome.number);
        for block in outcome.passes.iter().flat_map(|pass| &pass.blocks) {
            assert!(block.committed > 0, "S{}: {:?}", outcome.number, block.failed);
            assert_eq!(block.gaps, [], "S{} {}", outcome.number, block.level);
        }
    }
}
