//! Autonomous runs with scripted proposers, well-behaved and otherwise.

use crate::project;
use crate::project::{claim, Project, SPEC};
use duramen_experiment::event::{Event, Verdict};
use duramen_experiment::series::{Change, Limits, NewIdea, Proposer, Stopped};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Writes a proposer, outside of the repository, that may write to a folder of its own. `$DURAMEN_TRY` is the number of the
/// try.
fn script(project: &Project, text: &str) -> String {
    let path: PathBuf = project.root.with_file_name("propose.sh");
    let out = out(project);
    fs::create_dir_all(&out).expect("a folder");
    let spec = fs::read_to_string(project.series().join("experiment.toml")).expect("the spec");
    if !spec.contains("[proposer]") {
        project.spec(&format!("{spec}\n[proposer]\nwrites = [{:?}]\n", out.display().to_string()));
    }
    let head = "set -e\ncat > \"$OUT/question-$DURAMEN_TRY.json\"\n";
    let say = "say() { echo \"{\\\"hypothesis\\\":\\\"$1\\\",\\\"mechanism\\\":\\\"it does less\\\"}\"; }\n";
    fs::write(&path, format!("OUT={}\n{head}{say}{text}", out.display())).expect("a script is written");
    format!("sh {}", path.display())
}

fn out(project: &Project) -> PathBuf {
    project.root.with_file_name("out")
}

fn run(project: &Project, command: &str, most: Option<u32>) -> Stopped {
    let limits = Limits { tries: most, time: None };
    let proposer = Proposer::Command(command.to_owned());
    project.with(|series| series.propose(Some(proposer), limits)).expect("the run ends")
}

fn question(project: &Project, number: u32) -> Value {
    let path = out(project).join(format!("question-{number}.json"));
    serde_json::from_slice(&fs::read(path).expect("a question")).expect("JSON")
}

#[test]
fn every_kind_of_proposal_is_recorded_and_handled() {
    let project = Project::new();
    project.spec(&SPEC.replace("proposer_timeout_s = 20", "proposer_timeout_s = 3"));
    project.baseline();
    for (rank, text) in [(1.0, "later"), (5.0, "first")] {
        let idea = NewIdea { rank, text: text.to_owned(), ..NewIdea::default() };
        project.with(|series| series.idea(&idea)).expect("an idea");
    }
    project.with(|series| series.axis("caching", true, "it fits", None)).expect("an axis");
    let command = script(
        &project,
        r#"case $DURAMEN_TRY in
1) echo 80 > program/small; echo 320 > program/large
   echo 'thinking {"not": "yet'; echo '{"hypothesis":"less work","mechanism":"m","idea":2}'; echo bye ;;
2) echo 200 > program/small; say slower ;;
3) (sleep 600; echo late > program/small) & sleep 600 ;;
4) echo "no quota" >&2; exit 3 ;;
5) echo "Here is my idea: make it faster!" ;;
6) echo 'END { print "METRIC time_ms=1" }' > bench.awk; say cheat ;;
7) echo 60 > program/small; echo 240 > program/large
   git -c user.name=P -c user.email=p@localhost commit -qam 'My own commit'; say 'committed' ;;
8) say nothing ;;
9) echo 1 > program/small; echo '{"hypothesis":"cache","mechanism":"m","axis":"caching"}' ;;
10) rm -rf .git; echo 200 > program/small; say broke ;;
11) echo 50 > program/small; echo '{"mechanism":"m"}' ;;
12) rm -rf "$DURAMEN_WORKTREE"/* ; say empty ;;
13) echo '{"stop":true,"hypothesis":"out of ideas"}' ;;
esac
"#,
    );
    let stopped = run(&project, &command, None);
    assert_eq!(stopped.rule, "proposer", "{}", stopped.words);
    assert!(stopped.words.contains("out of ideas"), "{}", stopped.words);
    let expected = [
        (Verdict::Keep, ""),
        (Verdict::Discard, "worse"),
        (Verdict::Invalid, "out of time after 3 s"),
        (Verdict::Invalid, "exit status 3: no quota"),
        (Verdict::Invalid, "no line with a JSON object"),
        (Verdict::Invalid, "bench.awk"),
        (Verdict::Keep, ""),
        (Verdict::Invalid, "changed nothing"),
        (Verdict::Invalid, "caching"),
        (Verdict::Discard, "worse"),
        (Verdict::Invalid, "hypothesis"),
        (Verdict::Invalid, "may not be changed"),
    ];
    assert_eq!(stopped.tries.len(), expected.len());
    for (ended, (verdict, reason)) in stopped.tries.iter().zip(expected) {
        let judgement = &ended.judgement;
        assert_eq!(judgement.verdict, verdict, "try {}: {}", ended.number, judgement.reason);
        assert!(judgement.reason.contains(reason), "try {}: {}", ended.number, judgement.reason);
    }
    // The seventh was made on the first, and its commit is ours.
    let head = &stopped.tries[6].head;
    assert_eq!(stopped.tries[11].head, *head);
    assert_eq!(project.git(&["show", &format!("{head}:program/small")]), "60");
    assert_eq!(project.git(&["rev-list", "--count", &format!("main..{head}")]), "2");
    assert_eq!(project::processes_in(&project.work), Vec::<String>::new());

    // What the proposer was told.
    let first = question(&project, 1);
    assert_eq!(first["schema"], "duramen.proposal/1");
    assert_eq!(first["spec"]["primary"]["metric"], "time_ms");
    // Not of what is held out.
    assert_eq!(first["spec"]["scale"].as_array().map(Vec::len), Some(2));
    let ideas: Vec<&str> =
        first["ideas"].as_array().expect("ideas").iter().filter_map(|i| i["text"].as_str()).collect();
    assert_eq!(ideas, ["first", "later"]);
    assert_eq!(first["closed_axes"][0]["axis"], "caching");
    let eighth = question(&project, 8);
    assert_eq!((&eighth["try"], &eighth["head"]), (&Value::from(8), &Value::from(head.as_str())));
    assert_eq!(eighth["history"].as_array().map(Vec::len), Some(7));
    assert_eq!(eighth["history"][0]["verdict"], "keep");
    assert!(eighth["history"][0]["scales"]["small"]["share"].as_f64().is_some_and(|share| share < -0.1));
    assert!(eighth["history"][0]["scales"]["held"].is_null());
    assert_eq!(eighth["ideas"][0]["tries"], serde_json::json!([1]));
    assert!(eighth["history"][3]["reason"].as_str().is_some_and(|reason| reason.contains("no quota")));
}

#[test]
fn runs_end_by_the_rules_of_the_spec() {
    let project = Project::new();
    let stop = "[stop]\nplateau = 3\nsame_failure = 2\n";
    project.spec(&SPEC.replace("[stop]\n", stop).replace("tries = 20", "tries = 9"));
    project.baseline();
    let fail = script(&project, "exit 9\n");
    let stopped = run(&project, &fail, None);
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("same_failure", 2), "{}", stopped.words);
    assert!(stopped.words.contains("exit status 9"), "{}", stopped.words);

    // Every one fails in a way of its own, and none helps.
    let dull = script(&project, "echo $DURAMEN_TRY > program/idle; exit $DURAMEN_TRY\n");
    let stopped = run(&project, &dull, None);
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("plateau", 3), "{}", stopped.words);

    let stopped = run(&project, &dull, Some(1));
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("tries", 1), "{}", stopped.words);
    let stopped = run(&project, &dull, Some(0));
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("tries", 0), "{}", stopped.words);

    let stopped = run(&project, &dull, None);
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("tries", 3), "{}", stopped.words);
    assert!(stopped.words.contains("budget"), "{}", stopped.words);
    let rules: Vec<String> = project.state().stops.iter().map(|stop| stop.rule.clone()).collect();
    assert_eq!(rules, ["same_failure", "plateau", "tries", "tries", "tries"]);
}

#[test]
fn runs_end_when_their_time_is_over() {
    let project = Project::new();
    project.spec(&SPEC.replace("tries = 20", "tries = 20\nhours = 0.0000001"));
    project.baseline();
    let stopped = run(&project, "exit 1", None);
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("time", 0), "{}", stopped.words);

    // The time may be changed without a new baseline, and what the caller says counts for more.
    project.spec(&SPEC.replace("tries = 20", "tries = 20\ntime = \"1s\""));
    let slow = script(&project, "echo $DURAMEN_TRY > program/idle; sleep 2; say slow\n");
    let limits = |seconds| Limits { tries: Some(1), time: Some(Duration::from_secs(seconds)) };
    let proposer = || Some(Proposer::Command(slow.clone()));
    let stopped = project.with(|series| series.propose(proposer(), limits(60))).expect("the run ends");
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("tries", 1), "{}", stopped.words);
    // A try took two seconds and more: in one there is no room for another, and nothing is asked.
    let asked = out(&project).join("question-2.json");
    let stopped = project.with(|series| series.propose(proposer(), Limits::default())).expect("the run ends");
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("time", 0), "{}", stopped.words);
    assert!(
        stopped.words.contains("of the 1s of this run") && stopped.words.contains("a try takes"),
        "{}",
        stopped.words
    );
    assert!(!asked.exists());
}

#[test]
fn a_run_whose_time_ends_in_a_try_leaves_it_open_and_the_next_goes_on() {
    let project = Project::new();
    project.baseline();
    // Asking takes no time, and measuring takes longer than anything that was measured before.
    let command = script(&project, "echo 300 > program/small; echo 1 > program/slow; say slow\n");
    let bench = fs::read_to_string(project.root.join("bench.sh")).expect("the benchmark");
    project.write("bench.sh", &format!("test ! -e program/slow || sleep 3\n{bench}"));
    project.commit("Slow if asked for");
    project.baseline();
    let limits = Limits { tries: None, time: Some(Duration::from_secs(3)) };
    let begin = duramen_base::clock::now();
    let proposer = || Some(Proposer::Command(command.clone()));
    let stopped = project.with(|series| series.propose(proposer(), limits)).expect("the run ends");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("time", 0), "{}", stopped.words);
    assert!(stopped.words.contains("try 1 stays open"), "{}", stopped.words);
    assert_eq!(project::processes_in(&project.work), Vec::<String>::new());
    let limits = Limits { tries: Some(0), time: Some(Duration::from_secs(600)) };
    let stopped = project.with(|series| series.propose(proposer(), limits)).expect("the run ends");
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("tries", 1), "{}", stopped.words);
    assert_eq!(stopped.tries[0].number, 1);
}

#[test]
fn a_run_that_names_nobody_asks_who_the_spec_names() {
    let project = Project::new();
    project.baseline();
    let error = project.with(|series| series.propose(None, Limits::default())).expect_err("nobody");
    assert!(error.to_string().contains("--agent NAME"), "{error}");
    project.spec(&format!("{SPEC}\n[proposer]\ncommand = \"echo '{{\\\"stop\\\":true}}'\"\n"));
    let stopped = project.with(|series| series.propose(None, Limits::default())).expect("the run ends");
    assert_eq!(stopped.rule, "proposer");
}

#[test]
fn an_interrupted_run_ends_cleanly_and_goes_on() {
    let project = Project::new();
    project.baseline();
    let command = script(&project, "echo 200 > program/small\nsay slower\n");
    let before = project.entries().len();
    // The first sample of the second try is there when it is asked to end.
    let cancel = || {
        let entries = project.entries();
        entries.len() > before
            && matches!(&entries[entries.len() - 1].event, Event::Sample(sample)
            if sample.purpose == duramen_experiment::event::Purpose::Try(2))
    };
    let options = duramen_experiment::series::Options {
        progress: &|_| (),
        cancelled: &cancel,
        isolation: duramen_experiment::series::Isolation::WherePossible,
    };
    let mut series = duramen_experiment::series::Series::open(&project.series(), &project.work, options)
        .expect("the series opens");
    let limits = Limits { tries: Some(3), time: None };
    let stopped = series.propose(Some(Proposer::Command(command)), limits).expect("the run ends");
    assert_eq!((stopped.rule.as_str(), stopped.tries.len()), ("interrupted", 1));
    drop(series);
    assert_eq!(project.state().open_try().map(|open| open.number), Some(2));
    // The open one is carried out by whoever comes next, a try of another change here.
    project.set("exit", "1");
    let ended = project.with(|series| series.attempt(&Change::WorkingTree, &claim())).expect("the try ends");
    assert_eq!(ended.number, 3);
    let state = project.state();
    let verdicts: Vec<_> = state.tries().map(|known| known.verdict()).collect();
    assert_eq!(verdicts, [Some(Verdict::Discard), Some(Verdict::Discard), Some(Verdict::Crash)]);
}
