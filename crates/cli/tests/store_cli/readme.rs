//! What the README and the page of the store show is what happens, command by command and line by line.

use crate::shell::{said, text, Shell};
use duramen_store::{MergeOptions, Options, Part, Scope, Store};
use serde_json::json;
use std::{path::Path, process::Command};

const README: &str = include_str!("../../../../README.md");
const STORE: &str = include_str!("../../../../docs/store.md");

/// The first block of code of a language in a section.
fn block<'a>(page: &'a str, section: &str, language: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).expect("the section");
    let (_, rest) = rest.split_once(&format!("\n```{language}\n")).expect("a block of code");
    rest.split_once("\n```").expect("its end").0
}

/// Runs the commands of a block by `sh`, one after the other. Each does its work, and prints the lines that stand under
/// it; times of day are others.
fn as_written(shell: &Shell, block: &str) {
    let bin = Path::new(env!("CARGO_BIN_EXE_duramen")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ").unwrap_or_else(|| panic!("no command: {line}"));
        let mut sh = Command::new("sh");
        sh.args(["-c", command]).env("PATH", &path).env("DURAMEN_HOME", shell.home());
        let output = sh.current_dir(shell.home().parent().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {}", said(&output));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let printed: Vec<String> = text(&output.stdout).lines().map(words).collect();
        let mut rest = printed.iter();
        while let Some(wanted) = lines.next_if(|line| !line.starts_with("$ ")) {
            let wanted = words(wanted);
            let is_moment = wanted.starts_with("created ") || wanted.starts_with("expires ");
            assert!(
                is_moment || rest.any(|line| *line == wanted),
                "{command}: {wanted:?} is not in {printed:?}"
            );
        }
    }
}

#[test]
fn the_readme_merges_a_branch() {
    as_written(&Shell::new(), block(README, "The store", ""));
}

#[test]
fn the_quick_start_of_the_store_runs() {
    as_written(&Shell::new(), block(STORE, "Quick start", ""));
}

#[test]
fn the_readme_uses_the_library() {
    let shell = Shell::new();
    std::fs::create_dir(shell.home()).unwrap();
    let data = shell.home().join("data");
    example(data.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    // What runs above is what is written there, but for the folder.
    let code = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split("  //").next().unwrap_or(line));
        let lines = lines
            .map(|line| line.split("; //").next().unwrap_or(line).trim().trim_end_matches(';').to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    let (_, own) = include_str!("readme.rs").split_once("fn example(data: &str)").unwrap();
    let own = code(&own.replace("open(data,", "open(\"data\","));
    let written = block(README, "The store", "rust");
    let (imports, written) = written.split_once("\n\n").expect("what is imported comes first");
    assert!(include_str!("readme.rs").contains(&format!("\n{imports}\n")), "{imports}");
    let written = code(written);
    assert!(own.windows(written.len()).any(|lines| lines == written), "{written:#?}\nis not in\n{own:#?}");
}

fn example(data: &str) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(data, Options::default())?;
    let main = store.branch("main")?;
    main.kv().put("colour", "green")?;

    let fork = main.fork("autumn")?;
    fork.kv().put("colour", "red")?;
    fork.json().set("tree", "$.leaves[0]", json!("red"))?;
    fork.events().append("leaf", json!({ "fallen": 3 }))?;

    store.diff("main", "autumn", &Part::default(), 10)?;
    store.merge("autumn", "main", MergeOptions::default())?;
    Ok(())
}
