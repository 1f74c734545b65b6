//! Durable functions over four databases, two of them pairs under Patroni, while a leader and workers are killed: `make test-cluster`.
//! (SH-4, SH-7 and F-1 of the design pages.)
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The evidence of a run of `duramen lab drill shards`, and its exit status.
fn held(arguments: &[&str]) -> (serde_json::Value, i32) {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let place = dir.path().join("lab");
    let document = dir.path().join("shards.json");
    let status = Command::new(env!("CARGO_BIN_EXE_duramen"))
        .args(["lab", "drill", "shards"])
        .args(arguments)
        .arg("--dir")
        .arg(&place)
        .arg("--json")
        .arg(&document)
        .status()
        .expect("it runs");
    assert_eq!(std::fs::read_dir(&place).expect("it is there").count(), 0, "something is left in the folder");
    let text = std::fs::read_to_string(&document).expect("the evidence");
    (serde_json::from_str(&text).expect("JSON"), status.code().expect("an exit status"))
}

fn figure(evidence: &serde_json::Value, name: &str) -> f64 {
    let measurements = evidence["measurements"].as_array().expect("measurements");
    let found = measurements.iter().find(|measurement| measurement["name"] == name);
    found.unwrap_or_else(|| panic!("{name}"))["max"].as_f64().expect("a number")
}

#[test]
fn with_synchronous_standbys_nothing_is_lost_and_nothing_is_done_twice() {
    let (evidence, status) = held(&["--failovers", "1", "--kills", "6"]);
    assert_eq!((status, &evidence["verdict"]), (0, &"pass".into()), "{:#}", evidence["checks"]);
    for check in ["nothing_lost", "nothing_twice", "nothing_strange", "all_done", "none_failed"] {
        let checks = evidence["checks"].as_array().expect("checks");
        assert!(checks.iter().any(|found| found["name"] == check && found["passed"] == true), "{check}");
    }
    assert!(figure(&evidence, "acknowledged_instances") > 500.0);
    // The fault happened, and the other shards went on.
    assert!(figure(&evidence, "gap_s/failed_over") > 8.0);
    assert!(figure(&evidence, "gap_s/others") < 5.0);
}
