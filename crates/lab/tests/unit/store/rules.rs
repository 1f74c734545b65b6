//! Each rule notices a store that is really spoilt in its way, and lets the other operations pass.

use crate::store::Sabotage;
use duramen_measure::evidence::Verdict;

use super::{check, noticed, spoilt};

#[test]
fn reads_that_leave_a_durable_note() {
    let evidence = spoilt("kv.get.100B,branch.switch,state.set", Sabotage::NotedReads);
    let mut names = noticed(&evidence, "read_syncs_or_appends");
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "branch.switch/buffered",
            "branch.switch/memory",
            "branch.switch/strict",
            "kv.get.100B/buffered",
            "kv.get.100B/memory",
            "kv.get.100B/strict"
        ]
    );
    assert!(!check(&evidence, "reads_never_log").passed);
    assert!(check(&evidence, "one_sync_per_strict_write").passed);
    assert_eq!(evidence.verdict, Verdict::Fail);
}

#[test]
fn a_buffered_level_that_waits_for_the_disk() {
    let evidence = spoilt("kv.put.100B,state.cas,kv.get.100B", Sabotage::StrictForBuffered);
    assert!(!check(&evidence, "buffered_really_batches").passed);
    assert!(check(&evidence, "reads_never_log").passed);
    let names = noticed(&evidence, "buffered_near_strict");
    assert_eq!(names, ["kv.put.100B/buffered", "state.cas/buffered"]);
}

#[test]
fn writes_that_are_two_commits() {
    let evidence = spoilt("kv.put.100B,branch.delete,kv.get.100B", Sabotage::TwoCommits);
    let names = noticed(&evidence, "several_syncs_per_write");
    assert!(names.contains(&"kv.put.100B/strict".to_owned()), "{names:?}");
    assert!(names.contains(&"branch.delete/strict".to_owned()), "{names:?}");
    let check = check(&evidence, "one_sync_per_strict_write");
    assert!(!check.passed && check.detail.contains("kv.put.100B/strict: 2.0"), "{check:?}");
}

#[test]
fn an_operation_that_does_what_its_siblings_do_not() {
    let evidence = spoilt("kv.put.100B,kv.delete,state.set,state.cas", Sabotage::SlowCells);
    let names = noticed(&evidence, "outlier_among_siblings");
    assert!(names.contains(&"state.set/memory".to_owned()), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("state.set/")), "{names:?}");
}

#[test]
fn every_eighth_write_that_does_more_than_the_others() {
    let evidence = spoilt("state.set,state.read", Sabotage::TwoModes);
    let names = noticed(&evidence, "two_modes");
    assert!(names.contains(&"state.set/memory".to_owned()), "{names:?}");
}

#[test]
fn appends_that_read_the_log_first() {
    let evidence = spoilt("event.append@*", Sabotage::GrowingAppends);
    let names = noticed(&evidence, "grows_with_log_length");
    assert!(names.contains(&"event.append/memory".to_owned()), "{names:?}");
}

#[test]
fn reads_that_ask_every_branch_above() {
    let evidence = spoilt("kv.get@*", Sabotage::LayeredReads);
    let names = noticed(&evidence, "grows_with_branch_depth");
    assert_eq!(names, ["kv.get/memory", "kv.get/buffered", "kv.get/strict"], "{:#?}", evidence.measurements);
}
