//! Whoever owns one shard's schema writes into its list what is not so (SH-9, SH-10): nobody who was given another shard's address is
//! led by it, and no password goes anywhere.

use super::workers::{apart, options};
use super::{cluster_of, knows, refused, Clients, Cluster, ClusterWorker, ShardState};
use crate::common::OWNER;
use crate::worker::{execute, start};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const SECRET: &str = "no-one-elses";

/// A machine that asks for the password in the clear, as a PostgreSQL may.
struct Thief {
    port: u16,
    visits: Arc<AtomicUsize>,
    stolen: Arc<AtomicUsize>,
}

impl Thief {
    async fn lurk() -> Thief {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let thief = Thief {
            port: listener.local_addr().unwrap().port(),
            visits: Arc::default(),
            stolen: Arc::default(),
        };
        let (visits, stolen) = (Arc::clone(&thief.visits), Arc::clone(&thief.stolen));
        tokio::spawn(async move {
            while let Ok((mut visitor, _)) = listener.accept().await {
                visits.fetch_add(1, Ordering::SeqCst);
                let stolen = Arc::clone(&stolen);
                tokio::spawn(async move {
                    let mut said = Vec::new();
                    let mut part = [0; 4096];
                    while let Ok(count @ 1..) = visitor.read(&mut part).await {
                        let is_tls_asked = count == 8 && part[4..8] == [0x04, 0xd2, 0x16, 0x2f];
                        said.extend_from_slice(&part[..count]);
                        let answer: &[u8] = if is_tls_asked { b"N" } else { b"R\0\0\0\x08\0\0\0\x03" };
                        if said.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes()) {
                            stolen.fetch_add(1, Ordering::SeqCst);
                            return;
                        }
                        if visitor.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        thief
    }

    fn place(&self) -> String {
        format!("host=''127.0.0.1'' port=''{}'' dbname=''jobs''", self.port)
    }

    fn seen(&self) -> (usize, usize) {
        (self.visits.load(Ordering::SeqCst), self.stolen.load(Ordering::SeqCst))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_owns_one_shard_leads_nobody_anywhere() {
    // SH-9.
    let thief = Thief::lurk().await;
    let (zero, other, of_zero, of_one, cluster) = apart().await;
    let url = format!("{}&password={SECRET}", zero.url("alice", &of_zero));
    let clients = Clients::connect(&url).await.unwrap();
    let owner = other.connect(OWNER, &of_one).await;
    let lie = [
        format!("UPDATE df._shard SET place = '{}'", thief.place()),
        format!("INSERT INTO df._shard VALUES (2, '{}', 'open', true)", thief.place()),
        "UPDATE df._meta SET cluster_version = 9".to_owned(),
    ];
    execute(&owner, &lie.each_ref().map(String::as_str)).await;

    // A client, that has its shard and misses one; also while the database that it was given is away.
    let client = other.connect("alice", &of_one).await;
    let id = start(&client, "'SELECT 1'").await;
    assert!(clients.of(&id).await.unwrap().status(&id).await.unwrap().is_some());
    let missing = clients.of("0020000000000001").await.err().unwrap().to_string();
    assert!(missing.contains("there is no shard 2"), "{missing}");
    tokio::task::block_in_place(|| {
        zero.while_stopped(|| {
            tokio::runtime::Handle::current().block_on(async {
                assert!(clients.of("0020000000000001").await.is_err());
                assert_eq!(clients.cluster().await.version(), 1);
            });
        });
    });

    // A worker, which looks at shard 1 first.
    let login = format!("{}&password={SECRET}", zero.url(OWNER, &of_zero));
    let worker = ClusterWorker::start(options(&login)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(13)).await;
    assert_eq!(worker.monitor().shards(), [(0, Ok(())), (1, Ok(()))]);
    worker.drain(Duration::from_secs(5)).await;

    // An operator, who is told, and decides.
    let message = refused(cluster.set(1, ShardState::Draining, false).await);
    assert!(message.contains("shard 1 has version 9") && message.contains("believe 0"), "{message}");
    assert_eq!(Cluster::read(&url).await.unwrap().version(), 1);
    let believed = cluster.believe(0).await.unwrap();
    assert_eq!((believed.version(), believed.shards().len()), (10, 2));
    assert_eq!(Cluster::read(&other.url(OWNER, &of_one)).await.unwrap().shards(), believed.shards());
    // A version that no number of changes leads to stands in nobody's way.
    execute(&owner, &[lie[0].as_str(), "UPDATE df._meta SET cluster_version = 9223372036854775807"]).await;
    assert_eq!(cluster.set(1, ShardState::Draining, false).await.unwrap().version(), 11);
    let message = refused(cluster.believe(1).await);
    assert!(message.contains("nothing to put in force"), "{message}");
    assert_eq!(thief.seen(), (0, 0), "visits, and passwords");

    // That it would have been noticed: the database that was given is believed.
    let owner = zero.connect(OWNER, &of_zero).await;
    execute(&owner, &[&format!("UPDATE df._shard SET place = '{}' WHERE shard = 1", thief.place())]).await;
    let clients = Clients::connect(&url).await.unwrap();
    assert!(clients.on(1).await.is_err());
    assert_eq!(thief.seen().1, 1);
}

#[tokio::test]
async fn of_a_place_nothing_counts_but_where_it_is() {
    // SH-10: no role, no password, no setting, and no weaker encryption.
    let (databases, _, alice) = cluster_of(2).await;
    let owner = databases[0].owner().await;
    let place = "host=b port=6001 dbname=jobs user=eve password=x options=''-c role=eve'' application_name=eve sslmode=disable";
    execute(&owner, &[&format!("UPDATE df._shard SET place = '{place}' WHERE shard = 1")]).await;
    for (sslmode, kept) in [("", "prefer"), ("&sslmode=require", "require"), ("&sslmode=disable", "disable")]
    {
        let url = format!("{}&password={SECRET}{sslmode}", databases[0].url_as(&alice));
        // A server without TLS refuses who demands it: the list is read without.
        let read = Cluster::read(&databases[0].url_as(&alice)).await.unwrap();
        let login = duramen_postgres::connection::Target::parse(&url).unwrap();
        let shard = read.shard(1).unwrap();
        let target = duramen_postgres::connection::Target::parse(&shard.place).unwrap().login_of(&login);
        let exposed = target.exposed();
        assert!(exposed.contains("host='b' ") && exposed.contains("dbname='jobs'"), "{exposed}");
        assert!(exposed.contains(&format!("user='{alice}' password='{SECRET}'")), "{exposed}");
        assert!(exposed.contains(&format!("sslmode='{kept}'")) && !exposed.contains("eve"), "{exposed}");
        let led = read.target_of(shard).unwrap().exposed();
        assert!(!led.contains("eve"), "{led}");
    }
    assert_eq!(knows(&databases[1]).await.1.as_deref(), Some("1"));
}
