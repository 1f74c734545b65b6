//! Threads in the orders in which they could run: the files of group commit and of reclamation themselves, over
//! primitives that a checker controls. It tries orders at random, half of them with few switches, since most errors
//! need few; and it finds by itself when all threads sleep. What it prints of a failure runs the same order again.

mod log;
mod reclamation;

use std::sync::Arc;

use log::{Core, Disk, LogError};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use shuttle::{Config, Runner};

/// Runs a scenario in `orders` orders of its threads.
fn check(orders: usize, scenario: impl Fn() + Send + Sync + Clone + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 17;
    Runner::new(RandomScheduler::new(orders / 2), config.clone()).run(scenario.clone());
    Runner::new(PctScheduler::new(3, orders / 2), config).run(scenario);
}

/// What was acknowledged to one committer.
#[derive(Debug, Default)]
struct Outcome {
    /// The last version that was acknowledged as durable.
    durable: u64,
    refused: bool,
}

/// Appends records of `bytes` bytes one by one, and waits for each to be durable.
fn commit(log: &Core, disk: &Disk, records: usize, bytes: usize) -> Outcome {
    let mut outcome = Outcome::default();
    for _ in 0..records {
        let waited = log.append(1, &vec![7; bytes]).and_then(|last| log.wait_durable(last).map(|()| last));
        match waited {
            Ok(last) => {
                assert!(!outcome.refused, "version {last} was taken after an error");
                assert!(last <= log.durable(), "version {last} was acknowledged too early");
                assert!(last <= disk.last_after_power_cut(), "version {last} was acknowledged and is lost");
                outcome.durable = last;
            }
            Err(_) => outcome.refused = true,
        }
    }
    outcome
}

fn spawn_committers(
    log: &Arc<Core>,
    disk: &Disk,
    threads: usize,
    records: usize,
    bytes: usize,
) -> Vec<thread::JoinHandle<Outcome>> {
    let spawn = |_| {
        let (log, disk) = (log.clone(), disk.clone());
        thread::spawn(move || commit(&log, &disk, records, bytes))
    };
    (0..threads).map(spawn).collect()
}

#[test]
fn every_committer_is_served_and_one_sync_serves_many() {
    check(600, || {
        let disk = Disk::default();
        let log = disk.open_log();
        let committers = spawn_committers(&log, &disk, 4, 2, 10);
        for committer in committers {
            assert!(!committer.join().unwrap().refused);
        }
        assert_eq!((log.last(), log.durable()), (8, 8));
        assert!(log.counters().syncs <= 8, "{:?}", log.counters());
    });
}

#[test]
fn the_watermark_of_what_is_durable_never_goes_back_nor_ahead_of_the_disk() {
    check(200, || {
        let disk = Disk::default();
        let log = disk.open_log();
        let committers = spawn_committers(&log, &disk, 2, 2, 10);
        // As the thread does that makes durable what nobody waits for.
        let old = {
            let log = log.clone();
            thread::spawn(move || log.wait_durable(log.last()).unwrap())
        };
        let mut before = 0;
        while before < 4 {
            let durable = log.durable();
            assert!(before <= durable && durable <= log.written() && log.written() <= log.last());
            assert!(durable <= disk.last_after_power_cut());
            before = durable;
            thread::yield_now();
        }
        committers.into_iter().for_each(|committer| assert!(!committer.join().unwrap().refused));
        old.join().unwrap();
    });
}

#[test]
fn a_failed_sync_refuses_everybody_and_leaves_nobody_asleep() {
    check(600, || {
        // The first two syncs are those of the header and of the first group, if groups are large.
        let disk = Disk::failing_after(2);
        let log = disk.open_log();
        let committers = spawn_committers(&log, &disk, 3, 3, 10);
        let outcomes: Vec<Outcome> =
            committers.into_iter().map(|committer| committer.join().unwrap()).collect();
        let durable = log.durable();
        assert!(outcomes.iter().all(|outcome| outcome.durable <= durable), "{outcomes:?}");
        assert!(durable <= disk.last_after_power_cut());
        // Three records each need at least three groups.
        assert!(outcomes.iter().all(|outcome| outcome.refused), "{outcomes:?}");
        assert!(matches!(log.append(1, b"late"), Err(LogError::Poisoned { .. })));
        assert!(log.wait_durable(durable).is_ok(), "what is durable stays so");
        assert!(log.wait_durable(log.last()).is_err());
    });
}

#[test]
fn segments_end_while_others_commit() {
    check(150, || {
        let disk = Disk::default();
        let log = disk.open_log();
        // Two records fill a segment.
        let committers = spawn_committers(&log, &disk, 3, 2, 1500);
        let checkpoint = {
            let log = log.clone();
            thread::spawn(move || {
                let held = log.last();
                log.rotate().unwrap();
                log.wait_durable(held).unwrap();
            })
        };
        committers.into_iter().for_each(|committer| assert!(!committer.join().unwrap().refused));
        checkpoint.join().unwrap();
        assert_eq!((log.last(), log.durable(), disk.last_after_power_cut()), (6, 6, 6));
    });
}

#[test]
fn closing_while_others_commit_loses_nothing_that_was_acknowledged() {
    check(300, || {
        let disk = Disk::default();
        let log = disk.open_log();
        let committers = spawn_committers(&log, &disk, 3, 2, 10);
        log.close().unwrap();
        for committer in committers {
            committer.join().unwrap();
        }
        assert_eq!(log.durable(), disk.last_after_power_cut());
        assert!(matches!(log.append(1, b"late"), Err(LogError::Poisoned { .. })));
    });
}
