//! Event logs.

use super::shell::{text, Shell};
use serde_json::json;

#[test]
fn events_are_appended_and_read_by_number_and_type() {
    let shell = Shell::new();
    assert_eq!(shell.ok(&["event", "append", "login", r#"{"user": 1}"#]), "appended event 0\n");
    assert_eq!(shell.json(&["event", "append", "logout", r#"{"user": 1}"#]), json!({ "seq": 1 }));
    let lines = "{\"type\": \"login\", \"payload\": {\"user\": 2}}\n{\"type\": \"login\", \"payload\": {\"user\": 3}}\n";
    assert_eq!(shell.ok_fed(lines.as_bytes(), &["event", "append", "--batch"]), "appended events 2 to 3\n");
    let payloads = "{\"n\": 0}\n{\"n\": 1}\n";
    shell.ok_fed(payloads.as_bytes(), &["event", "append", "tick", "--batch"]);
    shell.ok_fed(b"{\"n\": 2}", &["event", "append", "tick", "-"]);
    assert_eq!(shell.ok(&["event", "length"]), "7\n");

    let event = shell.json(&["event", "get", "2"]);
    assert_eq!(
        (&event["seq"], &event["type"], &event["payload"]),
        (&json!(2), &json!("login"), &json!({ "user": 2 }))
    );
    assert_eq!(event["hash"].as_str().unwrap().len(), 64);
    assert!(event["at_ms"].as_i64().unwrap() > 1_600_000_000_000);
    let printed = shell.ok(&["event", "get", "6"]);
    assert!(
        printed.starts_with("SEQ") && printed.contains("tick") && printed.contains(r#"{"n":2}"#),
        "{printed}"
    );

    let seqs = |arguments: &[&str]| -> Vec<u64> {
        let found = shell.json(arguments);
        let events = found.get("events").unwrap_or(&found).as_array().unwrap().clone();
        events.iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&["event", "range"]), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(seqs(&["event", "range", "--from", "2", "--to", "4"]), [2, 3]);
    assert_eq!(seqs(&["event", "range", "--newest", "--limit", "2"]), [6, 5]);
    assert_eq!(seqs(&["event", "range", "--type", "login", "--from", "1"]), [2, 3]);
    assert_eq!(seqs(&["event", "by-type", "tick", "--after", "4"]), [5, 6]);
    assert_eq!(seqs(&["event", "by-type", "nothing"]), [0_u64; 0]);
    let output = shell.fed(b"", &["event", "range", "--newest", "--limit", "2"]);
    assert!(text(&output.stderr).contains("--to 5"), "{}", text(&output.stderr));
    assert_eq!(seqs(&["event", "range", "--newest", "--limit", "2", "--to", "5"]), [4, 3]);
    let output = shell.fed(b"", &["event", "range", "--limit", "3"]);
    assert!(text(&output.stderr).contains("--from 3"), "{}", text(&output.stderr));

    let types = shell.json(&["event", "types"]);
    assert_eq!(
        types,
        json!([
            { "type": "login", "count": 3, "last_seq": 3 },
            { "type": "logout", "count": 1, "last_seq": 1 },
            { "type": "tick", "count": 3, "last_seq": 6 },
        ])
    );
    assert!(shell.ok(&["event", "types"]).lines().any(|line| line.starts_with("logout")));
    assert_eq!(shell.ok(&["event", "verify"]), "intact: 7 events\n");
    assert_eq!(shell.json(&["event", "verify"]), json!({ "checked": 7, "first": 0, "first_bad": null }));
}

#[test]
fn a_bad_event_is_refused_and_nothing_of_its_batch_stays() {
    let shell = Shell::new();
    shell.ok(&["event", "append", "a", "{}"]);
    assert!(shell.fails(2, &["event", "append", "a", "{n: 1}"]).contains("payload is not JSON"));
    assert!(shell.fails(1, &["event", "append", "a", "[1]"]).contains("JSON object"));
    assert!(shell.fails(1, &["event", "append", "", "{}"]).contains("empty"));
    shell.fails(2, &["event", "append", "a"]);
    shell.fails(2, &["event", "append", "a", "{}", "--batch"]);
    for (input, wanted) in [("{}\n{n}\n", "line 2"), ("{}\n[1]\n", "JSON object"), ("", "no line")] {
        let error = shell.fails_fed(1, input.as_bytes(), &["event", "append", "a", "--batch"]);
        assert!(error.contains(wanted), "{error}");
    }
    let error = shell.fails_fed(1, b"{\"kind\": \"a\"}\n", &["event", "append", "--batch"]);
    assert!(error.contains("line 1") && error.contains("write it like"), "{error}");
    assert_eq!(shell.ok(&["event", "length"]), "1\n");
    assert!(shell.fails(1, &["event", "get", "1"]).contains("no event 1"));
    shell.fails(2, &["event", "get", "first"]);
}

#[test]
fn a_log_is_trimmed_by_number_count_and_age() {
    let shell = Shell::new();
    let payloads: String = (0..10).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    shell.ok_fed(payloads.as_bytes(), &["event", "append", "tick", "--batch"]);
    let trim = |arguments: &[&str]| shell.ok(&[&["event", "trim"][..], arguments].concat());
    assert_eq!(trim(&["--before", "3"]), "deleted 3 events; the log begins with event 3\n");
    assert_eq!(trim(&["--keep", "4"]), "deleted 3 events; the log begins with event 6\n");
    assert_eq!(trim(&["--older-than", "1h"]), "deleted 0 events; the log begins with event 6\n");
    assert_eq!(shell.ok(&["event", "length"]), "4\n");
    assert_eq!(shell.json(&["event", "length"]), json!({ "length": 4, "first": 6, "next": 10 }));
    assert_eq!(shell.ok(&["event", "verify"]), "intact: 4 events\n");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(trim(&["--older-than", "1ms"]), "deleted 3 events; the log begins with event 9\n");
    assert_eq!(shell.ok(&["event", "append", "tick", "{}"]), "appended event 10\n");
    assert!(shell.fails(1, &["event", "get", "2"]).contains("there is no event 2"));
    for bad in [&["event", "trim"][..], &["event", "trim", "--keep", "1", "--before", "2"]] {
        shell.fails(2, bad);
    }
}
