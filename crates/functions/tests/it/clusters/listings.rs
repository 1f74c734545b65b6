//! Lists over shards (SH-11).

use super::workers::apart;
use super::{cluster_of, start};
use crate::common::OWNER;
use crate::worker::execute;
use duramen_base::clock;
use duramen_functions::cluster::{Cluster, Wanted};
use std::time::Duration;

#[tokio::test]
async fn every_instance_is_listed_once_in_one_order_whatever_is_started_meanwhile() {
    let (databases, cluster, alice) = cluster_of(3).await;
    // The owner of one shard allows less than is wanted.
    let owner = databases[1].owner().await;
    let limit = format!("ALTER DATABASE {} SET df.list_instances_max_limit = 2", databases[1].name());
    execute(&owner, &[&limit]).await;
    let mut clients = Vec::new();
    for database in &databases {
        clients.push(database.connect(&alice).await);
    }
    let mut started = Vec::new();
    for number in 0..20 {
        started.push(start(&clients[[0, 1, 1, 2, 0][number % 5]], "'SELECT 1', 'listed'").await);
    }
    started.reverse();
    for many in [1, 3, 7, 1000] {
        let wanted = Wanted { label: Some("listed".to_owned()), ..Wanted::default() };
        let mut lister = cluster.lister(wanted);
        let mut seen = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = lister.page(many, cursor.as_deref()).await.unwrap();
            assert!(page.missing.is_empty(), "{:?}", page.missing);
            assert!(page.instances.len() <= many as usize);
            seen.extend(page.instances.into_iter().map(|found| found.id));
            start(&clients[seen.len() % 3], "'SELECT 1', 'later'").await;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, started, "{many} a page");
    }
    let later = Wanted { label_like: Some("list%".to_owned()), ..Wanted::default() };
    let (groups, missing) = cluster.lister(later).count().await.unwrap();
    assert_eq!((groups.len(), groups[0].count, missing.len()), (1, 20, 0), "{groups:?}");
    assert_eq!((groups[0].status.as_str(), groups[0].role.as_str()), ("pending", alice.as_str()));
    // What is wanted must be something.
    let nonsense = Wanted { status: Some("tired".to_owned()), ..Wanted::default() };
    let message = cluster.lister(nonsense).page(1, None).await.unwrap_err().to_string();
    assert!(message.contains("unknown status"), "{message}");
    let message = cluster.lister(Wanted::default()).page(1, Some("x")).await.unwrap_err().to_string();
    assert!(message.contains("invalid after_cursor"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_away_is_named_and_does_not_begin_in_the_middle_of_a_list() {
    let (zero, other, of_zero, of_one, _) = apart().await;
    let mut ids = Vec::new();
    for (server, name) in [(&zero, &of_zero), (&other, &of_one)] {
        let client = server.connect("alice", name).await;
        ids.push(start(&client, "'SELECT 1'").await);
        ids.push(start(&client, "'SELECT 2'").await);
    }
    let cluster = Cluster::read(&other.url(OWNER, &of_one)).await.unwrap();
    let mut lister = cluster.lister(Wanted::default());
    let (page, took) = tokio::task::block_in_place(|| {
        zero.while_stopped(|| {
            tokio::runtime::Handle::current().block_on(async {
                let began = clock::now();
                (lister.page(1, None).await.unwrap(), began.elapsed())
            })
        })
    });
    assert!(took < Duration::from_secs(16), "{took:?}");
    assert_eq!(page.missing.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(), [0]);
    assert!(page.missing[0].1.contains("cannot connect"), "{:?}", page.missing);
    assert_eq!((page.instances.len(), &page.instances[0].id), (1, &ids[3]));
    // It is back, and its newest would come before what was listed.
    let next = lister.page(10, page.next.as_deref()).await.unwrap();
    assert_eq!(next.instances.iter().map(|found| &found.id).collect::<Vec<_>>(), [&ids[2]]);
    assert_eq!((next.missing.len(), next.next), (1, None));
    let anew = cluster.lister(Wanted::default()).page(10, None).await.unwrap();
    assert_eq!((anew.instances.len(), anew.missing), (4, vec![]));
    // None at all is an error, and not an empty list.
    let nobody = tokio::task::block_in_place(|| {
        zero.while_stopped(|| {
            other.while_stopped(|| {
                tokio::runtime::Handle::current()
                    .block_on(async { cluster.lister(Wanted::default()).page(1, None).await })
            })
        })
    });
    assert!(nobody.is_err());
}
