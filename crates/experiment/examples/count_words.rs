//! A series from its beginning to its verdict, on a program that is made for it: a script that counts words.
//!
//! Run with `cargo run --release -p duramen-experiment --example count_words`. It takes half a minute.

use duramen_experiment::series::{Change, Claim, First, Options, Series};
use duramen_experiment::spec::Direction;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

const SLOW: &str = "sort words.txt | uniq -c | sort -n | awk '{ n++ } END { print \"METRIC words=\" n }'\n";
const FAST: &str = "awk '!seen[$0]++ { n++ } END { print \"METRIC words=\" n }' words.txt\n";
const MAKE_WORDS: &str = "awk 'BEGIN { for (i = 0; i < 100000; i++) print i * 7919 % 5000 }' > words.txt\n";
/// What `init` writes is a spec with a comment to everything; this is the same without them.
const SPEC: &str = r#"
name = "count-words"

[measure]
build = "sh make-words.sh"
command = "sh count.sh"
quads = 6

# No line of the output has this name, so it is the time that the whole command takes.
[primary]
metric = "wall_s"
direction = "lower"
min_effect_percent = 5

# What is fast and wrong is not kept.
[[invariant]]
holds = "words == 5000"

[scope]
allow = ["count.sh"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let top = tempfile::tempdir()?;
    let repository = top.path().join("repository");
    fs::create_dir(&repository)?;
    fs::write(repository.join("count.sh"), SLOW)?;
    fs::write(repository.join("make-words.sh"), MAKE_WORDS)?;
    fs::write(repository.join(".gitignore"), "words.txt\n")?;
    git(&repository, &["init", "--quiet"])?;
    git(&repository, &["add", "."])?;
    git(
        &repository,
        &["-c", "user.name=You", "-c", "user.email=you@localhost", "commit", "--quiet", "-m", "Begin"],
    )?;

    let folder = repository.join("experiments/count-words");
    let first = First {
        name: "count-words",
        command: Some("sh count.sh"),
        metric: "wall_s",
        direction: Direction::Lower,
    };
    let spec = Series::init(&folder, &first)?;
    fs::write(spec, SPEC)?;

    let options = Options {
        progress: &|text| eprintln!("{text}"),
        cancelled: &|| false,
        isolation: duramen_experiment::series::Isolation::WherePossible,
    };
    let mut series = Series::open(&folder, &top.path().join("worktrees"), options)?;
    let baseline = series.baseline()?;
    println!("noise floor: {:.1} %", baseline.floor * 100.0);

    // The change is made in the working tree, as ever. Nothing in it is touched by the try.
    fs::write(repository.join("count.sh"), FAST)?;
    let claim = Claim {
        hypothesis: "Counting distinct words needs no sorting".to_owned(),
        mechanism: "one pass with a table takes the place of two sorts".to_owned(),
        ..Claim::default()
    };
    let ended = series.attempt(&Change::WorkingTree, &claim)?;
    println!("{:?}: {}", ended.judgement.verdict, ended.judgement.reason);
    Ok(())
}

fn git(dir: &Path, args: &[&str]) -> Result<(), Box<dyn Error>> {
    let status = Command::new("git").args(args).current_dir(dir).status()?;
    status.success().then_some(()).ok_or_else(|| format!("git {args:?} failed").into())
}
