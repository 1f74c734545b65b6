//! Packs: out of a store, into a store, and what is known of the file.

use super::shell::{said, text, Shell};
use serde_json::{json, Value};
use std::{fs, process::Output};

#[track_caller]
fn ok(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    text(&output.stdout)
}

#[track_caller]
fn fails(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{}", said(output));
    let error = text(&output.stderr);
    assert!(error.contains("error:"), "no reason: {}", said(output));
    error
}

#[track_caller]
fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// A store with something in it, and `main.dpack` of its branch.
fn exported() -> Shell {
    let shell = Shell::new();
    let lines: String = (0..3000).map(|number| format!("key {number:04}\tvalue {number}\n")).collect();
    shell.ok_fed(lines.as_bytes(), &["kv", "load"]);
    shell.ok(&["json", "set", "user", "$", "{\"name\": \"Ada\"}"]);
    let printed = shell.ok(&["export", "main.dpack"]);
    assert!(printed.starts_with("exported main: 3001 entries in "), "{printed}");
    shell
}

#[test]
fn a_branch_goes_out_and_comes_in() {
    let shell = exported();
    let done = shell.json(&["import", "main.dpack", "--as", "theirs"]);
    assert_eq!(done, json!({ "branch": "theirs", "entries": 3001 }));
    assert_eq!(shell.ok(&["kv", "get", "key 0042", "--branch", "theirs"]), "value 42\n");
    let printed = shell.ok(&["branch", "diff", "main", "theirs"]);
    assert_eq!(printed, "0 added, 0 removed, 0 modified\n");
    // The name is taken now, and so is the one that it had.
    for arguments in [&["import", "main.dpack", "--as", "theirs"][..], &["import", "main.dpack"]] {
        let error = shell.fails(1, arguments);
        assert!(error.contains("already"), "{error}");
    }
    // An import makes a store, where its branch takes the place of the empty main.
    shell.ok(&["import", "main.dpack", "--at", "elsewhere", "--create"]);
    assert_eq!(shell.ok(&["kv", "count", "--at", "elsewhere"]), "3000\n");
    // A pack that cannot be read makes none.
    fs::write(shell.beside("none.dpack"), "nothing").unwrap();
    let error = shell.fails(1, &["import", "none.dpack", "--at", "nowhere"]);
    assert!(error.contains("is not a pack"), "{error}");
    assert!(!shell.beside("nowhere").exists());
    shell.fails(2, &["import", "main.dpack", "--read-only"]);
    shell.fails(2, &["export", "x.dpack", "--level", "20"]);
    shell.fails(2, &["export"]);
}

#[test]
fn a_pack_is_read_as_a_store_where_it_lies() {
    let shell = exported();
    fs::remove_dir_all(shell.home()).unwrap();
    let at = ["--at", "main.dpack"];
    assert_eq!(shell.ok(&[&["kv", "get", "key 0007"][..], &at].concat()), "value 7\n");
    assert_eq!(shell.ok(&[&["json", "get", "user", "name"][..], &at].concat()), "\"Ada\"\n");
    assert_eq!(shell.json(&[&["info"][..], &at].concat())["branch"], "main");
    assert_eq!(shell.json(&[&["branch", "list"][..], &at].concat())[0]["entries"], 3001);
    for arguments in [
        &["kv", "put", "a", "b"][..],
        &["kv", "delete", "key 0001"],
        &["branch", "fork", "x"],
        &["branch", "delete", "main"],
        &["checkpoint"],
        &["compact"],
    ] {
        let error = shell.fails(2, &[arguments, &at[..]].concat());
        assert!(error.contains("is a pack, which is never written"), "{arguments:?}: {error}");
    }
    fs::write(shell.beside("text.dpack"), "hello, this is a text and no pack at all").unwrap();
    let error = shell.fails(1, &["kv", "list", "--at", "text.dpack"]);
    assert!(error.contains("is not a pack"), "{error}");
}

#[test]
fn a_pack_of_another_branch_is_meant_without_naming_it() {
    let shell = exported();
    shell.ok(&["branch", "fork", "try"]);
    shell.ok(&["kv", "put", "only", "here", "--branch", "try"]);
    shell.ok(&["export", "try.dpack", "--branch", "try"]);
    assert_eq!(shell.ok(&["kv", "get", "only", "--at", "try.dpack"]), "here\n");
    shell.ok(&["import", "try.dpack", "--at", "elsewhere", "--create"]);
    assert_eq!(shell.ok(&["kv", "get", "only", "--at", "elsewhere", "--branch", "try"]), "here\n");
}

#[test]
fn a_pack_against_a_base_needs_that_base() {
    let shell = exported();
    shell.ok(&["kv", "put", "key 0100", "changed"]);
    let done = shell.json(&["export", "monday.dpack", "--base", "main.dpack"]);
    assert!(done["nodes"].as_u64().unwrap() <= 3, "{done}");
    shell.ok(&["kv", "put", "new", "one"]);
    shell.ok(&["export", "tuesday.dpack", "--base", "monday.dpack"]);
    assert_eq!(shell.ok(&["kv", "get", "key 0100", "--at", "tuesday.dpack"]), "changed\n");

    let found = parsed(&shell.pack(&["diff", "main.dpack", "tuesday.dpack", "--json"]));
    assert_eq!((&found["added"], &found["modified"]), (&json!(1), &json!(1)));
    let printed = ok(&shell.pack(&["diff", "tuesday.dpack", "monday.dpack"]));
    assert!(printed.ends_with("0 added, 1 removed, 0 modified\n"), "{printed}");

    // A pack in the place of one that it stands on would be the end of both.
    for base in ["main.dpack", "monday.dpack"] {
        let error = shell.fails(1, &["export", base, "--base", "monday.dpack"]);
        assert!(error.contains("write to another name"), "{error}");
    }
    assert_eq!(shell.ok(&["kv", "get", "key 0100", "--at", "monday.dpack"]), "changed\n");

    fs::create_dir(shell.beside("away")).unwrap();
    fs::rename(shell.beside("tuesday.dpack"), shell.beside("away/tuesday.dpack")).unwrap();
    let error = shell.fails(1, &["kv", "list", "--at", "away/tuesday.dpack"]);
    assert!(error.contains("monday.dpack, which is not beside it"), "{error}");
    let error = shell.fails(1, &["import", "away/tuesday.dpack", "--as", "x"]);
    assert!(error.contains("--base"), "{error}");
    let error = shell.fails(1, &["import", "away/tuesday.dpack", "--as", "x", "--base", "main.dpack"]);
    assert!(error.contains("name the right one"), "{error}");
    shell.ok(&[
        "import",
        "away/tuesday.dpack",
        "--as",
        "x",
        "--base",
        "main.dpack",
        "--base",
        "monday.dpack",
    ]);
    assert_eq!(shell.ok(&["kv", "get", "new", "--branch", "x"]), "one\n");
    let printed =
        ok(&shell.pack(&["cat", "away/tuesday.dpack", "--base", "monday.dpack", "--prefix", "new"]));
    assert_eq!(printed, "kv\tdefault\tnew\t\"one\"\n");
    // The one it is compared with is the one it is based on.
    let printed = ok(&shell.pack(&["diff", "monday.dpack", "away/tuesday.dpack"]));
    assert!(printed.ends_with("1 added, 0 removed, 0 modified\n"), "{printed}");
    // What is known of it, and whether it is whole, needs no base.
    let info = parsed(&shell.pack(&["info", "away/tuesday.dpack", "--json"]));
    assert_eq!(info["branch"]["base"]["file"], "monday.dpack");
    ok(&shell.pack(&["verify", "away/tuesday.dpack"]));
    let error = fails(&shell.pack(&["cat", "main.dpack", "--base", "monday.dpack"]), 1);
    assert!(error.contains("leave the base out"), "{error}");
}

#[test]
fn info_and_verify_say_what_a_pack_is_and_whether_it_is_sound() {
    let shell = exported();
    let info = parsed(&shell.pack(&["info", "main.dpack", "--json"]));
    assert_eq!((&info["kind"], &info["format"]), (&json!("branch"), &json!(1)));
    assert_eq!(info["size_bytes"], fs::metadata(shell.beside("main.dpack")).unwrap().len());
    assert_eq!((&info["branch"]["branch"], &info["branch"]["entries"]), (&json!("main"), &json!(3001)));
    assert_eq!(info["sections"][0]["name"], "nodes");
    let printed = ok(&shell.pack(&["info", "main.dpack"]));
    assert!(printed.contains("holds all of the branch") && printed.contains("SECTION"), "{printed}");

    let verified = parsed(&shell.pack(&["verify", "main.dpack", "--json"]));
    assert_eq!((&verified["sound"], &verified["root_digest"]), (&json!(true), &info["root_digest"]));
    assert!(ok(&shell.pack(&["verify", "main.dpack"])).starts_with("sound: "));

    let whole = fs::read(shell.beside("main.dpack")).unwrap();
    let mut bytes = whole.clone();
    bytes[5000] ^= 1;
    fs::write(shell.beside("main.dpack"), &bytes).unwrap();
    let error = fails(&shell.pack(&["verify", "main.dpack"]), 1);
    assert!(error.contains("damaged between byte 32 and byte"), "{error}");
    let output = shell.pack(&["verify", "main.dpack", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = parsed(&output);
    assert_eq!((&told["sound"], &told["from"]), (&json!(false), &json!(32)));
    // The manifest is whole, so `info` answers.
    ok(&shell.pack(&["info", "main.dpack"]));

    fs::write(shell.beside("main.dpack"), &whole[..whole.len() - 1]).unwrap();
    let error = fails(&shell.pack(&["info", "main.dpack"]), 1);
    assert!(error.contains("is cut off at byte") && error.contains("copy it again"), "{error}");
    fs::write(shell.beside("main.dpack"), [&whole[..], b"junk"].concat()).unwrap();
    let error = fails(&shell.pack(&["verify", "main.dpack"]), 1);
    assert!(error.contains("goes on after its end"), "{error}");
    fails(&shell.pack(&["info", "nowhere.dpack"]), 1);
}

#[test]
fn pairs_on_the_standard_input_become_a_pack() {
    let shell = exported();
    let lines = shell.ok(&["kv", "scan", "--json"]);
    let printed = ok(&shell.pack_fed(lines.as_bytes(), &["write", "pairs.dpack", "--space", "default"]));
    assert!(printed.starts_with("wrote 3000 entries, "), "{printed}");
    let found = parsed(&shell.pack(&["diff", "main.dpack", "pairs.dpack", "--json"]));
    assert_eq!(found["entries"].as_array().unwrap().len(), 1, "all but the document: {found}");
    assert_eq!(found["entries"][0]["key"], "user");
    // Unsorted, and one of them twice: the last one wins.
    let lines = b"b\told\na\t1\nb\tnew\n";
    ok(&shell.pack_fed(lines, &["write", "pairs.dpack", "--branch", "pairs"]));
    assert_eq!(ok(&shell.pack(&["cat", "pairs.dpack"])), "kv\tdefault\ta\t\"1\"\nkv\tdefault\tb\t\"new\"\n");
    let line = ok(&shell.pack(&["cat", "pairs.dpack", "--json", "--limit", "1"]));
    let expected = json!({ "kind": "kv", "space": "default", "key": "a", "value": "1" });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    assert_eq!(ok(&shell.pack(&["cat", "pairs.dpack", "--limit", "0"])), "");
    let error = fails(&shell.pack_fed(b"no tab", &["write", "bad.dpack"]), 1);
    assert!(error.contains("line 1"), "{error}");
    assert!(!shell.beside("bad.dpack").exists());
    fails(&shell.pack_fed(b"", &["write"]), 2);
    fails(&shell.pack(&["cat", "pairs.dpack", "--kind", "nonsense"]), 2);
    let error = fails(&shell.pack_fed(b"a\t1\n", &["write", "no/folder/x.dpack"]), 1);
    assert!(error.contains("cannot make"), "{error}");
}
