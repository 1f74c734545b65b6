//! A run that is killed with SIGKILL, at any point: a process of its own does what it does, and this one kills it.

use super::{assert_restored, begun, exe, guardians, until, user::majors, user::User};
use duramen_base::entropy;
use duramen_replication::pair::Pair;
use duramen_replication::{scenario::Node, Options};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Tells the process that it is the run: home, primary and standby, a line each.
const RUN: &str = "DURAMEN_TEST_RUN";
/// What it says when everything has been changed.
const CHANGED: &str = "everything is changed";

/// The run, until it is killed. It changes settings again and again.
async fn run(told: &str) {
    let mut lines = told.lines().map(str::to_owned);
    let home = lines.next().expect("a home");
    let options = Options { primary: lines.next(), standby: lines.next(), ..Options::new(home, exe()) };
    let pair = Pair::open(&options, &|_| {}).await.expect("the preconditions hold");
    pair.record_slot("duramen_lab_slot").await.unwrap();
    let client = pair.connect(Node::Primary).await.unwrap();
    client
        .batch_execute("SELECT pg_create_logical_replication_slot('duramen_lab_slot', 'pgoutput')")
        .await
        .unwrap();
    loop {
        for value in ["on", "off"] {
            pair.set(Node::Standby, "hot_standby_feedback", Some(value)).await.unwrap();
        }
        pair.set(Node::Primary, "checkpoint_completion_target", Some("0.5")).await.unwrap();
        pair.set(Node::Primary, "checkpoint_completion_target", None).await.unwrap();
        pair.set(Node::Standby, "recovery_min_apply_delay", Some("1ms")).await.unwrap();
        println!("{CHANGED}");
    }
}

/// Starts this very test as the run.
fn start(user: &User, test: &str) -> Child {
    let told = format!("{}\n{}\n{}", user.home().display(), user.dsn(Node::Primary), user.dsn(Node::Standby));
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(RUN, told)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be run")
}

async fn assert_all_cleared(user: &User, before: &[String]) {
    until("the guardian has done its work", async || guardians(&user.home()).is_empty()).await;
    // Killed between making the file and running a guardian, it has changed nothing: the next run removes the file.
    for file in user.restore_files() {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let nothing = file.extension().is_some_and(|extension| extension == "tmp")
            || (text.contains("\"settings\": []") && text.contains("\"database\": null"));
        assert!(nothing, "{text}");
        // A guardian that was just being started may be faster.
        let _ = std::fs::remove_file(file);
    }
    assert_restored(user, before).await;
}

#[tokio::test]
async fn a_run_that_is_killed_at_any_point_leaves_a_pair_as_it_was() {
    if let Ok(told) = std::env::var(RUN) {
        return run(&told).await;
    }
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    for major in majors() {
        let user = User::new(major).await;
        let before = user.state().await;
        for round in 0..8 {
            let mut child = start(
                &user,
                "lab_restore::killed::a_run_that_is_killed_at_any_point_leaves_a_pair_as_it_was",
            );
            let life = Duration::from_millis(rng.u64(0..2_000));
            tokio::time::sleep(life).await;
            child.kill().unwrap();
            child.wait().unwrap();
            eprintln!("{major}: round {round} of seed {seed}: killed after {life:?}");
            assert_all_cleared(&user, &before).await;
        }
    }
}

#[tokio::test]
async fn a_run_that_is_killed_while_the_primary_is_away_is_cleared_up_when_it_is_back() {
    if let Ok(told) = std::env::var(RUN) {
        return run(&told).await;
    }
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    let mut child = start(
        &user,
        "lab_restore::killed::a_run_that_is_killed_while_the_primary_is_away_is_cleared_up_when_it_is_back",
    );
    let said = BufReader::new(child.stdout.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line.contains(CHANGED)), "the run ended early");
    child.kill().unwrap();
    user.stop(Node::Primary);
    child.wait().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(guardians(&user.home()).len(), 1, "it goes on trying");
    user.start(Node::Primary);
    user.synchronous().await;
    assert_all_cleared(&user, &before).await;
}

#[tokio::test]
async fn a_primary_that_is_restarted_in_a_run_is_as_it_was_afterwards() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    let pair = begun(&user).await;
    user.stop(Node::Primary);
    user.start(Node::Primary);
    let (all, detail) = pair.close().await.unwrap();
    assert!(all, "{detail}");
    assert_restored(&user, &before).await;
}
