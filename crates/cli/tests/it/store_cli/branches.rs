//! Branches.

use super::shell::{said, text, Shell};
use serde_json::{json, Value};
use std::time::Duration;

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|branch| branch["name"].as_str().unwrap()).collect()
}

#[test]
fn a_fork_has_all_and_goes_its_own_way() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "old"]);
    let printed = shell.ok(&["branch", "fork", "try"]);
    assert!(printed.contains("parent      main"), "{printed}");
    shell.ok(&["kv", "put", "k", "new", "--branch", "try"]);
    assert_eq!(shell.ok(&["kv", "get", "k"]), "old\n");
    assert_eq!(shell.ok(&["kv", "get", "k", "--branch", "try"]), "new\n");
    shell.ok(&["branch", "fork", "deep", "--from", "try"]);
    assert_eq!(shell.ok(&["kv", "get", "k", "--branch", "deep"]), "new\n");
    let made = shell.json(&["branch", "create", "empty"]);
    assert_eq!(
        (&made["entries"], &made["parent"], &made["current"]),
        (&json!(0), &Value::Null, &json!(false))
    );
    let list = shell.json(&["branch", "list"]);
    assert_eq!(names(&list), ["deep", "empty", "main", "try"]);
    assert_eq!(list[0]["parent"], "try");
    let shown = shell.json(&["branch", "show", "try"]);
    assert!(shown["own_bytes"].as_u64().unwrap() > 0, "{shown}");
    let printed = shell.ok(&["branch", "list", "--sizes"]);
    assert!(printed.lines().next().unwrap().contains("OWN"), "{printed}");
    assert!(printed.contains("never (protected)"), "{printed}");

    // Forks of a branch stay when it goes.
    assert_eq!(shell.ok(&["branch", "delete", "try", "empty"]), "deleted try\ndeleted empty\n");
    assert_eq!(shell.ok(&["kv", "get", "k", "--branch", "deep"]), "new\n");
    assert_eq!(shell.json(&["branch", "show", "deep"])["parent"], "main");
    shell.ok(&["branch", "reset", "deep"]);
    assert_eq!(shell.ok(&["kv", "get", "k", "--branch", "deep"]), "old\n");
}

#[test]
fn the_current_branch_is_meant_when_none_is_named() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "old"]);
    shell.ok(&["branch", "fork", "try"]);
    assert_eq!(shell.ok(&["branch", "switch", "try"]), "switched to try\n");
    shell.ok(&["kv", "put", "k", "new"]);
    assert_eq!(shell.ok(&["kv", "get", "k", "--branch", "main"]), "old\n");
    assert_eq!(shell.ok(&["kv", "get", "k"]), "new\n");
    let printed = shell.ok(&["branch", "list"]);
    let marked: Vec<_> = printed.lines().filter(|line| line.starts_with('*')).collect();
    assert!(marked.len() == 1 && marked[0].contains("try"), "{printed}");
    assert_eq!(shell.json(&["branch", "show"])["name"], "try");
    assert_eq!(shell.json(&["info"])["branch"], "try");
    shell.ok(&["branch", "fork", "deeper"]);
    assert_eq!(shell.json(&["branch", "show", "deeper"])["parent"], "try", "the current branch is forked");

    let error = shell.fails(1, &["branch", "switch", "tri"]);
    assert!(error.contains("did you mean \"try\"?"), "{error}");
    shell.fails(2, &["branch", "switch", "deeper", "--read-only"]);
    assert_eq!(shell.json(&["info"])["branch"], "try", "a switch that was refused changes nothing");

    let output = shell.fed(b"", &["branch", "delete", "try"]);
    assert!(text(&output.stderr).contains("it is main now"), "{}", said(&output));
    let output = shell.fed(b"", &["kv", "get", "k"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("old\n".to_owned(), String::new()));
}

#[test]
fn a_branch_lives_as_long_as_it_is_told() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "v"]);
    let made = shell.json(&["branch", "fork", "short", "--ttl", "1s"]);
    let life = made["expires_ms"].as_i64().unwrap() - made["created_ms"].as_i64().unwrap();
    assert!((500..=1500).contains(&life), "{made}");
    shell.ok(&["branch", "fork", "long", "--ttl", "1h"]);
    assert!(shell.ok(&["branch", "show", "long"]).contains("expires     in "), "a time to live is shown");
    shell.ok(&["branch", "switch", "short"]);
    std::thread::sleep(Duration::from_millis(1100));
    let output = shell.fed(b"", &["kv", "get", "k"]);
    assert_eq!(text(&output.stdout), "v\n");
    assert!(text(&output.stderr).contains("\"short\" is gone; using \"main\""), "{}", said(&output));
    assert_eq!(names(&shell.json(&["branch", "list"])), ["long", "main"]);
    assert!(shell.json(&["branch", "expire", "long", "--never"])["expires_ms"].is_null());
    assert!(shell.json(&["branch", "expire", "long", "--ttl", "2h"])["expires_ms"].is_i64());
    shell.fails(2, &["branch", "expire", "long"]);
    shell.fails(2, &["branch", "expire", "long", "--ttl", "soon"]);
    shell.fails(1, &["branch", "expire", "long", "--ttl", "0"]);
}

#[test]
fn a_protected_branch_stays() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "v"]);
    shell.ok(&["branch", "fork", "keep"]);
    shell.ok(&["branch", "fork", "go"]);
    assert_eq!(shell.json(&["branch", "protect", "keep"])["protected"], true);
    for verb in [
        &["branch", "delete", "keep"][..],
        &["branch", "reset", "keep"],
        &["branch", "expire", "keep", "--ttl", "1h"],
    ] {
        assert!(shell.fails(1, verb).contains("protected"), "{verb:?}");
    }
    let output = shell.fed(b"", &["branch", "delete", "keep", "main", "go"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "deleted go\n".to_owned()));
    assert_eq!(shell.json(&["branch", "unprotect", "keep"])["protected"], false);
    assert_eq!(shell.json(&["branch", "delete", "keep"]), json!({ "deleted": ["keep"] }));
}

#[test]
fn bad_names_and_taken_ones_are_refused() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "v"]);
    shell.ok(&["branch", "fork", "try"]);
    for (arguments, wanted) in [
        (&["branch", "fork", "try"][..], "already"),
        (&["branch", "create", "main"], "already"),
        (&["branch", "create", "a b"], "not allowed"),
        (&["branch", "fork", "x", "--from", "tri"], "did you mean \"try\"?"),
        (
            &["branch", "show", "nobody"],
            "no branch \"nobody\"; list the branches with `duramen store branch list`",
        ),
        (&["branch", "delete", "nobody"], "no branch \"nobody\""),
        (&["branch", "diff", "main", "nobody"], "no branch \"nobody\""),
        (&["branch", "merge", "nobody"], "no branch \"nobody\""),
        (&["branch", "reset", "main"], "main"),
    ] {
        let error = shell.fails(1, arguments);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}

/// `main` and `try`, which differ in a key added, a key removed, a key modified and a cell.
fn differing(shell: &Shell) {
    for key in ["a", "b", "c"] {
        shell.ok(&["kv", "put", key, "old"]);
    }
    shell.ok(&["branch", "fork", "try"]);
    shell.ok(&["kv", "put", "a", "new", "--branch", "try"]);
    shell.ok(&["kv", "delete", "b", "--branch", "try"]);
    shell.ok(&["kv", "put", "d", "added", "--branch", "try"]);
    shell.ok(&["state", "set", "cell", "1", "--branch", "try", "--space", "other"]);
}

#[test]
fn a_diff_shows_what_the_right_branch_changed() {
    let shell = Shell::new();
    differing(&shell);
    let diff = shell.json(&["branch", "diff", "main", "try"]);
    assert_eq!(
        (&diff["added"], &diff["removed"], &diff["modified"]),
        (&json!(2), &json!(1), &json!(1)),
        "{diff}"
    );
    let keys = |diff: &Value| -> Vec<String> {
        let entries = diff["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&diff), ["a", "b", "d", "cell"]);
    assert_eq!((&diff["entries"][0]["left"], &diff["entries"][0]["right"]), (&json!("old"), &json!("new")));
    assert_eq!(keys(&shell.json(&["branch", "diff", "main", "try", "--kind", "state"])), ["cell"]);
    assert_eq!(
        keys(&shell.json(&["branch", "diff", "main", "try", "--space-filter", "default"])),
        ["a", "b", "d"]
    );
    assert_eq!(keys(&shell.json(&["branch", "diff", "main", "try", "--kind", "kv", "--prefix", "d"])), ["d"]);
    let limited = shell.json(&["branch", "diff", "main", "try", "--limit", "1"]);
    assert_eq!((keys(&limited).len(), &limited["truncated"]), (1, &json!(true)));
    let printed = shell.ok(&["branch", "diff", "main", "try"]);
    let marks: Vec<char> = printed.lines().skip(1).filter_map(|line| line.chars().next()).collect();
    assert_eq!(marks, ['~', '-', '+', '+', '2'], "{printed}");
    assert!(printed.ends_with("2 added, 1 removed, 1 modified\n"), "{printed}");
    assert_eq!(shell.ok(&["branch", "diff", "main", "main"]), "0 added, 0 removed, 0 modified\n");
    shell.fails(2, &["branch", "diff", "main", "try", "--kind", "table"]);
}

#[test]
fn a_merge_takes_what_only_the_source_changed() {
    let shell = Shell::new();
    differing(&shell);
    let before = shell.ok(&["kv", "scan"]);
    let printed = shell.ok(&["branch", "merge", "try", "--dry-run"]);
    assert!(printed.contains("would write 3 and delete 1 in main"), "{printed}");
    assert_eq!(shell.ok(&["kv", "scan"]), before, "a dry run does nothing");
    let part = shell.json(&["branch", "merge", "try", "--only-kind", "kv", "--only-prefix", "a"]);
    assert_eq!(
        (&part["written"], &part["deleted"], &part["merged"]),
        (&json!(1), &json!(0), &json!(true)),
        "{part}"
    );
    assert_eq!(shell.ok(&["kv", "scan"]), "a\t\"new\"\nb\t\"old\"\nc\t\"old\"\n");
    // Back from another branch, by name.
    shell.ok(&["branch", "switch", "try"]);
    shell.ok(&["branch", "merge", "try", "--into", "main"]);
    assert_eq!(shell.ok(&["kv", "scan", "--branch", "main"]), shell.ok(&["kv", "scan"]));
    assert_eq!(shell.ok(&["state", "get", "cell", "--branch", "main", "--space", "other"]), "1\n");
    assert_eq!(shell.ok(&["branch", "diff", "main", "try"]), "0 added, 0 removed, 0 modified\n");
}

#[test]
fn a_conflict_is_shown_and_decided() {
    let shell = Shell::new();
    differing(&shell);
    shell.ok(&["kv", "put", "a", "mine"]);
    let before = shell.ok(&["kv", "scan"]);
    for arguments in [&["branch", "merge", "try"][..], &["branch", "merge", "try", "--dry-run"]] {
        let output = shell.fed(b"", arguments);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let table = text(&output.stdout);
        assert!(
            table.starts_with("KIND") && table.contains("\"mine\"") && table.contains("\"new\""),
            "{table}"
        );
        assert!(text(&output.stderr).contains("--strategy ours"), "{}", said(&output));
        let output = shell.fed(b"", &[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["merged"], false);
        let conflict = &report["conflicts"][0];
        assert_eq!(
            (&conflict["key"], &conflict["base"], &conflict["ours"], &conflict["theirs"]),
            (&json!("a"), &json!("old"), &json!("mine"), &json!("new")),
            "{report}"
        );
    }
    assert_eq!(shell.ok(&["kv", "scan"]), before, "a merge that was refused changes nothing");
    shell.ok(&["branch", "fork", "again"]);
    shell.ok(&["branch", "merge", "try", "--strategy", "ours"]);
    assert_eq!(shell.ok(&["kv", "get", "a"]), "mine\n");
    assert_eq!(shell.ok(&["kv", "get", "d"]), "added\n", "what only one side changed is merged all the same");
    let report = shell.json(&["branch", "merge", "try", "--into", "again", "--strategy", "theirs"]);
    assert_eq!(report["merged"], true);
    assert_eq!(shell.ok(&["kv", "get", "a", "--branch", "again"]), "new\n");
    shell.fails(2, &["branch", "merge", "try", "--strategy", "newest"]);
}

#[test]
fn rules_decide_by_key() {
    let shell = Shell::new();
    shell.ok(&["kv", "add", "stock/apples", "10"]);
    shell.ok(&["kv", "put", "name", "old"]);
    shell.ok(&["branch", "fork", "try"]);
    for branch in ["main", "try"] {
        shell.ok(&["kv", "add", "stock/apples", "-1", "--branch", branch]);
        shell.ok(&["kv", "put", "name", branch, "--branch", branch]);
    }
    let merge = ["branch", "merge", "try", "--into", "main", "--rule", "kv:default:stock/=add"];
    assert_eq!(shell.fed(b"", &merge).status.code(), Some(1), "the name is not decided");
    shell.ok(&[&merge[..], &["--rule", "kv=latest"]].concat());
    assert_eq!(shell.ok(&["kv", "get", "stock/apples"]), "8\n");
    assert_eq!(shell.ok(&["kv", "get", "name"]), "try\n");
    let refused = shell.fed(b"", &[&merge[..], &["--only-kind", "kv"]].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(text(&refused.stderr).contains("remembered"), "{}", said(&refused));
    shell.fails(2, &["branch", "merge", "try", "--rule", "kv=newest"]);
}

#[test]
fn events_of_both_sides_are_put_one_behind_the_other_when_asked() {
    let shell = Shell::new();
    shell.ok(&["event", "append", "a", r#"{"n": 0}"#]);
    shell.ok(&["branch", "fork", "try"]);
    shell.ok(&["event", "append", "a", r#"{"n": 1}"#]);
    shell.ok(&["event", "append", "a", r#"{"n": 2}"#, "--branch", "try"]);
    let output = shell.fed(b"", &["branch", "merge", "try"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report = shell.json(&["branch", "merge", "try", "--resequence-events"]);
    assert_eq!(report["events_resequenced"], 1, "{report}");
    let page = shell.json(&["event", "range"]);
    let order: Vec<&Value> =
        page["events"].as_array().unwrap().iter().map(|event| &event["payload"]["n"]).collect();
    assert_eq!(order, [&json!(0), &json!(1), &json!(2)]);
    assert_eq!(shell.ok(&["event", "verify"]), "intact: 3 events\n");
}

#[test]
fn both_sides_that_sell_one_are_not_taken_for_one_sale() {
    let shell = Shell::new();
    shell.ok(&["state", "init", "stock", "10"]);
    shell.ok(&["kv", "put", "stock", "10"]);
    shell.ok(&["branch", "fork", "side"]);
    for branch in ["main", "side"] {
        shell.ok(&["state", "set", "stock", "9", "--branch", branch]);
        shell.ok(&["kv", "put", "stock", "9", "--branch", branch]);
    }
    let refused = shell.fails(1, &["branch", "merge", "side"]);
    assert!(refused.contains("1 changed on both sides"), "{refused}");
    let refused = shell.fails(1, &["branch", "merge", "side", "--equal", "conflict"]);
    assert!(refused.contains("2 changed on both sides"), "{refused}");
    assert!(shell.ok(&["branch", "merge", "side", "--equal", "agree"]).contains("wrote 0 and deleted 0"));
    shell.fails(2, &["branch", "merge", "side", "--equal", "perhaps"]);
}

/// The way of a conflict that is kept: merged, listed, settled one by one and all at once.
#[test]
fn conflicts_are_kept_listed_and_settled() {
    let shell = Shell::new();
    for key in ["a", "b", "c", "d"] {
        shell.ok(&["kv", "put", key, "old"]);
    }
    shell.ok(&["json", "set", "doc", "$", "{\"n\": 1}", "--space", "second"]);
    shell.ok(&["branch", "fork", "try"]);
    for (branch, value) in [("main", "mine"), ("try", "yours")] {
        for key in ["a", "b", "c", "d"] {
            shell.ok(&["kv", "put", key, value, "--branch", branch]);
        }
        let document = format!("{{\"n\": \"{value}\"}}");
        shell.ok(&["json", "set", "doc", "$", &document, "--space", "second", "--branch", branch]);
    }
    let merge = ["branch", "merge", "try", "--strategy", "keep"];
    let printed = shell.ok(&[&merge[..], &["--dry-run"]].concat());
    assert!(printed.contains("5 conflicts would be kept in main"), "{printed}");
    assert_eq!(shell.ok(&["branch", "conflicts"]), "0 open in main\n");
    let report = shell.json(&merge);
    assert_eq!(
        (&report["merged"], &report["kept"], &report["carried"]),
        (&json!(true), &json!(5), &json!(0))
    );
    assert_eq!(report["conflicts"][0]["kept"], true);
    assert_eq!(shell.ok(&["kv", "get", "a"]), "mine\n");

    let printed = shell.ok(&["branch", "conflicts"]);
    assert!(
        printed.contains("\"yours\"") && printed.contains("as ours") && printed.contains("5 open in main")
    );
    let found = shell.json(&["branch", "conflicts", "main", "--limit", "2", "--kind", "kv"]);
    assert_eq!((found["conflicts"].as_array().unwrap().len(), &found["truncated"]), (2, &json!(true)));
    let first = &found["conflicts"][0];
    assert_eq!(
        [&first["key"], &first["base"], &first["ours"], &first["theirs"], &first["source"]],
        ["a", "old", "mine", "yours", "try"]
    );
    shell.ok(&["branch", "fork", "other"]);
    assert!(shell.ok(&["branch", "conflicts", "other"]).contains("5 open in other"));

    assert_eq!(shell.ok(&["branch", "resolve", "kv", "a", "--take", "theirs"]), "settled kv default/a\n");
    assert_eq!(shell.ok(&["kv", "get", "a"]), "yours\n");
    let error = shell.fails(1, &["branch", "resolve", "kv", "a", "--take", "theirs"]);
    assert!(error.contains("kv default/a has no open conflict"), "{error}");
    let document = ["branch", "resolve", "json", "doc", "--space", "second", "--value", "{\"n\": 7}"];
    assert_eq!(shell.json(&document)["settled"], 1);
    assert_eq!(shell.json(&["json", "get", "doc", "$", "--space", "second"])["value"], json!({ "n": 7 }));
    // A row that has changed since is told.
    shell.ok(&["kv", "put", "b", "later"]);
    let error = shell.fails(1, &["branch", "resolve", "kv", "b", "--take", "base"]);
    assert!(error.contains("has changed since"), "{error}");
    let printed = shell.ok(&["branch", "resolve", "--all", "--take", "theirs"]);
    assert!(printed.starts_with("settled 2; 1 still open"), "{printed}");
    assert_eq!(shell.ok(&["kv", "get", "c"]), "yours\n");
    shell.ok(&["branch", "resolve", "kv", "b", "--take", "base", "--even-if-changed"]);
    assert_eq!(shell.ok(&["kv", "get", "b"]), "old\n");
    assert_eq!(shell.json(&["branch", "conflicts"])["conflicts"], json!([]));

    // What is settled in a fork goes back with it.
    shell.ok(&["branch", "resolve", "--all", "--take", "ours", "--only-kind", "kv", "--branch", "other"]);
    assert!(shell.ok(&["branch", "conflicts", "other"]).contains("1 open in other"));
    for wrong in [
        &["branch", "resolve", "kv", "b"][..],
        &["branch", "resolve", "kv", "--take", "ours"],
        &["branch", "resolve", "kv", "b", "--take", "mine"],
        &["branch", "resolve", "kv", "b", "--value", "no json"],
        &["branch", "resolve", "--all", "--value", "1"],
        &["branch", "resolve", "kv", "b", "--take", "ours", "--value", "1"],
    ] {
        shell.fails(2, wrong);
    }
}

/// What cannot be kept refuses the merge, and is told with the reason.
#[test]
fn what_cannot_be_kept_is_told() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "a", "1"]);
    shell.ok(&["branch", "fork", "try"]);
    for branch in ["main", "try"] {
        shell.ok(&["kv", "put", "a", branch, "--branch", branch]);
        shell.ok(&["event", "append", "seen", &format!("{{\"by\": \"{branch}\"}}"), "--branch", branch]);
    }
    let error = shell.fails(1, &["branch", "merge", "try", "--strategy", "keep"]);
    assert!(error.contains("event logs are not kept") && error.contains("--rule"), "{error}");
    shell.ok(&["branch", "merge", "try", "--strategy", "keep", "--resequence-events"]);
    assert!(shell.ok(&["branch", "conflicts"]).contains("1 open in main"));
}
