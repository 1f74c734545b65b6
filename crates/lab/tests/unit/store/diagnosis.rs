//! The rules over documents, without a store: just above and just below what they let pass.

use crate::store::findings::of_document as diagnose;
use crate::store::{checks, findings, matrix::Matrix};
use duramen_measure::evidence::{Evidence, Measurement};

use super::{add, add_two, evidence};

/// A sound document: every level and kind of operation.
fn sound() -> Evidence {
    let mut evidence = evidence();
    for (level, us, syncs) in [("memory", 1.2, 0.0), ("buffered", 1.8, 0.0), ("strict", 950.0, 1.0)] {
        for op in ["kv.put.100B", "kv.delete", "state.set", "json.set_path", "event.append@1000"] {
            add(&mut evidence, &format!("{op}/{level}"), us, 1.0, syncs);
        }
        add(&mut evidence, &format!("event.append@100000/{level}"), us * 1.5, 1.0, syncs);
        for op in ["kv.get.100B", "state.read", "branch.switch", "kv.get@depth1"] {
            add(&mut evidence, &format!("{op}/{level}"), 0.6, 0.0, 0.0);
        }
        add(&mut evidence, &format!("kv.get@depth32/{level}"), 0.8, 0.0, 0.0);
    }
    evidence.measurements.push(Measurement::scalar("fsync_floor", "us", 900.0));
    evidence
}

fn rules(evidence: &Evidence) -> Vec<String> {
    findings::find(&Matrix::from_evidence(evidence)).into_iter().map(|finding| finding.rule).collect()
}

/// Replaces an operation's figures.
fn replace(evidence: &mut Evidence, name: &str, us: (f64, f64), appends: f64, syncs: f64) {
    let beside = format!("{name}.");
    evidence.measurements.retain(|m| m.name != name && !m.name.starts_with(&beside));
    add_two(evidence, name, us, appends, syncs);
}

#[test]
fn a_sound_document_has_no_finding_and_passes_every_check() {
    let evidence = sound();
    assert_eq!(diagnose(&evidence), []);
    let checks = checks::all(&Matrix::from_evidence(&evidence));
    assert_eq!(checks.len(), 3);
    assert!(checks.iter().all(|check| check.passed), "{checks:#?}");
}

#[test]
fn bars_and_sizes_are_found_in_the_document_alone() {
    let mut evidence = sound();
    replace(&mut evidence, "kv.put.100B/buffered", (2.3, 2.3), 1.0, 0.0);
    evidence.configure("vectors", 5);
    let rules: Vec<String> = diagnose(&evidence).into_iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["other_size", "target_missed"]);
}

#[test]
fn one_sync_in_a_thousand_reads_is_noticed() {
    let mut evidence = sound();
    replace(&mut evidence, "kv.get.100B/strict", (0.6, 0.6), 0.0, 0.001);
    assert_eq!(rules(&evidence), ["read_syncs_or_appends"]);
}

#[test]
fn a_sync_for_a_new_segment_is_let_pass_and_a_second_for_each_write_is_not() {
    let mut evidence = sound();
    replace(&mut evidence, "kv.put.100B/strict", (950.0, 950.0), 1.0, 1.009);
    assert_eq!(rules(&evidence), [""; 0]);
    replace(&mut evidence, "kv.put.100B/strict", (950.0, 950.0), 1.0, 1.02);
    assert_eq!(rules(&evidence), ["several_syncs_per_write"]);
    replace(&mut evidence, "kv.put.100B/strict", (950.0, 950.0), 1.0, 0.9);
    let checks = checks::all(&Matrix::from_evidence(&evidence));
    assert!(checks.iter().any(|check| check.name == "one_sync_per_strict_write" && !check.passed));
}

#[test]
fn buffered_is_held_against_memory_and_strict() {
    let mut evidence = sound();
    let finds = |evidence: &Evidence| {
        diagnose(evidence).into_iter().any(|finding| finding.rule == "buffered_above_memory")
    };
    replace(&mut evidence, "state.set/buffered", (3.1, 3.1), 1.0, 0.0);
    assert!(!finds(&evidence));
    // Slower is told, and no reason to fail: what is counted decides.
    replace(&mut evidence, "state.set/buffered", (3.3, 3.3), 1.0, 0.0);
    assert!(finds(&evidence));
    assert!(checks::buffered_really_batches(&Matrix::from_evidence(&evidence)).0);
    replace(&mut evidence, "state.set/buffered", (3.1, 3.1), 1.0, 1.0);
    let (passed, detail) = checks::buffered_really_batches(&Matrix::from_evidence(&evidence));
    assert!(!passed && detail.contains("state.set"), "{detail}");
    replace(&mut evidence, "state.set/buffered", (3.1, 3.1), 1.0, 0.0);
    assert_eq!(rules(&evidence), [""; 0]);
    for (us, syncs) in [(600.0, 0.0), (3.0, 1.0)] {
        replace(&mut evidence, "state.set/buffered", (us, us), 1.0, syncs);
        let found = rules(&evidence);
        assert!(found.contains(&"buffered_near_strict".to_owned()), "{us} us, {syncs} syncs: {found:?}");
    }
}

#[test]
fn a_write_that_is_heavy_in_memory_too_may_be_as_slow_as_strict() {
    let mut evidence = sound();
    for (level, us, syncs) in
        [("memory", 16_000.0, 0.0), ("buffered", 49_000.0, 0.0), ("strict", 16_000.0, 1.0)]
    {
        add(&mut evidence, &format!("branch.merge.1000of1M/{level}"), us, 1.0, syncs);
    }
    assert_eq!(rules(&evidence), [""; 0]);
}

#[test]
fn siblings_two_modes_and_growth_have_their_limits() {
    let mut evidence = sound();
    replace(&mut evidence, "json.set_path/memory", (23.0, 23.0), 1.0, 0.0);
    assert_eq!(rules(&evidence), [""; 0]);
    replace(&mut evidence, "json.set_path/memory", (25.0, 25.0), 1.0, 0.0);
    assert_eq!(rules(&evidence), ["outlier_among_siblings"]);

    let mut evidence = sound();
    replace(&mut evidence, "json.set_path/memory", (1.2, 2.1), 1.0, 0.0);
    assert_eq!(rules(&evidence), [""; 0]);
    replace(&mut evidence, "json.set_path/memory", (1.2, 2.6), 1.0, 0.0);
    assert_eq!(rules(&evidence), ["two_modes"]);

    let mut evidence = sound();
    replace(&mut evidence, "event.append@100000/memory", (2.6, 2.6), 1.0, 0.0);
    assert_eq!(rules(&evidence), ["grows_with_log_length"]);
    let mut evidence = sound();
    replace(&mut evidence, "kv.get@depth32/strict", (1.7, 1.7), 0.0, 0.0);
    assert_eq!(rules(&evidence), ["grows_with_branch_depth"]);
}

#[test]
fn names_that_the_suite_does_not_know_are_no_trouble() {
    let mut evidence = sound();
    add(&mut evidence, "kv.transmogrify/memory", 5_000.0, 9.0, 9.0);
    add(&mut evidence, "kv.put.100B/eventual", 5_000.0, 9.0, 9.0);
    add(&mut evidence, "nonsense", 5_000.0, 9.0, 9.0);
    assert_eq!(rules(&evidence), [""; 0]);
}

#[test]
fn a_disk_with_moods_is_not_held_against_an_operation() {
    let mut evidence = sound();
    replace(&mut evidence, "json.set_path/strict", (25_000.0, 90_000.0), 1.0, 1.0);
    assert_eq!(rules(&evidence), ["outlier_among_siblings", "two_modes"]);
    for (figure, us) in [("fsync_floor_us", 24_000.0), ("fsync_floor_p95_us", 80_000.0)] {
        evidence.measurements.push(Measurement::scalar(format!("json.set_path/strict.{figure}"), "us", us));
    }
    assert_eq!(rules(&evidence), [""; 0]);
}
