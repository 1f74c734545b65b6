//! Key-value pairs and state cells.

use super::shell::{text, Shell};
use serde_json::{json, Value};
use std::process::Stdio;

#[test]
fn what_is_put_is_got() {
    let shell = Shell::new();
    assert_eq!(shell.ok(&["kv", "put", "user:1", "Ada"]), "put, version 1\n");
    assert_eq!(shell.ok(&["kv", "get", "user:1"]), "Ada\n");
    assert_eq!(shell.ok(&["kv", "get", "user:1", "--raw"]), "Ada");
    let put = shell.json(&["kv", "put", "user:1", "Eva"]);
    assert_eq!(put, json!({ "key": "user:1", "version": 2 }));
    assert_eq!(
        shell.json(&["kv", "get", "user:1"]),
        json!({ "key": "user:1", "value": "Eva", "version": 2 })
    );
}

#[test]
fn every_type_of_value_comes_back_as_it_was() {
    let shell = Shell::new();
    for (kind, given, value, shown) in [
        ("string", "-x", json!("-x"), "-x"),
        ("string", "", json!(""), ""),
        ("int", "-9223372036854775808", json!(i64::MIN), "-9223372036854775808"),
        ("float", "2.5e3", json!(2500.0), "2500.0"),
        ("float", "1", json!(1.0), "1.0"),
        ("bool", "true", json!(true), "true"),
        ("bytes", "oak", json!({ "$bytes": "b2Fr" }), r#"{"$bytes":"b2Fr"}"#),
        ("json", r#"{"a": [1, null, "x"]}"#, json!({ "a": [1, null, "x"] }), r#"{"a":[1,null,"x"]}"#),
    ] {
        shell.ok(&["kv", "put", "k", given, "--type", kind]);
        let got = shell.json(&["kv", "get", "k"]);
        assert_eq!(got["value"], value, "{kind} {given:?}");
        assert_eq!(shell.ok(&["kv", "get", "k"]), format!("{shown}\n"), "{kind} {given:?}");
    }
    // JSON has no infinity; people read one all the same.
    shell.ok(&["kv", "put", "k", "inf", "--type", "float"]);
    assert_eq!(shell.ok(&["kv", "get", "k"]), "inf\n");
    assert!(shell.fails(1, &["kv", "get", "k", "--json"]).contains("JSON has no number"));
    for (kind, bad) in [
        ("int", "1.5"),
        ("int", "9223372036854775808"),
        ("float", "much"),
        ("bool", "yes"),
        ("json", "{a: 1}"),
    ] {
        let error = shell.fails(2, &["kv", "put", "bad", bad, "--type", kind]);
        assert!(error.contains(bad), "{error}");
    }
    assert!(shell.fails(2, &["kv", "put", "bad", "x", "--type", "text"]).contains("possible values"));
    assert_eq!(shell.ok(&["kv", "list"]), "k\n", "what was refused was not written");
}

#[test]
fn a_pair_with_a_time_to_live_is_gone_then() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "session", "alice", "--ttl", "1h"]);
    let left = shell.json(&["kv", "ttl", "session"])["ttl_ms"].as_u64().unwrap();
    assert!((3_000_000..=3_600_000).contains(&left), "{left}");
    assert!(shell.ok(&["kv", "ttl", "session"]).starts_with("ends in 59m"));
    assert_eq!(shell.ok(&["kv", "expire", "session", "--never"]), "stays\n");
    assert_eq!(shell.ok(&["kv", "ttl", "session"]), "stays\n");
    assert_eq!(shell.ok(&["kv", "expire", "session", "--ttl", "1ms"]), "ends in 1ms\n");
    // Hidden where nobody may delete it: a command that reads is not the one who does.
    let error = shell.fails(1, &["kv", "get", "session"]);
    assert!(error.contains("there is no key"), "{error}");
    assert_eq!(shell.json(&["kv", "count"])["count"], 0);
    shell.fails(1, &["kv", "ttl", "session"]);
    shell.fails(1, &["kv", "expire", "session", "--ttl", "1h"]);
    shell.fails(2, &["kv", "expire", "session"]);
    shell.fails(2, &["kv", "put", "session", "alice", "--ttl", "soon"]);
    // What was put under a key of any bytes is kept as long.
    shell.ok(&["kv", "put", "00ff", "x", "--hex", "--ttl", "1h"]);
    assert!(shell.ok(&["kv", "ttl", "00ff", "--hex"]).starts_with("ends in"));
    shell.ok(&["verify"]);
}

#[test]
fn values_go_through_the_standard_streams_unharmed() {
    let shell = Shell::new();
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(100_000).collect();
    shell.ok_fed(&bytes, &["kv", "put", "photo", "--type", "bytes", "--stdin"]);
    let output = shell.fed(b"", &["kv", "get", "photo", "--raw"]);
    assert_eq!(output.stdout, bytes);
    // A line break at the end of a text is the shell's, not the value's.
    shell.ok_fed(b"two\nlines\n", &["kv", "put", "t", "-"]);
    assert_eq!(shell.ok(&["kv", "get", "t", "--raw"]), "two\nlines");
    shell.ok_fed(b" 42\n", &["kv", "put", "n", "--stdin", "--type", "int"]);
    assert_eq!(shell.json(&["kv", "get", "n"])["value"], 42);
    let error = shell.fails_fed(1, b"\xff\xfe", &["kv", "put", "t", "-"]);
    assert!(error.contains("not UTF-8") && error.contains("--type bytes"), "{error}");
    shell.fails(2, &["kv", "put", "t"]);
    shell.fails(2, &["kv", "put", "t", "x", "--stdin"]);
}

#[test]
fn keys_are_listed_counted_and_deleted() {
    let shell = Shell::new();
    let lines: String = (0..25).map(|n| format!("user:{n:02}\t{n}\n")).collect();
    assert_eq!(shell.ok_fed(lines.as_bytes(), &["kv", "load", "--type", "int"]), "loaded 25 pairs\n");
    shell.ok(&["kv", "put", "other", "x"]);
    assert_eq!(shell.ok(&["kv", "count"]), "26\n");
    assert_eq!(shell.json(&["kv", "count", "--prefix", "user:"]), json!({ "count": 25 }));
    let output = shell.fed(b"", &["kv", "list", "--prefix", "user:", "--limit", "2"]);
    assert_eq!(text(&output.stdout), "user:00\nuser:01\n");
    assert!(text(&output.stderr).contains("--after \"user:01\""), "{}", text(&output.stderr));
    let page = shell.json(&["kv", "list", "--prefix", "user:", "--after", "user:22"]);
    assert_eq!(page, json!({ "keys": ["user:23", "user:24"], "next": null }));
    assert_eq!(shell.ok(&["kv", "delete", "user:00", "nobody"]), "deleted 1, 1 not there\n");
    assert_eq!(shell.json(&["kv", "delete", "user:01"]), json!({ "deleted": 1 }));
    assert_eq!(shell.ok(&["kv", "exists", "user:02"]), "yes\n");
    let output = shell.fed(b"", &["kv", "exists", "user:01"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "no\n".to_owned()));
    let error = shell.fails(1, &["kv", "get", "user:01"]);
    assert!(error.contains("no key \"user:01\"") && error.contains("kv list"), "{error}");
}

#[test]
fn keys_that_are_no_text_are_given_and_shown_as_their_bytes() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "00ff", "low", "--hex"]);
    shell.ok(&["kv", "put", "0x00ff01", "next", "--hex"]);
    shell.ok(&["kv", "put", "text", "x"]);
    assert_eq!(shell.ok(&["kv", "get", "00FF", "--hex"]), "low\n");
    assert_eq!(shell.ok(&["kv", "list"]), "0x00ff\n0x00ff01\ntext\n");
    let output = shell.fed(b"", &["kv", "list", "--limit", "1"]);
    assert!(text(&output.stderr).contains("--after 0x00ff"), "{}", text(&output.stderr));
    assert_eq!(shell.ok(&["kv", "list", "--after", "0x00ff", "--hex"]), "0x00ff01\ntext\n");
    assert_eq!(shell.ok(&["kv", "list", "--prefix", "00", "--hex"]), "0x00ff\n0x00ff01\n");
    assert_eq!(shell.ok(&["kv", "count", "--prefix", "00ff01", "--hex"]), "1\n");
    assert_eq!(shell.ok(&["kv", "exists", "74657874", "--hex"]), "yes\n");
    assert_eq!(shell.json(&["kv", "list"])["keys"], json!([{ "hex": "00ff" }, { "hex": "00ff01" }, "text"]));
    // What a scan writes is what a load reads, whatever the keys are.
    let lines = shell.ok(&["kv", "scan", "--json"]);
    assert_eq!(lines.lines().next().unwrap(), r#"{"key":{"hex":"00ff"},"value":"low"}"#);
    let other = Shell::new();
    other.ok_fed(lines.as_bytes(), &["kv", "load"]);
    assert_eq!(other.ok(&["kv", "scan", "--json"]), lines);
    let error = shell.fails_fed(1, br#"{"key": {"hex": "0"}, "value": 1}"#, &["kv", "load"]);
    assert!(error.contains("hexadecimal"), "{error}");
    let error = shell.fails(1, &["kv", "get", "0g", "--hex"]);
    assert!(error.contains("hexadecimal"), "{error}");
    assert_eq!(shell.ok(&["kv", "delete", "00ff", "00aa", "--hex"]), "deleted 1, 1 not there\n");
}

#[test]
fn a_range_of_keys_is_deleted() {
    let shell = Shell::new();
    let lines: String = (0..20).map(|n| format!("user:{n:02}\t{n}\n")).collect();
    shell.ok_fed(lines.as_bytes(), &["kv", "load", "--type", "int"]);
    assert_eq!(shell.ok(&["kv", "delete-range", "--from", "user:05", "--to", "user:08"]), "deleted 3\n");
    assert_eq!(shell.json(&["kv", "delete-range", "--to", "user:02"]), json!({ "deleted": 2 }));
    assert_eq!(
        shell.json(&["kv", "delete-range", "--from", "757365723a3139", "--hex"]),
        json!({ "deleted": 1 })
    );
    assert_eq!(shell.ok(&["kv", "count"]), "14\n");
    let error = shell.fails(2, &["kv", "delete-range"]);
    assert!(error.contains("--from"), "{error}");
    assert_eq!(shell.ok(&["kv", "count"]), "14\n");
    assert_eq!(shell.ok(&["kv", "delete-range", "--from", ""]), "deleted 14\n");
}

#[test]
fn a_scan_is_what_a_load_reads() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "a\tkey", "a\nvalue"]);
    shell.ok(&["kv", "put", "b", "oak", "--type", "bytes"]);
    shell.ok(&["kv", "put", "c", "1", "--type", "float"]);
    shell.ok(&["kv", "put", "d", "1"]);
    let lines = shell.ok(&["kv", "scan", "--json"]);
    assert_eq!(lines.lines().count(), 4);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first, json!({ "key": "a\tkey", "value": "a\nvalue" }));
    shell.ok_fed(lines.as_bytes(), &["kv", "load", "--space", "copy"]);
    assert_eq!(shell.ok(&["kv", "scan", "--json", "--space", "copy"]), lines);
    assert_eq!(
        shell.ok(&["kv", "scan", "--from", "b", "--to", "d"]),
        "b\t{\"$bytes\":\"b2Fr\"}\nc\t1.0\n",
        "the end of a range is not in it"
    );
    assert_eq!(shell.ok(&["kv", "scan", "--from", "b", "--limit", "1"]).lines().count(), 1);
    assert_eq!(shell.ok(&["kv", "scan", "--limit", "0"]), "");
}

#[test]
fn loads_in_any_order_and_none_of_a_bad_one() {
    let shell = Shell::new();
    let unsorted =
        "{\"key\":\"b\",\"value\":1}\n\n{\"key\":\"a\",\"value\":[true]}\n{\"key\":\"b\",\"value\":2}\n";
    let loaded = shell.ok_fed(unsorted.as_bytes(), &["kv", "load", "--json"]);
    let loaded: Value = serde_json::from_str(&loaded).unwrap();
    assert_eq!(loaded, json!({ "loaded": 3, "bulk": false }));
    assert_eq!(shell.ok(&["kv", "scan"]), "a\t[true]\nb\t2\n", "the later value of a key wins");
    let sorted: String = (0..1000).map(|n| format!("c{n:04}\tv{n}\n")).collect();
    let loaded = shell.ok_fed(sorted.as_bytes(), &["kv", "load", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&loaded).unwrap(), json!({ "loaded": 1000, "bulk": true }));
    assert_eq!(shell.ok(&["kv", "count"]), "1002\n", "a bulk load keeps what was there");
    assert_eq!(shell.ok(&["kv", "get", "c0999"]), "v999\n");
    for (input, wanted) in [
        ("x\t1\nno tab\n", "line 2 of the standard input: it has no tab"),
        (
            "{\"key\":\"x\",\"value\":1}\n{\"key\":\"y\"}\n",
            "line 2 of the standard input: missing field `value`",
        ),
        ("{\"key\":\"x\",\"value\":18446744073709551615}\n", "does not fit"),
    ] {
        let error = shell.fails_fed(1, input.as_bytes(), &["kv", "load", "--space", "bad"]);
        assert!(error.contains(wanted) && error.contains("nothing was written"), "{error}");
    }
    let long = format!("{}\tx\n", "k".repeat(8193));
    assert!(shell.fails_fed(1, long.as_bytes(), &["kv", "load", "--space", "bad"]).contains("8193 bytes"));
    assert_eq!(shell.ok(&["kv", "count", "--space", "bad"]), "0\n");
}

#[test]
fn a_reader_that_leaves_ends_a_scan_quietly() {
    let shell = Shell::new();
    let lines: String = (0..50_000).map(|n| format!("key {n:06}\t{}\n", "x".repeat(20))).collect();
    shell.ok_fed(lines.as_bytes(), &["kv", "load"]);
    let mut child =
        shell.command(&["kv", "scan"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn bad_keys_and_spaces_are_refused_with_a_reason() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "v"]);
    let long = "k".repeat(8193);
    for (arguments, wanted) in [
        (&["kv", "put", "", "v"][..], "it is empty"),
        (&["kv", "put", &long, "v"], "8193 bytes is too long"),
        (&["kv", "put", "k", "v", "--space", "Bad"], "space \"Bad\" is not allowed"),
        (&["kv", "get", "k", "--branch", "mian"], "did you mean \"main\"?"),
    ] {
        let error = shell.fails(1, arguments);
        assert!(error.contains(wanted), "{error}");
    }
    assert_eq!(shell.ok(&["kv", "get", "k"]), "v\n");
}

#[test]
fn a_cell_changes_only_from_the_version_that_is_expected() {
    let shell = Shell::new();
    assert_eq!(shell.ok(&["state", "init", "leader", "alice"]), "made, version 1\n");
    assert_eq!(shell.ok(&["state", "init", "leader", "bob"]), "was there already, version 1\n");
    assert_eq!(shell.ok(&["state", "cas", "leader", "bob", "--expect", "1"]), "set, version 2\n");
    let error = shell.fails(1, &["state", "cas", "leader", "carol", "--expect", "1"]);
    assert!(error.contains("is at version 2, and version 1 was expected"), "{error}");
    let error = shell.fails(1, &["state", "cas", "leader", "carol", "--absent"]);
    assert!(error.contains("is at version 2, and none was expected"), "{error}");
    let error = shell.fails(1, &["state", "cas", "nobody", "carol", "--expect", "3"]);
    assert!(error.contains("is not there"), "{error}");
    assert_eq!(shell.ok(&["state", "cas", "term", "1", "--absent", "--type", "int"]), "set, version 3\n");
    assert_eq!(shell.ok(&["state", "get", "leader"]), "bob\n");
    assert_eq!(
        shell.json(&["state", "get", "leader"]),
        json!({ "key": "leader", "value": "bob", "version": 2 })
    );
    assert_eq!(shell.json(&["state", "set", "leader", "dan"]), json!({ "key": "leader", "version": 4 }));
    assert_eq!(shell.ok(&["state", "list"]), "leader\nterm\n");
    assert_eq!(shell.ok(&["state", "count", "--prefix", "t"]), "1\n");
    assert_eq!(shell.ok(&["state", "delete", "term"]), "deleted\n");
    assert_eq!(shell.json(&["state", "delete", "term"]), json!({ "key": "term", "deleted": false }));
    assert!(shell.fails(1, &["state", "get", "term"]).contains("no cell \"term\""));
    shell.fails(2, &["state", "cas", "leader", "x"]);
    shell.fails(2, &["state", "cas", "leader", "x", "--expect", "1", "--absent"]);
    assert_eq!(shell.ok(&["kv", "count"]), "0\n", "cells are not pairs");
}

#[test]
fn spaces_are_listed_and_dropped() {
    let shell = Shell::new();
    assert_eq!(shell.fails(1, &["space", "drop", "tenant-7"]).lines().count(), 1);
    shell.ok(&["kv", "put", "k", "mine"]);
    shell.ok(&["kv", "put", "k", "theirs", "--space", "tenant-7"]);
    shell.ok(&["state", "init", "leader", "alice", "--space", "tenant-7"]);
    let printed = shell.ok(&["space", "list"]);
    assert!(printed.contains("tenant-7  kv state"), "{printed}");
    assert_eq!(shell.ok(&["space", "drop", "tenant-7"]), "deleted 2 entries of tenant-7\n");
    let left = shell.json(&["space", "list"]);
    assert_eq!(left, serde_json::json!([{ "name": "default", "kinds": ["kv"] }]));
    assert_eq!(shell.ok(&["kv", "get", "k"]), "mine\n");
    shell.fails(1, &["space", "drop", "No Space"]);
}

#[test]
fn integers_are_added_to() {
    let shell = Shell::new();
    assert_eq!(shell.ok(&["kv", "add", "visits"]), "1\n");
    assert_eq!(shell.ok(&["kv", "add", "visits", "-5"]), "-4\n");
    assert_eq!(shell.json(&["kv", "add", "0aff", "7", "--hex"])["value"], json!(7));
    assert_eq!(shell.ok(&["kv", "get", "visits"]), "-4\n");
    shell.ok(&["kv", "put", "name", "Ada"]);
    shell.fails(1, &["kv", "add", "name"]);
    shell.fails(2, &["kv", "add", "visits", "much"]);
}
