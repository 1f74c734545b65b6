//! `deploy/ci/duramen-branch`, and the action and the template that use it: a branch for a pull request.

use super::client::{Site, Who};
use crate::support::{self, text, wire};
use duramen_api::token::{CreateToken, Role};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Branches of git, and worse.
const HOSTILE: [&str; 12] = [
    "feature/login",
    "feature-login",
    "Feature/Login",
    "it's \"quoted\"",
    "$(touch pwned)",
    "`touch pwned`; touch pwned",
    "a\nurl=postgresql://evil@example/",
    "../../v1/sources/app?x=1#y",
    "-rf --output x",
    "%s%n \\ \\n",
    "\u{fc}\u{4f60}\u{1f333}",
    "a-name-that-is-longer-than-any-branch-may-be-called-by-far-and-goes-on-and-on",
];

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// Who runs the script, in a folder of its own.
struct Job {
    dir: tempfile::TempDir,
    env: BTreeMap<&'static str, String>,
}

impl Job {
    fn new(who: &Who, name: &str) -> Job {
        let env = [
            ("DURAMEN_URL", format!("http://{}", who.door)),
            ("DURAMEN_TOKEN", format!("{name}:{}", who.secret)),
            ("PATH", std::env::var("PATH").expect("a path")),
        ];
        Job { dir: tempfile::tempdir().expect("a folder"), env: env.into() }
    }

    fn with(&self, name: &'static str, value: &str) -> Job {
        let mut env = self.env.clone();
        env.insert(name, value.to_owned());
        Job { dir: tempfile::tempdir().expect("a folder"), env }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn sh(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.args(arguments).current_dir(self.dir.path()).env_clear().envs(&self.env);
        command.output().expect("a shell")
    }

    fn script(&self, arguments: &[&str]) -> Output {
        let path = deploy("ci/duramen-branch");
        self.sh(&[&["-x", path.to_str().expect("its path")], arguments].concat())
    }

    /// What it wrote: the name and the URL.
    fn open(&self, key: &str) -> (String, String) {
        let _ = fs::remove_file(self.path("found"));
        let output = self.script(&["open", key, "found"]);
        assert!(output.status.success(), "{key:?}: {output:?}");
        self.says_nothing(&output);
        found(&fs::read_to_string(self.path("found")).expect("what it found"))
    }

    /// Fails, with nothing written and the reason told.
    fn refuses(&self, arguments: &[&str], why: &str) {
        fs::write(self.path("found"), "before\n").expect("a file");
        let output = self.script(arguments);
        assert!(!output.status.success(), "{output:?}");
        assert!(text(&output.stderr).contains(why), "{why}: {output:?}");
        assert_eq!(fs::read_to_string(self.path("found")).expect("the file"), "before\n");
        self.says_nothing(&output);
    }

    fn says_nothing(&self, output: &Output) {
        let said = text(&output.stdout) + &text(&output.stderr);
        let secret = self.env["DURAMEN_TOKEN"].split_once(':').map_or("", |(_, secret)| secret);
        assert!(secret.is_empty() || !said.contains(secret), "{said}");
    }
}

fn found(text: &str) -> (String, String) {
    let lines: Vec<&str> = text.lines().collect();
    let [name, url] = lines[..] else { panic!("{text}") };
    let value = |line: &str, key: &str| line.strip_prefix(key).expect("the line").to_owned();
    (value(name, "name="), value(url, "url="))
}

async fn site() -> (Site, Job) {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let who = site.token("ci", Role::User, &["app"]).await;
    let job = Job::new(&who, "ci");
    (site, job)
}

async fn leased(site: &mut Site) -> usize {
    site.connection.branches().await.expect("the branches").len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_request_has_one_branch_until_it_is_closed() {
    let (mut site, job) = site().await;
    let (name, url) = job.open("acme/shop#7");
    assert!(name.starts_with("acme-shop-7-"), "{name}");
    let mode = fs::metadata(job.path("found")).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let client = wire(&url).await;
    client.batch_execute("delete from t").await.expect("a statement");

    // A push: the same branch, as it was left, and longer.
    let until = site.connection.branch(&name).await.expect("the branch").expires_at;
    assert_eq!(job.with("DURAMEN_TTL", "7200").open("acme/shop#7"), (name.clone(), url));
    assert!(site.connection.branch(&name).await.expect("the branch").expires_at > until);
    let left: i64 = client.query_one("select count(*) from t", &[]).await.expect("a row").get(0);
    assert_eq!(left, 0);
    assert_eq!(leased(&mut site).await, 1);

    for said in ["destroyed the branch", "does not exist"] {
        let output = job.script(&["close", "acme/shop#7"]);
        assert!(output.status.success() && text(&output.stdout).contains(said), "{output:?}");
        job.says_nothing(&output);
    }
    assert_eq!(leased(&mut site).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_key_is_a_name_and_no_two_share_a_branch() {
    let (mut site, job) = site().await;
    let names: BTreeSet<String> = HOSTILE.iter().map(|key| job.open(key).0).collect();
    assert_eq!(names.len(), HOSTILE.len());
    assert_eq!(leased(&mut site).await, HOSTILE.len());
    assert!(!job.path("pwned").exists());
    for key in HOSTILE {
        assert!(job.script(&["close", key]).status.success(), "{key:?}");
    }
    assert_eq!(leased(&mut site).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_wrong_there_is_no_url() {
    let (mut site, job) = site().await;
    let open = ["open", "a", "found"];
    job.with("DURAMEN_TOKEN", "ci:wrong").refuses(&open, "token");
    job.with("DURAMEN_TOKEN", "").refuses(&open, "DURAMEN_TOKEN is not set");
    job.with("DURAMEN_TOKEN", "ci:a\"\nurl = http://evil.example")
        .refuses(&open, "the secret in DURAMEN_TOKEN");
    job.with("DURAMEN_URL", "").refuses(&open, "DURAMEN_URL is not set");
    job.with("DURAMEN_URL", "http://db.example:6433").refuses(&open, "in the clear");
    job.with("DURAMEN_URL", "http://127.0.0.1:1").refuses(&open, "did not answer");
    job.with("DURAMEN_URL", "http://127.0.0.1:1").refuses(&["close", "a"], "did not answer");
    job.with("DURAMEN_URL", "https://db.example/\" -o x").refuses(&open, "characters");
    job.with("DURAMEN_CA", "nowhere.pem").refuses(&open, "cannot be read");
    job.with("DURAMEN_SOURCE", "app\",\"name\":\"x").refuses(&open, "DURAMEN_SOURCE");
    job.with("DURAMEN_SOURCE", "other").refuses(&open, "may not use the source other");
    job.with("DURAMEN_POLICY", "ddl'").refuses(&open, "DURAMEN_POLICY");
    job.with("DURAMEN_TTL", "1h").refuses(&open, "DURAMEN_TTL");
    job.refuses(&["open", "", "found"], "the key is empty");
    job.refuses(&["open", "a"], "usage");
    job.refuses(&[], "usage");
    assert_eq!(leased(&mut site).await, 0);
    // Somebody else's branch is not closed, though it has the name.
    let (name, _) = job.open("a");
    let other = site.make(CreateToken { name: "other".to_owned(), ..CreateToken::default() }).await;
    let output = Job::new(&other, "other").script(&["close", "a"]);
    assert!(text(&output.stdout).contains("does not exist"), "{output:?}");
    assert!(site.connection.branch(&name).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_and_the_secret_is_no_argument_of_a_program() {
    let (site, job) = site().await;
    let url = format!("https://localhost:{}", site.door.port());
    job.with("DURAMEN_URL", &url).refuses(&["open", "a", "found"], "certificate");
    // A curl before the real one, which tells how it was called.
    let curl = "#!/bin/sh\nprintf '%s\\n' \"$@\" >>\"$CALLS\"\nPATH=${PATH#*:} exec curl \"$@\"\n";
    let folder = job.path("bin");
    fs::create_dir(&folder).expect("a folder");
    support::install(&folder.join("curl"), curl);
    let certificate = site.home.path().join("doors/certificate.pem");
    let calls = job.path("calls");
    let path = format!("{}:{}", folder.display(), job.env["PATH"]);
    let traced = job
        .with("DURAMEN_URL", &url)
        .with("DURAMEN_CA", certificate.to_str().expect("its path"))
        .with("CALLS", calls.to_str().expect("its path"))
        .with("PATH", &path);
    let (name, _) = traced.open("a");
    assert!(traced.script(&["close", "a"]).status.success());
    let calls = fs::read_to_string(calls).expect("calls");
    let (_, secret) = job.env["DURAMEN_TOKEN"].split_once(':').expect("a token");
    assert!(calls.contains(&name) && !calls.contains(secret), "{calls}");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_action_gives_a_masked_url_and_destroys_at_the_end() {
    let (mut site, job) = site().await;
    let script = block("github-action/action.yml", "run: |");
    assert!(!script.contains("${{"), "names are no part of the script: {script}");
    let ca = fs::read_to_string(site.home.path().join("doors/certificate.pem")).expect("the certificate");
    let job = job
        .with("DURAMEN_URL", &format!("https://localhost:{}", site.door.port()))
        .with("CA", &ca)
        .with("KEY", "acme/shop#$(touch pwned)'\"")
        .with("GITHUB_ACTION_PATH", deploy("github-action").to_str().expect("its path"))
        .with("EVENT", "synchronize")
        .with("RUNNER_TEMP", site.home.beside("").to_str().expect("its path"))
        .with("GITHUB_OUTPUT", "output");
    let output = job.sh(&["-eu", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    let (_, url) = found(&fs::read_to_string(job.path("output")).expect("outputs"));
    wire(&url).await.batch_execute("select 1 from t").await.expect("a statement");
    let (_, secret) = job.env["DURAMEN_TOKEN"].split_once(':').expect("a token");
    let said = text(&output.stdout);
    let first = said.lines().next().expect("a line");
    assert_eq!(first, format!("::add-mask::{secret}"));
    assert!(said.contains(&format!("::add-mask::{url}\n")));
    let masks = |line: &&str| !line.starts_with("::add-mask::");
    assert!(!said
        .lines()
        .filter(masks)
        .chain(text(&output.stderr).lines())
        .any(|line| line.contains(secret)));

    let closed = job.with("EVENT", "closed");
    let output = closed.sh(&["-eu", "-c", &script]);
    assert!(output.status.success() && !closed.path("output").exists(), "{output:?}");
    assert_eq!(leased(&mut site).await, 0);
    assert!(!closed.path("pwned").exists() && !job.path("pwned").exists());

    let unreachable = job.with("DURAMEN_URL", "https://localhost:1");
    let output = unreachable.sh(&["-eu", "-c", &script]);
    assert!(!output.status.success() && !unreachable.path("output").exists(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_template_has_the_url_in_its_jobs() {
    let (mut site, job) = site().await;
    let job = job.with("CI_PROJECT_PATH", "acme/shop").with("CI_MERGE_REQUEST_IID", "7");
    fs::create_dir(job.path("ci")).expect("a folder");
    fs::copy(deploy("ci/duramen-branch"), job.path("ci/duramen-branch")).expect("the script");
    let lines = |key: &str| {
        let block = block("gitlab/duramen-branch.yml", key);
        let line = |line: &str| format!("{}\n", line.strip_prefix("- ").unwrap_or(line));
        block.lines().map(line).collect::<String>()
    };
    let before = lines("before_script:") + "printf %s \"$DATABASE_URL\" >url\n";
    let output = job.sh(&["-eu", "-c", &before]);
    assert!(output.status.success(), "{output:?}");
    job.says_nothing(&output);
    let url = fs::read_to_string(job.path("url")).expect("the URL");
    wire(&url).await.batch_execute("select 1 from t").await.expect("a statement");
    let output = job.sh(&["-eu", "-c", &lines("script:")]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(leased(&mut site).await, 0);
}
