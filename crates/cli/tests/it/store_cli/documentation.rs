//! What the page of the store shows is what happens, command by command and line by line.

use super::shell::{said, text, Shell};
use duramen_store::{Durability, MergeOptions, Options, Scope, Store};
use serde_json::json;
use std::{path::Path, process::Command};

const COOKBOOK: &str = include_str!("../../../../../docs/cookbook.md");
const STORE: &str = include_str!("../../../../../docs/store.md");

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
fn the_quick_start_of_the_store_runs() {
    as_written(&Shell::new(), block(STORE, "Quick start", ""));
}

/// The lines behind the prompts go through a pipe, where they print what stands under them.
#[test]
fn the_transcript_of_the_shell_is_what_happens() {
    let shell = Shell::new();
    let (mut input, mut wanted) = (String::new(), Vec::new());
    let mut transcript = block(STORE, "Shell", "").lines();
    let command =
        transcript.next().and_then(|line| line.strip_prefix("$ duramen store ")).expect("a command");
    for line in transcript {
        match line.split_once("> ") {
            Some(("main" | "try", typed)) => input += &format!("{typed}\n"),
            _ => wanted.push(line),
        }
    }
    let printed = shell.ok_fed(input.as_bytes(), &command.split(' ').collect::<Vec<_>>());
    let is_moment = |line: &str| line.starts_with("created ");
    let printed: Vec<&str> = printed.lines().filter(|line| !is_moment(line)).collect();
    wanted.retain(|line| !is_moment(line));
    assert_eq!(printed, wanted);
    assert!(wanted.len() > 12 && input.contains("\\diff"), "{input}");
}

#[test]
fn the_recipes_for_the_shell_run() {
    for recipe in ["Try something in the shell", "Copy a store while it is written"] {
        as_written(&Shell::new(), block(COOKBOOK, recipe, "text"));
    }
}

#[test]
fn the_example_of_the_library_runs() {
    let shell = Shell::new();
    std::fs::create_dir(shell.home()).unwrap();
    let data = shell.home().join("data");
    example(data.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    // What runs here is what is written there, but for the folder.
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| line.replace("open(data,", "open(\"data\",")).collect()
    };
    let own = lines(include_str!("documentation.rs"));
    let (imports, written) = block(STORE, "Rust", "rust").split_once("fn main()").expect("a program");
    for import in lines(imports) {
        assert!(own.contains(&import), "{import} is not imported here");
    }
    let (_, body) = written.split_once("{\n").expect("its body");
    let body = lines(body);
    assert!(own.windows(body.len()).any(|own| own == body), "{body:#?}\nis not in\n{own:#?}");
}

fn example(data: &str) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(data, Options { durability: Durability::Buffered, ..Options::default() })?;
    let main = store.branch("main")?;

    main.kv().put("greeting", "hello")?;
    main.state().set("tries", 1)?;
    main.events().append("login", json!({ "user": 1 }))?;
    main.json().set("user:1", "$.name", json!("Ada"))?;
    main.space("tenant-7")?.kv().put("greeting", "moin")?;

    // Several writes, all or nothing.
    main.transact(|tx| {
        let tries = tx.state().read("tries")?.and_then(|cell| cell.value.as_i64()).unwrap_or(0);
        tx.state().set("tries", tries + 1)?;
        tx.kv().put("greeting", "hello again")?;
        Ok(())
    })?;

    // A fork shares everything, and what is written to it stays in it until it is merged.
    let draft = store.fork("main", "draft")?;
    draft.kv().put("greeting", "servus")?;
    store.merge("draft", "main", MergeOptions::default())?;
    store.delete_branch("draft")?;

    // This one must not be lost, whatever happens.
    main.with_durability(Durability::Strict).kv().put("paid", true)?;
    store.close()?;
    Ok(())
}
