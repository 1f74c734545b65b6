//! A list that was kept is put in force again where all shards went back, and nowhere else (SH-3).

use super::{cluster_of, execute, knows, Cluster, ClusterError, ShardState};
use duramen_functions::cluster::{ListRestored, ShardList};

/// All shards are put back to the first list, as if they were restored from dumps of that day.
async fn gone_back(databases: &[crate::common::Database<'static>]) {
    for database in databases {
        let sql = "UPDATE df._shard SET state = 'open'; UPDATE df._meta SET cluster_version = 1";
        database.owner().await.batch_execute(sql).await.unwrap();
    }
}

#[tokio::test]
async fn a_list_that_was_kept_is_put_back_where_all_have_gone_back() {
    let (databases, cluster, alice) = cluster_of(3).await;
    let first = cluster.copied().await;
    assert_eq!((first.version, first.shards.len()), (1, 3));
    let text = serde_json::to_string(&first).unwrap();
    assert!(!text.contains("password") && !text.contains(&alice), "{text}");
    assert_eq!(serde_json::from_str::<ShardList>(&text).unwrap(), first);
    cluster.set(2, ShardState::Draining, false).await.unwrap();
    // The one that is read may be behind; the newest is what is kept.
    execute(&databases[0].owner().await, &["UPDATE df._shard SET state = 'open'"]).await;
    execute(&databases[0].owner().await, &["UPDATE df._meta SET cluster_version = 1"]).await;
    let behind = Cluster::read(&databases[0].url()).await.unwrap();
    let second = behind.copied().await;
    assert_eq!((second.version, second.shards[2].state), (2, ShardState::Draining));
    // Others know it: nothing goes back.
    assert_eq!(behind.put_back(&first).await.unwrap(), ListRestored::Newer);
    assert_eq!(behind.put_back(&second).await.unwrap(), ListRestored::Same);

    gone_back(&databases).await;
    let back = Cluster::read(&databases[0].url()).await.unwrap();
    assert_eq!(back.put_back(&second).await.unwrap(), ListRestored::Restored);
    for database in &databases {
        let (_, version, list) = knows(database).await;
        assert_eq!((version.as_deref(), list[2][2].as_deref()), (Some("2"), Some("draining")));
    }
    let now = Cluster::read(&databases[1].url()).await.unwrap();
    assert_eq!(now.put_back(&second).await.unwrap(), ListRestored::Same);
    assert_eq!(now.put_back(&first).await.unwrap(), ListRestored::Newer);

    let mut other = second.clone();
    other.shards[1].keyed = false;
    assert!(matches!(now.put_back(&other).await, Err(ClusterError::Split { .. })));
    let foreign = ShardList { cluster: "00000000-0000-0000-0000-000000000000".to_owned(), ..second };
    assert!(matches!(now.put_back(&foreign).await, Err(ClusterError::Foreign { .. })));
    // Roles that may only use functions put nothing back.
    gone_back(&databases).await;
    let alices = Cluster::read(&databases[0].url_as(&alice)).await.unwrap();
    assert!(alices.put_back(&ShardList { version: 9, ..first }).await.is_err());
    assert_eq!(knows(&databases[0]).await.1.as_deref(), Some("1"));
}
