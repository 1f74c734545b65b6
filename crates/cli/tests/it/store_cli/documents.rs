//! JSON documents.

use super::shell::Shell;
use serde_json::json;

#[test]
fn documents_are_set_read_and_changed_in_their_places() {
    let shell = Shell::new();
    assert_eq!(
        shell.ok(&["json", "set", "user:1", "$", r#"{"name": "Ada", "tags": ["a", "b"]}"#]),
        "set, version 1\n"
    );
    assert_eq!(shell.ok(&["json", "get", "user:1"]), "{\"name\":\"Ada\",\"tags\":[\"a\",\"b\"]}\n");
    shell.ok(&["json", "set", "user:1", "$.tags[1]", "-2.5"]);
    assert_eq!(shell.ok(&["json", "get", "user:1", "tags[1]"]), "-2.5\n");
    assert_eq!(
        shell.json(&["json", "get", "user:1", "tags"]),
        json!({ "key": "user:1", "path": "$.tags", "value": ["a", -2.5] })
    );
    // What is missing on the way is made, a document too.
    shell.ok_fed(b"[1]\n", &["json", "set", "user:2", "a.b", "-"]);
    assert_eq!(shell.ok(&["json", "get", "user:2"]), "{\"a\":{\"b\":[1]}}\n");
    let patched = shell.json(&["json", "patch", "user:1", r#"{"name": null, "age": 36}"#]);
    assert_eq!(patched["key"], "user:1");
    shell.ok_fed(b"{\"age\": 37}", &["json", "patch", "user:1", "-"]);
    assert_eq!(shell.json(&["json", "get", "user:1"])["value"], json!({ "tags": ["a", -2.5], "age": 37 }));
    assert_eq!(shell.ok(&["json", "list", "--prefix", "user:"]), "user:1\nuser:2\n");
    assert_eq!(
        shell.json(&["json", "list", "--limit", "1"]),
        json!({ "keys": ["user:1"], "next": "user:1" })
    );
    assert_eq!(shell.ok(&["json", "count"]), "2\n");
    assert_eq!(shell.ok(&["json", "delete", "user:1", "tags"]), "deleted\n");
    assert_eq!(shell.ok(&["json", "delete", "user:1", "tags"]), "was not there\n");
    assert_eq!(shell.ok(&["json", "get", "user:1"]), "{\"age\":37}\n");
    assert_eq!(shell.json(&["json", "delete", "user:1"]), json!({ "key": "user:1", "deleted": true }));
    assert_eq!(shell.ok(&["json", "list"]), "user:2\n");
}

#[test]
fn bad_documents_paths_and_values_are_refused_with_a_reason() {
    let shell = Shell::new();
    shell.ok(&["json", "set", "d", "$", r#"{"a": 1}"#]);
    assert!(shell.fails(1, &["json", "get", "nobody"]).contains("no document \"nobody\""));
    assert!(shell.fails(1, &["json", "get", "d", "b"]).contains("nothing at $.b in document \"d\""));
    assert!(shell.fails(2, &["json", "get", "d", "a["]).contains("a["));
    assert!(shell.fails(2, &["json", "set", "d", "$", "{a}"]).contains("not JSON"));
    assert!(shell.fails(2, &["json", "set", "d", "$", "text"]).contains("double quotes"));
    assert!(shell.fails_fed(1, b"{", &["json", "set", "d", "$", "-"]).contains("not JSON"));
    // The path leads through a number.
    shell.fails(1, &["json", "set", "d", "a.b", "1"]);
    let deep = format!("{}{}", "[".repeat(110), "]".repeat(110));
    shell.fails(1, &["json", "set", "d", "$", &deep]);
    assert_eq!(shell.ok(&["json", "get", "d"]), "{\"a\":1}\n");
}
