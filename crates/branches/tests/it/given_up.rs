//! Callers that go away in the middle: what was written down is in force, and what nobody has is gone.

use crate::{
    dumps::lease_of,
    origin::OtherServer,
    support::{lease, majors, pool, rows, settle, signal_all_below, until, Home},
};
use bytes::Bytes;
use duramen_api::model::{AddSource, ChangeSettings, ExportFormat, FollowSettings, Origin, Policy};
use duramen_branches::{Engine, WantedExport};
use duramen_postgres::processes_below;
use rustix::process::Signal;
use serde_json::json;
use std::{fs, path::Path, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};

const LOGICAL: &str = "wal_level = logical";
const SHOP: &str =
    "create table goods (id int primary key);; insert into goods select generate_series(1, 100)";

/// A source that follows an origin by logical replication, and the origin.
async fn followed(home: &Home, engine: &Arc<Engine>) -> OtherServer {
    let origin = OtherServer::start_with(home, majors()[0], LOGICAL).await;
    origin.run("shop", SHOP).await;
    let from = Origin::Logical { url: origin.url(), pg: None, without_extensions: Vec::new() };
    let settings = pool(&[(Policy::ReadWrite, 1)]);
    let request = AddSource { name: "app".to_owned(), origin: from, database: None, settings };
    engine.add_source(request, |_, _| {}).await.expect("the import");
    let follow = FollowSettings { enabled: true, logical: true, ..FollowSettings::default() };
    let change = ChangeSettings { follow: Some(follow), ..ChangeSettings::default() };
    engine.change_settings("app", change).await.expect("it follows");
    engine.refresh_source("app", |_, _| {}).await.expect("a generation of the follower");
    origin
}

/// An origin that takes connections and says nothing: what has to be dropped there is waited for.
fn stand_still(origin: &OtherServer) {
    signal_all_below(origin.cluster.data_dir(), Signal::STOP);
}

fn go_on(origin: &OtherServer) {
    signal_all_below(origin.cluster.data_dir(), Signal::CONT);
}

fn count(dir: &Path, is_one: impl Fn(&str) -> bool) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| is_one(&entry.file_name().to_string_lossy())).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_were_written_down_are_in_force() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = followed(&home, &engine).await;
    stand_still(&origin);
    let change = ChangeSettings {
        follow: Some(FollowSettings::default()),
        hot: [(Policy::ReadWrite, 2)].into(),
        ..ChangeSettings::default()
    };
    let given_up = timeout(Duration::from_secs(2), engine.change_settings("app", change)).await;
    assert!(given_up.is_err(), "the origin does not answer");
    let source = engine.source("app").expect("the source");
    assert!(source.follow.is_none(), "{source:?}");
    assert_eq!(source.settings.pool.hot.get(&Policy::ReadWrite), Some(&2));
    assert!(!home.path().join("volumes/standbys/app").exists());
    go_on(&origin);
    engine.close().await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_was_removed_leaves_nothing() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = followed(&home, &engine).await;
    stand_still(&origin);
    let given_up = timeout(Duration::from_secs(5), engine.remove_source("app")).await;
    assert!(given_up.is_err(), "the origin does not answer");
    assert_eq!(count(&home.path().join("volumes/snapshots"), |_| true), 0);
    assert!(!home.path().join("sources/app").exists());
    let log = engine.verify_audit().await.expect("the log");
    assert!(log.intact, "{log:?}");
    go_on(&origin);
    engine.close().await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_nobody_waits_for_leaves_no_volume() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(
        &engine,
        "create table t (x int); insert into t values (1);",
        pool(&[(Policy::ReadWrite, 1)]),
    )
    .await;
    lease(&engine, "one", Policy::ReadWrite).await;
    settle(&engine).await;
    let volumes = home.path().join("volumes/branches");
    let there = || count(&volumes, |_| true);
    let before = there();
    for step in 0..16_u64 {
        let (told, mut received) = mpsc::channel::<Bytes>(4);
        let wanted = WantedExport { format: ExportFormat::Plain, jobs: 1, quiesce: step % 2 == 0 };
        let receiving = tokio::spawn(async move { while received.recv().await.is_some() {} });
        let _ = timeout(Duration::from_millis(step * 25), engine.export(None, "one", wanted, &told)).await;
        drop(told);
        receiving.await.expect("it received");
    }
    until("no volume is left", async || there() == before).await;
    assert_eq!(rows(&engine, "one", "select count(*)::int from t").await, json!([[1]]));
    engine.close().await.expect("it closes");
}

/// Neither a branch that is measured nor one that settings are tried on outlives whoever asked for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_made_for_one_question_goes_with_the_question() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 1)])).await;
    settle(&engine).await;
    let (branches, source) = (home.path().join("volumes/branches"), engine.sources()[0].name.clone());
    let there = || (count(&branches, |_| true), processes_below(&branches).len());
    let before = there();
    for step in 0..12_u64 {
        let limit = Duration::from_millis(step * 40);
        let _ = timeout(limit, engine.measure_cold(&source, Policy::ReadWrite)).await;
        let server = [("work_mem".to_owned(), format!("{}MB", step + 1))].into();
        let change = ChangeSettings { server, ..ChangeSettings::default() };
        let _ = timeout(limit, engine.change_settings(&source, change)).await;
    }
    until("nothing is left but the pool", async || engine.status().settled && there() == before).await;
    engine.close().await.expect("it closes");
}

/// Nobody waits for what a look at an origin would find: it keeps no lock there, and waits for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_at_an_origin_ends_with_who_wanted_it() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = OtherServer::start(&home, majors()[0]).await;
    origin.run("shop", SHOP).await;
    let from = Origin::Server { url: origin.url() };
    let settings = pool(&[(Policy::ReadWrite, 1)]);
    let request =
        AddSource { name: "app".to_owned(), origin: from, database: Some("shop".to_owned()), settings };
    engine.add_source(request, |_, _| {}).await.expect("the import");
    let locked = origin.client("boss", "shop").await;
    locked.batch_execute("begin; lock table goods in access exclusive mode").await.expect("a lock");
    let asking = origin.client("boss", "shop").await;
    let ours = "select count(*) from pg_stat_activity where application_name = 'duramen' and wait_event_type = 'Lock'";
    let waiting = async || asking.query_one(ours, &[]).await.expect("a count").get::<_, i64>(0);
    for _ in 0..3 {
        let look = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move { engine.fingerprint_source("app").await.map(drop) }
        });
        until("it waits", async || waiting().await == 1).await;
        look.abort();
        until("it waits no more", async || waiting().await == 0).await;
    }
    locked.batch_execute("commit").await.expect("the lock is given back");
    engine.fingerprint_source("app").await.expect("a fingerprint");
    lease_of(&engine, "app", "one").await;
    engine.close().await.expect("it closes");
}
