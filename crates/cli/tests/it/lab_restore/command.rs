//! The command itself on somebody's pair: to its end, interrupted, and killed.

use super::{assert_restored, exe, guardians, until, user::majors, user::User};
use duramen_postgres::connection::Target;
use duramen_replication::{pair::DATABASE, scenario::Node};
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn run(user: &User, more: &[&str]) -> Command {
    let mut command = Command::new(exe());
    command
        .arg("--home")
        .arg(user.home())
        .args(["lab", "run", "replication", "S2", "--quick", "--primary", &user.dsn(Node::Primary)])
        .args(["--standby", &user.dsn(Node::Standby)])
        .args(more)
        .stdin(Stdio::null());
    command
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).expect("it runs");
}

#[tokio::test]
async fn a_whole_run_leaves_a_pair_as_it_was_and_tells_no_secret() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    let output = run(&user, &["--json", "-"]).output().expect("it can be run");
    let (told, complaints) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let evidence: Value =
        serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}\n{complaints}"));
    let checks = evidence["checks"].as_array().expect("checks");
    let restored = checks.iter().find(|check| check["name"] == "settings_restored").expect("the check");
    assert_eq!(restored["passed"], true, "{restored}");
    assert!(checks.iter().any(|check| check["name"] == "mechanism/S2"), "{checks:?}");
    assert!(!told.contains("swordfish") && !complaints.contains("swordfish"), "a secret is told");
    assert_restored(&user, &before).await;
}

#[tokio::test]
async fn figures_are_written_also_when_not_everything_can_be_put_back() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    let child = run(&user, &["--json", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Sessions of others are not ended, so this one keeps the database from being dropped.
    let target = Target::parse(&user.dsn(Node::Primary)).unwrap().application_name("somebody else");
    let target = target.database(DATABASE);
    let mut guest = None;
    until("the database is there", async || {
        guest = target.connect().await.ok();
        guest.is_some()
    })
    .await;
    // What is printed is read by a thread of its own: a full pipe would hold the run up.
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().expect("it can be waited for"));
    let patience = Duration::from_secs(300);
    let output = tokio::time::timeout(patience, output).await.expect("the run comes to its end").unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot put back"), "{said}");
    let evidence: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let checks = evidence["checks"].as_array().expect("checks");
    let restored = checks.iter().find(|check| check["name"] == "settings_restored").expect("the check");
    assert_eq!(restored["passed"], false, "{restored}");
    assert!(restored["detail"].as_str().unwrap().contains("drop the database"), "{restored}");
    assert!(checks.iter().any(|check| check["name"] == "mechanism/S2"), "{checks:?}");
    // The guardian goes on trying.
    drop(guest);
    until("the guardian has done its work", async || guardians(&user.home()).is_empty()).await;
    assert_restored(&user, &before).await;
}

#[tokio::test]
async fn a_run_that_is_interrupted_or_killed_in_its_midst_leaves_a_pair_as_it_was() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    for (how, life) in
        [(Signal::INT, 1_500), (Signal::KILL, 3_000), (Signal::TERM, 5_000), (Signal::HUP, 4_000)]
    {
        let mut child = run(&user, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the run has begun to change something", async || {
            user.restore_files().iter().any(|file| {
                std::fs::read_to_string(file).is_ok_and(|text| text.contains("max_standby_streaming_delay"))
            })
        })
        .await;
        tokio::time::sleep(Duration::from_millis(life)).await;
        assert!(child.try_wait().unwrap().is_none(), "the run was too short");
        signal(&child, how);
        until("the run is over", async || child.try_wait().unwrap().is_some()).await;
        until("the guardian is gone", async || guardians(&user.home()).is_empty()).await;
        assert_restored(&user, &before).await;
    }
}
