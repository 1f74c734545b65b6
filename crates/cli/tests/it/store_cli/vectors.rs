//! Vector collections.

use super::shell::Shell;
use serde_json::{json, Value};

fn words(shell: &Shell) {
    let create = ["vector", "create", "words", "--dimension", "3"];
    assert_eq!(shell.ok(&create), "made: words, 3 dimensions, cosine\n");
    assert_eq!(shell.json(&create)["made"], false, "again is not an error");
    let lines = [
        json!({ "key": "oak", "vector": [1, 0, 0], "metadata": { "year": 2021, "tag": "a" } }),
        json!({ "key": "elm", "vector": [0.9, 0.1, 0], "metadata": { "year": 2019, "tag": "b" } }),
        json!({ "key": "sea", "vector": [0, 0, 1] }),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(shell.ok_fed(lines.as_bytes(), &["vector", "upsert-many", "words"]), "put 3 vectors\n");
}

fn keys(found: &Value) -> Vec<&str> {
    found.as_array().unwrap().iter().map(|found| found["key"].as_str().unwrap()).collect()
}

#[test]
fn vectors_are_put_found_and_deleted() {
    let shell = Shell::new();
    words(&shell);
    let collections = shell.json(&["vector", "collections"]);
    assert_eq!(collections, json!([{ "name": "words", "dimension": 3, "metric": "cosine", "count": 3 }]));
    assert!(shell.ok(&["vector", "collections"]).contains("words"));
    let found = shell.json(&["vector", "search", "words", "[1, 0, 0]", "--k", "2"]);
    assert_eq!(keys(&found), ["oak", "elm"]);
    assert!((found[0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{found}");
    assert_eq!(found[0]["metadata"]["year"], 2021);
    let printed = shell.ok(&["vector", "search", "words", "[1, 0, 0]"]);
    assert_eq!(printed.lines().count(), 4, "a head and three vectors: {printed}");
    let found = shell.json(&["vector", "search", "words", "[1, 0, 0]", "--filter", "year<2020"]);
    assert_eq!(keys(&found), ["elm"]);
    let filters = ["--filter", "year>=2000", "--filter", "tag in [\"a\", \"c\"]"];
    let found = shell.json(&[&["vector", "search", "words", "[1, 0, 0]"][..], &filters].concat());
    assert_eq!(keys(&found), ["oak"], "all conditions must hold");
    let found = shell.ok_fed(b"[0, 0, 2]\n", &["vector", "search", "words", "-", "--k", "1", "--json"]);
    assert_eq!(keys(&serde_json::from_str(&found).unwrap()), ["sea"]);

    shell.ok(&["vector", "upsert", "words", "oak", "[0, -1, 0]", "--metadata", r#"{"year": 2022}"#]);
    shell.ok_fed(b"[0.5, 0.5, 0]", &["vector", "upsert", "words", "ash", "-"]);
    let got = shell.json(&["vector", "get", "words", "oak"]);
    assert_eq!(got, json!({ "key": "oak", "vector": [0.0, -1.0, 0.0], "metadata": { "year": 2022 } }));
    assert!(shell.ok(&["vector", "get", "words", "sea"]).contains("1.0"));
    assert_eq!(shell.ok(&["vector", "count", "words"]), "4\n");
    assert_eq!(shell.ok(&["vector", "list", "words", "--limit", "2"]), "ash\nelm\n");
    assert_eq!(shell.ok(&["vector", "delete", "words", "elm", "nobody"]), "deleted 1, 1 not there\n");
    assert_eq!(shell.json(&["vector", "count", "words"]), json!({ "count": 3 }));
    assert_eq!(shell.ok(&["vector", "drop", "words"]), "dropped\n");
    assert_eq!(shell.json(&["vector", "drop", "words"]), json!({ "collection": "words", "dropped": false }));
    assert_eq!(shell.json(&["vector", "collections"]), json!([]));
}

#[test]
fn bad_vectors_collections_and_filters_are_refused_with_a_reason() {
    let shell = Shell::new();
    words(&shell);
    assert!(shell.fails(1, &["vector", "count", "wrods"]).contains("did you mean \"words\"?"));
    assert!(shell.fails(1, &["vector", "count", "zzz"]).contains("vector collections"));
    for (arguments, status, wanted) in [
        (&["vector", "upsert", "words", "x", "[1, 2]"][..], 1, "3"),
        (&["vector", "search", "words", "[1, 2]"], 1, "3"),
        (&["vector", "upsert", "words", "x", "[1, 2, 1e999]"], 2, "vector"),
        (&["vector", "upsert", "words", "x", "1"], 2, "not a list of numbers"),
        (&["vector", "upsert", "words", "x", "[1, 2"], 2, "not JSON"),
        (&["vector", "upsert", "words", "x", "[1, 2, 3]", "--metadata", "{a"], 2, "metadata is not JSON"),
        (&["vector", "search", "words", "[1, 2, 3]", "--filter", "year ="], 2, "filter"),
        (&["vector", "create", "none", "--dimension", "0"], 1, "dimension"),
        (&["vector", "create", "none", "--dimension", "3", "--metric", "l7"], 2, "l7"),
        (&["vector", "create", "words", "--dimension", "4"], 1, "already"),
        (&["vector", "get", "words", "nobody"], 1, "no vector \"nobody\""),
    ] {
        let error = shell.fails(status, arguments);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
    let lines = b"{\"key\": \"x\", \"vector\": [1, 2, 3]}\n{\"key\": \"y\", \"vector\": [1]}\n";
    shell.fails_fed(1, lines, &["vector", "upsert-many", "words"]);
    let lines = b"{\"key\": \"x\"}\n";
    assert!(shell.fails_fed(1, lines, &["vector", "upsert-many", "words"]).contains("line 1"));
    assert_eq!(shell.ok(&["vector", "count", "words"]), "3\n", "a commit is whole or not at all");
}
