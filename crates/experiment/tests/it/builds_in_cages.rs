//! X20 with a real toolchain: cargo builds, runs and tests within walls, from packages that were fetched before and without the
//! network's help, and a proposer builds there too. It compiles a program a dozen times, and is left to `make test-long`.

use crate::project::git;
use duramen_experiment::{
    event::Verdict,
    series::{Change, Claim, First, Isolation, Limits, Options, Proposer, Series},
    spec::Direction,
};
use std::{fs, path::Path, process::Command};

const MANIFEST: &str = "[package]\nname = \"rows\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nfastrand = \"2\"\n";
const PROGRAM: &str = "\
fn steps(rows: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(7);
    (0..rows).map(|_| rng.u64(..1000) + 1000).sum()
}

fn main() {
    let rows = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(0);
    println!(\"METRIC steps={}\", steps(rows));
    println!(\"METRIC rows={rows}\");
}

#[test]
fn rows_take_steps() {
    assert!(steps(10) > 0);
}
";
const SPEC: &str = r#"name = "rows"

[measure]
build = "cargo build --release --offline --quiet"
command = "target/release/rows {scale}"
quads = 6
warmups = 0

[primary]
metric = "steps"
direction = "lower"

[[scale]]
name = "small"
value = "1000"

[[scale]]
name = "held"
draw = "2000..9000"
held_out = true

[[check]]
name = "tests"
command = "cargo test --offline --quiet"

[[invariant]]
holds = "rows == scale"

[budget]
tries = 4
"#;

fn in_folder<T>(root: &Path, work: &Path, act: impl FnOnce(&mut Series<'_>) -> T) -> T {
    let options = Options {
        progress: &|text| println!("{text}"),
        cancelled: &|| false,
        isolation: Isolation::Required,
    };
    act(&mut Series::open(&root.join("experiment"), work, options).expect("the series opens"))
}

#[test]
fn x20_cargo_builds_runs_and_tests_within_walls() {
    let dir = tempfile::tempdir().expect("a folder");
    let top = dir.path().canonicalize().expect("its path");
    let (root, work) = (top.join("repo"), top.join("work"));
    fs::create_dir_all(root.join("src")).expect("a folder");
    for (name, content) in [("Cargo.toml", MANIFEST), ("src/main.rs", PROGRAM), (".gitignore", "/target\n")] {
        fs::write(root.join(name), content).expect("a file is written");
    }
    // A package that the workspace has fetched.
    let lock = Command::new("cargo").args(["generate-lockfile", "--offline"]).current_dir(&root).output();
    let lock = lock.expect("cargo runs");
    assert!(lock.status.success(), "{}", String::from_utf8_lossy(&lock.stderr));
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-q", "-m", "A program"]);
    let first = First { name: "rows", command: Some("true"), metric: "steps", direction: Direction::Lower };
    Series::init(&root.join("experiment"), &first).expect("a series begins");
    fs::write(root.join("experiment/experiment.toml"), SPEC).expect("the spec is written");

    let baseline = in_folder(&root, &work, |series| series.baseline()).expect("a baseline");
    assert!(baseline.figures["small"]["steps"] > 0.0);
    fs::write(root.join("src/main.rs"), PROGRAM.replace("+ 1000)", "+ 500)")).expect("a change");
    let claim =
        Claim { hypothesis: "fewer steps".into(), mechanism: "half the base".into(), ..Claim::default() };
    let ended =
        in_folder(&root, &work, |series| series.attempt(&Change::WorkingTree, &claim)).expect("a try");
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);

    // Whoever proposes has the toolchain too, and what it builds with it is no part of the change.
    let proposer = Proposer::Command(
        "cat >/dev/null; cargo build --offline --quiet && sed -i 's/+ 500)/+ 100)/' src/main.rs && cargo test --offline --quiet >&2 && \
         echo '{\"hypothesis\":\"fewer still\",\"mechanism\":\"less\"}'"
            .to_owned(),
    );
    let limits = Limits { tries: Some(1), time: None };
    let stopped = in_folder(&root, &work, |series| series.propose(Some(proposer), limits)).expect("a run");
    let ended = &stopped.tries[0];
    assert_eq!(ended.judgement.verdict, Verdict::Keep, "{}", ended.judgement.reason);
    assert_eq!(ended.files, ["src/main.rs"]);
    assert!(!root.join("target").exists(), "nothing was built in the user's folder");
}
