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

#[test]
fn documents_go_in_and_out_as_lines_and_as_a_table() {
    let shell = Shell::new();
    let lines = "{\"id\": 7, \"name\": \"Ada\", \"at\": {\"city\": \"London, UK\"}}\n{\"id\": \"x\", \"name\": \"Eve \\\"E\\\"\"}\n";
    let load = ["json", "load", "--key", "id", "--prefix", "user:"];
    assert_eq!(shell.ok_fed(lines.as_bytes(), &load), "loaded 2 documents\n");
    assert_eq!(shell.ok(&["json", "get", "user:7", "at.city"]), "\"London, UK\"\n");
    let scanned = shell.ok(&["json", "scan"]);
    assert_eq!(scanned.lines().count(), 2);
    let table = shell.ok(&["json", "scan", "--format", "csv", "--fields", "name,at.city,id"]);
    assert_eq!(table, "key,name,at.city,id\nuser:7,Ada,\"London, UK\",7\nuser:x,\"Eve \"\"E\"\"\",,x\n");

    // What is printed can be loaded, and is the same then.
    let other = Shell::new();
    other.ok_fed(scanned.as_bytes(), &["json", "load"]);
    assert_eq!(other.ok(&["json", "scan"]), scanned);
    assert_eq!(other.ok(&["json", "scan", "--prefix", "user:x"]).lines().count(), 1);

    let csv = "key,n,ok,zip,none\na,1.5,true,01234,\n\"b\",x,false,\"1\n2\",0\n";
    other.ok_fed(csv.as_bytes(), &["json", "load", "--format", "csv", "--infer", "--space", "typed"]);
    let got = |key: &str, space: &str| -> serde_json::Value {
        serde_json::from_str(&other.ok(&["json", "get", key, "--space", space])).unwrap()
    };
    assert_eq!(got("a", "typed"), json!({ "n": 1.5, "ok": true, "zip": "01234" }));
    assert_eq!(got("b", "typed"), json!({ "n": "x", "ok": false, "zip": "1\n2", "none": 0 }));
    other.ok_fed(csv.as_bytes(), &["json", "load", "--format", "csv", "--key", "zip", "--space", "text"]);
    assert_eq!(
        got("01234", "text"),
        json!({ "key": "a", "n": "1.5", "ok": "true", "zip": "01234", "none": "" })
    );
}

#[test]
fn a_load_that_cannot_be_read_writes_nothing_and_says_where() {
    let shell = Shell::new();
    shell.ok(&["json", "set", "there", "$", "1"]);
    for (input, arguments, said) in [
        ("{\"key\": \"a\", \"value\": 1}\nnot\n", &["json", "load"][..], "line 2 of the standard input"),
        ("{\"id\": 1}\n{\"no\": 1}\n", &["json", "load", "--key", "id"], "it has no \"id\""),
        ("{\"id\": [1]}\n", &["json", "load", "--key", "id"], "neither text nor a number"),
        ("a,b\n1,2\n1\n", &["json", "load", "--format", "csv", "--key", "a"], "cannot be read"),
        ("a,b\n1,2\n", &["json", "load", "--format", "csv"], "no column `key`"),
        ("id,v\n,2\n", &["json", "load", "--format", "csv", "--key", "id", "--infer"], "line 2 of the CSV"),
    ] {
        let refused = shell.fails_fed(1, input.as_bytes(), arguments);
        assert!(refused.contains(said), "{input:?}: {refused}");
        assert_eq!(shell.ok(&["json", "count"]), "1\n", "{input:?}");
    }
    assert_eq!(shell.ok_fed(b"", &["json", "load"]), "loaded 0 documents\n");
    assert!(shell.fails(2, &["json", "scan", "--format", "csv"]).contains("--fields"));
}

#[test]
fn tables_in_parquet_files_lose_documents_or_are_not_offered() {
    let shell = Shell::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("documents.parquet");
    let file = file.to_str().unwrap();
    shell.ok(&["json", "set", "a", "$", r#"{"id": 7, "tags": ["x"]}"#]);
    shell.ok(&["json", "set", "b", "$", r#"{"id": "eight"}"#]);
    shell.ok(&["event", "append", "login", r#"{"user": 1}"#]);
    shell.ok(&["vector", "create", "words", "--dimension", "2"]);
    if cfg!(not(feature = "parquet")) {
        for arguments in [
            &["json", "scan", "--parquet", file][..],
            &["json", "load", "--parquet", file],
            &["event", "export", "--parquet", file],
            &["vector", "export", "words", "--parquet", file],
        ] {
            let said = shell.fails(1, arguments);
            assert!(said.contains("--features parquet"), "{said}");
        }
        return;
    }
    let said = shell.fails(1, &["json", "scan", "--parquet", file, "--sample", "1"]);
    assert!(said.contains("field \"id\" of document \"b\" is text"), "{said}");
    let rest = ["json", "scan", "--parquet", file, "--sample", "1", "--rest", "odd"];
    assert_eq!(shell.ok(&rest), format!("wrote 2 documents to {file}\n"));
    let load = ["json", "load", "--parquet", file, "--rest", "odd", "--space", "again"];
    assert_eq!(shell.json(&load), json!({ "loaded": 2 }));
    let scanned = shell.ok(&["json", "scan"]);
    assert_eq!(shell.ok(&["json", "scan", "--space", "again"]), scanned);
    shell.ok(&["json", "load", "--parquet", file, "--key", "key", "--prefix", "k:", "--space", "third"]);
    assert_eq!(shell.ok(&["json", "get", "k:a", "key", "--space", "third"]), "\"a\"\n");
    assert_eq!(shell.json(&["event", "export", "--parquet", file]), json!({ "file": file, "rows": 1 }));
    assert_eq!(shell.json(&["vector", "export", "words", "--parquet", file])["rows"], 0);
}
