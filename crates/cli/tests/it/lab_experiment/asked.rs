//! Coding agents that are asked for changes. The programs here are scripts that play them: the real ones need accounts. What
//! is tested is how they are called, what they see, and what comes of their end.

use super::project::{text, Project};
use crate::support;
use serde_json::{json, Value};
use std::{fs, path::Path, process::Output};

/// A series whose proposers may write to a folder beside the repository, and a home with secrets.
fn project() -> Project {
    let project = Project::with_baseline();
    for folder in ["bin", "out", "user/.claude", "user/.ssh", "user/.gemini"] {
        fs::create_dir_all(project.beside(folder)).expect("a folder");
    }
    for (file, secret) in [
        (".claude/.credentials.json", "key of claude"),
        (".ssh/id", "key of ssh"),
        (".gemini/oauth_creds.json", "g"),
        ("data", "for all"),
    ] {
        fs::write(project.beside("user").join(file), secret).expect("a secret");
    }
    let spec = project.read("experiment/experiment.toml");
    let out = project.beside("out").display().to_string();
    project.write(
        "experiment/experiment.toml",
        &format!("{spec}\n[proposer]\nwrites = [{out:?}]\nenv = [\"GIVEN\"]\nreads = [\"~/data\"]\n"),
    );
    project
}

/// A program that plays an agent: it says how it was called, and then does this.
fn plays(project: &Project, agent: &str, then: &str) {
    let out = project.beside("out");
    let head = format!(
        "#!/bin/sh\nOUT={}\nprintf '%s\\n' \"$@\" > $OUT/arguments\ncat > $OUT/stdin\nenv > $OUT/env\n\
         (cd ~ && find . -type f | sort) > $OUT/home\ncat ~/.claude/.credentials.json ~/data > $OUT/key 2>/dev/null\n\
         cat {ssh} {held} > $OUT/seen 2>/dev/null\n",
        out.display(),
        ssh = project.beside("user/.ssh/id").display(),
        held = project.root().join("experiment/experiment.toml").display(),
    );
    support::install(&project.beside("bin").join(agent), &(head + then));
}

fn run(project: &Project, arguments: &[&str]) -> Output {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", project.beside("bin").display());
    let mut command = project.command(&[&["run"], arguments].concat());
    command.env("PATH", path).env("HOME", project.beside("user"));
    for (name, value) in [("ANTHROPIC_API_KEY", "sk-1"), ("GIVEN", "yes"), ("AWS_SECRET_ACCESS_KEY", "sk-2")]
    {
        command.env(name, value);
    }
    command.output().expect("the program runs")
}

fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

fn read(project: &Project, name: &str) -> String {
    fs::read_to_string(project.beside("out").join(name)).unwrap_or_default()
}

/// A fifth less, with an answer in the file that the prompt names.
const FASTER: &str = r#"echo $(( $(cat program/time) * 8 / 10 )) > program/time
git diff --quiet && exit 9
echo '{"hypothesis": "a fifth less", "mechanism": "fewer steps", "notes": {"profile": "all of it is time"}}' > duramen-answer.json
"#;

#[test]
fn an_agent_is_told_by_standard_input_and_what_it_changed_is_tried() {
    let project = project();
    let before = project.of_the_user();
    plays(&project, "claude", FASTER);
    let output =
        run(&project, &["--agent", "claude", "--max-tries", "1", "--for", "1h", "--", "--model", "it's"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("try 1: keep -"), "{}", said(&output));
    assert_eq!(
        read(&project, "arguments").lines().collect::<Vec<_>>(),
        [
            "-p",
            "--output-format",
            "text",
            "--no-session-persistence",
            "--dangerously-skip-permissions",
            "--model",
            "it's"
        ]
    );
    let prompt = read(&project, "stdin");
    for part in [
        "# Task",
        "`time_ms` (ms); lower is better",
        "scale small: ",
        "`program/**`",
        "duramen-answer.json",
        "Nothing yet",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert!(!prompt.contains("held\n") && !prompt.contains("25"), "{prompt}");
    // Its own credentials, and nobody else's.
    let env = read(&project, "env");
    assert!(env.contains("ANTHROPIC_API_KEY=sk-1\n") && env.contains("GIVEN=yes\n"), "{env}");
    assert!(!env.contains("sk-2") && env.contains("IS_SANDBOX=1\n"), "{env}");
    assert_eq!(read(&project, "home"), "./.claude/.credentials.json\n");
    assert_eq!(
        (read(&project, "key").as_str(), read(&project, "seen").as_str()),
        ("key of claudefor all", "")
    );
    assert_eq!(project.of_the_user(), before);
    let row = project.json(0, &["log", "1"]);
    assert_eq!(
        (&row["files"], &row["notes"]["profile"]),
        (&json!(["program/time"]), &json!("all of it is time"))
    );
}

#[test]
fn prompts_are_arguments_and_files_too_and_what_agents_leave_is_no_change() {
    let project = project();
    plays(&project, "gemini", FASTER);
    let output = run(&project, &["--agent", "gemini", "--max-tries", "1"]);
    assert!(output.status.success(), "{}", said(&output));
    let arguments = read(&project, "arguments");
    let (options, prompt) = arguments.split_once("--prompt\n").expect("an option");
    assert_eq!(options, "--skip-trust\n--approval-mode\nyolo\n--output-format\ntext\n");
    assert!(prompt.starts_with("# Task") && prompt.contains("program/**"), "{prompt}");
    assert_eq!(read(&project, "home"), "./.gemini/oauth_creds.json\n");

    let leave = "for last; do :; done; cp \"$last\" $OUT/file; mkdir .aider.tags; echo x > .aider.tags/y; echo z > .aider.history\n";
    plays(&project, "aider", &format!("{leave}{FASTER}"));
    let output = run(&project, &["--agent", "aider", "--max-tries", "1"]);
    assert!(output.status.success(), "{}", said(&output));
    let told = read(&project, "file");
    assert!(told.contains("Try 1: keep, -") && told.contains("profile: all of it is time"), "{told}");
    assert_eq!(project.json(0, &["log", "2"])["files"], json!(["program/time"]));
}

#[test]
fn an_agent_that_is_missing_or_fails_is_refused_with_the_way_on() {
    let project = project();
    let missing = run(&project, &["--agent", "opencode"]);
    assert_eq!(missing.status.code(), Some(1), "{}", said(&missing));
    assert!(
        said(&missing).contains("npm install -g opencode-ai")
            && said(&missing).contains("opencode auth login")
    );
    let unknown = run(&project, &["--agent", "cluade"]);
    assert!(said(&unknown).contains("do you mean `claude`?"), "{}", said(&unknown));
    assert_eq!(run(&project, &["--agent", "claude", "--propose", "true"]).status.code(), Some(2));
    let nobody = run(&project, &[]);
    assert_eq!(nobody.status.code(), Some(2), "{}", said(&nobody));
    assert!(said(&nobody).contains("--agent NAME"), "{}", said(&nobody));

    plays(&project, "codex", "printf '\\033[31mNot logged in\\n' >&2; echo 1 > program/time; exit 41\n");
    let failed = run(&project, &["--agent", "codex"]);
    assert_eq!(failed.status.code(), Some(1), "{}", said(&failed));
    let told = said(&failed);
    assert!(told.contains("failed 3 times in a row (exit status 41: Not logged in)"), "{told}");
    assert!(told.contains("codex login") && !told.contains('\u{1b}'), "{told}");
    assert!(read(&project, "arguments").ends_with("--dangerously-bypass-approvals-and-sandbox\n-\n"));
    let status = project.json(0, &["status"]);
    assert_eq!((&status["tries"], &status["stopped"]["rule"]), (&json!(0), &json!("proposer_failed")));
    assert_eq!(status["spec_changed"], false, "who proposes has no part in a verdict");
}

#[test]
fn agents_are_listed_with_how_they_are_called() {
    let project = project();
    let listed = project.json(0, &["agents"]);
    let names: Vec<&str> =
        listed.as_array().into_iter().flatten().filter_map(|row| row["agent"]["name"].as_str()).collect();
    assert_eq!(names, ["aider", "claude", "codex", "gemini", "opencode"]);
    assert!(listed.as_array().into_iter().flatten().all(|row: &Value| row["agent"]["checked"].is_string()));
    let table = project.expect(0, &["agents"]);
    assert!(
        table.contains("codex exec --skip-git-repo-check")
            && table.contains("claude gets: ANTHROPIC_API_KEY"),
        "{table}"
    );
    assert!(Path::new(&project.root()).exists());
}

#[test]
fn notes_are_bounded_and_shown_as_text() {
    let project = Project::with_baseline();
    project.write("program/time", "80\n");
    let claim = ["try", "--hypothesis", "less", "--mechanism", "fewer steps"];
    for wrong in [["--note", "a b=x"], ["--note", "=x"], ["--note", "x"]] {
        assert_eq!(project.run(&[&claim[..], &wrong].concat()).status.code(), Some(2), "{wrong:?}");
    }
    let long = format!("a={}", "x".repeat(5000));
    assert!(project.expect(2, &[&claim[..], &["--note", &long]].concat()).contains("longer than 4 KiB"));
    let notes = ["--note", "profile=60 % \u{1b}[31min lookup", "--note", "ticket=<b>"];
    let ended = project.expect(0, &[&claim[..], &notes].concat());
    assert!(ended.contains("60 % \u{fffd}[31min lookup") && ended.contains("ticket"), "{ended}");
}
