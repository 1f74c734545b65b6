//! What `duramen lab run replication` refuses before it does anything, and what `duramen lab diagnose` makes of its
//! evidence.

use crate::support::duramen;

#[test]
fn bad_arguments_are_refused_with_what_would_be_good_before_anything_is_made() {
    let home = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 9] = [
        (&["S99"], "S2 (snapshot conflict by VACUUM)"),
        (&["snapshots"], "S14 (saturation of the replay)"),
        (&["S2", "--levels", "remote"], "remote_write, on, remote_apply"),
        (&["S2", "--feedback", "maybe"], "off"),
        (&["S2", "--max-standby-delay", "-2"], "500ms"),
        (&["S2", "--max-standby-delay", "soon"], "500ms"),
        (&["S2", "--repeats", "0"], "--repeats"),
        (&["S2", "--primary", "host=127.0.0.1"], "--standby"),
        (
            &["S2", "--primary", "host=127.0.0.1", "--standby", "host=127.0.0.1", "--rtt-ms", "5"],
            "leave out --primary and --standby",
        ),
    ];
    for (arguments, word) in cases {
        let output = duramen(home.path(), &[&["lab", "run", "replication"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: no {word} in {said}");
    }
    assert!(!home.path().join("lab").exists(), "something was made");
}

#[test]
fn the_help_tells_the_exit_status_and_how_to_restore() {
    let home = tempfile::tempdir().unwrap();
    let output = duramen(home.path(), &["lab", "run", "replication", "--help"]);
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in ["--quick", "--max-standby-delay", "remote_flush", "duramen lab restore", "Exit status"] {
        assert!(help.contains(word), "no {word} in {help}");
    }
}

#[test]
fn evidence_of_the_suite_can_be_diagnosed() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("replication.json");
    let scenario = serde_json::json!({
        "id": "S2", "name": "a name", "text": "", "kind": "stall", "advice": "", "skipped": null,
        "seen": [{
            "suffix": "", "feedback": false, "rtt_ms": 0, "passes": 1, "unmet": [],
            "levels": [{"level": "remote_apply", "stall_s": 6.0, "cause": "snapshot", "noise_s": 0.0}],
            "startup_s": {"IPC:RecoveryConflictSnapshot": 6.0}, "committed": 10, "wal_bytes": 0, "image_bytes": 0,
            "records": [], "backlog_bytes": null, "files_removed": null, "cancelled": 0, "failed": null
        }]
    });
    let document = serde_json::json!({
        "schema": "duramen.evidence/1", "suite": "replication", "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:01Z", "command": ["duramen"], "version": "1",
        "host": {"cpu": "a processor", "cores": 2, "memory_bytes": 1, "kernel": "Linux", "file_system": "ext4",
                 "load_average": [0.0, 0.0, 0.0], "fsync_floor_us": 100.0},
        "config": {"scenarios": [scenario]}, "measurements": [], "checks": [], "findings": [], "verdict": "pass",
    });
    std::fs::write(&file, document.to_string()).unwrap();
    let output = duramen(home.path(), &["lab", "diagnose", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("stall_by_snapshot") && said.contains("hot_standby_feedback"), "{said}");
}
