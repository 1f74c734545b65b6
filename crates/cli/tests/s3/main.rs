//! The store's commands on stores at URLs, through the real program: in a folder (`file://`), and on an S3 server where
//! `DURAMEN_VERSITYGW` names one (`make test-store-s3`).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

#[path = "../../../store-s3/tests/it/server.rs"]
#[allow(dead_code, reason = "its clients are for tests below the program")]
mod server;
#[path = "../it/store_cli/shell.rs"]
#[allow(dead_code, reason = "some of it is for packs")]
mod shell;

use server::{Server, KEY, SECRET};
use shell::{said, text, Shell};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Output, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who has a bucket.
struct User {
    shell: Shell,
    server: Option<Server>,
    url: String,
}

impl User {
    fn in_a_folder() -> Self {
        let shell = Shell::new();
        let url = format!("file://{}", shell.beside("bucket dir").display());
        Self { shell, server: None, url }
    }

    /// All the buckets that there are.
    fn all() -> Vec<Self> {
        let on_server = Server::start().map(|server| Self {
            shell: Shell::new(),
            server: Some(server),
            url: "s3://bucket/trees/of mine".to_owned(),
        });
        [Self::in_a_folder()].into_iter().chain(on_server).collect()
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.shell.command(&[arguments, &["--at", &self.url]].concat());
        if let Some(server) = &self.server {
            command
                .env("AWS_ENDPOINT", format!("http://{}", server.address()))
                .env("AWS_ALLOW_HTTP", "true")
                .env("AWS_REGION", "us-east-1")
                .env("AWS_ACCESS_KEY_ID", KEY)
                .env("AWS_SECRET_ACCESS_KEY", SECRET);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.start(arguments).wait_with_output().unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{} {arguments:?}: {}", self.url, said(&output));
        text(&output.stdout)
    }

    #[track_caller]
    fn fails(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(status), "{} {arguments:?}: {}", self.url, said(&output));
        let told = text(&output.stderr);
        assert!(!told.contains(SECRET), "{told}");
        told
    }
}

/// A shell that has the store open.
struct Open {
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Open {
    fn new(user: &User, more: &[&str]) -> Self {
        let mut process = user.start(&[&["shell"], more].concat());
        let input = process.stdin.take().unwrap();
        let (tell, answers) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { process, input, answers }
    }

    fn says(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    #[track_caller]
    fn answers(&mut self, line: &str) -> String {
        self.says(line);
        self.answers.recv_timeout(PATIENCE).unwrap()
    }

    /// Without a chance to close anything.
    fn killed(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// What it said on its standard error.
    fn ended(self) -> String {
        let Self { process, input, .. } = self;
        drop(input);
        text(&process.wait_with_output().unwrap().stderr)
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_said_once_and_done_without() {
    for user in User::all() {
        user.ok(&["init"]);
        let file = user.shell.beside("a file");
        std::fs::write(&file, "x").unwrap();
        let cache = file.join("cache").display().to_string();
        let output = user.run(&["kv", "put", "k", "v", "--cache", &cache]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(text(&output.stderr).matches("goes on without it").count(), 1, "{}", said(&output));
        assert_eq!(user.ok(&["kv", "get", "k", "--cache", &cache]), "v\n");
    }
}

#[test]
fn a_store_at_a_url_is_a_store() {
    for user in User::all() {
        let error = user.fails(1, &["kv", "put", "k", "v"]);
        assert!(error.contains("no store at") && error.contains("--create"), "{error}");
        user.fails(1, &["kv", "get", "k"]);
        assert!(user.ok(&["init"]).contains(&user.url));
        user.ok(&["kv", "put", "greeting", "hello", "--durability", "strict"]);
        assert_eq!(user.ok(&["kv", "get", "greeting"]), "hello\n");
        user.ok(&["branch", "fork", "try"]);
        user.ok(&["kv", "put", "greeting", "hi", "--branch", "try"]);
        assert_eq!(user.ok(&["kv", "get", "greeting", "--branch", "try"]), "hi\n");
        assert_eq!(user.ok(&["kv", "get", "greeting"]), "hello\n");
        assert!(user.ok(&["branch", "diff", "main", "try"]).contains("1 modified"));
        user.ok(&["checkpoint"]);
        user.ok(&["branch", "merge", "try", "--into", "main"]);
        assert_eq!(user.ok(&["kv", "get", "greeting"]), "hi\n");

        user.ok(&["history", "keep", "--versions", "100"]);
        user.ok(&["tag", "create", "v1"]);
        user.ok(&["kv", "put", "greeting", "hey"]);
        user.ok(&["checkpoint"]);
        assert_eq!(user.ok(&["kv", "get", "greeting", "--branch", "main@v1"]), "hi\n");
        let listed = user.ok(&["history", "list"]);
        assert!(listed.contains("v1") && listed.contains("unknown size"), "{listed}");
        let listed = user.ok(&["history", "list", "--json"]);
        assert!(listed.contains("\"bytes\": null") || listed.contains("\"bytes\":null"), "{listed}");
        let error = user.fails(1, &["history", "keep", "--bytes", "1000000"]);
        assert!(error.contains("limit versions, or how far back"), "{error}");
        user.ok(&["event", "append", "log", "{\"n\": 1}"]);
        assert_eq!(user.ok(&["event", "length"]), "1\n");
        user.ok(&["verify"]);
        let info: serde_json::Value = serde_json::from_str(&user.ok(&["info", "--json"])).unwrap();
        assert_eq!(
            (&info["path"], &info["disk_bytes"]),
            (&user.url.clone().into(), &serde_json::Value::Null)
        );
        assert!(info["node_bytes"].as_u64().unwrap() > 0, "{info}");

        for refused in [&["branch", "switch", "try"][..], &["backup", "there"], &["repair"], &["upgrade"]] {
            let error = user.fails(2, refused);
            assert!(error.contains("is in object storage"), "{refused:?}: {error}");
        }
        let there: Vec<_> = std::fs::read_dir(user.shell.beside(".")).unwrap().collect();
        assert!(there.len() <= 3, "something was made beside the store: {there:?}");
    }
}

#[test]
fn a_store_that_was_not_closed_is_taken_over_only_by_name() {
    for user in User::all() {
        user.ok(&["init"]);
        let mut first = Open::new(&user, &["--durability", "strict"]);
        assert!(first.answers("kv put k 1").starts_with("put"));
        let error = user.fails(1, &["kv", "put", "k", "2"]);
        assert!(error.contains("is open in") && error.contains("`--take-over`"), "{error}");
        assert!(error.contains(&format!("process {}", first.process.id())), "{error}");
        // It was not disturbed, and whoever reads may.
        assert!(first.answers("kv put k 3").starts_with("put"));
        assert_eq!(user.ok(&["kv", "get", "k"]), "3\n");
        first.killed();
        let error = user.fails(1, &["kv", "put", "k", "4"]);
        assert!(error.contains("`--take-over`"), "{error}");
        assert_eq!(user.ok(&["kv", "get", "k"]), "3\n");
        assert!(user.ok(&["kv", "put", "k", "5", "--take-over"]).starts_with("put"));
        // That one was closed.
        assert!(user.ok(&["kv", "put", "k", "6"]).starts_with("put"));

        // One that lives is told, and what it had acknowledged is there.
        let mut second = Open::new(&user, &["--durability", "strict"]);
        assert!(second.answers("kv put mine 7").starts_with("put"));
        user.ok(&["kv", "put", "k", "8", "--take-over"]);
        second.says("kv put mine 9");
        let told = second.ended();
        assert!(told.contains("another writer has taken the store over"), "{told}");
        assert_eq!(user.ok(&["kv", "get", "mine"]), "7\n");
        assert_eq!(user.ok(&["kv", "get", "k"]), "8\n");
    }
}

#[test]
fn a_log_on_this_host_goes_with_its_store() {
    for user in User::all() {
        let log = user.shell.beside("log").display().to_string();
        user.ok(&["init", "--log-at", &log]);
        user.ok(&["kv", "put", "k", "1", "--log-at", &log]);
        let error = user.fails(1, &["kv", "put", "k", "2"]);
        assert!(error.contains("`--log-at DIR`, and `--give-up-log`"), "{error}");
        let other = user.shell.beside("other").display().to_string();
        let error = user.fails(1, &["kv", "put", "k", "2", "--log-at", &other]);
        assert!(error.contains("keeps its commit log"), "{error}");
        assert_eq!(user.ok(&["kv", "get", "k", "--log-at", &log]), "1\n");
        user.ok(&["checkpoint", "--log-at", &log]);
        std::fs::remove_dir_all(&log).unwrap();
        user.fails(1, &["kv", "put", "k", "2", "--log-at", &log]);
        user.ok(&["kv", "put", "k", "3", "--log-at", &other, "--give-up-log", "--take-over"]);
        assert_eq!(user.ok(&["kv", "get", "k", "--log-at", &other]), "3\n");
        user.fails(2, &["kv", "put", "k", "4", "--give-up-log"]);
    }
}

#[test]
fn a_url_that_names_nothing_is_told() {
    let mut user = User::in_a_folder();
    for url in ["s3://", "s3://bucket", "ftp://bucket/there", "file://host/there"] {
        url.clone_into(&mut user.url);
        let output = user.run(&["kv", "put", "k", "v", "--create"]);
        assert_ne!(output.status.code(), Some(0), "{url}: {}", said(&output));
        println!("{url}: {}", text(&output.stderr));
    }
}
