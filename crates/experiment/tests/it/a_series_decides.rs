//! One series from its baseline to its verdicts, in a real repository, with a real build and real runs.

use crate::project;
use crate::project::{claim, Project};
use duramen_experiment::event::{Event, Purpose, Side, Verdict};
use duramen_experiment::series::{Change, Resumed, Series, SeriesError};

#[test]
fn each_verdict_is_computed_and_only_a_keep_moves_the_head() {
    let project = Project::new();
    let baseline = project.with(|series| series.baseline()).expect("a baseline");
    let start = project.git(&["rev-parse", "HEAD"]);
    assert_eq!((baseline.segment, &baseline.start, baseline.resumed), (1, &start, false));
    assert!(baseline.floor > 0.0 && baseline.floor < 0.02, "noise floor {}", baseline.floor);
    assert_eq!(baseline.figures["small"]["memory"], 1000.0);
    assert!(!baseline.figures.contains_key("held"), "held-out scales are not run");

    let cases = [
        // (what is changed, to what, the verdict, a part of the reason)
        ("small", "130", Verdict::Discard, "worse by more"),
        ("idle", "1", Verdict::Discard, "no gain"),
        ("broken", "yes", Verdict::Crash, "does not build"),
        ("exit", "3", Verdict::Crash, "exit status 3: it went wrong"),
        ("mute", "yes", Verdict::Invalid, "time_ms"),
        ("time", "0", Verdict::Invalid, "time_ms"),
        ("time", "NaN", Verdict::Invalid, "time_ms"),
        ("rows", "7", Verdict::Invalid, "rows == scale"),
        ("clock", "60", Verdict::Invalid, "clock"),
        ("clock", "90", Verdict::Discard, "clock"),
        ("memory", "1200", Verdict::Discard, "memory"),
    ];
    for (name, value, verdict, reason) in cases {
        let ended = project.try_with(name, value);
        let judgement = &ended.judgement;
        assert_eq!(judgement.verdict, verdict, "{name}={value}: {}", judgement.reason);
        assert!(judgement.reason.contains(reason), "{name}={value}: {}", judgement.reason);
        assert_eq!(ended.head, start);
        assert_eq!(ended.files, [format!("program/{name}")]);
    }

    // Faster at both deciding scales, but a check of the project fails.
    project.reset();
    for (name, value) in [("small", "80"), ("large", "320"), ("wrong", "yes")] {
        project.set(name, value);
    }
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::ChecksFailed, "{}", ended.judgement.reason);
    assert!(ended.judgement.reason.contains("answer"), "{}", ended.judgement.reason);
    assert_eq!(ended.head, start);

    // Faster at both deciding scales, slower at the one that is held out.
    project.reset();
    for (name, value) in [("small", "80"), ("large", "320"), ("held", "300")] {
        project.set(name, value);
    }
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Discard, "{}", ended.judgement.reason);
    assert_eq!(ended.judgement.confirmed, Some(false));
    assert_eq!(ended.head, start);

    // Better, but far too noisy to tell.
    project.reset();
    for (name, value) in [("small", "99"), ("large", "396"), ("noise", "30")] {
        project.set(name, value);
    }
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Inconclusive, "{}", ended.judgement.reason);

    // Better all over.
    project.reset();
    for (name, value) in [("small", "80"), ("large", "320"), ("held", "200")] {
        project.set(name, value);
    }
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    assert_eq!(ended.judgement.confirmed, Some(true));
    assert_eq!(ended.head, ended.candidate);
    let share = ended.judgement.effect.expect("an effect").share;
    assert!((share + 0.2).abs() < 0.01, "a fifth less, and not {share}");
    assert_eq!(project.git(&["rev-parse", "refs/duramen/experiments/speed/head"]), ended.head);
    assert_eq!(project.git(&["rev-parse", &format!("{}~1", ended.head)]), start);

    let state = project.state();
    let segment = state.current().expect("a segment");
    assert_eq!(segment.tries.len(), cases.len() + 4);
    assert_eq!(segment.keeps.len(), 1);
    // Every try has a ref, so that git keeps its commit.
    for known in &segment.tries {
        let name = format!("refs/duramen/experiments/speed/try-{}", known.number);
        assert_eq!(project.git(&["rev-parse", &name]), known.candidate);
    }
}

#[test]
fn sides_alternate_and_held_out_scales_wait_for_the_confirmation() {
    let project = Project::new();
    project.baseline();
    project.set("small", "80");
    project.set("large", "320");
    assert_eq!(project.attempt().expect("the try ends").judgement.verdict, Verdict::Keep);
    let mut sides = std::collections::BTreeMap::<(Purpose, String, u32), Vec<Side>>::new();
    for entry in project.entries() {
        if let Event::Sample(sample) = entry.event {
            assert!(sample.scale != "held" || sample.purpose == Purpose::Confirm(1), "{sample:?}");
            assert!(sample.metrics["wall_s"] > 0.0 && sample.metrics.contains_key("cpu_s"));
            sides.entry((sample.purpose, sample.scale, sample.quad)).or_default().push(sample.side);
        }
    }
    // Four blocks of the noise floor at two scales; two of the try, and of the confirmation at three, are enough.
    assert_eq!(sides.len(), 4 * 2 + 2 * (2 + 3));
    for (block, sides) in sides {
        let (a, b) = (Side::Base, Side::Candidate);
        assert!(sides == [a, b, b, a] || sides == [b, a, a, b], "{block:?}: {sides:?}");
    }
}

#[test]
fn nothing_of_the_users_is_touched() {
    let project = Project::new();
    project.git(&["branch", "other"]);
    project.baseline();
    project.set("small", "80");
    project.set("large", "320");
    project.write("program/new", "1\n");
    // One change is in the index, one is not.
    project.git(&["add", "program/small"]);
    let seen = || {
        let staged = project.git(&["diff", "--cached"]);
        let branches = project.git(&["for-each-ref", "refs/heads", "refs/tags", "refs/stash"]);
        let head = std::fs::read_to_string(project.root.join(".git/HEAD")).expect("HEAD");
        let status = project.git(&["status", "--porcelain", "--untracked-files=all"]);
        let index = std::fs::metadata(project.root.join(".git/index")).expect("the index").len();
        (staged, branches, head, status, project.git(&["diff"]), index)
    };
    let before = seen();
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    assert_eq!(ended.files, ["program/large", "program/new", "program/small"]);
    assert_eq!(seen(), before);
}

#[test]
fn a_win_above_twice_is_measured_anew_in_fresh_folders() {
    let project = Project::new();
    // It is only so fast because of what an earlier build left behind.
    project.write(
        "build.sh",
        "set -e\nawk '{ n = split(FILENAME, part, \"/\"); print part[n], $1 }' program/* > built.txt\n\
         if test -e cache.txt && test -e program/cached; then cat cache.txt >> built.txt; fi\n\
         printf 'small 20\\nlarge 80\\n' > cache.txt\n",
    );
    project.write(".gitignore", "built.txt\n.count\ncache.txt\n");
    project.commit("Keep a cache");
    project.baseline();
    let ended = project.try_with("cached", "yes");
    assert_ne!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    assert!(project.was_told("fresh folders"));

    // This one is as fast without any cache.
    project.reset();
    for (name, value) in [("small", "30"), ("large", "120"), ("held", "70")] {
        project.set(name, value);
    }
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    let share = ended.judgement.effect.expect("an effect").share;
    assert!((share + 0.7).abs() < 0.02, "{share}");
    // The folders are gone.
    let left: Vec<_> = std::fs::read_dir(&project.work).expect("the work folder").flatten().collect();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().starts_with("fresh")), "{left:?}");
}

#[test]
fn what_was_kept_is_the_base_of_the_next_try() {
    let project = Project::new();
    project.baseline();
    project.set("small", "80");
    project.set("large", "320");
    let first = project.attempt().expect("the try ends");
    assert_eq!(first.judgement.verdict, Verdict::Keep);
    // The same tree again holds nothing new.
    assert!(matches!(project.attempt(), Err(SeriesError::Unchanged { .. })));
    // The user's HEAD is still the start, and the tree still holds the first change.
    project.set("held", "200");
    let second = project.attempt().expect("the try ends");
    assert_eq!(second.files, ["program/held"]);
    assert_eq!(second.judgement.verdict, Verdict::Discard, "{}", second.judgement.reason);

    // A branch from the start, with two commits, is a change of its own.
    project.reset();
    project.git(&["checkout", "-q", "-b", "idea"]);
    project.set("extra", "1");
    project.commit("One");
    project.set("more", "1");
    project.commit("Two");
    project.git(&["checkout", "-q", "main"]);
    let change = Change::Branch("idea".to_owned());
    let third = project.with(|series| series.attempt(&change, &claim())).expect("the try ends");
    assert_eq!(third.files, ["program/extra", "program/more"]);
    assert_eq!(project.git(&["rev-parse", &format!("{}~1", third.candidate)]), first.head);

    // A patch is one against the head.
    let patch = project.root.with_file_name("change.patch");
    project.git(&["checkout", "-q", "--detach", &first.head]);
    project.set("small", "60");
    project.set("large", "240");
    std::fs::write(&patch, project.git(&["diff"]) + "\n").expect("a patch");
    project.reset();
    project.git(&["checkout", "-q", "main"]);
    let change = Change::Patch(patch);
    let fourth = project.with(|series| series.attempt(&change, &claim())).expect("the try ends");
    assert_eq!(fourth.judgement.verdict, Verdict::Keep, "{}", fourth.judgement.reason);

    // A user who goes to the head changes the head, even back.
    project.git(&["checkout", "-q", "--detach", &fourth.head]);
    project.set("small", "100");
    let fifth = project.attempt().expect("the try ends");
    assert_eq!(fifth.files, ["program/small"]);
    assert_eq!(fifth.judgement.verdict, Verdict::Discard);

    // From the start, the same file is changed in another way than it was kept.
    project.reset();
    project.git(&["checkout", "-q", "main"]);
    project.set("small", "70");
    let conflict = project.attempt().expect_err("a conflict");
    assert!(
        matches!(&conflict, SeriesError::Conflict { files, .. } if files == &["program/small"]),
        "{conflict}"
    );
}

#[test]
fn the_noise_floor_is_found_anew_after_some_keeps() {
    let project = Project::new();
    project.spec(&project::SPEC.replace("rebaseline_keeps = 50", "rebaseline_keeps = 2"));
    project.baseline();
    for (small, large) in [("80", "320"), ("60", "240"), ("45", "180")] {
        project.set("small", small);
        project.set("large", large);
        let ended = project.go_on().expect("the try ends");
        assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    }
    let state = project.state();
    let segment = state.current().expect("a segment");
    let commits: Vec<&str> = segment.noise.iter().map(|noise| noise.commit.as_str()).collect();
    assert_eq!(commits, [segment.start.as_str(), segment.keeps[1].commit.as_str()]);
}

#[test]
fn an_interrupted_try_goes_on_where_it_was() {
    let project = Project::new();
    project.baseline();
    project.set("small", "80");
    project.set("large", "320");
    let noise = project.entries().len();
    // It is asked to end after the tenth sample of the try.
    let after_ten = || project.entries().len() > noise + 10;
    let options = duramen_experiment::series::Options {
        progress: &|_| (),
        cancelled: &after_ten,
        isolation: duramen_experiment::series::Isolation::WherePossible,
    };
    let mut series = Series::open(&project.series(), &project.work, options).expect("the series opens");
    let error = series.attempt(&Change::WorkingTree, &claim()).expect_err("it is interrupted");
    assert!(matches!(error, SeriesError::Cancelled), "{error}");
    drop(series);
    let state = project.state();
    let taken = state.open_try().expect("an open try").samples.clone();
    assert_eq!(taken.len(), 10);

    // The same command again is the same try.
    let ended = project.attempt().expect("the try ends");
    assert_eq!((ended.number, ended.judgement.verdict), (1, Verdict::Keep), "{}", ended.judgement.reason);
    let state = project.state();
    let known = &state.current().expect("a segment").tries[0];
    assert_eq!(known.samples[..10], taken[..]);
    assert_eq!(known.samples.len(), 16, "two quads at two scales");
    assert!(matches!(project.with(|series| series.resume()), Ok(Resumed::Nothing)));
}
