//! H1, H2 and H6 under kills: moments that history had reached when its daemon died are there for the next one, and a moment that was being
//! made leaves nothing.

use crate::{
    running_origin::RunningOrigin,
    support::{text, until, Home},
};
use duramen_base::clock;
use serde_json::Value;
use std::{
    fs::{self, File},
    process::Stdio,
    time::Duration,
};
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(60);

/// One row more, some log, and the moment behind it.
async fn write(client: &Client) -> (String, i64) {
    let write = "insert into t select coalesce(max(n), 0) + 1, '' from t";
    client.batch_execute(write).await.expect("a row");
    client.batch_execute("update t set pad = repeat(md5(random()::text), 60)").await.expect("some log");
    let told = "select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), (select count(*) from t)";
    let row = client.query_one(told, &[]).await.expect("a row");
    (row.get(0), row.get(1))
}

fn json(home: &Home, arguments: &[&str]) -> Value {
    let done = home.run(&[&["--json"], arguments].concat());
    assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// Up to which moment branches can be made, so that later ones are greater.
fn reach(home: &Home) -> String {
    let source = json(home, &["source", "show", "app"]);
    source["follow"]["history"]["until"].as_str().unwrap_or_default().trim_end_matches('Z').to_owned()
}

fn rows_at(home: &Home, moment: &str) -> i64 {
    json(home, &["branch", "create", "look", "--at", moment]);
    let found = json(home, &["branch", "query", "look", "select count(*) from t"]);
    json(home, &["branch", "destroy", "look"]);
    found["results"][0]["rows"][0][0].as_i64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemon_loses_no_moment_and_leaves_no_half() {
    let home = Home::new();
    let origin = RunningOrigin::start(&home);
    let client = origin.client().await;
    client.batch_execute("create table t (n int, pad text)").await.expect("a table");
    let mut daemon = home.serve().await;
    let url = format!("postgresql://boss@/postgres?host={}", origin.socket.display());
    json(&home, &["source", "add", "app", "--url", &url, "--hot", "read-write=1"]);
    let followed = home.run(&["source", "follow", "app", "--keep-history", "1d"]);
    assert!(followed.status.success(), "{}", text(&followed.stderr));
    until("history begins", async || !reach(&home).is_empty()).await;

    let wal = home.path().join("volumes/history/app/000001/wal");
    let kept = || fs::read_dir(&wal).into_iter().flatten().flatten().count();
    let mut told: Vec<(String, i64)> = Vec::new();
    for round in 0..3 {
        let (before, begin) = (kept(), told.len());
        for _ in 0..4 {
            told.push(write(&client).await);
            client.batch_execute("select pg_switch_wal()").await.expect("another segment");
        }
        // While segments are kept: one of them, at least, is there for the first time.
        until("a segment is kept", async || kept() > before + round).await;
        let reached = reach(&home);
        daemon.kill();
        daemon = home.serve().await;
        // Which moment a position stands for is written down with each look; the next one knows a later moment.
        until("what was in reach is again", async || reach(&home) >= reached).await;
        let last = told.iter().rev().find(|(moment, _)| *moment <= reached).or(told.get(begin));
        let (moment, count) = last.expect("a moment").clone();
        assert_eq!(rows_at(&home, &moment), count, "{moment}");
    }

    // While it recovers, and a moment later.
    let imports = home.path().join("volumes/imports");
    let said = home.beside("said");
    for (round, pause_ms) in [0, 150, 400].into_iter().enumerate() {
        // Another one each time: one that was just made is there for a while.
        let (moment, count) = told[round + 5].clone();
        let mut create = home
            .command(&["branch", "create", "then", "--at", &moment])
            .stdout(Stdio::null())
            .stderr(File::create(&said).expect("what it says"))
            .spawn()
            .expect("a create");
        let began = clock::now();
        while fs::read_dir(&imports).expect("imports").next().is_none() {
            let ended = create.try_wait().expect("its status");
            let text = || fs::read_to_string(&said).unwrap_or_default();
            assert!(ended.is_none() && began.elapsed() < LIMIT, "it does not begin: {ended:?}: {}", text());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        daemon.kill();
        let _ = create.wait();
        daemon = home.serve().await;
        assert_eq!(fs::read_dir(&imports).expect("imports").count(), 0, "nothing is left of it");
        assert_eq!(rows_at(&home, &moment), count);
        // It may have been given out before the end.
        let _ = home.run(&["branch", "destroy", "then"]);
    }
    until("no moment is left", async || {
        let names = fs::read_dir(home.path().join("volumes/snapshots")).expect("snapshots").flatten();
        names.filter(|it| it.file_name().to_string_lossy().contains(".1000000")).count() == 0
    })
    .await;
    json(&home, &["source", "remove", "app"]);
    assert!(
        !home.path().join("volumes/history/app").exists()
            && !home.path().join("volumes/standbys/app").exists()
    );
    daemon.stop().await.expect("it stops");
    drop(origin);
    let left = home.left_overs();
    assert_eq!(left, Vec::<String>::new());
}
