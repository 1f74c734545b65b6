//! What a change can do to look faster than it is, done for real: a second figure, another benchmark, another binary
//! under the base. Each is found and named, and nothing that it touched is run again (X5, X13).

use crate::project::{Project, SPEC};
use duramen_experiment::event::{Event, Purpose, Side, Verdict};
use duramen_experiment::series::{Ended, Isolation, Limits, Proposer, SeriesError};
use std::fs;
use std::path::PathBuf;

/// A project in which the program has code of its own: `program/NAME.sh` is run by the build, the benchmark and the
/// check, as a program's own code is.
fn project() -> Project {
    let project = Project::new();
    project.isolation.set(Isolation::Never);
    let own = |name: &str| format!("test ! -e program/{name}.sh || . program/{name}.sh\n");
    let bench = fs::read_to_string(project.root.join("bench.sh")).expect("the benchmark");
    let bench = bench.replace("exec awk", &format!("{}awk", own("run"))) + &own("after");
    project.write("bench.sh", &bench);
    let build = fs::read_to_string(project.root.join("build.sh")).expect("the build");
    project.write("build.sh", &(build + &own("build")));
    project.write("check.sh", &own("check"));
    project.spec(&SPEC.replace("\"test ! -e program/wrong\"", "\"sh check.sh\""));
    project.commit("Run code of the program");
    project
}

/// A try that adds one file of code to the program, and makes it `better` by so much at all scales.
fn with_code(project: &Project, name: &str, code: &str, better: bool) -> Ended {
    project.reset();
    project.write(&format!("program/{name}.sh"), code);
    if better {
        for (name, value) in [("small", "80"), ("large", "320"), ("held", "200")] {
            project.set(name, value);
        }
    }
    project.attempt().expect("the try ends")
}

fn assert_invalid(ended: &Ended, parts: &[&str]) {
    let (verdict, reason) = (ended.judgement.verdict, &ended.judgement.reason);
    assert_eq!(verdict, Verdict::Invalid, "{reason}");
    for part in parts {
        assert!(reason.contains(part), "{reason:?} lacks {part:?}");
    }
}

/// What lies in a worktree of ours.
fn built(project: &Project, name: &str) -> PathBuf {
    let folder = fs::read_dir(project.work.join(name)).expect("the folder of a side").flatten();
    let tree = folder.map(|entry| entry.path()).find(|path| path.is_dir());
    tree.expect("a worktree").join("built.txt")
}

/// Replaces the times of a build by others of the same length, and sets the times of the file back.
const SLOWER: &str = "sed -i.old -e s/100/150/ -e s/400/600/ -e s/250/375/ \"$target\"\n\
                      touch -r \"$target.old\" \"$target\"; rm \"$target.old\"\n";

/// The candidate's folder lies beside that of the base.
fn on_the_base(action: &str) -> String {
    format!("case $PWD in */candidate/*) for target in ../../base/*/built.txt; do\n{action}done ;; esac\n")
}

/// A change that does nothing is not kept, and the base is as fast as it was.
fn nothing_is_left(project: &Project) {
    project.reset();
    project.set("idle", "1");
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Discard, "{}", ended.judgement.reason);
    let times: Vec<f64> = project
        .entries()
        .into_iter()
        .filter_map(|entry| match entry.event {
            Event::Sample(sample)
                if (sample.purpose, sample.side) == (Purpose::Try(ended.number), Side::Base)
                    && sample.scale == "small" =>
            {
                Some(sample.metrics["time_ms"])
            }
            _ => None,
        })
        .collect();
    assert_eq!(times.len(), 2, "one quad is enough");
    assert!(times.iter().all(|time| (time - 100.0).abs() < 1.0), "{times:?}");
}

#[test]
fn x5_a_second_line_of_a_figure_does_not_win() {
    let project = project();
    project.baseline();
    let ended = with_code(&project, "after", "echo METRIC time_ms=1\n", false);
    assert_invalid(&ended, &["time_ms", "two values"]);
    // Both are named.
    assert!(ended.judgement.reason.contains("and 1"), "{}", ended.judgement.reason);
    // Neither does a first one, nor one that takes the other away.
    let ended = with_code(&project, "run", "echo METRIC time_ms=1\n", false);
    assert_invalid(&ended, &["time_ms", "two values", "1 and "]);
    let ended = with_code(&project, "after", "echo METRIC memory=none\n", false);
    assert_invalid(&ended, &["memory", "two values", "1000 and none"]);
}

#[test]
fn x5_a_figure_that_was_pushed_out_of_sight_does_not_make_room_for_another() {
    let project = project();
    project.baseline();
    let flood = "awk 'BEGIN { while (n++ < 40000) print \"a line that fills what is kept of an output\" }'\n";
    let lines = "echo METRIC time_ms=1; echo METRIC memory=1000; echo METRIC clock=77; echo METRIC rows=$1\n";
    let ended = with_code(&project, "after", &format!("{flood}{lines}"), false);
    assert_invalid(&ended, &["1048576 bytes", "measure.file"]);
}

#[test]
fn x5_the_times_that_are_taken_are_not_printed_over() {
    let project = project();
    let spec = fs::read_to_string(project.series().join("experiment.toml")).expect("the spec");
    project.spec(&spec.replace("metric = \"memory\"", "metric = \"cpu_s\""));
    project.baseline();
    let ended = with_code(&project, "after", "echo METRIC cpu_s=0.000001\n", true);
    assert_invalid(&ended, &["cpu_s", "two values", "0.000001"]);
}

#[test]
fn x5_what_init_writes_protects_what_measures() {
    let project = Project::new();
    let spec = project.series().join("experiment.toml");
    fs::remove_file(&spec).expect("the spec goes");
    fs::remove_file(project.log_path()).expect("the log goes");
    let first = duramen_experiment::series::First {
        name: "speed",
        command: Some("sh tools/measure.sh program"),
        metric: "time_ms",
        direction: duramen_experiment::spec::Direction::Lower,
    };
    duramen_experiment::series::Series::init(&project.series(), &first).expect("a series begins");
    fs::create_dir_all(project.root.join("tools")).expect("a folder");
    project.write("tools/measure.sh", "echo METRIC time_ms=$(cat program/small)\n");
    project.commit("Measure with a script");
    let text = fs::read_to_string(&spec).expect("the spec");
    project.spec(&text.replace("quads = 12", "quads = 4").replace("warmups = 1", "warmups = 0"));
    // The noise of a constant is none.
    project.baseline();
    for file in [
        "tools/measure.sh",
        "bench.sh",
        "benches/speed.rs",
        "crates/core/tests/all.rs",
        "test_speed.py",
        "speed_test.go",
        "Makefile",
        "Cargo.toml",
        "Cargo.lock",
        "build.rs",
        ".cargo/config.toml",
        "package.json",
        "pyproject.toml",
        "go.mod",
        "CMakeLists.txt",
        ".github/workflows/ci.yml",
        ".gitignore",
    ] {
        project.reset();
        let folder = project.root.join(file);
        fs::create_dir_all(folder.parent().expect("a parent")).expect("a folder");
        project.write(file, "echo METRIC time_ms=1\n");
        let ended = project.attempt().expect("the try ends");
        assert_invalid(&ended, &[file, "off limits", "scope.off_limits"]);
    }
    // The program is what may be changed.
    project.reset();
    project.set("small", "130");
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Discard, "{}", ended.judgement.reason);
}

#[test]
fn x13_a_run_that_replaces_the_bases_build_is_found() {
    let project = project();
    project.baseline();
    let ended = with_code(&project, "run", &on_the_base(SLOWER), false);
    assert_invalid(&ended, &["built.txt", "base", "candidate"]);
    nothing_is_left(&project);
    // So is one that removes it, and one that puts something beside it.
    let ended = with_code(&project, "run", &on_the_base("rm -f \"$target\"\n"), false);
    assert_invalid(&ended, &["built.txt", "base"]);
    let ended = with_code(&project, "run", &on_the_base("echo > \"${target%/*}/.count.d\"\n"), false);
    assert_invalid(&ended, &[".count.d", "base"]);
    nothing_is_left(&project);
}

#[test]
fn x13_a_run_that_replaces_its_own_build_is_found() {
    let project = project();
    project.baseline();
    let own = format!("target=built.txt\n{}", SLOWER.replace("150", "050"));
    let ended = with_code(&project, "run", &own, false);
    assert_invalid(&ended, &["built.txt", "candidate"]);
    // The sources of what is interpreted are no other matter.
    let source = "echo 10 > program/small; sed -i.old s/100/10/ bench.awk; rm bench.awk.old\n";
    let ended = with_code(&project, "run", source, false);
    assert_invalid(&ended, &["candidate", "bench.awk"]);
    nothing_is_left(&project);
}

#[test]
fn x13_a_build_or_a_check_that_replaces_the_bases_build_is_found() {
    let project = project();
    project.baseline();
    let ended = with_code(&project, "build", &on_the_base(SLOWER), true);
    assert_invalid(&ended, &["built.txt", "base"]);
    nothing_is_left(&project);
    let ended = with_code(&project, "check", &on_the_base(SLOWER), true);
    assert_invalid(&ended, &["built.txt", "base", "answer"]);
    nothing_is_left(&project);
}

#[test]
fn x13_a_build_is_not_taken_as_it_is_for_its_mark() {
    let project = project();
    project.baseline();
    // As a run that was killed, or somebody between two commands, leaves it.
    for name in ["base", "candidate"] {
        let target = built(&project, name);
        let status = std::process::Command::new("sh").arg("-c").arg(SLOWER).env("target", &target).status();
        assert!(status.expect("sh runs").success());
        assert!(fs::read_to_string(&target).expect("the build").contains("small 150"));
    }
    nothing_is_left(&project);
    assert!(project.was_told("is not as it was built"), "{:?}", project.said.borrow());
    // A build that is whole is not made again.
    let builds = || project.said.borrow().iter().filter(|line| line.contains("building")).count();
    let before = builds();
    project.reset();
    project.set("idle", "2");
    project.attempt().expect("the try ends");
    assert_eq!(builds() - before, 1, "{:?}", project.said.borrow());
}

#[test]
fn x13_a_work_folder_behind_a_link_is_no_other_folder() {
    let mut project = project();
    let real = project.work.with_file_name("real");
    fs::create_dir(&real).expect("a folder");
    std::os::unix::fs::symlink(&real, &project.work).expect("a link");
    project.baseline();
    // Built more than once by one process: the base for each kept try, the candidate for each try.
    for (small, large, held) in [("80", "320", "200"), ("60", "240", "150")] {
        for (name, value) in [("small", small), ("large", large), ("held", held)] {
            project.set(name, value);
        }
        let ended = project.go_on().expect("the try ends");
        assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    }
    let command = "cat > /dev/null; echo $DURAMEN_TRY > program/idle; echo '{\"hypothesis\":\"h\",\"mechanism\":\"m\"}'";
    let two = Limits { tries: Some(2), time: None };
    let proposer = Some(Proposer::Command(command.to_owned()));
    let stopped = project.with(|series| series.propose(proposer, two)).expect("the run ends");
    for ended in &stopped.tries {
        assert_eq!(ended.judgement.verdict, Verdict::Discard, "{}", ended.judgement.reason);
    }
    assert_eq!(stopped.tries.len(), 2);
    assert!(!project.was_told("is not as it was built"), "{:?}", project.said.borrow());
    project.work = real;
}

#[test]
fn x13_what_runs_may_write_is_named_by_the_spec() {
    let project = project();
    let spec = fs::read_to_string(project.series().join("experiment.toml")).expect("the spec");
    project.write(
        "build.sh",
        "set -e\nawk '{ n = split(FILENAME, part, \"/\"); print part[n], $1 }' \
                               program/* > built.txt\nmkdir -p rows; echo > rows/table\n",
    );
    project.write(".gitignore", "built.txt\n.count\nrows\n");
    project.write(
        "bench.awk",
        &(fs::read_to_string(project.root.join("bench.awk")).unwrap()
            + "END { print count >> \"rows/table\" }\n"),
    );
    project.commit("Write into a table that the build makes");
    let error = project.with(|series| series.baseline()).expect_err("no baseline");
    assert!(matches!(&error, SeriesError::Command { .. }), "{error}");
    for part in ["rows/table", "measure.scratch"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    project.spec(&spec.replace("[\".count\"]", "[\".count\", \"rows\"]"));
    project.baseline();
    nothing_is_left(&project);
}
