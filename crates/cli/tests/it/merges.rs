//! `duramen branch merge` through a real daemon, and daemons that are killed in the middle of one (M1, M4, M9).

use crate::support::{add_script, connect, create, entries, query, settle, text, Home};
use duramen_api::model::CreateBranch;
use duramen_base::entropy;
use duramen_client::Connection;
use serde_json::{json, Value};
use std::{process::Output, time::Duration};

const ROWS: i64 = 20_000;
/// Kills at a moment at random of a merge.
const KILLS: u32 = 8;

fn setup() -> String {
    format!(
        "create table item (id int primary key, stock int, name text); \
         insert into item select i, 10, 'item ' || i from generate_series(1, {ROWS}) i; create table log (line text);"
    )
}

async fn fork(connection: &mut Connection, from: &str, name: &str) {
    let wanted =
        CreateBranch { name: Some(name.to_owned()), from: Some(from.to_owned()), ..CreateBranch::default() };
    connection.create_branch(&wanted).await.unwrap();
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m3_conflicts_are_listed_and_what_is_merged_is_told() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, &setup(), 1, 0).await;
    settle(&mut connection).await;
    create(&mut connection, "parent").await.unwrap();
    fork(&mut connection, "parent", "child").await;
    let nothing = home.run(&["branch", "merge", "child", "parent"]);
    assert_eq!(stdout(&nothing), "child has changed nothing; nothing was done\n");
    query(&mut connection, "child", "update item set stock = stock - 1 where id = 1").await.unwrap();
    query(&mut connection, "child", "insert into log values (E'tab\\t\\x1b[31m')").await.unwrap();
    query(&mut connection, "parent", "update item set stock = stock - 1 where id = 1").await.unwrap();
    let refused = home.run(&["branch", "merge", "child", "parent", "--dry-run"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("public.item [id '1']: stock was '10', and both sides made it '9'"), "{said}");
    assert!(said.contains("nothing was changed in parent: 1 conflicts with child"), "{said}");
    let dry = home.run(&["branch", "merge", "child", "parent", "--dry-run", "--equal", "agree"]);
    let said = stdout(&dry);
    assert!(
        said.starts_with("child can be merged into parent: 0 statements; 1 row inserted, 0 updated"),
        "{said}"
    );
    assert!(said.contains("\n  public.log: 1 inserted, 0 updated, 0 deleted\n"), "{said}");
    let merged = home.run(&["--json", "branch", "merge", "child", "parent", "--strategy", "ours"]);
    let merged: Value = serde_json::from_str(&stdout(&merged)).unwrap();
    assert_eq!((&merged["status"], &merged["conflicts"][0]["taken"]), (&json!("merged"), &json!("ours")));
    assert!(stdout(&home.run(&["branch", "merge", "child", "parent"])).contains("and has not changed since"));
    let wrong = home.run(&["branch", "merge", "child", "parent", "--strategy", "mine"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("`mine` is not one of fail, ours, theirs"));
    daemon.stop().await.expect("it stops");
}

/// The parent has all of it or nothing, and a second merge does the rest or tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m1_a_daemon_that_is_killed_leaves_all_of_a_merge_or_nothing() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut random = entropy::rng(seed);
    let home = Home::new();
    let mut daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, &setup(), 1, 0).await;
    settle(&mut connection).await;
    create(&mut connection, "parent").await.unwrap();
    let begin = duramen_base::clock::now();
    let mut whole = Duration::ZERO;
    let (mut before, mut after) = (0, 0);
    for kill in 0..=KILLS {
        let child = format!("child-{kill}");
        fork(&mut connection, "parent", &child).await;
        query(&mut connection, &child, "update item set stock = stock + 1").await.unwrap();
        query(&mut connection, &child, "insert into log values ('once')").await.unwrap();
        let mut merging = home.command(&["branch", "merge", &child, "parent"]);
        if kill == 0 {
            // How long one takes.
            let started = duramen_base::clock::now();
            stdout(&merging.output().unwrap());
            whole = started.elapsed();
        } else {
            let mut merging = merging.spawn().unwrap();
            tokio::time::sleep(whole.mul_f64(random.f64())).await;
            daemon.kill();
            let _ = merging.wait();
            daemon = home.serve().await;
            connection = connect(&daemon).await;
            assert_eq!(entries(&home.path().join("merges")).len(), 0, "seed {seed}: files of a merge stay");
            let seen = query(
                &mut connection,
                "parent",
                "select min(stock), max(stock), (select count(*) from log) from item",
            )
            .await
            .unwrap();
            let done = 10 + i64::from(kill);
            let is_done = seen == json!([[done + 1, done + 1, kill + 1]]);
            assert!(is_done || seen == json!([[done, done, kill]]), "seed {seed}, kill {kill}: {seen}");
            if is_done {
                after += 1
            } else {
                before += 1
            }
            let again = stdout(&home.run(&["branch", "merge", &child, "parent"]));
            let expected = if is_done { "has not changed since" } else { "20000 updated" };
            assert!(again.contains(expected), "seed {seed}, kill {kill}: {again}");
        }
        let seen = query(
            &mut connection,
            "parent",
            "select count(*), min(stock), max(stock), (select count(*) from log) from item",
        )
        .await
        .unwrap();
        assert_eq!(seen, json!([[ROWS, 11 + kill, 11 + kill, kill + 1]]), "seed {seed}, kill {kill}");
        connection.destroy_branch(&child).await.unwrap();
    }
    println!(
        "{before} kills before a commit, {after} after, in {:?}; a merge takes {whole:?}",
        begin.elapsed()
    );
    daemon.stop().await.expect("it stops");
}
