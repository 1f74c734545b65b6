//! Small runs over a sound store.

use crate::store::{matrix::Matrix, ops::OPERATIONS, table::print_table, Sabotage};
use duramen_measure::evidence::{Evidence, Verdict};
use duramen_reports::suite::run;
use duramen_store::Durability;

use super::{check, noticed, small, spoilt};

#[test]
fn every_operation_is_measured_at_every_level_and_nothing_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small(dir.path(), "*", Sabotage::None);
    let documents = tempfile::tempdir().unwrap();
    options.output.json = Some(documents.path().join("store.json"));
    options.output.html = Some(documents.path().join("store.html"));
    let evidence = run(&options, &|_| {}).unwrap();

    let matrix = Matrix::from_evidence(&evidence);
    for operation in OPERATIONS.iter().filter(|op| op.level.is_none() && op.name != "event.append@100000") {
        for level in Durability::ALL {
            let cell = matrix.cell(operation.name, level);
            let cell = cell.unwrap_or_else(|| panic!("{} is not measured at {level}", operation.name));
            assert!(cell.figure.count > 0 && cell.figure.p50 > 0.0, "{:?}", cell.figure);
            assert!(cell.syncs_per_op().is_some() && cell.log_bytes_per_op().is_some(), "{}", cell.name());
        }
    }
    for threads in [1, 8, 32] {
        let name = format!("kv.put.100B/strict@{threads}");
        assert!(evidence.measurement(&name).is_some(), "{name} is not measured");
    }
    for threads in [1, 2, 8] {
        let name = format!("kv.get.100B/memory@{threads}");
        assert!(evidence.measurement(&name).is_some(), "{name} is not measured");
    }
    // Each slice is a block: what a comparison of runs is made of.
    for name in ["kv.get.100B/memory", "kv.put.100B/strict", "kv.get.100B/memory.ops_per_s", "kv.scan/memory"]
    {
        let blocks = evidence.blocks(name).unwrap_or_else(|| panic!("{name} keeps no blocks"));
        let figure = evidence.measurement(name).unwrap();
        assert!(blocks.len() == 3 && blocks.iter().all(|block| block.len() == 1), "{name}: {blocks:?}");
        let is_near = |block: &f64| *block > figure.p50 / 100.0 && *block < figure.p50 * 100.0;
        assert!(blocks.concat().iter().all(is_near), "{name}: {blocks:?} of {}", figure.p50);
    }
    assert_eq!(evidence.verdict, Verdict::Pass, "{:#?}", evidence.checks);
    for name in [
        "operations_did_their_work",
        "reads_never_log",
        "one_sync_per_strict_write",
        "buffered_really_batches",
    ] {
        assert!(check(&evidence, name).passed, "{:?}", check(&evidence, name));
    }
    // What is counted is the same on every machine; what is timed is not looked at here.
    for rule in ["read_syncs_or_appends", "several_syncs_per_write", "not_measured"] {
        assert_eq!(noticed(&evidence, rule), [""; 0], "{rule}");
    }

    let read = Evidence::read(options.output.json.as_deref().unwrap()).unwrap();
    assert_eq!(read, evidence);
    let page = std::fs::read_to_string(options.output.html.unwrap()).unwrap();
    assert!(page.contains("The embedded store") && page.contains("kv.put.100B"));
    let table = print_table(&evidence);
    assert!(table.contains("kv.put.100B @8") && table.contains("verdict: pass"), "{table}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something is left of the stores");
}

#[test]
fn one_level_and_a_few_operations_are_measured_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small(dir.path(), "state.*,kv.get.100B", Sabotage::None);
    options.levels = vec![Durability::Memory];
    let evidence = run(&options, &|_| {}).unwrap();
    let matrix = Matrix::from_evidence(&evidence);
    assert_eq!(matrix.levels(), [Durability::Memory]);
    let mut names: Vec<&str> = matrix.operations().into_iter().map(|(op, _)| op).collect();
    names.sort_unstable();
    let expected =
        ["kv.bulk_load.size_ratio", "kv.get.100B", "state.cas", "state.init", "state.read", "state.set"];
    assert_eq!(names, expected);
    assert!(evidence.checks.iter().all(|check| check.name != "one_sync_per_strict_write"));
}

#[test]
fn reads_that_find_nothing_fail_the_run() {
    let evidence = spoilt("kv.get.100B,state.read", Sabotage::WrongReads);
    assert_eq!(evidence.verdict, Verdict::Fail);
    let check = check(&evidence, "operations_did_their_work");
    assert!(!check.passed && check.detail.contains("kv.get.100B"), "{check:?}");
    assert!(!check.detail.contains("state.read"), "{check:?}");
}
