//! `duramen cluster status` and `check` of shards: each finding is brought about in real databases.

use super::common::{self, one, Database};
use super::shell::Shell;
use duramen_base::clock;
use serde_json::Value;
use std::{
    process::{Command, Output},
    time::Duration,
};

async fn execute(database: &Database<'static>, sql: &str) {
    database.owner().await.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// `duramen cluster ...` of the shards, as if there were no daemon.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duramen"));
    command.env_remove("DURAMEN_HOME").env_remove("DURAMEN_FN_URL").env_remove("DURAMEN_URL");
    command.arg("cluster").args(arguments).output().expect("the program runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What `check` finds, but for what holds of all databases of the tests: their server has no standby.
fn check(url: &str) -> (Option<i32>, Vec<(String, String)>) {
    let output = run(&["check", "--only", "functions", "--url", url, "--json"]);
    let printed: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let all = printed["findings"].as_array().expect("findings").iter();
    let found = all.map(|finding| (text(&finding["kind"]), text(&finding["about"])));
    let without = found.filter(|(kind, _)| kind != "not-synchronous").collect();
    assert_eq!(printed["well"].as_bool(), Some(output.status.code() == Some(0)));
    (output.status.code(), without)
}

fn found(kind: &str, about: &str) -> Vec<(String, String)> {
    vec![(kind.to_owned(), about.to_owned())]
}

async fn three() -> [Database<'static>; 3] {
    let all = [common::database().await, common::database().await, common::database().await];
    let urls = all.each_ref().map(|database| database.url());
    Shell::new(&urls[0]).json(&["cluster", "create", &urls[0], &urls[1], &urls[2]]);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn one_screen_shows_shards_and_says_which_does_not_answer() {
    let [zero, first, second] = three().await;
    let output = run(&["status", "--only", "functions", "--url", &zero.url()]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("version 1 of the list, read from shard 0"), "{text}");
    assert_eq!(text.matches(" open ").count(), 3, "{text}");
    assert!(text.contains("0 errors, 3 warnings") && !text.contains("postgres@"), "{text}");

    // One is locked by somebody, so that it does not answer: the others do, and nobody waits for long.
    let locker = second.owner().await;
    locker.batch_execute("BEGIN; LOCK TABLE df._meta IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let begin = clock::now();
    assert_eq!(check(&zero.url()), (Some(1), found("shard-silent", "shard 2")));
    assert!(begin.elapsed() < Duration::from_secs(9), "{:?}", begin.elapsed());
    let output = run(&["status", "--only", "functions", "--url", &zero.url()]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("\nshard 2: ") && text.contains("1 error, 2 warnings"), "{text}");
    // The one that is silent is named itself: the next is asked.
    let output = run(&["status", "--only", "functions", "--url", &second.url(), "--url", &first.url()]);
    assert!(said(&output).contains("read from shard 1"), "{}", said(&output));
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(check(&second.url()), (Some(0), Vec::new()));

    let output = run(&["check", "--only", "functions", "--url", "postgres://nobody@127.0.0.1:1/x"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("[functions-silent]"), "{}", said(&output));
    assert_eq!(run(&["check", "--only", "functions"]).status.code(), Some(2), "no shard is named");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_schemas_that_differ_are_found() {
    let [zero, first, second] = three().await;
    let operator = Shell::new(&zero.url());
    // One was not there when the list was changed.
    execute(&zero, &format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", first.name())).await;
    assert_eq!(operator.run(&["cluster", "drain", "2"]).status.code(), Some(1));
    execute(&zero, &format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", first.name())).await;
    assert_eq!(check(&zero.url()), (Some(0), found("list-behind", "shard 1")));
    assert_eq!(check(&first.url()).1, found("list-behind", "shard 1"), "also by the one that is behind");
    operator.ok(&["cluster", "open", "2"]);
    assert_eq!(check(&zero.url()).1, Vec::new());
    // Two lists of one version.
    execute(&first, "UPDATE df._shard SET keyed = false WHERE shard = 2").await;
    assert_eq!(check(&zero.url()), (Some(1), found("list-split", "shard 1")));
    execute(&first, "UPDATE df._shard SET keyed = true WHERE shard = 2").await;
    // An upgrade that was not finished.
    execute(&second, "UPDATE df._meta SET schema_version = schema_version + 1").await;
    assert_eq!(check(&zero.url()), (Some(1), found("schema-differs", "the shards")));
    execute(&second, "UPDATE df._meta SET schema_version = schema_version - 1").await;
    // A list that leads to one database for two shards.
    let place = one(&zero.owner().await, "SELECT place FROM df._shard WHERE shard = 0").await.unwrap();
    let place = place.replace('\'', "''");
    execute(&zero, &format!("UPDATE df._shard SET place = '{place}' WHERE shard = 1")).await;
    let (status, all) = check(&zero.url());
    assert_eq!(status, Some(1));
    assert!(all.contains(&("same-database".to_owned(), "the shards".to_owned())), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_without_workers_and_drained_shards_that_are_not_empty_are_found() {
    let [zero, first, second] = three().await;
    let operator = Shell::new(&zero.url());
    let alice = zero.role("alice").await;
    execute(&first, &format!("SELECT df.grant_usage('{alice}')")).await;
    Shell::new(&zero.url_as(&alice)).json(&["start", "SELECT 1", "--shard", "1"]);
    operator.json(&["cluster", "drain", "1"]);
    let (status, all) = check(&zero.url());
    let kinds: Vec<&str> = all.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!((status, kinds), (Some(1), vec!["no-worker", "drained-not-empty"]));
    assert!(all.iter().all(|(_, about)| about == "shard 1"), "{all:?}");
    // It is told by any of them.
    let output = run(&["status", "--only", "functions", "--url", &second.url(), "--json"]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shards = printed["functions"]["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 3);
    assert_eq!(shards[1]["says"]["pending"], 1);
    assert!(shards[1]["says"]["oldest_s"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{printed}");
    assert_eq!(shards[1]["says"]["replication"]["standbys"], serde_json::json!([]));
    let mut worker = operator.worker(&["--cluster"]);
    let begin = clock::now();
    while check(&zero.url()).1 != Vec::new() {
        assert!(begin.elapsed() < super::shell::SOON, "{:?}", check(&zero.url()));
    }
    worker.signal(rustix::process::Signal::TERM);
    worker.end();
}
