//! Invariant R13: what a scenario breaks is put right, however its run ends.

use super::user::folder;
use duramen_base::clock;
use duramen_postgres::{is_stopped, processes_below};
use duramen_replication::measure::measure;
use duramen_replication::pair::Pair;
use duramen_replication::scenario::{catalog, Scenario};
use duramen_replication::{Level, Options};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);
/// Whether something is seen to be broken in a folder.
type Seen = fn(&Path) -> bool;
/// Tells the process to run a scenario in this folder until it is killed: `DIR NUMBER`.
const RUN: &str = "DURAMEN_TEST_BREAK";

/// What the machine has of a folder beside what is in it: mounts, and loop devices.
fn held(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains(&dir)).map(str::to_owned);
    let loops = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let files =
        loops.filter_map(|entry| std::fs::read_to_string(entry.path().join("loop/backing_file")).ok());
    mounts.chain(files.filter(|file| file.contains(&dir))).collect()
}

/// Whether a process below the folder cannot be interrupted for as long as nobody thaws what it writes to.
fn is_frozen(dir: &Path) -> bool {
    let waits = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('D'))
    };
    processes_below(dir).into_iter().filter(waits).any(|pid| {
        (0..10).all(|_| {
            std::thread::sleep(Duration::from_millis(20));
            waits(&pid)
        })
    })
}

fn has_stopped(dir: &Path) -> bool {
    processes_below(dir).into_iter().any(is_stopped)
}

/// Whether the flushes of a process below the folder are slow.
fn is_traced(dir: &Path) -> bool {
    processes_below(dir).into_iter().any(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|of| of.trim() != "0"))
    })
}

/// Whether packets are lost on a hop below the folder: there are rules of ours in the namespace of one of its processes.
fn loses_packets(dir: &Path) -> bool {
    processes_below(dir).into_iter().any(|pid| {
        let rules = std::process::Command::new("nsenter")
            .args([&format!("--net=/proc/{pid}/ns/net"), "/usr/sbin/nft", "list", "tables"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&rules.stdout).contains("duramen")
    })
}

/// Guardians and tracers beside what is in a folder that belong to its processes.
fn helpers(dir: &Path) -> Vec<String> {
    let name = dir.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    let is_ours = |line: &String| {
        (line.contains("guardian") || line.starts_with("strace") || line.contains("socat"))
            && line.contains(&name)
    };
    lines.filter(is_ours).collect()
}

async fn run(dir: &Path, number: u32) {
    let scenario: &Scenario = catalog().iter().find(|scenario| scenario.number == number).unwrap();
    let levels = Some(vec![Level::RemoteApply]);
    let options = Options {
        levels,
        repeats: Some(1),
        scenarios: vec![number],
        quick: scenario.slows().is_some(),
        ..Options::new(dir, "duramen")
    };
    let pair = Pair::open(&options, &|_| {}).await.unwrap();
    let measured = measure(&pair, &options, &[scenario], 42, &|doing| eprintln!("{doing}")).await.unwrap();
    assert_eq!(measured.outcomes[0].failed, None);
    // Nothing is left of it while the pair is still there.
    let dir = dir.canonicalize().unwrap();
    assert!(!has_stopped(&dir));
    assert_eq!(held(&dir), [""; 0]);
    pair.close().await.unwrap();
}

#[tokio::test]
async fn what_is_broken_is_put_right_when_its_run_is_killed() {
    killed(
        "broken::what_is_broken_is_put_right_when_its_run_is_killed",
        &[(22, has_stopped), (25, is_frozen)],
    )
    .await;
}

#[tokio::test]
async fn what_is_slow_is_put_right_when_its_run_is_killed() {
    killed(
        "broken::what_is_slow_is_put_right_when_its_run_is_killed",
        &[(28, is_traced), (32, loses_packets)],
    )
    .await;
}

/// Kills a run of each scenario when it is seen that something is broken: a process that does this test.
async fn killed(test: &str, broken: &[(u32, Seen)]) {
    if let Ok(text) = std::env::var(RUN) {
        let (dir, number) = text.rsplit_once(' ').unwrap();
        return run(Path::new(dir), number.parse().unwrap()).await;
    }
    let is_root = rustix::process::geteuid().is_root();
    for (number, is_broken) in broken.iter().copied().filter(|(number, _)| *number == 22 || is_root) {
        let dir = folder();
        let place = dir.path().canonicalize().unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(RUN, format!("{} {number}", place.display()))
            .spawn()
            .unwrap();
        let begin = clock::now();
        while !is_broken(&place) {
            assert!(child.try_wait().unwrap().is_none(), "S{number}: it ended early");
            assert!(begin.elapsed() < PATIENCE, "S{number}: nothing is broken");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let begin = clock::now();
        let is_over = || {
            let files = std::fs::read_dir(&place).unwrap().count();
            files == 0
                && processes_below(&place).is_empty()
                && held(&place).is_empty()
                && helpers(&place).is_empty()
        };
        while !is_over() {
            let left = (processes_below(&place), held(&place), helpers(&place));
            assert!(begin.elapsed() < PATIENCE, "S{number}: something is left: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("S{number}: nothing was left after {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn what_is_broken_is_put_right_when_its_pass_is_over() {
    for number in [22, 24, 25] {
        if number == 25 && !rustix::process::geteuid().is_root() {
            continue;
        }
        let dir = folder();
        run(dir.path(), number).await;
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "S{number}");
    }
}
