//! What a run changes on servers that are not its own is put back: at its end, after an error, when it is killed, and
//! by hand.

use crate::user;

mod by_hand;
mod command;
mod killed;
mod orderly;
mod workload;

use crate::user::User;
use duramen_replication::{
    pair::{Pair, DATABASE},
    scenario::Node,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a thing that happens by itself may take.
const SOON: Duration = Duration::from_secs(60);

fn exe() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_duramen"))
}

/// A run's pair, with everything changed that a run changes.
async fn begun(user: &User) -> Pair {
    let pair = Pair::open(&user.options(exe()), &|_| {}).await.expect("the preconditions hold");
    pair.set(Node::Standby, "hot_standby_feedback", Some("on")).await.unwrap();
    pair.set(Node::Standby, "recovery_min_apply_delay", Some("1ms")).await.unwrap();
    pair.set(Node::Primary, "checkpoint_completion_target", Some("0.5")).await.unwrap();
    pair.record_slot("duramen_lab_slot").await.unwrap();
    let client = pair.connect(Node::Primary).await.unwrap();
    client.batch_execute("CREATE TABLE t AS SELECT 1 AS id").await.unwrap();
    let slot = "SELECT pg_create_logical_replication_slot('duramen_lab_slot', 'pgoutput')";
    client.batch_execute(slot).await.unwrap();
    pair
}

/// That everything is as it was, and no file is left.
async fn assert_restored(user: &User, before: &[String]) {
    let after = user.state().await;
    let differences: Vec<_> = after
        .iter()
        .filter(|line| !before.contains(line))
        .chain(before.iter().filter(|line| !after.contains(line)))
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(user.restore_files(), Vec::<PathBuf>::new());
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("it never came to this: {what}"));
}

/// The guardians that watch over files of this home.
fn guardians(home: &Path) -> Vec<u32> {
    let home = home.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("processes can be listed");
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).into_owned();
            (command.contains("--when-orphaned") && command.contains(&home)).then_some(pid)
        })
        .collect()
}

/// The database of the run, if it is there.
async fn has_database(user: &User) -> bool {
    let question = format!("SELECT count(*) FROM pg_database WHERE datname = '{DATABASE}'");
    user.client(Node::Primary).await.query_one(&question, &[]).await.unwrap().get::<_, i64>(0) > 0
}
