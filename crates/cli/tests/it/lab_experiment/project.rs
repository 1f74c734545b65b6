//! A git repository with a program, a benchmark of it in sh, and the command run in it.

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// What the program's time is computed from, at each scale, with a little noise that a counter makes.
const BENCH: &str = r#"count=$(cat .count 2>/dev/null || echo 0)
count=$((count + 1))
echo $count > .count
sleep "$(cat program/slow)"
test ! -e program/broken || { echo 'it went wrong' >&2; exit 4; }
exec awk -v scale="$1" -v count="$count" '{
    printf "METRIC time_ms=%.6f\n", $1 * scale * (1 + (count * 7 % 11 - 5) / 2000)
    print "METRIC rows=" scale
}' program/time
"#;

/// A spec that is quick to go through.
const SPEC: &str = r#"name = "speed"

[measure]
command = "sh bench.sh {scale}"
quads = 4
warmups = 0
scratch = [".count"]
fixed_time = true
timeout_s = 30

[primary]
metric = "time_ms"
direction = "lower"

[[scale]]
name = "small"
value = "10"

[[scale]]
name = "held"
value = "25"
held_out = true

[[invariant]]
holds = "rows == scale"

[scope]
allow = ["program/**"]

[budget]
tries = 20

[stop]
rebaseline_keeps = 20
"#;

pub(crate) struct Project {
    dir: TempDir,
    home: PathBuf,
}

impl Project {
    /// A repository with the program.
    pub(crate) fn new() -> Project {
        let dir = tempfile::Builder::new().prefix("dm-x-").tempdir().unwrap();
        let home = dir.path().join("home");
        let project = Project { dir, home };
        fs::create_dir_all(project.root().join("program")).unwrap();
        project.write("bench.sh", BENCH);
        project.write("program/time", "100\n");
        project.write("program/slow", "0\n");
        project.write(".gitignore", ".count\n");
        project.git(&["init", "-q", "-b", "main"]);
        project.commit("a program");
        project
    }

    /// The same with the home of a daemon.
    pub(crate) fn at(home: &Path) -> Project {
        Project { home: home.to_owned(), ..Project::new() }
    }

    /// The same with a series in it, and its baseline.
    pub(crate) fn with_baseline() -> Project {
        let project = Project::new();
        project.begin();
        project.expect(0, &["baseline"]);
        project
    }

    /// `init`, the quick spec, and all committed.
    pub(crate) fn begin(&self) {
        let init = ["init", "speed", "--command", "sh bench.sh {scale}", "--metric", "time_ms"];
        self.expect(0, &init);
        self.write("experiment/experiment.toml", SPEC);
        self.commit("an experiment");
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("repository")
    }

    /// A place beside the repository.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root().join("experiment/experiments.jsonl")
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root().join(file)).unwrap()
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.current_dir(self.root()).args(["-c", "user.name=A", "-c", "user.email=a@example.org"]);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null").args(arguments);
        let output = command.output().expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    /// Commits everything but the log: in git, a checkout would put an older one in its place.
    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "-A", "--", ".", ":!experiment/experiments.jsonl"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// `duramen lab experiment` with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duramen"));
        command.current_dir(self.root()).env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env_remove("DURAMEN_HOME").arg("--home").arg(&self.home);
        command.args(["lab", "experiment"]).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// Runs it, and returns what it prints. The exit status must be this.
    pub(crate) fn expect(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (printed, complained) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{arguments:?}\n{printed}\n{complained}");
        if status == 0 {
            printed
        } else {
            printed + &complained
        }
    }

    /// The same with `--json`.
    pub(crate) fn json(&self, status: i32, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        let (printed, complained) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{arguments:?}\n{printed}\n{complained}");
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {printed}"))
    }

    /// `try` with a hypothesis.
    pub(crate) fn attempt(&self, status: i32, hypothesis: &str) -> String {
        self.expect(status, &["try", "--hypothesis", hypothesis, "--mechanism", "fewer steps"])
    }

    /// Tries the working tree as a change of the head of the series.
    pub(crate) fn go_on(&self, status: i32, hypothesis: &str) -> String {
        let head = self.json(0, &["status"])["head"].as_str().unwrap().to_owned();
        let claim = ["try", "--base", &head, "--hypothesis", hypothesis, "--mechanism", "fewer steps"];
        self.expect(status, &claim)
    }

    /// Everything of the user's: HEAD, branches, index, and what differs from it.
    pub(crate) fn of_the_user(&self) -> [String; 4] {
        [
            self.git(&["rev-parse", "HEAD"]),
            self.git(&["for-each-ref", "refs/heads", "refs/tags"]),
            self.git(&["ls-files", "-s"]),
            self.git(&["status", "--porcelain", "--", ".", ":!experiment"]),
        ]
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A script beside the repository.
pub(crate) fn script(project: &Project, name: &str, lines: &str) -> String {
    let path: &Path = &project.dir.path().join(name);
    fs::write(path, lines).unwrap();
    format!("sh {}", path.display())
}
