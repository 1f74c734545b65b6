//! X16 in a real series: a change that knows the sizes it is measured at is not kept, and what is drawn is drawn late.

use crate::project::{claim, Project, SPEC};
use duramen_experiment::event::{Event, Purpose, Verdict};
use duramen_experiment::log::Entry;
use duramen_experiment::series::{Change, Isolation, Limits, Options, Proposer, Series, SeriesError};
use duramen_experiment::spec::Spec;
use duramen_experiment::verdict::looks::{self, Known};
use duramen_experiment::verdict::Noise;
use std::fs;
use std::path::Path;

/// A project whose held-out scale is drawn from three values, which all take the time `held`.
fn project() -> Project {
    let project = Project::new();
    let bench = fs::read_to_string(project.root.join("bench.awk")).expect("the benchmark");
    let known = r#"name["25"] = "held""#;
    assert!(bench.contains(known));
    project.write("bench.awk", &bench.replace(known, r#"name["25"] = name["26"] = name["27"] = "held""#));
    let drawn = SPEC.replace("value = \"25\"", "draw = \"25..27\"").replace("held_out_share = 0.0\n", "");
    project.spec(&drawn);
    project.commit("Sizes that nobody knows");
    project
}

/// What was drawn for a confirmation, and where in the log.
fn draws(entries: &[Entry], number: u32) -> Vec<(usize, String)> {
    let drawn = entries.iter().enumerate().filter_map(|(at, entry)| match &entry.event {
        Event::Drawn { purpose, values, .. } if *purpose == Purpose::Confirm(number) => {
            Some((at, values["held"].clone()))
        }
        _ => None,
    });
    drawn.collect()
}

fn first_sample(entries: &[Entry], purpose: Purpose) -> usize {
    let is_it = |entry: &Entry| matches!(&entry.event, Event::Sample(sample) if sample.purpose == purpose);
    entries.iter().position(is_it).expect("a sample")
}

#[test]
fn special_casing_is_suspicious_and_what_is_drawn_is_written_down_first() {
    let project = project();
    project.baseline();
    project.set("small", "80");
    project.set("large", "320");
    let ended = project.attempt().expect("the try ends");
    let judgement = &ended.judgement;
    assert_eq!(judgement.verdict, Verdict::Suspicious, "{}", judgement.reason);
    assert_eq!(judgement.confirmed, Some(false));
    for words in ["at scale held", "which was held out", "less than 50.0 % of the gain"] {
        assert!(judgement.reason.contains(words), "{words:?} is not in {:?}", judgement.reason);
    }
    assert_eq!(ended.head, project.git(&["rev-parse", "HEAD"]));
    let entries = project.entries();
    let drawn = draws(&entries, 1);
    assert_eq!(drawn.len(), 1, "once, for both sides and all blocks");
    assert!(["25", "26", "27"].contains(&drawn[0].1.as_str()), "{drawn:?}");
    assert!(first_sample(&entries, Purpose::Try(1)) < drawn[0].0, "not before it began");
    assert!(drawn[0].0 < first_sample(&entries, Purpose::Confirm(1)), "before it is used");
    // Not by hand either.
    let refused = project.with(|series| series.decide(1, Verdict::Keep, "it is fast"));
    assert!(matches!(refused, Err(SeriesError::Undecidable { .. })), "{refused:?}");

    // The same gain everywhere is kept, and its confirmation has a draw of its own.
    project.set("held", "200");
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    assert_eq!(draws(&project.entries(), 2).len(), 1);
    judged_again(&project);
    let replayed = project.with(|series| series.replay()).expect("a replay");
    assert_eq!(replayed.judgement.verdict, Verdict::Keep, "{}", replayed.judgement.reason);
}

#[test]
fn an_interrupted_confirmation_goes_on_with_what_was_drawn() {
    let project = project();
    project.baseline();
    for (name, value) in [("small", "80"), ("large", "320"), ("held", "200")] {
        project.set(name, value);
    }
    for most in [0, 1, 5] {
        let is_enough = || {
            let taken = |entry: &Entry| matches!(&entry.event, Event::Sample(sample) if sample.purpose == Purpose::Confirm(1));
            let entries = project.entries();
            !draws(&entries, 1).is_empty() && entries.iter().filter(|entry| taken(entry)).count() >= most
        };
        let options =
            Options { progress: &|_| (), cancelled: &is_enough, isolation: Isolation::WherePossible };
        let mut series = Series::open(&project.series(), &project.work, options).expect("the series opens");
        let error = series.attempt(&Change::WorkingTree, &claim()).expect_err("it is interrupted");
        assert!(matches!(error, SeriesError::Cancelled), "{error}");
    }
    let drawn = draws(&project.entries(), 1);
    let ended = project.attempt().expect("the try ends");
    assert_eq!((ended.number, ended.judgement.verdict), (1, Verdict::Keep), "{}", ended.judgement.reason);
    assert_eq!(draws(&project.entries(), 1), drawn, "nothing is drawn twice");
}

/// X4: from the log alone, with what was drawn, to the last bit.
fn judged_again(project: &Project) {
    let state = project.state();
    let segment = state.current().expect("a segment");
    let spec = Spec::parse(&segment.spec, Path::new("experiment.toml")).expect("its spec");
    let found = segment.current_noise().expect("a noise floor");
    let noise = Noise { floor: found.floor, scales: found.scales.clone() };
    let aa = Known::new(&spec, &noise, &found.samples);
    for known in &segment.tries {
        let first = looks::judge(&spec, &aa, &known.samples).ended().expect("it ended");
        let drawn = segment.drawn(Purpose::Confirm(known.number)).expect("what was drawn");
        let again = looks::confirm(&spec.with_values(drawn), &aa, &first, &known.confirmation);
        assert_eq!(again.ended(), known.judgement, "try {}", known.number);
    }
}

#[test]
fn a_proposer_is_told_nothing_of_what_is_held_out() {
    let project = project();
    project.baseline();
    let script =
        "cat > \"$OUT/$DURAMEN_TRY.json\"; echo 8$DURAMEN_TRY > program/small; echo 320 > program/large\n\
                  echo '{\"hypothesis\":\"less\",\"mechanism\":\"work\"}'\n";
    let path = project.root.with_file_name("propose.sh");
    fs::write(&path, script).expect("a script");
    let out = project.root.with_file_name("out");
    fs::create_dir(&out).expect("a folder");
    let spec = fs::read_to_string(project.series().join("experiment.toml")).expect("the spec");
    project.spec(&format!("{spec}\n[proposer]\nwrites = [{:?}]\n", out.display().to_string()));
    let command = format!("OUT={} sh {}", out.display(), path.display());
    let (proposer, two) = (Some(Proposer::Command(command)), Limits { tries: Some(2), time: None });
    let stopped = project.with(|series| series.propose(proposer, two)).expect("the run ends");
    assert_eq!(
        stopped.tries[0].judgement.verdict,
        Verdict::Suspicious,
        "{}",
        stopped.tries[0].judgement.reason
    );
    let text = fs::read_to_string(out.join("2.json")).expect("a question");
    let question: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let told = &question["history"][0];
    assert_eq!((&told["verdict"], &told["scales"]["held"]), (&"suspicious".into(), &serde_json::Value::Null));
    assert_eq!(told["reason"], "it does not hold at a scale that was held out");
    assert!(!text.contains("25..27") && !text.contains("scale held"), "{text}");
}
