//! `duramen lab watch replication` beside a run of the lab: what one makes happen, the other tells alike.

use crate::{
    functions_cli::metrics::get,
    support::EXE,
    user::{majors, User},
};
use duramen_replication::scenario::Node;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// A watch of somebody's pair, with figures and a document.
struct Watching {
    child: Child,
    /// What it printed first.
    address: String,
    printed: std::thread::JoinHandle<String>,
}

impl Watching {
    fn start(user: &User, document: &Path) -> Watching {
        let mut command = Command::new(EXE);
        command.arg("--home").arg(user.home()).args(["lab", "watch", "replication"]);
        command.args(["--primary", &user.dsn(Node::Primary), "--standby", &user.dsn(Node::Standby)]);
        command
            .args(["--metrics", "0", "--json"])
            .arg(document)
            .arg("--html")
            .arg(document.with_extension("html"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = lines.next().expect("a line").expect("text");
        assert!(first.starts_with("watching "), "{first}");
        let second = lines.next().expect("a line").expect("text");
        let address = second.strip_prefix("figures: http://").and_then(|url| url.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{second}")).to_owned();
        let rest = move || lines.map(|line| line.expect("text") + "\n").collect();
        Watching { child, address, printed: std::thread::spawn(rest) }
    }

    /// Ends it, and hands over what it printed.
    fn end(mut self) -> String {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::INT).expect("it runs");
        let status = self.child.wait().expect("it ends");
        let printed = self.printed.join().expect("text");
        assert!(status.success(), "{status}: {printed}");
        printed
    }
}

/// Runs scenarios of the lab on a pair that is watched. Each stall that the lab saw was seen by the watch, with its cause.
fn alike(user: &User, scenarios: &[&str]) {
    let (watched, measured) = (user.home().join("watch.json"), user.home().join("measured.json"));
    std::fs::create_dir_all(user.home()).unwrap();
    let watch = Watching::start(user, &watched);
    let mut run = Command::new(EXE);
    run.arg("--home")
        .arg(user.home())
        .args(["lab", "run", "replication", "--quick", "--json"])
        .arg(&measured);
    run.args(["--primary", &user.dsn(Node::Primary), "--standby", &user.dsn(Node::Standby)]).args(scenarios);
    let run = run.stdin(Stdio::null()).output().expect("it runs");
    let figures = get(&watch.address, "/metrics");
    assert!(get(&watch.address, "/health").ends_with("ok\n"));
    let printed = watch.end();
    let read = |file: &Path| -> Value {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&run.stderr)));
        serde_json::from_str(&text).expect("a document")
    };
    let (watched, measured) = (read(&watched), read(&measured));
    let stalls: Vec<(&str, f64)> = watched["config"]["stalls"]
        .as_array()
        .expect("stalls")
        .iter()
        .map(|stall| (stall["cause"].as_str().unwrap(), stall["length_s"].as_f64().unwrap()))
        .collect();
    let mut compared = 0;
    for scenario in measured["config"]["scenarios"].as_array().expect("scenarios") {
        for seen in scenario["seen"].as_array().expect("what was seen") {
            let at_apply = |at: &&Value| at["level"] == "remote_apply";
            let Some(at) = seen["levels"].as_array().expect("levels").iter().find(at_apply) else { continue };
            let (Some(cause), Some(length)) = (at["cause"].as_str(), at["stall_s"].as_f64()) else {
                continue;
            };
            let is_it = |(told, s): &&(&str, f64)| *told == cause && (s - length).abs() < 1.0;
            assert!(
                stalls.iter().any(|it| is_it(&it)),
                "{}: {length} s of {cause}: {stalls:?}",
                scenario["id"]
            );
            assert!(figures.contains(&format!("cause=\"{cause}\"")), "{figures}");
            assert!(printed.contains("  over after "), "{printed}");
            compared += 1;
        }
    }
    assert_eq!(compared, scenarios.len(), "{measured}");
    assert!(watched["findings"][0]["text"].as_str().unwrap().starts_with("Commits stopped "), "{watched}");
    assert!(!watched.to_string().contains("swordfish") && !printed.contains("swordfish"), "a secret is told");
    let page = std::fs::read_to_string(user.home().join("watch.html")).expect("a page");
    assert!(page.contains("What commits waited for"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_of_the_lab_is_told_with_the_labs_cause() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    alike(&user, &["S8"]);
    assert_eq!(user.state().await, before, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_stalls_of_the_lab_are_told_with_the_labs_causes() {
    let user = User::new(majors()[0]).await;
    alike(&user, &["S2", "S7", "S8", "S9", "S13"]);
}

#[test]
fn bad_arguments_are_refused_with_what_would_be_good() {
    let home = tempfile::tempdir().unwrap();
    let cases: [(&[&str], i32, &str); 4] = [
        (&[], 2, "--primary"),
        (&["--primary", "db1"], 1, "postgres://ROLE@HOST:PORT/DATABASE"),
        (&["--primary", "host=127.0.0.1 port=1", "--for", "soon"], 2, "500ms, 30s or 1h"),
        (&["--primary", "host=127.0.0.1 port=1 user=a"], 1, "check --primary"),
    ];
    for (arguments, status, word) in cases {
        let output =
            crate::support::duramen(home.path(), &[&["lab", "watch", "replication"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: no {word} in {said}");
    }
}
