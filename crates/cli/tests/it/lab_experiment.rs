//! `duramen lab experiment`, as people and agents call it: real git, a benchmark in sh, real signals.

mod asked;
mod forge;
mod on_data;
mod project;
mod verdicts_in_ci;

use project::{script, text, Project};
use serde_json::{json, Value};
use std::{
    fs,
    process::{Child, Stdio},
    thread::sleep,
    time::Duration,
};

/// How long a thing that happens by itself may take.
const SOON: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = duramen_base::clock::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "it never came to this: {what}");
        sleep(POLL);
    }
}

fn signal(child: &Child, name: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, name).unwrap();
}

#[test]
fn a_series_from_its_beginning_to_branches() {
    let project = Project::new();
    project.begin();
    assert!(project.expect(0, &["status"]).contains("no baseline yet"));
    let baseline = project.expect(0, &["baseline"]);
    assert!(baseline.contains("segment 1 begins with") && baseline.contains("noise floor"), "{baseline}");
    assert!(baseline.contains("time_ms") && baseline.contains("small"), "{baseline}");

    // Faster: kept. The working tree stays as it is.
    project.write("program/time", "80\n");
    let before = project.of_the_user();
    let kept = project.attempt(0, "a fifth less");
    assert!(kept.contains("verdict") && kept.contains("keep") && kept.contains("the head is"), "{kept}");
    assert!(kept.contains("19 tries left"), "{kept}");
    assert_eq!(project.of_the_user(), before);
    assert_eq!(project.read("program/time"), "80\n");

    // Slower; out of scope; broken.
    project.write("program/time", "96\n");
    let conflict = project.attempt(1, "more is less");
    assert!(conflict.contains("conflicts") && conflict.contains("--base"), "{conflict}");
    assert!(project.go_on(1, "more is less").contains("discard"));
    project.write("program/time", "80\n");
    project.write("bench.sh", "echo METRIC time_ms=1; echo METRIC rows=$1\n");
    let invalid = project.attempt(3, "a faster benchmark");
    assert!(invalid.contains("invalid") && invalid.contains("bench.sh"), "{invalid}");
    project.git(&["checkout", "-q", "bench.sh"]);
    project.write("program/broken", "");
    assert!(project.attempt(1, "broken is fast").contains("crash"));
    fs::remove_file(project.root().join("program/broken")).unwrap();

    let log = project.expect(0, &["log"]);
    for verdict in ["keep", "discard", "invalid", "crash"] {
        assert!(log.contains(verdict), "{log}");
    }
    assert!(
        project.expect(0, &["log", "4"]).contains("it went wrong"),
        "{}",
        project.expect(0, &["log", "4"])
    );
    let rows = project.json(0, &["log"]);
    assert_eq!(rows.as_array().unwrap().len(), 4);
    assert_eq!(rows[0]["verdict"], "keep");
    let percent = rows[0]["change"]["percent"].as_f64().unwrap();
    assert!((percent - -20.0).abs() < 1.0, "{percent}");
    assert_eq!(project.json(0, &["log", "2"])["hypothesis"], "more is less");

    let status = project.json(0, &["status"]);
    assert_eq!((&status["segment"], &status["tries"], &status["budget"]), (&json!(1), &json!(4), &json!(20)));
    assert_eq!(status["spec_changed"], false);
    assert_eq!(status["stack"]["is_replayed"], false);

    let replayed = project.expect(0, &["replay"]);
    assert!(replayed.contains("keep: time_ms -"), "{replayed}");
    assert_eq!(project.json(0, &["status"])["stack"]["is_replayed"], true);
    let ablated = project.expect(0, &["ablate"]);
    assert!(ablated.contains("a fifth less"), "{ablated}");

    let written = project.expect(0, &["report"]);
    assert!(written.contains("experiments.md") && written.contains("experiments.html"), "{written}");
    let markdown = project.read("experiment/experiments.md");
    assert!(markdown.contains("# Experiments: speed") && markdown.contains("more is less"), "{markdown}");
    assert!(project.read("experiment/experiments.html").contains("<svg"));
    assert_eq!(project.expect(0, &["report", "--markdown", "-"]), markdown);

    let before = project.git(&["rev-parse", "HEAD"]);
    let branches = project.json(0, &["export", "--prefix", "faster"]);
    let names: Vec<&str> =
        branches.as_array().unwrap().iter().map(|branch| branch["name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("faster")), "{names:?}");
    for name in names {
        assert_eq!(project.git(&["show", &format!("{name}:program/time")]), "80");
    }
    assert_eq!(project.git(&["rev-parse", "HEAD"]), before);
    let again = project.expect(1, &["export", "--prefix", "faster"]);
    assert!(again.contains("exists already"), "{again}");
}

#[test]
fn a_verdict_by_hand_is_shown_beside_the_computed_one() {
    let project = Project::with_baseline();
    project.write("program/time", "80\n");
    project.attempt(0, "a fifth less");
    let start = project.json(0, &["status"])["start"].clone();
    let by_hand = project.expect(0, &["override", "1", "discard", "--reason", "it leaks"]);
    assert!(by_hand.contains("discard (by hand)"), "{by_hand}");
    let row = project.json(0, &["log", "1"]);
    assert_eq!((&row["verdict"], &row["computed"]), (&json!("discard"), &json!("keep")));
    assert_eq!(row["by_hand"]["reason"], "it leaks");
    assert_eq!(project.json(0, &["status"])["head"], start, "the head is the start again");
    assert!(project.expect(0, &["log"]).contains("it leaks"));
    assert_eq!(project.run(&["override", "1", "keep"]).status.code(), Some(2), "without a reason");
    assert_eq!(project.run(&["override", "1", "keep", "--reason", " "]).status.code(), Some(2));
    assert!(project.expect(1, &["override", "9", "keep", "--reason", "so"]).contains("no try 9"));
}

#[test]
fn changes_come_from_branches_and_patches_too() {
    let project = Project::with_baseline();
    project.git(&["checkout", "-q", "-b", "quicker"]);
    project.write("program/time", "80\n");
    project.commit("quicker");
    let patch = project.git(&["diff", "HEAD~1", "HEAD"]) + "\n";
    project.git(&["checkout", "-q", "main"]);
    let claim = ["--hypothesis", "less", "--mechanism", "fewer steps"];
    let ended = project.json(0, &[&["try", "--branch", "quicker"], claim.as_slice()].concat());
    assert_eq!(ended["source"], "branch quicker");
    assert_eq!(ended["judgement"]["verdict"], "keep");
    assert_eq!(ended["files"], json!(["program/time"]));
    project.expect(0, &["override", "1", "discard", "--reason", "for the patch"]);
    project.write("the.patch", &patch);
    let ended = project.json(0, &[&["try", "--patch", "the.patch"], claim.as_slice()].concat());
    assert_eq!(ended["source"], "patch the.patch");
    let both = [&["try", "--patch", "the.patch", "--branch", "quicker"], claim.as_slice()].concat();
    assert_eq!(project.run(&both).status.code(), Some(2));
    let missing = project.expect(1, &[&["try", "--branch", "nowhere"], claim.as_slice()].concat());
    assert!(missing.contains("nowhere"), "{missing}");
}

#[test]
fn a_proposer_is_run_until_a_rule_ends_it() {
    let project = Project::with_baseline();
    let before = project.of_the_user();
    let proposer = script(
        &project,
        "propose.sh",
        r#"cat > /dev/null
now=$(cat program/time)
test "$now" -gt 70 || { echo '{"stop": true}'; exit 0; }
echo $((now * 8 / 10)) > program/time
echo 'thinking aloud'
echo '{"hypothesis": "a fifth less than '$now'", "mechanism": "fewer steps", "axis": "steps"}'
"#,
    );
    let run = project.expect(0, &["run", "--propose", &proposer]);
    assert!(run.contains("try 1: keep -") && run.contains("a fifth less than 80"), "{run}");
    assert!(run.contains("ended by the rule `proposer`"), "{run}");
    assert_eq!(project.of_the_user(), before);
    assert_eq!(project.json(0, &["status"])["stopped"]["rule"], "proposer");
    // There is nothing more to keep, and that is what the exit status says.
    assert_eq!(project.json(1, &["run", "--propose", &proposer])["rule"], "proposer");
    let useless = script(
        &project,
        "useless.sh",
        r#"cat > /dev/null
echo "$(cat program/time)" > program/other
echo '{"hypothesis": "nothing", "mechanism": "none"}'
"#,
    );
    let ended = project.json(1, &["run", "--propose", &useless, "--max-tries", "1"]);
    assert_eq!((&ended["rule"], ended["tries"].as_array().unwrap().len()), (&json!("tries"), 1));
}

/// A series whose next try takes some seconds, and that try under way with some samples.
fn under_way(project: &Project) -> Child {
    project.write("program/time", "80\n");
    project.write("program/slow", "0.1\n");
    let mut command = project.command(&["try", "--hypothesis", "slow but less", "--mechanism", "sleep"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let samples = || fs::read_to_string(project.log()).unwrap().matches(r#"{"of":"try""#).count();
    until("some samples are in the log", || samples() >= 3);
    child
}

/// The samples of the only try.
fn samples(project: &Project) -> Vec<String> {
    let log = fs::read_to_string(project.log()).unwrap();
    log.lines().filter(|line| line.contains(r#"{"of":"try""#)).map(str::to_owned).collect()
}

#[test]
fn killed_in_the_middle_it_resumes_with_the_samples_that_it_has() {
    let project = Project::with_baseline();
    let mut child = under_way(&project);
    // Whoever looks meanwhile needs no lock; whoever works does.
    assert_eq!(project.json(0, &["status"])["open_try"], 1);
    assert!(project.expect(1, &["resume"]).contains("another process"));
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    let before = samples(&project);
    assert!(project.expect(0, &["log"]).contains("open"));
    let resumed = project.json(0, &["resume"]);
    assert_eq!(
        (&resumed["resumed"], &resumed["try"]["judgement"]["verdict"]),
        (&json!("try"), &json!("keep"))
    );
    let after = samples(&project);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), 8, "2 quads at one deciding scale, and no run twice");
    assert!(project.expect(0, &["resume"]).contains("nothing was broken off"));
}

#[test]
fn a_signal_ends_it_at_a_safe_place() {
    let project = Project::with_baseline();
    let child = under_way(&project);
    signal(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the next command goes on from here"), "{}", text(&output.stderr));
    assert_eq!(project.json(0, &["status"])["open_try"], 1);
    assert_eq!(project.json(0, &["resume"])["resumed"], "try");
}

#[test]
fn a_torn_line_is_told_and_damage_is_refused() {
    let project = Project::with_baseline();
    let whole = fs::read(project.log()).unwrap();
    fs::write(project.log(), [&whole, b"{\"seq\":99,\"at\"".as_slice()].concat()).unwrap();
    let output = project.run(&["ideas", "add", "a smaller table"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("was cut off"), "{}", text(&output.stderr));
    let mut damaged = fs::read(project.log()).unwrap();
    let at = damaged.iter().position(|&byte| byte == b'\n').unwrap() + 40;
    damaged[at] ^= 1;
    fs::write(project.log(), &damaged).unwrap();
    for verb in [["status"].as_slice(), &["log"], &["baseline"], &["report"], &["ideas", "add", "more"]] {
        let refused = project.expect(1, verb);
        assert!(refused.contains("line 2 of the log") && refused.contains("head -n 1"), "{refused}");
    }
    assert_eq!(fs::read(project.log()).unwrap(), damaged);
}

#[test]
fn ideas_and_closed_lines_of_thought_are_kept() {
    let project = Project::with_baseline();
    assert!(project.expect(0, &["ideas"]).contains("no open ideas"));
    assert_eq!(project.expect(0, &["ideas", "add", "a smaller table", "--rank", "1"]).trim(), "idea 1");
    project.expect(0, &["ideas", "add", "SIMD", "--mechanism", "eight at once", "--rank", "-2.5"]);
    project.expect(0, &["ideas", "change", "2", "--rank", "7"]);
    let ideas = project.json(0, &["ideas"]);
    assert_eq!((&ideas[0]["text"], &ideas[0]["mechanism"]), (&json!("SIMD"), &json!("eight at once")));
    project.expect(0, &["ideas", "done", "2"]);
    assert_eq!(project.json(0, &["ideas"]).as_array().unwrap().len(), 1);
    assert!(project.expect(1, &["ideas", "done", "9"]).contains("no idea 9"));
    assert_eq!(project.run(&["ideas", "add", ""]).status.code(), Some(2));

    project.expect(0, &["closed", "add", "unrolling", "--mechanism", "the loop waits for memory"]);
    assert_eq!(project.json(0, &["closed"])[0]["axis"], "unrolling");
    project.write("program/time", "80\n");
    let claim = ["try", "--hypothesis", "by 4", "--mechanism", "fewer branches", "--axis", "unrolling"];
    let refused = project.expect(1, &claim);
    assert!(refused.contains("closed") && refused.contains("the loop waits for memory"), "{refused}");
    project.expect(0, &[claim.as_slice(), &["--although-closed"]].concat());
    project.expect(0, &["closed", "reopen", "unrolling", "--mechanism", "it fits now"]);
    assert_eq!(project.json(0, &["closed"]), json!([]));
    assert!(project.expect(1, &["closed", "reopen", "unrolling", "--mechanism", "x"]).contains("not closed"));
}

#[test]
fn the_log_of_another_tool_is_taken_in_once() {
    let project = Project::with_baseline();
    let rows = [
        json!({"type": "config", "name": "w", "metricName": "write_ms", "metricUnit": "ms", "bestDirection": "lower"}),
        json!({"run": 1, "commit": "abc1234", "metric": 4246, "metrics": {}, "status": "keep",
               "description": "split the batch", "timestamp": 1_700_000_000}),
    ];
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    project.write("program/autoresearch.jsonl", &lines);
    let import = ["import", "program/autoresearch.jsonl"];
    assert_eq!(project.json(0, &import), json!({"imported": 1}));
    assert_eq!(project.json(0, &import), json!({"imported": 0}));
    assert!(project.expect(0, &["report", "--markdown", "-"]).contains("split the batch"));
    project.write("program/autoresearch.jsonl", "no JSON\n");
    assert!(project.expect(1, &import).contains("autoresearch.jsonl:1"));
}

#[test]
fn a_changed_spec_is_said_and_begins_a_new_segment() {
    let project = Project::with_baseline();
    let changed = project.read("experiment/experiment.toml").replace("quads = 4", "quads = 5");
    project.write("experiment/experiment.toml", &changed);
    assert!(project.expect(0, &["status"]).contains("the spec was changed"));
    project.write("program/time", "80\n");
    assert!(project.attempt(1, "less").contains("baseline"));
    project.git(&["checkout", "-q", "program/time"]);
    assert_eq!(project.json(0, &["baseline"])["segment"], 2);
    assert_eq!(project.json(0, &["status"])["spec_changed"], false);
}

#[test]
fn bad_usage_has_a_status_of_its_own() {
    let project = Project::new();
    let nothing = project.expect(1, &["status"]);
    assert!(nothing.contains("there is no log") && nothing.contains("init"), "{nothing}");
    let wrong_name = ["init", "a b", "--command", "true", "--metric", "time_ms"];
    assert_eq!(project.run(&wrong_name).status.code(), Some(2));
    assert!(!project.root().join("experiment/experiments.jsonl").exists(), "nothing is left of it");
    project.begin();
    for wrong in [
        ["try"].as_slice(),
        &["try", "--hypothesis", "x"],
        &["run", "--agent", "claude", "--propose", "true"],
        &["override", "1", "great", "--reason", "x"],
        &["export"],
        &["init", "a", "--command", "true"],
        &["import"],
        &["unknown"],
    ] {
        assert_eq!(project.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    let twice = project.expect(1, &["init", "speed", "--command", "true", "--metric", "time_ms"]);
    assert!(twice.contains("there is a series already"), "{twice}");
    assert!(project.attempt(1, "too early").contains("no baseline"));
    project.write("experiment/experiment.toml", "name = \"speed\"\n[measure]\nkommand = \"x\"\n");
    let wrong = project.expect(2, &["baseline"]);
    assert!(wrong.contains("experiment.toml:") && wrong.contains("kommand"), "{wrong}");
}

#[test]
fn a_series_may_lie_anywhere_in_the_repository() {
    let project = Project::new();
    let init = ["init", "speed", "--command", "sh bench.sh {scale}", "--metric", "time_ms"];
    project.expect(0, &[init.as_slice(), &["--series", "perf/speed"]].concat());
    let spec: Value = project.json(0, &["status", "--series", "perf/speed"]);
    assert_eq!(spec["segment"], 0);
    assert!(project.root().join("perf/speed/experiment.toml").exists());
    // In the folder itself nobody needs to name it.
    let mut there = project.command(&["status"]);
    let output = there.current_dir(project.root().join("perf/speed")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
