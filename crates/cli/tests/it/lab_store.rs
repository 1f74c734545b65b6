//! `duramen lab run store` and `duramen lab diagnose`, as their users call them.

use crate::support::{duramen, text};
use serde_json::Value;

const SMALL: [&str; 9] =
    ["lab", "run", "store", "--rows", "2k", "--seconds", "0.03", "--ops", "kv.get.100B,state.set"];

#[test]
fn a_small_run_prints_the_matrix_and_its_evidence_can_be_diagnosed() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("out/store.json");
    let page = home.path().join("out/store.html");
    let documents = ["--json", file.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let output = duramen(home.path(), &[&SMALL[..], &documents].concat());
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    for word in ["kv.get.100B", "state.set", "memory us", "strict syncs/op", "verdict: pass", "store.json"] {
        assert!(printed.contains(word), "{word} is not in {printed}");
    }
    assert!(text(&std::fs::read(&page).unwrap()).contains("The embedded store"));
    assert_eq!(std::fs::read_dir(home.path().join("lab")).unwrap().count(), 0, "a store is left");

    let mut document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let names: Vec<&str> =
        document["measurements"].as_array().unwrap().iter().filter_map(|m| m["name"].as_str()).collect();
    for level in ["memory", "buffered", "strict"] {
        for figure in ["", ".ops_per_s", ".syncs_per_op", ".log_bytes_per_op"] {
            let name = format!("state.set/{level}{figure}");
            assert!(names.contains(&name.as_str()), "{name} is not in {names:?}");
        }
    }

    let output = duramen(home.path(), &["lab", "diagnose", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));

    // A read that synced: the rules find it in the document alone.
    for measurement in document["measurements"].as_array_mut().unwrap() {
        if measurement["name"] == "kv.get.100B/strict.syncs_per_op" {
            measurement["p50"] = 1.into();
        }
    }
    std::fs::write(&file, document.to_string()).unwrap();
    let output = duramen(home.path(), &["lab", "diagnose", file.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &found[0]["findings"][0];
    assert_eq!(
        (&first["rule"], &first["severity"]),
        (&"read_syncs_or_appends".into(), &"problem".into()),
        "{found}"
    );
    assert_eq!(found[0]["suite"], "store", "{found}");
}

#[test]
fn what_cannot_be_measured_or_diagnosed_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let bad: [&[&str]; 5] = [
        &["lab", "run", "store", "--durability", "eventual"],
        &["lab", "run", "store", "--ops", "kv.frobnicate"],
        &["lab", "run", "store", "--rows", "10"],
        &["lab", "run", "store", "--seconds", "-1"],
        &["lab", "diagnose"],
    ];
    for arguments in bad {
        let output = duramen(home.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
    let missing = home.path().join("missing.json");
    let output = duramen(home.path(), &["lab", "diagnose", missing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("missing.json"), "{}", text(&output.stderr));
}
