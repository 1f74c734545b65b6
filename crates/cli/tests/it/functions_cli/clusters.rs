//! Several databases: `duramen fn cluster`, a worker of all of them, and ids that lead to their shard.

use super::{
    common::{self, one},
    metrics::get,
    shell::Shell,
};
use rustix::process::Signal;
use serde_json::{json, Value};

fn states(listed: &Value) -> Vec<(u64, String)> {
    let shards = listed["shards"].as_array().unwrap();
    shards
        .iter()
        .map(|shard| (shard["shard"].as_u64().unwrap(), shard["state"].as_str().unwrap().to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_are_made_a_cluster_and_ids_lead_to_their_shard() {
    let (zero, one_more, late) =
        (common::database().await, common::database().await, common::database().await);
    let alice = zero.role("alice").await;
    for database in [&one_more, &late] {
        let grant = format!("SELECT df.grant_usage('{alice}')");
        database.owner().await.batch_execute(&grant).await.unwrap();
    }
    let operator = Shell::new(&zero.url());
    assert!(operator.fails(1, &["cluster", "list"]).contains("belongs to no cluster"));
    let made = operator.json(&["cluster", "create", &zero.url(), &one_more.url()]);
    assert_eq!(states(&made), [(0, "open".to_owned()), (1, "open".to_owned())]);
    assert_eq!(made["version"], json!(1));
    assert!(operator
        .fails(1, &["cluster", "create", &zero.url(), &late.url()])
        .contains("belongs to a cluster already"));

    let mut worker = operator.worker(&["--cluster", "--metrics", "127.0.0.1:0"]);
    let address = worker.ready.split_once("http://").unwrap().1.strip_suffix("/metrics").unwrap().to_owned();
    let shell = Shell::new(&zero.url_as(&alice));
    let id = shell.json(&["start", "SELECT 7 AS n", "--shard", "1"])["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("001") && id.len() == 16, "{id}");
    // Asked on shard 0, answered by shard 1.
    shell.ok(&["await", &id, "--timeout", "60s"]);
    assert_eq!(shell.ok(&["status", &id]).trim(), "completed");
    assert!(shell.ok(&["result", &id]).contains(r#""n":7"#));
    assert!(shell.ok(&["show", &id]).contains(&id));
    assert_eq!(shell.json(&["export", &id])["id"], json!(id));
    assert!(shell.fails(1, &["cancel", "0070000000000001"]).contains("shard 7"));
    let page = get(&address, "/metrics");
    for shard in 0..2 {
        assert!(page.contains(&format!("duramen_functions_lanes{{shard=\"{shard}\"}}")), "{page}");
    }
    assert!(get(&address, "/health").starts_with("HTTP/1.1 200 "));
    // With a key it is always the same.
    let first = shell.json(&["start", "SELECT 1", "--shard", "any", "--key", "order 7"]);
    assert_eq!(shell.json(&["start", "SELECT 1", "--shard", "any", "--key", "order 7"]), first);
    assert!(shell.fails(2, &["start", "SELECT 1", "--shard", "some"]).contains("neither a shard number nor"));

    // Of all shards, in one list.
    let id = shell.json(&["start", "SELECT 8", "--shard", "0"])["id"].as_str().unwrap().to_owned();
    shell.ok(&["await", &id, "--timeout", "60s"]);
    let listed = shell.json(&["list", "--cluster", "--all"]);
    let shards: Vec<u64> =
        listed["instances"].as_array().unwrap().iter().map(|one| one["shard"].as_u64().unwrap()).collect();
    assert_eq!((shards.len(), shards.contains(&0), shards.contains(&1)), (3, true, true), "{listed}");
    assert_eq!((&listed["instances"][0]["id"], &listed["missing"]), (&json!(id), &json!([])), "{listed}");
    assert!(shell.ok(&["list", "--cluster", "--limit", "1"]).contains("SHARD"));
    assert_eq!(shell.json(&["list", "--cluster", "--count"])["total"], json!(3));
    // One that is not where it should be is named, and the list is not called whole.
    let astray = "UPDATE df._shard SET place = 'host=/nowhere dbname=x' WHERE shard = 1";
    let right: String = zero
        .owner()
        .await
        .query_one("SELECT place FROM df._shard WHERE shard = 1", &[])
        .await
        .unwrap()
        .get(0);
    zero.owner().await.batch_execute(astray).await.unwrap();
    let partial = shell.run(&["list", "--cluster"]);
    let noted = String::from_utf8_lossy(&partial.stderr).into_owned();
    assert_eq!(partial.status.code(), Some(1), "{noted}");
    assert!(noted.contains("without shard 1"), "{noted}");
    assert!(String::from_utf8_lossy(&partial.stdout).contains(&id));
    let back = format!("UPDATE df._shard SET place = '{}' WHERE shard = 1", right.replace('\'', "''"));
    zero.owner().await.batch_execute(&back).await.unwrap();

    let added = operator.json(&["cluster", "add", &late.url()]);
    assert_eq!(states(&added).len(), 3);
    let drained = operator.json(&["cluster", "drain", "2"]);
    assert_eq!(states(&drained)[2].1, "draining");
    assert!(shell.fails(1, &["start", "SELECT 1", "--shard", "2"]).contains("takes no new instances"));
    assert_eq!(states(&operator.json(&["cluster", "remove", "2"]))[2].1, "removed");
    let table = operator.ok(&["cluster", "list"]);
    assert!(table.contains("removed") && table.contains("open"), "{table}");
    // No password and no role is told, whatever the list was read with.
    assert!(!operator.ok(&["cluster", "list", "--json"]).contains("postgres@"), "{table}");
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code(), Some(0), "{}", worker.log());
    let left = one(&one_more.owner().await, "SELECT count(*) FROM df._worker_epoch").await;
    assert_eq!(left.as_deref(), Some("0"));
}
