//! X25: whoever proposes sees its worktree, and neither what is held out, nor other tries, nor the user's repository. Real
//! cages, real git.

use crate::project::{Project, SPEC};
use duramen_experiment::{
    event::{Event, Purpose, Verdict},
    series::{Isolation, Limits, Proposer, SeriesError, Stopped},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What is held out, by a value, a file and a draw. Each is a number that stands nowhere else.
const BY_VALUE: &str = "7654321";
const IN_FILE: [&str; 3] = ["8765432", "8765433", "8765434"];
const DRAWN: [&str; 2] = ["9876543", "9876544"];

/// A project whose benchmark takes any scale for one that is held out, with a committed spec.
pub(crate) fn project(scales: &str) -> Project {
    let project = Project::new();
    project.isolation.set(Isolation::Required);
    let awk = fs::read_to_string(project.root.join("bench.awk")).expect("the benchmark");
    let awk = awk.replace("name[\"25\"] = \"held\"", "if (!(scale in name)) name[scale] = \"held\"");
    project.write("bench.awk", &awk);
    project.commit("Any scale");
    let held = "[[scale]]\nname = \"held\"\nvalue = \"25\"\nheld_out = true\n";
    assert!(SPEC.contains(held));
    let (out, values) = (out(&project), values(&project));
    fs::create_dir_all(&out).expect("a folder");
    let scales = scales.replace("VALUES", &values.display().to_string());
    let spec = SPEC.replace(held, &scales);
    project.spec(&format!("{spec}\n[proposer]\nwrites = [{:?}]\n", out.display().to_string()));
    fs::write(&values, IN_FILE.join("\n")).expect("the values are written");
    project.git(&["add", "-f", "experiments/speed/experiment.toml"]);
    project.git(&["commit", "-q", "-m", "The spec"]);
    project
}

fn out(project: &Project) -> PathBuf {
    project.root.with_file_name("out")
}

fn values(project: &Project) -> PathBuf {
    project.root.with_file_name("held-out-sizes")
}

/// A proposer, outside of the repository.
fn script(project: &Project, text: &str) -> Proposer {
    let path = project.root.with_file_name("propose.sh");
    fs::write(&path, format!("OUT={}\n{text}", out(project).display())).expect("a script is written");
    Proposer::Command(format!("sh {}", path.display()))
}

fn run(project: &Project, proposer: &Proposer, tries: u32) -> Stopped {
    let limits = Limits { tries: Some(tries), time: None };
    project.with(|series| series.propose(Some(proposer.clone()), limits)).expect("the run ends")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Looks for what is held out wherever it could lie, and says where it was found.
const SNOOP: &str = r#"look() { grep -rlIsE "$HIDDEN" "$@" 2>/dev/null | sed 's/^/file: /'; }
{
  look . "$HOME" /tmp /run /dev/shm "$ROOT" "$WORK" "$VALUES"
  git log --all -p 2>/dev/null | grep -nE "$HIDDEN"
  git cat-file --batch-all-objects --batch 2>/dev/null | grep -aE "$HIDDEN"
  git -C "$ROOT" log --all -p 2>/dev/null | grep -nE "$HIDDEN"
  env | grep -E "$HIDDEN"
  cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -aE "$HIDDEN"
  ls -d "$ROOT"/program "$WORK"/base/* "$WORK"/candidate/* "$WORK"/*.built 2>/dev/null
} > "$OUT/found" 2>&1
"#;

fn variables(project: &Project) -> String {
    // As a pattern that does not match itself.
    let pattern = |value: &&str| format!("[{}]{}", &value[..1], &value[1..]);
    let all = [&[BY_VALUE][..], &IN_FILE, &DRAWN].concat();
    let hidden = all.iter().map(pattern).collect::<Vec<_>>().join("|");
    format!(
        "HIDDEN='{hidden}' ROOT={} WORK={} VALUES={}\n",
        project.root.display(),
        project.work.display(),
        values(project).display()
    )
}

#[test]
fn x25_nothing_that_is_held_out_is_told_or_can_be_read() {
    let project = project(&format!(
        "[[scale]]\nname = \"secret\"\nvalue = \"{BY_VALUE}\"\nheld_out = true\n\
         [[scale]]\nname = \"listed\"\nvalues = \"VALUES\"\nheld_out = true\n\
         [[scale]]\nname = \"chance\"\ndraw = {DRAWN:?}\nheld_out = true\n"
    ));
    project.baseline();
    // The first is kept, so that values are drawn and stand in the log. The second is better but not where it is held out.
    let proposer = script(
        &project,
        &format!(
            r#"{}cat > "$OUT/question-$DURAMEN_TRY.json"
cp "$DURAMEN_PROMPT" "$OUT/prompt-$DURAMEN_TRY.md"
case $DURAMEN_TRY in
1) echo 80 > program/small; echo 320 > program/large; echo 200 > program/held ;;
2) echo 60 > program/small; echo 240 > program/large; echo 400 > program/held ;;
3) echo 300 > program/small
{SNOOP} ;;
esac
echo '{{"hypothesis":"less","mechanism":"m"}}' > "$DURAMEN_ANSWER"
"#,
            variables(&project)
        ),
    );
    let stopped = run(&project, &proposer, 3);
    let verdicts: Vec<Verdict> = stopped.tries.iter().map(|ended| ended.judgement.verdict).collect();
    assert_eq!(verdicts[0], Verdict::Keep, "{}", stopped.tries[0].judgement.reason);
    assert_ne!(verdicts[1], Verdict::Keep);
    let second = &stopped.tries[1].judgement.reason;
    assert!(["secret", "listed", "chance"].iter().any(|name| second.contains(name)), "{second}");
    assert_eq!(stopped.tries[2].files, ["program/small"], "the answer is no part of the change");

    // The log has what was drawn, and from which file.
    let drawn = project.entries().into_iter().find_map(|entry| match entry.event {
        Event::Drawn { purpose: Purpose::Confirm(1), values, digests } => Some((values, digests)),
        _ => None,
    });
    let (drawn, digests) = drawn.expect("values were drawn");
    assert!(
        IN_FILE.contains(&drawn["listed"].as_str()) && DRAWN.contains(&drawn["chance"].as_str()),
        "{drawn:?}"
    );
    let digest = blake3::hash(IN_FILE.join("\n").as_bytes()).to_hex().to_string();
    assert_eq!(digests.get("listed"), Some(&digest));

    for number in 1..=3 {
        for file in [format!("question-{number}.json"), format!("prompt-{number}.md")] {
            let text = read(&out(&project).join(&file));
            let hidden =
                [&[BY_VALUE, "secret", "listed", "chance", "held-out-sizes"][..], &IN_FILE, &DRAWN].concat();
            for hidden in hidden {
                assert!(!text.contains(hidden), "{file} tells {hidden}: {text}");
            }
        }
    }
    let question: Value = serde_json::from_str(&read(&out(&project).join("question-3.json"))).expect("JSON");
    assert_eq!(question["history"][1]["reason"], "it does not hold at a scale that was held out");
    assert_eq!(question["unit"], "ms");
    let base = question["base"]["small"].as_f64().expect("the base's figure");
    assert!((base - 80.0).abs() < 1.0, "{base}");
    assert_eq!(read(&out(&project).join("found")), "");

    // Without walls all of it is found: it is there, and the search works.
    let snoop = project.root.with_file_name("snoop.sh");
    let text = format!("OUT={}\n{}{SNOOP}", out(&project).display(), variables(&project));
    fs::write(&snoop, text).expect("a script is written");
    Command::new("sh").arg(&snoop).current_dir(&project.root).status().expect("a shell");
    let found = read(&out(&project).join("found"));
    for place in ["experiment.toml", "held-out-sizes", "experiments.jsonl", "/candidate/", "program"] {
        assert!(found.contains(place), "{place} is not found: {found}");
    }
}

#[test]
fn x25_a_proposer_reaches_nothing_of_the_users() {
    let project = project("");
    project.baseline();
    let private = project.root.with_file_name("private");
    fs::create_dir(&private).expect("a folder");
    fs::write(private.join("key"), "for nobody").expect("a file");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("its address").port();
    let proposer = script(
        &project,
        &format!(
            r#"cat >/dev/null
{{
  for target in {root}/program/small {root}/.git/HEAD {log} /etc/hostname /usr/stray {private}/key; do
    case $target in /etc/*) ;; *) cat $target 2>/dev/null ;; esac
    echo x 2>/dev/null >> $target
  done
  test -z "$SHOULD_NOT_BE_SEEN$CARGO_MANIFEST_DIR" || echo "environment"
  ls -A ~ | grep -vE '^\.(cargo|rustup|pyenv|nvm|local|npm-global|deno|bun|gem|m2|volta|asdf|dotnet)$|^go$|^bin$' | grep -v '^\.config$'
  git rev-list --count --all; git status --porcelain
  bash -c 'exec 9<>/dev/tcp/127.0.0.1/{port}' && echo network
}} > "$OUT/log"
(setsid sleep 600 &) ; sleep 600 &
echo 300 > program/small
echo '{{"hypothesis":"more","mechanism":"m"}}'
"#,
            root = project.root.display(),
            log = project.log_path().display(),
            private = private.display(),
        ),
    );
    let paths = [project.root.join("program/small"), project.root.join(".git/HEAD"), "/etc/hostname".into()];
    let before = paths.clone().map(|path| read(&path));
    run(&project, &proposer, 1);
    assert_eq!(read(&out(&project).join("log")), "1\nnetwork\n");
    assert_eq!(paths.map(|path| read(&path)), before);
    assert!(!Path::new("/usr/stray").exists());
    project.state();
    assert_eq!(read(&private.join("key")), "for nobody");
    assert_eq!(crate::project::processes_in(&project.work), Vec::<String>::new());
    assert!(!project.work.join("proposal-home").exists(), "its home goes with it");
    // Without the network where the spec says so.
    let spec = read(&project.series().join("experiment.toml"));
    project.spec(&format!("{spec}network = false\n"));
    run(&project, &proposer, 1);
    assert_eq!(read(&out(&project).join("log")), "1\n");
}

#[test]
fn answers_come_from_a_file_and_notes_are_kept_and_shown() {
    let project = project("");
    project.write("duramen-answer.json", "{}");
    project.git(&["add", "-A", "--", ".", ":!experiments"]);
    project.git(&["commit", "-q", "-m", "A program with such a file"]);
    project.baseline();
    let long = "x".repeat(5_000);
    let proposer = script(
        &project,
        &format!(
            r#"cat >/dev/null
echo 300 > program/small
case $DURAMEN_TRY in
1) test "$DURAMEN_ANSWER" = duramen-answer-1.json || exit 9
   printf '%s' '{{"hypothesis":"one","mechanism":"m","notes":{{"profile":"60 %\n in <b>`x`</b> | \u001b[31mred\u202e","figures":{{"a":1}}}}}}' > "$DURAMEN_ANSWER" ;;
2) echo '{{"hypothesis":"two","mechanism":"m","notes":{{"a b":"x"}}}}' ;;
3) echo '{{"hypothesis":"three","mechanism":"m","notes":{{"long":"{long}"}}}}' ;;
4) ln -s /etc/passwd "$DURAMEN_ANSWER" ;;
5) mkfifo "$DURAMEN_ANSWER" ;;
6) head -c 300000 /dev/zero | tr '\0' ' ' > "$DURAMEN_ANSWER" ;;
7) echo 'no JSON' > "$DURAMEN_ANSWER" ;;
esac
"#
        ),
    );
    let stopped = run(&project, &proposer, 7);
    let reasons: Vec<&str> = stopped.tries.iter().map(|ended| ended.judgement.reason.as_str()).collect();
    for (reason, part) in reasons.iter().zip([
        "300",
        "wrongly named",
        "longer than 4 KiB",
        "cannot be read",
        "is not a regular file",
        "longer than 256 KiB",
        "holds no JSON object",
    ]) {
        assert!(part == "300" || reason.contains(part), "{part}: {reason}");
    }
    assert_eq!(stopped.tries[0].files, ["program/small"]);
    let state = project.state();
    let notes = &state.find_try(1).expect("the try").notes;
    assert_eq!(notes["figures"], "{\"a\":1}");
    let one = duramen_experiment::report::one(&state, 1).expect("the try");
    assert!(
        one.contains("60 % in <b>`x`</b> |") && !one.contains('\u{1b}') && !one.contains('\u{202e}'),
        "{one}"
    );
    let page = duramen_experiment::report::html(&state);
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>`x`") && !page.contains('\u{1b}'), "{page}");
    let markdown = duramen_experiment::report::markdown(&state);
    assert!(markdown.contains("&lt;b>`x`&lt;/b> \\|") && !markdown.contains('\u{1b}'), "{markdown}");
}

#[test]
fn a_profile_is_taken_once_for_each_base_and_told() {
    let project = project("");
    let spec = read(&project.series().join("experiment.toml"));
    let profile = |command: &str| project.spec(&format!("{spec}\n[profile]\ncommand = {command:?}\n"));
    profile("cat built.txt; touch stray; test ! -e ../../base; printf 'scale {scale} '$SCALE'\\033[31m red\\007\\n'");
    project.baseline();
    let proposer = script(
        &project,
        r#"cat > "$OUT/question-$DURAMEN_TRY.json"
cp "$DURAMEN_PROMPT" "$OUT/prompt-$DURAMEN_TRY.md"
test $DURAMEN_TRY != 2 || { echo 80 > program/small; echo 320 > program/large; echo 200 > program/held; }
test $DURAMEN_TRY != 1 || echo 300 > program/small
test $DURAMEN_TRY != 3 || echo 301 > program/small
echo '{"hypothesis":"h","mechanism":"m"}'
"#,
    );
    run(&project, &proposer, 3);
    let question = |number: u32| -> Value {
        serde_json::from_str(&read(&out(&project).join(format!("question-{number}.json")))).expect("JSON")
    };
    let first = question(1)["profile"]["text"].as_str().expect("a profile").to_owned();
    assert!(first.contains("small 100") && first.ends_with("scale 10 10 red\n"), "{first:?}");
    assert_eq!(question(2)["profile"]["text"], first);
    let third = question(3)["profile"]["text"].clone();
    assert!(third.as_str().is_some_and(|text| text.contains("small 80")), "{third}");
    assert!(read(&out(&project).join("prompt-3.md")).contains("small 80"));
    let taken = |project: &Project| {
        project.entries().iter().filter(|entry| matches!(entry.event, Event::Profiled { .. })).count()
    };
    assert_eq!(taken(&project), 2, "the start, and the head after the second try");
    assert!(!project.work.join("profile").exists());
    assert_eq!(project.state().oddities, Vec::<String>::new());
}

#[test]
fn a_profile_that_fails_is_said_and_not_taken_again() {
    let project = project("");
    let spec = read(&project.series().join("experiment.toml"));
    project.spec(&format!("{spec}\n[profile]\ncommand = \"echo no perf here >&2; exit 3\"\n"));
    project.baseline();
    let proposer = script(
        &project,
        "cat > \"$OUT/question\"; echo 300 > program/small; echo '{\"hypothesis\":\"h\",\"mechanism\":\"m\"}'\n",
    );
    run(&project, &proposer, 2);
    let question: Value = serde_json::from_str(&read(&out(&project).join("question"))).expect("JSON");
    assert_eq!(question["profile"]["failure"], "exit status 3: no perf here");
    let taken =
        project.entries().iter().filter(|entry| matches!(entry.event, Event::Profiled { .. })).count();
    assert_eq!(taken, 1);
}

#[test]
fn values_in_a_file_are_outside_and_are_read_late() {
    let listed = "[[scale]]\nname = \"listed\"\nvalues = \"VALUES\"\nheld_out = true\n";
    let project = project(listed);
    let (file, spec) = (values(&project), read(&project.series().join("experiment.toml")));
    // What is wrong with its place is told before anything is measured.
    for (path, what) in [
        (project.root.join("program/small"), "move them out of the repository"),
        (project.root.with_file_name("nowhere"), "make the file"),
        (project.root.with_file_name("out"), "it is not a regular file"),
    ] {
        project.spec(&spec.replace(&file.display().to_string(), &path.display().to_string()));
        let error = project.with(|series| series.baseline()).expect_err("no baseline");
        assert!(matches!(error, SeriesError::Values(_)) && error.to_string().contains(what), "{error}");
    }
    // What stands in it is not read for a baseline, nor for a try that is not confirmed.
    project.spec(&spec);
    fs::write(&file, "one value").expect("the values are written");
    project.baseline();
    assert_eq!(project.try_with("small", "300").judgement.verdict, Verdict::Discard);
    // A build cannot read it.
    let build = fs::read_to_string(project.root.join("build.sh")).expect("the build");
    for name in ["small", "large", "held"] {
        project.set(name, "50");
    }
    let error = project.attempt().expect_err("no confirmation");
    assert!(error.to_string().contains("at least two values"), "{error}");
    assert!(!build.is_empty() && project.state().open_try().is_some(), "it goes on when the file is mended");
    fs::write(&file, IN_FILE.join("\n")).expect("the values are written");
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
}

#[test]
fn x25_no_build_run_or_check_reads_the_values() {
    let listed = "[[scale]]\nname = \"listed\"\nvalues = \"VALUES\"\nheld_out = true\n";
    let project = project(listed);
    let file = values(&project);
    let build = fs::read_to_string(project.root.join("build.sh")).expect("the build");
    project.write("build.sh", &format!("{build}test ! -s {} || exit 7\n", file.display()));
    let bench = fs::read_to_string(project.root.join("bench.sh")).expect("the benchmark");
    project.write("bench.sh", &format!("test ! -s {} || exit 7\n{bench}", file.display()));
    project.git(&["commit", "-q", "-am", "Look for the values"]);
    project.baseline();
    assert_eq!(project.try_with("small", "300").judgement.verdict, Verdict::Discard);
}
