//! A git repository with a small program and a benchmark of it, and a series in it.
//!
//! The program is a folder of settings, one a file: what the benchmark prints is computed from them, with a
//! little noise that a counter makes. What is tested is the engine, not the program.

use duramen_experiment::{
    log::{self, Entry},
    series::{Change, Claim, Ended, First, Isolation, Options, Series, SeriesError},
    spec::Direction,
    state::State,
};
use std::{
    cell::{Cell, RefCell},
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// What the program begins as. `small`, `large` and `held` are its times at the three scales.
const SETTINGS: [(&str, &str); 6] = [
    ("small", "100"),
    ("large", "400"),
    ("held", "250"),
    ("memory", "1000"),
    ("clock", "77"),
    ("noise", "0.3"),
];

const BUILD: &str = r#"set -e
test ! -e program/broken
awk '{ n = split(FILENAME, part, "/"); print part[n], $1 }' program/* > built.txt
"#;

const BENCH: &str = r#"count=$(cat .count 2>/dev/null || echo 0)
count=$((count + 1))
echo $count > .count
exec awk -v scale="$1" -v count="$count" -f bench.awk built.txt
"#;

const AWK: &str = r#"{ v[$1] = $2 }
END {
    if (v["hang"] != "") system("sleep 600")
    if (v["exit"] != "") { print "it went wrong" > "/dev/stderr"; exit v["exit"] }
    if (v["mute"] != "") exit 0
    name["10"] = "small"; name["40"] = "large"; name["25"] = "held"
    wobble = (count * 7 % 11 - 5) / 5 * v["noise"] / 100
    time = v[name[scale]] * (1 + wobble)
    print "METRIC time_ms=" (v["time"] == "" ? time : v["time"])
    print "METRIC memory=" v["memory"]
    print "METRIC clock=" v["clock"] * (1 + wobble / 2)
    print "METRIC rows=" (v["rows"] == "" ? scale : v["rows"])
}
"#;

/// The spec of the series.
pub(crate) const SPEC: &str = r#"name = "speed"

[measure]
build = "sh build.sh"
command = "sh bench.sh {scale}"
quads = 4
warmups = 0
scratch = [".count"]
fixed_time = true
timeout_s = 20
build_timeout_s = 20

[primary]
held_out_share = 0.0
metric = "time_ms"
direction = "lower"

[[secondary]]
metric = "memory"
direction = "lower"
max_regression_percent = 10

[[sentinel]]
metric = "clock"
direction = "lower"
tolerance_percent = 5

[[scale]]
name = "small"
value = "10"

[[scale]]
name = "large"
value = "40"

[[scale]]
name = "held"
value = "25"
held_out = true

[[check]]
name = "answer"
command = "test ! -e program/wrong"
timeout_s = 20

[[invariant]]
holds = "rows == scale"

[scope]
allow = ["program/**"]

[budget]
tries = 20
proposer_timeout_s = 20

[stop]
rebaseline_keeps = 50
"#;

pub(crate) struct Project {
    _dir: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) work: PathBuf,
    /// What the engine told.
    pub(crate) said: RefCell<Vec<String>>,
    /// Whether the sides are walled off from each other.
    pub(crate) isolation: Cell<Isolation>,
    /// Whether the engine shall end.
    pub(crate) cancelled: Cell<bool>,
}

impl Project {
    /// A repository with one commit, and a series with [`SPEC`] without a baseline.
    pub(crate) fn new() -> Project {
        let project = Project::empty();
        let first = First {
            name: "speed",
            command: Some("sh bench.sh {scale}"),
            metric: "time_ms",
            direction: Direction::Lower,
        };
        Series::init(&project.series(), &first).expect("a series begins");
        project.spec(SPEC);
        project
    }

    /// The same without a series.
    pub(crate) fn empty() -> Project {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path().canonicalize().expect("its path");
        let (root, work) = (top.join("repo"), top.join("work"));
        let project = Project {
            _dir: dir,
            root,
            work,
            said: RefCell::default(),
            isolation: Cell::new(Isolation::WherePossible),
            cancelled: Cell::new(false),
        };
        fs::create_dir_all(project.root.join("program")).expect("a folder");
        for (name, value) in SETTINGS {
            project.set(name, value);
        }
        for (name, text) in [
            ("build.sh", BUILD),
            ("bench.sh", BENCH),
            ("bench.awk", AWK),
            (".gitignore", "built.txt\n.count\n"),
        ] {
            project.write(name, text);
        }
        project.git(&["init", "-q", "-b", "main"]);
        project.commit("Begin");
        project
    }

    pub(crate) fn series(&self) -> PathBuf {
        self.root.join("experiments/speed")
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.series().join(log::FILE_NAME)
    }

    pub(crate) fn spec(&self, text: &str) {
        fs::write(self.series().join("experiment.toml"), text).expect("the spec is written");
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), text).expect("a file is written");
    }

    /// Changes a setting of the program in the working tree.
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.write(&format!("program/{name}"), &format!("{value}\n"));
    }

    /// Puts the working tree back to HEAD, without the series.
    pub(crate) fn reset(&self) {
        self.git(&["checkout", "-q", "-f", "HEAD", "--", "."]);
        self.git(&["clean", "-fdq", "-e", "experiments"]);
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A", "--", ".", ":!experiments"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.root, args)
    }

    /// Opens the series for one thing.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Series<'_>) -> T) -> T {
        self.open(act).expect("the series opens")
    }

    pub(crate) fn open<T>(&self, act: impl FnOnce(&mut Series<'_>) -> T) -> Result<T, SeriesError> {
        let progress = |text: &str| self.said.borrow_mut().push(text.to_owned());
        let cancelled = || self.cancelled.get();
        let options = Options { progress: &progress, cancelled: &cancelled, isolation: self.isolation.get() };
        let mut series = Series::open(&self.series(), &self.work, options)?;
        Ok(act(&mut series))
    }

    pub(crate) fn baseline(&self) {
        self.with(|series| series.baseline()).expect("a baseline");
    }

    /// Tries what the working tree holds.
    pub(crate) fn attempt(&self) -> Result<Ended, SeriesError> {
        self.with(|series| series.attempt(&Change::WorkingTree, &claim()))
    }

    /// Tries what the working tree holds as a change of the head of the series.
    pub(crate) fn go_on(&self) -> Result<Ended, SeriesError> {
        let head = self.state().current().expect("a segment").head.clone();
        self.with(|series| series.attempt_from(&Change::WorkingTree, Some(&head), &claim()))
    }

    /// Changes one setting of the program as it is at HEAD, and tries that.
    pub(crate) fn try_with(&self, name: &str, value: &str) -> Ended {
        self.reset();
        self.set(name, value);
        self.attempt().expect("the try ends")
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        log::read(&self.log_path()).expect("the log is whole")
    }

    pub(crate) fn state(&self) -> State {
        let state = State::from_entries(&self.entries());
        assert_eq!(state.oddities, Vec::<String>::new());
        state
    }

    /// Whether any line that was told holds this.
    pub(crate) fn was_told(&self, text: &str) -> bool {
        self.said.borrow().iter().any(|line| line.contains(text))
    }
}

pub(crate) fn claim() -> Claim {
    Claim {
        hypothesis: "It takes less time".to_owned(),
        mechanism: "it does less".to_owned(),
        ..Claim::default()
    }
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// The processes whose current folder lies in this one.
pub(crate) fn processes_in(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let is_there = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder));
        if is_there {
            let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            found.push(line.replace('\0', " "));
        }
    }
    found
}
