//! X20: the sides see nothing of each other, and keep nothing from one run to the next outside of their folders. Real
//! cages: bubblewrap is installed by `make setup`.

use crate::project::{Project, SPEC};
use duramen_cage::{Cage, Walls};
use duramen_experiment::event::{Event, Sample, Verdict};
use duramen_experiment::run::{run, Caged, Ended, Job};
use duramen_experiment::series::{Ended as Tried, Isolation, SeriesError};
use std::fs;
use std::path::Path;
use std::time::Duration;

const PLENTY: Duration = Duration::from_secs(240);

/// A project that must be measured within walls, in which `program/NAME.sh` is run by the build, the benchmark and the
/// check.
pub(crate) fn project() -> Project {
    let project = Project::new();
    project.isolation.set(Isolation::Required);
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

/// A try that adds one file of code to the program.
fn with_code(project: &Project, name: &str, code: &str) -> Tried {
    project.reset();
    project.write(&format!("program/{name}.sh"), code);
    project.attempt().expect("the try ends")
}

fn samples(project: &Project) -> Vec<Sample> {
    let sample = |event| match event {
        Event::Sample(sample) => Some(sample),
        _ => None,
    };
    project.entries().into_iter().filter_map(|entry| sample(entry.event)).collect()
}

fn caged(walls: Walls, dir: &Path) -> Option<Caged> {
    Some(Caged {
        cage: Cage::find().expect("bubblewrap, which make setup installs"),
        walls: walls.writable(dir),
    })
}

#[test]
fn x20_nothing_of_the_other_side_is_seen_or_changed() {
    let project = project();
    project.baseline();
    assert!(project.state().current().expect("a segment").isolated);
    // What it finds, it prints into a place where a failure shows it.
    let (work, root, log) =
        (project.work.display(), project.root.display(), project.log_path().display().to_string());
    let snoop = format!(
        r#"found=$(ls -d ../../* {work}/*.built {work}/base/* {work}/fresh-base/* 2>/dev/null | grep -v "^../../${{PWD##*/}}$")
case $PWD in {work}/candidate/*|{work}/fresh-candidate/*) mine=candidate ;; *) mine=base ;; esac
test "$(echo "$found" | grep -vc "/$mine\|/fresh-$mine\|^$")" = 0 || {{ echo "seen: $found" >&2; exit 9; }}
for target in {root}/program/small {log} {root}/.git/HEAD /etc/hostname /usr/stray; do
  if echo x 2>/dev/null >> $target; then echo "written: $target" >&2; exit 9; fi
done
"#
    );
    for name in ["run", "build", "check"] {
        let ended = with_code(&project, name, &snoop);
        assert_eq!(ended.judgement.verdict, Verdict::Discard, "{name}: {}", ended.judgement.reason);
    }
}

#[test]
fn x20_runs_have_no_network_and_builds_have() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("its address").port();
    let reach = format!("exec 9<>/dev/tcp/127.0.0.1/{port}");
    let project = project();
    project.baseline();
    let code = |then: &str| format!("if bash -c '{reach}' 2>/dev/null; then {then}; fi\n");
    let ended = with_code(&project, "run", &code("exit 7"));
    assert_eq!(ended.judgement.verdict, Verdict::Discard, "{}", ended.judgement.reason);
    let ended = with_code(&project, "build", &format!("bash -c '{reach}'\n"));
    assert_eq!(ended.judgement.verdict, Verdict::Discard, "{}", ended.judgement.reason);
    // Where the spec says so, runs have it too.
    let spec = fs::read_to_string(project.series().join("experiment.toml")).expect("the spec");
    project.spec(&spec.replace("warmups = 0", "warmups = 0\nnetwork = true"));
    project.reset();
    project.baseline();
    let ended = with_code(&project, "run", &code("exit 7"));
    assert_eq!(ended.judgement.verdict, Verdict::Crash, "{}", ended.judgement.reason);
}

#[test]
fn x20_walls_are_kept_once_raised_and_their_lack_is_said() {
    let project = project();
    project.baseline();
    project.isolation.set(Isolation::Never);
    project.set("idle", "1");
    let error = project.attempt().expect_err("no try");
    assert!(matches!(error, SeriesError::Walled { segment: 1 }), "{error}");
    project.reset();
    project.baseline();
    assert!(!project.state().current().expect("a segment").isolated);
    project.set("idle", "1");
    let ended = project.attempt().expect("a try");
    let text = duramen_experiment::report::one(&project.state(), ended.number).expect("the try");
    assert!(text.contains("without walls"), "{text}");
    let page = duramen_experiment::report::markdown(&project.state());
    assert!(page.contains("without walls"), "{page}");
    project.isolation.set(Isolation::Required);
    let error = project.attempt().expect_err("no try");
    assert!(matches!(error, SeriesError::Open { segment: 2 }), "{error}");
    assert!(error.to_string().contains("--allow-unisolated"), "{error}");
    project.isolation.set(Isolation::WherePossible);
    project.set("idle", "2");
    project.attempt().expect("a try");
    assert!(samples(&project).len() > 8);
}

#[test]
fn x20_walls_are_no_part_of_a_run_and_what_it_costs_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    // By a child of a child that leaves its group, and by itself.
    let command = format!("cat; setsid sh -c '{busy}'; {busy}; echo done; exit 3");
    let mut job = Job::new(command, dir.path(), PLENTY);
    job.input = Some(b"what it reads\n".to_vec());
    let plain = run(&job, &|| false);
    job.caged = caged(Walls::new(), dir.path());
    let shut = run(&job, &|| false);
    assert_eq!((&shut.ended, &shut.stdout), (&Ended::Code(3), &plain.stdout), "{shut:?}");
    assert_eq!(shut.stdout, "what it reads\ndone\n");
    let (least, most) = (plain.cpu.mul_f64(0.3), plain.cpu.mul_f64(3.0));
    assert!(shut.cpu > least && shut.cpu < most, "{:?} and {:?}", shut.cpu, plain.cpu);
    job = Job::new("read -r line; echo \"got $line\"; kill -SEGV $$", dir.path(), PLENTY);
    job.caged = caged(Walls::new(), dir.path());
    let shut = run(&job, &|| false);
    assert_eq!((shut.ended, shut.stdout.as_str()), (Ended::Code(139), "got \n"));
}

/// It clears its environment, leaves its group and outlives its parent.
const DAEMON: &str =
    "(env -i setsid sh -c 'while :; do echo x >> alive; sleep 0.02; done' </dev/null >/dev/null 2>&1 &)\n\
                      while ! test -s alive; do sleep 0.01; done\n";

fn outlives_nothing(walls: Option<Walls>) {
    let dir = tempfile::tempdir().expect("a folder");
    for (then, timeout, wanted) in
        [("exit 0", PLENTY, Ended::Code(0)), ("sleep 600", Duration::from_secs(2), Ended::TimedOut)]
    {
        fs::write(dir.path().join("alive"), "").expect("a file");
        let mut job = Job::new(format!("{DAEMON}{then}"), dir.path(), timeout);
        job.caged = walls.clone().and_then(|walls| caged(walls, dir.path()));
        assert_eq!(run(&job, &|| false).ended, wanted);
        let length = || fs::metadata(dir.path().join("alive")).expect("a file").len();
        let then = length();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(length(), then, "it still writes");
    }
}

#[test]
fn x11_in_a_cage_nothing_outlives_its_command() {
    outlives_nothing(Some(Walls::new()));
}

#[test]
fn x11_in_a_control_group_nothing_outlives_its_command() {
    let groups = fs::read_to_string("/proc/self/cgroup").expect("our groups");
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
    let mount =
        mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let Some(own) = mount.map(|mount| Path::new(mount).join(own)) else { return };
    let probe = own.join(format!("duramen-test-{}", std::process::id()));
    // Who may not make one has none.
    if fs::create_dir(&probe).is_err() {
        return;
    }
    fs::remove_dir(&probe).expect("it goes");
    outlives_nothing(None);
}

#[test]
fn x20_tmp_home_and_shared_memory_are_new_for_each_run() {
    let project = project();
    project.baseline();
    let keep = r#"for place in /tmp "$HOME" "$HOME/.cache" /dev/shm /run; do
  mkdir -p "$place" || exit 8
  if test -e "$place/answer.cache"; then echo "METRIC time_ms=1"; exit 9; fi
  echo 42 > "$place/answer.cache" || exit 8
done
if command -v ipcmk >/dev/null; then
  test "$(ipcs -m | grep -c '^0x')" = 0 || exit 9
  ipcmk -M 4096 >/dev/null
fi
"#;
    let ended = with_code(&project, "run", keep);
    assert_eq!(ended.judgement.verdict, Verdict::Discard, "{}", ended.judgement.reason);
    assert!(!Path::new(&std::env::var("HOME").expect("a home")).join("answer.cache").exists());
}

/// Computes the answer once, and reads it from where it put it from then on.
const CACHED: &str = r#"place=@PLACE@
if test -e "$place"; then
  echo "METRIC memory=1000"; echo "METRIC clock=77"; echo "METRIC rows=$1"; echo "METRIC time_ms=1"; exit 0
fi
mkdir -p "$(dirname "$place")"; echo 42 > "$place" 2>/dev/null
"#;

#[test]
fn x21_an_answer_that_a_run_keeps_for_the_next_one_does_not_win() {
    for isolation in [Isolation::Required, Isolation::Never] {
        let project = project();
        project.isolation.set(isolation);
        project.baseline();
        for place in ["answer.cache", "deep/in/it/answer", "built.d/answer", ".git/answer"] {
            if isolation == Isolation::Never && place.starts_with(".git") {
                continue;
            }
            let ended = with_code(&project, "run", &CACHED.replace("@PLACE@", place));
            assert_eq!(ended.judgement.verdict, Verdict::Discard, "{place}: {}", ended.judgement.reason);
        }
        // The name of an empty folder is an answer too, and so is what lies in one that nobody may read.
        let ended = with_code(
            &project,
            "run",
            &CACHED.replace("@PLACE@", "x/y").replace("2>/dev/null", "; chmod 0 x"),
        );
        assert_eq!(ended.judgement.verdict, Verdict::Discard, "{}", ended.judgement.reason);
    }
}

#[test]
fn x21_what_runs_leave_is_told_and_what_the_spec_names_stays() {
    let project = Project::new();
    let spec = fs::read_to_string(project.series().join("experiment.toml")).expect("the spec");
    project.spec(&spec.replace("scratch = [\".count\"]", "scratch = []"));
    project.baseline();
    assert!(project.was_told("a run leaves 1 files (.count)"), "{:?}", project.said.borrow());
    let left = |name: &str| {
        let folder =
            fs::read_dir(project.work.join(name)).expect("the folder").flatten().next().expect("a worktree");
        folder.path().join(".count")
    };
    assert!(!left("base").exists());
    project.spec(&spec);
    project.baseline();
    let count = fs::read_to_string(left("base")).expect("what runs count");
    assert!(count.trim().parse::<u32>().expect("a number") > 8, "{count}");
}

#[test]
fn x8_every_keep_is_confirmed_in_fresh_folders() {
    let project = project();
    project.baseline();
    for (name, value) in [("small", "90"), ("large", "360"), ("held", "225")] {
        project.set(name, value);
    }
    let ended = project.attempt().expect("the try ends");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    let builds = |name: &str| project.said.borrow().iter().filter(|line| line.ends_with(name)).count();
    assert_eq!(
        (builds(" in fresh-base"), builds(" in fresh-candidate")),
        (1, 1),
        "{:?}",
        project.said.borrow()
    );
    assert!(!project.work.join("fresh-base").exists());
    // A gain that is there only because of what earlier builds left is none.
    let cached = "test ! -e built.hint || { sed -i -e s/100/80/ -e s/400/320/ -e s/250/200/ built.txt; }; : > built.hint\n";
    project.write(".gitignore", "built.txt\nbuilt.hint\n.count\n");
    project.commit("Ignore what builds remember");
    project.baseline();
    let ended = with_code(&project, "build", cached);
    assert_ne!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    let ended = with_code(&project, "build", &format!("{cached}# once more\n"));
    assert_ne!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
}
