//! One worker for all shards (SH-7): beside shards that are away, that come and that go.

use super::{cluster_of, Cluster};
use crate::common::{one, rows, Server, OWNER};
use crate::worker::{ended, eventually, execute, start, SOON};
use duramen_functions::cluster::{Clients, ClusterWorker, ShardState};
use duramen_functions::schema;
use duramen_functions::worker::{shard_of, Options, MEMORY};
use std::time::Duration;

pub(crate) fn options(url: &str) -> Options {
    Options {
        url: url.to_owned(),
        connections: 4,
        per_role: None,
        memory: MEMORY,
        lanes: Some(1),
        allow_superuser: true,
        rehearsal: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_worker_serves_all_shards_and_those_that_come() {
    let (databases, cluster, alice) = cluster_of(2).await;
    // It may read the list anywhere.
    let worker = ClusterWorker::start(options(&databases[1].url())).await.unwrap();
    let monitor = worker.monitor();
    assert_eq!(monitor.shards(), [(0, Ok(())), (1, Ok(()))]);
    let clients = Clients::connect(&databases[0].url_as(&alice)).await.unwrap();
    for database in &databases {
        let client = database.connect(&alice).await;
        let id = start(&client, "df.call('SELECT 7' ~> df.sleep(0.1) ~> 'SELECT 8')").await;
        ended(&client, &id, SOON).await.completed();
        assert_eq!(clients.of(&id).await.unwrap().status(&id).await.unwrap().as_deref(), Some("completed"));
    }
    let text = monitor.prometheus().await;
    for shard in 0..2 {
        let sample = format!("duramen_functions_ended_total{{shard=\"{shard}\"");
        assert!(text.contains(&sample), "{text}");
    }
    assert_eq!(text.matches("# TYPE duramen_functions_heard_seconds").count(), 1);

    let third = crate::common::database().await;
    execute(&third.owner().await, &[&format!("SELECT df.grant_usage('{alice}')")]).await;
    let added = cluster.add(&third.url()).await.unwrap();
    let client = third.connect(&alice).await;
    let id = start(&client, "'SELECT 1'").await;
    assert_eq!(shard_of(&id), Some(2));
    ended(&client, &id, SOON).await.completed();

    // One that is removed is served no longer.
    added.set(2, ShardState::Draining, false).await.unwrap();
    added.set(2, ShardState::Removed, false).await.unwrap();
    eventually(&third.owner().await, "SELECT count(*) FROM df._worker_epoch", "0", SOON).await;
    worker.drain(Duration::from_secs(5)).await;
    for database in &databases {
        let left = one(&database.owner().await, "SELECT count(*) FROM df._worker_epoch").await;
        assert_eq!(left.as_deref(), Some("0"));
    }
}

/// Two shards on servers of their own.
pub(super) async fn apart() -> (Server, Server, String, String, Cluster) {
    let servers = tokio::task::spawn_blocking(|| (Server::start(), Server::start())).await.unwrap();
    let mut urls = Vec::new();
    for server in [&servers.0, &servers.1] {
        let name = server.empty_database().await;
        let url = server.url(OWNER, &name);
        schema::install(&url).await.unwrap();
        execute(
            &server.connect(OWNER, &name).await,
            &["CREATE ROLE alice LOGIN", "SELECT df.grant_usage('alice')"],
        )
        .await;
        urls.push((url, name));
    }
    let cluster = Cluster::create(&[&urls[0].0, &urls[1].0]).await.unwrap();
    let (zero, one) = (urls[0].1.clone(), urls[1].1.clone());
    (servers.0, servers.1, zero, one, cluster)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_away_hinders_no_other_and_is_served_when_it_is_back() {
    let (zero, one, of_zero, of_one, cluster) = apart().await;
    let url = one.url(OWNER, &of_one);
    let worker = tokio::task::block_in_place(|| {
        zero.while_stopped(|| {
            tokio::runtime::Handle::current().block_on(async {
                let worker = ClusterWorker::start(options(&url)).await.unwrap();
                let shards = worker.monitor().shards();
                assert!(shards[0].1.is_err() && shards[1].1.is_ok(), "{shards:?}");
                assert!(worker.monitor().health().unwrap_err().contains("shard 0"));
                let client = one.connect("alice", &of_one).await;
                let id = start(&client, "'SELECT 7'").await;
                ended(&client, &id, SOON).await.completed();
                // Shard 0 decides what the list is, and is not there.
                let error = cluster.set(1, ShardState::Draining, false).await.unwrap_err().to_string();
                assert!(error.contains("cannot connect"), "{error}");
                let state = "SELECT state FROM df._shard WHERE shard = 1";
                assert_eq!(crate::common::one(&client, state).await.as_deref(), Some("open"));
                worker
            })
        })
    });
    let client = zero.connect("alice", &of_zero).await;
    let id = start(&client, "'SELECT 7'").await;
    ended(&client, &id, SOON).await.completed();
    assert_eq!(worker.monitor().health(), Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_missed_a_change_hears_of_it_from_a_worker() {
    // SH-3: killed between the decision and telling the others.
    let (zero, one_server, of_zero, of_one, cluster) = apart().await;
    let owner = zero.connect(OWNER, &of_zero).await;
    let list = one(
        &owner,
        "SELECT json_agg(json_build_object('shard', shard, 'place', place, 'keyed', keyed,
        'state', CASE shard WHEN 1 THEN 'draining' ELSE state END)) FROM df._shard",
    )
    .await
    .unwrap();
    let decide =
        format!("SELECT df._take_list('{}', 0, 2, '{}', true)", cluster.id(), list.replace('\'', "''"));
    execute(&owner, &[&decide]).await;
    let client = one_server.connect("alice", &of_one).await;
    // It does not know yet.
    start(&client, "'SELECT 1'").await;
    // A worker that reads the old list knows better after its first look, wherever it reads.
    let worker = ClusterWorker::start(options(&zero.url(OWNER, &of_zero))).await.unwrap();
    let other = ClusterWorker::start(options(&one_server.url(OWNER, &of_one))).await.unwrap();
    let there = one_server.connect(OWNER, &of_one).await;
    eventually(&there, "SELECT cluster_version FROM df._meta", "2", SOON).await;
    assert_eq!(
        rows(&there, "SELECT state FROM df._shard WHERE shard = 1").await[0][0].as_deref(),
        Some("draining")
    );
    drop((worker, other));
}
