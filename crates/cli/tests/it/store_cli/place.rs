//! Where the store is, who has it, and what may be done with it.

use super::shell::{text, Shell};
use duramen_store::{Options, Scope, Store};
use serde_json::json;
use std::{
    fs,
    process::{Command, Stdio},
};

#[test]
fn only_a_write_makes_a_store() {
    let shell = Shell::new();
    for arguments in [
        &["kv", "get", "k"][..],
        &["kv", "list"],
        &["kv", "delete", "k"],
        &["state", "delete", "k"],
        &["json", "delete", "k"],
        &["info"],
        &["checkpoint"],
        &["compact"],
        &["verify"],
        &["repair"],
        &["upgrade"],
        &["branch", "list"],
        &["branch", "switch", "x"],
        &["branch", "fork", "x"],
        &["branch", "delete", "x"],
        &["event", "verify"],
    ] {
        let error = shell.fails(1, arguments);
        assert!(error.contains("there is no store at") && error.contains("--at"), "{arguments:?}: {error}");
    }
    shell.fails(2, &["kv", "put", "k", "v", "--read-only"]);
    shell.fails(2, &["kv", "put", "k", "x", "--type", "int"]);
    shell.fails(2, &["kv", "put", "k", "v", "--durability", "very"]);
    shell.fails(2, &["kv", "put", "k", "v", "--at", ""]);
    assert!(!shell.home().join("store").exists(), "what was refused made a store");
    shell.ok(&["kv", "put", "k", "v"]);
    assert!(shell.home().join("store").is_dir());
}

/// What a build without object storage says. With it, `tests/s3` has the rest.
#[cfg(not(feature = "s3"))]
#[test]
fn a_store_at_a_url_is_refused_by_a_build_without_object_storage() {
    let shell = Shell::new();
    for url in ["s3://bucket/trees", "gs://bucket/trees", "az://container/trees", "file:///nowhere/trees"] {
        for arguments in
            [&["kv", "put", "k", "v"][..], &["kv", "get", "k"], &["init"], &["branch", "list"], &["info"]]
        {
            let error = shell.fails(2, &[arguments, &["--at", url]].concat());
            assert!(
                error.contains(url) && error.contains("this build cannot reach"),
                "{arguments:?}: {error}"
            );
            assert!(
                error.contains("packages can") && error.contains("--features s3"),
                "{arguments:?}: {error}"
            );
        }
    }
    let made: Vec<_> =
        fs::read_dir(shell.beside(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(made.iter().all(|name| name == "home" || name == "data"), "{made:?}");
}

#[test]
fn a_store_lies_where_it_is_told() {
    let shell = Shell::new();
    let elsewhere = shell.beside("else where").display().to_string();
    // The options stand at any level.
    // Nobody makes a store by a slip in a name.
    let error = shell.fails(1, &["--at", &elsewhere, "kv", "put", "k", "there"]);
    assert!(error.contains("--create") && error.contains(&format!("store init --at {elsewhere}")), "{error}");
    assert!(!std::path::Path::new(&elsewhere).exists());
    shell.ok(&["--at", &elsewhere, "kv", "put", "k", "there", "--create"]);
    assert_eq!(shell.ok(&["kv", "--at", &elsewhere, "get", "k"]), "there\n");
    assert_eq!(shell.ok(&["kv", "get", "k", "--at", &elsewhere]), "there\n");
    assert!(!shell.home().join("store").exists());
    let info = shell.json(&["info", "--at", &elsewhere]);
    assert_eq!(info["path"], json!(elsewhere));
    assert_eq!(
        (&info["branch"], &info["branches"], &info["version"]),
        (&json!("main"), &json!(1), &json!(1))
    );
    let printed = shell.ok(&["info", "--at", &elsewhere]);
    assert!(printed.contains("branch    main") && printed.contains("version   1"), "{printed}");
}

#[test]
fn every_level_of_durability_is_there_for_the_next_process() {
    let shell = Shell::new();
    for level in ["memory", "buffered", "strict"] {
        shell.ok(&["kv", "put", level, "x", "--durability", level]);
    }
    assert_eq!(shell.ok(&["kv", "list"]), "buffered\nmemory\nstrict\n");
}

#[test]
fn reading_costs_the_log_nothing() {
    let shell = Shell::new();
    let count = |arguments: &[&str], name: &str| -> u64 {
        let output = shell.fed(b"", &[arguments, &["--counters"]].concat());
        let printed = text(&output.stderr);
        let line = printed.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{arguments:?}: no {name:?} in {printed:?}"));
        line[name.len()..].trim().parse().expect("a number")
    };
    assert_eq!(count(&["kv", "put", "k", "v", "--durability", "strict"], "log appends"), 1);
    for read in [
        &["kv", "get", "k"][..],
        &["kv", "scan"],
        &["branch", "list", "--sizes"],
        &["branch", "switch", "main"],
    ] {
        assert_eq!((count(read, "log appends"), count(read, "log syncs")), (0, 0), "{read:?}");
    }
}

#[test]
fn a_store_that_another_process_writes_is_read_and_not_written() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "v"]);
    let mut holder = shell.command(&["kv", "load"]);
    holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A process that waits for its input does not hold the store yet.
    let holder = holder.spawn().unwrap();
    assert_eq!(shell.ok(&["kv", "get", "k"]), "v\n");
    let output = holder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));

    let store = Store::open(shell.home().join("store"), Options::default()).unwrap();
    let pid = format!("(process {})", std::process::id());
    for arguments in [&["kv", "put", "k", "w"][..], &["branch", "fork", "x"], &["compact"]] {
        let error = shell.fails(1, &[arguments, &["--wait", "0"]].concat());
        assert!(error.contains("open in another process") && error.contains(&pid), "{error}");
    }
    assert_eq!(shell.ok(&["kv", "get", "k"]), "v\n");
    store.branch("main").unwrap().kv().put("k", "from here").unwrap();
    // No checkpoint is needed for it to be seen.
    assert_eq!(shell.ok(&["kv", "get", "k"]), "from here\n");
    assert!(shell.ok(&["info"]).contains("branch    main"));
    shell.ok(&["export", shell.home().join("moment.dpack").to_str().unwrap()]);
    store.close().unwrap();
    drop(store);
    assert_eq!(shell.ok(&["kv", "get", "k"]), "from here\n");
}

/// Commands that write take their turns, and who reads waits for nobody.
#[test]
fn commands_wait_for_each_other() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "v"]);
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let shell = &shell;
            scope.spawn(move || {
                for number in 0..10 {
                    assert_eq!(shell.ok(&["kv", "get", "k", "--wait", "0"]), "v\n", "{reader}, {number}");
                }
            });
        }
        scope.spawn(|| {
            for number in 0..10 {
                shell.ok(&["kv", "put", &format!("n{number}"), "1", "--wait", "1m"]);
            }
        });
    });
    assert_eq!(shell.ok(&["kv", "count"]), "11\n");
}

#[test]
fn upkeep_keeps_everything() {
    let shell = Shell::new();
    let lines: String = (0..5000).map(|n| format!("k{n:05}\t{}\n", "x".repeat(50))).collect();
    shell.ok_fed(lines.as_bytes(), &["kv", "load"]);
    assert!(shell.ok(&["checkpoint"]).starts_with("everything up to version"));
    assert!(shell.json(&["checkpoint"])["version"].as_u64().unwrap() > 0);
    let compacted = shell.json(&["compact"]);
    assert!(compacted["before_bytes"].is_u64() && compacted["after_bytes"].is_u64(), "{compacted}");
    assert!(shell.ok(&["compact"]).contains("of nodes before"));
    assert_eq!(shell.ok(&["kv", "count"]), "5000\n");
}

#[test]
fn a_damaged_store_is_no_panic() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "v"]);
    let nodes = shell.home().join("store/nodes");
    let entries: Vec<_> = fs::read_dir(&nodes).unwrap().flatten().map(|entry| entry.path()).collect();
    for path in entries {
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else {
            fs::write(&path, b"rubbish").unwrap();
        }
    }
    let error = shell.fails(1, &["kv", "get", "k"]);
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn every_verb_of_the_store_is_tested_here() {
    let shell = Shell::new();
    let sources: String = [
        "blobs",
        "branches",
        "documents",
        "events",
        "history",
        "indexes",
        "packs",
        "pairs",
        "place",
        "shell_pipe",
        "vectors",
    ]
    .iter()
    .map(|name| {
        let path = format!("{}/tests/it/store_cli/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(path).unwrap()
    })
    .collect();
    let listed = |arguments: &[&str]| -> Vec<String> {
        let mut command: Command = shell.command(arguments);
        let help = text(&command.arg("--help").output().unwrap().stdout);
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let lines = lines.take_while(|line| line.starts_with("  "));
        let names = lines.filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(str::to_owned).collect()
    };
    let mut verbs = 0;
    for noun in listed(&[]) {
        let below = listed(&[&noun]);
        let wanted = below.iter().map(|verb| format!("\"{noun}\", \"{verb}\""));
        let wanted: Vec<String> =
            if below.is_empty() { vec![format!("&[\"{noun}\"")] } else { wanted.collect() };
        for wanted in wanted {
            verbs += 1;
            assert!(sources.contains(&wanted), "no test runs {wanted}");
        }
    }
    assert!(verbs > 40, "only {verbs} verbs");
}

#[test]
fn a_store_is_made_where_nothing_is() {
    let shell = Shell::new();
    let at = shell.beside("made").display().to_string();
    assert_eq!(shell.ok(&["init", "--at", &at]), format!("made a store in {at}\n"));
    shell.ok(&["kv", "put", "k", "v", "--at", &at]);
    assert_eq!(shell.json(&["init", "--at", &at]), json!({ "path": at, "made": false }));
    assert_eq!(shell.ok(&["kv", "get", "k", "--at", &at]), "v\n");
    let other = shell.beside("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("lock"), "mine").unwrap();
    let error = shell.fails(1, &["init", "--at", other.to_str().unwrap()]);
    assert!(error.contains("is not a store"), "{error}");
    assert_eq!(fs::read(other.join("lock")).unwrap(), b"mine");
    assert_eq!(shell.ok(&["init"]), format!("made a store in {}\n", shell.home().join("store").display()));
}

#[test]
fn a_store_is_verified_and_what_is_damaged_is_told_by_branch() {
    let shell = Shell::new();
    let lines: String = (0..3000).map(|n| format!("key {n:05}\tvalue {n} {}\n", "x".repeat(80))).collect();
    shell.ok_fed(lines.as_bytes(), &["kv", "load"]);
    shell.ok(&["branch", "fork", "side"]);
    shell.ok(&["kv", "put", "key 00001", "other", "--branch", "side"]);
    assert!(shell.ok(&["verify"]).contains("as they were written"));
    let found = shell.json(&["verify"]);
    assert_eq!((&found["whole"], found["branches"].as_array().unwrap().len()), (&json!(true), 2));
    assert!(found["nodes"].as_u64().unwrap() > 30, "{found}");

    // A byte of a leaf that both branches have.
    let folder = shell.home().join("store/nodes");
    let mut harmed = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let wanted = b"value 2500 ";
        for at in 0..bytes.len().saturating_sub(wanted.len()) {
            if bytes[at..].starts_with(wanted) {
                bytes[at] ^= 1;
                harmed += 1;
            }
        }
        fs::write(&path, bytes).unwrap();
    }
    assert!(harmed > 0);
    let said = shell.fed(b"", &["verify"]);
    assert_eq!(said.status.code(), Some(1));
    let said = text(&said.stdout);
    for wanted in ["branch main: node ", "branch side: node ", "is damaged"] {
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_store_whose_log_is_lost_is_repaired_by_one_command() {
    let shell = Shell::new();
    shell.ok(&["kv", "put", "k", "v"]);
    assert_eq!(shell.json(&["repair"]), json!({ "repaired": false }));
    fs::remove_dir_all(shell.home().join("store/log")).unwrap();
    let error = shell.fails(1, &["kv", "get", "k"]);
    assert!(error.contains("duramen store repair"), "{error}");
    shell.fails(2, &["repair", "--read-only"]);
    let said = shell.ok(&["repair"]);
    assert!(said.contains("every commit up to version") && said.contains("they are lost"), "{said}");
    assert_eq!(shell.ok(&["kv", "get", "k"]), "v\n");
    shell.ok(&["kv", "put", "k", "w"]);
    assert_eq!(shell.ok(&["kv", "get", "k"]), "w\n");
}

#[test]
fn a_store_of_version_0_1_is_brought_here_by_one_command() {
    let shell = Shell::new();
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/../store-legacy/tests/fixtures/v1-torn");
    let at = shell.beside("old");
    assert!(Command::new("cp").arg("-r").args([old.as_ref(), at.as_os_str()]).status().unwrap().success());
    let at = at.display().to_string();
    for arguments in [&["kv", "get", "int"][..], &["kv", "put", "int", "1"], &["info"], &["compact"]] {
        let error = shell.fails(1, &[arguments, &["--at", &at]].concat());
        assert!(error.contains(&format!("`duramen store upgrade --at {at}`")), "{arguments:?}: {error}");
    }
    shell.fails(2, &["upgrade", "--at", &at, "--read-only"]);
    let said = shell.ok(&["upgrade", "--at", &at]);
    assert!(said.contains("it has the present format now"), "{said}");
    assert_eq!(shell.ok(&["kv", "get", "int", "--at", &at]), "-43\n");
    assert_eq!(shell.ok(&["kv", "get", "late", "--branch", "late", "--at", &at]), "true\n");
    assert_eq!(shell.json(&["upgrade", "--at", &at]), json!({ "upgraded": false, "nodes": null }));
}

#[test]
fn a_backup_is_a_store_and_the_next_one_links_what_is_the_same() {
    let shell = Shell::new();
    let lines: String = (0..20_000).map(|number| format!("{number:06}\t{}\n", "x".repeat(100))).collect();
    shell.ok_fed(lines.as_bytes(), &["kv", "load"]);
    let printed = shell.ok(&["backup", "monday"]);
    assert!(printed.starts_with("monday holds the store up to version "), "{printed}");
    shell.ok(&["kv", "put", "k", "later"]);
    let made = shell.json(&["backup", "tuesday", "--since", "monday"]);
    assert_eq!(made["copied"].as_u64().unwrap() + made["linked"].as_u64().unwrap(), made["bytes"]);
    assert_eq!(shell.ok(&["kv", "count", "--at", "monday"]), "20000\n");
    assert_eq!(shell.ok(&["kv", "get", "k", "--at", "tuesday"]), "later\n");
    shell.ok(&["verify", "--at", "tuesday"]);
    let refused = shell.fails(1, &["backup", "monday"]);
    assert!(refused.contains("monday is not empty"), "{refused}");
}
