//! A daemon elsewhere, from the command line: the token is given once, and what is asked goes there.

use crate::{
    http_door::Site,
    support::{text, until, EXE},
};
use duramen_api::token::Role;
use serde_json::{json, Value};
use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tokio_postgres::NoTls;

/// A user of another machine.
struct Elsewhere {
    folder: tempfile::TempDir,
}

impl Elsewhere {
    fn new() -> Elsewhere {
        Elsewhere { folder: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("config/duramen/login.json")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(EXE);
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path()).env("XDG_CONFIG_HOME", self.folder.path().join("config"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    /// What a command replies with.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn log_in(&self, url: &str, ca: &Path, token: &str) -> Output {
        let ca = ca.display().to_string();
        let mut command = self.command(&["login", url, "--ca", &ca]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        // It may refuse before it has read it.
        let _ = writeln!(child.stdin.take().expect("a pipe"), "{token}");
        child.wait_with_output().expect("it ends")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_given_once() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let who = site.token("ann", Role::User, &["app"]).await;
    let ca = site.home.path().join("doors/certificate.pem");
    let url = format!("https://localhost:{}", site.door.port());
    let user = Elsewhere::new();

    let wrong = user.log_in(&url, &ca, "ann:wrong");
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert!(text(&wrong.stderr).contains("duramen token create") && !user.file().exists(), "{wrong:?}");
    let nothing = user.log_in(&url, &ca, "");
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
    let done = user.log_in(&url, &ca, &format!("ann:{}", who.secret));
    assert!(done.status.success(), "{done:?}");
    assert!(!text(&done.stdout).contains(&who.secret));
    assert_eq!(fs::metadata(user.file()).unwrap().permissions().mode() & 0o777, 0o600);

    assert_eq!(user.json(&["source", "list"])[0]["name"], "app");
    let made = user.json(&["branch", "create", "try"]);
    assert_eq!((&made["name"], &made["holder"]), (&json!("try"), &json!(who.id)));
    assert!(!made.to_string().contains(&who.secret), "{made}");
    let entered = user.json(&["branch", "url", "try"])["url"].as_str().expect("a URL").to_owned();
    let (client, connection) =
        tokio_postgres::connect(&entered, NoTls).await.expect("its URL is all it takes");
    let session = tokio::spawn(connection);
    let count: i64 = client.query_one("select count(*) from t", &[]).await.expect("rows").get(0);
    assert_eq!(count, 2);
    drop(client);
    session.await.unwrap().expect("it ends");
    let queried = user.json(&["branch", "query", "try", "select x from t order by x"]);
    assert_eq!(queried["results"][0]["rows"], json!([[1], [2]]), "{queried}");

    // A command has its branch by the router.
    let script = "test \"$PGHOST:$PGPORT:$PGUSER\" = \"$1:ann\" && echo \"$PGDATABASE\"";
    let router = site.connection.doors().await.unwrap().postgres.unwrap().address.to_string();
    let ran = user.run(&["agent", "run", "--", "sh", "-c", script, "sh", &router]);
    assert!(ran.status.success() && !ran.stdout.is_empty(), "{ran:?}");
    let left: Vec<_> = user.json(&["branch", "list"]).as_array().unwrap().clone();
    assert_eq!(left.len(), 1, "{left:?}");

    // What is for those on the machine is refused by the daemon.
    let tokens = user.run(&["token", "list"]);
    assert_eq!(tokens.status.code(), Some(1));
    assert!(text(&tokens.stderr).contains("the machine"), "{tokens:?}");

    // What is named goes before it.
    let named = user.run(&["branch", "list", "--home", "/nonexistent"]);
    assert!(text(&named.stderr).contains("no daemon serves /nonexistent"), "{named:?}");
    let variable =
        user.command(&["branch", "list"]).env("DURAMEN_URL", "http://127.0.0.1:1").output().unwrap();
    assert_eq!(variable.status.code(), Some(2), "{variable:?}");
    assert!(text(&variable.stderr).contains("DURAMEN_TOKEN"), "{variable:?}");

    fs::set_permissions(user.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let open = user.run(&["branch", "list"]);
    assert!(!open.status.success() && text(&open.stderr).contains("chmod 600"), "{open:?}");
    fs::set_permissions(user.file(), fs::Permissions::from_mode(0o600)).unwrap();

    site.connection.revoke_token("ann").await.expect("it ends");
    let revoked = user.run(&["branch", "list"]);
    assert_eq!(revoked.status.code(), Some(1), "{revoked:?}");
    assert!(user.run(&["logout"]).status.success() && !user.file().exists());
    let after = user.run(&["branch", "list"]);
    assert!(text(&after.stderr).contains("no daemon serves"), "{after:?}");
}

/// At a terminal, which `script` is here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_not_shown_while_it_is_typed() {
    let mut site = Site::open().await;
    let who = site.token("ann", Role::User, &[]).await;
    let ca = site.home.path().join("doors/certificate.pem");
    let user = Elsewhere::new();
    let command = format!("{EXE} login https://localhost:{} --ca {}", site.door.port(), ca.display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"]);
    script.env("HOME", user.folder.path()).env("XDG_CONFIG_HOME", user.folder.path().join("config"));
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().expect("script of util-linux is there");
    let (mut typed, mut screen) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut seen = Vec::new();
    let mut some = [0; 256];
    while !text(&seen).contains("NAME:SECRET") {
        let count = screen.read(&mut some).expect("a screen");
        assert_ne!(count, 0, "it asks: {}", text(&seen));
        seen.extend_from_slice(&some[..count]);
    }
    // Not before the terminal is as it is meant to be, which is a moment after the prompt.
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).expect("a shell");
    let terminal = format!("/proc/{}/fd/0", children.split_whitespace().next().expect("one of it"));
    until("the terminal shows nothing", async || {
        let told = Command::new("stty").args(["-a", "-F", &terminal]).output().expect("stty of coreutils");
        text(&told.stdout).contains("-echo ")
    })
    .await;
    writeln!(typed, "ann:{}", who.secret).expect("a key");
    screen.read_to_end(&mut seen).expect("a screen");
    assert!(child.wait().expect("it ends").success(), "{}", text(&seen));
    assert!(text(&seen).contains("is entered as ann"), "{}", text(&seen));
    assert!(!text(&seen).contains(&who.secret), "{}", text(&seen));
}
