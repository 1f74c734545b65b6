//! What a user meets before any daemon runs: help with examples, usage errors, and messages with a next step.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Output},
};

/// Runs the program on a home; nothing of the caller's environment decides anything.
fn duramen(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_duramen"))
        .env_remove("DURAMEN_HOME")
        .env_remove("DURAMEN_PG_BIN")
        .env("XDG_DATA_HOME", home.join("data"))
        .arg("--home")
        .arg(home)
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

/// Fails with what was printed.
#[track_caller]
fn expect(output: &Output, status: i32) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "stdout:\n{out}\nstderr:\n{err}");
}

/// The commands that a help page lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Every command, as the words that name it.
fn all_commands(home: &Path) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        for name in listed(&text(&duramen(home, &arguments).stdout)) {
            let mut below = words.clone();
            below.push(name);
            open.push(below);
        }
        found.insert(words);
    }
    found
}

#[test]
fn every_help_page_ends_with_examples_that_name_the_command() {
    let home = tempfile::tempdir().unwrap();
    let commands = all_commands(home.path());
    assert!(commands.len() > 30, "only {commands:?}");
    for words in commands {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let output = duramen(home.path(), &arguments);
        expect(&output, 0);
        let help = text(&output.stdout);
        let (_, examples) =
            help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{words:?}: no examples"));
        let command = words.join(" ");
        assert!(examples.contains("duramen") && examples.contains(&command), "{words:?}: {examples}");
        assert!(help.contains("--json"), "{words:?} has no --json");
    }
}

#[test]
fn bad_usage_exits_with_2() {
    let home = tempfile::tempdir().unwrap();
    let bad: [&[&str]; 17] = [
        &[],
        &["nonsense"],
        &["source"],
        &["source", "add", "x"],
        &["source", "add", "x", "--url", "postgres://h/d", "--script", "x.sql"],
        &["source", "add", "x", "--sample", "penguins"],
        &["source", "add", "x", "--script", "x.sql", "--rows", "5"],
        &["source", "add", "x", "--script", "x.sql", "--hot", "many"],
        &["source", "settings", "x", "--set", "novalue"],
        &["branch", "create", "--policy", "everything"],
        &["branch", "create", "--ttl", "soon"],
        &["branch", "create", "--ttl", "1h", "--expires-at", "2030-01-01T00:00:00Z"],
        &["branch", "destroy"],
        &["branch", "audit", "--verify", "--limit", "5"],
        &["branch", "diff", "x"],
        &["lab", "run", "branches", "--write", "everything"],
        &["purge"],
    ];
    for arguments in bad {
        let output = duramen(home.path(), arguments);
        expect(&output, 2);
        assert!(output.stdout.is_empty(), "{arguments:?} printed {}", text(&output.stdout));
        assert!(!output.stderr.is_empty(), "{arguments:?} said nothing");
    }
}

#[test]
fn without_a_daemon_every_command_names_the_one_that_starts_it() {
    let home = tempfile::tempdir().unwrap();
    let commands: [&[&str]; 11] = [
        &["status"],
        &["source", "list"],
        &["source", "show", "x", "--json"],
        &["source", "add", "x", "--sample", "flights"],
        &["source", "settings", "x", "--hot", "read-only=3"],
        &["branch", "create", "x", "--ttl", "-5s"],
        &["branch", "query", "x", "SELECT 1"],
        &["branch", "destroy", "x"],
        &["branch", "evidence", "x"],
        &["branch", "diff", "x", "--data"],
        &["--json", "branch", "audit", "--verify"],
    ];
    for arguments in commands {
        let output = duramen(home.path(), arguments);
        expect(&output, 1);
        let said = text(&output.stderr);
        let next = format!("duramen serve --home {}", home.path().display());
        let is_json = arguments.contains(&"--json");
        let begin = if is_json {
            "{\"error\":{\"code\":\"not_running\",\"message\":\"no daemon serves"
        } else {
            "error: no daemon serves"
        };
        assert!(said.starts_with(begin) && said.contains(&next), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed {}", text(&output.stdout));
    }
}

#[test]
fn what_is_done_already_is_no_error() {
    let home = tempfile::tempdir().unwrap();
    let output = duramen(home.path(), &["stop"]);
    expect(&output, 0);
    assert!(text(&output.stdout).contains("nothing to stop"));
    let output = duramen(home.path(), &["stop", "--json"]);
    expect(&output, 0);
    let reply: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reply, serde_json::json!({ "stopped": false }));
    expect(&duramen(&home.path().join("missing"), &["purge", "--yes"]), 0);
}

#[test]
fn purging_removes_what_daemons_keep_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    for name in [
        "volumes/b1",
        "origins/flights",
        "sources/flights",
        "run",
        "state",
        "audit",
        "logs",
        "packages/x",
        "mine",
    ] {
        std::fs::create_dir_all(home.path().join(name)).unwrap();
    }
    for name in ["volumes.btrfs", "leases.jsonl"] {
        std::fs::write(home.path().join(name), "").unwrap();
    }
    expect(&duramen(home.path(), &["purge"]), 2);
    assert!(home.path().join("volumes/b1").is_dir(), "nothing is removed without --yes");
    expect(&duramen(home.path(), &["purge", "--yes"]), 0);
    let mut left: Vec<String> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "daemon.lock")
        .collect();
    left.sort();
    assert_eq!(left, ["mine", "packages"]);
}

#[test]
fn doctor_says_how_everything_is_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let output = duramen(&home, &["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = report["lines"].as_array().unwrap();
    let what: Vec<&str> = lines.iter().map(|line| line["what"].as_str().unwrap()).collect();
    for wanted in ["PostgreSQL", "server user", "home", "volumes", "sample data", "disk", "memory", "daemon"]
    {
        assert!(what.contains(&wanted), "{what:?} lacks {wanted}");
    }
    for line in lines {
        let state = line["state"].as_str().unwrap();
        assert!(["ok", "degraded", "missing"].contains(&state), "{line}");
        assert_eq!(state == "ok", line["fix"].is_null(), "what is not ok has a fix: {line}");
        assert!(!line["detail"].as_str().unwrap().is_empty(), "{line}");
    }
    let essential = |line: &&serde_json::Value| line["essential"] == true && line["state"] == "missing";
    let broken = lines.iter().find(essential).is_some();
    assert_eq!(report["usable"], !broken);
    assert_eq!(output.status.code(), Some(i32::from(broken)), "{report}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "doctor left {left:?}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("duramen-doctor"), "doctor left a mount:\n{mounts}");
}

#[test]
fn doctor_names_what_the_server_user_cannot_enter() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    // Only root starts servers as another user; for others the home is theirs anyway.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let output = duramen(&dir.path().join("home"), &["doctor"]);
    expect(&output, 1);
    let said = text(&output.stdout);
    assert!(said.contains("cannot traverse") && said.contains("chmod o+x"), "{said}");
}

/// The Python client's types are written by a program, out of what this one prints.
#[test]
fn the_python_client_fits_the_interface() {
    let home = tempfile::tempdir().expect("a home");
    let document = home.path().join("openapi.json");
    let printed = duramen(home.path(), &["openapi"]);
    expect(&printed, 0);
    std::fs::write(&document, &printed.stdout).expect("the document");
    let generator = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python/generate.py");
    let check = |document: &Path| {
        let document = std::fs::File::open(document).expect("the document");
        let mut command = Command::new("python3");
        command.arg(&generator).arg("--check").stdin(document).output().expect("python3")
    };
    expect(&check(&document), 0);
    // It sees what differs.
    let other = text(&printed.stdout).replace("\"sanitised\"", "\"sanitized\"");
    std::fs::write(&document, other).expect("another one");
    expect(&check(&document), 1);
}
