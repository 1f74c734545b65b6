//! A branch pays for the database that it serves, not for the others of its cluster.

use crate::{
    origin::{import, OtherServer},
    support::{lease, majors, rows, settle, Home},
};
use duramen_api::model::Policy;
use serde_json::json;
use std::fs;

const DATABASES: u64 = 8;
/// What sessions that are a holder's leave in each of the others. A vacuum leaves 44 KB.
const EACH_MAX: u64 = 12 << 10;

/// The counters that each branch reads when it starts, in bytes, of a source with this many more databases; and that those
/// of its own database are there.
async fn counters(major: u32, more: u64) -> u64 {
    let home = Home::new();
    let mut origin = OtherServer::start(&home, major).await;
    origin.run("shop", "create table t (x int);; insert into t select generate_series(1, 100)").await;
    for number in 0..more {
        origin.run("postgres", &format!("create database other_{number} template shop")).await;
    }
    origin.stop();
    let engine = home.open().await;
    import(&engine, "app", origin.directory(), &[Policy::ReadWrite]).await.expect("the import");
    settle(&engine).await;
    lease(&engine, "try", Policy::ReadWrite).await;
    let counted = "select n_live_tup, last_analyze is not null from pg_stat_user_tables where relname = 't'";
    assert_eq!(rows(&engine, "try", counted).await, json!([[100, true]]));
    engine.close().await.expect("close");
    let engine = home.open().await;
    let stats = home.path().join("volumes/snapshots/app.000001/pg_stat");
    let files = fs::read_dir(stats).expect("the snapshot's counters").flatten();
    let bytes = files.map(|file| file.metadata().expect("a file").len()).sum();
    engine.close().await.expect("close");
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_databases_cost_a_branch_no_memory() {
    let major = *majors().iter().max().expect("a server");
    let (one, many) = (counters(major, 0).await, counters(major, DATABASES).await);
    assert!(one > 0, "counters are kept where they are looked for");
    assert!(
        many < one + DATABASES * EACH_MAX,
        "{one} bytes of counters, and {many} with {DATABASES} more databases"
    );
}
