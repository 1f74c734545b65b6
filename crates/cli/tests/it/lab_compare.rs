//! `duramen lab compare`, as pipelines call it: what it says, and its exit status.

use crate::support::{duramen, text};
use serde_json::{json, Value};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A document with one latency of this median and one count.
fn document(suite: &str, p50: f64, syncs: f64) -> Value {
    let figure = |name: &str, unit: &str, value: f64| {
        json!({"name": name, "unit": unit, "count": 1, "mean": value, "min": value, "p50": value, "p90": value,
               "p95": value, "p99": value, "max": value, "histogram": null})
    };
    json!({
        "schema": "duramen.evidence/1", "suite": suite, "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:01Z", "command": ["duramen"], "version": "1",
        "host": {"cpu": "a processor", "cores": 2, "memory_bytes": 1, "kernel": "Linux", "file_system": "ext4",
                 "load_average": [0.0, 0.0, 0.0], "fsync_floor_us": 100.0},
        "config": {}, "measurements": [figure("put_ms", "ms", p50), figure("put_syncs", "syncs", syncs)],
        "checks": [], "findings": [], "verdict": "pass",
    })
}

fn write(dir: &Path, name: &str, document: &Value) -> PathBuf {
    let file = dir.join(name);
    fs::write(&file, document.to_string()).expect("the folder can be written");
    file
}

/// Files of runs with these medians, joined as one argument.
fn runs(dir: &Path, side: &str, medians: &[f64]) -> String {
    let write = |(index, p50): (usize, &f64)| {
        let file = write(dir, &format!("{side}{index}.json"), &document("store", *p50, 1.0));
        file.to_str().expect("the path is text").to_owned()
    };
    medians.iter().enumerate().map(write).collect::<Vec<_>>().join(",")
}

#[test]
fn what_got_slower_fails_unless_it_is_allowed_to() {
    let dir = tempfile::tempdir().unwrap();
    let a = runs(dir.path(), "a", &[5.0, 5.1, 4.9, 5.0]);
    let b = runs(dir.path(), "b", &[7.5, 7.6, 7.4, 7.5]);
    let written = dir.path().join("out/comparison.json");
    let output = duramen(dir.path(), &["lab", "compare", &a, &b, "--json", written.to_str().unwrap()]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}{}", text(&output.stderr));
    assert!(printed.contains("slower by 50.0 %") && printed.contains("regression: put_ms"), "{printed}");
    let comparison: Value = serde_json::from_slice(&fs::read(&written).unwrap()).unwrap();
    assert_eq!(comparison["schema"], "duramen.comparison/1");
    assert_eq!(comparison["regressions"], json!(["put_ms"]));

    let allowed = duramen(dir.path(), &["lab", "compare", &a, &b, "--max-regression", "60"]);
    assert_eq!(allowed.status.code(), Some(0), "{}", text(&allowed.stdout));
    let faster = duramen(dir.path(), &["lab", "compare", &b, &a]);
    assert_eq!(faster.status.code(), Some(0), "{}", text(&faster.stdout));
    assert!(text(&faster.stdout).contains("faster by"), "{}", text(&faster.stdout));
}

/// What scripts read: the method, how each figure was judged, and the interval that was judged.
#[test]
fn scripts_are_told_how_it_was_judged() {
    let dir = tempfile::tempdir().unwrap();
    let a = runs(dir.path(), "a", &[6.0, 6.2, 6.5]);
    let b = runs(dir.path(), "b", &[17.0, 18.1, 19.2]);
    let output = duramen(dir.path(), &["--json", "lab", "compare", &a, &b, "--figure", "put_ms"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&comparison["values"], &comparison["named"]), (&json!("runs"), &json!(1)));
    assert_eq!((&comparison["confidence_of_named"], &comparison["power"]), (&json!(0.95), &json!(0.8)));
    let [put, syncs] = [0, 1].map(|at| &comparison["rows"][at]);
    assert_eq!((&put["judged"], &put["scale"]), (&json!("alone"), &json!("ratio")));
    assert!(put["ratio_low"].as_f64().unwrap() > 2.0 && put["ratio_high"].as_f64().unwrap() < 4.0, "{put}");
    assert_eq!(put["a_blocks"], 3);
    assert_eq!((&syncs["judged"], &syncs["verdict"]), (&json!("among_all"), &json!("no_difference")));
    assert!(syncs["detectable_percent"].as_f64().unwrap() > 1.0, "{syncs}");

    let unknown = duramen(dir.path(), &["lab", "compare", &a, &b, "--figure", "putms"]);
    assert_eq!(unknown.status.code(), Some(3), "a gate that guards nothing does not pass");
    assert!(text(&unknown.stderr).contains("putms"), "{}", text(&unknown.stderr));
    let one = runs(dir.path(), "one", &[6.1]);
    let single = duramen(dir.path(), &["lab", "compare", &one, &one, "--figure", "put_ms"]);
    assert_eq!(single.status.code(), Some(3), "{}", text(&single.stdout));
    assert!(text(&single.stderr).contains("put_ms was named and could not be judged"));
    let back = duramen(dir.path(), &["lab", "compare", &b, &a, "--targets"]);
    assert_eq!(back.status.code(), Some(0), "{}{}", text(&back.stdout), text(&back.stderr));
    assert!(text(&back.stdout).contains("faster by"), "{}", text(&back.stdout));
}

#[test]
fn identical_variants_have_no_detectable_difference() {
    let dir = tempfile::tempdir().unwrap();
    let a = runs(dir.path(), "a", &[5.0, 5.2, 4.8, 5.1]);
    let b = runs(dir.path(), "b", &[5.1, 4.9, 5.0, 5.2]);
    let output = duramen(dir.path(), &["lab", "compare", &a, &b]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("\nno detectable difference"), "{}", text(&output.stdout));
}

#[test]
fn one_run_each_is_judged_by_its_counts() {
    let dir = tempfile::tempdir().unwrap();
    let a = write(dir.path(), "a.json", &document("store", 5.0, 1.0));
    let b = write(dir.path(), "b.json", &document("store", 50.0, 2.0));
    let output = duramen(dir.path(), &["--json", "lab", "compare", a.to_str().unwrap(), b.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(comparison["rows"][0]["words"], "one value each: not decidable");
    assert_eq!(comparison["regressions"], json!(["put_syncs"]));
}

#[test]
fn what_is_not_comparable_is_said_by_the_exit_status() {
    let dir = tempfile::tempdir().unwrap();
    let a = write(dir.path(), "a.json", &document("store", 5.0, 1.0));
    let b = write(dir.path(), "b.json", &document("functions", 5.0, 1.0));
    let output = duramen(dir.path(), &["lab", "compare", a.to_str().unwrap(), b.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("functions"), "{}", text(&output.stderr));
}

#[test]
fn bad_input_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = duramen(dir.path(), &["lab", "compare", "nowhere-a.json", "nowhere-b.json"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("nowhere-a.json"), "{}", text(&missing.stderr));
    for arguments in
        [&["lab", "compare", "a.json"][..], &["lab", "compare", "a", "b", "--max-regression", "-5"]]
    {
        assert_eq!(duramen(dir.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
}
