//! Passes on a real pair: what is brought about is seen, and is named for what it is.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use duramen_lab::replication::outcome::{Outcome, Pass};
use duramen_lab::replication::pair::Pair;
use duramen_lab::replication::scenario::{catalog, Scenario, Wait};
use duramen_lab::replication::suite::{measure, Measured};
use duramen_lab::replication::{Level, Options};

/// Runs scenarios as in a quick run, on a pair of our own.
async fn quick(numbers: &[u32], change: impl FnOnce(&mut Options)) -> Measured {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut options = Options { quick: true, ..Options::new(dir.path(), "duramen") };
    change(&mut options);
    let scenarios: Vec<&'static Scenario> =
        catalog().iter().filter(|scenario| numbers.contains(&scenario.number)).collect();
    assert_eq!(scenarios.len(), numbers.len(), "a scenario is not there");
    let say = |doing: &str| eprintln!("{doing}");
    let pair = Pair::open(&options, &say).await.unwrap();
    let measured = measure(&pair, &options, &scenarios, 42, &say).await;
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
