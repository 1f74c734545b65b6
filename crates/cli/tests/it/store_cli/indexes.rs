//! Indexes, and finding by them.

use super::shell::Shell;
use serde_json::json;

fn tasks(shell: &Shell) {
    for (key, state, at) in [("task:1", "open", 7), ("task:2", "done", 5), ("task:3", "open", 3)] {
        let task = json!({ "state": state, "at": at, "who": { "mail": format!("{key}@example.org") } });
        shell.ok(&["json", "set", key, "$", &task.to_string()]);
    }
}

#[test]
fn documents_are_found_by_what_they_hold() {
    let shell = Shell::new();
    tasks(&shell);
    let without = shell.ok(&["json", "find", "state = open", "--order", "at"]);
    assert_eq!(without.lines().map(|line| &line[..6]).collect::<Vec<_>>(), ["task:3", "task:1"]);
    let explain = ["json", "find", "state = open", "--order", "at", "--explain"];
    assert_eq!(shell.ok(&explain), "all rows, each held against state = \"open\", then sorted\n");
    let create = ["index", "create", "by-state", "state", "at"];
    assert_eq!(shell.ok(&create), "made: by-state, json (state, at)\n");
    assert_eq!(shell.json(&create)["made"], false, "again is not an error");
    assert_eq!(shell.ok(&explain), "index by-state for state = \"open\", in its order\n");
    assert_eq!(shell.json(&explain)["sorted"], false);
    assert_eq!(shell.ok(&["json", "find", "state = open", "--order", "at"]), without);
    let first = shell.json(&["json", "find", "state = open", "--order", "at", "--backwards", "--limit", "1"]);
    assert_eq!((&first["rows"][0]["key"], &first["rows"][0]["value"]["at"]), (&json!("task:1"), &json!(7)));
    let next = first["next"].as_str().unwrap();
    let second =
        shell.json(&["json", "find", "state = open", "--order", "at", "--backwards", "--after", next]);
    assert_eq!((&second["rows"][0]["key"], &second["next"]), (&json!("task:3"), &json!(null)));
    assert_eq!(shell.ok(&["json", "find", "", "--prefix", "task:2"]).lines().count(), 1);
    assert_eq!(shell.ok(&["json", "find"]).lines().count(), 3);

    let list = shell.json(&["index", "list"]);
    assert_eq!(list, json!([{ "name": "by-state", "index": { "on": "json", "fields": ["state", "at"] } }]));
    assert!(shell.ok(&["index", "list"]).contains("json (state, at)"));
    assert_eq!(shell.json(&["verify"])["branches"][0]["damage"], json!(null));
    assert_eq!(shell.ok(&["index", "drop", "by-state"]), "dropped\n");
    assert_eq!(shell.json(&["index", "drop", "by-state"]), json!({ "index": "by-state", "dropped": false }));
    assert_eq!(shell.ok(&["index", "list"]), "no index in this space\n");
}

#[test]
fn a_unique_index_refuses_a_second_and_a_partial_one_holds_a_part() {
    let shell = Shell::new();
    tasks(&shell);
    shell.ok(&["index", "create", "mail", "who.mail", "--unique"]);
    let twice = r#"{"who": {"mail": "task:1@example.org"}}"#;
    let refused = shell.fails(1, &["json", "set", "task:4", "$", twice]);
    assert!(
        refused.contains("task:4 and task:1 would have the same values in unique index \"mail\""),
        "{refused}"
    );
    let partial = ["index", "create", "open", "at", "--where", "state = open"];
    assert_eq!(shell.ok(&partial), "made: open, json (at) where state = \"open\"\n");
    let plan = shell.ok(&["json", "find", "at > 1 and state = open", "--order", "at", "--explain"]);
    assert_eq!(plan, "index open for at > 1 and state = \"open\", in its order\n");
    for (status, bad) in [
        (1, &["index", "create", "e", "a", "--on", "event"][..]),
        (1, &["index", "create", "open", "other"]),
        (2, &["index", "create", "none"]),
        (2, &["index", "create", "w", "a", "--where", "state ="]),
        (2, &["json", "find", "state ~ 1"]),
        (2, &["json", "find", "--after", "xyz"]),
    ] {
        let said = shell.fails(status, bad);
        assert!(said.starts_with("error: "), "{bad:?}: {said}");
    }
}

#[test]
fn pairs_are_found_by_their_values() {
    let shell = Shell::new();
    let lines = b"{\"key\": \"ash\", \"value\": 25}\n{\"key\": \"oak\", \"value\": 30}\n{\"key\": \"yew\", \"value\": 12}\n";
    shell.ok_fed(lines, &["kv", "load"]);
    assert_eq!(shell.ok(&["kv", "find", "$ > 20"]), "ash\t25\noak\t30\n");
    shell.ok(&["index", "create", "by-value", "$", "--on", "kv"]);
    let found = shell.json(&["kv", "find", "$ > 20", "--order", "$", "--limit", "1"]);
    assert_eq!((&found["rows"][0]["key"], &found["examined"]), (&json!("ash"), &json!(2)));
    // What is loaded afterwards is in it, too.
    let more: String = (0..9).map(|n| format!("{{\"key\": \"z{n}\", \"value\": {}}}\n", 100 + n)).collect();
    assert!(shell.ok_fed(more.as_bytes(), &["kv", "load", "--json"]).contains("\"bulk\": false"));
    assert_eq!(shell.json(&["kv", "find", "$ >= 105"])["examined"], 4);
}
