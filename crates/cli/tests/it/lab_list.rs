//! `duramen lab list` lists the suites, and the scenarios of `replication`.

use serde_json::Value;
use std::process::{Command, Output};

fn list(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_duramen"));
    command.arg("--home").arg(home.path()).args(["lab", "list"]).args(arguments);
    command.output().expect("the program starts")
}

#[test]
fn every_suite_has_a_line_and_replication_its_scenarios() {
    let output = list(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    for suite in ["branches", "store", "functions", "packs", "replication", "watch"] {
        assert_eq!(text.lines().filter(|line| line.starts_with(suite)).count(), 1, "{text}");
    }
    assert!(text.lines().any(|line| line.starts_with("  S2 ")), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(output.status.success());
}

#[test]
fn programs_get_the_same_as_json() {
    let suites: Value = serde_json::from_slice(&list(&["--json"]).stdout).unwrap();
    let names: Vec<&str> =
        suites.as_array().unwrap().iter().filter_map(|suite| suite["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "branches",
            "store",
            "functions",
            "packs",
            "lineage",
            "replication",
            "watch",
            "topologies",
            "failover",
            "shards"
        ]
    );
    assert_eq!(suites[0]["scenarios"], serde_json::json!([]));
    let scenarios = suites[5]["scenarios"].as_array().unwrap();
    for scenario in scenarios {
        assert!(scenario["id"].as_str().unwrap().starts_with('S'), "{scenario}");
        assert!(
            !scenario["name"].as_str().unwrap().is_empty() && !scenario["what"].as_str().unwrap().is_empty()
        );
    }
    let alone: Value = serde_json::from_slice(&list(&["replication", "--json"]).stdout).unwrap();
    assert_eq!(alone.as_array().unwrap().len(), 1);
    assert_eq!(alone[0]["scenarios"].as_array().unwrap(), scenarios);
}

#[test]
fn a_suite_that_is_not_there_is_refused_with_those_that_are() {
    let output = list(&["stores"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("stores") && said.contains("functions"), "{said}");
}
