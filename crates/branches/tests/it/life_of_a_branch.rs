//! From import to destruction on real servers.

use crate::support::{lease, pool, query, rows, settle, Home};
use duramen_api::model::{
    AddSource, CreateBranch, Origin, Policy, ProtectBranch, RenewBranch, SourceSettings,
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flights_are_imported_branched_written_and_given_back() {
    let home = Home::new();
    let engine = home.open().await;
    let request = AddSource {
        name: "flights".to_owned(),
        origin: Origin::Flights { rows: Some(5000) },
        database: None,
        settings: pool(&[(Policy::ReadWrite, 3), (Policy::ReadOnly, 1), (Policy::Ddl, 1)]),
    };
    let view = engine.add_source(request, |_, _| {}).await.expect("the import");
    assert_eq!((view.database.as_str(), view.generation), ("flights", 1));
    settle(&engine).await;

    let branch = lease(&engine, "one", Policy::ReadWrite).await;
    assert_eq!((branch.data.as_str(), branch.durable), ("full", false));
    let again = lease(&engine, "one", Policy::ReadWrite).await;
    assert!(again.existing && again.id == branch.id, "create is idempotent by name");
    assert_eq!(rows(&engine, "one", "select count(*) from flights").await, json!([[5000]]));
    let first =
        "insert into events (flight_id, kind, payload) values (7, 'seen', '{\"by\": 1}') returning id";
    assert_eq!(rows(&engine, "one", first).await, json!([[1]]), "the warm-up gave its id back");

    lease(&engine, "two", Policy::ReadWrite).await;
    assert_eq!(
        rows(&engine, "two", "select count(*) from events").await,
        json!([[0]]),
        "branches are isolated"
    );
    lease(&engine, "reader", Policy::ReadOnly).await;
    lease(&engine, "builder", Policy::Ddl).await;
    query(&engine, "builder", "create table built (id int primary key)").await.expect("DDL");

    let reset = engine.reset("one").await.expect("reset");
    let place = |url: &str| url.split("&password=").next().map(str::to_owned);
    assert_eq!(
        (place(&reset.url), &reset.id),
        (place(&branch.url), &branch.id),
        "a reset keeps lease and socket"
    );
    assert_ne!(reset.url, branch.url, "and gives another secret");
    assert_eq!(rows(&engine, "one", "select count(*) from events").await, json!([[0]]));

    engine.protect("one", ProtectBranch { protected: true }).expect("protect");
    assert_eq!(engine.destroy("one").unwrap_err().code, "protected");
    engine.protect("one", ProtectBranch { protected: false }).expect("unprotect");
    let renewed = engine.renew("one", RenewBranch { ttl_s: Some(10), expires_at: None }).expect("renew");
    assert!(renewed.expires_at < branch.expires_at);

    let evidence = engine.evidence("one").await.expect("evidence");
    assert!(evidence.source.unchanged, "{:?}", evidence.source);
    assert_eq!(evidence.snapshot_digest, evidence.snapshot_digest_now);
    assert!(evidence.events.len() >= 5, "{:?}", evidence.events);

    for name in ["one", "two", "reader", "builder"] {
        engine.destroy(name).expect("destroy");
    }
    settle(&engine).await;
    assert!(engine.verify_audit().await.expect("verify").intact);
    let cold = engine.measure_cold("flights", Policy::ReadWrite).await.expect("cold");
    println!("{cold:?}");
    engine.close().await.expect("close");
    assert!(duramen_postgres::processes_below(home.path()).is_empty(), "no process is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_makes_the_next_generation_and_old_branches_go_on() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "old", Policy::ReadWrite).await;
    std::fs::write(home.beside("app.sql"), "create table t as select 2 as x;").expect("the new script");
    let view = engine.refresh_source("app", |_, _| {}).await.expect("refresh");
    assert_eq!(view.generation, 2);
    settle(&engine).await;
    lease(&engine, "new", Policy::ReadWrite).await;
    assert_eq!(rows(&engine, "old", "select x from t").await, json!([[1]]));
    assert_eq!(rows(&engine, "new", "select x from t").await, json!([[2]]));
    assert_eq!(engine.branch("old").expect("old").generation, 1);
    engine.reset("old").await.expect("a branch of an old generation can be reset");
    assert_eq!(rows(&engine, "old", "select x from t").await, json!([[1]]));
    let first = home.path().join("volumes/snapshots/app.000001");
    assert!(first.exists());
    engine.destroy("old").expect("destroy");
    settle(&engine).await;
    assert!(!first.exists(), "an unused generation is removed");
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_end_by_themselves_and_the_queue_is_fair() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", SourceSettings::default()).await;
    engine
        .change_settings(
            "app",
            duramen_api::model::ChangeSettings {
                hot: [(Policy::ReadWrite, 0)].into(),
                cold: Some(0),
                ..Default::default()
            },
        )
        .await
        .expect("settings");
    // With nothing ready, creates wait in the queue and are served in the order of asking.
    let mut order = Vec::new();
    let mut tasks = Vec::new();
    for number in 0..4 {
        let engine = engine.clone();
        tasks.push(tokio::spawn(async move {
            let name = format!("n{number}");
            let request = CreateBranch { name: Some(name), ttl_s: Some(1), ..CreateBranch::default() };
            engine.create(request).await.expect("a branch after a wait")
        }));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for task in tasks {
        order.push(task.await.expect("the task"));
    }
    assert_eq!(order.len(), 4);
    let refused =
        engine.create(CreateBranch { wait_ms: Some(0), ..CreateBranch::default() }).await.unwrap_err();
    assert_eq!(refused.code, "no_branch_ready");
    for _ in 0..100 {
        if engine.branches().is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(engine.branches().is_empty(), "expired leases are reaped");
    engine.close().await.expect("close");
}
