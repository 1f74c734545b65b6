//! X11: every command has a deadline, ends with all its children, and its output is kept up to a limit. Real processes.

use duramen_base::clock;
use duramen_experiment::run::{run, Ended, Job, Ran, MARK};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Longer than any of the commands takes on a busy machine.
const PLENTY: Duration = Duration::from_secs(240);

fn never() -> bool {
    false
}

fn sh(command: &str) -> Ran {
    run(&Job::new(command, std::env::temp_dir(), PLENTY), &never)
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z") && !rest.starts_with(" X"))
}

/// Waits until it holds, and fails after `PLENTY`.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = clock::now();
    while !holds() {
        assert!(begin.elapsed() < PLENTY, "not within {PLENTY:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn pids(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| line.parse().expect("a process id")).collect()
}

/// Starts children of all kinds that write their ids into `pids`, and says nothing until all are there: in the group, in
/// a session of their own, left by their parent, deaf to signals, without an environment, and that in a session.
const FAMILY: &str = r#"
sh -c 'echo $$ >> "$DIR/pids"; sleep 300; true' &
setsid sh -c 'echo $$ >> "$DIR/pids"; sleep 300; true' &
(setsid sh -c 'echo $$ >> "$DIR/pids"; sleep 300; true' &)
(trap '' HUP INT TERM; setsid nohup sh -c 'echo $$ >> "$DIR/pids"; sleep 300; true' >/dev/null 2>&1 &)
env -i DIR="$DIR" PATH="$PATH" sh -c 'trap "" TERM; echo $$ >> "$DIR/pids"; sleep 300; true' &
env -i DIR="$DIR" PATH="$PATH" setsid -w sh -c 'echo $$ >> "$DIR/pids"; sleep 300; true' &
while [ "$(wc -l < "$DIR/pids")" -lt 6 ]; do sleep 0.01; done
"#;

/// Waits until all are gone but the one without an environment in a session of its own, which nobody can tell from a
/// stranger when its parent has gone; and ends that one.
fn gone_but_strangers(pids: &[u32]) {
    let is_stranger = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let session =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(3)?.parse().ok());
        session == Some(*pid) && !String::from_utf8_lossy(&environment).contains(MARK)
    };
    until("all children are gone", || !pids.iter().any(|pid| is_alive(*pid) && !is_stranger(pid)));
    for pid in pids.iter().filter(|pid| is_alive(**pid)) {
        // What it waits for would be left behind, with all the files that it has open.
        for below in duramen_measure::process::tree(*pid).into_iter().chain([*pid]) {
            Command::new("kill").args(["-9", &below.to_string()]).status().unwrap();
        }
    }
}

fn family(dir: &Path, then: &str, timeout: Duration) -> Job {
    fs::write(dir.join("pids"), "").unwrap();
    let mut job = Job::new(format!("{FAMILY}{then}"), dir, timeout);
    job.env.push(("DIR".into(), dir.to_str().unwrap().into()));
    job
}

#[test]
fn a_command_says_how_it_ended() {
    assert_eq!(sh("exit 0").ended, Ended::Code(0));
    assert!(sh("true").ended.success());
    assert_eq!(sh("exit 3").ended, Ended::Code(3));
    assert_eq!(sh("kill -SEGV $$").ended, Ended::Signal(11));
    let missing = sh("there-is-no-such-program");
    assert_eq!(missing.ended, Ended::Code(127));
    assert!(missing.stderr.contains("not found"), "{}", missing.stderr);
    let ran = sh("echo out; echo err >&2");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.omitted), ("out\n", "err\n", 0));
}

#[test]
fn what_cannot_be_started_says_why() {
    let no_folder = run(&Job::new("true", "/there/is/no/such/folder", PLENTY), &never);
    assert!(matches!(&no_folder.ended, Ended::NotStarted(why) if why.contains("/there/is/no/such/folder")));
    let nul = run(&Job::new("true \0", std::env::temp_dir(), PLENTY), &never);
    assert!(matches!(nul.ended, Ended::NotStarted(_)), "{:?}", nul.ended);
    let long = run(&Job::new("x".repeat(8 << 20), std::env::temp_dir(), PLENTY), &never);
    assert!(matches!(long.ended, Ended::NotStarted(_)), "{:?}", long.ended);
}

#[test]
fn input_arrives_whole_and_need_not_be_read() {
    let with = |command: &str, input: Vec<u8>| {
        run(&Job { input: Some(input), ..Job::new(command, std::env::temp_dir(), PLENTY) }, &never)
    };
    assert_eq!(with("cat", b"in\n".to_vec()).stdout, "in\n");
    // More than a pipe holds, while the command answers with as much.
    let many = "0123456789\n".repeat(100_000).into_bytes();
    let mut job = Job::new("tee /dev/stderr | cksum", std::env::temp_dir(), PLENTY);
    job.input = Some(many.clone());
    job.output_limit = many.len();
    let ran = run(&job, &never);
    assert_eq!(ran.stderr.len(), many.len());
    assert!(ran.stdout.contains(&many.len().to_string()), "{}", ran.stdout);
    assert_eq!(with("exit 4", many).ended, Ended::Code(4));
    // Without input, and with an empty one, there is an end of it.
    assert_eq!(with("cat; echo end", Vec::new()).stdout, "end\n");
    assert_eq!(sh("cat; echo end").stdout, "end\n");
}

#[test]
fn x11_what_runs_out_of_time_is_ended_with_all_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let mut timeout = Duration::from_secs(3);
    let pids = loop {
        let job = family(dir.path(), "trap '' TERM INT HUP; sleep 300; sleep 300", timeout);
        let ran = run(&job, &never);
        assert_eq!(ran.ended, Ended::TimedOut, "{}", ran.stderr);
        assert!(ran.wall >= job.timeout, "{:?}", ran.wall);
        let pids = pids(&dir.path().join("pids"));
        // On a busy machine they take longer to be there.
        if pids.len() == 6 {
            break pids;
        }
        timeout *= 4;
        assert!(timeout < PLENTY, "only {} children in {timeout:?}", pids.len());
    };
    until("all children are gone", || !pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn x11_what_is_not_wanted_any_more_is_ended_with_all_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let ran = run(&family(dir.path(), "sleep 300", PLENTY), &|| pids(&file).len() == 6);
    assert_eq!(ran.ended, Ended::Cancelled);
    let pids = pids(&file);
    until("all children are gone", || !pids.iter().any(|pid| is_alive(*pid)));

    let not_run = run(&Job::new("touch ran", dir.path(), PLENTY), &|| true);
    assert_eq!(not_run.ended, Ended::Cancelled);
    assert!(!dir.path().join("ran").exists());
}

#[test]
fn x11_no_child_outlives_a_command_that_ended_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&family(dir.path(), "echo METRIC t=1; exit 7", PLENTY), &never);
    assert_eq!((ran.ended, ran.stdout.as_str()), (Ended::Code(7), "METRIC t=1\n"));
    let pids = pids(&dir.path().join("pids"));
    assert_eq!(pids.len(), 6);
    // They hold the output open, and yet nobody waited for them.
    gone_but_strangers(&pids);
}

#[test]
fn a_command_that_signals_its_whole_group_harms_itself_only() {
    assert_eq!(sh("kill -TERM 0; sleep 300").ended, Ended::Signal(15));
    assert_eq!(sh("kill -KILL 0; sleep 300").ended, Ended::Signal(9));
    let dir = tempfile::tempdir().unwrap();
    let then = "trap '' TERM; kill -TERM 0; sleep 0.2; echo still here";
    assert_eq!(run(&family(dir.path(), then, PLENTY), &never).stdout, "still here\n");
}

#[test]
fn the_last_words_of_a_pipe_are_heard() {
    // The shell ends before the one that it talks to.
    let ran = sh("{ sleep 0.1; echo METRIC late=1; } & echo METRIC early=1");
    assert_eq!(ran.stdout, "METRIC early=1\nMETRIC late=1\n");
}

#[test]
fn x11_output_is_kept_up_to_a_limit_in_whole_lines() {
    let mut job = Job::new("seq 1 400000; echo NOTMETRIC a=1; seq 1 40 >&2", std::env::temp_dir(), PLENTY);
    job.output_limit = 1000;
    let ran = run(&job, &never);
    assert_eq!(ran.ended, Ended::Code(0));
    assert!(ran.stdout.len() <= 1000 && ran.stdout.len() > 900, "{}", ran.stdout.len());
    assert!(ran.stdout.ends_with("399999\n400000\nNOTMETRIC a=1\n"));
    assert_eq!(ran.stdout.lines().next().unwrap().len(), 6, "the first line is whole");
    assert_eq!(ran.stderr.lines().count(), 40);
    let all: usize = (1..=400_000).map(|number: u32| number.to_string().len() + 1).sum::<usize>() + 14;
    assert_eq!(ran.omitted as usize + ran.stdout.len(), all);

    job.command = "yes | tr -d '\\n'".into();
    job.timeout = Duration::from_secs(1);
    let endless = run(&job, &never);
    assert_eq!(
        (endless.ended, endless.stdout.as_str()),
        (Ended::TimedOut, ""),
        "a line without an end is cut"
    );
    assert!(endless.omitted > 1_000_000);
    job.command = "echo some".into();
    job.output_limit = 0;
    assert_eq!(run(&job, &never).stdout, "");
}

#[test]
fn output_that_is_no_text_is_replaced() {
    let ran = sh(r"printf 'a\377b\000c\n'");
    assert_eq!(ran.stdout, "a\u{fffd}b\0c\n");
    assert_eq!(sh("true").stdout, "");
}

/// Uses about as much CPU time as is asked for, in a grandchild.
const BUSY: &str = "sh -c 'n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done'; true";

#[test]
fn cpu_time_is_that_of_the_command_and_all_below_it_and_of_no_other() {
    let idle = thread::spawn(|| sh("sleep 1"));
    let busy: Vec<Ran> = (0..3).map(|_| sh(BUSY)).collect();
    let idle = idle.join().unwrap();
    for ran in &busy {
        assert!(ran.cpu > Duration::from_millis(10), "{:?} {:?}", ran.cpu, ran.ended);
        // One thread cannot use more than goes by; the kernel counts by ticks.
        assert!(ran.cpu < ran.wall + Duration::from_millis(20), "{:?} in {:?}", ran.cpu, ran.wall);
    }
    assert!(idle.wall >= Duration::from_secs(1));
    assert!(idle.cpu < busy[0].cpu, "{:?}", idle.cpu);
}

#[test]
fn the_machine_is_described() {
    let ran = sh("sleep 0.1");
    assert!(ran.load.is_finite() && ran.load >= 0.0);
    assert!((0.0..=1.0).contains(&ran.steal), "{}", ran.steal);
    assert_eq!(ran.pinned, None);
}

fn allowed(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("the kernel tells where it may run").trim().to_owned()
}

#[test]
fn a_pinned_command_runs_on_one_cpu_and_its_caller_where_it_could_before() {
    let before = allowed(&fs::read_to_string("/proc/thread-self/status").unwrap());
    let mut job = Job::new("sh -c 'cat /proc/self/status'", std::env::temp_dir(), PLENTY);
    let free = run(&job, &never);
    assert_eq!((allowed(&free.stdout), free.pinned), (before.clone(), None));
    job.pin = true;
    let pinned = run(&job, &never);
    match pinned.pinned.as_deref() {
        Some([cpu]) => assert_eq!(allowed(&pinned.stdout), cpu.to_string()),
        // There is nothing to choose.
        None => assert!(!before.contains([',', '-']), "{before}"),
        other => panic!("pinned to {other:?}"),
    }
    assert_eq!(allowed(&fs::read_to_string("/proc/thread-self/status").unwrap()), before);
    // Also when it does not start.
    job.dir = "/there/is/no/such/folder".into();
    assert!(matches!(run(&job, &never).ended, Ended::NotStarted(_)));
    assert_eq!(allowed(&fs::read_to_string("/proc/thread-self/status").unwrap()), before);
}

/// Runs one of the roles below in a process of its own, with some variables.
fn role(name: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "run::roles", "--nocapture"]).env("TEST_ROLE", name).env("TEST_DIR", dir);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// No test by itself: what other tests run in a process of its own.
#[test]
fn roles() {
    let Some(role) = std::env::var_os("TEST_ROLE") else { return };
    let dir = std::path::PathBuf::from(std::env::var_os("TEST_DIR").unwrap());
    match role.to_str().unwrap() {
        "family" => {
            // What signals its group must not rid itself of its guardian.
            let then = "trap '' TERM; kill -TERM 0; touch ready; sleep 300; sleep 300";
            let _ = run(&family(&dir, then, PLENTY), &never);
        }
        "environment" => {
            let ran = run(&Job::new("env", &dir, PLENTY), &never);
            fs::write(dir.join("environment"), ran.stdout).unwrap();
        }
        other => panic!("no role {other}"),
    }
}

#[test]
fn x11_nothing_is_left_when_we_are_killed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let mut killed = role("family", dir.path()).spawn().unwrap();
    until("all children are there", || dir.path().join("ready").exists());
    let pids = pids(&file);
    assert!(pids.iter().filter(|pid| is_alive(**pid)).count() >= 3);
    killed.kill().unwrap();
    killed.wait().unwrap();
    gone_but_strangers(&pids);
}

#[test]
fn a_command_does_not_inherit_a_repository() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = role("environment", dir.path());
    // As in a hook of git.
    command.env("GIT_DIR", "/elsewhere/.git").env("GIT_INDEX_FILE", "/elsewhere/index").env("OTHER", "stays");
    assert!(command.status().unwrap().success());
    let environment = fs::read_to_string(dir.path().join("environment")).unwrap();
    assert!(environment.contains("OTHER=stays"), "{environment}");
    assert!(!environment.contains("elsewhere"), "{environment}");
}
