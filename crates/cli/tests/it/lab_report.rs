//! `duramen lab history` and `duramen lab report`, as people and pipelines call them, and what every run files by itself.

use crate::support::{duramen, text};
use serde_json::{json, Value};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

fn path(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// What the program makes of this machine, through a document that it has made itself.
fn packs(home: &Path, dir: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["lab", "run", "packs", "--grants", "100", "--rounds", "1", "--dir", path(dir)];
    arguments.extend(more);
    duramen(home, &arguments)
}

/// A run of the suite `store` of another machine, with this median.
fn document(hour: usize, p50: f64) -> Value {
    let figure = |name: &str, unit: &str, value: f64| {
        json!({"name": name, "unit": unit, "count": 1, "mean": value, "min": value, "p50": value, "p90": value,
               "p95": value, "p99": value, "max": value, "histogram": null})
    };
    json!({
        "schema": "duramen.evidence/1", "suite": "store", "started_at": format!("2026-01-01T{hour:02}:00:00Z"),
        "finished_at": "2026-01-02T00:00:01Z", "command": ["duramen", "lab", "run", "store"], "version": "1",
        "host": {"cpu": "a processor", "cores": 2, "memory_bytes": 1, "kernel": "Linux", "file_system": "ext4",
                 "load_average": [0.0, 0.0, 0.0], "fsync_floor_us": 100.0},
        "config": {"seed": hour}, "measurements": [figure("put/strict", "us", p50), figure("put/memory", "us", 1.0)],
        "checks": [], "findings": [], "verdict": "pass",
    })
}

/// Files of runs with these medians.
fn runs(dir: &Path, medians: &[f64]) -> Vec<PathBuf> {
    let write = |(hour, p50): (usize, &f64)| {
        let file = dir.join(format!("run{hour}.json"));
        fs::write(&file, document(hour, *p50).to_string()).expect("the folder can be written");
        file
    };
    medians.iter().enumerate().map(write).collect()
}

fn add(home: &Path, files: &[PathBuf]) -> Output {
    let mut arguments = vec!["lab", "history", "add"];
    arguments.extend(files.iter().map(|file| path(file)));
    duramen(home, &arguments)
}

#[test]
fn a_run_files_its_evidence_and_the_report_is_made_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let none = duramen(&home, &["lab", "history"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("duramen lab run makes some"), "{}", text(&none.stderr));

    for _ in 0..2 {
        let output = packs(&home, dir.path(), &[]);
        let printed = text(&output.stdout);
        let filed = printed.lines().find_map(|line| line.strip_prefix("filed: "));
        assert!(filed.is_some_and(|file| Path::new(file).is_file()), "{printed}{}", text(&output.stderr));
    }
    let printed = text(&duramen(&home, &["lab", "history"]).stdout);
    assert!(printed.contains("| packs ") && printed.contains("| 2    |"), "{printed}");
    let printed = text(&duramen(&home, &["lab", "history", "packs", "--figure", "write_ms/*"]).stdout);
    assert!(printed.contains("write_ms/100") && printed.contains("too few: 2 of 6"), "{printed}");
    assert!(!printed.contains("lookup_us"), "{printed}");

    let (site, summary) = (dir.path().join("out/site.html"), dir.path().join("out/summary.md"));
    let output = duramen(&home, &["lab", "report", "--out", path(&site), "--markdown", path(&summary)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = fs::read_to_string(&site).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("Suite packs"), "{page}");
    assert!(page.contains("Trends of packs"), "the run before is in the trends");
    assert!(fs::read_to_string(&summary).unwrap().starts_with("## "), "a verdict comes first");
}

#[test]
fn a_history_that_cannot_be_written_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::write(&home, "a file where the home should be").unwrap();
    let evidence = dir.path().join("packs.json");
    let output = packs(&home, dir.path(), &["--json", path(&evidence)]);
    assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("warning: the run is not in the history"),
        "{}",
        text(&output.stderr)
    );
    assert!(!text(&output.stdout).contains("filed:") && evidence.is_file());
    let verdict: Value = serde_json::from_slice(&fs::read(&evidence).unwrap()).unwrap();
    let code = if verdict["verdict"] == "pass" { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "the exit status is the run's");
}

#[test]
fn what_is_added_is_told_with_its_trend() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let files = runs(dir.path(), &[5.0, 5.1, 4.9, 5.0, 7.5, 7.6, 7.4, 7.5]);
    let output = add(&home, &files);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).matches("filed: ").count(), 8, "{}", text(&output.stdout));
    assert_eq!(text(&add(&home, &files[..1]).stdout).matches("known: ").count(), 1);

    let here = duramen(&home, &["lab", "history", "store"]);
    assert_eq!(here.status.code(), Some(1), "it was another machine");
    assert!(text(&here.stderr).contains("--machine all"), "{}", text(&here.stderr));
    let told = text(&duramen(&home, &["lab", "history", "store", "--machine", "all"]).stdout);
    assert!(told.contains("WORSE: slower by 50 %") && told.contains("no change seen"), "{told}");
    let few = text(&duramen(&home, &["lab", "history", "store", "--machine", "all", "--last", "3"]).stdout);
    assert!(few.contains("3 runs") && few.contains("too few: 3 of 6"), "{few}");

    let page = dir.path().join("out/trends.html");
    let output = duramen(&home, &["lab", "history", "--machine", "all", "--json", "--html", path(&page)]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["schema"], "duramen.history/1");
    assert_eq!(printed["series"][0]["figures"][0]["outcome"], "worse");
    assert_eq!(printed["series"][0]["runs"].as_array().unwrap().len(), 8);
    assert!(fs::read_to_string(&page).unwrap().contains("slower by 50 %"));

    let refused = duramen(&home, &["lab", "history", "store", "--machine", "all", "--figure", "nothing*"]);
    assert!(text(&refused.stderr).contains("no figure of store fits"), "{}", text(&refused.stderr));
}

#[test]
fn a_wrong_name_adds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let mut files = runs(dir.path(), &[5.0]);
    files.push(dir.path().join("nowhere.json"));
    let output = add(&home, &files);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nowhere.json"), "{}", text(&output.stderr));
    assert!(!home.join("history").exists());
}

#[test]
fn files_and_folders_become_a_page_and_a_summary() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    runs(&data, &[5.0, 6.0]);
    fs::write(data.join("other.json"), "{}").unwrap();
    let site = dir.path().join("site.html");
    let output = duramen(&home, &["lab", "report", path(&data), "--out", path(&site)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("written: "), "{}", text(&output.stdout));
    assert!(
        text(&output.stderr).contains("warning: Left out: ") && text(&output.stderr).contains("other.json")
    );
    assert!(fs::read_to_string(&site).unwrap().contains("other.json"), "the page says so too");
    assert!(!home.exists(), "nothing is made where nothing is asked for");
    let mode = fs::metadata(&site).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "a page is there to be read by others");

    let printed = duramen(&home, &["lab", "report", path(&data.join("run0.json")), "--markdown", "-"]);
    let markdown = text(&printed.stdout);
    assert!(markdown.starts_with("## PASS: 1 run, every check held\n"), "{markdown}");
    assert!(!markdown.contains("written:"), "{markdown}");
    let told = duramen(&home, &["lab", "report", path(&data), "--out", path(&site), "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["documents"].as_array().unwrap().len(), 2);
}

#[test]
fn a_report_needs_a_place_and_something_to_tell() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(duramen(dir.path(), &["lab", "report"]).status.code(), Some(2));
    let site = dir.path().join("site.html");
    let empty = duramen(dir.path(), &["lab", "report", "--out", path(&site)]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(text(&empty.stderr).contains("name evidence documents"), "{}", text(&empty.stderr));
    let folder = duramen(dir.path(), &["lab", "report", path(dir.path()), "--out", path(&site)]);
    assert!(text(&folder.stderr).contains("there is no evidence document"), "{}", text(&folder.stderr));
    assert!(!site.exists());
    assert_eq!(duramen(dir.path(), &["lab", "history", "--last", "0"]).status.code(), Some(2));
    assert_eq!(duramen(dir.path(), &["lab", "history", "--figure", "*"]).status.code(), Some(2));
}

#[test]
fn a_comparison_can_be_put_under_a_pull_request() {
    let dir = tempfile::tempdir().unwrap();
    let files = runs(dir.path(), &[5.0, 5.1, 4.9, 5.0, 7.5, 7.6, 7.4, 7.5]);
    let side = |files: &[PathBuf]| files.iter().map(|file| path(file)).collect::<Vec<_>>().join(",");
    let (a, b) = (side(&files[..4]), side(&files[4..]));
    let output = duramen(dir.path(), &["lab", "compare", &a, &b, "--markdown", "-"]);
    assert_eq!(output.status.code(), Some(1), "the exit status stays: {}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.starts_with("## WORSE: `store`, 1 regression\n"), "{printed}");
    assert!(printed.contains("| `put/strict` | 5.00 us (n=4) | 7.50 us (n=4) | x1.50 \\["), "{printed}");
    let file = dir.path().join("out/comparison.md");
    let output = duramen(dir.path(), &["lab", "compare", &a, &b, "--markdown", path(&file)]);
    assert!(text(&output.stdout).contains("regression: put/strict"), "the table is printed too");
    assert_eq!(fs::read_to_string(&file).unwrap(), printed);
    let both = duramen(dir.path(), &["lab", "compare", &a, &b, "--markdown", "-", "--json", "-"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stdout));
}
