//! Blobs.

use super::shell::Shell;
use serde_json::json;

#[test]
fn what_is_put_comes_back() {
    let shell = Shell::new();
    let film: Vec<u8> = (0..=255_u8).cycle().take(1_500_000).collect();
    let file = shell.beside("film");
    std::fs::write(&file, &film).unwrap();
    let file = file.to_str().unwrap();
    let hash = blake3::hash(&film).to_hex().to_string();
    let missing = shell.fails(1, &["blob", "put", "films/7", "/no/such/file"]);
    assert!(missing.contains("/no/such/file"), "{missing}");
    assert!(!shell.home().join("store").exists(), "what was refused made a store");
    assert_eq!(shell.ok(&["blob", "put", "films/7", file]), format!("1.4 MiB, blake3 {hash}\n"));
    let info = shell.json(&["blob", "info", "films/7"]);
    assert_eq!(info, json!({ "key": "films/7", "bytes": film.len(), "blake3": hash }));
    assert_eq!(shell.fed(b"", &["blob", "get", "films/7"]).stdout, film);
    shell.ok_fed(&film[..7], &["blob", "put", "start", "-"]);
    assert_eq!(shell.fed(b"", &["blob", "get", "start"]).stdout, &film[..7]);
    assert_eq!(shell.ok(&["blob", "list"]), "films/7\nstart\n");
    assert_eq!(shell.ok(&["blob", "count", "--prefix", "films/"]), "1\n");
    let diff = {
        shell.ok(&["branch", "fork", "try"]);
        shell.ok(&["blob", "put", "start", file, "--branch", "try"]);
        shell.json(&["branch", "diff", "main", "try"])
    };
    assert_eq!(diff["entries"][0]["left"]["bytes"], 7, "{diff}");
    assert_eq!(shell.ok(&["blob", "delete", "start"]), "deleted\n");
    assert_eq!(shell.ok(&["blob", "delete", "start"]), "was not there\n");
    assert!(shell.fails(1, &["blob", "get", "start"]).contains("no blob \"start\""));
    assert_eq!(shell.ok(&["kv", "count"]), "0\n", "blobs are not pairs");
    shell.ok(&["verify"]);
}
