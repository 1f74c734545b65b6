//! X24: what was kept is not taken back by a change that never meant to.

use crate::project::{claim, Project};
use duramen_experiment::event::Verdict;
use duramen_experiment::series::{Change, SeriesError};
use std::fs;

/// A project whose program has one more file: a line with a comment, of which the number is added to the time.
fn project() -> (Project, String) {
    let project = Project::new();
    project.write("program/extra", "20 # two passes\n1 #\n2 #\n3 #\n4 #\n30 # the end\n");
    let bench = fs::read_to_string(project.root.join("bench.awk")).expect("the benchmark");
    let extra = "{ v[$1] = $2 }\nFILENAME == \"program/extra\" { extra += $1 }";
    let bench = bench
        .replace("{ v[$1] = $2 }", extra)
        .replace("time = v[name[scale]]", "time = (v[name[scale]] + extra)");
    project.write("bench.awk", &bench);
    let shell = fs::read_to_string(project.root.join("bench.sh")).expect("the benchmark");
    project.write("bench.sh", &shell.replace("built.txt", "built.txt program/extra"));
    let start = project.commit("Pass twice");
    project.baseline();
    (project, start)
}

/// The win that is kept: the first line is changed.
const WON: &str = "2 # two passes\n1 #\n2 #\n3 #\n4 #\n30 # the end\n";

fn extra(project: &Project, commit: &str) -> String {
    project.git(&["show", &format!("{commit}:program/extra")])
}

fn win(project: &Project) -> String {
    project.write("program/extra", WON);
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    ended.head
}

#[test]
fn x24_an_edited_comment_on_a_kept_line_does_not_take_the_win_back() {
    let (project, start) = project();
    let head = win(&project);
    // The next tree begins at the start again, with a comment edited on the line that was won.
    project.reset();
    project.write(
        "program/extra",
        &fs::read_to_string(project.root.join("program/extra")).unwrap().replace("two passes", "2 passes"),
    );
    let error = project.attempt().expect_err("no try");
    assert!(matches!(&error, SeriesError::Conflict { files, .. } if files == &["program/extra"]), "{error}");
    assert!(error.to_string().contains("--base"), "{error}");
    // A branch is no other matter.
    project.git(&["checkout", "-q", "-b", "comment"]);
    project.commit("A comment");
    let error = project
        .with(|series| series.attempt(&Change::Branch("comment".into()), &claim()))
        .expect_err("no try");
    assert!(matches!(error, SeriesError::Conflict { .. }), "{error}");
    project.git(&["checkout", "-q", "main"]);
    // Elsewhere in the file it goes on the head.
    project.reset();
    let text = fs::read_to_string(project.root.join("program/extra")).unwrap();
    project.write("program/extra", &text.replace("the end", "the very end"));
    let ended = project.attempt().expect("the try ends");
    assert_eq!(extra(&project, &ended.candidate), WON.replace("the end", "the very end").trim_end());
    // Named as a change of the head, it takes the win back, as it says.
    project.reset();
    let ended = project.with(|series| series.attempt_from(&Change::WorkingTree, Some(&head), &claim()));
    assert!(matches!(&ended, Ok(ended) if ended.judgement.verdict == Verdict::Discard));
    assert!(project.was_told("takes back lines of try 1"), "{:?}", project.said.borrow());
    assert_eq!(project.git(&["rev-parse", "HEAD"]), start);
}

#[test]
fn x24_who_goes_on_in_one_tree_goes_on_from_what_was_kept() {
    let (project, _) = project();
    let head = win(&project);
    let next = WON.replace("30 # the end", "3 # the end");
    project.write("program/extra", &next);
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    assert_eq!(extra(&project, &ended.head), next.trim_end());
    assert_eq!(project.git(&["rev-parse", &format!("{}~1", ended.head)]), head);
    // On a line that was kept, it could be a change of the start as well, and has to be named.
    let again = next.replace("2 # two passes", "1 # one pass of two");
    project.write("program/extra", &again);
    let error = project.attempt().expect_err("no try");
    assert!(matches!(error, SeriesError::Conflict { .. }), "{error}");
    let ended = project.with(|series| series.attempt_from(&Change::WorkingTree, Some(&ended.head), &claim()));
    assert_eq!(extra(&project, &ended.expect("the try ends").candidate), again.trim_end());
}

#[test]
fn x24_a_tree_of_another_history_has_to_be_named() {
    let (project, start) = project();
    project.git(&["checkout", "-q", "--orphan", "other"]);
    project.git(&["commit", "-q", "-m", "Of another history"]);
    project.set("small", "50");
    let error = project.attempt().expect_err("no try");
    assert!(matches!(error, SeriesError::NoBase { .. }) && error.to_string().contains("--base"), "{error}");
    let ended = project.with(|series| series.attempt_from(&Change::WorkingTree, Some(&start), &claim()));
    assert_eq!(ended.expect("the try ends").files, ["program/small"]);
}
