//! G1 under kills: a daemon that dies in the middle of a promotion leaves the one generation or the other, and never neither.

use crate::support::{self, connect, create, entries, query, settle, until, Home};
use duramen_api::model::PromoteBranch;
use duramen_base::clock;
use duramen_client::Connection;
use duramen_server::process::Daemon;
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Kills after the last step that is told: between them the snapshot is moved, its manifest and then the source's record written.
const LATE_KILLS: u32 = 8;
/// The last step, after which the files are in place.
const LAST: &str = "trimming and sealing";

/// Promotes the branch `seeded`, and kills the daemon `pause` after it says `step`. What it said.
async fn promote_and_kill(daemon: Daemon, step: &str, pause: Duration) -> Vec<String> {
    let said = Arc::new(Mutex::new(Vec::new()));
    let mut connection = connect(&daemon).await;
    let heard = Arc::clone(&said);
    let promotion = tokio::spawn(async move {
        let told = |step: &str, _| heard.lock().unwrap().push(step.to_owned());
        // It may be in time.
        let _ = connection.promote_branch("seeded", &PromoteBranch::default(), told).await;
    });
    let begin = clock::now();
    while !said.lock().unwrap().iter().any(|it| it == step) {
        assert!(
            begin.elapsed() < Duration::from_secs(60) && !promotion.is_finished(),
            "it never said {step}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(pause).await;
    daemon.kill();
    promotion.await.expect("its client ends");
    said.lock().unwrap().clone()
}

/// The source serves a generation that is whole; gives its number.
async fn check(home: &Home, connection: &mut Connection, before: u32, rows: &[(u32, i64)]) -> u32 {
    let status = settle(connection).await;
    assert_eq!(status.warnings, Vec::<String>::new());
    let source = connection.source("app").await.expect("the source");
    assert!(
        source.generation == before || source.generation == before + 1,
        "{before}: {}",
        source.generation
    );
    let view = create(connection, "next").await.expect("a branch of it");
    assert_eq!(view.generation, source.generation);
    let expected = rows.iter().find(|(number, _)| *number == source.generation).expect("known rows").1;
    let found = query(connection, "next", "select count(*) from t").await.expect("rows");
    assert_eq!(found, json!([[expected]]), "generation {}", source.generation);
    connection.destroy_branch("next").await.expect("destroyed");
    assert!(connection.verify_source("app").await.expect("a digest").intact);

    settle(connection).await;
    let volumes = home.path().join("volumes");
    assert_eq!(entries(&volumes.join("imports")), BTreeSet::new(), "imports");
    let kept = entries(&volumes.join("branches"));
    assert!(!kept.iter().any(|name| name.starts_with("s-")), "{kept:?}");
    // That of the branch `seeded`, and what serves.
    let expected = BTreeSet::from(["app.000001".to_owned(), format!("app.{:06}", source.generation)]);
    until("only they are left", async || entries(&volumes.join("snapshots")) == expected).await;
    let manifests = entries(&home.path().join("sources/app"));
    assert_eq!(manifests.len(), expected.len() + 1, "{manifests:?}");
    source.generation
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_promotion_leaves_the_one_generation_or_the_other() {
    let home = Home::new();
    let mut daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t (v int); insert into t values (0);", 1, 0)
        .await;
    create(&mut connection, "seeded").await.expect("a branch");

    let mut generation = 1;
    let mut held = vec![(1, 1)];
    let mut count = 1;
    let mut steps = vec![("taking a snapshot of the branch".to_owned(), Duration::ZERO)];
    let mut known = BTreeSet::new();
    let mut changed = 0;
    let mut late = 0;
    while let Some((step, pause)) = steps.pop() {
        query(&mut connection, "seeded", "insert into t values (1) returning v").await.expect("a row");
        count += 1;
        held.push((generation + 1, count));
        held.retain(|(number, rows)| *number <= generation || *rows == count);
        let said = promote_and_kill(daemon, &step, pause).await;
        known.insert(step);
        // Each step that is heard of is killed at.
        for step in said {
            if known.insert(step.clone()) {
                steps.push((step, Duration::ZERO));
            }
        }
        daemon = home.serve().await;
        connection = connect(&daemon).await;
        let now = check(&home, &mut connection, generation, &held).await;
        changed += u32::from(now > generation);
        generation = now;
        let seeded = query(&mut connection, "seeded", "select count(*) from t").await.expect("rows");
        assert_eq!(seeded, json!([[count]]), "the branch goes on");
        if steps.is_empty() {
            if !known.contains(LAST) {
                // A step that follows is not heard of before the kill: ask for the one after the last that was.
                steps.push((LAST.to_owned(), Duration::ZERO));
            } else if late < LATE_KILLS {
                late += 1;
                steps.push((LAST.to_owned(), Duration::from_millis(u64::from(late * late) * 8)));
            }
        }
    }
    assert!(known.len() >= 6, "{known:?}");
    println!("{changed} of {} promotions were done before the kill", known.len() as u32 + LATE_KILLS);
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// What the command prints, and that it leaves the branch as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_says_what_the_source_is_now() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t (v int);", 1, 0).await;
    create(&mut connection, "seeded").await.expect("a branch");
    query(&mut connection, "seeded", "insert into t values (1) returning v").await.expect("a row");
    let done = home.run(&["branch", "promote", "seeded"]);
    let text = support::text(&done.stdout);
    assert!(done.status.success(), "{}", support::text(&done.stderr));
    assert!(text.contains("made of") && text.contains("branch seeded, of generation 1"), "{text}");
    let shown = home.run(&["source", "show", "app", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((&shown["generation"], &shown["promoted"]["name"]), (&json!(2), &json!("seeded")));
    let refused = home.run(&["branch", "promote", "sedeed"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(support::text(&refused.stderr).contains("seeded"), "{}", support::text(&refused.stderr));
    daemon.stop().await.expect("it stops in order");
}
