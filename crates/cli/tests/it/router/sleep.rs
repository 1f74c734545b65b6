//! R15: branches in which nobody is sleep, and wake for whoever comes.

use super::{one, Site};
use crate::support::{self, query, until, Home};
use std::time::Duration;
use tokio::time::sleep;

async fn state(site: &mut Site, name: &str) -> String {
    site.connection.branch(name).await.expect("the branch").state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_that_nobody_is_in_sleeps_until_somebody_comes() {
    let home = Home::new();
    let options = ["--pg-listen", "127.0.0.1:0", "--sleep-after", "1s"];
    let mut site = Site::open(&home, &options).await;
    let ci = site.user("ci").await;
    let client = site.enter(&ci, "app@try").await.expect("a branch");
    client.batch_execute("insert into t values (0, 'kept')").await.expect("a row");
    let own = support::create(&mut site.connection, "own").await.expect("a branch of the machine's own");
    let busy = site.enter(&ci, "app@busy").await.expect("another branch");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(state(&mut site, "try").await, "ready", "somebody is there, though nothing happens");
    drop(client);
    until("it sleeps", async || state(&mut site, "try").await == "asleep").await;
    assert_eq!(one::<i32>(&busy, "select 1").await, 1);
    // Nothing wakes it but somebody who comes.
    sleep(Duration::from_secs(3)).await;
    assert_eq!(state(&mut site, "try").await, "asleep");
    let mut own_client = support::wire(&own.url).await;
    assert_eq!(
        one::<i64>(&own_client, "select count(*) from t").await,
        100,
        "it is entered beside the doors, and does not sleep"
    );

    // Ten at once: it is started once, and has what it had.
    for round in 0..3 {
        let all = futures_util::future::join_all((0..10).map(|_| site.enter(&ci, "try"))).await;
        for client in all {
            let client = client.expect("it woke");
            assert_eq!(
                one::<i64>(&client, "select count(*) from t where y = 'kept'").await,
                1,
                "round {round}"
            );
        }
        until("it sleeps again", async || state(&mut site, "try").await == "asleep").await;
    }
    // A statement without a connection wakes it too, and so does a reset.
    assert_eq!(
        query(&mut site.connection, "try", "select count(*) from t").await.expect("rows"),
        serde_json::json!([[101]])
    );
    until("it sleeps again", async || state(&mut site, "try").await == "asleep").await;
    site.connection.reset_branch("try").await.expect("a reset");
    assert_eq!(
        query(&mut site.connection, "try", "select count(*) from t").await.expect("rows"),
        serde_json::json!([[100]])
    );
    until("it sleeps again", async || state(&mut site, "try").await == "asleep").await;

    // It comes back with another daemon, and can be destroyed asleep.
    site.stop().await;
    let mut site = Site::again(&home, &options).await;
    let client = site.enter(&ci, "try").await.expect("it is there");
    assert_eq!(one::<i64>(&client, "select count(*) from t").await, 100);
    drop(client);
    until("it sleeps again", async || state(&mut site, "try").await == "asleep").await;
    site.connection.destroy_branch("try").await.expect("it is destroyed");
    own_client = support::wire(&site.connection.branch("own").await.unwrap().url).await;
    assert_eq!(one::<i32>(&own_client, "select 1").await, 1);
    site.stop().await;
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// Those who come in the very moment in which it falls asleep lose nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_loses_a_branch_that_is_about_to_fall_asleep() {
    let home = Home::new();
    let mut site = Site::open(&home, &["--pg-listen", "127.0.0.1:0", "--sleep-after", "10ms"]).await;
    let ci = site.user("ci").await;
    drop(site.enter(&ci, "app@try").await.expect("a branch"));
    let began = duramen_base::clock::now();
    let mut rounds = 0;
    while began.elapsed() < Duration::from_secs(10) {
        // Its looks are a second apart: come at another moment of that each time.
        sleep(Duration::from_millis(100 + 37 * (rounds % 30))).await;
        let client = site.enter(&ci, "try").await.unwrap_or_else(|error| panic!("round {rounds}: {error:?}"));
        client
            .batch_execute("select 1; select 2")
            .await
            .unwrap_or_else(|error| panic!("round {rounds}: {error:?}"));
        if rounds % 2 == 0 {
            drop(client);
            query(&mut site.connection, "try", "select 1")
                .await
                .unwrap_or_else(|error| panic!("round {rounds}: {error}"));
        }
        rounds += 1;
    }
    site.stop().await;
}
