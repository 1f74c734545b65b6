//! What a branch was.

use super::shell::{text, Shell};
use serde_json::{json, Value};
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    time::Duration,
};

#[test]
fn a_state_is_read_compared_forked_and_brought_back() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "grey"]);
    assert_eq!(shell.ok(&["history", "keep"]), "main: each commit is retained\n");
    let green = shell.json(&["kv", "put", "k", "green"])["version"].as_u64().unwrap();
    assert_eq!(shell.ok(&["tag", "create", "v1"]), format!("main@v1 is version {green}\n"));
    shell.ok(&["kv", "put", "k", "red"]);
    for state in ["main@v1".to_owned(), format!("main@{green}")] {
        assert_eq!(shell.ok(&["kv", "get", "k", "--branch", &state]), "green\n");
        assert_eq!(shell.ok(&["kv", "list", "--branch", &state]), "k\n");
        let refused = shell.fails(2, &["kv", "put", "k", "x", "--branch", &state]);
        assert!(refused.contains("fork it to write"), "{refused}");
    }
    let diff = shell.json(&["branch", "diff", "main@v1", "main"]);
    assert_eq!(diff["entries"][0]["left"], "green");
    shell.ok(&["branch", "fork", "then", "--from", "main@v1", "--ttl", "1h"]);
    assert_eq!(shell.ok(&["kv", "get", "k", "--branch", "then"]), "green\n");
    let printed = shell.ok(&["branch", "revert", "v1"]);
    assert!(printed.contains("wrote 1 and deleted 0 in main"), "{printed}");
    assert_eq!(shell.ok(&["kv", "get", "k"]), "green\n");
    // The key is told with what was taken back.
    let told = shell.json(&["history", "key", "k"]);
    let values: Vec<_> = told.as_array().unwrap().iter().map(|state| &state["value"]).collect();
    assert_eq!(values, ["green", "red", "green"]);
    let states = shell.json(&["history", "list"]);
    assert_eq!(states["states"].as_array().unwrap().len(), 3);
    assert_eq!(states["states"][2]["tags"], json!(["v1"]));
    let printed = shell.ok(&["history", "list", "--limit", "1"]);
    assert!(printed.contains("3 states of main"), "{printed}");

    shell.ok(&["history", "off"]);
    assert_eq!(shell.json(&["history", "list"])["states"].as_array().unwrap().len(), 1);
    assert_eq!(shell.json(&["tag", "list"])[0]["tag"], "v1");
    assert_eq!(shell.ok(&["tag", "delete", "v1"]), "deleted v1\n");
    let refused = shell.fails(1, &["kv", "get", "k", "--branch", "main@v1"]);
    assert!(refused.contains("has no tag"), "{refused}");
    let refused = shell.fails(1, &["kv", "get", "k", "--branch", "main@-1h"]);
    assert!(refused.contains("is retained at 2") && refused.contains("history keep"), "{refused}");
    for bad in ["main@", "main@12x", "main@-", "main@2026-13-01T00:00:00Z"] {
        shell.fails(2, &["kv", "get", "k", "--branch", bad]);
    }
}

#[test]
fn what_is_kept_is_limited() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "0"]);
    let printed = shell.ok(&[
        "history",
        "keep",
        "--every",
        "10s",
        "--for",
        "7d",
        "--versions",
        "5",
        "--bytes",
        "1000000",
    ]);
    assert!(
        printed.contains("every 10s") && printed.contains("7days") && printed.contains("5 of them"),
        "{printed}"
    );
    for bad in [&["--every", "10ms"][..], &["--versions", "0"], &["--bytes", "0"]] {
        shell.fails(1, &[&["history", "keep"], bad].concat());
    }
    shell.fails(2, &["history", "keep", "--every", "often"]);
    shell.ok(&["history", "keep", "--versions", "3"]);
    for number in 0..10 {
        shell.ok(&["kv", "put", "k", &number.to_string()]);
    }
    assert_eq!(shell.json(&["history", "list"])["states"].as_array().unwrap().len(), 3);
}

#[test]
fn a_change_is_picked_for_another_branch() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "grey"]);
    shell.ok(&["branch", "fork", "try"]);
    shell.ok(&["history", "keep", "--branch", "try"]);
    let mut versions = Vec::new();
    for pair in ["a", "b", "c"] {
        versions.push(shell.json(&["kv", "put", pair, "1", "--branch", "try"])["version"].as_u64().unwrap());
    }
    let states: Vec<_> = versions.iter().map(|version| format!("try@{version}")).collect();
    let printed = shell.ok(&["branch", "pick", &states[0], &states[1], "--into", "main", "--dry-run"]);
    assert!(printed.contains("would write 1 and delete 0 in main"), "{printed}");
    shell.ok(&["branch", "pick", &states[0], &states[1], "--into", "main"]);
    assert_eq!(shell.ok(&["kv", "list"]), "b\nk\n");
    // The other way round it is taken back.
    let (before, after) = (states[0].as_str(), states[1].as_str());
    shell.ok(&["branch", "pick", after, before]);
    assert_eq!(shell.ok(&["kv", "list"]), "k\n");
    shell.ok(&["kv", "put", "b", "mine"]);
    let refused = shell.fails(1, &["branch", "pick", &states[0], &states[1], "--into", "main"]);
    assert!(refused.contains("--strategy ours"), "{refused}");
    let refused = shell.fails(1, &["branch", "pick", "main@1", &states[1], "--into", "main"]);
    assert!(refused.contains("nothing of branch \"main\" is retained"), "{refused}");
}

#[test]
fn changes_are_printed_as_they_come() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "user:1", "Ada"]);
    shell.ok(&["tag", "create", "begin"]);
    shell.ok(&["kv", "put", "user:2", "Bob"]);
    let printed = shell.ok(&["watch", "--from", "begin", "--count", "1"]);
    assert!(printed.ends_with(" + kv default/user:2 \"Bob\"\n"), "{printed}");
    assert_eq!(shell.ok(&["watch", "--idle", "100ms"]), "");
    let mut watching = shell
        .command(&["watch", "--kind", "kv", "--prefix", "user:", "--count", "2", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    shell.ok(&["kv", "put", "other", "x"]);
    shell.ok(&["kv", "put", "user:1", "Eve"]);
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    // It is printed at once, not when the program ends.
    assert_eq!(
        next()["change"],
        json!({ "primitive": "kv", "space": "default", "key": "user:1", "change": "modified", "left": "Ada", "right": "Eve" })
    );
    shell.ok(&["kv", "delete", "user:2"]);
    assert_eq!(next()["change"]["change"], "removed");
    let ended = watching.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
}
