//! What can be done with a stack of kept tries: replay it, leave each out, decide by hand, export it; and
//! what is noted beside the tries.

use crate::project;
use crate::project::{Project, SPEC};
use duramen_experiment::event::Verdict;
use duramen_experiment::series::{Ended, NewIdea, SeriesError};

/// Three tries that are kept, each with a file of its own: 100, 80, 64, 51 at both scales.
fn stack(project: &Project) -> Vec<Ended> {
    project.baseline();
    [("80", "320", "a"), ("64", "256", "b"), ("51", "204", "c")]
        .map(|(small, large, file)| {
            project.set("small", small);
            project.set("large", large);
            project.set(file, "1");
            let ended = project.go_on().expect("the try ends");
            assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
            ended
        })
        .into()
}

/// A project whose time is a product of factors, each in a file of its own, so that tries do not touch each
/// other.
fn factors() -> Project {
    let project = Project::new();
    let awk = std::fs::read_to_string(project.root.join("bench.awk")).expect("the benchmark");
    let awk = awk.replace(
        "    time = v[name[scale]] * (1 + wobble)",
        "    for (f in v) if (f ~ /^factor/) v[name[scale]] *= v[f]\n    \
         if (v[\"needs\"] != \"\" && v[v[\"needs\"]] == \"\") exit 5\n    \
         time = v[name[scale]] * (1 + wobble)",
    );
    project.write("bench.awk", &awk);
    project.commit("Factors");
    project.baseline();
    project
}

fn keep(project: &Project, settings: &[(&str, &str)]) -> Ended {
    project.reset();
    for (name, value) in settings {
        project.set(name, value);
    }
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    ended
}

#[test]
fn the_stack_is_replayed_against_the_start() {
    let project = Project::new();
    project.baseline();
    let none = project.with(|series| series.replay()).expect_err("nothing is kept");
    assert!(matches!(none, SeriesError::NothingKept { .. }), "{none}");
    let kept = stack(&project);
    let replayed = project.with(|series| series.replay()).expect("a replay");
    assert_eq!(replayed.start, project.git(&["rev-parse", "main"]));
    assert_eq!(replayed.head, kept[2].head);
    assert_eq!(replayed.judgement.verdict, Verdict::Keep, "{}", replayed.judgement.reason);
    let share = replayed.judgement.effect.expect("an effect").share;
    assert!((share + 0.49).abs() < 0.02, "{share}");
    // Held-out scales too, which did not change.
    assert!(replayed.judgement.scales["held"].share.abs() < 0.02);
    // A second one is another measurement.
    project.with(|series| series.replay()).expect("a replay");
    let state = project.state();
    let replays = &state.current().expect("a segment").replays;
    assert_eq!(replays.iter().map(|replay| replay.samples.len()).collect::<Vec<_>>(), [48, 48]);
}

#[test]
fn each_kept_try_is_left_out_once() {
    let project = factors();
    keep(&project, &[("factor1", "0.8")]);
    keep(&project, &[("factor2", "0.9")]);
    // From now on the second is needed; and the first is made useless.
    keep(&project, &[("needs", "factor2"), ("factor3", "0.9")]);
    project.reset();
    project.git(&["checkout", "-q", "--detach", "refs/duramen/experiments/speed/head"]);
    project.set("factor1", "0.7");
    let last = project.attempt().expect("the try ends");
    assert_eq!(last.judgement.verdict, Verdict::Keep, "{}", last.judgement.reason);
    let ablated = project.with(|series| series.ablate()).expect("the ablation ends");
    let words: Vec<(u32, &str)> =
        ablated.iter().map(|ablated| (ablated.number, ablated.words.as_str())).collect();
    assert!(words[0].1.starts_with("cannot be left out: later tries build on it"), "{words:?}");
    assert!(words[1].1.starts_with("cannot be left out"), "{words:?}");
    assert!(words[2].1.contains("still helps"), "{words:?}");
    assert!(words[3].1.contains("still helps"), "{words:?}");
    assert!(ablated[0].judgement.is_none() && ablated[2].judgement.is_some());
    // It is known of this head now.
    let lines = project.entries().len();
    assert_eq!(project.with(|series| series.ablate()).expect("the same"), ablated);
    assert_eq!(project.entries().len(), lines);
}

#[test]
fn verdicts_by_hand_move_the_head_and_say_so() {
    let project = factors();
    let start = project.git(&["rev-parse", "main"]);
    let first = keep(&project, &[("factor1", "0.8")]);
    let second = keep(&project, &[("factor2", "0.9")]);
    let dull = project.try_with("idle", "1");
    assert_eq!(dull.judgement.verdict, Verdict::Discard);
    let crash = project.try_with("exit", "1");

    let decide =
        |number, verdict, reason: &str| project.with(|series| series.decide(number, verdict, reason));
    assert!(decide(1, Verdict::Discard, " ").is_err(), "a reason is needed");
    assert!(matches!(decide(9, Verdict::Keep, "because"), Err(SeriesError::NoTry { number: 9, .. })));
    let error = decide(crash.number, Verdict::Keep, "because").expect_err("a crash is never kept");
    assert!(matches!(error, SeriesError::Undecidable { .. }), "{error}");

    // The first is taken out of the stack, the third is put on it.
    let head = decide(first.number, Verdict::Discard, "it broke an embedder").expect("it is decided");
    assert_ne!(head, second.head);
    assert_eq!(project.git(&["rev-list", "--count", &format!("{start}..{head}")]), "1");
    assert_eq!(project.git(&["diff", "--name-only", &start, &head]), "program/factor2");
    let head = decide(dull.number, Verdict::Keep, "it is easier to read").expect("it is decided");
    assert_eq!(project.git(&["diff", "--name-only", &start, &head]), "program/factor2\nprogram/idle");
    assert_eq!(project.git(&["rev-parse", "refs/duramen/experiments/speed/head"]), head);

    let state = project.state();
    let segment = state.current().expect("a segment");
    assert_eq!(segment.head, head);
    assert_eq!(segment.keeps.iter().map(|kept| kept.number).collect::<Vec<_>>(), [2, 3]);
    let known = state.find_try(1).expect("the first");
    assert_eq!(known.judgement.as_ref().map(|judgement| judgement.verdict), Some(Verdict::Keep));
    assert_eq!(known.verdict(), Some(Verdict::Discard));

    // The branches are those of the stack as it is now.
    let branches = project.with(|series| series.export("speed")).expect("branches");
    let names: Vec<&str> = branches.iter().map(|branch| branch.name.as_str()).collect();
    assert_eq!(names, ["speed/try-2", "speed/try-3", "speed/stack"]);
    assert_eq!(project.git(&["diff", "--name-only", "speed/stack", &head]), "");
    assert_eq!(project.git(&["diff", "--name-only", &start, "speed/try-2"]), "program/factor2");
    assert_eq!(project.git(&["rev-list", "--count", &format!("{start}..speed/stack")]), "2");
    // What was measured is in the messages, as trailers that git itself reads.
    let trailers = |branch: &str| {
        let all = project.git(&["log", "-1", "--format=%(trailers:only,unfold)", branch]);
        let pair =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        all.lines().filter_map(pair).collect::<std::collections::BTreeMap<String, String>>()
    };
    let of_second = trailers("speed/try-2");
    let known = state.find_try(2).expect("the second");
    assert!(
        of_second["Duramen-Effect"].starts_with("time_ms -") && of_second["Duramen-Effect"].ends_with(" ms")
    );
    assert!(of_second["Duramen-Held-Out"].starts_with("agrees: held -"), "{of_second:?}");
    let runs = (known.samples.len() + known.confirmation.len()).to_string();
    assert_eq!((&of_second["Duramen-Runs"], &of_second["Duramen-Base"]), (&runs, &known.base));
    let digest = blake3::hash(segment.spec.as_bytes()).to_hex().to_string();
    assert_eq!(of_second["Duramen-Spec"], format!("blake3 {digest}"));
    assert_eq!((&of_second["Duramen-Series"][..], &of_second["Duramen-Try"][..]), ("speed", "2"));
    let by_hand = trailers("speed/stack");
    assert_eq!(by_hand["Duramen-Decided-By-Hand"], "it is easier to read");
    assert_eq!(by_hand["Duramen-Held-Out"], "not measured");
    // And go on.
    let next = keep(&project, &[("factor4", "0.8")]);
    assert_eq!(project.git(&["rev-parse", &format!("{}~1", next.head)]), head);
}

#[test]
fn a_try_that_others_build_on_is_not_taken_out() {
    let project = Project::new();
    let kept = stack(&project);
    let error = project
        .with(|series| series.decide(kept[0].number, Verdict::Discard, "it is ugly"))
        .expect_err("the others build on it");
    assert!(error.to_string().contains("build on it"), "{error}");
    let head = project
        .with(|series| series.decide(kept[2].number, Verdict::Discard, "it is ugly"))
        .expect("nothing builds on the last");
    assert_eq!(head, kept[1].head);
}

#[test]
fn an_open_try_can_be_given_up() {
    let project = Project::new();
    project.baseline();
    project.set("small", "80");
    let lines = project.entries().len();
    let cancel = || project.entries().len() > lines + 3;
    let options = duramen_experiment::series::Options {
        progress: &|_| (),
        cancelled: &cancel,
        isolation: duramen_experiment::series::Isolation::WherePossible,
    };
    let mut series = duramen_experiment::series::Series::open(&project.series(), &project.work, options)
        .expect("the series opens");
    let change = duramen_experiment::series::Change::WorkingTree;
    series.attempt(&change, &project::claim()).expect_err("it is interrupted");
    drop(series);
    let decide = |verdict| project.with(|series| series.decide(1, verdict, "it takes too long"));
    assert!(decide(Verdict::Keep).is_err(), "what was not measured is not kept");
    decide(Verdict::Discard).expect("it is given up");
    let state = project.state();
    let known = state.find_try(1).expect("the try");
    assert_eq!(known.judgement.as_ref().map(|judgement| judgement.verdict), Some(Verdict::Inconclusive));
    assert_eq!(known.verdict(), Some(Verdict::Discard));
}

#[test]
fn export_makes_all_branches_or_none() {
    let project = Project::new();
    project.baseline();
    assert!(matches!(project.with(|series| series.export("speed")), Err(SeriesError::NothingKept { .. })));
    stack(&project);
    project.git(&["branch", "speed/try-2"]);
    let error = project.with(|series| series.export("speed")).expect_err("one is there");
    assert!(matches!(&error, SeriesError::BranchExists { name } if name == "speed/try-2"), "{error}");
    let branches = project.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches, "refs/heads/main\nrefs/heads/speed/try-2");
    assert!(project.with(|series| series.export("not..good")).is_err());
    project.with(|series| series.export("fast")).expect("branches");
    let error = project.with(|series| series.export("fast")).expect_err("they are there");
    assert!(matches!(error, SeriesError::BranchExists { .. }), "{error}");
}

#[test]
fn ideas_and_other_logs_are_noted() {
    let project = Project::new();
    project.spec(SPEC);
    let idea = |new: NewIdea| project.with(|series| series.idea(&new));
    let new = NewIdea { rank: 1.0, text: "Sort first".to_owned(), ..NewIdea::default() };
    assert_eq!(idea(new.clone()).expect("an idea"), 1);
    assert_eq!(idea(NewIdea { text: "Then merge".to_owned(), ..new.clone() }).expect("an idea"), 2);
    assert_eq!(idea(NewIdea { idea: Some(1), done: true, ..new.clone() }).expect("it is done"), 1);
    assert!(matches!(idea(NewIdea { idea: Some(7), ..new.clone() }), Err(SeriesError::NoIdea { number: 7 })));
    assert!(idea(NewIdea { rank: f64::NAN, ..new.clone() }).is_err());
    assert!(idea(NewIdea { text: String::new(), ..new }).is_err());
    assert_eq!(project.state().open_ideas().iter().map(|idea| idea.idea).collect::<Vec<_>>(), [2]);

    let file = project.root.with_file_name("autoresearch.jsonl");
    let config =
        r#"{"type":"config","name":"x","metricName":"ms","metricUnit":"ms","bestDirection":"lower"}"#;
    let row = r#"{"run":1,"commit":"abc1234","metric":10,"metrics":{},"status":"keep","description":"first",
        "timestamp":1700000000000,"segment":0}"#;
    std::fs::write(&file, format!("{config}\n{}\n", row.replace('\n', ""))).expect("a log");
    assert_eq!(project.with(|series| series.import(&file)).expect("an import"), 1);
    assert_eq!(project.with(|series| series.import(&file)).expect("the same again"), 0);
    assert_eq!(project.state().imported[0].status, "keep");
}
