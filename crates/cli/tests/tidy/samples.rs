//! Each rule on samples that break it, and on samples that come close but do not.

use crate::files::{self, File};
use crate::layers::{layers, outer_workspaces};
use crate::rules::{self, Finding};

/// Runs a rule over made-up files and compares the places that it finds.
#[track_caller]
fn check(rule: fn(&[File]) -> Vec<Finding>, files: &[(&str, &str)], expected: &[&str]) {
    let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
    let files: Vec<File> = files.iter().map(file).collect();
    let findings = rule(&files);
    let places: Vec<String> = findings.iter().map(Finding::place).collect();
    assert_eq!(places, expected);
    for finding in findings {
        assert!(finding.to_string().len() > finding.place().len() + 10, "no advice: {finding}");
    }
}

/// Puts a forbidden word together, so that this file may hold it.
fn word(pieces: &[&str]) -> String {
    pieces.concat()
}

#[test]
fn a_long_source_is_found_and_a_long_test_is_not() {
    let just = "x\n".repeat(rules::LINES_MAX);
    let over = "x\n".repeat(rules::LINES_MAX + 1);
    let files = [
        ("crates/a/src/just.rs", just.as_str()),
        ("crates/a/src/over.rs", &over),
        ("crates/a/src/schema.sql", &over),
        ("bindings/python/over.py", &over),
        ("web/src/over.ts", &over),
        ("crates/a/tests/over.rs", &over),
        ("docs/over.md", &over),
    ];
    let expected = [
        "crates/a/src/over.rs:801",
        "crates/a/src/schema.sql:801",
        "bindings/python/over.py:801",
        "web/src/over.ts:801",
    ];
    check(rules::file_length, &files, &expected);
}

#[test]
fn machine_paths_are_found_in_any_text_file() {
    let bad = [
        word(&["cd /wo", "rk/main"]),
        word(&["cd /wo", "rk"]),
        word(&["at \"/ho", "me/ann/x\""]),
        word(&["(/ro", "ot/.cargo)"]),
        word(&["=/Us", "ers/ann"]),
    ];
    for line in &bad {
        check(rules::machine_paths, &[("docs/a.md", &format!("fine\n{line}\n"))], &["docs/a.md:2"]);
    }
    let good = [
        word(&["../wo", "rk/x and crates/wo", "rk and $HOME/wo", "rk/x and $(HOME)/wo", "rk"]),
        word(&["/wo", "rkers and /wo", "rk-stealing and frame/wo", "rk"]),
        word(&["the user's /ho", "me, <ro", "ot></ro", "ot>, /ho", "me/<you>"]),
        "/var/lib/duramen /tmp/x /usr/bin/env".to_owned(),
    ];
    check(rules::machine_paths, &[("docs/a.md", &good.join("\n"))], &[]);
}

#[test]
fn registry_hosts_are_found_except_in_the_lock_file() {
    let host = word(&["crates", ".io"]);
    let source = format!("[[package]]\nsource = \"registry+https://github.com/x/{host}-index\"\n");
    check(rules::registry_hosts, &[("Cargo.lock", &source)], &[]);
    check(rules::registry_hosts, &[("sub/Cargo.lock", &source)], &[]);
    for host in [
        word(&["https://PyPI", ".org/simple"]),
        word(&["files.pythonhosted", ".org"]),
        word(&["registry.npmjs", ".org/x"]),
        word(&["repo1.maven", ".org"]),
        word(&["proxy.golang", ".org"]),
        word(&["http://deb.", "debian", ".org/debian"]),
        host,
    ] {
        check(rules::registry_hosts, &[("scripts/setup", &host)], &["scripts/setup:1"]);
    }
    check(rules::registry_hosts, &[("README.md", "from PyPI, crates.iter(), Maven Central, npm")], &[]);
}

#[test]
fn a_crate_without_documentation_is_found() {
    let manifest = "[package]\nname = \"duramen-a\"\ndescription = \"What it is.\"\n";
    let documented = "//! What it is for.\n";
    let good = [("crates/a/Cargo.toml", manifest), ("crates/a/src/lib.rs", documented)];
    check(rules::crate_documentation, &good, &[]);
    let program = [("crates/a/Cargo.toml", manifest), ("crates/a/src/main.rs", documented)];
    check(rules::crate_documentation, &program, &[]);

    for top in ["use std::fs;\n//! Too late.\n", "//!\n", "", "// Not documentation.\n"] {
        let bare = [("crates/a/Cargo.toml", manifest), ("crates/a/src/lib.rs", top)];
        check(rules::crate_documentation, &bare, &["crates/a/src/lib.rs:1"]);
    }
    for text in
        ["[package]\nname = \"a\"\n", "[package]\ndescription = \"\"\n", "[x]\ndescription = \"In x.\"\n"]
    {
        let nameless = [("crates/a/Cargo.toml", text), ("crates/a/src/lib.rs", documented)];
        check(rules::crate_documentation, &nameless, &["crates/a/Cargo.toml:1"]);
    }
    let empty = [("crates/a/notes.md", "")];
    check(rules::crate_documentation, &empty, &["crates/a/Cargo.toml:1", "crates/a/src/lib.rs:1"]);
}

#[test]
fn a_code_map_that_lacks_a_crate_or_names_another_is_found() {
    let crates = [("crates/a/Cargo.toml", ""), ("crates/b-c/Cargo.toml", "")];
    let with = |map| [crates[0], crates[1], ("ARCHITECTURE.md", map)];
    check(rules::code_map, &with("## Code map\n### `crates/a`\n### `crates/b-c/`\nText.\n## Rest\n"), &[]);
    check(
        rules::code_map,
        &with("## Code map\n- `crates/a`\n## Rest\n`crates/b-c`\n"),
        &["ARCHITECTURE.md:1"],
    );
    check(
        rules::code_map,
        &with("# A\n## Code Map\n- `crates/a`\n- `crates/b-c`\n- `crates/gone`\n"),
        &["ARCHITECTURE.md:5"],
    );
    // Without the heading there is no map, however often the crates are named.
    let without_map = ["ARCHITECTURE.md:1", "ARCHITECTURE.md:1", "ARCHITECTURE.md:1"];
    check(rules::code_map, &with("`crates/a`, `crates/b-c`\n"), &without_map);
    check(rules::code_map, &crates, &["ARCHITECTURE.md:1"]);
}

#[test]
fn a_dependency_on_a_higher_layer_is_found() {
    let good = "[dependencies]\nduramen-base.workspace = true\n[dev-dependencies]\nduramen-cli = \"1\"\n";
    check(layers, &[("crates/postgres/Cargo.toml", good)], &[]);
    for bad in [
        "[dependencies]\nduramen-branches.workspace = true\n",
        "[dependencies]\nx = { package = \"duramen-branches\", path = \"../branches\" } # duramen-base\n",
        "[package]\n[dependencies.duramen-branches]\nworkspace = true\n",
        "[build-dependencies]\nduramen-branches = { path = \"../branches\" }\n",
        "[target.'cfg(unix)'.dependencies]\nduramen-cli.workspace = true\n",
    ] {
        let places: Vec<_> = bad
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains("duramen-"))
            .map(|(index, _)| format!("crates/postgres/Cargo.toml:{}", index + 1))
            .collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        assert_eq!(places.len(), 1, "a sample breaks the rule once");
        check(layers, &[("crates/postgres/Cargo.toml", bad)], &places);
    }
    check(layers, &[("crates/stranger/Cargo.toml", "")], &["crates/stranger/Cargo.toml:1"]);
}

#[test]
fn a_use_that_the_manifest_of_another_workspace_lacks_is_found() {
    let manifest = "[workspace]\n[dependencies]\nduramen-store = { path = \"../crates/store\" }\n";
    let source = "use duramen_store::Store; // duramen_base::clock\nlet now = duramen_base::clock::now();\n";
    let files = [("peers/Cargo.toml", manifest), ("peers/src/main.rs", source)];
    check(outer_workspaces, &files, &["peers/src/main.rs:2"]);
    let inner = [("peers/Cargo.toml", "[package]\n"), ("peers/src/main.rs", source)];
    check(outer_workspaces, &inner, &[]);
}

#[test]
fn retired_words_are_found_in_identifiers() {
    for bad in ["fn lay_to_rest() {}", "struct Grave;", "let doomed = 1;", "open_grave(x)"] {
        check(rules::retired_words, &[("crates/a/src/lib.rs", bad)], &["crates/a/src/lib.rs:1"]);
    }
    let good = [("crates/a/src/lib.rs", "let gravel = tombstone; // engraved"), ("docs/a.md", "a grave")];
    check(rules::retired_words, &good, &[]);
}

#[test]
fn unfinished_work_is_found() {
    let marker = word(&["FIX", "ME"]);
    let bad = [
        word(&["fn f() { to", "do!() }"]),
        word(&["unimple", "mented!(\"later\")"]),
        word(&["#[ig", "nore]"]),
        word(&["#[test] #[ig", "nore = \"slow\"]"]),
        format!("// {marker}: later"),
    ];
    for line in &bad {
        check(rules::leftovers, &[("crates/a/src/lib.rs", line)], &["crates/a/src/lib.rs:1"]);
    }
    check(rules::leftovers, &[("docs/a.md", &format!("a\n{marker}\n"))], &["docs/a.md:2"]);
    let good = "let todo = 1; // a todo list\nmy_todo!(x);\nPREFIXMENT\n";
    check(rules::leftovers, &[("crates/a/src/lib.rs", good)], &[]);
}

#[test]
fn other_characters_in_rust_sources_are_found() {
    let text = "fine\nlet dash = \"\u{2013}\";\n";
    check(
        rules::ascii_only,
        &[("crates/a/src/lib.rs", text), ("docs/a.md", text)],
        &["crates/a/src/lib.rs:2"],
    );
}

#[test]
fn a_design_page_that_nobody_lists_is_found() {
    let files = [
        ("ARCHITECTURE.md", "See [branches](docs/design/branches.md)."),
        ("docs/design/branches.md", ""),
        ("docs/design/lost.md", ""),
        ("docs/branches.md", ""),
    ];
    check(rules::design_pages, &files, &["docs/design/lost.md:1"]);
    check(rules::design_pages, &files[1..2], &["docs/design/branches.md:1"]);
}

#[test]
fn a_module_inside_its_folder_is_found() {
    let files = [("crates/a/src/b/mod.rs", ""), ("crates/a/src/c.rs", ""), ("crates/a/src/c/model.rs", "")];
    check(rules::module_files, &files, &["crates/a/src/b/mod.rs:1"]);
}

#[test]
fn a_silenced_lint_without_a_reason_is_found() {
    for bad in [
        "#[allow(dead_code)]\nfn f() {}\n",
        "#![allow(missing_docs)]\n",
        "#[expect(dead_code)]\n",
        "#[cfg_attr(test, allow(dead_code))]\n",
        "#[allow(\n    dead_code,\n)]\n",
        "#[allow(dead_code)]\n// Too late.\n",
    ] {
        check(rules::reasons, &[("a.rs", bad)], &["a.rs:1"]);
    }
    check(rules::reasons, &[("a.rs", "/// What it is is not why.\n#[allow(dead_code)]\n")], &["a.rs:2"]);
    for good in [
        "// The reader needs it.\n#[allow(dead_code)]\n",
        "#[allow(dead_code)] // the reader needs it\n",
        "#[allow(dead_code, reason = \"the reader needs it\")]\n",
        "#[allow(\n    dead_code,\n    reason = \"the reader needs it\"\n)]\n",
        "let allow = \"#[allow(x)]\";\nvalue.expect(\"there\");\n#[derive(Debug)]\n",
    ] {
        check(rules::reasons, &[("a.rs", good)], &[]);
    }
}

#[test]
fn the_repository_is_listed_with_and_without_git() {
    let root = files::root();
    let walked = files::walked(&root);
    for path in ["Cargo.toml", "crates/cli/tests/tidy/samples.rs", ".ci/run"] {
        assert!(walked.iter().any(|found| found == path), "the walk missed {path}");
    }
    assert!(!walked.iter().any(|found| found.starts_with("target/") || found.starts_with(".git/")));
    if let Some(listed) = files::listed_by_git(&root) {
        for path in ["Cargo.toml", "crates/cli/tests/tidy/samples.rs", ".ci/run"] {
            assert!(listed.iter().any(|found| found == path), "git's listing lacks {path}");
        }
    }
}
