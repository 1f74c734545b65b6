//! A series in a process of its own that is killed again and again, and what comes of it in the end (X10).

use crate::project;
use crate::project::{claim, Project, SPEC};
use duramen_base::entropy;
use duramen_experiment::event::{Purpose, Verdict};
use duramen_experiment::series::{Change, Limits, Options, Proposer, Series};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Tells the test binary, run again, what to do.
const PART: &str = "DURAMEN_TEST_PART";
const TOP: &str = "DURAMEN_TEST_TOP";
const TRIES: u32 = 5;
/// So often the process is killed; then it may end.
const KILLS: u32 = 40;

const PROPOSER: &str = r#"cat > /dev/null
case $DURAMEN_TRY in
1) echo 80 > program/small; echo 200 > program/held ;;
2) echo yes > program/broken ;;
3) echo 64 > program/small ;;
4) echo 300 > program/small; sleep 0.05 ;;
5) echo 90 > program/memory ;;
esac
echo "{\"hypothesis\":\"h$DURAMEN_TRY\",\"mechanism\":\"m\"}"
"#;

fn spec() -> String {
    let large = "[[scale]]\nname = \"large\"\nvalue = \"40\"\n\n";
    assert!(SPEC.contains(large));
    SPEC.replace(large, "")
        .replace("quads = 4", "quads = 3")
        .replace("tries = 20", "tries = 5")
        .replace("rebaseline_keeps = 50", "rebaseline_keeps = 2")
}

/// The whole life of a series. Run by the test below in a process of its own; by itself it does nothing.
#[test]
fn child() {
    let (Ok(part), Ok(top)) = (std::env::var(PART), std::env::var(TOP)) else { return };
    let top = PathBuf::from(top);
    let progress = |text: &str| println!("told: {}", text.replace('\n', " "));
    let options = Options {
        progress: &progress,
        cancelled: &|| false,
        isolation: duramen_experiment::series::Isolation::WherePossible,
    };
    let mut series = Series::open(&top.join("repo/experiments/speed"), &top.join("work"), options)
        .expect("the series opens");
    if part == "attempt" {
        let ended = series.attempt(&Change::WorkingTree, &claim());
        println!("ended: {}", ended.map_or_else(|error| error.to_string(), |ended| ended.number.to_string()));
        return;
    }
    if series.state().current().is_none_or(|segment| segment.noise.is_empty()) {
        series.baseline().expect("a baseline");
    }
    if series.state().stops.is_empty() {
        let command = format!("sh {}", top.join("propose.sh").display());
        let limits = Limits { tries: Some(TRIES), time: None };
        series.propose(Some(Proposer::Command(command)), limits).expect("the run ends");
    }
    if series.state().current().is_some_and(|segment| segment.replays.is_empty()) {
        series.replay().expect("a replay");
    }
    series.ablate().expect("an ablation");
    println!("all done");
}

fn begin(part: &str, top: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "kills_lose_nothing::child", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(TOP, top)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("this program runs again")
}

/// Runs the child until it has told so many lines and a little longer, and kills it then. Returns whether it
/// ended.
fn run(top: &Path, kill_after: Option<(u32, Duration)>) -> bool {
    let mut child = begin("all", top);
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut told = 0;
    let mut is_done = false;
    for line in lines.by_ref().map_while(Result::ok) {
        // The test harness begins the first line with words of its own.
        is_done |= line.ends_with("all done");
        told += u32::from(line.contains("told: "));
        if let Some((_, wait)) = kill_after.filter(|(after, _)| told >= *after) {
            std::thread::sleep(wait);
            child.kill().expect("it is killed");
            break;
        }
    }
    // Its pipe is drained, or it would wait for us.
    lines.for_each(drop);
    let status = child.wait().expect("it ends");
    is_done && status.success()
}

/// All that must be the same however often it was killed.
#[derive(Debug, PartialEq)]
struct Outcome {
    verdicts: Vec<Option<Verdict>>,
    /// The trees of the candidates, and of the head.
    trees: Vec<String>,
    hypotheses: Vec<String>,
    samples: BTreeMap<Purpose, usize>,
    noise: usize,
    replays: Vec<Verdict>,
    ablations: Vec<(u32, String)>,
    stops: Vec<String>,
    files: String,
}

fn outcome(project: &Project) -> Outcome {
    let state = project.state();
    let segment = state.current().expect("a segment");
    let tree = |commit: &str| project.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
    let mut samples = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for entry in project.entries() {
        if let duramen_experiment::event::Event::Sample(sample) = entry.event {
            *samples.entry(sample.purpose).or_default() += 1;
            let place = (sample.purpose, sample.scale, sample.quad, sample.place);
            assert!(seen.insert(place.clone()), "{place:?} was run twice");
        }
    }
    let head = project.git(&["rev-parse", "refs/duramen/experiments/speed/head"]);
    assert_eq!(head, segment.head);
    Outcome {
        verdicts: segment.tries.iter().map(|known| known.verdict()).collect(),
        trees: segment.tries.iter().map(|known| tree(&known.candidate)).chain([tree(&head)]).collect(),
        hypotheses: segment.tries.iter().map(|known| known.hypothesis.clone()).collect(),
        samples,
        noise: segment.noise.len(),
        replays: segment.replays.iter().map(|replay| replay.judgement.verdict).collect(),
        ablations: segment.ablations.iter().map(|known| (known.number, known.words.clone())).collect(),
        stops: state.stops.iter().map(|stop| stop.rule.clone()).collect(),
        files: project.git(&["status", "--porcelain", "--untracked-files=all"]),
    }
}

fn project() -> Project {
    let project = Project::new();
    project.spec(&spec());
    fs::write(project.root.with_file_name("propose.sh"), PROPOSER).expect("a proposer");
    project
}

#[test]
fn a_series_that_is_killed_again_and_again_comes_to_the_same() {
    let untouched = project();
    assert!(run(untouched.root.parent().expect("the top"), None), "it ends by itself");
    let expected = outcome(&untouched);
    assert_eq!(
        expected.verdicts,
        [Verdict::Keep, Verdict::Crash, Verdict::Keep, Verdict::Discard, Verdict::Discard].map(Some)
    );
    assert_eq!((expected.noise, expected.stops.as_slice()), (2, &["tries".to_owned()][..]));

    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed} repeats this");
    let mut rng = entropy::rng(seed);
    let killed = project();
    let top = killed.root.parent().expect("the top").to_owned();
    let mut kills = 0;
    for _ in 0..KILLS {
        let wait = Duration::from_micros(rng.u64(0..40_000));
        // Some are killed early on, most after some work.
        let after = if rng.u32(..4) == 0 { rng.u32(0..4) } else { rng.u32(4..24) };
        if run(&top, Some((after, wait))) {
            break;
        }
        kills += 1;
        // A command that was under way does not outlive its master for long.
        let mut rest = project::processes_in(&top.join("work"));
        for _ in 0..100 {
            if rest.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            rest = project::processes_in(&top.join("work"));
        }
        assert_eq!(rest, Vec::<String>::new(), "after kill {kills}");
        // Every line that was acknowledged is there.
        let _ = killed.entries();
    }
    println!("killed {kills} times");
    assert!(kills >= 5, "the test must kill: {kills}");
    assert!(run(&top, None), "in the end it comes to its end");
    assert_eq!(outcome(&killed), expected);
}

/// A kill may come when the log has a segment and the repository not yet its refs.
#[test]
fn a_segment_without_its_refs_goes_on() {
    let project = project();
    let top = project.root.parent().expect("the top").to_owned();
    let head = "refs/duramen/experiments/speed/head";
    let start = "refs/duramen/experiments/speed/start-1";
    for after in 0..100 {
        if run(&top, Some((after, Duration::ZERO))) || !project.git(&["for-each-ref", start]).is_empty() {
            break;
        }
    }
    for name in [head, start] {
        project.git(&["update-ref", "-d", name]);
    }
    assert!(run(&top, None), "it goes on");
    assert_eq!(outcome(&project).noise, 2);
    assert!(!project.git(&["for-each-ref", start]).is_empty());
}

#[test]
fn a_full_disk_ends_the_command_and_the_next_one_goes_on() {
    let project = project();
    project.baseline();
    project.set("small", "80");
    project.set("held", "200");
    let length = fs::metadata(project.log_path()).expect("the log").len();
    // No file may become longer than this, in blocks of 512 bytes: room for a few samples.
    let blocks = length / 512 + 8;
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f \"$1\"; exec \"$2\" --exact kills_lose_nothing::child --nocapture",
            "sh",
        ])
        .args([&blocks.to_string(), &program.display().to_string()])
        .env(PART, "attempt")
        .env(TOP, project.root.parent().expect("the top"))
        .output()
        .expect("this program runs again");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("cannot append to the log"), "{told}");
    assert!(told.contains("is the disk full?"), "{told}");
    let taken = project.state().open_try().expect("an open try").samples.len();
    assert!((1..12).contains(&taken), "{taken} samples");
    let ended = project.attempt().expect("the try ends");
    assert_eq!((ended.number, ended.judgement.verdict), (1, Verdict::Keep), "{}", ended.judgement.reason);
    assert_eq!(outcome(&project).samples[&Purpose::Try(1)], 8);
}
