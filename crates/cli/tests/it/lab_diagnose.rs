//! `duramen lab diagnose`, as pipelines call it: documents of all suites, several at once.

use crate::support::{duramen, text};
use serde_json::{json, Value};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn figure(name: &str, unit: &str, value: f64) -> Value {
    json!({"name": name, "unit": unit, "count": 1, "mean": value, "min": value, "p50": value, "p90": value,
           "p95": value, "p99": value, "max": value, "histogram": null})
}

fn write(dir: &Path, suite: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut document = json!({
        "schema": "duramen.evidence/1", "suite": suite, "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:01Z", "command": ["duramen"], "version": "1",
        "host": {"cpu": "a processor", "cores": 2, "memory_bytes": 1, "kernel": "Linux", "file_system": "ext4",
                 "load_average": [0.0, 0.0, 0.0], "fsync_floor_us": 100.0},
        "config": {}, "measurements": [], "checks": [], "findings": [], "verdict": "pass",
    });
    change(&mut document);
    let file = dir.join(format!("{suite}.json"));
    fs::write(&file, document.to_string()).expect("the folder can be written");
    file
}

/// The rules that find something in a document.
fn rules(home: &Path, file: &Path) -> Vec<String> {
    let output = duramen(home, &["--json", "lab", "diagnose", file.to_str().expect("it is text")]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = found[0]["findings"].as_array().expect("findings").clone();
    findings.iter().map(|finding| finding["rule"].as_str().expect("it is text").to_owned()).collect()
}

#[test]
fn every_suite_has_rules_that_need_nothing_but_the_document() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let cases: [(&str, &str, PathBuf); 5] = [
        (
            "branches",
            "fsync_off",
            write(dir, "branches", |document| {
                document["config"] = json!({"write": "events", "durable": false, "runner": "session"});
            }),
        ),
        (
            "functions",
            "slow_to_settle",
            write(dir, "functions", |document| {
                document["measurements"] = json!([figure("settled_ms", "ms", 9_000.0)]);
            }),
        ),
        (
            "packs",
            "target_missed",
            write(dir, "packs", |document| {
                document["measurements"] = json!([figure("write_ms/1000000", "ms", 2_000.0)]);
            }),
        ),
        (
            "replication",
            "one_machine",
            write(dir, "replication", |document| document["config"] = json!({"pair": "own"})),
        ),
        (
            "store",
            "other_size",
            write(dir, "store", |document| document["config"] = json!({"rows": 5, "vectors": 100_000})),
        ),
    ];
    for (suite, rule, file) in &cases {
        assert_eq!(rules(dir, file), [*rule], "{suite}");
    }
    // All at once, as one table each, and none of it is a problem.
    let files: Vec<&str> = cases.iter().map(|(.., file)| file.to_str().unwrap()).collect();
    let output = duramen(dir, &[&["lab", "diagnose"], &files[..]].concat());
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for (suite, rule, file) in &cases {
        let head = format!("{}: suite {suite}, verdict pass", file.display());
        assert!(said.contains(&head) && said.contains(rule), "{suite}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 120 || line.contains(": suite ")), "{said}");
}

#[test]
fn general_rules_hold_for_suites_that_nobody_knows() {
    let home = tempfile::tempdir().unwrap();
    let file = write(home.path(), "somebody-elses", |document| {
        document["host"]["load_average"] = json!([3.5, 0.0, 0.0]);
        document["host"]["fsync_floor_us"] = json!(4.0);
        document["config"] = json!({"repeats": 1, "optimised": false});
        document["checks"] = json!([{"name": "nothing_lost", "passed": false, "detail": "3 are missing"}]);
        document["findings"] = json!([
            {"rule": "not_measured", "severity": "warning", "figure": null, "text": "S4 was not measured."},
            {"rule": "its_own", "severity": "problem", "figure": null, "text": "Whatever it was."},
        ]);
        document["verdict"] = json!("fail");
    });
    let expected =
        ["failed_check", "not_measured", "not_optimised", "busy_machine", "fast_sync", "few_repeats"];
    assert_eq!(rules(home.path(), &file), expected);
    let output = duramen(home.path(), &["lab", "diagnose", file.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no rules of that suite are known"), "{said}");
    assert!(said.contains("nothing_lost") && said.contains("3 are missing"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read_keeps_no_other_from_being_looked_at() {
    let home = tempfile::tempdir().unwrap();
    let good = write(home.path(), "packs", |_| {});
    let output = duramen(home.path(), &["lab", "diagnose", "nowhere.json", good.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nowhere.json"), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("suite packs, verdict pass\nnothing was found"),
        "{}",
        text(&output.stdout)
    );
}
