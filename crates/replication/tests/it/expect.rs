//! When a pass is said to be invalid, and in which words.

use std::time::Duration;

use duramen_measure::histogram::LatencyHistogram;
use duramen_replication::expect::{time_in, unmet, wait_expected, Circumstances};
use duramen_replication::outcome::{Block, BlockWal, Conditions, Pass, Sample, Wal};
use duramen_replication::pass::sample::PERIOD;
use duramen_replication::scenario::{Expect, Wait};
use duramen_replication::Level;

const NOW: Circumstances = Circumstances { major: 18, longest_wait: Duration::from_secs(4) };

fn pass(samples: Vec<Sample>) -> Pass {
    let block = Block {
        level: Level::RemoteApply,
        clients: 1,
        apply_delay: Duration::ZERO,
        begin: Duration::ZERO,
        elapsed: Duration::from_secs(6),
        response: LatencyHistogram::new(),
        service: LatencyHistogram::new(),
        commits: Vec::new(),
        committed: 2_000,
        failed: None,
        dropped: 0,
        gaps: Vec::new(),
        wal: None,
    };
    Pass {
        conditions: Conditions { feedback: false, rtt_ms: 0, control: false },
        repeat: 0,
        blocks: vec![block],
        blocker: Some(Duration::from_secs(4)),
        samples,
        wal: Wal::default(),
        held_up_at: Vec::new(),
        backlog_bytes: None,
        files_removed: None,
        mapping_files: None,
        cancelled: 0,
        unmet: Vec::new(),
    }
}

/// Ten samples a second for so long, each with this wait, from a time on.
fn waiting(from_ms: u64, for_ms: u64, wait: Wait) -> Vec<Sample> {
    (from_ms..from_ms + for_ms)
        .step_by(100)
        .map(|at| Sample { at: Duration::from_millis(at), wait: Some(wait), ..Sample::default() })
        .collect()
}

#[test]
fn half_of_the_time_is_enough_for_a_wait() {
    let expect = [Expect::Startup(Wait::Snapshot)];
    assert_eq!(unmet(&expect, &pass(waiting(1_000, 2_000, Wait::Snapshot)), &NOW), [""; 0]);
    let short = unmet(&expect, &pass(waiting(1_000, 1_900, Wait::Snapshot)), &NOW);
    assert!(short[0].contains("1.9 s") && short[0].contains("2.0 s"), "{short:?}");
}

#[test]
fn a_wait_that_is_cut_short_is_expected_for_as_long_as_it_is_let() {
    let expect = [Expect::Startup(Wait::Snapshot)];
    let cut = |ms| Circumstances { longest_wait: Duration::from_millis(ms), ..NOW };
    let quiet = pass(Vec::new());
    assert_eq!(unmet(&expect, &quiet, &cut(0)), [""; 0]);
    assert_eq!(unmet(&expect, &quiet, &cut(500)), [""; 0], "too short for the samplers");
    assert_eq!(unmet(&expect, &quiet, &cut(1_000)).len(), 1);
    assert_eq!(unmet(&expect, &pass(waiting(0, 900, Wait::Snapshot)), &cut(1_000)), [""; 0]);
}

#[test]
fn another_wait_is_named() {
    let entry = unmet(&[Expect::Startup(Wait::Lock)], &pass(waiting(0, 4_000, Wait::Snapshot)), &NOW);
    assert!(
        entry[0].contains("for 0.0 s it was seen that the startup process waited for a reader's lock"),
        "{entry:?}"
    );
    assert!(entry[0].contains("for 4.0 s the startup process waited for a reader's snapshot"), "{entry:?}");
}

#[test]
fn a_control_in_which_something_is_stuck_is_none() {
    let expect = [Expect::Startup(Wait::Unreceived), Expect::StallsFrom(Level::RemoteWrite)];
    let stuck = |from, to| -> Vec<Sample> {
        let seen = waiting(from, to, Wait::Unreceived).into_iter();
        seen.map(|sample| Sample { stuck: sample.wait, wait: None, ..sample }).collect()
    };
    let broken = pass(stuck(0, 4_000));
    assert_eq!(unmet(&expect, &broken, &NOW), [""; 0]);
    assert_eq!(unmet(&expect, &pass(Vec::new()), &NOW).len(), 1, "what is to be broken was not");
    let control = |samples| {
        let mut control = pass(samples);
        control.conditions.control = true;
        unmet(&expect, &control, &NOW)
    };
    assert_eq!(control(Vec::new()), [""; 0]);
    let found = control(stuck(0, 4_000));
    assert!(found.len() == 1 && found[0].contains("although nothing was broken"), "{found:?}");
}

#[test]
fn a_stage_that_is_made_slow_lags_and_in_the_control_no_longer_than_by_itself() {
    let lagging = |expect, write_ms, flush_ms, control| {
        let lags = |sample| Sample { write_lag_ms: Some(write_ms), flush_lag_ms: Some(flush_ms), ..sample };
        let mut pass = pass(waiting(0, 1_000, Wait::Replaying).into_iter().map(lags).collect());
        pass.conditions.control = control;
        unmet(&[expect], &pass, &NOW).is_empty()
    };
    let (write, flush) = (Expect::WriteLag(20.0), Expect::FlushLag(1.0));
    assert_eq!([lagging(write, 21.0, 22.0, false), lagging(write, 19.0, 60.0, false)], [true, false]);
    assert_eq!([lagging(write, 19.0, 60.0, true), lagging(write, 21.0, 22.0, true)], [true, false]);
    assert_eq!([lagging(flush, 9.0, 10.1, false), lagging(flush, 9.0, 9.5, false)], [true, false]);
    assert_eq!([lagging(flush, 9.0, 13.0, true), lagging(flush, 9.0, 15.0, true)], [true, false]);
    assert_eq!(unmet(&[flush], &pass(Vec::new()), &NOW).len(), 1, "nothing is known");
}

#[test]
fn packets_that_are_lost_make_some_samples_slow_and_in_the_control_fewer() {
    let lagging = |slow: usize, control| {
        let mut samples = waiting(0, 4_000, Wait::Replaying);
        let count = samples.len();
        for (index, sample) in samples.iter_mut().enumerate() {
            sample.write_lag_ms = Some(if index * 100 < slow * count { 210.0 } else { 0.2 });
        }
        let mut pass = pass(samples);
        pass.conditions.control = control;
        unmet(&[Expect::SomeWriteLag(20.0)], &pass, &NOW).is_empty()
    };
    assert_eq!([lagging(15, false), lagging(5, false)], [true, false]);
    assert_eq!([lagging(5, true), lagging(15, true)], [true, false]);
}

/// A wait that is over when the next sample is taken is forgotten by `write_lag`: then it counts how long something was not written.
#[test]
fn what_is_not_written_yet_is_late_although_no_lag_is_told() {
    let late = |stands: usize| {
        let mut samples = waiting(0, 4_000, Wait::Replaying);
        for (index, sample) in samples.iter_mut().enumerate() {
            let at = index as u64 * 100;
            // The primary goes on; what the standby has written stands still from the tenth sample on.
            sample.flushed_lsn = at + 100;
            sample.written_lsn = if (10..10 + stands).contains(&index) { 1_000 } else { at + 100 };
            sample.write_lag_ms = Some(0.2);
        }
        unmet(&[Expect::SomeWriteLag(20.0)], &pass(samples), &NOW).is_empty()
    };
    assert_eq!([late(12), late(3)], [true, false]);
}

#[test]
fn a_sampler_that_slept_does_not_count_what_it_has_not_seen() {
    let mut samples = waiting(0, 200, Wait::Snapshot);
    samples.extend(waiting(5_000, 100, Wait::Snapshot));
    // 100 ms to the next sample, then no more than 300 ms, then one last sample of 100 ms.
    assert_eq!(time_in(&samples, Wait::Snapshot), Duration::from_millis(500));
}

#[test]
fn feedback_that_helps_must_help() {
    let expect = [Expect::Startup(Wait::Snapshot), Expect::FeedbackHelps(true)];
    let mut fed = pass(waiting(0, 4_000, Wait::Snapshot));
    fed.conditions.feedback = true;
    let entry = unmet(&expect, &fed, &NOW);
    assert!(entry.len() == 1 && entry[0].contains("although hot_standby_feedback was on"), "{entry:?}");
    fed.samples = Vec::new();
    assert_eq!(unmet(&expect, &fed, &NOW), [""; 0]);
    assert_eq!(unmet(&expect, &pass(Vec::new()), &NOW).len(), 1, "without feedback the wait is missing");

    let expect = [Expect::Startup(Wait::Lock), Expect::FeedbackHelps(false)];
    assert_eq!(unmet(&expect, &fed, &NOW).len(), 1, "feedback does not help against a lock");
    fed.samples = waiting(0, 4_000, Wait::Lock);
    assert_eq!(unmet(&expect, &fed, &NOW), [""; 0]);
}

#[test]
fn what_depends_on_the_version_is_expected_only_there() {
    let expect = [Expect::StartupSince(17, Wait::BufferPin)];
    let waited = pass(waiting(0, 4_000, Wait::BufferPin));
    let (old, quiet) = (Circumstances { major: 16, ..NOW }, pass(Vec::new()));
    assert_eq!(unmet(&expect, &waited, &NOW), [""; 0]);
    assert_eq!(unmet(&expect, &quiet, &NOW).len(), 1);
    assert_eq!(unmet(&expect, &quiet, &old), [""; 0]);
    let entry = unmet(&expect, &waited, &old);
    assert!(entry[0].contains("not expected before PostgreSQL 17"), "{entry:?}");
    assert!(wait_expected(&expect, 17, false) && !wait_expected(&expect, 16, false));
}

#[test]
fn records_are_counted_by_manager_and_by_type() {
    let mut pass = pass(Vec::new());
    let record = |name: &str, count| (name.to_owned(), count, 0, 0);
    pass.wal.records = vec![
        record("Btree/INSERT_LEAF", 3_000),
        record("Btree/DEDUP", 10),
        record("Heap2/PRUNE_ON_ACCESS", 4),
        record("Heap2/PRUNE_VACUUM_SCAN", 2),
        record("Heap/INSERT", 900),
    ];
    let met = |expect| unmet(&[expect], &pass, &NOW).is_empty();
    assert!(met(Expect::Records("Btree", 3_010, false)) && !met(Expect::Records("Btree", 3_011, false)));
    assert!(met(Expect::Records("Btree", 1_505, true)) && !met(Expect::Records("Btree", 1_506, true)));
    assert!(met(Expect::Records("Heap2/PRUNE", 6, false)) && !met(Expect::Records("Heap2/PRUNE", 7, false)));
    assert!(met(Expect::Records("Heap", 900, false)) && !met(Expect::Records("Heap", 901, false)));
    assert!(!met(Expect::Records("Gin", 1, false)));
}

#[test]
fn what_wrote_the_record_that_was_waited_for_is_expected_by_version() {
    let by_vacuum = [
        Expect::Since(17, &Expect::HeldUpAt(&["Heap2/PRUNE_VACUUM_SCAN"])),
        Expect::Before(17, &Expect::HeldUpAt(&["Heap2/PRUNE"])),
        Expect::Before(17, &Expect::Records("Heap2/VACUUM", 1, false)),
        Expect::FeedbackHelps(true),
    ];
    let (old, short) = (Circumstances { major: 16, ..NOW }, Circumstances { longest_wait: PERIOD, ..NOW });
    let at = |record: &str| {
        let mut pass = pass(Vec::new());
        pass.held_up_at = vec![(record.to_owned(), 30), ("Heap2/PRUNE_VACUUM_SCAN".to_owned(), 2)];
        pass
    };
    assert_eq!(unmet(&by_vacuum, &at("Heap2/PRUNE_VACUUM_SCAN"), &NOW), [""; 0]);
    let entry = unmet(&by_vacuum, &at("Heap2/PRUNE_ON_ACCESS"), &NOW);
    let expected = "held up at a record Heap2/PRUNE_ON_ACCESS, and Heap2/PRUNE_VACUUM_SCAN was expected";
    assert!(entry.len() == 1 && entry[0].contains(expected), "{entry:?}");
    let unknown = unmet(&by_vacuum, &pass(Vec::new()), &NOW);
    assert!(unknown.len() == 1 && unknown[0].contains("not known at which record"), "{unknown:?}");
    assert_eq!(unmet(&by_vacuum, &pass(Vec::new()), &short), [""; 0], "too short to be seen");
    let mut fed = pass(Vec::new());
    fed.conditions.feedback = true;
    assert_eq!(unmet(&by_vacuum, &fed, &NOW), [""; 0], "what would conflict is not written");
    // Up to 16 one name stands for both, and only VACUUM comes back to what was pruned.
    let mut pruned = at("Heap2/PRUNE");
    let entry = unmet(&by_vacuum, &pruned, &old);
    assert!(entry.len() == 1 && entry[0].contains("0 records Heap2/VACUUM"), "{entry:?}");
    let on_access = [Expect::Before(17, &Expect::NoRecords("Heap2/VACUUM"))];
    assert_eq!(unmet(&on_access, &pruned, &old), [""; 0]);
    pruned.wal.records = vec![("Heap2/VACUUM".to_owned(), 1, 0, 0)];
    assert_eq!(unmet(&by_vacuum, &pruned, &old), [""; 0]);
    assert!(unmet(&on_access, &pruned, &old)[0].contains("none was expected"));
    assert_eq!(unmet(&on_access, &pruned, &NOW), [""; 0]);
}

#[test]
fn nothing_committed_is_no_rate() {
    let mut pass = pass(Vec::new());
    pass.blocks[0].committed = 0;
    pass.wal.records = vec![("Btree/INSERT_LEAF".to_owned(), 5, 0, 0)];
    assert_eq!(unmet(&[Expect::Records("Btree", 1, true)], &pass, &NOW).len(), 1);
}

#[test]
fn backlog_and_files_are_held_against_their_least() {
    let mut pass = pass(Vec::new());
    let expect = [Expect::Backlog(1_000), Expect::FilesRemoved(50)];
    assert_eq!(unmet(&expect, &pass, &NOW).len(), 2, "what is not known is not met");
    (pass.backlog_bytes, pass.files_removed) = (Some(999), Some(49));
    assert_eq!(unmet(&expect, &pass, &NOW).len(), 2);
    (pass.backlog_bytes, pass.files_removed) = (Some(1_000), Some(50));
    assert_eq!(unmet(&expect, &pass, &NOW), [""; 0]);
}

#[test]
fn mappings_are_held_against_their_least_and_against_none() {
    let mut pass = pass(Vec::new());
    assert_eq!(unmet(&[Expect::MappingFiles(1)], &pass, &NOW).len(), 1);
    assert_eq!(unmet(&[Expect::NoMappingFiles], &pass, &NOW), [""; 0]);
    pass.mapping_files = Some(2);
    assert_eq!(unmet(&[Expect::MappingFiles(2)], &pass, &NOW), [""; 0]);
    assert!(unmet(&[Expect::NoMappingFiles], &pass, &NOW)[0].contains("wrote 2 files"));
}

/// A load of which only a part had something beside it is two loads in one figure.
#[test]
fn what_runs_beside_the_load_must_run_beside_every_block() {
    let mut pass = pass(Vec::new());
    let wal = |btree, with_images| {
        Some(BlockWal { records: vec![("Btree/INSERT_LEAF".to_owned(), btree)], with_images })
    };
    pass.blocks = vec![pass.blocks[0].clone(); 3];
    let records = [Expect::BlockRecords("Btree", 10_000, 1)];
    let images = [Expect::BlockImages(100, true), Expect::BlockImages(150, false)];
    pass.blocks.iter_mut().for_each(|block| block.wal = wal(12_000, 200));
    assert_eq!(unmet(&[&records[..], &images].concat(), &pass, &NOW), [""; 0]);
    // As many in all as before, but not beside the last block: its 2,000 commits wrote these themselves.
    (pass.blocks[0].wal, pass.blocks[2].wal) = (wal(34_000, 400), wal(2_000, 0));
    pass.blocks[2].level = Level::On;
    let entry = unmet(&records, &pass, &NOW);
    assert!(
        entry.len() == 1 && entry[0].contains("1 of 3 blocks") && entry[0].contains("at on: 0"),
        "{entry:?}"
    );
    assert_eq!(unmet(&images, &pass, &NOW).len(), 2);
    pass.blocks[2].wal = None;
    assert_eq!(unmet(&records, &pass, &NOW).len(), 1, "what is not known is not met");
}

#[test]
fn who_stalls_is_not_a_question_of_one_pass() {
    assert_eq!(unmet(&[Expect::StallsFrom(Level::Off)], &pass(Vec::new()), &NOW), [""; 0]);
}

#[test]
fn a_load_that_fails_is_no_load() {
    let mut pass = pass(Vec::new());
    let mut with = |committed, failed, dropped| {
        let block = &mut pass.blocks[0];
        (block.committed, block.dropped) = (committed, dropped);
        block.failed = Some((failed, "deadlock detected".to_owned()));
        unmet(&[], &pass, &NOW)
    };
    assert_eq!(with(990, 10, 0), [""; 0], "one of a hundred is let pass");
    assert_eq!(
        with(989, 11, 0),
        ["11 of 1000 operations at remote_apply failed, the first: deadlock detected"]
    );
    assert!(with(100_000, 1, 1)[0].contains("(1 of them because the queue was full)"), "nothing may be lost");
    assert_eq!(with(0, 3, 0).len(), 1);
}
