//! A shard that stalls at each round trip of a change in turn, before the server hears of it and after it has done it: the change ends in
//! time, says so, and done again it is whole (SH-2, SH-3).

use super::{knows, Cluster, ClusterError, ShardState};
use crate::common::{database, Database, OWNER};
use crate::proxy::{Proxy, RoundTrip, Side};
use duramen_base::clock;
use futures_util::future::join_all;
use std::time::Duration;

/// Longer than one question may take, and not as long as two.
const IN_TIME: Duration = Duration::from_secs(25);

fn stall(database: &Database<'static>, asks: &'static str, side: Side) -> Proxy {
    let stall_at = RoundTrip { database: database.name().to_owned(), asks, nth: 0, side };
    Proxy::start(database.server(), stall_at)
}

/// A shard that stalls while the cluster is made: of two, which one it is, and where.
async fn made_although(stalls: usize, asks: &'static str, side: Side) {
    let databases = [database().await, database().await];
    let proxy = stall(&databases[stalls], asks, side);
    let mut urls = [databases[0].url(), databases[1].url()];
    urls[stalls] = proxy.url(OWNER, databases[stalls].name());
    let urls = [&urls[0][..], &urls[1][..]];
    proxy.arm();
    let begun = clock::now();
    let (made, ()) = tokio::join!(Cluster::create(&urls), proxy.stalled());
    assert!(begun.elapsed() < IN_TIME, "{asks} {side:?}: {:?}", begun.elapsed());
    assert!(matches!(made, Err(ClusterError::Late { .. })), "{asks} {side:?}: {made:?}");
    // What was held back arrives now, late.
    proxy.go_on();
    let mut again = Cluster::create(&urls).await;
    for _ in 0..3 {
        if again.is_err() {
            again = Cluster::create(&urls).await;
        }
    }
    let cluster = again.unwrap_or_else(|error| panic!("{asks} {side:?}: {error}"));
    assert_eq!(cluster.version(), 1);
    for (number, database) in databases.iter().enumerate() {
        let (shard, version, list) = knows(database).await;
        assert_eq!((shard, version.as_deref(), list.len()), (Some(number.to_string()), Some("1"), 2));
    }
    // Whoever is not told of a change hears of it with the next one.
    let drained = cluster.set(1, ShardState::Draining, false).await.unwrap();
    assert_eq!(drained.version(), 2);
    assert_eq!(knows(&databases[1]).await.1.as_deref(), Some("2"));
}

/// A shard that stalls when it is told of a change: the change is decided all the same, and the shard is told by the next.
async fn decided_although(side: Side) {
    let databases = [database().await, database().await];
    let proxy = stall(&databases[1], "df._take_list", side);
    let through = proxy.url(OWNER, databases[1].name());
    let cluster = Cluster::create(&[&databases[0].url(), &through]).await.unwrap();
    proxy.arm();
    let begun = clock::now();
    let (drained, ()) = tokio::join!(cluster.set(1, ShardState::Draining, false), proxy.stalled());
    assert!(begun.elapsed() < IN_TIME, "{side:?}: {:?}", begun.elapsed());
    assert_eq!(drained.unwrap().version(), 2);
    // A removal asks the shard itself, and does not take its silence for consent.
    let removed = cluster.set(1, ShardState::Removed, false).await;
    assert!(matches!(removed, Err(ClusterError::Connect(_) | ClusterError::Late { .. })), "{removed:?}");
    proxy.go_on();
    assert_eq!(cluster.set(1, ShardState::Open, false).await.unwrap().version(), 3);
    assert_eq!(knows(&databases[1]).await.1.as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_stalls_ends_no_change_half_done() {
    let mut stalls = Vec::new();
    for asks in ["df._identity", "df._join", "df._take_list"] {
        for side in [Side::Request, Side::Answer] {
            for shard in 0..2 {
                stalls.push(made_although(shard, asks, side));
            }
        }
    }
    tokio::join!(join_all(stalls), decided_although(Side::Request), decided_although(Side::Answer));
}
