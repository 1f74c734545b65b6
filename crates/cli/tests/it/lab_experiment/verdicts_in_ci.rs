//! `deploy/ci/duramen-verdict`, and the action and the template that use it: a pull request is judged, and has one comment.

use super::{
    forge::{Fault, Forge, BOT, TOKEN},
    project::{text, Project},
};
use crate::support;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A title that would be much more than a title.
const HOSTILE: &str =
    "`x` ``y`` @admin #1 | <img src=x onerror=alert(1)> [l](javascript:alert(1)) --> $(touch pwned)\n\n# big";

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// A job of CI: in a clone, with an environment of its own.
struct Job {
    dir: PathBuf,
    env: BTreeMap<&'static str, String>,
}

impl Job {
    fn new(dir: PathBuf, forge: &Forge, program: &Path) -> Job {
        let env = [
            ("PATH", std::env::var("PATH").expect("a path")),
            ("HOME", std::env::var("HOME").unwrap_or_else(|_| "/".to_owned())),
            ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
            ("DURAMEN_FORGE", "github".to_owned()),
            ("DURAMEN_FORGE_URL", format!("http://{}", forge.address)),
            ("DURAMEN_FORGE_TOKEN", TOKEN.to_owned()),
            ("DURAMEN_PROJECT", "acme/shop".to_owned()),
            ("DURAMEN_REQUEST", "7".to_owned()),
            ("DURAMEN_RUN", "5".to_owned()),
            ("DURAMEN_WAIT", "8".to_owned()),
            ("DURAMEN_PROGRAM", program.display().to_string()),
        ];
        Job { dir, env: env.into() }
    }

    fn with(&self, name: &'static str, value: &str) -> Job {
        let mut env = self.env.clone();
        env.insert(name, value.to_owned());
        Job { dir: self.dir.clone(), env }
    }

    fn sh(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.args(arguments).current_dir(&self.dir).env_clear().envs(&self.env);
        command.output().expect("a shell")
    }

    /// Judges `change` against `main`. The status must be this. Returns all that it said.
    fn judge(&self, status: i32) -> String {
        let script = deploy("ci/duramen-verdict");
        let output = self.sh(&["-x", script.to_str().expect("its path"), "main", "change"]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(!said.contains(TOKEN), "{said}");
        said
    }
}

/// A program in the place of ours that comes to a verdict at once: what it says stands in `body`, its status in `status`.
fn recorded(project: &Project) -> PathBuf {
    let program = project.beside("recorded");
    let script = "#!/bin/sh\nfor word; do case $word in\ntry) echo '{\"number\":1}'; exit 0 ;;\n\
                  comment) printf '%s\\n' \"${BODY-verdict of run $DURAMEN_RUN}\"; exit \"${STATUS-0}\" ;;\nesac; done\n";
    support::install(&program, script);
    program
}

/// A project with a series on `main`, and a branch `change` that changes the time to this.
fn project(time: &str) -> Project {
    let project = Project::new();
    project.begin();
    project.git(&["checkout", "-q", "-b", "change"]);
    project.write("program/time", &format!("{time}\n"));
    project.commit("a change");
    project.git(&["checkout", "-q", "main"]);
    project
}

/// What is left of Markdown without code spans.
fn outside_of_code(markdown: &str) -> String {
    let (mut left, mut rest) = (String::new(), markdown);
    while let Some(at) = rest.find('`') {
        left.push_str(&rest[..at]);
        let fence: String = rest[at..].chars().take_while(|c| *c == '`').collect();
        let inside = &rest[at + fence.len()..];
        let mut from = 0;
        loop {
            let Some(end) = inside[from..].find('`').map(|end| end + from) else { return left + inside };
            let run = inside[end..].chars().take_while(|c| *c == '`').count();
            if run == fence.len() {
                rest = &inside[end + run..];
                break;
            }
            from = end + run;
        }
    }
    left + rest
}

#[test]
fn a_pull_request_is_judged_and_has_one_comment() {
    let forge = Forge::open();
    let project = project("130");
    let job = Job::new(project.root(), &forge, Path::new(env!("CARGO_BIN_EXE_duramen")));
    let before = project.of_the_user();
    forge.with(|state| state.add("mallory", "<!-- duramen-verdict experiment 999 -->\nall is well"));

    let said = job.with("DURAMEN_TITLE", HOSTILE).judge(1);
    assert!(said.contains("**Duramen: worse** - ` time_ms ` +"), "{said}");
    let [comment] = &forge.with(|state| state.verdicts())[..] else { panic!("one comment") };
    assert!(
        comment.body.starts_with("<!-- duramen-verdict experiment 5 -->\n**Duramen: worse**"),
        "{}",
        comment.body
    );
    let (_, body) = comment.body.split_once('\n').expect("a mark");
    let left = outside_of_code(body);
    for sign in ["@", "<", "#", "[l]", "javascript", "-->", "$("] {
        assert!(!left.contains(sign), "{sign} in {left}");
    }
    assert!(body.contains("@admin") && !project.root().join("pwned").exists());

    // A push that is faster: the same comment.
    project.git(&["checkout", "-q", "change"]);
    project.write("program/time", "80\n");
    project.commit("faster");
    project.git(&["checkout", "-q", "main"]);
    let gain = job.with("DURAMEN_RUN", "6").with("DURAMEN_REQUIRE", "gain");
    assert!(gain.judge(0).contains("**Duramen: better**"));
    let [now] = &forge.with(|state| state.verdicts())[..] else { panic!("one comment") };
    assert_eq!(now.id, comment.id);
    assert!(
        now.body.starts_with("<!-- duramen-verdict experiment 6 -->\n**Duramen: better**"),
        "{}",
        now.body
    );
    assert_eq!(
        project.of_the_user(),
        before.clone().map(|it| it.replace(&before[1], &project.of_the_user()[1]))
    );
    assert!(
        !project.log().exists() || project.json(0, &["status"])["tries"] == 0,
        "the user's series is not touched"
    );
    let mallorys = forge.with(|state| state.comments[0].body.clone());
    assert!(mallorys.ends_with("all is well"));
}

#[test]
fn the_status_is_the_verdicts() {
    let forge = Forge::open();
    let project = project("100.01");
    let job = Job::new(project.root(), &forge, Path::new(env!("CARGO_BIN_EXE_duramen")));
    // No difference is fine, unless a gain is asked for.
    assert!(job.judge(0).contains("no difference shown"));
    job.with("DURAMEN_REQUIRE", "gain").with("DURAMEN_FORGE", "").judge(1);
    // A benchmark that the pull request made easier.
    project.git(&["checkout", "-q", "change"]);
    project.write("bench.sh", "echo METRIC time_ms=1; echo METRIC rows=$1\n");
    project.commit("easier");
    assert!(job.judge(3).contains("**Duramen: invalid**"));
    project.git(&["checkout", "-q", "main", "--", "bench.sh"]);
    project.write("program/broken", "");
    project.commit("broken");
    assert!(job.judge(1).contains("**Duramen: broken**"));
    // What cannot be judged says so in the comment too.
    let said = job.with("DURAMEN_ARGUMENTS", "--no-such-option").judge(4);
    assert!(said.contains("not judged"), "{said}");
    let [comment] = &forge.with(|state| state.verdicts())[..] else { panic!("one comment") };
    assert!(
        comment.body.contains("not judged") && comment.body.contains("--no-such-option"),
        "{}",
        comment.body
    );
    assert!(job.with("DURAMEN_SERIES", "nowhere").judge(4).contains("has no nowhere/experiment.toml"));
    for (name, value) in
        [("DURAMEN_SERIES", "../x"), ("DURAMEN_RUN", "1; id"), ("DURAMEN_PROGRAM", "no-such-program")]
    {
        job.with(name, value).judge(4);
    }
}

/// What the base gained since the change left it is not taken back by it.
#[test]
fn a_base_that_went_on_is_no_part_of_what_is_judged() {
    let forge = Forge::open();
    let project = project("100.01");
    project.write("program/time", "50\n");
    project.commit("a gain of somebody else");
    project.git(&["checkout", "-q", "change"]);
    project.git(&["checkout", "-q", "main~1", "--", "program/time"]);
    project.write("program/other", "1\n");
    project.commit("nothing with time");
    project.git(&["checkout", "-q", "main"]);
    let job = Job::new(project.root(), &forge, Path::new(env!("CARGO_BIN_EXE_duramen")));
    // A title is a title, also if it looks like an option.
    let said = job.with("DURAMEN_TITLE", "--allow-unisolated").with("GITHUB_ACTIONS", "true").judge(0);
    assert!(said.contains("no difference shown") && said.contains("::stop-commands::"), "{said}");
}

#[test]
fn a_change_that_is_not_isolated_is_not_judged_beside_a_token() {
    let forge = Forge::open();
    let project = project("80");
    let begun = project.beside("begun");
    let program = project.beside("touches");
    support::install(&program, &format!("#!/bin/sh\ntouch {}\n", begun.display()));
    let job = Job::new(project.root(), &forge, &program);
    for arguments in ["--allow-unisolated", "--series x\t--allow-unisolated", "--allow-unisolated --quiet"] {
        let said = job.with("DURAMEN_ARGUMENTS", arguments).judge(4);
        assert!(said.contains("could read DURAMEN_FORGE_TOKEN"), "{said}");
    }
    assert!(!begun.exists(), "it was begun");
    assert_eq!(forge.with(|state| state.comments.len()), 0);
    job.with("DURAMEN_ARGUMENTS", "--allow-unisolated").with("DURAMEN_FORGE_TOKEN", "").judge(4);
    assert!(begun.exists(), "without a token it is judged");
}

#[test]
fn whatever_the_forge_does_there_is_one_comment_and_the_status_is_the_verdicts() {
    let forge = Forge::open();
    let project = project("80");
    let job = Job::new(project.root(), &forge, &recorded(&project)).with("STATUS", "1");
    let fault = |method, status, is_done| Fault { method, status, headers: vec![], is_done };
    let one = |run: u32| {
        let [comment] = &forge.with(|state| state.verdicts())[..] else {
            panic!("one comment: {:?}", forge.with(|state| state.comments.clone()))
        };
        assert!(comment.body.ends_with(&format!("verdict of run {run}\n")), "{}", comment.body);
        comment.id
    };
    // A full page of others' comments comes first.
    for at in 0..150 {
        forge.with(|state| state.add("somebody", &format!("comment {at}")));
    }
    // It was made, and the answer was lost: made again, and one is taken away.
    forge.with(|state| state.faults = vec![fault("POST", 502, true), fault("GET", 500, false)]);
    job.judge(1);
    let id = one(5);
    // Limits, as both forges say them.
    let limits: [(u16, Vec<(&str, String)>); 3] = [
        (429, vec![("Retry-After", "1".to_owned())]),
        (403, vec![("x-ratelimit-remaining", "0".to_owned()), ("x-ratelimit-reset", "1".to_owned())]),
        (403, vec![("retry-after", "1".to_owned())]),
    ];
    for (run, (status, headers)) in (6..).zip(limits) {
        let limited = Fault { method: "PATCH", status, headers, is_done: false };
        forge.with(|state| state.faults = vec![limited]);
        job.with("DURAMEN_RUN", &run.to_string()).judge(1);
        assert_eq!(one(run), id);
    }
    // A limit that lasts longer than anybody waits; a forge that is down for good; a token that may not.
    let later = Fault { headers: vec![("retry-after", "3600".to_owned())], ..fault("PATCH", 429, false) };
    for faults in [vec![later], vec![fault("PATCH", 503, false); 20], vec![fault("PATCH", 403, false)]] {
        forge.with(|state| state.faults = faults);
        let said = job.with("DURAMEN_RUN", "9").judge(1);
        assert!(said.contains("the verdict is not commented") && said.contains("verdict of run 9"), "{said}");
        assert_eq!(one(8), id);
    }
    forge.with(|state| state.faults.clear());
    // An older run that took longer says nothing any more.
    assert!(job.with("DURAMEN_RUN", "7").judge(1).contains("run 8 is newer"));
    assert_eq!(one(8), id);
    // A fork has no token, or one that may not write; a wrong address; an address in the clear.
    for (name, value, why) in [
        ("DURAMEN_FORGE_TOKEN", "", "there is no token"),
        ("DURAMEN_FORGE_TOKEN", "wrong", "status 401: Bad credentials"),
        ("DURAMEN_FORGE_TOKEN", "a\"\nurl = http://evil.example", "characters that no token has"),
        ("DURAMEN_FORGE_URL", "http://api.example", "in the clear"),
        ("DURAMEN_FORGE_URL", "https://a/\" -o x", "characters that no URL"),
        ("DURAMEN_PROJECT", "acme/shop/../../user", "is not OWNER/REPOSITORY"),
        ("DURAMEN_REQUEST", "7/../8", "is not a number"),
        ("DURAMEN_FORGE", "other", "neither github nor gitlab"),
    ] {
        let said = job.with("DURAMEN_RUN", "9").with(name, value).judge(1);
        assert!(said.contains(why), "{why}: {said}");
    }
    assert_eq!(one(8), id);
}

#[test]
fn runs_at_the_same_time_leave_one_comment_of_the_newest() {
    for at_first in [true, false] {
        let forge = Forge::open();
        let project = project("80");
        let job = Job::new(project.root(), &forge, &recorded(&project));
        // Neither sees the comment of the other before it has made its own.
        forge.with(|state| state.meeting = 2);
        let runs = if at_first { ["5", "6"] } else { ["6", "5"] };
        std::thread::scope(|scope| {
            for run in runs {
                let job = job.with("DURAMEN_RUN", run);
                scope.spawn(move || job.judge(0));
            }
        });
        let [comment] = &forge.with(|state| state.verdicts())[..] else {
            panic!("one comment: {:?}", forge.with(|state| state.comments.clone()))
        };
        assert!(comment.body.ends_with("verdict of run 6\n"), "{}", comment.body);
    }
}

/// The lines below a key of a YAML file, without their indent.
fn block(file: &str, key: &str) -> String {
    let whole = fs::read_to_string(deploy(file)).expect("the file");
    let mut lines = whole.lines().skip_while(|line| line.trim_start() != key);
    let outer = lines.next().expect("the key");
    let indent = |line: &str| line.len() - line.trim_start().len();
    let below: Vec<&str> = lines.take_while(|line| line.is_empty() || indent(line) > indent(outer)).collect();
    let inner = below.iter().filter(|line| !line.is_empty()).map(|line| indent(line)).min().expect("lines");
    below.iter().map(|line| format!("{}\n", line.get(inner..).unwrap_or_default())).collect()
}

#[test]
fn the_action_and_the_template_judge_too() {
    let forge = Forge::open();
    let project = project("80");
    let job = Job::new(project.root(), &forge, &recorded(&project));
    let script = block("github-action/verdict/action.yml", "run: |");
    assert!(!script.contains("${{"), "names are no part of the script: {script}");
    let action = job
        .with("GITHUB_ACTION_PATH", deploy("github-action/verdict").to_str().expect("its path"))
        .with("GITHUB_OUTPUT", project.beside("output").to_str().expect("its path"))
        .with("GITHUB_STEP_SUMMARY", project.beside("summary").to_str().expect("its path"))
        .with("BASE", "main")
        .with("HEAD", "change")
        .with("STATUS", "3");
    let output = action.sh(&["-eu", "-c", &script]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(fs::read_to_string(project.beside("output")).expect("outputs"), "status=3\n");
    assert_eq!(fs::read_to_string(project.beside("summary")).expect("a summary"), "verdict of run 5\n");
    assert_eq!(forge.with(|state| state.verdicts().len()), 1);

    // A note of GitLab is of whom the token belongs to.
    let forge = Forge::open();
    forge.with(|state| state.add("mallory", "<!-- duramen-verdict experiment 999 -->"));
    fs::create_dir(project.root().join("ci")).expect("a folder");
    fs::copy(deploy("ci/duramen-verdict"), project.root().join("ci/duramen-verdict")).expect("the script");
    project.commit("what judges");
    // One that a merge request brings along judges nothing.
    fs::write(project.root().join("ci/duramen-verdict"), "exit 0\n").expect("another one");
    let lines: String = block("gitlab/duramen-verdict.yml", "script:")
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix("- ").unwrap_or(line)))
        .collect();
    let job = Job::new(project.root(), &forge, &recorded(&project))
        .with("DURAMEN_FORGE", "gitlab")
        .with("CI_API_V4_URL", &format!("http://{}", forge.address))
        .with("CI_PROJECT_ID", "42")
        .with("CI_MERGE_REQUEST_IID", "7")
        .with("CI_PIPELINE_ID", "12")
        .with("CI_MERGE_REQUEST_TITLE", HOSTILE)
        .with("CI_MERGE_REQUEST_DIFF_BASE_SHA", "main")
        .with("CI_COMMIT_SHA", "change")
        .with("CI_JOB_ID", "9")
        .with("CI_BUILDS_DIR", project.beside("").to_str().expect("its path"));
    for run in ["12", "13"] {
        let output = job.with("CI_PIPELINE_ID", run).sh(&["-eu", "-c", &lines]);
        assert!(output.status.success(), "{output:?}");
        let [note] = &forge.with(|state| state.verdicts())[..] else { panic!("one note") };
        assert!(
            note.author == BOT && note.body.ends_with(&format!("verdict of run {run}\n")),
            "{}",
            note.body
        );
    }
    assert!(!project.root().join("pwned").exists());
}
