//! What a series cannot work with is told, with what to do about it, before anything is written down.

use crate::project;
use crate::project::{claim, Project, SPEC};
use duramen_experiment::event::Verdict;
use duramen_experiment::git::GitError;
use duramen_experiment::log::LogError;
use duramen_experiment::series::{Change, Claim, First, Limits, Options, Proposer, Series, SeriesError};
use duramen_experiment::spec::Direction;

/// A baseline that must not come about, nor leave a line in the log.
fn refused(project: &Project, parts: &[&str]) -> SeriesError {
    let before = project.entries().len();
    let error = project.with(|series| series.baseline()).expect_err("no baseline");
    let told = error.to_string();
    for part in parts {
        assert!(told.contains(part), "{told:?} lacks {part:?}");
    }
    assert_eq!(project.entries().len(), before);
    error
}

#[test]
fn a_folder_that_is_in_no_repository() {
    let dir = tempfile::tempdir().expect("a folder");
    let first = First { name: "s", command: Some("true"), metric: "m", direction: Direction::Lower };
    let folder = dir.path().join("series");
    Series::init(&folder, &first).expect("a spec and a log need no repository");
    let options = Options {
        progress: &|_| (),
        cancelled: &|| false,
        isolation: duramen_experiment::series::Isolation::WherePossible,
    };
    let error = Series::open(&folder, &dir.path().join("work"), options).err().expect("no repository");
    assert!(matches!(&error, SeriesError::Git(GitError::NotARepository { .. })), "{error}");
    assert!(error.to_string().contains("git init"), "{error}");
    // What is there is not written over.
    let error = Series::init(&folder, &first).expect_err("it exists");
    assert!(matches!(&error, SeriesError::Exists { .. }), "{error}");
    // In a clone without the log it is begun again with the spec that is there.
    std::fs::write(folder.join("experiment.toml"), SPEC).expect("a spec");
    std::fs::remove_file(folder.join("experiments.jsonl")).expect("no log");
    let spec = Series::init(&folder, &first).expect("it begins again");
    assert_eq!(std::fs::read_to_string(spec).expect("the spec"), SPEC);
}

#[test]
fn a_spec_that_is_wrong() {
    let project = Project::new();
    project.spec(
        &SPEC.replace("direction = \"lower\"\n\n[[secondary]]", "direction = \"down\"\n\n[[secondary]]"),
    );
    refused(&project, &["experiment.toml", "16", "down"]);
    project.spec(&SPEC.replace("program/**", "program/[**"));
    refused(&project, &["program/["]);
    project.spec(&SPEC.replace("rows == scale", "rows ~ scale"));
    refused(&project, &["rows"]);
    std::fs::remove_file(project.series().join("experiment.toml")).expect("it goes");
    refused(&project, &["experiment.toml"]);
}

#[test]
fn a_tree_with_changes_that_are_not_committed() {
    let project = Project::new();
    project.set("small", "90");
    project.write("new.txt", "");
    let error = refused(&project, &["program/small", "new.txt", "commit or stash"]);
    assert!(matches!(error, SeriesError::Dirty { .. }));
    // The series' own files may lie beside it.
    project.reset();
    std::fs::write(project.series().join("notes.md"), "notes").expect("notes");
    project.baseline();
}

#[test]
fn a_merge_that_is_in_progress() {
    let project = Project::new();
    project.git(&["checkout", "-q", "-b", "other"]);
    project.set("small", "90");
    project.commit("Other");
    project.git(&["checkout", "-q", "main"]);
    project.baseline();
    project.git(&["merge", "-q", "--no-commit", "--no-ff", "other"]);
    let error = project.attempt().expect_err("a merge");
    assert!(matches!(error, SeriesError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("merge"), "{error}");
    assert!(matches!(refused(&project, &["merge"]), SeriesError::Busy { .. }));
}

#[test]
fn a_start_that_does_not_work_itself() {
    let project = Project::new();
    let start = |name: &str, value: &str| {
        project.git(&["checkout", "-q", "-B", "work", "main"]);
        project.set(name, value);
        project.commit("Break it");
    };
    start("broken", "yes");
    refused(&project, &["does not build", "exit status 1"]);
    start("mute", "yes");
    refused(&project, &["time_ms", "scale small"]);
    start("time", "0");
    refused(&project, &["time_ms", "0"]);
    start("exit", "4");
    refused(&project, &["exit status 4", "it went wrong"]);
    start("wrong", "yes");
    refused(&project, &["check `answer`"]);
    start("hang", "yes");
    project.spec(&SPEC.replace("timeout_s = 20\nbuild", "timeout_s = 0.5\nbuild"));
    refused(&project, &["out of time after 0.5 s"]);
    project.spec(&SPEC.replace("sh bench.sh", "no-such-program"));
    refused(&project, &["exit status 127", "not committed"]);
}

#[test]
fn a_try_before_the_baseline_or_with_another_spec() {
    let project = Project::new();
    project.set("small", "90");
    assert!(matches!(project.attempt(), Err(SeriesError::NoBaseline)));
    project.reset();
    project.baseline();
    project.set("small", "99.9");
    // A comment changes nothing.
    project.spec(&format!("# Speed\n{SPEC}"));
    project.attempt().expect("the try ends");
    project.spec(&SPEC.replace("tries = 20", "tries = 30"));
    let error = project.attempt().expect_err("another spec");
    assert!(matches!(error, SeriesError::SpecChanged { segment: 1, .. }), "{error}");
    assert!(error.to_string().contains("`baseline`"), "{error}");
    let nobody = || Some(Proposer::Command("true".to_owned()));
    let error = project.with(|series| series.propose(nobody(), Limits::default())).expect_err("another spec");
    assert!(matches!(error, SeriesError::SpecChanged { .. }), "{error}");
    project.reset();
    let baseline = project.with(|series| series.baseline()).expect("a new segment");
    assert_eq!((baseline.segment, baseline.tries), (2, 30));
    assert_eq!(project.try_with("small", "99.9").number, 2);
}

#[test]
fn more_tries_than_the_budget_has() {
    let project = Project::new();
    project.spec(&SPEC.replace("tries = 20", "tries = 2"));
    project.baseline();
    assert_eq!(project.try_with("mute", "yes").left, 1);
    assert_eq!(project.try_with("exit", "1").left, 0);
    let error = project.attempt().expect_err("the budget is spent");
    assert!(matches!(error, SeriesError::Spent { segment: 1, tries: 2 }), "{error}");
}

#[test]
fn a_claim_that_says_nothing_or_follows_a_closed_axis() {
    let project = Project::new();
    project.baseline();
    project.set("mute", "yes");
    let attempt = |claim: &Claim| project.with(|series| series.attempt(&Change::WorkingTree, claim));
    let error = attempt(&Claim { hypothesis: " ".to_owned(), ..claim() }).expect_err("no hypothesis");
    assert!(error.to_string().contains("hypothesis"), "{error}");
    let error = attempt(&Claim { mechanism: String::new(), ..claim() }).expect_err("no mechanism");
    assert!(error.to_string().contains("mechanism"), "{error}");
    let error = attempt(&Claim { idea: Some(3), ..claim() }).expect_err("no such idea");
    assert!(matches!(error, SeriesError::NoIdea { number: 3 }), "{error}");

    project.with(|series| series.axis("caching", true, "the working set fits", None)).expect("it is closed");
    let cached = Claim { axis: Some("caching".to_owned()), ..claim() };
    let error = attempt(&cached).expect_err("it is closed");
    assert!(error.to_string().contains("the working set fits"), "{error}");
    assert!(matches!(error, SeriesError::AxisClosed { .. }));
    assert_eq!(project.state().tries().count(), 0);
    attempt(&Claim { although_closed: true, ..cached.clone() }).expect("it is told to");
    project.with(|series| series.axis("caching", false, "it grew", Some(1))).expect("it is open again");
    project.reset();
    project.set("exit", "1");
    attempt(&cached).expect("it is open");
}

#[test]
fn a_change_outside_of_the_scope_is_invalid_without_a_run() {
    let project = Project::new();
    project.baseline();
    project.reset();
    project.write("bench.awk", "END { print \"METRIC time_ms=1\" }\n");
    project.set("small", "80");
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Invalid);
    assert!(ended.judgement.reason.contains("bench.awk"), "{}", ended.judgement.reason);
    assert!(project.state().tries().all(|known| known.samples.is_empty()));
    // The series' own folder never is a part of a change, whatever was committed there.
    project.reset();
    project.git(&["add", "experiments"]);
    project.git(&["commit", "-q", "-m", "Keep the log"]);
    project.set("mute", "yes");
    assert_eq!(project.attempt().expect("the try ends").files, ["program/mute"]);
}

#[test]
fn a_benchmark_that_is_changed_while_it_runs() {
    let project = Project::new();
    project.spec(
        &SPEC.replace("sh build.sh", "sh build.sh && if test -e program/hook; then sh program/hook; fi"),
    );
    project.baseline();
    // The commit is within the scope; what its build does is not.
    let ended = project.try_with("hook", "sed -i 's/\\* (1 + wobble)/* 0.7 * (1 + wobble)/' bench.awk");
    assert_eq!(ended.files, ["program/hook"]);
    assert_eq!(ended.judgement.verdict, Verdict::Invalid, "{}", ended.judgement.reason);
    assert!(ended.judgement.reason.contains("bench.awk"), "{}", ended.judgement.reason);
}

#[test]
fn two_at_once_or_two_of_one_name() {
    let project = Project::new();
    project.baseline();
    let second = project.with(|_| project.open(|_| ()));
    assert!(matches!(second, Err(SeriesError::Log(LogError::Busy { .. }))));

    let other = project.root.join("experiments/other");
    let first = First { name: "speed", command: Some("true"), metric: "m", direction: Direction::Lower };
    Series::init(&other, &first).expect("another series");
    std::fs::write(other.join("experiment.toml"), SPEC).expect("a spec");
    project.git(&["add", "experiments"]);
    project.git(&["commit", "-q", "-m", "Keep both"]);
    let options = Options {
        progress: &|_| (),
        cancelled: &|| false,
        isolation: duramen_experiment::series::Isolation::WherePossible,
    };
    let mut series = Series::open(&other, &project.root.with_file_name("work-2"), options).expect("it opens");
    let error = series.baseline().expect_err("the name is taken");
    assert!(matches!(error, SeriesError::NameTaken { .. }), "{error}");
}

#[test]
fn a_try_that_hangs_is_ended_with_its_children() {
    let project = Project::new();
    project.spec(&SPEC.replace("timeout_s = 20\nbuild", "timeout_s = 1\nbuild"));
    project.baseline();
    let ended = project.try_with("hang", "yes");
    assert_eq!(ended.judgement.verdict, Verdict::Crash, "{}", ended.judgement.reason);
    assert!(ended.judgement.reason.contains("out of time after 1 s"), "{}", ended.judgement.reason);
    assert_eq!(project::processes_in(&project.work), Vec::<String>::new());
}
